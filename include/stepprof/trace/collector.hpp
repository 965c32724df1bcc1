// The reading side of all logs: notes where a window ends in each of them, replays what lies before, and makes the
// trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <stepprof/core/cold_paths.hpp>
#include <stepprof/trace/foreign_ends.hpp>
#include <stepprof/trace/time_base.hpp>
#include <stepprof/trace/trace_builder.hpp>
#include <stepprof/trace/window_assembly.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Begins of scopes, counted exactly since the process began: each begin that passed the gate is in one of these
/// counts.
struct recording_totals {
  std::uint64_t kept = 0;        ///< In a delivered window, and ended in it.
  std::uint64_t unfinished = 0;  ///< In a delivered window, still open when it was cut.
  std::uint64_t late = 0;        ///< Passed the gate, but lie in no window.
  std::uint64_t discarded = 0;   ///< In a warm-up window, which is thrown away.
  std::uint64_t dropped = 0;     ///< Memory was full, or begun inside the recorder itself; or overwritten.
};

namespace detail {

// All of it under the control lock.
class collector {
 public:
  // What could not be recorded.
  struct losses {
    std::uint64_t dropped = 0;
    std::uint64_t reentrant = 0;
    std::uint64_t arguments = 0;
    std::uint64_t memory = 0;
    std::uint64_t ends = 0;
    std::uint64_t cut_names = 0;
    std::uint64_t overwritten = 0;
    void add(const log_counters& c) {
      // In this order: a begin is counted as dropped before it is counted as reentrant or overwritten.
      reentrant += c.reentrant.load(std::memory_order_acquire);
      overwritten += c.overwritten.load(std::memory_order_acquire);
      dropped += c.dropped_begins.load(std::memory_order_relaxed);
      arguments += c.dropped_arguments.load(std::memory_order_relaxed);
      memory += c.dropped_memory.load(std::memory_order_relaxed);
      ends += c.lost_ends.load(std::memory_order_relaxed);
      cut_names += c.cut_names.load(std::memory_order_relaxed);
    }
    void subtract(const losses& other) {
      reentrant -= other.reentrant;
      dropped -= other.dropped;
      arguments -= other.arguments;
      memory -= other.memory;
      ends -= other.ends;
      cut_names -= other.cut_names;
      overwritten -= other.overwritten;
    }
  };

  // A place in every log: all that stands before belongs to the past, and so do the losses.
  struct cut {
    struct place {
      block_ref log = 0;
      block_ref chunk = 0;
      std::uint32_t bytes = 0;
      bool dead = false;
    };
    std::vector<place> places;
    // Before any place was looked at: what stands behind one is not older, but for a scope that began as its log was
    // looked at. What stands before one may be younger, by as long as all of it took.
    std::uint64_t ticks = 0;
    losses lost;  // since the process began
  };

  // A cut with room for the places of all logs, so that noting them takes no memory: operators new may record.
  static cut prepare() {
    cut empty;
    std::size_t logs = 0;
    for (block_ref ref = the_cold.logs.load(std::memory_order_acquire); ref != 0; ++logs)
      ref = log_at(ref)->next.load(std::memory_order_acquire);
    empty.places.reserve(logs + 8);
    return empty;
  }
  // Notes the published position of every log, and holds them: discard(), collect() or let_go() must follow. The gate
  // must have been changed before.
  cut note(cut now = prepare()) {
    while (!note_places(now)) now.places.reserve(2 * now.places.capacity());
    now.lost.add(the_cold.counters);
    std::reverse(now.places.begin(), now.places.end());  // oldest thread first
    return now;
  }

  // Nothing is read up to this cut.
  static void let_go(const cut& unread) noexcept {
    for (const cut::place& place : unread.places) let_log_go(*log_at(place.log));
  }

  // Reads up to the cut and forgets it. Whether these begins were late or in a warm-up window is the caller's to say.
  void discard(const cut& until, bool warmup) {
    std::vector<replayed_thread> threads;
    for (const cut::place& place : until.places) {
      reader& r = reader_of(place.log);
      r.replay.begin_window(r.thread, the_names.session.load(std::memory_order_relaxed),
                            event_list(event_list::only_counted()));
      read(r, place, true);
      threads.push_back({r.replay.end_window(until.ticks), &r.replay});
      (warmup ? totals_.discarded : totals_.late) += threads.back().record.begins;
      window_late_ += warmup ? 0 : threads.back().record.begins;
    }
    foreign_ends_.settle(threads);
    for (std::size_t i = 0; i < threads.size(); ++i) give_room_back(until.places[i], threads[i].record);
    let_go_of_read(until);
    reported_losses_ = until.lost;  // of no window
    retire(until);
  }

