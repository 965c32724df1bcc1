// Makes a trace from the records of a Chrome trace file: nests, attributes memory, binds arrows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/tools/trace_records.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/trace_builder.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

class trace_assembly {
 public:
  explicit trace_assembly(trace_records& records)
      : records_(records), builder_(records.builder), own_(records.own), slices_(records.slices) {}

  trace run(std::error_code& ec) {
    move_to_origin();
    end_open_slices();
    add_tracks();
    tell_wrappers_from_nodes();
    add_steps();
    add_memory();
    add_marks();
    add_arrows();
    add_facts();
    return builder_.finish(ec);
  }

 private:
  // Times of the file count from a zero of their own.
  void move_to_origin();
  void end_open_slices();

  // --- tracks
  void add_tracks();
  void add_thread(file_line& l);
  void add_alone(const trace_track& track, std::vector<std::uint32_t>& slices);
  void sort(std::vector<std::uint32_t>& slices) const;
  [[nodiscard]] bool is_before(const file_slice& a, const file_slice& b) const noexcept;
  bool close_until_parent(std::vector<std::uint32_t>& open, const file_slice& s) const;
  void add_event(file_slice& s, std::uint32_t parent);
  void tell_wrappers_from_nodes();

  // --- what lies on them
  void add_steps();
  void add_steps_of_names();
  void add_memory();
  void add_marks();
  void add_arrows();
  void number_forward_threads();
  [[nodiscard]] std::uint32_t event_of(std::int64_t order) const;
  template <class Point>
  [[nodiscard]] std::vector<std::uint32_t> events_of(const std::vector<Point>& points);
  [[nodiscard]] std::uint32_t innermost_at(const file_arrow_end& end);
  file_line& thread_line(file_line& l);

  // --- facts
  void add_facts();
  void add_processes();
  void add_metadata();

  trace_records& records_;
  trace_builder& builder_;
  const own_facts& own_;
  std::vector<file_slice>& slices_;
  std::vector<std::int64_t> order_of_event_;
  std::map<std::uint32_t, std::uint32_t> thread_of_;  // kineto's number of a forward thread -> its id here
};

inline void trace_assembly::move_to_origin() {
  const std::int64_t zero = own_.valid ? own_.zero_ns : 0;
  if (zero == 0) return;
  const auto move = [zero](std::int64_t& time_ns) { time_ns = saturating_add(time_ns, zero); };
  for (file_slice& s : slices_) {
    move(s.begin_ns);
    move(s.end_ns);
  }
  for (file_memory& m : records_.memory) move(m.time_ns);
  for (file_mark& m : records_.marks) move(m.time_ns);
  for (file_arrow& arrow : records_.arrows) {
    for (file_arrow_end& end : arrow.starts) move(end.time_ns);
    for (file_arrow_end& end : arrow.ends) move(end.time_ns);
  }
}

inline void trace_assembly::end_open_slices() {
  std::int64_t last = own_.valid ? own_.info.end_ns : builder_.info().end_ns;
  for (const file_slice& s : slices_) last = (std::max)(last, s.end_ns);
  for (const auto& [key, open] : records_.open_async)
    for (const std::uint32_t index : open) {
      slices_[index].end_ns = last;
      slices_[index].flags |= trace_event::unfinished;
    }
}

// --- tracks ---------------------------------------------------------------------------------------------------------

// Our own files are in the order of the log. Others are put into that of torch's tree.
inline bool trace_assembly::is_before(const file_slice& a, const file_slice& b) const noexcept {
  const bool have_order = a.order >= 0 && b.order >= 0;
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  if (own_.valid && have_order) return a.order < b.order;
  if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;
  return have_order && a.order < b.order;
}

inline void trace_assembly::sort(std::vector<std::uint32_t>& slices) const {
  sort_stably(slices.begin(), slices.end(),
              [this](std::uint32_t a, std::uint32_t b) { return is_before(slices_[a], slices_[b]); });
}

inline void trace_assembly::add_event(file_slice& s, std::uint32_t parent) {
  trace_event e;
  e.begin_ns = s.begin_ns;
  e.end_ns = s.end_ns;
  e.name = s.name;
  e.parent = parent;
  e.flags = s.flags & 0xffu;
  e.set_kind(s.kind);
  s.event = builder_.add_event(e);
  order_of_event_.push_back(s.order);
  if (s.has_detail) builder_.set_detail(s.event, s.detail);
  if (!s.args.empty()) builder_.set_arguments(s.event, s.args);
}

