// Where the steps of a loop lie among the scopes of the thread that steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <stepprof/trace/log_replay.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// The border between two steps: the moment of a step() call, as the control side knows it.
struct step_border {
  std::int64_t number = 0;   // of the step that begins
  std::uint32_t thread = 0;  // that called step() or start()
  std::uint64_t ticks = 0;
  std::uint32_t position = npos;   // events begun on that thread before it; npos: its mark is not in the log
  std::uint32_t innermost = npos;  // scope open at it
};

// One step, between two borders.
struct step_span {
  std::int64_t number = 0;
  std::uint64_t begin_ticks = 0;
  std::uint64_t end_ticks = 0;
  bool complete = true;
  bool nests = false;              // can be an event of its thread ...
  std::uint32_t position = 0;      // ... in front of this one ...
  std::uint32_t end_position = 0;  // ... around all up to this one ...
  std::uint32_t parent = npos;     // ... inside this one
};

// Walks up from `event`; events are in preorder, so indices fall.
inline bool encloses(const event_list& events, std::uint32_t outer, std::uint32_t event) {
  while (event != npos && event > outer) event = events[event].parent;
  return event == outer;
}

// A scope that does not nest, and stands apart.
inline bool is_stray(const trace_event& e) noexcept {
  return (e.flags & (trace_event::out_of_order | trace_event::other_thread | trace_event::async)) != 0;
}

// Takes scopes that did not nest out of the tree: whoever has one as parent gets its parent instead.
inline void skip_strays(event_list& events) {
  for (trace_event& e : events)
    while (e.parent != npos && is_stray(events[e.parent])) e.parent = events[e.parent].parent;
}

class step_layout {
 public:
  // `borders` in order of steps, the last one being the end of the window (its number is not used).
  step_layout(const event_list& events, std::vector<step_border> borders)
      : events_(events), borders_(std::move(borders)) {
    for (std::size_t i = 1; i < borders_.size(); ++i) move_border(i);
  }

  [[nodiscard]] step_span span(std::size_t i) const {
    const step_border& from = borders_[i];
    const step_border& to = borders_[i + 1];
    step_span s;
    s.number = from.number;
    s.begin_ticks = from.ticks;
    s.end_ticks = (std::max)(from.ticks, to.ticks);
    s.position = from.position;
    s.end_position = to.position;
    s.parent = from.innermost;
    s.nests =
        from.position != npos && to.position != npos && from.thread == to.thread && from.innermost == to.innermost;
    return s;
  }

 private:
  // step() is often called inside the scope of the iteration. When the outermost scope that began in this step is open
  // at the border and ends before the next one, the border moves to that end.
  void move_border(std::size_t i) {
    step_border& border = borders_[i];
    const step_border& before = borders_[i - 1];
    if (border.position == npos || before.position == npos || border.thread != before.thread) return;
    std::uint32_t outermost = npos;
    for (std::uint32_t e = border.innermost; e != npos && e >= before.position; e = events_[e].parent) outermost = e;
    if (outermost == npos) return;
    if (i + 1 < borders_.size()) {
      const step_border& next = borders_[i + 1];
      if (next.position == npos || next.thread != border.thread || encloses(events_, outermost, next.innermost)) return;
    }
    border.ticks = static_cast<std::uint64_t>(events_[outermost].end_ns);
    border.innermost = events_[outermost].parent;
    while (border.position < events_.size() && encloses(events_, outermost, border.position)) ++border.position;
  }

  const event_list& events_;
  std::vector<step_border> borders_;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