  // What came late so far belongs to no window of the session that begins.
  void forget_late() noexcept { window_late_ = 0; }

  // Makes the trace of a window that ends at the cut, and frees what was read. With `keep`, a snapshot: nothing is
  // consumed and nothing changes.
  trace collect(const cut& until, const window_facts& window, std::error_code& ec, bool keep = false);

  // What was read, and what was lost up to the cut.
  [[nodiscard]] recording_totals totals(const cut& until) const {
    recording_totals sum = totals_;
    sum.dropped = until.lost.dropped;
    return sum;
  }
  [[nodiscard]] time_base& clock() noexcept { return time_; }

  // In a forked child: forgets everything, keeps the memory.
  void reset_after_fork() {
    for (block_ref ref = the_cold.logs.exchange(0, std::memory_order_relaxed); ref != 0;) {
      log_block* const log = log_at(ref);
      const block_ref from = oldest_chunk(*log);
      ref = log->next.load(std::memory_order_relaxed);
      while (const block_ref spare = pop_spare(*log)) the_pool.give_back(spare);
      give_back_log(log, from);
    }
    readers_.clear();
    foreign_ends_.clear();
    window_late_ = 0;
    the_cold.counters.reset();
    totals_ = {};
    dead_losses_ = {};
    reported_losses_ = {};
  }

 private:
  struct reader {
    block_ref chunk = 0;         // being read
    std::uint32_t bytes = 0;     // of it, read so far
    std::uint32_t sequence = 0;  // of it
    std::uint32_t thread = 0;
    log_replay replay;

    void enter(block_ref ref) noexcept {
      chunk = ref;
      bytes = sizeof(chunk_header);
      sequence = chunk_at(ref)->sequence;
    }
  };
  // False: there is no room for all of them.
  bool note_places(cut& now) const {
    now.places.clear();
    now.lost = dead_losses_;
    now.ticks = ticks_of(read_clock());
    // The list is read after the clock, too: a thread that joins it later is younger.
    for (block_ref ref = the_cold.logs.load(std::memory_order_acquire); ref != 0;) {
      if (now.places.size() == now.places.capacity()) return false;
      log_block* const log = log_at(ref);
      hold_log(*log);
      cut::place place;
      place.log = ref;
      place.dead = has_ended(*log);  // before the position: what a dead thread published is final
      now.lost.add(log->counters);
      place.chunk = log->current.load(std::memory_order_acquire);
      place.bytes = published_bytes(*log, place.chunk);
      now.places.push_back(place);
      ref = log->next.load(std::memory_order_acquire);
    }
    return true;
  }

  // Of a log that is held. Stands at the first record that was not read and is still there.
  reader& reader_of(block_ref ref) {
    const log_block& log = *log_at(ref);
    const block_ref oldest = oldest_chunk(log);
    const auto [found, is_new] = readers_.try_emplace(ref);
    reader& r = found->second;
    if (!is_new && r.sequence == chunk_at(oldest)->sequence) return r;
    r.thread = log.thread;
    r.enter(oldest);
    // A log's first chunk says what was lost before it, too.
    if (is_new && log.counters.overwritten.load(std::memory_order_relaxed) == 0)
      r.replay.enter_chunk(*chunk_at(oldest));
    else
      r.replay.enter_behind_gap(*chunk_at(oldest));
    return r;
  }

