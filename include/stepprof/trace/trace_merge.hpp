// Several traces as one: the cycles of one process, or several processes with aligned clocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <stepprof/config.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/loss_fields.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/trace_builder.hpp>

STEPPROF_BEGIN_NAMESPACE

/// One trace that holds the given ones, in order of the time at which they begin.
///
/// They must count their times from one origin and not overlap, as the cycles of one process do. Processes with the
/// same pid become one, so do its thread tracks with the same id, and its other tracks with the same kind, id and name;
/// of two names the later one wins. The events of a track stand in order of time, a cycle's after those of the cycle
/// before, so the place of an event (its "Ev Idx") is not the one that it had. Counts of losses are added; notes that
/// say the same appear once; of metadata with equal keys the later one wins; `trace_info` spans all, and its trace_id
/// is the first one's. The live bytes in `memory_event::total_allocated` begin again with each cycle.
///
/// errc::bad_trace when they count from different origins (`trace_info::base_time_ns`), as those of several processes
/// do whose clocks nobody has compared, or when two of them overlap on a thread; the result is an empty trace then.
/// None gives an empty trace.
[[nodiscard]] trace merge(const std::vector<trace>& traces, std::error_code& ec);
/// The same, throwing stepprof::error.
[[nodiscard]] trace merge(const std::vector<trace>& traces);

/// One trace that holds those of several processes, of one host or of several: the ranks of a job, a server and its
/// clients.
///
/// Each process counts its times from an origin of its own, on a clock of its own. What they have in common is the time
/// of their systems, which each trace has for its origin (`trace_info::base_time_ns`). All are moved so that these
/// agree; the result counts from the origin of the trace that begins first. How exact that is no trace can know: the
/// clocks of two hosts differ by what their synchronisation leaves (NTP: some ms; PTP: some us). The note
/// `aligned_clocks` says by how much each was moved, and what is known of the error: how far apart the readings of
/// clocks were at the origin, and how far the system's clock went ahead or was set since (`wall_shift_ns`);
/// `base_time_error_ns` of the result is the largest sum of the two.
///
/// Traces of one process (the same pid, host and origin) are put together as merge() does it. Of two processes with the
/// same pid the second one gets another; its real one stays in `trace_process::os_pid`.
///
/// errc::bad_trace when the Unix time of an origin is unknown, as in traces of other profilers that do not tell it, and
/// where merge() says so. None gives an empty trace.
[[nodiscard]] trace merge_processes(const std::vector<trace>& traces, std::error_code& ec);
/// The same, throwing stepprof::error.
[[nodiscard]] trace merge_processes(const std::vector<trace>& traces);

/// About how much memory a trace holds, in bytes.
[[nodiscard]] std::uint64_t memory_bytes(const trace& t);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// Where things of one input trace went in the result.
struct merge_input {
  const trace* from = nullptr;
  std::int64_t shift_ns = 0;         // added to all its times
  std::vector<std::uint32_t> texts;  // npos: not yet interned
  std::vector<std::uint32_t> processes;
  std::vector<std::uint32_t> tracks;
  std::vector<std::uint32_t> events;
  std::vector<std::uint32_t> memory;
  std::uint32_t first_module = 0;
  std::uint32_t first_stack = 0;
};

// What of a trace goes into a smaller one.
struct trace_subset {
  std::vector<bool> events;       // of each event: whether it is taken
  std::vector<bool> memory;       // of each memory event
  std::vector<bool> marks;        // of each mark
  std::vector<trace_link> links;  // all arrows of the whole; those with both ends are taken
  std::string note;               // says what is left out
};

class trace_merger {
 public:
  enum class origins { one, aligned };
  explicit trace_merger(const std::vector<trace>& traces, origins of = origins::one);
  // Of one trace a part; both must outlive the merger.
  trace_merger(const trace& whole, const trace_subset& part) : part_(&part) { add_input(whole); }
  trace run(std::error_code& ec);

 private:
  // A track of the result, with the tracks that flow into it as pairs of input and index there.
  struct joined_track {
    trace_track description;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> parts;
  };

