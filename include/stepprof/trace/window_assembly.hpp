// From what the threads did in one window to its trace: tracks, steps, scopes that stand apart, facts, memory, notes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stepprof/core/cold_paths.hpp>
#include <stepprof/core/own_cost.hpp>
#include <stepprof/trace/event_placer.hpp>
#include <stepprof/trace/input_text.hpp>
#include <stepprof/trace/large_pages.hpp>
#include <stepprof/trace/memory_match.hpp>
#include <stepprof/trace/name_resolver.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/stack_resolver.hpp>
#include <stepprof/trace/step_layout.hpp>
#include <stepprof/trace/time_base.hpp>
#include <stepprof/trace/trace_builder.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// What the control side knows of a window.
struct window_facts {
  std::uint32_t flags = 0;  // record_flags
  std::uint64_t open_ticks = 0;
  std::vector<step_border> borders;  // one for each step that began in it, first the one open at its begin
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pauses;
  std::optional<step_border> end_border;  // the step() that ended the last step; none: the step was cut
  std::int64_t cycle = 0;
  bool partial = false;
  recording_cost cost;
  std::string trace_id;
  std::string process_name;  // empty: what set_process_name() said
  std::int64_t rank = -1;
};

// One window on its way to a trace.
class window_assembly {
 public:
  struct thread_part {
    thread_record record;
    log_replay* replay;
    std::uint64_t os_thread;
    std::string name;
  };

  explicit window_assembly(const window_facts& window)
      : window_(window), name_(builder_), stacks_(builder_), placer_(builder_, name_) {
    trace_info& info = builder_.info();
    info.cycle = window_.cycle;
    info.trace_id = window_.trace_id;
    info.partial = window_.partial;
    info.has_shapes = (window_.flags & flag_shapes) != 0;
    info.has_memory = (window_.flags & flag_memory) != 0;
    info.has_stacks = (window_.flags & flag_stacks) != 0;
    info.has_flops = (window_.flags & flag_flops) != 0;
    info.clock = time_base::clock_name();
  }
  trace_builder& builder() noexcept { return builder_; }

  // Makes room for the events of all threads, which are replayed into one array.
  void reserve_events(std::size_t count) { reserve_large(builder_.raw_events(), count); }
  // The array, with room in front for the steps of a thread that comes next.
  std::vector<trace_event>& events_of(std::uint32_t thread) {
    const auto steps = std::count_if(window_.borders.begin(), window_.borders.end(),
                                     [thread](const step_border& b) { return b.thread == thread; });
    builder_.raw_events().resize(builder_.raw_events().size() + static_cast<std::size_t>(steps));
    return builder_.raw_events();
  }
  // When all are replayed: where the window was cut, where what is in it ends, and what its times are in ns.
  void set_times(std::uint64_t cut_ticks, std::uint64_t end_ticks, const tick_converter& convert,
                 const clock_anchor& oldest, const clock_anchor& newest) {
    cut_ticks_ = cut_ticks;
    end_ticks_ = end_ticks;
    convert_ = convert;
    placer_.set_clock(convert);
    trace_info& info = builder_.info();
    info.begin_ns = convert_(window_.open_ticks);
    info.base_time_ns = oldest.wall_ns;
    info.base_time_error_ns = oldest.error_ns;
    info.wall_shift_ns = wall_shift_ns(oldest, newest);
    if (wall_was_set(info.wall_shift_ns, newest.steady_ns - oldest.steady_ns))
      builder_.add_note("wall_clock_set",
                        "the system's clock was set by " + std::to_string(info.wall_shift_ns) +
                            " ns since the first profile of the process began; times of this trace do not depend on "
                            "it, but its Unix time is that of the clock before");
    info.scope_cost_ns = window_.cost.ticks * convert_.ns_per_tick();
    info.scope_cost_inside_ns = window_.cost.inside_ticks * convert_.ns_per_tick();
  }
  void add_process();
  void add_loss_notes();
  void assemble(std::vector<thread_part>& threads);