  // Replays from the reader's place to the cut's. Chunks that are read and left are freed when `consume`.
  void read(reader& r, const cut::place& until, bool consume) {
    for (;;) {
      chunk_header* const chunk = chunk_at(r.chunk);
      // Acquire: a link says that `published` is final. So the link is looked at first.
      const block_ref next = r.chunk == until.chunk ? 0 : chunk->next.load(std::memory_order_acquire);
      const std::uint32_t end = next == 0 ? until.bytes : published_bytes(chunk);
      if (end > r.bytes)
        r.bytes +=
            static_cast<std::uint32_t>(r.replay.replay(reinterpret_cast<const char*>(chunk) + r.bytes, end - r.bytes));
      if (next == 0) return;
      if (consume) {
        move_oldest(*log_at(until.log), next);
        chunk->state.store(static_cast<std::uint32_t>(chunk_state::free), std::memory_order_relaxed);
        give_back(r.chunk);
      }
      r.enter(next);
      r.replay.enter_chunk(*chunk_at(next));
    }
  }

  // When all logs have been read up to the cut.
  void let_go_of_read(const cut& until) {
    for (const cut::place& place : until.places) {
      const reader& r = readers_.at(place.log);
      let_log_go(*log_at(place.log), r.bytes);
    }
  }

  // What is to be read up to the cut.
  [[nodiscard]] std::size_t unread_bytes(const cut& until) {
    std::size_t sum = 0;
    for (const cut::place& place : until.places) {
      const reader& r = reader_of(place.log);
      std::size_t read = r.bytes;
      for (block_ref chunk = r.chunk; chunk != place.chunk; read = sizeof(chunk_header)) {
        // Acquire, first the link, as in read().
        const block_ref next = chunk_at(chunk)->next.load(std::memory_order_acquire);
        sum += published_bytes(chunk_at(chunk)) - read;
        if (next == 0) break;
        chunk = next;
      }
      if (place.bytes > read) sum += place.bytes - read;
    }
    return sum;
  }
  static void give_room_back(const cut::place& place, const thread_record& record) noexcept {
    // Relaxed: only a number.
    if (record.unneeded_bytes != 0)
      log_at(place.log)->unneeded_bytes.fetch_add(record.unneeded_bytes, std::memory_order_relaxed);
  }

  void give_back(block_ref ref) noexcept {
    the_pool.give_back(ref);
    if (block_pool::bytes_of(ref) == small_bytes) ++freed_pieces_;
  }

  // Frees the logs of threads that have ended and are read, and makes blocks of pieces again. Short threads cut blocks
  // into pieces, so do many threads that share a full pool; without this they would stay pieces.
  void retire(const cut& until) {
    std::vector<log_block*> ended;
    for (const cut::place& place : until.places)
      if (place.dead) ended.push_back(log_at(place.log));
    if (!ended.empty()) free_logs(ended);
    if (freed_pieces_ < block_bytes / small_bytes) return;
    freed_pieces_ = 0;
    rejoin_pieces();
  }
  void free_logs(const std::vector<log_block*>& ended) {
    unlink(ended);
    for (log_block* const log : ended) {
      dead_losses_.add(log->counters);
      const block_ref ref = log->self;
      give_back_log(log, readers_.at(ref).chunk);
      readers_.erase(ref);
      freed_pieces_ += 2;  // itself, and most often its last chunk
    }
  }
  // Makes whole blocks again of those whose pieces are all free. Other threads may take and give back meanwhile.
  static void rejoin_pieces() {
    std::vector<block_ref> pieces;
    while (const block_ref piece = the_pool.take_free_piece()) pieces.push_back(piece);
    std::sort(pieces.begin(), pieces.end());
    for (std::size_t i = 0; i < pieces.size();) {
      const block_ref block = pieces[i] & ~31u;
      std::size_t end = i;
      while (end < pieces.size() && (pieces[end] & ~31u) == block) ++end;
      const bool whole = end - i == block_bytes / small_bytes;
      if (whole) the_pool.give_back(block);
      for (std::size_t k = whole ? end : i; k < end; ++k) the_pool.give_back(pieces[k]);
      i = end;
    }
  }
  // Takes logs out of the list, in one walk. Only this side removes logs; threads only push at the head.
  static void unlink(const std::vector<log_block*>& ended) {
    std::unordered_set<block_ref> gone;
    for (const log_block* const log : ended) gone.insert(log->self);
    log_block* before = nullptr;
    for (block_ref ref = the_cold.logs.load(std::memory_order_acquire); ref != 0;) {
      log_block* const log = log_at(ref);
      const block_ref next = log->next.load(std::memory_order_acquire);
      if (gone.count(ref) == 0)
        before = log;
      else if (before != nullptr)
        before->next.store(next, std::memory_order_release);
      else
        unlink_head(ref, next);
      ref = next;
    }
  }
  // The first log that was seen; others may have been pushed in front of it meanwhile.
  static void unlink_head(block_ref ref, block_ref next) {
    block_ref head = ref;
    if (the_cold.logs.compare_exchange_strong(head, next, std::memory_order_acq_rel, std::memory_order_acquire)) return;
    log_block* before = log_at(head);
    while (before->next.load(std::memory_order_acquire) != ref)
      before = log_at(before->next.load(std::memory_order_acquire));
    before->next.store(next, std::memory_order_release);
  }