// Our files list their tracks, so that events get the places that they had. Other files have threads in the order of
// their first event, then what does not nest on them.
inline void trace_assembly::add_tracks() {
  std::vector<bool> done(records_.lines.size(), false), alone_done(records_.lines.size(), false);
  for (const own_facts::track& wanted : own_.tracks)
    for (std::size_t i = 0; i < records_.lines.size(); ++i) {
      file_line& l = records_.lines[i];
      const bool is_thread = wanted.track.kind == track_kind::thread;
      if (!l.is_numbered) continue;  // a counter's, which names no thread
      if (l.pid != wanted.pid || l.track.id != wanted.track.id || (is_thread ? done : alone_done)[i]) continue;
      trace_track track = wanted.track;
      track.process = l.track.process;
      if (is_thread) {
        l.track = track;
        add_thread(l);
      } else {
        add_alone(track, l.alone);
        l.alone.clear();
      }
      (is_thread ? done : alone_done)[i] = true;
    }
  for (std::size_t i = 0; i < records_.lines.size(); ++i) {
    file_line& l = records_.lines[i];
    if (!done[i] && (l.is_thread || !l.nested.empty())) add_thread(l);
  }
  for (file_line& l : records_.lines) {
    trace_track track = l.track;
    track.kind = track_kind::async;
    if (!l.alone.empty()) add_alone(track, l.alone);
    track.kind = track_kind::device;
    if (!l.device.empty()) add_alone(track, l.device);
  }
}

// Leaves in `open` what encloses the slice. False when the innermost one ends inside it.
inline bool trace_assembly::close_until_parent(std::vector<std::uint32_t>& open, const file_slice& s) const {
  if (s.parent_order != file_slice::no_parent_told) {
    std::size_t keep = open.size();
    while (keep != 0 && slices_[open[keep - 1]].order != s.parent_order) --keep;
    const bool is_right = keep == 0 ? s.parent_order < 0 : slices_[open[keep - 1]].end_ns >= s.end_ns;
    if (is_right) {
      open.resize(keep);
      return true;
    }
  }
  while (!open.empty() && slices_[open.back()].end_ns <= s.begin_ns) open.pop_back();
  return open.empty() || s.end_ns <= slices_[open.back()].end_ns;
}

inline void trace_assembly::add_thread(file_line& l) {
  sort(l.nested);
  l.index = builder_.add_track(l.track);
  std::vector<std::uint32_t> open;
  for (const std::uint32_t index : l.nested) {
    file_slice& s = slices_[index];
    if (!close_until_parent(open, s)) {
      s.flags |= trace_event::out_of_order;
      l.alone.push_back(index);
      continue;
    }
    add_event(s, open.empty() ? npos : slices_[open.back()].event);
    open.push_back(index);
  }
}

inline void trace_assembly::add_alone(const trace_track& track, std::vector<std::uint32_t>& slices) {
  sort(slices);
  builder_.add_track(track);
  for (const std::uint32_t index : slices) add_event(slices_[index], npos);
}

// The engine's wrapper of a node carries the node's link too; the node is the innermost one.
inline void trace_assembly::tell_wrappers_from_nodes() {
  constexpr std::string_view engine = "autograd::engine::evaluate_function: ";
  std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> last;
  std::uint32_t track = npos;
  for (std::uint32_t i = 0; i < builder_.event_count(); ++i) {
    trace_event& e = builder_.event(i);
    if (e.track != track) last.clear();
    track = e.track;
    if (e.kind() == scope_kind::user_annotation) continue;
    const event_detail& d = std::as_const(builder_).detail(i);
    if (d.sequence_number < 0 || d.forward_thread == 0) continue;
    const auto [at, is_new] = last.emplace(std::make_pair(d.forward_thread, d.sequence_number), i);
    if (!is_new) {
      // In preorder, what began earlier and has not ended yet encloses.
      trace_event& outer = builder_.event(at->second);
      if (outer.end_ns >= e.end_ns && outer.end_ns > e.begin_ns) outer.set_kind(scope_kind::op);
      at->second = i;
    }
    if (builder_.text(e.name).substr(0, engine.size()) != engine) e.set_kind(scope_kind::backward_op);
  }
}

// --- what lies on them ----------------------------------------------------------------------------------------------

// The event with this "Ev Idx" in a file of ours, whose tracks are in order of it.
inline std::uint32_t trace_assembly::event_of(std::int64_t order) const {
  if (order < 0) return npos;
  const auto found = std::lower_bound(order_of_event_.begin(), order_of_event_.end(), order);
  if (found == order_of_event_.end() || *found != order) return npos;
  return static_cast<std::uint32_t>(found - order_of_event_.begin());
}

inline void trace_assembly::add_steps() {
  if (!own_.valid) return add_steps_of_names();
  for (own_facts::step s : own_.steps) {
    s.step.event = event_of(s.event);
    builder_.add_step(s.step);
  }
}