 private:
  std::vector<step_border> place_borders(const std::vector<thread_part>& threads) const;
  void find_steps(const std::vector<thread_part>& threads);
  void add_thread(thread_part& part);
  void add_apart(const thread_part& part, const std::vector<trace_event>& apart);
  void add_steps_apart();
  void add_facts(std::vector<thread_record::scope_fact> facts, const event_places& event_of);
  void add_fact(const thread_record::scope_fact& fact, std::uint32_t event, std::vector<trace_argument>& arguments);
  void add_inputs(std::uint32_t event, const std::string& bytes);

  const window_facts& window_;
  std::uint64_t cut_ticks_ = 0;
  std::uint64_t end_ticks_ = 0;
  tick_converter convert_;
  trace_builder builder_;
  name_resolver name_;
  stack_resolver stacks_;
  event_placer placer_;
  std::vector<step_span> spans_;
  std::vector<step_span> spans_of_thread_;  // those of the thread being added ...
  std::vector<std::size_t> span_index_;     // ... and where they stand in spans_
  std::vector<std::uint32_t> span_event_;   // event of each span
  std::vector<std::uint32_t> span_thread_;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> spans_of_;  // by thread
  memory_reports memory_;
  struct input_ids {
    std::uint32_t dims, strides, types, concrete;
    bool truncated;
  };
  std::unordered_map<std::string, input_ids> inputs_;
  std::uint64_t truncated_inputs_ = 0;
};

inline std::string host_name() {
  char text[256];
  system_host_name(text, sizeof text);
  return text;
}
inline std::string program_name() {
  char text[256];
  system_program_name(text, sizeof text);
  return text[0] != 0 ? text : "program";
}

inline void window_assembly::add_process() {
  trace_process process;
  process.os_pid = the_id_sources.process_id.load(std::memory_order_relaxed)();
  process.pid = process.os_pid >= 1 && process.os_pid <= 0x7fffffff ? process.os_pid : 1;
  char name[64];
  the_registry.process_name.get(name);
  process.rank = window_.rank;
  process.name = !window_.process_name.empty() ? window_.process_name
                 : name[0] != 0                ? std::string(name)
                                               : program_name();
  process.host = host_name();
  process.labels = "CPU";
  builder_.add_process(std::move(process));
}

// Finds the place of each border in the log of its thread. Of several marks of one step the last one counts: it was
// written after a cycle had been delivered.
inline std::vector<step_border> window_assembly::place_borders(const std::vector<thread_part>& threads) const {
  std::vector<step_border> borders = window_.borders;
  step_border end;
  end.thread = borders.back().thread;
  end.number = borders.back().number + 1;
  end.ticks = cut_ticks_;
  borders.push_back(window_.end_border ? *window_.end_border : end);
  for (const thread_part& part : threads) {
    const event_list& events = part.record.events;
    const auto settled = [&events](std::uint32_t scope) {
      while (scope != npos && is_stray(events[scope])) scope = events[scope].parent;
      return scope;
    };
    if (borders.front().thread == part.record.thread) {
      borders.front().position = 0;
      borders.front().ticks = (std::max)(borders.front().ticks, part.record.open_ticks);
    }
    for (const thread_record::step_mark& mark : part.record.steps) {
      if (mark.number < borders.front().number) continue;
      const std::int64_t at = mark.number - borders.front().number;
      if (at >= static_cast<std::int64_t>(borders.size())) continue;
      step_border& border = borders[static_cast<std::size_t>(at)];
      if (border.thread == part.record.thread)
        border = {mark.number, border.thread, mark.ticks, mark.position, settled(mark.innermost)};
    }
    if (window_.end_border || part.record.thread != end.thread) continue;
    borders.back().position = static_cast<std::uint32_t>(events.size());
    borders.back().ticks = part.record.cut_ticks;  // as its open scopes, one of which may enclose the step
    borders.back().innermost = part.replay->innermost();
  }
  return borders;
}

