// Replays the words of one thread's log into events: nesting comes from the order of the words, never from their times.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stepprof/core/chunk.hpp>
#include <stepprof/core/clock.hpp>
#include <stepprof/core/memory_device.hpp>
#include <stepprof/core/name_table.hpp>
#include <stepprof/core/word.hpp>
#include <stepprof/trace/event_list.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// What a memory report says. The profiler's own allocations are told apart by where they were made.
enum class report_kind : std::uint8_t { alloc, free, free_range, own_alloc, own_free };
[[nodiscard]] constexpr bool is_allocation(report_kind kind) noexcept {
  return kind == report_kind::alloc || kind == report_kind::own_alloc;
}
[[nodiscard]] constexpr bool is_single_free(report_kind kind) noexcept {
  return kind == report_kind::free || kind == report_kind::own_free;
}

// What one thread did in one window, in the order of its log. Times are ticks; names are ids of the log; indices are
// into `events`. A trace_event's times hold ticks until the collector converts them.
struct thread_record {
  struct scope_fact {  // of one event; few events have any
    std::uint32_t event = npos;
    tag what = tag::none;
    std::uint32_t key = 0;  // of an argument
    argument_type type = argument_type::int64;
    std::uint64_t bits = 0;    // sequence number, argument value
    std::uint64_t thread = 0;  // of a link
    std::string text;          // argument text, encoded inputs
  };
  struct memory_report {
    std::uint64_t ticks;
    std::uint64_t address;
    std::uint64_t bytes;  // of an allocation or a range
    std::uint32_t event;
    std::uint32_t pool;  // id of its name, 0: the default one
    memory_device device;
    report_kind kind;
  };
  struct scope_stack {
    std::uint32_t event;
    std::uint32_t id;
  };
  struct mark {
    std::uint64_t ticks;
    std::uint32_t id;
    std::uint32_t event;
    bool is_counter;
    double value;
  };
  struct step_mark {
    std::uint64_t ticks;
    std::int64_t number;
    std::uint32_t position;   // events begun before it
    std::uint32_t innermost;  // open at it
  };
  struct foreign_end {  // ends a scope of another thread
    std::uint64_t ticks;
    std::uint32_t id;
    std::uint32_t thread;  // 0: not known
    std::uint64_t serial;  // of a manual scope; 0: an RAII scope
  };

  std::uint32_t thread = 0;
  event_list events;
  std::vector<scope_fact> facts;
  std::vector<scope_stack> stacks;
  std::vector<memory_report> memory;
  std::vector<mark> marks;
  std::vector<step_mark> steps;
  std::vector<foreign_end> foreign_ends;
  std::uint32_t unneeded_bytes = 0;  // of the log: kept for ends that came on other threads
  std::uint64_t begins = 0;
  std::uint64_t unmatched_ends = 0;
  std::uint64_t overwritten_ends = 0;  // of scopes whose begin was overwritten
  std::uint64_t clamps = 0;
  std::uint64_t overflow_names = 0;
  std::uint64_t open_ticks = 0;  // where the window before ended: nothing begins before
  std::uint64_t cut_ticks = 0;   // where its open scopes end: not before any of its times
  bool has_strays = false;       // some events ended out of order or on another thread
};

// The state of a log between two windows: its clock, and the scopes that are open. Copyable: a snapshot replays on a
// copy.
class log_replay {
 public:
  struct open_scope {
    std::uint32_t id = 0;
    std::uint32_t event = npos;     // npos: begun in an earlier window
    std::uint64_t serial = 0;       // 0: an RAII scope
    std::uint64_t begin_ticks = 0;  // as the log has it: maybe just before the cut at which its window began
    bool ended = false;             // elsewhere
  };

  // Starts a new window: events of scopes that are open now belong to earlier ones.
  // `name_session` is the session of run-time names that began last; `events` is where its events go.
  void begin_window(std::uint32_t thread, std::uint32_t name_session = 0, event_list events = event_list()) {
    known_session_ = name_session;
    out_ = thread_record();
    out_.events = std::move(events);
    out_.thread = thread;
    out_.open_ticks = last_;
    visit_open([](open_scope& scope) { scope.event = npos; });
    latest_stray_ = 0;
    strays_.keep_last(max_old_strays);
  }

