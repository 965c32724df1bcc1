// The cold paths of recording: registering threads, changing chunks, names, long records, thread exit, fork.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>  // placement new into the pool

#include <stepprof/core/log_block.hpp>
#include <stepprof/core/name_table.hpp>
#include <stepprof/core/pool.hpp>
#include <stepprof/core/registry.hpp>
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

// Names given at run time live for one session. Two tables take turns: a session uses one, the next start clears the
// other, so that words written in the last moment before a start still find their names.
struct STEPPROF_SHARED runtime_names {
  name_table sites;  // of call sites: for ever
  name_table runtime[2];
  std::atomic<std::uint32_t> session{1};  // its lowest bit picks the table
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT runtime_names the_names{};

inline thread_exit_hook& exit_hook() noexcept {
  static thread_exit_hook hook;
  return hook;
}

inline log_block* log_at(block_ref ref) noexcept {
  return reinterpret_cast<log_block*>(the_pool.address(ref));
}
inline chunk_header* chunk_at(block_ref ref) noexcept {
  return reinterpret_cast<chunk_header*>(the_pool.address(ref));
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
  c->published.store(reinterpret_cast<std::uintptr_t>(c + 1), std::memory_order_relaxed);
  c->state.store(static_cast<std::uint32_t>(chunk_state::writing), std::memory_order_relaxed);
  c->next.store(0, std::memory_order_relaxed);
}

inline void match_high(writer* w, stamp now) noexcept {
  w->log->high = now.high;
  const bool slow = w->log->deep || the_cold.slow_clock.load(std::memory_order_relaxed);
  w->key = w->thread | (slow ? unmatchable_high : now.high);
}

// Makes `ref` the current chunk. The bytes kept for open ends move along, except in deep mode.
inline void enter_chunk(writer* w, block_ref ref, stamp now, std::uint32_t reserved) noexcept {
  log_block& log = *w->log;
  init_chunk(ref, log.thread, now, reserved,
             static_cast<std::uint32_t>(log.counters.dropped_begins.load(std::memory_order_relaxed)));
  chunk_header* const fresh = chunk_at(ref);
  chunk_header* const old = w->chunk;
  w->chunk = fresh;
  w->limit = end_of_chunk(fresh) - (log.deep ? 0 : reserved);
  match_high(w, now);
  old->state.store(static_cast<std::uint32_t>(chunk_state::sealed), std::memory_order_relaxed);
  // Release: the reader that follows the link, or learns the current chunk, sees an initialised header; and it sees
  // that `published` of the old chunk is final.
  old->next.store(ref, std::memory_order_release);
  log.current.store(ref, std::memory_order_release);
}

inline std::uint32_t reserved_bytes(const writer* w) noexcept {
  return w->log->deep ? w->log->deep_reserved : static_cast<std::uint32_t>(end_of_chunk(w->chunk) - w->limit);
}

inline std::uint32_t room(const writer* w) noexcept {
  return static_cast<std::uint32_t>(w->limit - cursor(w->chunk));
}

inline constexpr std::uint32_t chunk_room = block_bytes - sizeof(chunk_header) - 8;

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
inline bool enter_deep(writer* w) noexcept {
  log_block& log = *w->log;
  const std::uint32_t reserved = reserved_bytes(w);
  while (log.spare_count * chunk_room < reserved)
    if (!take_spare(log)) {
      while (const block_ref ref = pop_spare(log)) the_pool.give_back(ref);
      return false;
    }
  log.deep = true;
  log.deep_reserved = reserved;
  w->limit = end_of_chunk(w->chunk);
  w->key = w->thread | unmatchable_high;
  return true;
}
inline void leave_deep(writer* w, stamp now) noexcept {
  log_block& log = *w->log;
  const std::uint32_t reserved = log.deep_reserved;
  if (static_cast<std::uint32_t>(end_of_chunk(w->chunk) - cursor(w->chunk)) < reserved) {
    const block_ref ref = pop_spare(log);
    if (ref == 0) return;  // stay
    log.deep = false;
    enter_chunk(w, ref, now, reserved);
  } else {
    log.deep = false;
    w->limit = end_of_chunk(w->chunk) - reserved;
    w->key = w->thread | (the_cold.slow_clock.load(std::memory_order_relaxed) ? unmatchable_high : log.high);
  }
  while (const block_ref ref = pop_spare(log)) the_pool.give_back(ref);
}

inline void write_epoch(writer* w, stamp now) noexcept {
  char* const at = cursor(w->chunk);
  store_word(at, now.low, make_what(tag::epoch, 0));
  const std::uint64_t ticks = ticks_of(now);
  std::memcpy(at + 8, &ticks, 8);
  publish(w->chunk, at + 16);
  match_high(w, now);
}

inline void adjust_reserve(writer* w, std::int32_t bytes) noexcept {
  if (w->log->deep)
    w->log->deep_reserved = static_cast<std::uint32_t>(static_cast<std::int32_t>(w->log->deep_reserved) + bytes);
  else
    w->limit -= bytes;
}

// A block, or a piece of one that is left over when there are no more, if `bytes` fit into it.
inline block_ref take_chunk(std::size_t bytes) noexcept {
  const block_ref ref = the_pool.take();
  return ref != 0 || bytes > small_bytes - sizeof(chunk_header) - 8 ? ref : the_pool.take_small();
}

// Room for a record of `bytes`, and for an end of `reserve` bytes later. False: the pool is used up.
inline bool make_room(writer* w, stamp now, std::uint32_t bytes, std::uint32_t reserve) noexcept {
  log_block& log = *w->log;
  // Relaxed: only a number.
  if (log.unneeded_bytes.load(std::memory_order_relaxed) != 0)
    adjust_reserve(w, -static_cast<std::int32_t>(log.unneeded_bytes.exchange(0, std::memory_order_relaxed)));
  const std::uint32_t reserved = reserved_bytes(w);
  if (!log.deep && reserved + reserve + bytes + 1024 > chunk_room && !enter_deep(w)) return false;
  if (log.deep)
    while (log.spare_count * chunk_room < log.deep_reserved + reserve)
      if (!take_spare(log)) return false;
  const std::uint32_t epoch = now.high != log.high ? 16 : 0;
  if (room(w) < bytes + (log.deep ? 0 : reserve) + epoch) {
    const block_ref ref = take_chunk(log.deep ? small_bytes : reserved + reserve + bytes);
    if (ref == 0) return false;
    enter_chunk(w, ref, now, reserved);  // its header holds the time: no epoch record
  } else if (epoch != 0) {
    write_epoch(w, now);
  }
  return true;
}

// Writes the record that ends a scope, for which room was kept. False only when the time's high half changed, the pool
// is used up and even the spare chunks are full of such changes.
inline bool write_end(writer* w, stamp now, std::uint32_t what, std::uint64_t payload, std::uint32_t bytes) noexcept {
  log_block& log = *w->log;
  const bool changed = now.high != log.high;
  const std::uint32_t free = room(w);
  const std::uint32_t own = log.deep ? bytes : 0;  // outside deep mode the end's own bytes lie behind `limit`
  if (free < own || (changed && free < own + 16)) {
    block_ref ref = log.deep ? pop_spare(log) : 0;
    if (ref == 0) ref = take_chunk(log.deep ? small_bytes : reserved_bytes(w));
    if (ref != 0) {
      enter_chunk(w, ref, now, reserved_bytes(w));
    } else {
      if (free < own) return false;
      if ((what >> 24) == static_cast<std::uint32_t>(tag::end)) what = make_what(tag::end_untimed, what);
    }
  } else if (changed) {
    write_epoch(w, now);
  }
  char* const at = cursor(w->chunk);
  store_word(at, now.low, what);
  if (bytes == 16) std::memcpy(at + 8, &payload, 8);
  adjust_reserve(w, -static_cast<std::int32_t>(bytes));
  publish(w->chunk, at + bytes);
  if (log.deep && log.deep_reserved < chunk_room / 4) leave_deep(w, now);
  return true;
}

// --- threads --------------------------------------------------------------------------------------------------------

// Its thread writes no more. Called by that thread, or when it is gone.
inline void end_log(log_block& log) noexcept {
  while (const block_ref ref = pop_spare(log)) the_pool.give_back(ref);
  // Release: whoever sees the log dead sees all that it holds.
  log.state.store(log_state::dead, std::memory_order_release);
}

// Whether what the log holds is final. Control side only.
inline bool has_ended(log_block& log) noexcept {
  if (log.state.load(std::memory_order_acquire) == log_state::dead) return true;
  if (log.asked_thread == 0 || !system_thread_has_ended(log.asked_thread)) return false;
  end_log(log);
  return true;
}

inline void at_thread_exit(void*) {
  thread_block& mine = this_thread;
  mine.exited = true;
  log_block* const log = mine.own.log;
  if (log == nullptr) return;
  ++mine.own.inside;  // a handler must not find half of this
  signal_fence();
  mine.own.key = unmatchable_high;
  mine.own.log = nullptr;  // it may be given back from now on
  signal_fence();
  --mine.own.inside;
  end_log(*log);
}

inline void name_thread(log_block& log, const thread_block& mine) noexcept {
  char text[64];
  if (mine.name[0] != 0) {
    log.name.set(mine.name, std::strlen(mine.name));
  } else {
    system_thread_name(text, sizeof text);
    log.name.set(text, std::strlen(text));
  }
}

// Gives the calling thread a log. Null, and counted by the caller, when the pool is used up or the thread is ending.
inline writer* register_thread() noexcept {
  thread_block& mine = this_thread;
  if (mine.exited) return nullptr;
  if (mine.own.log != nullptr) return &mine.own;  // a signal handler was faster
  const block_ref log_ref = the_pool.take_small();
  const block_ref chunk_ref = log_ref == 0 ? 0 : the_pool.take_small();
  if (chunk_ref == 0) {
    if (log_ref != 0) the_pool.give_back(log_ref);
    return nullptr;
  }
  auto* const log = new (the_pool.address(log_ref)) log_block;
  log->self = log_ref;
  log->thread = the_registry.next_thread.fetch_add(1, std::memory_order_relaxed);
  log->os_thread = the_id_sources.thread_id.load(std::memory_order_relaxed)();
  log->first = chunk_ref;
  log->current.store(chunk_ref, std::memory_order_relaxed);
  name_thread(*log, mine);
  const stamp now = read_clock();
  init_chunk(chunk_ref, log->thread, now, 0, 0);
  writer& w = mine.own;
  w.chunk = chunk_at(chunk_ref);
  w.limit = end_of_chunk(w.chunk);
  w.thread = static_cast<std::uint64_t>(log->thread) << 32;
  w.log = log;
  match_high(&w, now);
  if (!exit_hook().arm(&mine)) log->asked_thread = system_thread_id();
  block_ref head = the_cold.logs.load(std::memory_order_relaxed);
  do {
    log->next.store(head, std::memory_order_relaxed);
    // Release: whoever walks the list sees the whole log.
  } while (!the_cold.logs.compare_exchange_weak(head, log_ref, std::memory_order_release, std::memory_order_relaxed));
  return &w;
}

enum class entered { now, before };

// While it lives the calling thread is inside the recorder: scopes of signal handlers are refused. `w` is null when
// this thread cannot record, or was inside the recorder already.
class inside_recorder {
 public:
  explicit inside_recorder(entered when = entered::now) noexcept : w(nullptr) {
    writer& own = this_thread.own;
    if (when == entered::now) ++own.inside;
    signal_fence();
    if (own.inside == 0) w = own.log != nullptr ? &own : register_thread();
  }
  ~inside_recorder() {
    signal_fence();
    --this_thread.own.inside;
  }
  inside_recorder(const inside_recorder&) = delete;
  inside_recorder& operator=(const inside_recorder&) = delete;
  [[nodiscard]] static bool reentrant() noexcept { return this_thread.own.inside > 0; }

