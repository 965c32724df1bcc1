// The only way to make a trace: collects its parts and checks the invariants that everything to the right relies on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stepprof/trace/error.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Builds a trace, track by track, each track's events in preorder. One thread at a time.
class trace_builder {
 public:
  /// The index of a text in the trace; equal texts get equal indices.
  std::uint32_t intern(std::string_view text) { return data_.strings.intern(text); }
  /// The text of an index that intern() gave. Valid until the next intern().
  [[nodiscard]] std::string_view text(std::uint32_t index) const noexcept { return data_.strings[index]; }

  std::uint32_t add_process(trace_process process) {
    data_.processes.push_back(std::move(process));
    return static_cast<std::uint32_t>(data_.processes.size() - 1);
  }
  /// Opens a track. Its events are those added until the next add_track().
  std::uint32_t add_track(trace_track track) {
    track.first_event = event_count();
    track.event_count = 0;
    data_.tracks.push_back(std::move(track));
    return static_cast<std::uint32_t>(data_.tracks.size() - 1);
  }
  /// Appends an event to the last track (its `track` field is set here) and returns its index.
  std::uint32_t add_event(trace_event event) {
    event.track = static_cast<std::uint32_t>(data_.tracks.size() - 1) & 0xfffffu;
    ++data_.tracks.back().event_count;
    if (event_count_ == data_.events.size())
      data_.events.push_back(event);
    else
      data_.events[event_count_] = event;
    return static_cast<std::uint32_t>(event_count_++);
  }
  /// For a maker that needs an array for its events before it can add them: those that were added stand at its begin,
  /// the others behind them. Each event that is added takes the place of the first of the others, which must have been
  /// dealt with before. What is left of them at the end is dropped.
  [[nodiscard]] std::vector<trace_event>& raw_events() noexcept { return data_.events; }
  /// Adds the next `count` of the others, to be completed at once.
  trace_event* add_raw(std::uint32_t count) noexcept {
    trace_event* const first = data_.events.data() + event_count_;
    event_count_ += count;
    data_.tracks.back().event_count += count;
    return first;
  }
  /// The event as added so far, to complete it.
  [[nodiscard]] trace_event& event(std::uint32_t index) { return data_.events[index]; }
  [[nodiscard]] const trace_event& event(std::uint32_t index) const { return data_.events[index]; }
  [[nodiscard]] std::uint32_t event_count() const noexcept { return static_cast<std::uint32_t>(event_count_); }
  /// The rarer fields of an event, to be changed: its own, made when first asked for. Valid until the next call for
  /// another event.
  event_detail& detail(std::uint32_t event) {
    std::uint32_t& at = data_.events[event].detail;
    if (at == npos || is_shared(at)) {
      data_.details.push_back(std::as_const(*this).detail(event));
      at = static_cast<std::uint32_t>(data_.details.size() - 1);
    }
    return data_.details[at];
  }
  /// The same, to be read; all defaults when it has none.
  [[nodiscard]] const event_detail& detail(std::uint32_t event) const noexcept {
    static const event_detail none;
    const std::uint32_t at = data_.events[event].detail;
    return at == npos ? none : data_.details[at];
  }
  /// The entry of `trace::details()` that says where a scope stands in the source, and from where it was called, and
  /// nothing else, for the `detail` of any number of events: the place of a million scopes takes no memory but this.
  std::uint32_t source(std::uint32_t file, std::uint32_t line, std::uint32_t native_stack = npos) {
    const auto [at, is_new] =
        sources_.emplace(source_key{file, line, native_stack}, static_cast<std::uint32_t>(data_.details.size()));
    if (is_new) {
      data_.details.emplace_back();
      data_.details.back().source_file = file;
      data_.details.back().source_line = line;
      data_.details.back().native_stack = native_stack;
    }
    return at->second;
  }
  /// Gives an event the stack of this index, which add_native_stack() returned.
  void set_native_stack(std::uint32_t event, std::uint32_t stack) {
    std::uint32_t& at = data_.events[event].detail;
    const event_detail& d = std::as_const(*this).detail(event);
    if (at == npos || is_shared(at))
      at = source(d.source_file, d.source_line, stack);
    else
      data_.details[at].native_stack = stack;
  }
  /// Gives an event the rarer fields of another one, but for its arguments.
  void set_detail(std::uint32_t event, event_detail d) {
    d.first_arg = d.arg_count = 0;
    const bool is_place_only = (d.source_file & d.native_stack) != npos && d.sequence_number < 0 &&
                               d.forward_thread == 0 && d.input_dims == npos && d.input_strides == npos &&
                               d.input_types == npos && d.concrete_inputs == npos && d.stack == npos;
    if (is_place_only)
      data_.events[event].detail = source(d.source_file, d.source_line, d.native_stack);
    else
      detail(event) = d;
  }
  /// Adds arguments to an event: all of one event in one call.
  void set_arguments(std::uint32_t event, const std::vector<trace_argument>& arguments) {
    event_detail& d = detail(event);
    d.first_arg = static_cast<std::uint32_t>(data_.arguments.size());
    d.arg_count = static_cast<std::uint32_t>(arguments.size());
    data_.arguments.insert(data_.arguments.end(), arguments.begin(), arguments.end());
  }
  std::uint32_t add_native_module(native_module module) {
    data_.stacks.modules.push_back(std::move(module));
    return static_cast<std::uint32_t>(data_.stacks.modules.size() - 1);
  }
  /// Its frames are those added next, until the next stack.
  std::uint32_t add_native_stack(bool cut) {
    data_.stacks.stacks.push_back({static_cast<std::uint32_t>(data_.stacks.frames.size()), 0, cut});
    return static_cast<std::uint32_t>(data_.stacks.stacks.size() - 1);
  }
  void add_native_frame(native_frame frame) {
    data_.stacks.frames.push_back(frame);
    ++data_.stacks.stacks.back().frame_count;
  }
  void add_link(trace_link link) { data_.links.push_back(link); }
  void set_links_are_complete(bool complete) { data_.links_are_complete = complete; }
  void reserve_memory(std::size_t count) { detail::reserve_large(data_.memory, count); }
  std::uint32_t add_memory(memory_event event) {
    data_.memory.push_back(event);
    return static_cast<std::uint32_t>(data_.memory.size() - 1);
  }
  void add_unmatched_free(unmatched_free free) { data_.unmatched_frees.push_back(free); }
  void add_mark(trace_mark mark) { data_.marks.push_back(mark); }
  void add_step(trace_step step) { data_.steps.push_back(step); }
  void add_pause(paused_interval pause) { data_.pauses.push_back(pause); }
  void add_note(std::string code, std::string text) { data_.notes.push_back({std::move(code), std::move(text)}); }
  void add_metadata(std::string key, std::string json) { metadata_.push_back({std::move(key), std::move(json)}); }
  [[nodiscard]] trace_info& info() noexcept { return data_.info; }
  [[nodiscard]] loss_counts& losses() noexcept { return data_.losses; }
  [[nodiscard]] std::uint32_t track_count() const noexcept { return static_cast<std::uint32_t>(data_.tracks.size()); }
  [[nodiscard]] trace_track& track(std::uint32_t index) { return data_.tracks[index]; }
  [[nodiscard]] const trace_track& track(std::uint32_t index) const { return data_.tracks[index]; }
  [[nodiscard]] std::uint32_t process_count() const noexcept {
    return static_cast<std::uint32_t>(data_.processes.size());
  }
  [[nodiscard]] trace_process& process(std::uint32_t index) { return data_.processes[index]; }