  void add_input(const trace& from);
  void align();
  [[nodiscard]] std::error_code origin_fault() const;
  std::uint32_t join_process(const merge_input& input, const trace_process& process);
  void add_alignment_note();
  [[nodiscard]] bool takes(const std::vector<bool> trace_subset::*which, std::uint32_t index) const {
    return part_ == nullptr || (part_->*which)[index];
  }
  void join_processes();
  void join_tracks();
  std::uint32_t joined(const trace_track& wanted);
  void add_native_stacks();
  void add_events();
  void add_event(merge_input& input, std::uint32_t index);
  void add_detail(merge_input& input, std::uint32_t to, const event_detail& from);
  void add_links();
  void add_memory();
  void add_unmatched_frees();
  void add_marks();
  void add_steps_and_pauses();
  void add_losses();
  void add_notes();
  void add_metadata();
  void add_info();

  std::uint32_t text(merge_input& input, std::uint32_t index);
  static std::uint32_t moved(const std::vector<std::uint32_t>& map, std::uint32_t index) {
    return index < map.size() ? map[index] : npos;
  }

  const trace_subset* part_ = nullptr;  // null: everything
  origins origins_ = origins::one;
  std::vector<merge_input> inputs_;
  std::vector<trace_process> processes_;
  std::vector<std::int64_t> origin_of_process_;  // as a Unix time
  std::vector<joined_track> tracks_;
  std::map<std::tuple<std::uint32_t, track_kind, std::uint32_t, std::string>, std::uint32_t> track_of_;
  trace_builder builder_;
};

inline trace_merger::trace_merger(const std::vector<trace>& traces, origins of) : origins_(of) {
  for (const trace& t : traces) add_input(t);
  if (of == origins::aligned) align();
  sort_stably(inputs_.begin(), inputs_.end(), [](const merge_input& a, const merge_input& b) {
    return saturating_add(a.from->info().begin_ns, a.shift_ns) < saturating_add(b.from->info().begin_ns, b.shift_ns);
  });
}

// To the origin of the one that begins first.
inline void trace_merger::align() {
  const auto begin = [](const merge_input& input) {
    return saturating_add(input.from->info().base_time_ns, input.from->info().begin_ns);
  };
  const auto first = std::min_element(inputs_.begin(), inputs_.end(),
                                      [&](const merge_input& a, const merge_input& b) { return begin(a) < begin(b); });
  for (merge_input& input : inputs_)
    input.shift_ns = saturating_sub(input.from->info().base_time_ns, first->from->info().base_time_ns);
}

inline void trace_merger::add_input(const trace& from) {
  merge_input input;
  input.from = &from;
  input.texts.assign(from.text_count(), npos);
  input.events.assign(from.events().size(), npos);
  inputs_.push_back(std::move(input));
}

// Steady clocks of two machines may be hours apart: put side by side, their times would look right and mean nothing.
inline std::error_code trace_merger::origin_fault() const {
  for (const merge_input& input : inputs_) {
    const std::int64_t base = inputs_.front().from->info().base_time_ns;
    const std::int64_t other = input.from->info().base_time_ns;
    if (origins_ == origins::aligned && other == 0)
      return make_error(errc::bad_trace,
                        "merge_processes: trace_info::base_time_ns of a trace is 0: when in Unix time its origin was "
                        "is not known, so its times cannot be put beside those of other processes; leave it out, or "
                        "set base_time_ns");
    if (origins_ == origins::one && other != base)
      return make_error(errc::bad_trace, "merge: the traces count their times from different origins (Unix times " +
                                             std::to_string(base) + " and " + std::to_string(other) +
                                             " ns; 0 is unknown); merge those of one process, or use merge_processes");
  }
  return {};
}

inline trace trace_merger::run(std::error_code& ec) {
  ec.clear();
  if (inputs_.empty()) return trace();
  ec = origin_fault();
  if (ec) return trace();
  join_processes();
  join_tracks();
  add_native_stacks();
  add_events();
  add_links();
  add_memory();
  add_unmatched_frees();
  add_marks();
  add_steps_and_pauses();
  add_losses();
  add_notes();
  add_metadata();
  add_info();
  return builder_.finish(ec);
}

