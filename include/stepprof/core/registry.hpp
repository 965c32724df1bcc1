// The one mutable global: the gate, and the table of everything that is too slow or too rare for the hot path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <stepprof/core/record_flags.hpp>
#include <stepprof/core/shared_text.hpp>
#include <stepprof/core/thread_log.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// A call site of the macros. Constant-initialised; its name is registered when it first records.
struct call_site {
  const char* name;
  const char* file;
  std::uint32_t line;
  std::atomic<std::uint32_t> what;  // of the begin word of a user annotation; 0: not registered
};

// A piece of a longer record.
struct record_part {
  const void* data;
  std::uint32_t bytes;
};

inline constexpr std::uint32_t cold_table_abi = 3;

// Cold paths. Functions of whichever module starts the first profile; a program that only marks regions needs none of
// them, nor any service of the system. None blocks, none throws.
struct cold_table {
  std::uint32_t abi;
  // A begin and an end that did not fit the hot path, which has entered the recorder (writer::inside); these leave it.
  // `begin` returns the logical thread whose log holds the begin, or 0 when it was refused (and counted); `thread` is
  // what it returned.
  std::uint32_t (*begin)(stamp time, std::uint32_t what) noexcept;
  void (*end)(stamp time, std::uint32_t id, std::uint32_t thread) noexcept;
  // What call_site::what holds from then on.
  std::uint32_t (*register_site)(call_site& site) noexcept;
  // The id of a name.
  std::uint32_t (*intern)(const char* text, std::size_t size) noexcept;
  // Appends one record of up to four parts; `what` as in the word, `low` the payload size for untimed records.
  // `reserve` is how many bytes are kept for a later end. False when it was refused and counted.
  bool (*append)(std::uint32_t what, bool timed, const record_part* parts, std::uint32_t count,
                 std::int32_t reserve) noexcept;
  void (*set_thread_name)(const char* text, std::size_t size) noexcept;
};

struct STEPPROF_SHARED registry {
  // Which record_flags hold. Opened with release after the table is in place.
  std::atomic<std::uint32_t> gate;
  std::atomic<const cold_table*> cold;
  std::atomic<std::uint32_t> next_thread;  // logical ids, from 1, never reused
  std::atomic<std::uint32_t> next_serial;  // of manual scopes
  shared_text process_name;                // set_process_name; empty: the program's own name
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT registry the_registry = {{0}, {nullptr}, {1}, {1}, {}};

// Acquire: the table's contents are visible with the pointer.
STEPPROF_ALWAYS_INLINE const cold_table* cold_paths() noexcept {
  return the_registry.cold.load(std::memory_order_acquire);
}

STEPPROF_COLD inline std::uint64_t begin_slowly(std::uint32_t what, std::uint32_t low, std::uint32_t high) noexcept {
  return static_cast<std::uint64_t>(cold_paths()->begin(stamp{low, high}, what)) << 32;
}
STEPPROF_COLD inline void end_slowly(std::uint32_t what, std::uint32_t low, std::uint64_t key) noexcept {
  cold_paths()->end(stamp{low, static_cast<std::uint32_t>(key)}, what & id_mask, static_cast<std::uint32_t>(key >> 32));
}

// Writes a begin word. Returns the logical thread whose log holds it << 32, 0 when it was refused.
template <class Clock>
STEPPROF_ALWAYS_INLINE std::uint64_t begin_scope(std::uint32_t what) noexcept {
  const stamp now = Clock::begin();
  if (STEPPROF_UNLIKELY(++this_thread.own.inside != 0)) return begin_slowly(what, now.low, now.high);
  signal_fence();  // from here to the next fence a handler is refused
  if (STEPPROF_UNLIKELY(now.high != static_cast<std::uint32_t>(this_thread.own.key)))
    return begin_slowly(what, now.low, now.high);
  chunk_header* const chunk = this_thread.own.chunk;
  char* const at = cursor(chunk);
  // Positions are multiples of 8: room for the word and for its end.
  if (STEPPROF_UNLIKELY(at + 8 >= this_thread.own.limit)) return begin_slowly(what, now.low, now.high);
  store_word(at, now.low, what);
  this_thread.own.limit -= 8;
  publish(chunk, at + 8);
  signal_fence();
  --this_thread.own.inside;
  const std::uint64_t thread = this_thread.own.thread;
  STEPPROF_ASSUME(thread != 0);
  return thread;
}

// Writes the end word of a scope whose begin is in the log of `thread`, and whose begin word said `what` if it is a
// user annotation. Threads are told by their number, which is never used again: the address of a thread's writer may be
// that of a thread that has ended.
template <class Clock>
STEPPROF_ALWAYS_INLINE void end_scope(std::uint64_t thread, std::uint32_t what) noexcept {
  const stamp now = Clock::end();
  const std::uint64_t key = thread | now.high;
  if (STEPPROF_UNLIKELY(++this_thread.own.inside != 0)) return end_slowly(what, now.low, key);
  signal_fence();
  if (STEPPROF_UNLIKELY(key != this_thread.own.key)) return end_slowly(what, now.low, key);
  chunk_header* const chunk = this_thread.own.chunk;
  char* const at = cursor(chunk);
  store_word(at, now.low, what + (what_of(tag::end, 0) - what_of(tag::begin_user, 0)));
  this_thread.own.limit += 8;
  publish(chunk, at + 8);
  signal_fence();
  --this_thread.own.inside;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