  static constexpr std::size_t bytes_of_scope = 16;  // begin and end

  std::unordered_map<block_ref, reader> readers_;
  foreign_ends foreign_ends_;
  recording_totals totals_;  // but for `dropped`, which every cut counts anew
  losses dead_losses_;       // of threads that have ended
  losses reported_losses_;   // up to the last cut
  std::uint64_t window_late_ = 0;
  std::size_t freed_pieces_ = 0;  // since blocks were put together again
  std::uint64_t reported_cold_ = 0;
  time_base time_;
};

inline trace collector::collect(const cut& until, const window_facts& window, std::error_code& ec, bool keep) {
  std::vector<window_assembly::thread_part> parts;
  std::vector<std::unique_ptr<reader>> copies;
  std::uint64_t end_ticks = until.ticks;
  const std::uint64_t blocks = the_pool.taken_blocks();  // before reading gives them back
  window_assembly assembly(window);
  assembly.reserve_events(unread_bytes(until) / bytes_of_scope + window.borders.size());
  for (const cut::place& place : until.places) {
    reader& original = reader_of(place.log);
    if (keep) copies.push_back(std::make_unique<reader>(original));
    reader& r = keep ? *copies.back() : original;
    r.replay.not_before(window.open_ticks);
    r.replay.begin_window(r.thread, the_names.session.load(std::memory_order_relaxed),
                          event_list(assembly.events_of(r.thread)));
    read(r, place, !keep);
    const log_block* const log = log_at(place.log);
    char name[64] = {};
    log->name.get(name);
    parts.push_back({r.replay.end_window(until.ticks), &r.replay, log->os_thread, name});
    end_ticks = (std::max)(end_ticks, parts.back().record.cut_ticks);
  }
  const clock_anchor newest = time_.newest();
  const tick_converter convert = time_.converter(newest);
  if (!keep) time_.note_cut(end_ticks, convert);
  assembly.set_times(until.ticks, end_ticks, convert, time_.oldest(), newest);
  assembly.add_process();
  foreign_ends ends = foreign_ends_;
  const foreign_ends::unmatched unmatched = ends.settle(parts);
  assembly.builder().losses().unmatched_ends = unmatched.ends;
  assembly.builder().losses().overwritten_ends = unmatched.overwritten;
  if (!keep) foreign_ends_ = std::move(ends);
  assembly.assemble(parts);
  losses lost = until.lost;
  lost.subtract(reported_losses_);
  loss_counts& counts = assembly.builder().losses();
  counts.dropped = lost.dropped;
  counts.reentrant = lost.reentrant;
  counts.overwritten = lost.overwritten;
  counts.dropped_arguments = lost.arguments;
  counts.dropped_memory = lost.memory;
  counts.late = window_late_;
  counts.cold_chunks = the_pool.cold_blocks() - reported_cold_;
  assembly.builder().info().profiler_bytes = blocks * block_bytes;
  assembly.add_loss_notes();
  if (lost.cut_names != 0)
    assembly.builder().add_note("names_cut", std::to_string(lost.cut_names) + " use(s) of names longer than " +
                                                 std::to_string(max_name_bytes) +
                                                 " bytes, which were cut: names that agree so far are one name");
  if (!keep) {
    totals_.kept += counts.kept;
    totals_.unfinished += counts.unfinished;
    for (std::size_t i = 0; i < parts.size(); ++i) give_room_back(until.places[i], parts[i].record);
    window_late_ = 0;
    reported_losses_ = until.lost;
    reported_cold_ = the_pool.cold_blocks();
    parts.clear();
    let_go_of_read(until);
    retire(until);
  } else {
    let_go(until);
  }
  return assembly.builder().finish(ec);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
