// The one mutable global: the gate, and the table of everything that is too slow or too rare for the hot path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <stepprof/core/module_sign.hpp>
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
  std::atomic<std::uint32_t> what;      // of the begin word of a user annotation; 0: not registered
  std::atomic<std::uint32_t> end_what;  // of the end word
};

// A piece of a longer record.
struct record_part {
  const void* data;
  std::uint32_t bytes;
};

inline constexpr std::uint32_t cold_table_abi = STEPPROF_ABI;

// Cold paths. Functions of whichever module starts the first profile; a program that only marks regions needs none of
// them, nor any service of the system. None blocks, none throws.
struct cold_table {
  std::uint32_t abi;
  // A begin and an end that did not fit the hot path. When that has entered the recorder (writer::inside), these leave
  // it. `begin` returns the logical thread whose log holds the begin, or 0 when it was refused (and counted); `thread`
  // is what it returned.
  std::uint32_t (*begin)(stamp time, std::uint32_t what, bool entered) noexcept;
  void (*end)(stamp time, std::uint32_t what, std::uint32_t thread, bool entered) noexcept;
  // What call_site::what holds from then on. 0, and a begin counted as dropped, when memory is full.
  std::uint32_t (*register_site)(call_site& site) noexcept;
  // The id of a name.
  std::uint32_t (*intern)(const char* text, std::size_t size) noexcept;
  // Appends one record of up to four parts; `what` as in the word, `low` the payload size for untimed records.
  // `reserve` is how many bytes are kept for a later end. False when it was refused and counted.
  bool (*append)(std::uint32_t what, bool timed, const record_part* parts, std::uint32_t count,
                 std::int32_t reserve) noexcept;
  void (*set_thread_name)(const char* text, std::size_t size) noexcept;
  // The tables of the same module: this one's functions, and those that capture stacks. Which of them is in place is
  // decided where a session begins, so that no function asks.
  const cold_table* plain;
  const cold_table* capturing;
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

#if STEPPROF_SIGNS_MODULES
alignas(16) inline STEPPROF_OWN STEPPROF_CONSTINIT module_sign the_module_sign = {"stepprof module", module_version,
                                                                                  STEPPROF_ABI, &the_registry};
// In a cold function that each module with a scope has: reads the sign, so that no linker leaves it out.
STEPPROF_ALWAYS_INLINE void keep_module_sign() noexcept {
  static_cast<void>(*static_cast<const volatile char*>(the_module_sign.text));
}
#else
STEPPROF_ALWAYS_INLINE void keep_module_sign() noexcept {}
#endif

// Whether anything records. Relaxed is enough: a scope that misses the opening of the gate is simply not recorded.
STEPPROF_ALWAYS_INLINE bool gate_is_open() noexcept {
#if STEPPROF_MEMORY_OPERANDS
  bool open;
  __asm__ volatile("cmpl $0, %1" : "=@ccne"(open) : "m"(the_registry.gate));
  return open;
#else
  return the_registry.gate.load(std::memory_order_relaxed) != 0;
#endif
}

// Whether a call site whose begin word is `what` must ask register_site: it is not registered, or stacks are captured.
// One comparison of two words that are at hand anyway, in place of one with 0. Relaxed, as above.
STEPPROF_ALWAYS_INLINE bool must_ask(std::uint32_t what) noexcept {
  if (STEPPROF_WITHOUT_FLAGS != 0) return what == 0;
#if STEPPROF_MEMORY_OPERANDS
  bool ask;
  __asm__ volatile("cmpl %1, %2" : "=@ccbe"(ask) : "m"(the_registry.gate), "r"(what));
  return ask;
#else
  return what <= the_registry.gate.load(std::memory_order_relaxed);
#endif
}

// Acquire: the table's contents are visible with the pointer.
STEPPROF_ALWAYS_INLINE const cold_table* cold_paths() noexcept {
  return the_registry.cold.load(std::memory_order_acquire);
}

STEPPROF_COLD inline std::uint64_t begin_refused(std::uint32_t what, std::uint32_t low, std::uint32_t high) noexcept {
  keep_module_sign();
  return static_cast<std::uint64_t>(cold_paths()->begin(stamp{low, high}, what, false)) << 32;
}
STEPPROF_COLD inline std::uint64_t begin_slowly(std::uint32_t what, std::uint32_t low, std::uint32_t high) noexcept {
  writer& own = *this_thread.own;
  if (own.room < 0) own.room += 16;
  return static_cast<std::uint64_t>(cold_paths()->begin(stamp{low, high}, what, true)) << 32;
}
STEPPROF_COLD inline void end_refused(std::uint64_t key, std::uint32_t what, std::uint32_t low) noexcept {
  cold_paths()->end(stamp{low, static_cast<std::uint32_t>(key)}, what, static_cast<std::uint32_t>(key >> 32), false);
}
STEPPROF_COLD inline void end_slowly(std::uint64_t key, std::uint32_t what, std::uint32_t low) noexcept {
  cold_paths()->end(stamp{low, static_cast<std::uint32_t>(key)}, what, static_cast<std::uint32_t>(key >> 32), true);
}

// Writes a begin word. Returns the logical thread whose log holds it << 32, 0 when it was refused.
template <class Clock>
STEPPROF_ALWAYS_INLINE std::uint64_t begin_scope(std::uint32_t what) noexcept {
  const stamp now = Clock::begin();
  writer& own = *this_thread.own;
  // Looking and then setting is safe: a handler that comes in between is done before this goes on.
  if (STEPPROF_UNLIKELY(own.inside)) return begin_refused(what, now.low, now.high);
  own.inside = true;
  signal_fence();  // from here to the next fence a handler is refused
  if (STEPPROF_UNLIKELY(now.high != static_cast<std::uint32_t>(own.key))) return begin_slowly(what, now.low, now.high);
  own.room -= 16;
  if (STEPPROF_UNLIKELY(own.room < 0)) return begin_slowly(what, now.low, now.high);
  char* const at = cursor(own);
  store_word(at, now.low, what);
  publish(own, at + 8);  // publish_word is an instruction less, but slower where begin follows begin
  const std::uint64_t thread = own.owner;
  signal_fence();
  own.inside = false;
  STEPPROF_ASSUME(thread != 0);
  return thread;
}

// Writes the end word `what` of a scope whose begin is in the log of `thread`. Threads are told by their number, which
// is never used again: the address of a thread's log may be that of a thread that has ended.
// Not inlined: a call site with both ends in it is half as large again, for a call and a return that cost nothing
// beside the clock.
template <class Clock>
STEPPROF_OWN STEPPROF_NOINLINE void end_scope(std::uint64_t thread, std::uint32_t what) noexcept {
  const stamp now = Clock::end();
  writer& own = *this_thread.own;
  const std::uint64_t key = thread | now.high;
  if (STEPPROF_UNLIKELY(own.inside)) return end_refused(key, what, now.low);
  own.inside = true;
  signal_fence();
  if (STEPPROF_UNLIKELY(key != own.key)) return end_slowly(key, what, now.low);
  char* const at = cursor(own);
  store_word(at, now.low, what);
  publish_word(own, at);
  signal_fence();
  own.inside = false;
}

// Writes a record of a word and `count` numbers, where nothing stands in the way. False: it is to be written by
// cold_table::append. The clock is read in the order of what the thread does: a block goes from thread to thread, and
// its reports must not be in another order than what happened to it.
template <class Clock>
STEPPROF_ALWAYS_INLINE bool write_numbers(std::uint32_t what, const std::uint64_t* numbers,
                                          std::uint32_t count) noexcept {
  order_clock();
  const stamp now = Clock::begin();
  writer& own = *this_thread.own;
  if (STEPPROF_UNLIKELY(own.inside)) return false;
  own.inside = true;
  signal_fence();  // as in begin_scope
  const auto bytes = static_cast<std::int32_t>(8 + 8 * count);
  const bool fits = now.high == static_cast<std::uint32_t>(own.key) && own.room >= bytes;
  if (STEPPROF_LIKELY(fits)) {
    own.room -= bytes;
    char* const at = cursor(own);
    store_word(at, now.low, what);
    for (std::uint32_t i = 0; i < count; ++i) reinterpret_cast<std::uint64_t*>(at)[i + 1] = numbers[i];
    publish(own, at + bytes);
  }
  signal_fence();
  own.inside = false;
  return fits;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