inline void window_assembly::find_steps(const std::vector<thread_part>& threads) {
  if (window_.borders.empty()) return;
  const std::vector<step_border> borders = place_borders(threads);
  builder_.info().first_step = borders.front().number;
  builder_.info().last_step = borders[borders.size() - 2].number;
  static const event_list none;
  for (std::size_t first = 0; first + 1 < borders.size();) {
    // The steps that one thread began in a row.
    const std::uint32_t thread = borders[first].thread;
    std::size_t last = first + 1;
    while (last + 1 < borders.size() && borders[last].thread == thread) ++last;
    const auto part =
        std::find_if(threads.begin(), threads.end(), [&](const thread_part& p) { return p.record.thread == thread; });
    const step_layout layout(part == threads.end() ? none : part->record.events,
                             std::vector<step_border>(borders.begin() + static_cast<std::ptrdiff_t>(first),
                                                      borders.begin() + static_cast<std::ptrdiff_t>(last) + 1));
    for (std::size_t k = first; k < last; ++k) {
      step_span span = layout.span(k - first);
      span.complete = k + 2 < borders.size() || window_.end_border.has_value();
      span.nests = span.nests && part != threads.end();
      spans_.push_back(span);
      spans_of_[thread].push_back(spans_.size() - 1);
      span_thread_.push_back(thread);
    }
    first = last;
  }
  span_event_.assign(spans_.size(), npos);
}

inline void window_assembly::add_thread(thread_part& part) {
  thread_record& record = part.record;
  trace_track track;
  track.kind = track_kind::thread;
  track.id = record.thread;
  track.os_id = part.os_thread;
  track.sort_index = record.thread;
  track.name = part.name;
  const std::uint32_t track_index = builder_.add_track(std::move(track));
  span_index_.clear();
  spans_of_thread_.clear();
  for (const std::size_t i : spans_of_[record.thread])
    if (spans_[i].nests) {
      span_index_.push_back(i);
      spans_of_thread_.push_back(spans_[i]);
    }
  std::vector<trace_event> apart;
  std::vector<std::uint32_t> step_places;
  const event_places event_of = placer_.place(record.events, record.has_strays, spans_of_thread_, step_places, apart);
  for (std::size_t i = 0; i < step_places.size(); ++i) span_event_[span_index_[i]] = step_places[i];
  add_apart(part, apart);
  for (const thread_record::scope_stack& s : record.stacks) stacks_.add(event_of(s.event), s.id);
  add_facts(std::move(record.facts), event_of);
  memory_.begin_thread(track_index);
  for (const thread_record::memory_report& m : record.memory)
    memory_.add(m, event_of(m.event), m.pool == 0 ? npos : name_(m.pool));
  record.memory = {};  // there may be tens of millions
  for (const thread_record::mark& m : record.marks) {
    trace_mark mark;
    mark.time_ns = convert_(m.ticks);
    mark.name = name_(m.id);
    mark.track = track_index;
    mark.event = event_of(m.event);
    mark.kind = m.is_counter ? trace_mark::type::counter : trace_mark::type::instant;
    mark.value = m.value;
    builder_.add_mark(mark);
  }
  builder_.losses().unmatched_ends += record.unmatched_ends;
  builder_.losses().overwritten_ends += record.overwritten_ends;
  builder_.losses().clamps += record.clamps;
  builder_.losses().overflow_names += record.overflow_names;
}

