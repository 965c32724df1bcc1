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
// Invariant: cursor <= limit, and between `limit` and the end of the chunk there is room for the end of every open
// scope. So a begin needs one comparison and an end none.
struct writer {
  char* cursor;
  char* limit;
  chunk_header* chunk;
  std::uint32_t high;    // high half of the times in this chunk; unmatchable while every event must take the slow path
  std::uint32_t thread;  // logical id, from 1
  log_block* log;
};

// No clock reaches this high half: 2^64 ticks are centuries.
inline constexpr std::uint32_t unmatchable_high = 0xffffffffu;

// A writer that has room for nothing: a thread starts with `unregistered_writer`, and is pointed at `busy_writer` while
// it writes, so that a scope in a signal handler that interrupts the writing is refused instead of breaking the record.
struct STEPPROF_SHARED shared_writers {
  writer unregistered;
  writer busy;
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT shared_writers the_writers = {
    {nullptr, nullptr, nullptr, unmatchable_high, 0, nullptr},
    {nullptr, nullptr, nullptr, unmatchable_high, 0, nullptr}};

// What a thread owns outside the pool. Trivial on purpose: no constructor, no destructor, no guard. In a library that
// is loaded while the program runs glibc allocates it when a thread first records; only there a thread's first scope
// should not be one of a signal handler.
struct thread_block {
  writer* active;
  writer own;
  bool exited;    // the thread's exit was seen: nothing can be recorded any more
  char name[47];  // set_thread_name before the thread's first record; ends in 0
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT thread_local thread_block this_thread = {
    &the_writers.unregistered, {nullptr, nullptr, nullptr, unmatchable_high, 0, nullptr}, false, {}};

// Keeps the compiler from moving memory accesses across: what a signal handler on this thread sees is in program order.
STEPPROF_ALWAYS_INLINE void signal_fence() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

STEPPROF_ALWAYS_INLINE void publish(writer* w, char* cursor) noexcept {
  w->cursor = cursor;
  // Release: a reader that sees the new position also sees the records before it.
  w->chunk->published.store(static_cast<std::uint16_t>(reinterpret_cast<std::uintptr_t>(cursor)),
                            std::memory_order_release);
}

STEPPROF_ALWAYS_INLINE void store_word(char* at, std::uint32_t low, std::uint32_t what) noexcept {
  *reinterpret_cast<word*>(at) = word{low, what};
}

}  // namespace detail

STEPPROF_END_NAMESPACE