inline void trace_assembly::add_steps_of_names() {
  std::vector<trace_step> steps;
  for (std::uint32_t i = 0; i < builder_.event_count(); ++i) {
    const trace_event& e = builder_.event(i);
    if (!e.has(trace_event::step)) continue;
    const std::string number(builder_.text(e.name).substr(step_prefix.size()));
    const bool is_complete = !e.has(trace_event::unfinished);
    steps.push_back({std::strtoll(number.c_str(), nullptr, 10), e.begin_ns, e.end_ns, i, is_complete});
  }
  sort_stably(steps.begin(), steps.end(),
              [](const trace_step& a, const trace_step& b) { return a.begin_ns < b.begin_ns; });
  for (const trace_step& step : steps) builder_.add_step(step);
  if (steps.empty()) return;
  builder_.info().first_step = steps.front().number;
  builder_.info().last_step = steps.back().number;
}

// The thread of a point that names only a process: its first one.
inline file_line& trace_assembly::thread_line(file_line& l) {
  if (l.index != npos) return l;
  for (file_line& other : records_.lines)
    if (other.index != npos && other.track.process == l.track.process) return other;
  l.index = builder_.add_track(l.track);
  return l;
}

// For points in order of time: the event that they belong to. Our own files tell it; in others it is the innermost one
// of the thread, both ends included, and on a border between two the later one.
template <class Point>
std::vector<std::uint32_t> trace_assembly::events_of(const std::vector<Point>& points) {
  struct walk {
    std::uint32_t next = 0, end = 0, open = npos;
  };
  std::vector<std::uint32_t> result;
  std::vector<walk> walks(own_.valid ? 0 : records_.lines.size());
  for (std::size_t i = 0; i < walks.size(); ++i) {
    if (records_.lines[i].index == npos) continue;
    const trace_track& track = builder_.track(records_.lines[i].index);
    walks[i].next = track.first_event;
    walks[i].end = track.first_event + track.event_count;
  }
  for (const Point& point : points) {
    if (own_.valid) {
      result.push_back(event_of(point.scope_order));
      continue;
    }
    walk& w = walks[point.line];
    for (; w.next < w.end && builder_.event(w.next).begin_ns <= point.time_ns; ++w.next) w.open = w.next;
    while (w.open != npos && builder_.event(w.open).end_ns < point.time_ns) w.open = builder_.event(w.open).parent;
    result.push_back(w.open);
  }
  return result;
}

inline void trace_assembly::add_memory() {
  std::vector<file_memory>& memory = records_.memory;
  sort_stably(memory.begin(), memory.end(),
              [](const file_memory& a, const file_memory& b) { return a.time_ns < b.time_ns; });
  const std::vector<std::uint32_t> events = events_of(memory);
  struct place {
    std::uint32_t live = npos;
    std::uint32_t displaced = npos;  // what seemed to be live when that was allocated
  };
  std::map<std::tuple<std::int16_t, std::int16_t, std::uint32_t, std::uint64_t>, place> places;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory_event m = memory[i].event;
    m.time_ns = memory[i].time_ns;
    m.event = events[i];
    m.track = thread_line(records_.lines[memory[i].line]).index;
    place& at = places[{m.device_type, m.device_id, m.pool, m.address}];
    std::uint32_t& block = m.has(memory_event::late) ? at.displaced : at.live;
    if (!memory[i].is_free) {
      if (at.live != npos) ++builder_.losses().lost_frees;
      at.displaced = at.live;
      at.live = builder_.add_memory(m);
    } else if (block != npos) {
      m.allocation = block;
      block = npos;
      builder_.add_memory(m);
    } else {
      builder_.add_unmatched_free({m.event, 1});
      ++builder_.losses().unmatched_frees;
    }
  }
  for (const own_facts::unmatched& free : own_.unmatched_frees)
    builder_.add_unmatched_free({event_of(free.event), free.count});
  if (!memory.empty()) builder_.info().has_memory = true;
}

inline void trace_assembly::add_marks() {
  std::vector<file_mark>& marks = records_.marks;
  sort_stably(marks.begin(), marks.end(), [](const file_mark& a, const file_mark& b) { return a.time_ns < b.time_ns; });
  const std::vector<std::uint32_t> events = events_of(marks);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    trace_mark mark = marks[i].mark;
    mark.time_ns = marks[i].time_ns;
    mark.event = events[i];
    mark.track = thread_line(records_.lines[marks[i].line]).index;
    builder_.add_mark(mark);
  }
}