inline std::uint32_t trace_merger::text(merge_input& input, std::uint32_t index) {
  if (index >= input.texts.size()) return npos;
  std::uint32_t& known = input.texts[index];
  if (known == npos) known = builder_.intern(input.from->text(index));
  return known;
}

// The index of the process in the result.
inline std::uint32_t trace_merger::join_process(const merge_input& input, const trace_process& process) {
  const std::int64_t origin = input.from->info().base_time_ns;
  const auto is_same = [&](const trace_process& known, std::int64_t origin_of_known) {
    if (origins_ == origins::one) return known.pid == process.pid;
    return real_pid(known) == real_pid(process) && known.host == process.host && origin_of_known == origin;
  };
  // Two of one trace never become one: it may be a merged one.
  const auto is_of_this_input = [&input](std::size_t known) {
    return std::count(input.processes.begin(), input.processes.end(), static_cast<std::uint32_t>(known)) != 0;
  };
  std::size_t at = 0;
  while (at < processes_.size() && (is_of_this_input(at) || !is_same(processes_[at], origin_of_process_[at]))) ++at;
  if (at == processes_.size()) {
    trace_process fresh = process;
    std::int64_t free_pid = 1;
    bool is_taken = false;
    for (const trace_process& known : processes_) {
      is_taken = is_taken || known.pid == fresh.pid;
      free_pid = (std::max)(free_pid, known.pid + 1);
    }
    if (is_taken) {
      if (fresh.os_pid == 0) fresh.os_pid = fresh.pid;
      fresh.pid = free_pid;
    }
    processes_.push_back(std::move(fresh));
    origin_of_process_.push_back(origin);
    return static_cast<std::uint32_t>(at);
  }
  trace_process& known = processes_[at];
  trace_process later = process;  // what the later cycle knows, and else what was known before
  later.pid = known.pid;
  if (later.name.empty()) later.name = known.name;
  if (later.host.empty()) later.host = known.host;
  if (later.labels.empty()) later.labels = known.labels;
  if (later.rank < 0) later.rank = known.rank;
  if (later.os_pid == 0) later.os_pid = known.os_pid;
  known = std::move(later);
  return static_cast<std::uint32_t>(at);
}

inline void trace_merger::join_processes() {
  for (merge_input& input : inputs_)
    for (const trace_process& process : input.from->processes())
      input.processes.push_back(join_process(input, process));
  for (trace_process& process : processes_) builder_.add_process(std::move(process));
}

inline std::uint32_t trace_merger::joined(const trace_track& wanted) {
  const std::string name = wanted.kind == track_kind::thread ? std::string() : wanted.name;
  const auto next = static_cast<std::uint32_t>(tracks_.size());
  const auto [at, is_new] = track_of_.try_emplace({wanted.process, wanted.kind, wanted.id, name}, next);
  if (is_new) tracks_.push_back({wanted, {}});
  return at->second;
}

inline void trace_merger::join_tracks() {
  for (std::uint32_t i = 0; i < inputs_.size(); ++i) {
    const std::vector<trace_track>& tracks = inputs_[i].from->tracks();
    for (std::uint32_t k = 0; k < tracks.size(); ++k) {
      trace_track wanted = tracks[k];
      wanted.process = moved(inputs_[i].processes, wanted.process);
      const std::uint32_t to = joined(wanted);
      joined_track& known = tracks_[to];
      known.parts.emplace_back(i, k);
      inputs_[i].tracks.push_back(to);
      if (wanted.name.empty()) wanted.name = known.description.name;
      if (wanted.os_id == 0) wanted.os_id = known.description.os_id;
      known.description = std::move(wanted);
    }
  }
}