  writer* w;
};

// Where the losses of this thread are counted.
inline log_counters& my_counters() noexcept {
  log_block* const log = this_thread.own.log;
  return log != nullptr ? log->counters : the_cold.counters;
}

inline void count_dropped_begin() noexcept {
  log_counters& counters = my_counters();
  counters.dropped_begins.fetch_add(1, std::memory_order_relaxed);
  if (inside_recorder::reentrant()) counters.reentrant.fetch_add(1, std::memory_order_release);
}

// --- the functions of the table -------------------------------------------------------------------------------------

inline std::uint32_t cold_begin(stamp now, std::uint32_t what) noexcept {
  const bool is_new = this_thread.own.log == nullptr;
  const inside_recorder inside(entered::before);
  writer* const w = inside.w;
  now = trusted(now);
  // Registering a thread takes longer than most scopes: what it costs is not to be in the first of them.
  if (w != nullptr && is_new) now = read_clock();
  if (w == nullptr || !make_room(w, now, 8, 8)) {
    count_dropped_begin();
    return 0;
  }
  char* const at = cursor(w->chunk);
  store_word(at, now.low, what);
  adjust_reserve(w, 8);
  publish(w->chunk, at + 8);
  return w->log->thread;
}

inline bool append_record(std::uint32_t what, bool timed, const record_part* parts, std::uint32_t count,
                          std::int32_t reserve) noexcept;

// Inside the recorder. True when the end is done with.
inline bool end_here(stamp now, std::uint32_t id, std::uint32_t thread) noexcept {
  writer& own = this_thread.own;
  if (thread != this_thread_id()) return false;
  if (inside_recorder::reentrant() || own.log == nullptr)
    // Ended inside the recorder, or after this thread's exit was seen: it stays open and is reported as unfinished.
    the_cold.counters.lost_ends.fetch_add(1, std::memory_order_relaxed);
  else if (!write_end(&own, trusted(now), make_what(tag::end, id), 0, 8))
    own.log->counters.lost_ends.fetch_add(1, std::memory_order_relaxed);
  return true;
}

inline void cold_end(stamp now, std::uint32_t id, std::uint32_t thread) noexcept {
  const bool done = end_here(now, id, thread);
  signal_fence();
  --this_thread.own.inside;
  // One that was begun in the process that forked this one has nobody who waits for its end.
  if (done || thread < the_cold.first_thread.load(std::memory_order_relaxed)) return;
  const std::uint64_t owner = thread;
  const record_part part{&owner, 8};
  append_record(make_what(tag::foreign_end, id), true, &part, 1, 0);
}

inline std::uint32_t register_site(call_site& site) noexcept {
  const inside_recorder inside;
  const std::size_t size = std::strlen(site.name);
  if (size > max_name_bytes) my_counters().cut_names.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t place =
      the_names.sites.insert(site.name, cut_text(site.name, size, max_name_bytes), site.file, site.line);
  if (place == 0) return what_of(tag::begin_user, overflow_name);
  // Relaxed: it is only a number; the name behind it was published when it was inserted.
  site.what.store(what_of(tag::begin_user, place), std::memory_order_relaxed);
  return what_of(tag::begin_user, place);
}

inline std::uint32_t cache_slot(const char* text, std::size_t size) noexcept {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  if (size >= 8) {
    std::memcpy(&first, text, 8);
    std::memcpy(&last, text + size - 8, 8);
  } else {
    std::memcpy(&first, text, size);
  }
  const std::uint64_t mixed = ((first ^ (last * 0x9e3779b97f4a7c15ull)) + size) * 0xff51afd7ed558ccdull;
  return static_cast<std::uint32_t>(((mixed >> 32) * log_block::cached_names) >> 32);
}

// Between the look-up of a name and the record that holds its id other sessions may begin, when the thread is stalled
// in between. So the log says of which session its names are; the reader then knows an id whose name is gone. False
// when there is no room.
inline bool note_name_session(writer* w, std::uint32_t session) noexcept {
  if (w->log->name_session == session) return true;
  const stamp now = read_clock();
  if (!make_room(w, now, 16, 0)) return false;
  char* const at = cursor(w->chunk);
  const std::uint64_t payload = session;
  store_word(at, now.low, make_what(tag::name_session, 0));
  std::memcpy(at + 8, &payload, 8);
  publish(w->chunk, at + 16);
  w->log->name_session = session;
  return true;
}

inline std::uint32_t look_up_name(writer* w, const char* text, std::size_t size) noexcept {
  log_block& log = *w->log;
  // Sequentially consistent, like the store in begin_name_session: either the control side sees that this thread is
  // inside, or this thread sees the new session and leaves the table that is about to be cleared alone.
  log.interning.store(1, std::memory_order_seq_cst);
  const std::uint32_t session = the_names.session.load(std::memory_order_seq_cst);
  const std::uint32_t table = session & 1u;
  const std::uint32_t place = the_names.runtime[table].insert(text, size);
  log.interning.store(0, std::memory_order_release);
  if (place == 0 || !note_name_session(w, session)) return overflow_name;
  const std::uint32_t id = runtime_name_bit | (table != 0 ? runtime_table_bit : 0) | place;
  if (size <= sizeof(cached_name::text)) {
    cached_name& entry = log.cache[cache_slot(text, size)];
    entry.session = session;
    entry.id = id;
    entry.size = static_cast<std::uint32_t>(size);
    std::memcpy(entry.text, text, size);
  }
  return id;
}

inline std::uint32_t intern_name(const char* text, std::size_t size) noexcept {
  const inside_recorder inside;
  if (inside.w == nullptr) return overflow_name;  // nothing can be written now anyway
  if (size <= sizeof(cached_name::text)) {
    const cached_name& entry = inside.w->log->cache[cache_slot(text, size)];
    // Acquire: the table of this session is clean before its names are used.
    if (entry.session == the_names.session.load(std::memory_order_acquire) && entry.size == size &&
        std::memcmp(entry.text, text, size) == 0)
      return entry.id;
  }
  if (size > max_name_bytes) inside.w->log->counters.cut_names.fetch_add(1, std::memory_order_relaxed);
  return look_up_name(inside.w, text, cut_text(text, size, max_name_bytes));
}

inline void copy_parts(char* at, const record_part* parts, std::uint32_t count, std::uint32_t padded) noexcept {
  char* const end = at + padded;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::memcpy(at, parts[i].data, parts[i].bytes);
    at += parts[i].bytes;
  }
  std::memset(at, 0, static_cast<std::size_t>(end - at));
}