  // For a log that may be new: nothing of it begins before.
  void not_before(std::uint64_t ticks) noexcept { last_ = (std::max)(last_, ticks); }

  // At the first word of a chunk.
  void enter_chunk(const chunk_header& chunk) noexcept { high_ = chunk.base_high; }
  // The same where chunks before it were overwritten: which scopes are open is not known, only how many bytes of ends
  // will come.
  void enter_behind_gap(const chunk_header& chunk) noexcept {
    enter_chunk(chunk);
    name_session_ = chunk.name_session;
    open_.clear();
    strays_ = stray_scopes();
    latest_stray_ = 0;
    bytes_of_lost_ends_ = chunk.reserved_at_entry;
    has_gap_ = true;
  }
  // Whether scopes of this log were overwritten, now or in an earlier window.
  [[nodiscard]] bool has_gap() const noexcept { return has_gap_; }

  // Whole records. Stops at the first that makes no sense and returns how many bytes were used.
  std::size_t replay(const char* data, std::size_t bytes) {
    std::size_t at = 0;
    while (bytes - at >= 8) {
      word w;
      std::memcpy(&w, data + at, 8);
      if (is_plain(w)) {
        apply_plain(w);
        at += 8;
        continue;
      }
      const std::uint32_t size = record_size(w);
      if (size == 0 || size > bytes - at) break;
      apply(w, data + at + 8);
      at += size;
    }
    return at;
  }

  // Cuts the scopes that are still open. `ticks` is the end of the window.
  thread_record end_window(std::uint64_t ticks) {
    visit_open([&](const open_scope& scope) {
      if (scope.event == npos) return;
      trace_event& e = out_.events[scope.event];
      e.end_ns = static_cast<std::int64_t>((std::max)({ticks, static_cast<std::uint64_t>(e.begin_ns), last_}));
      e.flags = e.flags | trace_event::unfinished;
    });
    // What comes next belongs to the next window and does not begin before this one's end.
    out_.cut_ticks = last_ = (std::max)(last_, ticks);
    return std::move(out_);
  }

  // Every scope that has no end yet, in no order.
  template <class Visit>
  void visit_open(Visit visit) {
    for (open_scope& scope : open_) visit(scope);
    strays_.visit(visit);
  }
  // The event of the innermost open scope; npos when there is none, or one of an earlier window: those lie below all of
  // this one's.
  [[nodiscard]] std::uint32_t innermost() const noexcept { return open_.empty() ? npos : open_.back().event; }
  // Those that a visitor marked as ended.
  void forget_ended() {
    open_.erase(std::remove_if(open_.begin(), open_.end(), [](const open_scope& s) { return s.ended; }), open_.end());
    strays_.forget_ended();
  }

 private:
  // Where in the window a scope began, counted from 1; those of earlier windows are all 0.
  static std::uint32_t order_of(const open_scope& scope) noexcept { return scope.event + 1; }  // npos: 0

  // Of the scopes that outlived both their enclosing scope and their window, the last few are kept so that their own
  // end is still found: after a longjmp none comes.
  static constexpr std::size_t max_old_strays = 4096;

  // Scopes that outlived their enclosing one, by a manual end, a scope on the heap or a longjmp.
  class stray_scopes {
   public:
    void add(const open_scope& scope) {
      std::vector<open_scope>& list = by_key(scope.serial)[key_of(scope.id, scope.serial)];
      auto at = list.end();  // an outer one may come behind an inner one
      while (at != list.begin() && order_of(*std::prev(at)) > order_of(scope)) --at;
      list.insert(at, scope);
    }
    // The one with the serial number, or the last that began of those with the name, if it is not before `least`.
    bool take(std::uint32_t id, std::uint64_t serial, std::uint32_t least, open_scope& out) {
      scopes_by_key& scopes = by_key(serial);
      const auto found = scopes.find(key_of(id, serial));
      if (found == scopes.end() || order_of(found->second.back()) < least) return false;
      out = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) scopes.erase(found);
      return true;
    }
    template <class Visit>
    void visit(Visit& visit) {
      for (scopes_by_key* scopes : {&manual_, &named_})
        for (auto& [key, list] : *scopes)
          for (open_scope& scope : list) visit(scope);
    }
    void forget_ended() {
      forget([](const open_scope& s) { return s.ended; });
    }
    void keep_last(std::size_t count) {
      std::vector<std::uint64_t> begins;
      const auto add = [&begins](const open_scope& s) { begins.push_back(s.begin_ticks); };
      visit(add);
      if (begins.size() <= count) return;
      const auto first = begins.end() - static_cast<std::ptrdiff_t>(count);
      std::nth_element(begins.begin(), first, begins.end());
      forget([oldest = *first](const open_scope& s) { return s.begin_ticks < oldest; });
    }