inline void window_assembly::add_apart(const thread_part& part, const std::vector<trace_event>& apart) {
  if (apart.empty()) return;
  trace_track track;
  track.kind = track_kind::async;
  track.id = part.record.thread;
  track.os_id = part.os_thread;
  track.sort_index = part.record.thread;
  track.name = part.name;
  builder_.add_track(std::move(track));
  for (const trace_event& e : apart) placer_.add_apart(e);
  const auto misplaced =
      std::count_if(apart.begin(), apart.end(), [](const trace_event& e) { return !e.has(trace_event::async); });
  if (misplaced == 0) return;
  builder_.add_note("scopes_apart", std::to_string(misplaced) +
                                        " scope(s) did not end in the order in which they began, or ended on another "
                                        "thread; they are on an async track, with self time 0");
}

inline void window_assembly::add_steps_apart() {
  bool any = false;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (span_event_[i] == npos) {
      if (!any) {
        trace_track track;
        track.kind = track_kind::async;
        track.id = spans_.empty() ? 1 : span_thread_[i] == 0 ? 1 : span_thread_[i];
        track.name = "steps";
        builder_.add_track(std::move(track));
        any = true;
      }
      span_event_[i] = placer_.add_step(spans_[i], npos);
    }
    builder_.add_step({spans_[i].number, convert_(spans_[i].begin_ticks), convert_(spans_[i].end_ticks), span_event_[i],
                       spans_[i].complete});
  }
  if (any)
    builder_.add_note("steps_apart",
                      "some steps do not nest with the scopes of the thread that called step(); they are on the async "
                      "track \"steps\" and in no self time");
}

inline void window_assembly::add_inputs(std::uint32_t event, const std::string& bytes) {
  const auto [found, fresh] = inputs_.emplace(bytes, input_ids{});
  if (fresh) {
    const input_texts texts(bytes);
    found->second = {builder_.intern(texts.dims), builder_.intern(texts.strides), builder_.intern(texts.types),
                     builder_.intern(texts.concrete), texts.truncated};
  }
  event_detail& detail = builder_.detail(event);
  detail.input_dims = found->second.dims;
  detail.input_strides = found->second.strides;
  detail.input_types = found->second.types;
  detail.concrete_inputs = found->second.concrete;
  if (found->second.truncated) ++truncated_inputs_;
}

inline void window_assembly::add_fact(const thread_record::scope_fact& fact, std::uint32_t event,
                                      std::vector<trace_argument>& arguments) {
  switch (fact.what) {
    case tag::sequence:
      builder_.detail(event).sequence_number = static_cast<std::int64_t>(fact.bits);
      break;
    case tag::link:
      if (static_cast<std::int64_t>(fact.bits) >= 0) {
        builder_.detail(event).sequence_number = static_cast<std::int64_t>(fact.bits);
        // Not 0, which says that this is the forward scope itself.
        builder_.detail(event).forward_thread = fact.thread == 0 ? npos : static_cast<std::uint32_t>(fact.thread);
      }
      break;
    case tag::inputs:
      add_inputs(event, fact.text);
      break;
    default: {
      trace_argument a;
      a.key = name_(fact.key);
      switch (fact.type) {
        case argument_type::int64:
          a.int64 = static_cast<std::int64_t>(fact.bits);
          break;
        case argument_type::uint64:
          a.kind = trace_argument::type::uint64;
          a.uint64 = fact.bits;
          break;
        case argument_type::real:
          a.kind = trace_argument::type::real;
          std::memcpy(&a.real, &fact.bits, 8);
          break;
        case argument_type::boolean:
          a.kind = trace_argument::type::boolean;
          a.boolean = fact.bits != 0;
          break;
        case argument_type::text:
          a.kind = trace_argument::type::text;
          a.text = builder_.intern(fact.text);
          break;
      }
      arguments.push_back(a);
      break;
    }
  }
}

inline void window_assembly::add_facts(std::vector<thread_record::scope_fact> facts, const event_places& event_of) {
  // Arguments of one scope may come in several pieces, with other scopes' between them.
  sort_stably(facts.begin(), facts.end(), [](const auto& a, const auto& b) { return a.event < b.event; });
  std::vector<trace_argument> arguments;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const std::uint32_t event = event_of(facts[i].event);
    add_fact(facts[i], event, arguments);
    if (i + 1 < facts.size() && facts[i + 1].event == facts[i].event) continue;
    if (!arguments.empty()) builder_.set_arguments(event, arguments);
    arguments.clear();
  }
}

