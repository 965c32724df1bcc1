// A part of a recording as a recording of its own: without short scopes, of some kinds, of some time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <stepprof/analysis/flow_pairs.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/trace_merge.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Which part of a recording.
struct trace_selection {
  /// Scopes that took less time are left out, but for steps.
  std::int64_t min_duration_ns = 0;
  /// What begins in this time, since the origin of the trace, the end excluded; with scopes come the up to 511 scopes
  /// that enclose them, whole.
  std::int64_t begin_ns = INT64_MIN;
  std::int64_t end_ns = INT64_MAX;
  bool ops = true;               ///< Scopes of kind op.
  bool backward_ops = true;      ///< Scopes of kind backward_op.
  bool user_annotations = true;  ///< Scopes of kind user_annotation, but for steps, which always are there.
  bool memory = true;            ///< Allocations and frees.
  bool marks = true;             ///< Points in time and counters.

  /// True when nothing is left out.
  [[nodiscard]] bool is_everything() const noexcept;
};

/// The selected part as a trace. What was inside a scope that is left out belongs to the scope around it, memory too,
/// so its self time grows; arrows stay when both of their ends do. Counts of losses and facts of the recording are
/// those of the whole; a note "selection" says how many scopes and arrows are left out. Linear. Any thread.
[[nodiscard]] trace select(const trace& whole, const trace_selection& selection);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

class trace_selector {
 public:
  // `links`: all arrows of the whole.
  trace_selector(const trace& whole, const trace_selection& selection, std::vector<trace_link> links)
      : whole_(whole), selection_(selection) {
    part_.links = std::move(links);
  }

  trace run() {
    take_events();
    take_points(whole_.memory(), selection_.memory, part_.memory);
    take_points(whole_.marks(), selection_.marks, part_.marks);
    part_.note = note();
    std::error_code ec;
    trace result = trace_merger(whole_, part_).run(ec);
    throw_if(ec, "select");
    return result;
  }

 private:
  static constexpr std::size_t max_enclosing = 511;  // a viewer draws 512 levels

  void take_events() {
    const std::vector<trace_event>& events = whole_.events();
    part_.events.resize(events.size());
    for (std::uint32_t i = 0; i < events.size(); ++i)
      part_.events[i] = is_in_range(events[i].begin_ns) && is_selected(events[i]);
    if (has_range()) take_enclosing();
  }
  // The scopes that were open when the time began. Each is looked at once.
  void take_enclosing() {
    const std::vector<trace_event>& events = whole_.events();
    std::vector<bool> visited(events.size());
    for (std::uint32_t i = 0; i < events.size(); ++i) {
      if (!part_.events[i] || visited[i]) continue;
      std::size_t count = 0;
      for (std::uint32_t p = events[i].parent; p != npos && !visited[p] && count < max_enclosing;
           p = events[p].parent) {
        visited[p] = true;
        part_.events[p] = part_.events[p] || is_selected(events[p]);
        ++count;
      }
    }
  }
  [[nodiscard]] bool has_range() const noexcept {
    return selection_.begin_ns != INT64_MIN || selection_.end_ns != INT64_MAX;
  }
  [[nodiscard]] bool is_in_range(std::int64_t time_ns) const noexcept {
    return time_ns >= selection_.begin_ns && (time_ns < selection_.end_ns || selection_.end_ns == INT64_MAX);
  }
  [[nodiscard]] bool is_selected(const trace_event& e) const noexcept {
    if (e.has(trace_event::step)) return true;
    if (e.duration_ns() < selection_.min_duration_ns) return false;
    switch (e.kind()) {
      case scope_kind::op:
        return selection_.ops;
      case scope_kind::backward_op:
        return selection_.backward_ops;
      case scope_kind::user_annotation:
        break;
    }
    return selection_.user_annotations;
  }
  template <class Point>
  void take_points(const std::vector<Point>& points, bool wanted, std::vector<bool>& taken) const {
    taken.resize(points.size());
    for (std::size_t i = 0; i < points.size(); ++i) taken[i] = wanted && is_in_range(points[i].time_ns);
  }
  [[nodiscard]] std::string note() const {
    std::size_t scopes = 0, arrows = 0;
    for (const bool is_taken : part_.events) scopes += is_taken ? 0u : 1u;
    for (const trace_link& link : part_.links) arrows += part_.events[link.from] && part_.events[link.to] ? 0u : 1u;
    return std::to_string(scopes) + " scope(s) and " + std::to_string(arrows) +
           " arrow(s) of the recording are not in this part of it";
  }

  const trace& whole_;
  const trace_selection& selection_;
  trace_subset part_;
};

}  // namespace detail

inline bool trace_selection::is_everything() const noexcept {
  return min_duration_ns <= 0 && begin_ns == INT64_MIN && end_ns == INT64_MAX && ops && backward_ops &&
         user_annotations && memory && marks;
}

inline trace select(const trace& whole, const trace_selection& selection) {
  const detail::own_work own;
  return detail::trace_selector(whole, selection, flow_pairs(whole)).run();
}

STEPPROF_END_NAMESPACE
