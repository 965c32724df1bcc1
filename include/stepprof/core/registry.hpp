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
  std::atomic<std::uint32_t> id;  // 0: not registered
};

// A piece of a longer record.
struct record_part {
  const void* data;
  std::uint32_t bytes;
};

inline constexpr std::uint32_t cold_table_abi = 2;

// Cold paths. Functions of whichever module starts the first profile; a program that only marks regions needs none of
// them, nor any service of the system. None blocks, none throws.
struct cold_table {
  std::uint32_t abi;
  // A begin that did not fit the hot path. `seen` is what this_thread.active was before the hot path said busy. Returns
  // the logical thread whose log holds the begin, or 0 when it was refused (and counted). Puts this_thread.active
  // right.
  std::uint32_t (*begin)(stamp time, std::uint32_t what, writer* seen) noexcept;
  // An end that did not fit the hot path; `thread` is the logical thread whose log holds the begin, `seen` as above.
  void (*end)(stamp time, std::uint32_t id, std::uint32_t thread, writer* seen) noexcept;
  // Ids of names. 0 when this thread cannot record at all.
  std::uint32_t (*register_site)(call_site& site) noexcept;
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

// Writes a begin word. Returns the logical thread whose log holds it, 0 when it was refused.
template <class Clock>
STEPPROF_ALWAYS_INLINE std::uint32_t begin_scope(std::uint32_t what) noexcept {
  const stamp now = Clock::begin();
  writer* const w = this_thread.active;
  this_thread.active = &the_writers.busy;
  signal_fence();  // from here to the next fence a handler finds no room
  char* const at = w->cursor;
  if (STEPPROF_UNLIKELY(now.high != w->high || w->limit - at < 16)) return cold_paths()->begin(now, what, w);
  store_word(at, now.low, what);
  w->limit -= 8;
  publish(w, at + 8);
  signal_fence();
  this_thread.active = w;
  return w->thread;
}

// Writes the end word of a scope whose begin is in the log of `thread`. Threads are told by their number, which is
// never used again: the address of a thread's writer may be that of a thread that has ended.
template <class Clock>
STEPPROF_ALWAYS_INLINE void end_scope(std::uint32_t thread, std::uint32_t id) noexcept {
  const stamp now = Clock::end();
  writer* const w = this_thread.active;
  this_thread.active = &the_writers.busy;
  signal_fence();
  if (STEPPROF_UNLIKELY(w->thread != thread || now.high != w->high)) {
    cold_paths()->end(now, id, thread, w);
    return;
  }
  char* const at = w->cursor;
  store_word(at, now.low, make_what(tag::end, id));
  w->limit += 8;
  publish(w, at + 8);
  signal_fence();
  this_thread.active = w;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
