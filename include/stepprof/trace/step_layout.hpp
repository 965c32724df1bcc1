// Where the steps of a loop lie among the scopes of the thread that steps, and the final order of a thread's events.
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
  bool nests = false;           // can be an event of its thread ...
  std::uint32_t position = 0;   // ... in front of this one ...
  std::uint32_t parent = npos;  // ... inside this one
};

// Walks up from `event`; events are in preorder, so indices fall.
inline bool encloses(const std::vector<trace_event>& events, std::uint32_t outer, std::uint32_t event) {
  while (event != npos && event > outer) event = events[event].parent;
  return event == outer;
}

// Takes scopes that did not nest out of the tree: whoever has one as parent gets its parent instead.
inline void skip_strays(std::vector<trace_event>& events) {
  for (trace_event& e : events)
    while (e.parent != npos && (events[e.parent].flags & (trace_event::out_of_order | trace_event::other_thread)) != 0)
      e.parent = events[e.parent].parent;
}

class step_layout {
 public:
  // `borders` in order of steps, the last one being the end of the window (its number is not used).
  step_layout(const std::vector<trace_event>& events, std::vector<step_border> borders)
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

  const std::vector<trace_event>& events_;
  std::vector<step_border> borders_;
};

// The order in which a thread's events go into the trace: steps in their places, strays taken out.
struct event_order {
  std::vector<trace_event> nested;   // parents index into this
  std::vector<trace_event> apart;    // strays
  std::vector<std::uint32_t> place;  // of each old event: index into `nested`, or into `apart` with the top bit set
  std::vector<std::uint32_t> step_place;  // of each step that nests, index into `nested`
  static constexpr std::uint32_t apart_bit = 0x80000000u;
};

inline event_order order_events(std::vector<trace_event> events, const std::vector<step_span>& steps) {
  event_order order;
  order.step_place.assign(steps.size(), npos);
  const bool any_step = std::any_of(steps.begin(), steps.end(), [](const step_span& s) { return s.nests; });
  const bool any_stray = std::any_of(events.begin(), events.end(), [](const trace_event& e) {
    return (e.flags & (trace_event::out_of_order | trace_event::other_thread)) != 0;
  });
  if (!any_step && !any_stray) {  // most threads: nothing moves
    order.nested = std::move(events);
    return order;
  }
  order.place.resize(events.size());
  order.nested.reserve(events.size() + steps.size());
  std::size_t next_step = 0;
  std::uint32_t inside = npos;         // place of the step that is being filled
  std::uint32_t inside_parent = npos;  // old index of its parent
  const auto open_steps = [&](std::uint32_t before) {
    for (; next_step < steps.size() && steps[next_step].position <= before; ++next_step) {
      const step_span& s = steps[next_step];
      inside = npos;
      if (!s.nests) continue;
      trace_event e;
      e.begin_ns = static_cast<std::int64_t>(s.begin_ticks);
      e.end_ns = static_cast<std::int64_t>(s.end_ticks);
      e.set_kind(scope_kind::user_annotation);
      e.flags = trace_event::step | (s.complete ? 0u : std::uint32_t{trace_event::unfinished});
      e.parent = s.parent == npos ? npos : order.place[s.parent];
      inside = order.step_place[next_step] = static_cast<std::uint32_t>(order.nested.size());
      inside_parent = s.parent;
      order.nested.push_back(e);
    }
  };
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    open_steps(i);
    trace_event e = events[i];
    if ((e.flags & (trace_event::out_of_order | trace_event::other_thread)) != 0) {
      e.parent = npos;
      order.place[i] = static_cast<std::uint32_t>(order.apart.size()) | event_order::apart_bit;
      order.apart.push_back(e);
      continue;
    }
    e.parent = inside != npos && e.parent == inside_parent ? inside : e.parent == npos ? npos : order.place[e.parent];
    order.place[i] = static_cast<std::uint32_t>(order.nested.size());
    order.nested.push_back(e);
  }
  open_steps(npos);
  return order;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
