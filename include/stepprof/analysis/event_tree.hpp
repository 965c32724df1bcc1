// What the nesting of a trace means: self time, memory of each event, depth, top level and enclosing scopes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <stepprof/trace/large_pages.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Memory of the CPU that one event, or one row of events, allocated and freed. Sums end at 2^63 - 1.
struct memory_sums {
  std::int64_t allocated_bytes = 0;
  std::int64_t freed_bytes = 0;  ///< Positive. Only frees whose allocation is in the trace.
  std::int64_t allocations = 0;
  std::int64_t frees = 0;
  std::int64_t unmatched_frees = 0;  ///< Frees of memory allocated before the window: counted, without bytes.

  [[nodiscard]] std::int64_t net_bytes() const noexcept { return detail::saturating_sub(allocated_bytes, freed_bytes); }

  memory_sums& operator+=(const memory_sums& other) noexcept {
    allocated_bytes = detail::saturating_add(allocated_bytes, other.allocated_bytes);
    freed_bytes = detail::saturating_add(freed_bytes, other.freed_bytes);
    allocations = detail::saturating_add(allocations, other.allocations);
    frees = detail::saturating_add(frees, other.frees);
    unmatched_frees = detail::saturating_add(unmatched_frees, other.unmatched_frees);
    return *this;
  }
};

/// True for memory that the CPU columns count: the plain CPU and the two CPU back ends that libtorch numbers apart.
[[nodiscard]] constexpr bool is_cpu_memory(const memory_event& event) noexcept {
  return event.device_type == 0 || event.device_type == 2 || event.device_type == 5;
}

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
  explicit event_tree(trace source);

  [[nodiscard]] const trace& source() const noexcept { return trace_; }
  [[nodiscard]] std::int64_t self_ns(std::uint32_t event) const noexcept { return self_ns_[event]; }
  [[nodiscard]] std::int64_t total_ns(std::uint32_t event) const noexcept {
    return trace_.events()[event].duration_ns();
  }
  /// Memory reported while this event was the innermost open one of its thread.
  [[nodiscard]] const memory_sums& self_memory(std::uint32_t event) const noexcept {
    return self_memory_.empty() ? none() : self_memory_[event];
  }
  /// Memory of the event and of everything nested in it.
  [[nodiscard]] const memory_sums& total_memory(std::uint32_t event) const noexcept {
    return total_memory_.empty() ? none() : total_memory_[event];
  }
  /// Whether any memory was reported at all.
  [[nodiscard]] bool has_memory() const noexcept { return has_memory_; }
  /// Memory reported outside every scope.
  [[nodiscard]] const memory_sums& memory_outside() const noexcept { return memory_outside_; }
  /// How many events enclose this one.
  [[nodiscard]] std::uint32_t depth(std::uint32_t event) const noexcept { return nesting_[event].depth; }
  /// The outermost event around this one, itself when nothing encloses it.
  [[nodiscard]] std::uint32_t top_level(std::uint32_t event) const noexcept { return nesting_[event].top_level; }
  /// One past the last event nested in this one: [event, subtree_end(event)) is the event with all below it.
  [[nodiscard]] std::uint32_t subtree_end(std::uint32_t event) const noexcept { return nesting_[event].subtree_end; }
  /// The enclosing events, innermost first, at most `limit`.
  [[nodiscard]] std::vector<std::uint32_t> enclosing(std::uint32_t event, std::size_t limit = npos) const;

 private:
  static const memory_sums& none() noexcept {
    static const memory_sums nothing;
    return nothing;
  }
  void sum_times();
  void sum_thread(std::uint32_t first, std::uint32_t end, const detail::pause_sums& pauses);
  void sum_memory();

  trace trace_;
  std::vector<std::int64_t> self_ns_;
  bool has_memory_ = false;
  std::vector<memory_sums> self_memory_;  // empty when the trace has no memory events
  std::vector<memory_sums> total_memory_;
  memory_sums memory_outside_;
  struct nesting {
    std::uint32_t depth = 0;
    std::uint32_t top_level = npos;
    std::uint32_t subtree_end = 0;
  };
  std::vector<nesting> nesting_;
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// What one report adds to the sums of its scope.
inline memory_sums sums_of(const memory_event& m) noexcept {
  memory_sums sums;
  if (m.is_free()) {
    sums.freed_bytes = saturating_sub(0, m.bytes);
    sums.frees = 1;
  } else {
    sums.allocated_bytes = m.bytes;
    sums.allocations = 1;
  }
  return sums;
}

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

inline event_tree::event_tree(trace source) : trace_(std::move(source)) {
  sum_times();
  sum_memory();
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

inline void event_tree::sum_memory() {
  const std::vector<trace_event>& events = trace_.events();
  has_memory_ = !trace_.memory().empty() || !trace_.unmatched_frees().empty();
  if (!has_memory_) return;
  self_memory_.resize(events.size());
  const auto place_of = [this](std::uint32_t event) -> memory_sums& {
    return event == npos ? memory_outside_ : self_memory_[event];
  };
  for (const memory_event& m : trace_.memory()) {
    if (!is_cpu_memory(m)) continue;
    place_of(m.event) += detail::sums_of(m);
  }
  for (const unmatched_free& free : trace_.unmatched_frees()) {
    memory_sums sums;
    sums.unmatched_frees = free.count;
    place_of(free.event) += sums;
  }
  total_memory_ = self_memory_;
  for (std::size_t i = events.size(); i-- > 0;)
    if (events[i].parent != npos) total_memory_[events[i].parent] += total_memory_[i];
}

inline std::vector<std::uint32_t> event_tree::enclosing(std::uint32_t event, std::size_t limit) const {
  std::vector<std::uint32_t> result;
  for (std::uint32_t at = trace_.events()[event].parent; at != npos && result.size() < limit;
       at = trace_.events()[at].parent)
    result.push_back(at);
  return result;
}

STEPPROF_END_NAMESPACE
