// The cold paths of recording: registering threads, names, stacks, long records, thread exit, fork.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>  // placement new into the pool

#include <stepprof/core/log_block.hpp>
#include <stepprof/core/log_room.hpp>
#include <stepprof/core/name_table.hpp>
#include <stepprof/core/pool.hpp>
#include <stepprof/core/registry.hpp>
#include <stepprof/core/session_names.hpp>
#include <stepprof/core/stack_capture.hpp>
#include <stepprof/core/system.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

inline thread_exit_hook& exit_hook() noexcept {
  static thread_exit_hook hook;
  return hook;
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

inline log_block& log_of(writer* own) noexcept {
  return static_cast<log_block&>(*own);
}

inline void at_thread_exit(void*) {
  thread_block& mine = this_thread;
  mine.exited = true;
  signal_fence();
  writer* const own = mine.own;
  if (!has_log(*own)) return;
  mine.own = &no_log;  // the log may be given back from now on
  signal_fence();
  end_log(log_of(own));
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

// A log with its first chunk, 0 when the pool is used up.
inline block_ref make_log() noexcept {
  const block_ref log_ref = the_pool.take_small();
  const block_ref chunk_ref = log_ref == 0 ? 0 : the_pool.take_small();
  if (chunk_ref == 0) {
    if (log_ref != 0) the_pool.give_back(log_ref);
    return 0;
  }
  auto* const log = new (the_pool.address(log_ref)) log_block;
  log->self = log_ref;
  log->oldest.store(chunk_ref, std::memory_order_relaxed);
  log->current.store(chunk_ref, std::memory_order_relaxed);
  return log_ref;
}

// The first chunk of a log whose `thread` is set.
inline void open_log(log_block& log, stamp now) noexcept {
  log.owner = static_cast<std::uint64_t>(log.thread) << 32;
  init_chunk(log.current.load(std::memory_order_relaxed), log, now, 0);
  chunk_header* const chunk = current_chunk(log);
  log.room = static_cast<std::int32_t>(chunk->bytes - sizeof *chunk);
  publish(log, reinterpret_cast<const char*>(chunk + 1));
  match_high(log, now);
}

// Gives the calling thread a log. Null, and counted by the caller, when the pool is used up or the thread is ending.
inline log_block* register_thread() noexcept {
  thread_block& mine = this_thread;
  if (mine.exited) return nullptr;
  const block_ref ref = make_log();
  if (ref == 0) return nullptr;
  log_block& log = *log_at(ref);
  log.thread = the_registry.next_thread.fetch_add(1, std::memory_order_relaxed);
  log.os_thread = the_id_sources.thread_id.load(std::memory_order_relaxed)();
  name_thread(log, mine);
  open_log(log, read_clock());
  if (!exit_hook().arm(&mine)) log.asked_thread = system_thread_id();
  block_ref head = the_cold.logs.load(std::memory_order_relaxed);
  do {
    log.next.store(head, std::memory_order_relaxed);
    // Release: whoever walks the list sees the whole log.
  } while (!the_cold.logs.compare_exchange_weak(head, ref, std::memory_order_release, std::memory_order_relaxed));
  return &log;
}

enum class entered { now, before };

// While it lives the calling thread is inside the recorder: scopes of signal handlers are refused. `log` is null when
// this thread cannot record, or was inside the recorder already.
class inside_recorder {
 public:
  explicit inside_recorder(entered when = entered::now) noexcept {
    thread_block& mine = this_thread;
    if (!has_log(*mine.own)) {
      if (!mine.registering)
        enter_new(mine);
      else
        reentrant = true;
      return;
    }
    reentrant = when == entered::now && mine.own->inside;
    if (reentrant) return;
    log = &log_of(mine.own);
    log->inside = true;
    signal_fence();
  }
  ~inside_recorder() {
    signal_fence();
    if (log != nullptr) log->inside = false;
  }
  inside_recorder(const inside_recorder&) = delete;
  inside_recorder& operator=(const inside_recorder&) = delete;

  log_block* log = nullptr;
  bool reentrant = false;

 private:
  void enter_new(thread_block& mine) noexcept {
    mine.registering = true;
    signal_fence();
    // A signal handler may have been faster.
    log = has_log(*mine.own) ? &log_of(mine.own) : register_thread();
    if (log != nullptr) {
      log->inside = true;
      signal_fence();
      mine.own = log;
    }
    signal_fence();
    mine.registering = false;
  }
};

// Where the losses of this thread are counted.
inline log_counters& my_counters() noexcept {
  writer* const own = this_thread.own;
  return has_log(*own) ? log_of(own).counters : the_cold.counters;
}

inline void count_dropped_begin(bool reentrant) noexcept {
  log_counters& counters = my_counters();
  counters.dropped_begins.fetch_add(1, std::memory_order_relaxed);
  if (reentrant) counters.reentrant.fetch_add(1, std::memory_order_release);
}

// --- the functions of the table -------------------------------------------------------------------------------------

// Whether scopes of this log get their stacks: set by whatever a scope asks first while they are recorded.
inline bool captures_stacks() noexcept {
  return (the_registry.gate.load(std::memory_order_relaxed) & flag_stacks) != 0;
}
inline void set_captures(log_block& log, bool captures) noexcept {
  if (log.captures == captures) return;
  log.captures = captures;
  match_high(log, stamp{0, log.high});
}

inline std::uint32_t cold_begin(stamp now, std::uint32_t what, bool has_entered) noexcept {
  const bool is_new = !has_log(*this_thread.own);
  const inside_recorder inside(has_entered ? entered::before : entered::now);
  log_block* const log = inside.log;
  now = trusted(now);
  std::uint32_t bytes = 8;
  std::uint32_t stack = 0;
  if (log != nullptr && log->captures) {
    set_captures(*log, captures_stacks());
    if (log->captures) {
      stack = capture_stack(*log, STEPPROF_RETURN_ADDRESS(), false);
      bytes = 16;
    }
  }
  // Registering a thread takes longer than most scopes, so does walking a stack: what it costs is not to be in them.
  if (log != nullptr && (is_new || bytes != 8)) now = read_clock();
  if (log == nullptr || !make_room(*log, now, bytes, 8)) {
    count_dropped_begin(inside.reentrant);
    return 0;
  }
  store_word(cursor(*log), now.low, what);
  if (bytes != 8) store_word(cursor(*log) + 8, 0, make_what(tag::stack, stack));
  adjust_reserve(*log, 8);
  publish_record(*log, bytes);
  return log->thread;
}

inline bool append_record(std::uint32_t what, bool timed, const record_part* parts, std::uint32_t count,
                          std::int32_t reserve) noexcept;

// A scope that was begun by such a thread, in the process that forked this one, has nobody who waits for its end.
// 0 is a thread that had no log yet.
inline bool is_of_parent(std::uint32_t thread) noexcept {
  return thread != 0 && thread < the_cold.first_thread.load(std::memory_order_relaxed);
}

// The end of a scope that this thread began.
inline void end_here(stamp now, std::uint32_t what, entered when) noexcept {
  const inside_recorder inside(when);
  // Ended inside the recorder: it stays open and is reported as unfinished.
  if (inside.log == nullptr)
    the_cold.counters.lost_ends.fetch_add(1, std::memory_order_relaxed);
  else if (!write_end(*inside.log, trusted(now), what, 0, 8))
    inside.log->counters.lost_ends.fetch_add(1, std::memory_order_relaxed);
}

inline void cold_end(stamp now, std::uint32_t what, std::uint32_t thread, bool has_entered) noexcept {
  if (thread == this_thread_id()) return end_here(now, what, has_entered ? entered::before : entered::now);
  signal_fence();
  // It has another log, or none, when a signal handler has forked in between and this is the child.
  if (has_entered && has_log(*this_thread.own)) this_thread.own->inside = false;
  if (is_of_parent(thread)) return;
  const std::uint64_t owner = thread;
  const record_part part{&owner, 8};
  append_record(make_what(tag::foreign_end, what), true, &part, 1, 0);
}

inline std::uint32_t register_site(call_site& site) noexcept {
  const inside_recorder inside;
  const std::size_t size = std::strlen(site.name);
  if (size > max_name_bytes) my_counters().cut_names.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t place =
      the_names.sites.insert(site.name, cut_text(site.name, size, max_name_bytes), site.file, site.line);
  if (place == 0) {
    count_dropped_begin(inside.reentrant);
    return 0;
  }
  site.end_what.store(what_of(tag::end, place), std::memory_order_relaxed);
  // Release: whoever sees it finds the word for the end. The name behind it was published when it was inserted.
  site.what.store(what_of(tag::begin_user, place), std::memory_order_release);
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

inline std::uint32_t look_up_name(log_block& log, const char* text, std::size_t size) noexcept {
  // Sequentially consistent, like the store in begin_name_session: either the control side sees that this thread is
  // inside, or this thread sees the new session and leaves the table that is about to be cleared alone.
  log.interning.store(1, std::memory_order_seq_cst);
  const std::uint32_t session = the_names.session.load(std::memory_order_seq_cst);
  const std::uint32_t table = session & 1u;
  const std::uint32_t place = the_names.runtime[table].insert(text, size);
  log.interning.store(0, std::memory_order_release);
  if (place == 0 || !note_name_session(log, session)) return overflow_name;
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
  if (inside.log == nullptr) return overflow_name;  // nothing can be written now anyway
  if (size <= sizeof(cached_name::text)) {
    const cached_name& entry = inside.log->cache[cache_slot(text, size)];
    // Acquire: the table of this session is clean before its names are used.
    if (entry.session == the_names.session.load(std::memory_order_acquire) && entry.size == size &&
        std::memcmp(entry.text, text, size) == 0)
      return entry.id;
  }
  if (size > max_name_bytes) inside.log->counters.cut_names.fetch_add(1, std::memory_order_relaxed);
  return look_up_name(*inside.log, text, cut_text(text, size, max_name_bytes));
}

// --- stacks: what the table holds while they are recorded ------------------------------------------------------------

// From its next scope on the calling thread's begins take the slow path, where stacks are captured.
inline void begin_capturing() noexcept {
  const inside_recorder inside;
  if (inside.log != nullptr && captures_stacks()) set_captures(*inside.log, true);
}
inline std::uint32_t capturing_site(call_site& site) noexcept {
  begin_capturing();
  // Acquire: then the end finds its word, too.
  const std::uint32_t what = site.what.load(std::memory_order_acquire);
  return what != 0 ? what : register_site(site);
}
inline std::uint32_t capturing_intern(const char* text, std::size_t size) noexcept {
  begin_capturing();
  return intern_name(text, size);
}

inline void copy_parts(char* at, const record_part* parts, std::uint32_t count, std::uint32_t padded) noexcept {
  char* const end = at + padded;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::memcpy(at, parts[i].data, parts[i].bytes);
    at += parts[i].bytes;
  }
  if (at != end) std::memset(at, 0, static_cast<std::size_t>(end - at));
}

inline void count_dropped_record(std::uint32_t what, bool reentrant) noexcept {
  log_counters& counters = my_counters();
  switch (static_cast<tag>(what >> 24)) {
    case tag::begin_manual_op:
    case tag::begin_manual_user:
    case tag::begin_manual_backward:
      count_dropped_begin(reentrant);
      break;
    case tag::end_manual:
    case tag::foreign_end:
      counters.lost_ends.fetch_add(1, std::memory_order_relaxed);
      break;
    case tag::alloc:
    case tag::free:
    case tag::free_range:
    case tag::device_alloc:
    case tag::device_free:
    case tag::device_free_range:
      counters.dropped_memory.fetch_add(1, std::memory_order_relaxed);
      break;
    case tag::own_alloc:  // nobody misses them
    case tag::own_free:
      break;
    default:
      counters.dropped_arguments.fetch_add(1, std::memory_order_relaxed);
      break;
  }
}

// A manual scope's serial begins with the thread that began it.
inline bool is_end_of_parent(std::uint32_t what, const record_part* parts) noexcept {
  if ((what >> 24) != static_cast<std::uint32_t>(tag::end_manual)) return false;
  std::uint64_t serial = 0;
  std::memcpy(&serial, parts[0].data, 8);
  return is_of_parent(static_cast<std::uint32_t>(serial >> 32));
}

inline bool append_record(std::uint32_t what, bool timed, const record_part* parts, std::uint32_t count,
                          std::int32_t reserve) noexcept {
  if (reserve == 0 && is_end_of_parent(what, parts)) return false;
  const inside_recorder inside;
  log_block* const log = inside.log;
  if (log == nullptr) {
    count_dropped_record(what, inside.reentrant);
    return false;
  }
  std::uint32_t payload = 0;
  for (std::uint32_t i = 0; i < count; ++i) payload += parts[i].bytes;
  const std::uint32_t padded = (payload + 7) & ~7u;
  // Facts have no time: for them the clock is read only where it begins a chunk.
  const bool fits = static_cast<std::int64_t>(log->room) >= std::int64_t{8} + padded;
  // A block goes from thread to thread: that its reports are in the order of what happened to it must not depend on
  // how far ahead a processor reads its clock.
  if (is_memory(static_cast<tag>(what >> 24))) order_clock();
  const stamp now = timed || log->deep || !fits ? read_clock() : stamp{0, log->high};
  if (reserve < 0) {  // the end of a manual scope of this thread
    std::uint64_t serial = 0;
    std::memcpy(&serial, parts[0].data, 8);
    if (write_end(*log, now, what, serial, 16)) return true;
    count_dropped_record(what, inside.reentrant);
    return false;
  }
  // Nearly always there is room at the cursor, and nothing to be made of it.
  const bool is_ready = fits && reserve == 0 && !log->deep && now.high == log->high;
  if (!is_ready &&
      (padded > chunk_room / 2 || !make_room(*log, now, 8 + padded, static_cast<std::uint32_t>(reserve)))) {
    count_dropped_record(what, inside.reentrant);
    return false;
  }
  char* const at = cursor(*log);
  store_word(at, timed ? now.low : payload, what);
  copy_parts(at + 8, parts, count, padded);
  adjust_reserve(*log, reserve);
  publish_record(*log, 8 + padded);
  return true;
}

// A manual scope's begin, with its stack behind it.
inline bool capturing_append(std::uint32_t what, bool timed, const record_part* parts, std::uint32_t count,
                             std::int32_t reserve) noexcept {
  std::uint32_t stack = 0;
  if (reserve > 0) {
    const inside_recorder inside;
    if (inside.log != nullptr && captures_stacks()) stack = capture_stack(*inside.log, STEPPROF_RETURN_ADDRESS(), true);
  }
  if (!append_record(what, timed, parts, count, reserve)) return false;
  if (stack != 0) append_record(make_what(tag::stack, stack), false, nullptr, 0, 0);
  return true;
}

inline void set_this_thread_name(const char* text, std::size_t size) noexcept {
  writer* const own = this_thread.own;
  if (has_log(*own)) log_of(own).name.set(text, size);
}

// --- control --------------------------------------------------------------------------------------------------------

struct cold_tables {
  static const cold_table plain;
  static const cold_table capturing;
};
inline constexpr cold_table cold_tables::plain = {cold_table_abi,        &cold_begin,         &cold_end,
                                                  &register_site,        &intern_name,        &append_record,
                                                  &set_this_thread_name, &cold_tables::plain, &cold_tables::capturing};
inline constexpr cold_table cold_tables::capturing = {
    cold_table_abi,    &cold_begin,           &cold_end,           &capturing_site,        &capturing_intern,
    &capturing_append, &set_this_thread_name, &cold_tables::plain, &cold_tables::capturing};

inline const cold_table& the_cold_table() noexcept {
  return cold_tables::plain;
}

// Puts in place what a session with these flags needs, of the module that the table in place is from. While the gate is
// closed.
inline void choose_cold_table(std::uint32_t flags) noexcept {
  const cold_table* const table = the_registry.cold.load(std::memory_order_relaxed);
  // Release: as when the first was put in place.
  the_registry.cold.store((flags & flag_stacks) != 0 ? table->capturing : table->plain, std::memory_order_release);
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