   private:
    using scopes_by_key = wide_key_map<std::vector<open_scope>>;
    scopes_by_key& by_key(std::uint64_t serial) { return serial != 0 ? manual_ : named_; }
    static std::uint64_t key_of(std::uint32_t id, std::uint64_t serial) noexcept { return serial != 0 ? serial : id; }
    template <class Condition>
    void forget(Condition gone) {
      for (scopes_by_key* scopes : {&manual_, &named_})
        for (auto it = scopes->begin(); it != scopes->end();) {
          std::vector<open_scope>& list = it->second;
          list.erase(std::remove_if(list.begin(), list.end(), gone), list.end());
          it = list.empty() ? scopes->erase(it) : std::next(it);
        }
    }

    scopes_by_key manual_;
    scopes_by_key named_;
  };

  std::uint64_t time_of(word w) { return clamp((static_cast<std::uint64_t>(high_) << 32) | w.low); }
  std::uint64_t clamp(std::uint64_t ticks) {
    if (ticks < seen_)
      ++out_.clamps;
    else
      seen_ = ticks;
    if (ticks < last_) {  // also a time that was taken just before the last cut, which did not go backwards
      return last_;
    }
    return last_ = ticks;
  }
  // The name's id, unless it is one of a session whose names are gone.
  [[nodiscard]] std::uint32_t name_of(word w) const noexcept {
    const std::uint32_t id = id_of(w);
    if ((id & runtime_name_bit) == 0 || id == overflow_name) return id;
    const bool odd = (id & runtime_table_bit) != 0;
    const std::uint32_t session = odd == ((name_session_ & 1u) != 0) ? name_session_ : name_session_ - 1;
    return known_session_ - session <= 1 ? id : lost_name;
  }
  static std::uint64_t number_at(const char* payload) noexcept {
    std::uint64_t value;
    std::memcpy(&value, payload, 8);
    return value;
  }

  // Nearly all words are: the begins and ends of RAII scopes. Their tags are the smallest but for `none`.
  [[nodiscard]] static bool is_plain(word w) noexcept {
    return static_cast<std::uint32_t>(tag_of(w)) - static_cast<std::uint32_t>(tag::begin_op) <=
           static_cast<std::uint32_t>(tag::end) - static_cast<std::uint32_t>(tag::begin_op);
  }
  void apply_plain(word w) {
    if (tag_of(w) == tag::end)
      end(id_of(w), 0, time_of(w));
    else
      begin(w, static_cast<std::uint32_t>(tag_of(w)) - static_cast<std::uint32_t>(tag::begin_op), 0);
  }

  void apply(word w, const char* payload) {
    switch (tag_of(w)) {
      case tag::begin_op:
      case tag::begin_user:
      case tag::begin_backward:
      case tag::end:
        apply_plain(w);
        break;
      case tag::begin_manual_op:
      case tag::begin_manual_user:
      case tag::begin_manual_backward:
        begin(w, static_cast<std::uint32_t>(tag_of(w)) - static_cast<std::uint32_t>(tag::begin_manual_op),
              number_at(payload));
        break;
      case tag::end_untimed:
        ++out_.clamps;
        end(id_of(w), 0, last_);
        break;
      case tag::end_manual:
        end(id_of(w), number_at(payload), time_of(w));
        break;
      case tag::epoch:
        high_ = static_cast<std::uint32_t>(number_at(payload) >> 32);
        break;
      case tag::name_session:
        name_session_ = static_cast<std::uint32_t>(number_at(payload));
        break;
      case tag::foreign_end:
        out_.foreign_ends.push_back({time_of(w), id_of(w), static_cast<std::uint32_t>(number_at(payload)), 0});
        break;
      case tag::alloc:
      case tag::own_alloc:
      case tag::free:
      case tag::own_free:
      case tag::free_range:
      case tag::device_alloc:
      case tag::device_free:
      case tag::device_free_range:
        add_memory(w, payload);
        break;
      case tag::step:
        out_.steps.push_back({time_of(w), static_cast<std::int64_t>(number_at(payload)),
                              static_cast<std::uint32_t>(out_.events.size()), innermost()});
        break;
      case tag::instant:
        out_.marks.push_back({time_of(w), name_of(w), innermost(), false, 0});
        break;
      case tag::counter: {
        double value;
        std::memcpy(&value, payload, 8);
        out_.marks.push_back({time_of(w), name_of(w), innermost(), true, value});
        break;
      }
      case tag::sequence:
      case tag::link:
      case tag::argument:
      case tag::inputs:
        add_fact(w, payload);
        break;
      case tag::detach:
        if (w.low >= 8) detach(number_at(payload));
        break;
      case tag::stack:
        if (innermost() != npos) out_.stacks.push_back({innermost(), name_of(w)});
        break;
      case tag::none:
        break;
    }
  }

  void add_memory(word w, const char* payload) {
    const tag what = tag_of(w);
    const bool is_on_device = what >= tag::device_alloc;
    const report_kind kind = what == tag::own_alloc                            ? report_kind::own_alloc
                             : what == tag::own_free                           ? report_kind::own_free
                             : what == tag::alloc || what == tag::device_alloc ? report_kind::alloc
                             : what == tag::free || what == tag::device_free   ? report_kind::free
                                                                               : report_kind::free_range;
    thread_record::memory_report& report = out_.memory.emplace_back();
    report.ticks = time_of(w);
    report.address = number_at(payload);
    report.bytes = is_single_free(kind) ? 0 : number_at(payload + 8);
    report.event = innermost();
    report.pool = name_of(w);
    report.device = memory_device();
    report.kind = kind;
    if (!is_on_device) return;
    const std::uint64_t device = number_at(payload + (is_single_free(kind) ? 8 : 16));
    report.device = {static_cast<std::int16_t>(device), static_cast<std::int16_t>(device >> 32)};
  }

  void begin(word w, std::uint32_t kind, std::uint64_t serial) {
    const auto index = static_cast<std::uint32_t>(out_.events.size());
    trace_event& e = out_.events.add();
    e.begin_ns = e.end_ns = static_cast<std::int64_t>(time_of(w));
    e.name = name_of(w);
    e.parent = innermost();
    e.set_kind(static_cast<scope_kind>(kind));
    open_scope& scope = open_.emplace_back();  // field by field: a whole one would be written twice
    scope.id = id_of(w);
    scope.event = index;
    scope.serial = serial;
    scope.begin_ticks = seen_;
    ++out_.begins;
    if (id_of(w) == overflow_name) ++out_.overflow_names;
  }

  static bool is(const open_scope& scope, std::uint32_t id, std::uint64_t serial) noexcept {
    return scope.serial == serial && (serial != 0 || scope.id == id);
  }
  void close(const open_scope& scope, std::uint64_t ticks) {
    if (scope.event != npos) out_.events[scope.event].end_ns = static_cast<std::int64_t>(ticks);
  }

  // Closes the scope with this id that began last: one that outlived a scope around it may have begun behind the
  // innermost one that still nests. Those inside what is closed outlive it now: they do not nest.
  void end(std::uint32_t id, std::uint64_t serial, std::uint64_t ticks) {
    if (!open_.empty() && is(open_.back(), id, serial) && order_of(open_.back()) >= latest_stray_) {
      close(open_.back(), ticks);
      open_.pop_back();
      return;
    }
    if (serial != 0 && end_stray(id, serial, 0, ticks)) return;  // its serial is in one place only: no search
    for (std::size_t i = open_.size(); i-- > 0;) {
      if (!is(open_[i], id, serial)) continue;
      if (serial == 0 && end_stray(id, serial, order_of(open_[i]) + 1, ticks)) return;
      for (std::size_t k = i + 1; k < open_.size(); ++k) make_stray(open_[k], trace_event::out_of_order);
      close(open_[i], ticks);
      open_.resize(i);
      return;
    }
    if (serial == 0 && end_stray(id, serial, 0, ticks)) return;
    // A serial begins with the thread that began the scope: only its own log can have lost the begin.
    const bool is_own = serial == 0 || serial >> 32 == out_.thread;
    if (const std::uint32_t bytes = serial != 0 ? 16 : 8; is_own && bytes_of_lost_ends_ >= bytes) {
      bytes_of_lost_ends_ -= bytes;
      ++out_.overwritten_ends;
    } else if (serial != 0)
      out_.foreign_ends.push_back({ticks, id, 0, serial});
    else
      ++out_.unmatched_ends;
  }
  bool end_stray(std::uint32_t id, std::uint64_t serial, std::uint32_t least, std::uint64_t ticks) {
    open_scope scope;
    if (!strays_.take(id, serial, least, scope)) return false;
    close(scope, ticks);
    return true;
  }
  void detach(std::uint64_t serial) {
    const auto found =
        std::find_if(open_.rbegin(), open_.rend(), [serial](const open_scope& s) { return s.serial == serial; });
    if (serial == 0 || found == open_.rend()) return;
    make_stray(*found, trace_event::async);
    open_.erase(std::next(found).base());
  }
  void make_stray(const open_scope& scope, trace_event::flag why) {
    if (scope.event != npos) {
      trace_event& e = out_.events[scope.event];
      e.flags = (e.flags | why) & 255u;
      out_.has_strays = true;
    }
    strays_.add(scope);
    if (scope.serial == 0) latest_stray_ = (std::max)(latest_stray_, order_of(scope));
  }

  void add_fact(word w, const char* payload) {
    thread_record::scope_fact fact;
    fact.what = tag_of(w);
    fact.event = innermost();
    if (fact.what == tag::argument) {
      if (w.low < 16 || !read_argument(fact, w, payload)) return;
    } else if (fact.what == tag::inputs) {
      fact.text.assign(payload, w.low);
    } else {
      if (w.low < (fact.what == tag::link ? 16u : 8u)) return;
      fact.bits = number_at(payload);
      if (fact.what == tag::link) {
        fact.thread = fact.bits;
        fact.bits = number_at(payload + 8);
      }
    }
    if (fact.event != npos) out_.facts.push_back(std::move(fact));
  }
  bool read_argument(thread_record::scope_fact& fact, word w, const char* payload) {
    std::uint32_t head[2];
    std::memcpy(head, payload, 8);
    fact.key = name_of(w);
    fact.type = static_cast<argument_type>(head[1]);
    fact.bits = number_at(payload + 8);
    if (fact.type == argument_type::text) {
      if (fact.bits > w.low - 16u) return false;
      fact.text.assign(payload + 16, static_cast<std::uint32_t>(fact.bits));
    }
    if (head[0] == 0) return true;
    for (std::size_t i = open_.size(); i-- > 0;)
      if (open_[i].id == head[0]) {
        fact.event = open_[i].event;
        return true;
      }
    return false;
  }

  thread_record out_;
  std::vector<open_scope> open_;
  stray_scopes strays_;
  std::uint32_t latest_stray_ = 0;  // no stray that has only a name began behind it
  std::uint64_t last_ = 0;
  std::uint64_t seen_ = 0;  // the latest time in the log; last_ may be a cut
  std::uint32_t high_ = 0;
  std::uint32_t bytes_of_lost_ends_ = 0;  // that may still come: of scopes that were open at the end of a gap
  bool has_gap_ = false;
  std::uint32_t name_session_ = 0;   // of the log, up to here
  std::uint32_t known_session_ = 0;  // this one's and the one before's names are known
};

}  // namespace detail

STEPPROF_END_NAMESPACE