inline void trace_merger::add_native_stacks() {
  std::uint32_t modules = 0;
  std::uint32_t stacks = 0;
  for (merge_input& input : inputs_) {
    const trace& from = *input.from;
    input.first_module = modules;
    input.first_stack = stacks;
    for (const native_module& module : from.native_modules()) builder_.add_native_module(module);
    for (const native_stack& stack : from.native_stacks()) {
      builder_.add_native_stack(stack.cut);
      for (std::uint32_t i = stack.first_frame; i < stack.first_frame + stack.frame_count; ++i) {
        native_frame frame = from.native_frames()[i];
        if (frame.module != npos) frame.module += modules;
        builder_.add_native_frame(frame);
      }
    }
    modules += static_cast<std::uint32_t>(from.native_modules().size());
    stacks += static_cast<std::uint32_t>(from.native_stacks().size());
  }
}

inline void trace_merger::add_events() {
  for (const joined_track& joined : tracks_) {
    builder_.add_track(joined.description);
    for (const auto& [input, index] : joined.parts) {
      const trace_track& part = inputs_[input].from->tracks()[index];
      for (std::uint32_t e = part.first_event; e < part.first_event + part.event_count; ++e)
        add_event(inputs_[input], e);
    }
  }
}

inline void trace_merger::add_event(merge_input& input, std::uint32_t index) {
  const trace_event& from = input.from->events()[index];
  if (!takes(&trace_subset::events, index)) {  // what is in it belongs to what encloses it
    input.events[index] = moved(input.events, from.parent);
    return;
  }
  trace_event event = from;
  event.name = text(input, from.name);
  event.parent = moved(input.events, from.parent);  // preorder: the parent has been moved already
  event.detail = npos;
  event.begin_ns = saturating_add(event.begin_ns, input.shift_ns);
  event.end_ns = saturating_add(event.end_ns, input.shift_ns);
  const std::uint32_t to = builder_.add_event(event);
  input.events[index] = to;
  if (from.detail != npos) add_detail(input, to, input.from->detail(from));
}

inline void trace_merger::add_detail(merge_input& input, std::uint32_t to, const event_detail& from) {
  event_detail detail = from;
  for (std::uint32_t* field : {&detail.input_dims, &detail.input_strides, &detail.input_types, &detail.concrete_inputs,
                               &detail.source_file, &detail.stack})
    *field = text(input, *field);
  if (detail.native_stack != npos) detail.native_stack += input.first_stack;
  builder_.set_detail(to, detail);
  if (from.arg_count == 0) return;
  std::vector<trace_argument> arguments;
  for (std::uint32_t i = from.first_arg; i < from.first_arg + from.arg_count; ++i) {
    trace_argument argument = input.from->arguments()[i];
    argument.key = text(input, argument.key);
    if (argument.kind == trace_argument::type::text || argument.kind == trace_argument::type::json)
      argument.text = text(input, argument.text);
    arguments.push_back(argument);
  }
  builder_.set_arguments(to, arguments);
}

inline void trace_merger::add_links() {
  if (part_ != nullptr) {
    const merge_input& input = inputs_.front();
    for (const trace_link& link : part_->links)
      if (part_->events[link.from] && part_->events[link.to])
        builder_.add_link({input.events[link.from], input.events[link.to], link.kind});
    return builder_.set_links_are_complete(true);
  }
  bool complete = true;
  for (const merge_input& input : inputs_) {
    complete = complete && input.from->links_are_complete();
    for (const trace_link& link : input.from->links())
      builder_.add_link({moved(input.events, link.from), moved(input.events, link.to), link.kind});
  }
  builder_.set_links_are_complete(complete);
}

// In order of time over all inputs; a free then names the new place of its allocation, which lies before it.
inline void trace_merger::add_memory() {
  struct item {
    merge_input* input;
    std::uint32_t index;
    std::int64_t time_ns;
  };
  std::vector<item> items;
  for (merge_input& input : inputs_) {
    input.memory.assign(input.from->memory().size(), npos);
    for (std::uint32_t i = 0; i < input.memory.size(); ++i)
      if (takes(&trace_subset::memory, i))
        items.push_back({&input, i, saturating_add(input.from->memory()[i].time_ns, input.shift_ns)});
  }
  sort_stably(items.begin(), items.end(), [](const item& a, const item& b) { return a.time_ns < b.time_ns; });
  for (const item& i : items) {
    memory_event m = i.input->from->memory()[i.index];
    m.time_ns = i.time_ns;
    m.event = moved(i.input->events, m.event);
    m.track = moved(i.input->tracks, m.track);
    m.pool = text(*i.input, m.pool);
    m.allocation = moved(i.input->memory, m.allocation);
    i.input->memory[i.index] = builder_.add_memory(m);
  }
}