  /// The finished trace; the builder is empty afterwards. When an invariant is broken, `ec` is errc::bad_trace with a
  /// text that names the event, and the result is an empty trace.
  [[nodiscard]] trace finish(std::error_code& ec);
  /// The same, throwing stepprof::error.
  [[nodiscard]] trace finish() {
    std::error_code ec;
    trace result = finish(ec);
    detail::throw_if(ec, "trace_builder::finish");
    return result;
  }

 private:
  struct source_key {
    std::uint32_t file, line, native_stack;
    bool operator==(const source_key& o) const noexcept {
      return file == o.file && line == o.line && native_stack == o.native_stack;
    }
  };
  struct source_hash {
    std::size_t operator()(const source_key& k) const noexcept {
      const std::uint64_t h = ((std::uint64_t{k.file} << 32 | k.line) ^ (k.native_stack * 0x9e3779b97f4a7c15ull));
      return static_cast<std::size_t>((h ^ (h >> 29)) * 0xbf58476d1ce4e5b9ull >> 16);
    }
  };
  [[nodiscard]] bool is_shared(std::uint32_t at) const {
    const event_detail& d = data_.details[at];
    const auto found = sources_.find(source_key{d.source_file, d.source_line, d.native_stack});
    return found != sources_.end() && found->second == at;
  }
  void drop_raw_events();
  std::string first_fault() const;
  std::string events_fault() const;
  std::string event_fault(std::uint32_t index) const;
  [[nodiscard]] bool is_sound(const trace_event& e, std::uint32_t index) const noexcept;