inline void count_dropped_record(std::uint32_t what) noexcept {
  log_counters& counters = my_counters();
  switch (static_cast<tag>(what >> 24)) {
    case tag::begin_manual_op:
    case tag::begin_manual_user:
    case tag::begin_manual_backward:
      count_dropped_begin();
      break;
    case tag::end_manual:
    case tag::foreign_end:
      counters.lost_ends.fetch_add(1, std::memory_order_relaxed);
      break;
    case tag::alloc:
    case tag::free:
      counters.dropped_memory.fetch_add(1, std::memory_order_relaxed);
      break;
    default:
      counters.dropped_arguments.fetch_add(1, std::memory_order_relaxed);
      break;
  }
}

inline bool append_record(std::uint32_t what, bool timed, const record_part* parts, std::uint32_t count,
                          std::int32_t reserve) noexcept {
  const inside_recorder inside;
  writer* const w = inside.w;
  if (w == nullptr) {
    count_dropped_record(what);
    return false;
  }
  std::uint32_t payload = 0;
  for (std::uint32_t i = 0; i < count; ++i) payload += parts[i].bytes;
  const std::uint32_t padded = (payload + 7) & ~7u;
  const stamp now = read_clock();
  if (reserve < 0) {  // the end of a manual scope of this thread
    std::uint64_t serial = 0;
    std::memcpy(&serial, parts[0].data, 8);
    if (write_end(w, now, what, serial, 16)) return true;
    count_dropped_record(what);
    return false;
  }
  if (padded > chunk_room / 2 || !make_room(w, now, 8 + padded, static_cast<std::uint32_t>(reserve))) {
    count_dropped_record(what);
    return false;
  }
  char* const at = cursor(w->chunk);
  store_word(at, timed ? now.low : payload, what);
  copy_parts(at + 8, parts, count, padded);
  adjust_reserve(w, reserve);
  publish(w->chunk, at + 8 + padded);
  return true;
}