inline void trace_merger::add_unmatched_frees() {
  unmatched_free outside;
  for (const merge_input& input : inputs_)
    for (unmatched_free free : input.from->unmatched_frees()) {
      free.event = moved(input.events, free.event);
      if (free.event == npos) outside.count = saturating_cast<std::uint32_t>(std::uint64_t{outside.count} + free.count);
      if (free.event != npos) builder_.add_unmatched_free(free);
    }
  if (outside.count != 0) builder_.add_unmatched_free(outside);
}

inline void trace_merger::add_marks() {
  std::vector<trace_mark> marks;
  for (merge_input& input : inputs_)
    for (std::uint32_t i = 0; i < input.from->marks().size(); ++i) {
      if (!takes(&trace_subset::marks, i)) continue;
      trace_mark mark = input.from->marks()[i];
      mark.time_ns = saturating_add(mark.time_ns, input.shift_ns);
      mark.name = text(input, mark.name);
      mark.event = moved(input.events, mark.event);
      mark.track = moved(input.tracks, mark.track);
      marks.push_back(mark);
    }
  sort_stably(marks.begin(), marks.end(),
              [](const trace_mark& a, const trace_mark& b) { return a.time_ns < b.time_ns; });
  for (const trace_mark& mark : marks) builder_.add_mark(mark);
}

inline void trace_merger::add_steps_and_pauses() {
  for (const merge_input& input : inputs_) {
    for (trace_step step : input.from->steps()) {
      if (step.event != npos && !takes(&trace_subset::events, step.event)) continue;
      step.event = moved(input.events, step.event);
      step.begin_ns = saturating_add(step.begin_ns, input.shift_ns);
      step.end_ns = saturating_add(step.end_ns, input.shift_ns);
      builder_.add_step(step);
    }
    for (const paused_interval& pause : input.from->pauses())
      builder_.add_pause(
          {saturating_add(pause.begin_ns, input.shift_ns), saturating_add(pause.end_ns, input.shift_ns)});
  }
}

inline void trace_merger::add_losses() {
  for (const merge_input& input : inputs_) detail::add_losses(builder_.losses(), input.from->losses());
}

inline void trace_merger::add_notes() {
  std::vector<const trace_note*> notes;
  for (const merge_input& input : inputs_)
    for (const trace_note& note : input.from->notes()) {
      const auto says_the_same = [&](const trace_note* n) { return n->code == note.code && n->text == note.text; };
      if (std::find_if(notes.begin(), notes.end(), says_the_same) == notes.end()) notes.push_back(&note);
    }
  for (const trace_note* note : notes) builder_.add_note(note->code, note->text);
  if (part_ != nullptr) builder_.add_note("selection", part_->note);
  if (origins_ == origins::aligned) add_alignment_note();
}

// What may be wrong with the origin of a trace.
inline std::int64_t origin_error_ns(const trace_info& info) noexcept {
  const std::int64_t shift = info.wall_shift_ns < 0 ? saturating_sub(0, info.wall_shift_ns) : info.wall_shift_ns;
  return saturating_add(info.base_time_error_ns, shift);
}

inline void trace_merger::add_alignment_note() {
  std::string text =
      "the clocks of the processes were aligned by the times of their systems, whose own differences are "
      "not known:";
  std::vector<bool> is_named(processes_.size());
  const char* separator = " ";
  for (const merge_input& input : inputs_)
    for (std::size_t i = 0; i < input.processes.size(); ++i) {
      if (is_named[input.processes[i]]) continue;
      is_named[input.processes[i]] = true;
      const trace_process& process = input.from->processes()[i];
      text += separator;
      text += "process " + std::to_string(real_pid(process));
      if (!process.host.empty()) text += " of " + process.host;
      text += " moved by " + std::to_string(input.shift_ns) + " ns, +-" +
              std::to_string(origin_error_ns(input.from->info())) + " ns";
      separator = "; ";
    }
  builder_.add_note("aligned_clocks", text);
}

