// Everything about a thread's log that is not touched by every scope. 4 KiB of the pool per thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>  // the list of counters that is walked to reset them

#include <stepprof/core/chunk.hpp>
#include <stepprof/core/pool.hpp>
#include <stepprof/core/shared_text.hpp>
#include <stepprof/core/thread_log.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

enum class log_state : std::uint32_t {
  live = 1,
  dead = 2,  // its thread has ended; what it published is final
};

// What a thread could not record, since its start. Incremented with fetch_add: a signal handler may count too. 64 bits:
// with a full memory a thread drops 2^32 begins within a minute.
struct log_counters {
  std::atomic<std::uint64_t> dropped_begins{0};
  std::atomic<std::uint64_t> reentrant{0};  // of the dropped begins: inside the recorder itself
  std::atomic<std::uint64_t> dropped_arguments{0};
  std::atomic<std::uint64_t> dropped_memory{0};
  std::atomic<std::uint64_t> lost_ends{0};
  std::atomic<std::uint64_t> cut_names{0};    // uses of a run-time name that was too long to be kept whole
  std::atomic<std::uint64_t> overwritten{0};  // of the dropped begins: they were in the log

  // In a forked child.
  void reset() noexcept {
    for (std::atomic<std::uint64_t>* const c :
         {&dropped_begins, &reentrant, &dropped_arguments, &dropped_memory, &lost_ends, &cut_names, &overwritten})
      c->store(0, std::memory_order_relaxed);
  }
};

inline constexpr std::uint64_t held_log = std::uint64_t{1} << 63;

// What log_block::oldest becomes when `ref` is the oldest chunk: one more change, held by nobody.
constexpr std::uint64_t next_oldest(std::uint64_t oldest, block_ref ref) noexcept {
  return ((((oldest >> 32) + 1) << 32) | ref) & ~held_log;
}

// A name used before, with its own copy of the text, so that a hit needs no look at the shared table.
struct cached_name {
  std::uint32_t session;  // names are valid for one session; 0: empty
  std::uint32_t id;
  std::uint32_t size;
  char text[52];
};
static_assert(sizeof(cached_name) == 64, "one cache line");

// The writer comes first: all that a scope touches beside the records is one cache line.
struct alignas(64) log_block : writer {
  static constexpr std::uint32_t cached_names = 54;

  log_block() noexcept : writer{false, 0, unmatchable_high, 0, {0}} {}

  block_ref self = 0;
  std::uint32_t thread = 0;  // logical id
  std::uint64_t os_thread = 0;
  std::uint64_t asked_thread = 0;  // not 0: its end will not be seen, the system is to be asked for this id
  std::atomic<log_state> state{log_state::live};
  std::atomic<block_ref> next{0};     // in the list of all logs
  std::atomic<block_ref> current{0};  // the chunk being written
  // The first chunk that is still there, the number of changes << 32, and held_log while the control side reads: see
  // take_oldest_chunk.
  std::atomic<std::uint64_t> oldest{0};

  // The owner's slow state.
  std::uint32_t high = 0;           // high half of the last time written
  bool deep = false;                // more scopes are open than one chunk has room to end
  bool captures = false;            // scopes get their stacks: every begin takes the slow path
  std::uint32_t deep_reserved = 0;  // then: bytes needed to end them ...
  std::uint32_t spare_count = 0;    // ... for which these chunks are kept
  block_ref spare = 0;              // linked through chunk_header::next

  std::uint32_t name_session = 0;  // the last one noted in the log

  // Room that was kept for ends which came on other threads. Added by the reader, taken back by the owner.
  std::atomic<std::uint32_t> unneeded_bytes{0};

  // Not 0 while the owner looks up a run-time name; see runtime_names.
  std::atomic<std::uint32_t> interning{0};
  log_counters counters;
  shared_text name{};

  cached_name cache[cached_names] = {};
};
static_assert(sizeof(log_block) <= small_bytes, "a log block is one small piece of the pool");

}  // namespace detail

STEPPROF_END_NAMESPACE
