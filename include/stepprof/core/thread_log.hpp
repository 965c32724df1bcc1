// The hot path: how a thread appends begin and end words to its own log.
#pragma once

#include <atomic>
#include <cstdint>

#include <stepprof/core/chunk.hpp>
#include <stepprof/core/clock.hpp>
#include <stepprof/core/word.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

struct log_block;

// Where a thread writes. Lives in thread-local storage, one per thread; everything else about the log is in the pool.
//
// Invariant: chunk->published <= limit, and between `limit` and the end of the chunk there is room for the end of every
// open scope. So a begin needs one comparison and an end none.
struct writer {
  // Logical id << 32 | high half of the times in the chunk: one comparison tells an end that it is on its own thread
  // and that no epoch is to be noted. The low half is unmatchable while every event must take the slow path.
  std::uint64_t key;
  std::uint64_t thread;  // logical id << 32; ids count from 1
  chunk_header* chunk;
  char* limit;
  log_block* log;
  // -1, plus 1 for each time that this thread has entered the recorder. So a scope in a signal handler that interrupts
  // the writing is refused instead of breaking the record. What was read of the writer before it entered is void: a
  // handler may have come in between.
  std::int32_t inside;
};

// No clock reaches this high half: 2^64 ticks are centuries.
inline constexpr std::uint32_t unmatchable_high = 0xffffffffu;

// What a thread owns outside the pool. Trivial on purpose: no constructor, no destructor, no guard. In a library that
// is loaded while the program runs glibc allocates it when a thread first records; only there a thread's first scope
// should not be one of a signal handler.
struct thread_block {
  writer own;
  bool exited;    // the thread's exit was seen: nothing can be recorded any more
  char name[47];  // set_thread_name before the thread's first record; ends in 0
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT thread_local thread_block this_thread = {
    {unmatchable_high, 0, nullptr, nullptr, nullptr, -1}, false, {}};

// The calling thread's logical id, 0 when it has none yet.
inline std::uint32_t this_thread_id() noexcept {
  return static_cast<std::uint32_t>(this_thread.own.thread >> 32);
}

// Keeps the compiler from moving memory accesses across: what a signal handler on this thread sees is in program order.
STEPPROF_ALWAYS_INLINE void signal_fence() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Where the owner writes next. Relaxed: nobody else changes it.
STEPPROF_ALWAYS_INLINE char* cursor(const chunk_header* chunk) noexcept {
  return reinterpret_cast<char*>(chunk->published.load(std::memory_order_relaxed));
}
STEPPROF_ALWAYS_INLINE void publish(chunk_header* chunk, const char* behind) noexcept {
  // Release: a reader that sees the new position also sees the records before it.
  chunk->published.store(reinterpret_cast<std::uintptr_t>(behind), std::memory_order_release);
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