inline void trace_merger::add_metadata() {
  std::vector<trace_metadata> pairs;
  for (const merge_input& input : inputs_)
    for (const trace_metadata& pair : input.from->metadata()) {
      const auto same =
          std::find_if(pairs.begin(), pairs.end(), [&](const trace_metadata& p) { return p.key == pair.key; });
      if (same == pairs.end())
        pairs.push_back(pair);
      else
        same->json = pair.json;
    }
  for (trace_metadata& pair : pairs) builder_.add_metadata(std::move(pair.key), std::move(pair.json));
}

inline void trace_merger::add_info() {
  trace_info& all = builder_.info();
  all = inputs_.front().from->info();
  all.begin_ns = saturating_add(all.begin_ns, inputs_.front().shift_ns);
  all.end_ns = all.begin_ns;
  for (const merge_input& input : inputs_) {
    const trace_info& info = input.from->info();
    all.end_ns = (std::max)(all.end_ns, saturating_add(info.end_ns, input.shift_ns));
    if (origins_ == origins::one)
      all.wall_shift_ns = info.wall_shift_ns;  // the last one's, since the same origin
    else
      all.base_time_error_ns = (std::max)(all.base_time_error_ns, origin_error_ns(info));
    all.cycle = (std::max)(all.cycle, info.cycle);
    if (all.first_step < 0) all.first_step = info.first_step;
    all.last_step = (std::max)(all.last_step, info.last_step);
    all.partial = all.partial || info.partial;
    all.has_shapes = all.has_shapes || info.has_shapes;
    all.has_memory = all.has_memory || info.has_memory;
    all.has_stacks = all.has_stacks || info.has_stacks;
    all.has_flops = all.has_flops || info.has_flops;
    all.scope_cost_ns = (std::max)(all.scope_cost_ns, info.scope_cost_ns);
    all.scope_cost_inside_ns = (std::max)(all.scope_cost_inside_ns, info.scope_cost_inside_ns);
    all.profiler_bytes = (std::max)(all.profiler_bytes, info.profiler_bytes);  // the cycles use one pool in turn
    if (all.clock.empty()) all.clock = info.clock;
  }
}

template <class T>
std::uint64_t vector_bytes(const std::vector<T>& v) {
  return static_cast<std::uint64_t>(v.capacity()) * sizeof(T);
}

}  // namespace detail

inline trace merge(const std::vector<trace>& traces, std::error_code& ec) {
  return detail::trace_merger(traces).run(ec);
}

inline trace merge(const std::vector<trace>& traces) {
  std::error_code ec;
  trace result = merge(traces, ec);
  detail::throw_if(ec, "merge");
  return result;
}

inline trace merge_processes(const std::vector<trace>& traces, std::error_code& ec) {
  return detail::trace_merger(traces, detail::trace_merger::origins::aligned).run(ec);
}

inline trace merge_processes(const std::vector<trace>& traces) {
  std::error_code ec;
  trace result = merge_processes(traces, ec);
  detail::throw_if(ec, "merge_processes");
  return result;
}

inline std::uint64_t memory_bytes(const trace& t) {
  using detail::vector_bytes;
  std::uint64_t bytes = vector_bytes(t.events()) + vector_bytes(t.details()) + vector_bytes(t.arguments()) +
                        vector_bytes(t.processes()) + vector_bytes(t.tracks()) + vector_bytes(t.links()) +
                        vector_bytes(t.memory()) + vector_bytes(t.unmatched_frees()) + vector_bytes(t.marks()) +
                        vector_bytes(t.steps()) + vector_bytes(t.pauses()) + vector_bytes(t.notes());
  bytes += vector_bytes(t.native_stacks()) + vector_bytes(t.native_frames());
  for (std::uint32_t i = 0; i < t.text_count(); ++i)
    bytes += t.text(i).size() + 2 * sizeof(std::uint64_t);  // its end, and its slots in the hash table
  return bytes;
}

STEPPROF_END_NAMESPACE
