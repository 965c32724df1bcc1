// Moves the events of one thread to their final places in the trace, with its steps between them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <stepprof/trace/event_list.hpp>
#include <stepprof/trace/name_resolver.hpp>
#include <stepprof/trace/step_layout.hpp>
#include <stepprof/trace/time_base.hpp>
#include <stepprof/trace/trace_builder.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Where the events of a thread went in the trace: steps came in between, strays moved behind the others.
class event_places {
 public:
  explicit event_places(std::uint32_t first) { moves_.push_back({0, first}); }

  // From here on events stand one place farther behind: a step was put in front of `event`.
  void add_step(std::uint32_t event) { move_from(event, moves_.back().by + 1); }
  // `event` is taken out: those behind it stand one place farther in front.
  void add_stray(std::uint32_t event) {
    strays_.push_back(event);
    move_from(event + 1, moves_.back().by - 1);
  }
  void set_first_stray(std::uint32_t place) noexcept { first_stray_ = place; }

  // Of an event that is no stray, among those placed so far.
  [[nodiscard]] std::uint32_t nested(std::uint32_t event) const noexcept {
    if (event >= moves_.back().from) return event + moves_.back().by;
    const auto behind = std::upper_bound(moves_.begin(), moves_.end(), event,
                                         [](std::uint32_t e, const move& m) { return e < m.from; });
    return event + (behind - 1)->by;
  }
  // Of any event, once all are placed; of npos, npos.
  [[nodiscard]] std::uint32_t operator()(std::uint32_t event) const noexcept {
    if (event == npos) return npos;
    if (strays_.empty()) return nested(event);
    const auto stray = std::lower_bound(strays_.begin(), strays_.end(), event);
    if (stray == strays_.end() || *stray != event) return nested(event);
    return first_stray_ + static_cast<std::uint32_t>(stray - strays_.begin());
  }

 private:
  struct move {
    std::uint32_t from;  // first event that moves so
    std::uint32_t by;    // modulo 2^32
  };
  void move_from(std::uint32_t event, std::uint32_t by) {
    if (moves_.back().from == event)
      moves_.back().by = by;
    else
      moves_.push_back({event, by});
  }

  std::vector<move> moves_;
  std::vector<std::uint32_t> strays_;
  std::uint32_t first_stray_ = 0;
};

// Adds the events of one thread after the other: names become texts, ticks become ns, parents become places. Works
// within the builder's array, from which it takes the next event and in which it puts it where it belongs, farther in
// front or at the same place: there is room for a thread's steps in front of its events.
class event_placer {
 public:
  event_placer(trace_builder& builder, name_resolver& names) : builder_(builder), names_(names) {}
  void set_clock(const tick_converter& convert) noexcept { convert_ = convert; }

  // Adds the events of a thread to the last track, and `steps`, those of its steps that nest. `step_places` receives
  // where these went, `apart` the events that do not nest.
  event_places place(const event_list& events, bool has_strays, const std::vector<step_span>& steps,
                     std::vector<std::uint32_t>& step_places, std::vector<trace_event>& apart) {
    const auto count = static_cast<std::uint32_t>(events.size());
    const trace_event* const from = events.begin();
    event_places places(builder_.event_count());
    step_ = npos;
    std::uint32_t i = 0;
    while (true) {
      while (step_places.size() < steps.size() && (i == count || steps[step_places.size()].position <= i))
        step_places.push_back(open_step(steps[step_places.size()], i, places));
      if (i == count) break;
      if (i >= step_end_) step_ = npos;
      std::uint32_t end = step_ != npos ? (std::min)(count, step_end_) : count;
      if (step_places.size() < steps.size()) end = (std::min)(end, steps[step_places.size()].position);
      if (has_strays) end = add_strays(from, i, end, places, apart);
      add_run(from, i, end, places);
      i = end;
    }
    places.set_first_stray(builder_.event_count());
    return places;
  }
  // Adds an event that does not nest.
  void add_apart(const trace_event& e) {
    const std::uint32_t index = builder_.add_event(e);
    trace_event& added = builder_.event(index);
    finish(added, e, npos, added.track);
    count(1, e.flags & trace_event::unfinished);
  }
  std::uint32_t add_step(const step_span& span, std::uint32_t parent) {
    trace_event e;
    e.begin_ns = convert_(span.begin_ticks);
    e.end_ns = convert_(span.end_ticks);
    e.set_kind(scope_kind::user_annotation);
    e.flags = trace_event::step | (span.complete ? 0u : std::uint32_t{trace_event::unfinished});
    e.name = builder_.intern("ProfilerStep#" + std::to_string(span.number));
    e.parent = parent;
    return builder_.add_event(e);
  }

 private:
  std::uint32_t open_step(const step_span& span, std::uint32_t event, event_places& places) {
    step_ = add_step(span, span.parent == npos ? npos : places.nested(span.parent));
    step_parent_ = span.parent;
    step_end_ = span.end_position;
    places.add_step(event);
    return step_;
  }
  // Takes out the strays at the begin of a run; returns where the next stray ends it.
  static std::uint32_t add_strays(const trace_event* from, std::uint32_t& i, std::uint32_t end, event_places& places,
                                  std::vector<trace_event>& apart) {
    for (; i < end && is_stray(from[i]); ++i) {
      places.add_stray(i);
      apart.push_back(from[i]);
    }
    return static_cast<std::uint32_t>(std::find_if(from + i, from + end, is_stray) - from);
  }
  void add_run(const trace_event* from, std::uint32_t begin, std::uint32_t end, const event_places& places) {
    trace_event* to = builder_.add_raw(end - begin);
    const std::uint32_t track = builder_.track_count() - 1;
    std::uint64_t unfinished = 0;
    for (std::uint32_t i = begin; i < end; ++i, ++to) {
      const std::uint32_t outer = from[i].parent;
      const std::uint32_t parent = step_ != npos && outer == step_parent_ ? step_
                                   : outer == npos                        ? npos
                                                                          : places.nested(outer);
      unfinished += from[i].flags & trace_event::unfinished;
      finish(*to, from[i], parent, track);
    }
    count(end - begin, unfinished);
  }
  void count(std::uint64_t events, std::uint64_t unfinished) noexcept {
    builder_.losses().unfinished += unfinished;
    builder_.losses().kept += events - unfinished;
  }
  // Field by field, never the whole: `to` may be `from`, and a read of several fields at once would wait for all of
  // them to be written (10 ns an event, measured).
  void finish(trace_event& to, const trace_event& from, std::uint32_t parent, std::uint32_t track) {
    const name_resolver::name& name = names_.of(from.name);
    const std::int64_t begin_ns = convert_(static_cast<std::uint64_t>(from.begin_ns));
    const std::int64_t end_ns = convert_(static_cast<std::uint64_t>(from.end_ns));
    const std::uint32_t kind = from.kind_bits, flags = from.flags;
    to.begin_ns = begin_ns;
    to.end_ns = end_ns;
    to.name = name.text;
    to.detail = name.detail;
    to.parent = parent;
    to.track = track & 0xfffffu;
    to.kind_bits = kind & 15u;
    to.flags = flags & 255u;
  }

  trace_builder& builder_;
  name_resolver& names_;
  tick_converter convert_;
  std::uint32_t step_ = npos;         // the place of the step that is being filled
  std::uint32_t step_parent_ = npos;  // whose children belong into it
  std::uint32_t step_end_ = 0;        // behind which none do: they may belong to a step of another thread
};

}  // namespace detail

STEPPROF_END_NAMESPACE