inline void set_this_thread_name(const char* text, std::size_t size) noexcept {
  log_block* const log = this_thread.own.log;
  if (log != nullptr) log->name.set(text, size);
}

// --- control --------------------------------------------------------------------------------------------------------

inline const cold_table& the_cold_table() noexcept {
  static constexpr cold_table table = {cold_table_abi, &cold_begin,          &cold_end, &register_site, &intern_name,
                                       &append_record, &set_this_thread_name};
  return table;
}

// Gives a log and its chunks back, from chunk `from` on. Only when its thread cannot write any more.
inline void give_back_log(log_block* log, block_ref from) noexcept {
  while (from != 0) {
    const block_ref next = chunk_at(from)->next.load(std::memory_order_acquire);
    the_pool.give_back(from);
    from = next;
  }
  the_pool.give_back(log->self);
}

// A new session of run-time names. The table that comes into use held the names of the session before the last one;
// when some thread is still inside a look-up it is left as it is, and the names of the last session stay in use.
inline void begin_name_session() noexcept {
  const std::uint32_t session = the_names.session.load(std::memory_order_relaxed);
  for (block_ref ref = the_cold.logs.load(std::memory_order_acquire); ref != 0;) {
    const log_block* const log = log_at(ref);
    if (log->interning.load(std::memory_order_seq_cst) != 0) return;
    ref = log->next.load(std::memory_order_acquire);
  }
  the_names.runtime[(session + 1) & 1u].clear();
  the_names.session.store(session + 1, std::memory_order_seq_cst);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
