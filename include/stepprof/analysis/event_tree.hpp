// What the nesting of a trace means: self time, memory of each event, depth, top level and enclosing scopes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <stepprof/analysis/memory_use.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/large_pages.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {
class pause_sums;
}

/// The facts that follow from which event encloses which.
///
/// Self time is an event's own time minus that of its direct children on the same thread, minus paused time that lies
/// in none of them. So Σ self over a thread = length of the union of its top-level events minus the pauses inside
/// them, exactly. Events on async and device tracks have self 0, but keep the memory that was booked to them.
/// Made in linear time without recursion; holds a (cheap) copy of the trace. Any thread may share a const one.
class event_tree {
 public:
  explicit event_tree(const trace& source) : event_tree(source, detail::own_work()) {}

  [[nodiscard]] const trace& source() const noexcept { return trace_; }
  [[nodiscard]] std::int64_t self_ns(std::uint32_t event) const noexcept { return self_ns_[event]; }
  [[nodiscard]] std::int64_t total_ns(std::uint32_t event) const noexcept {
    return trace_.events()[event].duration_ns();
  }
  /// Memory, with frees booked to the scopes that made them. See memory_use.hpp.
  [[nodiscard]] const memory_use& memory() const noexcept { return memory_; }
  /// Memory reported while this event was the innermost open one of its thread.
  [[nodiscard]] const memory_sums& self_memory(std::uint32_t event) const noexcept { return memory_.self(event); }
  /// Memory of the event and of everything nested in it.
  [[nodiscard]] const memory_sums& total_memory(std::uint32_t event) const noexcept { return memory_.total(event); }
  /// Whether any memory was reported at all.
  [[nodiscard]] bool has_memory() const noexcept { return memory_.has_memory(); }
  /// Memory reported outside every scope.
  [[nodiscard]] const memory_sums& memory_outside() const noexcept { return memory_.outside(); }
  /// How many events enclose this one.
  [[nodiscard]] std::uint32_t depth(std::uint32_t event) const noexcept { return nesting_[event].depth; }
  /// The outermost event around this one, itself when nothing encloses it.
  [[nodiscard]] std::uint32_t top_level(std::uint32_t event) const noexcept { return nesting_[event].top_level; }
  /// One past the last event nested in this one: [event, subtree_end(event)) is the event with all below it.
  [[nodiscard]] std::uint32_t subtree_end(std::uint32_t event) const noexcept { return nesting_[event].subtree_end; }
  /// The enclosing events, innermost first, at most `limit`.
  [[nodiscard]] std::vector<std::uint32_t> enclosing(std::uint32_t event, std::size_t limit = npos) const;

 private:
  event_tree(const trace& source, const detail::own_work& own);
  void sum_times();
  void sum_thread(std::uint32_t first, std::uint32_t end, const detail::pause_sums& pauses);

  trace trace_;
  std::vector<std::int64_t> self_ns_;
  memory_use memory_;
  struct nesting {
    std::uint32_t depth = 0;
    std::uint32_t top_level = npos;
    std::uint32_t subtree_end = 0;
  };
  std::vector<nesting> nesting_;
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// How much of a range was paused. Pauses may come unsorted or overlapping, from a merge of traces, and from a file with
// any times: sums are of disjoint ranges, so they fit into 64 bits without a sign, in which differences are exact.
class pause_sums {
 public:
  explicit pause_sums(std::vector<paused_interval> pauses) {
    std::sort(pauses.begin(), pauses.end(),
              [](const paused_interval& a, const paused_interval& b) { return a.begin_ns < b.begin_ns; });
    std::uint64_t sum = 0;
    for (const paused_interval& pause : pauses) {
      if (pause.end_ns <= pause.begin_ns) continue;
      if (!merged_.empty() && pause.begin_ns <= merged_.back().end_ns) {
        if (pause.end_ns <= merged_.back().end_ns) continue;
        sum += length(merged_.back().end_ns, pause.end_ns);
        merged_.back().end_ns = pause.end_ns;
      } else {
        before_.push_back(sum);
        merged_.push_back(pause);
        sum += length(pause.begin_ns, pause.end_ns);
      }
    }
  }
  // The range must be no longer than 2^63 - 1 ns.
  [[nodiscard]] std::int64_t between(std::int64_t begin_ns, std::int64_t end_ns) const noexcept {
    return merged_.empty() ? 0 : static_cast<std::int64_t>(until(end_ns) - until(begin_ns));
  }

 private:
  static std::uint64_t length(std::int64_t begin_ns, std::int64_t end_ns) noexcept {
    return static_cast<std::uint64_t>(end_ns) - static_cast<std::uint64_t>(begin_ns);
  }
  [[nodiscard]] std::uint64_t until(std::int64_t time_ns) const noexcept {
    const auto after = std::upper_bound(merged_.begin(), merged_.end(), time_ns,
                                        [](std::int64_t t, const paused_interval& p) { return t < p.begin_ns; });
    if (after == merged_.begin()) return 0;
    const auto at = static_cast<std::size_t>(after - merged_.begin() - 1);
    return before_[at] + length(merged_[at].begin_ns, (std::min)(time_ns, merged_[at].end_ns));
  }

  std::vector<paused_interval> merged_;
  std::vector<std::uint64_t> before_;  // paused time before merged_[i] begins
};

}  // namespace detail

// The copy and all the rest are the profiler's memory.
inline event_tree::event_tree(const trace& source, const detail::own_work&) : trace_(source), memory_(trace_) {
  sum_times();
}

inline void event_tree::sum_times() {
  const std::vector<trace_event>& events = trace_.events();
  const detail::pause_sums pauses(trace_.pauses());
  detail::reserve_large(self_ns_, events.size());
  detail::reserve_large(nesting_, events.size());
  self_ns_.resize(events.size());
  nesting_.resize(events.size());
  for (const trace_track& track : trace_.tracks()) {
    const std::uint32_t end = track.first_event + track.event_count;
    if (track.kind == track_kind::thread)
      sum_thread(track.first_event, end, pauses);
    else
      for (std::uint32_t i = track.first_event; i < end; ++i) nesting_[i] = {0, i, i + 1};
  }
}

inline void event_tree::sum_thread(std::uint32_t first, std::uint32_t end, const detail::pause_sums& pauses) {
  const trace_event* const events = trace_.events().data();
  std::uint32_t open = npos;
  const auto close_down_to = [&](std::uint32_t outer, std::uint32_t at) {
    for (; open != outer; open = events[open].parent) nesting_[open].subtree_end = at;
  };
  for (std::uint32_t i = first; i < end; ++i) {
    const trace_event& e = events[i];
    close_down_to(e.parent, i);
    open = i;
    const std::int64_t active_ns = e.duration_ns() - pauses.between(e.begin_ns, e.end_ns);
    self_ns_[i] += active_ns;
    nesting& n = nesting_[i];
    n.top_level = i;
    if (e.parent == npos) continue;
    self_ns_[e.parent] -= active_ns;
    n.depth = nesting_[e.parent].depth + 1;
    n.top_level = nesting_[e.parent].top_level;
  }
  close_down_to(npos, end);
}

inline std::vector<std::uint32_t> event_tree::enclosing(std::uint32_t event, std::size_t limit) const {
  std::vector<std::uint32_t> result;
  for (std::uint32_t at = trace_.events()[event].parent; at != npos && result.size() < limit;
       at = trace_.events()[at].parent)
    result.push_back(at);
  return result;
}

STEPPROF_END_NAMESPACE