inline std::uint32_t trace_assembly::innermost_at(const file_arrow_end& end) {
  if (end.after != npos && slices_[end.after].event != npos) return slices_[end.after].event;
  const file_line& l = records_.lines[end.line];
  if (l.index == npos) return npos;
  const trace_track& track = builder_.track(l.index);
  std::uint32_t first = track.first_event, last = track.first_event + track.event_count;
  while (first < last) {  // to one past the last event that begins no later
    const std::uint32_t middle = first + (last - first) / 2;
    if (builder_.event(middle).begin_ns <= end.time_ns)
      first = middle + 1;
    else
      last = middle;
  }
  const auto is_over = [&](const trace_event& e) {
    return e.end_ns < end.time_ns || (e.end_ns == end.time_ns && e.begin_ns != e.end_ns);
  };
  std::uint32_t at = first == track.first_event ? npos : first - 1;
  while (at != npos && is_over(builder_.event(at))) at = builder_.event(at).parent;
  return at;
}

inline void trace_assembly::add_arrows() {
  for (const file_arrow& arrow : records_.arrows) {
    const std::uint32_t from = arrow.starts.empty() ? npos : innermost_at(arrow.starts.front());
    for (const file_arrow_end& end : arrow.ends) {
      const std::uint32_t to = innermost_at(end);
      if (from == npos || to == npos) {
        records_.ignore("arrows with an end outside every event");
        continue;
      }
      builder_.add_link({from, to, arrow.kind});
      const std::uint32_t thread = std::as_const(builder_).detail(to).forward_thread;
      if (arrow.kind == link_kind::forward_backward && thread != 0)
        thread_of_.emplace(thread, builder_.track(builder_.event(from).track).id);
    }
    if (arrow.ends.empty()) records_.ignore("arrows without an end");
  }
  // Arrows that could not be drawn in our file follow from sequence numbers again.
  builder_.set_links_are_complete(own_.arrows_left_out == 0);
  number_forward_threads();
}

// kineto counts forward threads in a way of its own; what the arrows tell about it makes the ids agree with the tracks.
inline void trace_assembly::number_forward_threads() {
  if (own_.valid) return;
  for (std::uint32_t i = 0; i < builder_.event_count(); ++i) {
    const auto known = thread_of_.find(std::as_const(builder_).detail(i).forward_thread);
    if (known != thread_of_.end()) builder_.detail(i).forward_thread = known->second;
  }
}

// --- facts ----------------------------------------------------------------------------------------------------------

inline void trace_assembly::add_facts() {
  trace_info& info = builder_.info();
  std::int64_t first = INT64_MAX, last = INT64_MIN;
  for (std::uint32_t i = 0; i < builder_.event_count(); ++i) {
    const trace_event& e = builder_.event(i);
    ++(e.has(trace_event::unfinished) ? builder_.losses().unfinished : builder_.losses().kept);
    first = (std::min)(first, e.begin_ns);
    last = (std::max)(last, e.end_ns);
  }
  if (!records_.has_window && first <= last) {
    info.begin_ns = (std::min)(std::int64_t{0}, first);
    info.end_ns = last;
  }
  if (own_.valid) {
    trace_info told = own_.info;
    told.trace_id = info.trace_id;
    told.has_memory = info.has_memory;
    told.has_shapes = info.has_shapes;
    told.has_stacks = info.has_stacks;
    told.has_flops = info.has_flops;
    info = told;
    builder_.losses() = own_.losses;
    for (const paused_interval& pause : own_.pauses) builder_.add_pause(pause);
    for (const trace_note& note : own_.notes) builder_.add_note(note.code, note.text);
  }
  for (const auto& [what, count] : records_.ignored)
    builder_.add_note("not_read", "the file has " + what + " (" + std::to_string(count) + "), which were left out");
  add_processes();
  add_metadata();
}

inline void trace_assembly::add_processes() {
  for (std::uint32_t i = 0; i < builder_.process_count(); ++i) {
    trace_process& process = builder_.process(i);
    process.host = records_.host;
    for (const trace_process& told : own_.processes)
      if (told.pid == process.pid) process = told;
  }
}

inline void trace_assembly::add_metadata() {
  for (const trace_metadata& m : records_.metadata) {
    if (m.key == "distributedInfo") {
      const nlohmann::json ranks = nlohmann::json::parse(m.json, nullptr, false);
      const auto rank = ranks.is_object() ? ranks.find("rank") : ranks.end();
      const bool has_rank = ranks.is_object() && rank != ranks.end() && rank->is_number_integer();
      const bool is_of_process =
          has_rank && ranks.size() == 1 && own_.processes.size() == 1 && own_.processes[0].rank == json_integer(*rank);
      if (own_.valid && is_of_process) continue;  // made from the process, and so again
      if (own_.processes.empty() && has_rank && builder_.process_count() == 1)
        builder_.process(0).rank = json_integer(*rank);
    }
    builder_.add_metadata(own_.valid ? unprefixed_file_key(m.key) : m.key, m.json);
  }
}

}  // namespace detail

STEPPROF_END_NAMESPACE