  detail::trace_data data_;
  std::size_t event_count_ = 0;  // added; behind them raw events
  std::vector<trace_metadata> metadata_;
  std::unordered_map<source_key, std::uint32_t, source_hash> sources_;  // the entry that all of one place share
};

// --------------------------------------------------------------------------------------------------------------------

inline trace trace_builder::finish(std::error_code& ec) {
  ec.clear();
  drop_raw_events();
  const std::string fault = first_fault();
  trace result;
  if (!fault.empty()) {
    ec = detail::make_error(errc::bad_trace, fault);
  } else {
    result.data_ = std::make_shared<const detail::trace_data>(std::move(data_));
    result.metadata_ = std::move(metadata_);
  }
  data_ = detail::trace_data();
  event_count_ = 0;
  metadata_.clear();
  sources_.clear();
  return result;
}

inline void trace_builder::drop_raw_events() {
  data_.events.resize(event_count_);
  // Room that was never written takes address space only; more of it than events would be odd all the same.
  if (data_.events.capacity() > 2 * event_count_) data_.events.shrink_to_fit();
}

// Whether the event keeps the rules that concern it and its parent alone. Nearly every event of every trace does: which
// rule one breaks is then found out by event_fault().
inline bool trace_builder::is_sound(const trace_event& e, std::uint32_t index) const noexcept {
  const std::uint64_t duration = static_cast<std::uint64_t>(e.end_ns) - static_cast<std::uint64_t>(e.begin_ns);
  if (e.end_ns < e.begin_ns || duration >= INT64_MAX || e.name >= data_.strings.size()) return false;
  if (e.detail != npos && e.detail >= data_.details.size()) return false;
  if (e.parent == npos) return true;
  if (e.parent >= index) return false;
  const trace_event& p = data_.events[e.parent];
  return p.track == e.track && e.begin_ns >= p.begin_ns && e.end_ns <= p.end_ns;
}

