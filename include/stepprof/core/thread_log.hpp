// The hot path: how a thread appends begin and end words to its own log.
#pragma once

#include <atomic>
#include <cstdint>

#include <stepprof/core/clock.hpp>
#include <stepprof/core/word.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Where a thread writes: the head of its log_block. Owned by the thread; others read `published` only.
//
// Invariant: behind `published` the chunk has room for the end of every open scope and `room` bytes more. A begin takes
// 16 bytes of the room, its own and its end's, so it needs one comparison and an end none.
struct writer {
  // The owner is inside the recorder: a scope that a signal handler opens meanwhile is refused instead of breaking the
  // record. What was read of the rest before this was set is void: a handler may have come in between.
  bool inside;
  std::int32_t room;
  // Logical id << 32 | high half of the times in the chunk: one comparison tells an end that it is on its own thread
  // and that no epoch is to be noted. The low half is unmatchable while every event must take the slow path.
  std::uint64_t key;
  std::uint64_t owner;  // logical id << 32; ids count from 1
  // Address behind the last whole record, where the owner writes next. Readers, to whom the pool may be mapped
  // elsewhere, count its distance from the chunk; see published_bytes.
  std::atomic<std::uintptr_t> published;
};

// No clock reaches this high half: 2^64 ticks are centuries.
inline constexpr std::uint32_t unmatchable_high = 0xffffffffu;

// Of threads that have no log: refuses everything, is never written.
inline STEPPROF_SHARED STEPPROF_CONSTINIT writer no_log = {true, 0, unmatchable_high, 0, {0}};

[[nodiscard]] inline bool has_log(const writer& own) noexcept {
  return own.owner != 0;
}

// What a thread owns outside the pool. Trivial on purpose: no constructor, no destructor, no guard. In a library that
// is loaded while the program runs glibc allocates it when a thread first records; only there a thread's first scope
// should not be one of a signal handler.
struct thread_block {
  writer* own;
  bool registering;        // is being given a log: what a handler opens meanwhile is refused
  bool exited;             // the thread's exit was seen: nothing can be recorded any more
  char name[47];           // set_thread_name before the thread's first record; ends in 0
  std::uint32_t own_work;  // how many calls of the profiler it is in; see own_work.hpp
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT thread_local thread_block this_thread = {&no_log, false, false, {}, 0};

// The calling thread's logical id, 0 when it has none.
inline std::uint32_t this_thread_id() noexcept {
  return static_cast<std::uint32_t>(this_thread.own->owner >> 32);
}

// Keeps the compiler from moving memory accesses across: what a signal handler on this thread sees is in program order.
STEPPROF_ALWAYS_INLINE void signal_fence() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Where the owner writes next. Relaxed: nobody else changes it.
STEPPROF_ALWAYS_INLINE char* cursor(const writer& w) noexcept {
  return reinterpret_cast<char*>(w.published.load(std::memory_order_relaxed));
}
STEPPROF_ALWAYS_INLINE void publish(writer& w, const char* behind) noexcept {
  // Release: a reader that sees the new position also sees the records before it.
  w.published.store(reinterpret_cast<std::uintptr_t>(behind), std::memory_order_release);
}
// Publishes the eight bytes at `at`, where the cursor is.
STEPPROF_ALWAYS_INLINE void publish_word(writer& w, const char* at) noexcept {
#if STEPPROF_MEMORY_OPERANDS
  // One instruction, which compilers do not make of a load and a store of an atomic. Every store of x86 releases.
  static_cast<void>(at);
  __asm__ volatile("addq $8, %0" : "+m"(w.published) : : "memory", "cc");
#else
  publish(w, at + 8);
#endif
}

// The fence also keeps compilers from building the word in a vector register first, and from keeping what was compared
// before in a register instead of changing it in memory: eight instructions.
STEPPROF_ALWAYS_INLINE void store_word(char* at, std::uint32_t low, std::uint32_t what) noexcept {
  word* const w = reinterpret_cast<word*>(at);
  w->low = low;
  signal_fence();
  w->what = what;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
