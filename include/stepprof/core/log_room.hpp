// Room in a thread's log: its chunks, what is kept for the ends of open scopes, and the ends for which it was kept.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>  // placement new into the pool

#include <stepprof/core/log_block.hpp>
#include <stepprof/core/pool.hpp>
#include <stepprof/core/system.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// State of the cold paths; one per process like the registry.
struct STEPPROF_SHARED cold_state {
  std::atomic<block_ref> logs{0};              // list of all logs, newest first
  std::atomic<std::uint32_t> next_chunk{1};    // sequence numbers of chunks
  std::atomic<bool> slow_clock{false};         // product_clock is not usable: every stamp comes from monotonic_clock
  std::atomic<std::uint32_t> first_thread{1};  // smaller logical ids are of threads of the process that forked
  log_counters counters;  // of threads that have no log: the pool was full when they came, or they are ending
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT cold_state the_cold{};

inline log_block* log_at(block_ref ref) noexcept {
  return reinterpret_cast<log_block*>(the_pool.address(ref));
}
inline chunk_header* chunk_at(block_ref ref) noexcept {
  return reinterpret_cast<chunk_header*>(the_pool.address(ref));
}
// The owner's own view: relaxed, as nobody else changes it.
inline chunk_header* current_chunk(const log_block& log) noexcept {
  return chunk_at(log.current.load(std::memory_order_relaxed));
}

// How many bytes of the log's current chunk hold whole records, header included; `current` was read of it before.
inline std::uint32_t published_bytes(const log_block& log, block_ref current) noexcept {
  const chunk_header* const chunk = chunk_at(current);
  // Acquire: the records are visible with it.
  const std::uintptr_t bytes = log.published.load(std::memory_order_acquire) - reinterpret_cast<std::uintptr_t>(chunk);
  if (bytes >= sizeof *chunk && bytes <= chunk->bytes) return static_cast<std::uint32_t>(bytes);
  return published_bytes(chunk);  // its owner has moved on
}

// The stamp to record: the caller's, unless the fast clock cannot be trusted on this machine.
inline stamp trusted(stamp now) noexcept {
  return the_cold.slow_clock.load(std::memory_order_relaxed) ? monotonic_clock::begin() : now;
}
inline stamp read_clock() noexcept {
  return trusted(product_clock::begin());
}

// --- chunks ---------------------------------------------------------------------------------------------------------

inline void init_chunk(block_ref ref, std::uint32_t thread, stamp base, std::uint32_t reserved,
                       std::uint32_t dropped) noexcept {
  auto* const c = new (the_pool.address(ref)) chunk_header;
  c->magic = chunk_magic;
  c->thread = thread;
  c->sequence = the_cold.next_chunk.fetch_add(1, std::memory_order_relaxed);
  c->bytes = block_pool::bytes_of(ref);
  c->base_low = base.low;
  c->base_high = base.high;
  c->reserved_at_entry = reserved;
  c->dropped_before = dropped;
  c->published.store(sizeof *c, std::memory_order_relaxed);
  c->state.store(static_cast<std::uint32_t>(chunk_state::writing), std::memory_order_relaxed);
  c->next.store(0, std::memory_order_relaxed);
}

inline void match_high(log_block& log, stamp now) noexcept {
  log.high = now.high;
  const bool slow = log.deep || log.captures || the_cold.slow_clock.load(std::memory_order_relaxed);
  log.key = log.owner | (slow ? unmatchable_high : now.high);
}

// Bytes between the cursor and the end of the chunk.
inline std::uint32_t free_bytes(const log_block& log) noexcept {
  return static_cast<std::uint32_t>(end_of_chunk(current_chunk(log)) - cursor(log));
}

inline std::uint32_t reserved_bytes(const log_block& log) noexcept {
  return log.deep ? log.deep_reserved : free_bytes(log) - static_cast<std::uint32_t>(log.room);
}

// Makes `ref` the current chunk. The bytes kept for open ends move along, except in deep mode.
inline void enter_chunk(log_block& log, block_ref ref, stamp now, std::uint32_t reserved) noexcept {
  init_chunk(ref, log.thread, now, reserved,
             static_cast<std::uint32_t>(log.counters.dropped_begins.load(std::memory_order_relaxed)));
  chunk_header* const fresh = chunk_at(ref);
  chunk_header* const old = current_chunk(log);
  // Release, like the position in the log: whoever learns where the old chunk ends sees its records.
  old->published.store(static_cast<std::uint64_t>(cursor(log) - reinterpret_cast<char*>(old)),
                       std::memory_order_release);
  old->state.store(static_cast<std::uint32_t>(chunk_state::sealed), std::memory_order_relaxed);
  log.room = static_cast<std::int32_t>(fresh->bytes - sizeof(chunk_header)) -
             (log.deep ? 0 : static_cast<std::int32_t>(reserved));
  publish(log, reinterpret_cast<const char*>(fresh + 1));
  match_high(log, now);
  // Release: the reader that follows the link, or learns the current chunk, sees an initialised header; and it sees
  // that `published` of the old chunk is final.
  old->next.store(ref, std::memory_order_release);
  log.current.store(ref, std::memory_order_release);
}

inline constexpr std::uint32_t chunk_room = block_bytes - sizeof(chunk_header);

inline bool take_spare(log_block& log) noexcept {
  const block_ref ref = the_pool.take();
  if (ref == 0) return false;
  init_chunk(ref, log.thread, stamp{}, 0, 0);
  chunk_at(ref)->next.store(log.spare, std::memory_order_relaxed);
  log.spare = ref;
  ++log.spare_count;
  return true;
}
inline block_ref pop_spare(log_block& log) noexcept {
  const block_ref ref = log.spare;
  if (ref == 0) return 0;
  log.spare = chunk_at(ref)->next.load(std::memory_order_relaxed);
  --log.spare_count;
  return ref;
}

// More scopes are open than one chunk can end. From here on ends are kept room for in spare chunks, and every begin and
// end takes the slow path, until few enough are open again. Nothing of this costs the hot path an instruction.
inline bool enter_deep(log_block& log) noexcept {
  const std::uint32_t reserved = reserved_bytes(log);
  while (log.spare_count * chunk_room < reserved)
    if (!take_spare(log)) {
      while (const block_ref ref = pop_spare(log)) the_pool.give_back(ref);
      return false;
    }
  log.deep = true;
  log.deep_reserved = reserved;
  log.room += static_cast<std::int32_t>(reserved);
  match_high(log, stamp{0, log.high});
  return true;
}
inline void leave_deep(log_block& log, stamp now) noexcept {
  const std::uint32_t reserved = log.deep_reserved;
  if (free_bytes(log) < reserved) {
    const block_ref ref = pop_spare(log);
    if (ref == 0) return;  // stay
    log.deep = false;
    enter_chunk(log, ref, now, reserved);
  } else {
    log.deep = false;
    log.room -= static_cast<std::int32_t>(reserved);
    match_high(log, stamp{0, log.high});
  }
  while (const block_ref ref = pop_spare(log)) the_pool.give_back(ref);
}

// Publishes `bytes` that were written behind the cursor.
inline void publish_record(log_block& log, std::uint32_t bytes) noexcept {
  log.room -= static_cast<std::int32_t>(bytes);
  publish(log, cursor(log) + bytes);
}

inline void adjust_reserve(log_block& log, std::int32_t bytes) noexcept {
  if (log.deep)
    log.deep_reserved = static_cast<std::uint32_t>(static_cast<std::int32_t>(log.deep_reserved) + bytes);
  else
    log.room -= bytes;
}

inline void write_epoch(log_block& log, stamp now) noexcept {
  char* const at = cursor(log);
  store_word(at, now.low, make_what(tag::epoch, 0));
  const std::uint64_t ticks = ticks_of(now);
  std::memcpy(at + 8, &ticks, 8);
  publish_record(log, 16);
  match_high(log, now);
}

// A block, or a piece of one that is left over when there are no more, if `bytes` fit into it.
inline block_ref take_chunk(std::size_t bytes) noexcept {
  const block_ref ref = the_pool.take();
  return ref != 0 || bytes > small_bytes - sizeof(chunk_header) ? ref : the_pool.take_small();
}

// Room for a record of `bytes`, and for an end of `reserve` bytes later. False: the pool is used up.
inline bool make_room(log_block& log, stamp now, std::uint32_t bytes, std::uint32_t reserve) noexcept {
  // Relaxed: only a number.
  if (log.unneeded_bytes.load(std::memory_order_relaxed) != 0)
    adjust_reserve(log, -static_cast<std::int32_t>(log.unneeded_bytes.exchange(0, std::memory_order_relaxed)));
  const std::uint32_t reserved = reserved_bytes(log);
  if (!log.deep && reserved + reserve + bytes + 1024 > chunk_room && !enter_deep(log)) return false;
  if (log.deep)
    while (log.spare_count * chunk_room < log.deep_reserved + reserve)
      if (!take_spare(log)) return false;
  const std::uint32_t epoch = now.high != log.high ? 16 : 0;
  if (static_cast<std::uint32_t>(log.room) < bytes + (log.deep ? 0 : reserve) + epoch) {
    const block_ref ref = take_chunk(log.deep ? small_bytes : reserved + reserve + bytes);
    if (ref == 0) return false;
    enter_chunk(log, ref, now, reserved);  // its header holds the time: no epoch record
  } else if (epoch != 0) {
    write_epoch(log, now);
  }
  return true;
}

// Writes the record that ends a scope, for which room was kept. False only when the time's high half changed, the pool
// is used up and even the spare chunks are full of such changes.
inline bool write_end(log_block& log, stamp now, std::uint32_t what, std::uint64_t payload,
                      std::uint32_t bytes) noexcept {
  const bool changed = now.high != log.high;
  const auto free = static_cast<std::uint32_t>(log.room);
  const std::uint32_t own = log.deep ? bytes : 0;  // outside deep mode the end's own bytes are not in `room`
  if (free < own || (changed && free < own + 16)) {
    block_ref ref = log.deep ? pop_spare(log) : 0;
    if (ref == 0) ref = take_chunk(log.deep ? small_bytes : reserved_bytes(log));
    if (ref != 0) {
      enter_chunk(log, ref, now, reserved_bytes(log));
    } else {
      if (free < own) return false;
      if ((what >> 24) == static_cast<std::uint32_t>(tag::end)) what = make_what(tag::end_untimed, what);
    }
  } else if (changed) {
    write_epoch(log, now);
  }
  char* const at = cursor(log);
  store_word(at, now.low, what);
  if (bytes == 16) std::memcpy(at + 8, &payload, 8);
  adjust_reserve(log, -static_cast<std::int32_t>(bytes));
  publish_record(log, bytes);
  if (log.deep && log.deep_reserved < chunk_room / 4) leave_deep(log, now);
  return true;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