// Which rule the event breaks; those before it on its track break none.
inline std::string trace_builder::event_fault(std::uint32_t index) const {
  const trace_event& e = data_.events[index];
  const trace_track& track = data_.tracks[e.track];
  if (e.end_ns < e.begin_ns) return "ends before it begins";
  if (detail::saturating_sub(e.end_ns, e.begin_ns) == INT64_MAX) return "lasts longer than 292 years";
  if (e.name >= data_.strings.size()) return "has no name";
  if (e.detail != npos && e.detail >= data_.details.size()) return "has a detail index out of range";
  if (track.kind != track_kind::thread) return e.parent == npos ? "" : "has a parent on an async track";
  if (e.parent != npos) {
    if (e.parent >= index) return "stands before its parent";
    const trace_event& p = data_.events[e.parent];
    if (p.track != e.track) return "has its parent on another track";
    if (e.begin_ns < p.begin_ns || e.end_ns > p.end_ns) return "lies outside its parent";
  }
  std::uint32_t sibling = index;
  while (sibling-- > track.first_event)
    if (data_.events[sibling].parent == e.parent)
      return e.begin_ns < data_.events[sibling].end_ns ? "overlaps the event before it"
                                                       : "does not follow its parent or a sibling";
  return "does not follow its parent or a sibling";
}

inline std::string trace_builder::events_fault() const {
  const auto text_of = [this](std::uint32_t event) {
    return "trace: event " + std::to_string(event) + " ('" + std::string(data_.strings[data_.events[event].name]) +
           "') " + event_fault(event);
  };
  for (const trace_track& track : data_.tracks) {
    if (track.process >= data_.processes.size()) return "trace: track '" + track.name + "' has no process";
    const bool nests = track.kind == track_kind::thread;
    // Preorder: walking back from an event over parents must meet the event that was added last. The one met before
    // that is the event's sibling.
    std::uint32_t open = npos;
    for (std::uint32_t i = track.first_event; i < track.first_event + track.event_count; ++i) {
      const trace_event& e = data_.events[i];
      if (!is_sound(e, i) || (!nests && e.parent != npos)) return text_of(i);
      if (!nests) continue;
      std::uint32_t sibling = npos;
      for (; open != npos && open != e.parent; open = data_.events[open].parent) sibling = open;
      if (open != e.parent || (sibling != npos && e.begin_ns < data_.events[sibling].end_ns)) return text_of(i);
      open = i;
    }
  }
  return "";
}

inline std::string trace_builder::first_fault() const {
  if (data_.events.size() >= npos) return "trace: more than 4294967294 events; record fewer steps";
  if (data_.tracks.size() > 0xfffffu) return "trace: more than 1048575 tracks";
  if (std::string fault = events_fault(); !fault.empty()) return fault;
  const auto known = [this](std::uint32_t event) { return event < data_.events.size(); };
  for (const event_detail& d : data_.details)
    if (d.native_stack != npos && d.native_stack >= data_.stacks.stacks.size())
      return "trace: an event names a native stack that does not exist";
  for (const native_frame& frame : data_.stacks.frames)
    if (frame.module != npos && frame.module >= data_.stacks.modules.size())
      return "trace: a native frame names a module that does not exist";
  for (const trace_link& link : data_.links)
    if (!known(link.from) || !known(link.to)) return "trace: a link names an event that does not exist";
  const auto known_or_none = [&known](std::uint32_t event) { return event == npos || known(event); };
  for (const unmatched_free& free : data_.unmatched_frees)
    if (!known_or_none(free.event)) return "trace: an unmatched free names an event that does not exist";
  for (const trace_mark& mark : data_.marks)
    if (!known_or_none(mark.event) || mark.track >= data_.tracks.size())
      return "trace: a mark names an event or a track that does not exist";
  for (const trace_step& step : data_.steps)
    if (!known_or_none(step.event)) return "trace: a step names an event that does not exist";
  std::int64_t last = INT64_MIN;
  for (std::size_t i = 0; i < data_.memory.size(); ++i) {
    const memory_event& m = data_.memory[i];
    if (!known_or_none(m.event) || m.track >= data_.tracks.size())
      return "trace: a memory event names an event or a track that does not exist";
    if (m.allocation != npos && m.allocation >= i) return "trace: a free stands before its allocation";
    if (m.time_ns < last) return "trace: memory events are not in order of time";
    last = m.time_ns;
  }
  return "";
}

STEPPROF_END_NAMESPACE
