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
  std::atomic<bool> is_ring{false};            // a thread whose log finds no memory overwrites its own oldest chunk
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

inline void init_chunk(block_ref ref, const log_block& log, stamp base, std::uint32_t reserved) noexcept {
  auto* const c = new (the_pool.address(ref)) chunk_header;
  c->magic = chunk_magic;
  c->thread = log.thread;
  c->sequence = the_cold.next_chunk.fetch_add(1, std::memory_order_relaxed);
  c->bytes = block_pool::bytes_of(ref);
  c->base_low = base.low;
  c->base_high = base.high;
  c->reserved_at_entry = reserved;
  c->dropped_before = static_cast<std::uint32_t>(log.counters.dropped_begins.load(std::memory_order_relaxed));
  c->published.store(sizeof *c, std::memory_order_relaxed);
  c->state.store(static_cast<std::uint32_t>(chunk_state::writing), std::memory_order_relaxed);
  c->next.store(0, std::memory_order_relaxed);
  c->name_session = log.name_session;
  c->read.store(sizeof *c, std::memory_order_relaxed);
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
  init_chunk(ref, log, now, reserved);
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

// --- the ring -------------------------------------------------------------------------------------------------------

// What is lost with a chunk that nobody has read beyond its first `read` bytes. Ends need no counting: their begins are
// lost with them, or were in a window before.
inline void count_overwritten(log_counters& counters, const chunk_header* chunk, std::uint32_t read) noexcept {
  const char* const data = reinterpret_cast<const char*>(chunk);
  std::uint64_t begins = 0;
  std::uint64_t arguments = 0;
  std::uint64_t memory = 0;
  std::uint64_t ends = 0;
  const std::uint32_t end = published_bytes(chunk);
  for (std::uint32_t at = read; at < end;) {
    word w;
    std::memcpy(&w, data + at, 8);
    const tag what = tag_of(w);
    begins += is_begin(what) ? 1u : 0u;
    memory += is_memory(what) && what != tag::own_alloc && what != tag::own_free ? 1u : 0u;
    arguments += is_argument(what) ? 1u : 0u;
    ends += what == tag::foreign_end ? 1u : 0u;  // of another thread's scope
    const std::uint32_t size = record_size(w);
    if (size == 0) break;  // never
    at += size;
  }
  counters.dropped_arguments.fetch_add(arguments, std::memory_order_relaxed);
  counters.dropped_memory.fetch_add(memory, std::memory_order_relaxed);
  counters.lost_ends.fetch_add(ends, std::memory_order_relaxed);
  counters.dropped_begins.fetch_add(begins, std::memory_order_relaxed);
  counters.overwritten.fetch_add(begins, std::memory_order_release);
}

// The oldest chunk of the calling thread's own log, taken out of it; 0 when the control side reads the log, or there is
// none but the current one. Two sides take chunks from the old end of a log: this one, and the control side, which
// first holds the log (hold_log). `oldest` changes with every take and every hold, so an exchange that succeeds says
// that nothing happened since it was looked at.
inline block_ref take_oldest_chunk(log_block& log) noexcept {
  // Acquire: how far the control side has read the chunk, and that it is done with it.
  std::uint64_t oldest = log.oldest.load(std::memory_order_acquire);
  for (;;) {
    const auto ref = static_cast<block_ref>(oldest);
    if ((oldest & held_log) != 0 || ref == log.current.load(std::memory_order_relaxed)) return 0;
    // Should the control side have freed it meanwhile, these are of somebody else, and the exchange fails.
    const chunk_header* const chunk = chunk_at(ref);
    const block_ref next = chunk->next.load(std::memory_order_relaxed);
    // Release: whoever reads on from the next one sees that this one's records are gone, and what it replaces.
    if (!log.oldest.compare_exchange_weak(oldest, next_oldest(oldest, next), std::memory_order_acq_rel,
                                          std::memory_order_acquire))
      continue;
    count_overwritten(log.counters, chunk, chunk->read.load(std::memory_order_relaxed));
    return ref;
  }
}

// Whether what is left of the budget is kept for threads that have nothing to overwrite yet.
inline bool is_nearly_full() noexcept {
  const std::uint32_t budget = the_pool.budget_blocks();
  return the_pool.taken_blocks() + budget / 8 >= budget;
}

// Memory for a chunk of at least `bytes` beside its header.
inline block_ref take_chunk(log_block& log, std::size_t bytes) noexcept {
  // Relaxed: only a number.
  if (the_cold.is_ring.load(std::memory_order_relaxed) && is_nearly_full())
    while (const block_ref ref = take_oldest_chunk(log)) {
      if (bytes <= block_pool::bytes_of(ref) - sizeof(chunk_header)) return ref;
      the_pool.give_back(ref);  // a thread's first chunk is a small one
    }
  const block_ref ref = the_pool.take();
  // A piece of a block that is left over when there are no more.
  return ref != 0 || bytes > small_bytes - sizeof(chunk_header) ? ref : the_pool.take_small();
}

// Of a log that nobody else can change: it is held, or its owner's and not yet in use.
inline block_ref oldest_chunk(const log_block& log) noexcept {
  return static_cast<block_ref>(log.oldest.load(std::memory_order_relaxed));
}

// The control side holds a log while it reads: its owner overwrites nothing then. From the moment in which it notes how
// far it will read.
inline void hold_log(log_block& log) noexcept {
  // Acquire: the chunk that is the oldest one, as its owner made it.
  log.oldest.fetch_or(held_log, std::memory_order_acquire);
}
// The control side is about to free the oldest chunk of a log that it holds.
inline void move_oldest(log_block& log, block_ref next) noexcept {
  // Relaxed: a held log's is the holder's.
  const std::uint64_t oldest = log.oldest.load(std::memory_order_relaxed);
  log.oldest.store(next_oldest(oldest, next) | held_log, std::memory_order_relaxed);
}
inline void let_log_go(log_block& log) noexcept {
  const std::uint64_t held = log.oldest.load(std::memory_order_relaxed);
  // Release: the owner writes over nothing that is still being read.
  log.oldest.store(next_oldest(held, static_cast<block_ref>(held)), std::memory_order_release);
}
// `read` bytes of the oldest chunk have been read.
inline void let_log_go(log_block& log, std::uint32_t read) noexcept {
  chunk_at(oldest_chunk(log))->read.store(read, std::memory_order_relaxed);
  let_log_go(log);
}

// --- room for ends --------------------------------------------------------------------------------------------------

inline bool take_spare(log_block& log) noexcept {
  const block_ref ref = take_chunk(log, chunk_room);
  if (ref == 0) return false;
  init_chunk(ref, log, stamp{}, 0);
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
    const block_ref ref = take_chunk(log, log.deep ? small_bytes : reserved + reserve + bytes);
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
    if (ref == 0) ref = take_chunk(log, log.deep ? small_bytes : reserved_bytes(log));
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