inline void window_assembly::assemble(std::vector<thread_part>& threads) {
  for (thread_part& part : threads)
    if (part.record.has_strays) skip_strays(part.record.events);
  find_steps(threads);
  std::size_t reports = 0;
  for (const thread_part& part : threads) reports += part.record.memory.size();
  memory_.reserve(reports);
  for (thread_part& part : threads) {
    const thread_record& record = part.record;
    const bool steps = spans_of_.find(record.thread) != spans_of_.end();
    if (steps || !record.events.empty() || !record.memory.empty() || !record.marks.empty()) add_thread(part);
  }
  add_steps_apart();
  match_memory(builder_, memory_, convert_);
  memory_ = {};
  for (const auto& pause : window_.pauses) builder_.add_pause({convert_(pause.first), convert_(pause.second)});
  builder_.info().end_ns = convert_(end_ticks_);
  if (stacks_.cut() != 0)
    builder_.add_note("stacks_cut", std::to_string(stacks_.cut()) +
                                        " scope(s) were called through more frames than stack_depth; the innermost "
                                        "ones are kept");
  if (stacks_.missing() != 0)
    builder_.add_note("stacks_missing", std::to_string(stacks_.missing()) +
                                            " scope(s) have no native stack: too many distinct ones; record fewer "
                                            "steps or raise event_budget_bytes");
  if (truncated_inputs_ != 0)
    builder_.add_note("inputs_truncated", std::to_string(truncated_inputs_) +
                                              " scope(s) had more inputs than fit into 2 KiB; the rest is left out");
}

inline void window_assembly::add_loss_notes() {
  const loss_counts& lost = builder_.losses();
  const auto note = [this](std::uint64_t count, const char* code, const char* text) {
    if (count != 0) builder_.add_note(code, std::to_string(count) + text);
  };
  note(lost.unfinished, "unfinished_scopes", " scope(s) were still open when the window was cut; they end at the cut");
  const std::uint64_t explained = lost.reentrant + lost.overwritten;
  note(lost.dropped > explained ? lost.dropped - explained : 0, "dropped_scopes",
       " scope(s) were not recorded: the memory for events was full (raise event_budget_bytes), or their thread was "
       "ending");
  note(lost.reentrant, "reentrant_scopes", " scope(s) were not recorded: they began inside the recorder itself");
  note(lost.overwritten, "overwritten_scopes",
       " scope(s) were overwritten by later ones of their threads: the memory for events was full (raise "
       "event_budget_bytes to keep more)");
  note(lost.dropped_arguments, "dropped_arguments",
       " argument(s) or mark(s) were not recorded: the memory for events was full (raise event_budget_bytes), or their "
       "thread was ending");
  note(lost.dropped_memory, "dropped_memory",
       " memory report(s) were not recorded: the memory for events was full (raise event_budget_bytes), their thread "
       "was ending, or a signal handler made them inside the recorder itself");
  note(lost.overflow_names, "overflow_names",
       " scope(s) got the name \"(names overflow)\": too many distinct names; use fewer or raise event_budget_bytes");
  note(lost.clamps, "clamped_times", " time stamp(s) went backwards and were moved");
  note(lost.unmatched_frees, "unmatched_frees",
       " free(s) of memory that was allocated before the window; no bytes are booked for them");
  note(lost.unmatched_ends, "unmatched_ends", " end(s) of scopes had no begin in this thread's log");
  note(lost.lost_frees, "lost_frees",
       " allocation(s) were reported at an address that was live: a free was not reported");
  note(lost.late_frees, "late_frees",
       " free(s) were reported after their address had been allocated again; report a free before it is made");
}

}  // namespace detail

STEPPROF_END_NAMESPACE
