// Makes a trace from the records of a Chrome trace file: sorts, nests, attributes memory, binds arrows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/tools/chrome_json.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/trace_builder.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What is read from a trace file.
struct trace_reader_options {
  /// PyTorch's `python_function` events, one per Python call, as operations. Without them the rows are those of torch's
  /// own tables.
  bool python_functions = false;
};

namespace detail {

// The sink of chrome_json_handler. on_event() sorts the records by what they are, finish() puts them together.
class trace_assembly {
 public:
  explicit trace_assembly(const trace_reader_options& options) : options_(options) {}

  std::string on_file_key(std::string key, json_value value);
  std::string on_event(chrome_event&& event);
  trace finish(std::error_code& ec);

 private:
  // A duration of the file.
  struct slice {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t order = -1;  // Ev Idx; below 0: none
    std::uint32_t name = npos;
    std::uint32_t event = npos;  // its index in the trace, once it has one
    scope_kind kind = scope_kind::op;
    std::uint32_t flags = 0;
    bool has_detail = false;
    event_detail detail;
    std::vector<trace_argument> args;
  };
  // What the file calls a thread. Slices that do not nest go to an async track beside it.
  struct line {
    trace_track track;
    std::vector<std::uint32_t> nested, alone, device;  // indices into slices_
    std::uint32_t last_slice = npos;                   // the one read last, which an arrow may follow
    std::uint32_t index = npos;                        // of its thread track in the trace
  };
  struct point {
    std::int64_t time_ns = 0;
    std::uint32_t line = 0;
  };
  struct arrow_end : point {
    std::uint32_t after = npos;  // the slice that stands before it in the file and begins at the same time
  };
  struct arrow {
    std::vector<arrow_end> starts, ends;
    link_kind kind = link_kind::custom;
  };
  struct memory_report : point {
    memory_event event;
  };
  struct mark_report : point {
    trace_mark mark;
  };

  // --- reading
  static std::string fault(const chrome_event& e, const std::string& what) {
    std::string text = "traceEvents[" + std::to_string(e.index) + "]";
    if (!e.name.empty()) text += " ('" + e.name + "')";
    return text + ": " + what;
  }
  static std::string time(const chrome_event& e, const json_value& value, const char* field, std::int64_t& ns);
  std::string read_slice(chrome_event& e);
  std::string read_async(chrome_event& e);
  std::string read_arrow_end(const chrome_event& e);
  std::string read_instant(const chrome_event& e);
  std::string read_counter(const chrome_event& e);
  std::string read_names(const chrome_event& e);
  std::string read_window(const chrome_event& e);
  bool read_known_arg(slice& s, const std::string& key, const json_value& value);
  void read_args(slice& s, const chrome_event& e);
  trace_argument argument(std::string_view key, const json_value& value);
  std::uint32_t process_for(const chrome_event& e);
  std::uint32_t line_for(const chrome_event& e);
  void ignore(const std::string& what) { ++ignored_[what]; }

  // --- putting together
  void add_thread(line& l);
  void add_alone(line& l, const std::vector<std::uint32_t>& slices, track_kind kind);
  void add_to_track(slice& s, std::uint32_t parent);
  void tell_wrappers_from_nodes();
  void add_steps();
  void add_memory();
  void add_marks();
  void add_arrows();
  void add_facts();
  [[nodiscard]] bool is_before(const slice& a, const slice& b) const noexcept;
  template <class Report>
  void find_innermost(const std::vector<Report>& reports, std::vector<std::uint32_t>& events) const;
  [[nodiscard]] std::uint32_t innermost_at(const arrow_end& end) const;

  trace_reader_options options_;
  trace_builder builder_;
  std::vector<slice> slices_;
  std::vector<line> lines_;
  std::vector<memory_report> memory_;
  std::vector<mark_report> marks_;
  std::unordered_map<std::string, std::uint32_t> line_of_, process_of_;
  std::unordered_map<std::string, std::vector<std::pair<std::uint32_t, std::uint32_t>>> open_async_;  // line, slice
  std::map<std::string, arrow> arrows_;  // sorted, so that the same file gives the same order
  std::map<std::string, std::uint64_t> ignored_;
  std::uint32_t invented_ids_ = 0;
  bool has_window_ = false;
};

// --- reading --------------------------------------------------------------------------------------------------------

inline std::string trace_assembly::on_file_key(std::string key, json_value value) {
  trace_info& info = builder_.info();
  const bool is_on = value.integer_or(0) != 0 || value.boolean;
  if (key == "baseTimeNanoseconds") {
    info.base_time_ns = value.integer_or(0);
  } else if (key == "trace_id") {
    info.trace_id = value.text;
  } else if (key == "record_shapes") {
    info.has_shapes = is_on;
  } else if (key == "profile_memory") {
    info.has_memory = is_on;
  } else if (key == "with_stack") {
    info.has_stacks = is_on;
  } else if (key != "schemaVersion" && key != "deviceProperties" && key != "displayTimeUnit" && key != "traceName") {
    builder_.add_metadata(std::move(key), json_text(value));
  }
  return "";
}

inline std::string trace_assembly::on_event(chrome_event&& e) {
  if (e.pid.kind == json_value::type::text && (e.cat == "Trace" || e.ph == "M" || e.ph[0] == 'i'))
    return read_window(e);
  if (e.ph == "X") return read_slice(e);
  if (e.ph == "b" || e.ph == "e") return read_async(e);
  if (e.ph == "s" || e.ph == "f") return read_arrow_end(e);
  if (e.ph == "i" || e.ph == "I" || e.ph == "R") return read_instant(e);
  if (e.ph == "C") return read_counter(e);
  if (e.ph == "M") return read_names(e);
  if (e.ph.empty()) return fault(e, "has no ph (the kind of event)");
  ignore("events of kind '" + e.ph + "'");
  return "";
}

inline std::string trace_assembly::time(const chrome_event& e, const json_value& value, const char* field,
                                        std::int64_t& ns) {
  if (!value.exists()) return fault(e, std::string(field) + " is missing, must be a time in microseconds");
  const bool is_number = value.is_integer() || value.kind == json_value::type::real;
  if ((is_number || value.kind == json_value::type::text) && parse_microseconds(value.text, ns)) return "";
  return fault(e,
               std::string(field) + " is " + json_text(value) + ", must be microseconds within 31 years of the base");
}

// kineto's own marks: when recording began and ended.
inline std::string trace_assembly::read_window(const chrome_event& e) {
  std::int64_t begin = 0, duration = 0;
  if (e.ph == "M" || (e.ph != "X" && e.name != "Record Window End")) return "";
  std::string text = time(e, e.ts, "ts", begin);
  if (e.ph == "X" && text.empty()) text = time(e, e.dur, "dur", duration);
  if (!text.empty()) return text;
  trace_info& info = builder_.info();
  if (e.ph == "X") info.begin_ns = begin;
  info.end_ns = (std::max)(info.end_ns, begin + duration);
  has_window_ = true;
  return "";
}

inline std::uint32_t trace_assembly::process_for(const chrome_event& e) {
  const auto [at, is_new] = process_of_.emplace(json_text(e.pid), static_cast<std::uint32_t>(process_of_.size()));
  if (!is_new) return at->second;
  trace_process process;
  const std::int64_t pid = e.pid.integer_or(0);
  const bool is_usable = pid >= 1 && pid <= INT32_MAX;
  process.pid = is_usable ? pid : 0x40000000 + ++invented_ids_;
  process.os_pid = is_usable ? 0 : pid;
  if (e.pid.kind == json_value::type::text) process.name = e.pid.text;
  builder_.add_process(std::move(process));
  return at->second;
}

inline std::uint32_t trace_assembly::line_for(const chrome_event& e) {
  const auto [at, is_new] =
      line_of_.emplace(json_text(e.pid) + ' ' + json_text(e.tid), static_cast<std::uint32_t>(lines_.size()));
  if (!is_new) return at->second;
  line l;
  l.track.process = process_for(e);
  const std::int64_t tid = e.tid.integer_or(0);
  const bool is_usable = tid >= 1 && tid <= INT32_MAX;
  l.track.id = is_usable ? static_cast<std::uint32_t>(tid) : 0x40000000u + ++invented_ids_;
  l.track.os_id = is_usable || tid < 0 ? 0 : static_cast<std::uint64_t>(tid);
  if (e.tid.kind == json_value::type::text) l.track.name = e.tid.text;
  lines_.push_back(std::move(l));
  return at->second;
}

inline trace_argument trace_assembly::argument(std::string_view key, const json_value& value) {
  trace_argument a;
  a.key = builder_.intern(key);
  switch (value.kind) {
    case json_value::type::boolean:
      a.kind = trace_argument::type::boolean;
      a.boolean = value.boolean;
      break;
    case json_value::type::int64:
      a.int64 = value.int64;
      break;
    case json_value::type::uint64:
      a.kind = trace_argument::type::uint64;
      a.uint64 = value.uint64;
      break;
    case json_value::type::real:
      a.kind = trace_argument::type::real;
      a.real = value.real;
      break;
    case json_value::type::text:
      a.kind = trace_argument::type::text;
      a.text = builder_.intern(value.text);
      break;
    default:
      a.kind = trace_argument::type::json;
      a.text = builder_.intern(json_text(value));
  }
  return a;
}

// False when the argument is not one of those that a trace has a field for.
inline bool trace_assembly::read_known_arg(slice& s, const std::string& key, const json_value& value) {
  struct text_field {
    const char* key;
    std::uint32_t event_detail::*field;
  };
  static constexpr text_field texts[] = {{"Input Dims", &event_detail::input_dims},
                                         {"Input Strides", &event_detail::input_strides},
                                         {"Input type", &event_detail::input_types},
                                         {"Concrete Inputs", &event_detail::concrete_inputs}};
  for (const text_field& t : texts) {
    if (key != t.key || value.kind != json_value::type::json) continue;
    s.detail.*t.field = builder_.intern(value.text);
    return s.has_detail = true;
  }
  if (key == "Sequence number" && value.is_integer()) {
    s.detail.sequence_number = value.integer_or(-1);
    return s.has_detail = true;
  }
  if (key == "Fwd thread id" && value.is_integer()) {
    const std::int64_t id = value.integer_or(0);
    s.detail.forward_thread = id > 0 && id <= UINT32_MAX ? static_cast<std::uint32_t>(id) : 0;
    return s.has_detail = true;
  }
  if (key == "Call stack" && value.kind == json_value::type::text) {
    std::string_view frames = value.text;
    if (!frames.empty() && frames.back() == ';') frames.remove_suffix(1);
    s.detail.stack = builder_.intern(frames);
    return s.has_detail = true;
  }
  if (key == "Ev Idx" && value.is_integer()) {
    s.order = value.integer_or(-1);
    return true;
  }
  if (key == "finished" && value.kind == json_value::type::boolean) {
    if (!value.boolean) s.flags |= trace_event::unfinished;
    return true;
  }
  return false;
}

inline void trace_assembly::read_args(slice& s, const chrome_event& e) {
  for (const auto& [key, value] : e.args)
    if (!read_known_arg(s, key, value)) s.args.push_back(argument(key, value));
}

inline std::string trace_assembly::read_slice(chrome_event& e) {
  if (e.cat == "python_function" && !options_.python_functions) {
    ignore("python_function events");
    return "";
  }
  slice s;
  std::int64_t duration = 0;
  std::string text = time(e, e.ts, "ts", s.begin_ns);
  if (text.empty()) text = time(e, e.dur, "dur", duration);
  if (text.empty() && duration < 0) text = fault(e, "dur is " + e.dur.text + ", must not be negative");
  if (!text.empty()) return text;
  s.end_ns = s.begin_ns + duration;
  s.name = builder_.intern(e.name);
  if (e.cat == "user_annotation") s.kind = scope_kind::user_annotation;
  if (s.kind == scope_kind::user_annotation && is_step_name(e.name)) s.flags |= trace_event::step;
  read_args(s, e);
  const auto index = static_cast<std::uint32_t>(slices_.size());
  line& l = lines_[line_for(e)];
  const bool is_device = e.cat == "kernel" || e.cat == "gpu_memcpy" || e.cat == "gpu_memset" ||
                         e.cat == "gpu_user_annotation" || e.cat == "concurrent_kernel";
  (is_device ? l.device : l.nested).push_back(index);
  l.last_slice = index;
  slices_.push_back(std::move(s));
  return "";
}

inline std::string trace_assembly::read_async(chrome_event& e) {
  std::int64_t at = 0;
  std::string text = time(e, e.ts, "ts", at);
  if (!text.empty()) return text;
  auto& open = open_async_[json_text(e.pid) + ' ' + e.cat + ' ' + json_text(e.id)];
  if (e.ph == "e") {
    if (open.empty())
      ignore("async ends without a begin");
    else
      slices_[open.back().second].end_ns = (std::max)(at, slices_[open.back().second].begin_ns), open.pop_back();
    return "";
  }
  slice s;
  s.begin_ns = at;
  s.end_ns = INT64_MIN;  // until its end is read
  s.name = builder_.intern(e.name);
  s.kind = e.cat == "cpu_op" ? scope_kind::op : scope_kind::user_annotation;
  if (is_step_name(e.name)) s.flags |= trace_event::step;
  read_args(s, e);
  const std::uint32_t on = line_for(e);
  open.emplace_back(on, static_cast<std::uint32_t>(slices_.size()));
  lines_[on].alone.push_back(static_cast<std::uint32_t>(slices_.size()));
  slices_.push_back(std::move(s));
  return "";
}

inline std::string trace_assembly::read_arrow_end(const chrome_event& e) {
  arrow_end end;
  std::string text = time(e, e.ts, "ts", end.time_ns);
  if (text.empty() && !e.id.exists()) text = fault(e, "id is missing, so the arrow has no other end");
  if (!text.empty()) return text;
  end.line = line_for(e);
  // kineto writes an arrow's end behind the slice that it belongs to; its time alone would name a child that begins
  // in the same ns.
  const std::uint32_t last = lines_[end.line].last_slice;
  if (last != npos && slices_[last].begin_ns == end.time_ns) end.after = last;
  arrow& a = arrows_[e.cat + ' ' + e.name + ' ' + json_text(e.id)];
  if (e.cat == "fwdbwd") a.kind = link_kind::forward_backward;
  (e.ph == "s" ? a.starts : a.ends).push_back(end);
  return "";
}

inline std::string trace_assembly::read_instant(const chrome_event& e) {
  std::int64_t at = 0;
  std::string text = time(e, e.ts, "ts", at);
  if (!text.empty()) return text;
  const std::uint32_t on = line_for(e);
  const json_value* bytes = e.arg("Bytes");
  if (e.name != "[memory]" || bytes == nullptr || !bytes->is_integer()) {
    mark_report mark;
    mark.time_ns = mark.mark.time_ns = at;
    mark.line = on;
    mark.mark.name = builder_.intern(e.name);
    marks_.push_back(mark);
    return "";
  }
  memory_report report;
  report.time_ns = report.event.time_ns = at;
  report.line = on;
  const auto integer = [&e](const char* key, std::int64_t otherwise) {
    const json_value* value = e.arg(key);
    return value == nullptr ? otherwise : value->integer_or(otherwise);
  };
  const json_value* address = e.arg("Addr");
  report.event.bytes = bytes->integer_or(0);
  report.event.address = address == nullptr ? 0
                         : address->kind == json_value::type::uint64
                             ? address->uint64
                             : static_cast<std::uint64_t>(address->integer_or(0));
  report.event.total_allocated = integer("Total Allocated", 0);
  report.event.device_type = static_cast<std::int16_t>(integer("Device Type", 0));
  report.event.device_id = static_cast<std::int16_t>(integer("Device Id", -1));
  memory_.push_back(report);
  return "";
}

inline std::string trace_assembly::read_counter(const chrome_event& e) {
  std::int64_t at = 0;
  std::string text = time(e, e.ts, "ts", at);
  if (!text.empty()) return text;
  for (const auto& [key, value] : e.args) {
    mark_report report;
    report.time_ns = report.mark.time_ns = at;
    report.line = line_for(e);
    report.mark.kind = trace_mark::type::counter;
    report.mark.name = builder_.intern(e.args.size() == 1 ? e.name : e.name + ' ' + key);
    if (value.is_integer())
      report.mark.value =
          value.kind == json_value::type::int64 ? static_cast<double>(value.int64) : static_cast<double>(value.uint64);
    else if (value.kind == json_value::type::real)
      report.mark.value = value.real;
    else  // how JSON, which has no word for them, writes what is not a finite number
      report.mark.value = value.text == "Infinity"    ? std::numeric_limits<double>::infinity()
                          : value.text == "-Infinity" ? -std::numeric_limits<double>::infinity()
                                                      : std::numeric_limits<double>::quiet_NaN();
    marks_.push_back(report);
  }
  return "";
}

inline std::string trace_assembly::read_names(const chrome_event& e) {
  const json_value* name = e.arg("name");
  const json_value* sort_index = e.arg("sort_index");
  const json_value* labels = e.arg("labels");
  const bool is_thread = e.name.compare(0, 7, "thread_") == 0;
  trace_process* process = is_thread ? nullptr : &builder_.process(process_for(e));
  trace_track* track = is_thread ? &lines_[line_for(e)].track : nullptr;
  if (e.name == "process_name" && name != nullptr) process->name = name->text;
  if (e.name == "process_labels" && labels != nullptr) process->labels = labels->text;
  if (e.name == "process_sort_index" && sort_index != nullptr) process->sort_index = sort_index->integer_or(0);
  if (e.name == "thread_name" && name != nullptr) track->name = name->text;
  if (e.name == "thread_sort_index" && sort_index != nullptr) track->sort_index = sort_index->integer_or(0);
  return "";
}

// --- putting together -----------------------------------------------------------------------------------------------

inline bool trace_assembly::is_before(const slice& a, const slice& b) const noexcept {
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;
  return a.order >= 0 && b.order >= 0 && a.order < b.order;
}

inline void trace_assembly::add_to_track(slice& s, std::uint32_t parent) {
  trace_event e;
  e.begin_ns = s.begin_ns;
  e.end_ns = s.end_ns;
  e.name = s.name;
  e.parent = parent;
  e.flags = s.flags & 0xffu;
  e.set_kind(s.kind);
  s.event = builder_.add_event(e);
  if (s.has_detail) builder_.detail(s.event) = s.detail;
  if (!s.args.empty()) builder_.set_arguments(s.event, s.args);
}

inline void trace_assembly::add_thread(line& l) {
  const auto by_time = [this](std::uint32_t a, std::uint32_t b) { return is_before(slices_[a], slices_[b]); };
  std::stable_sort(l.nested.begin(), l.nested.end(), by_time);
  l.index = builder_.add_track(l.track);
  std::vector<std::uint32_t> open;
  for (const std::uint32_t index : l.nested) {
    slice& s = slices_[index];
    while (!open.empty() && slices_[open.back()].end_ns <= s.begin_ns) open.pop_back();
    if (!open.empty() && s.end_ns > slices_[open.back()].end_ns) {
      s.flags |= trace_event::out_of_order;
      l.alone.push_back(index);
      continue;
    }
    add_to_track(s, open.empty() ? npos : slices_[open.back()].event);
    open.push_back(index);
  }
}

inline void trace_assembly::add_alone(line& l, const std::vector<std::uint32_t>& slices, track_kind kind) {
  if (slices.empty()) return;
  std::vector<std::uint32_t> sorted = slices;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return is_before(slices_[a], slices_[b]); });
  trace_track track = l.track;
  track.kind = kind;
  builder_.add_track(track);
  for (const std::uint32_t index : sorted) add_to_track(slices_[index], npos);
}

// The engine's wrapper of a node carries the node's link too; the node is the innermost one.
inline void trace_assembly::tell_wrappers_from_nodes() {
  constexpr std::string_view engine = "autograd::engine::evaluate_function: ";
  std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> last;
  std::uint32_t track = npos;
  std::vector<std::uint32_t> engine_names(1, npos);
  for (std::uint32_t i = 0; i < builder_.event_count(); ++i) {
    trace_event& e = builder_.event(i);
    if (e.detail == npos || e.kind() == scope_kind::user_annotation) continue;
    const event_detail& d = builder_.detail(i);
    if (d.sequence_number < 0 || d.forward_thread == 0) continue;
    if (track != e.track) last.clear();
    track = e.track;
    const auto [at, is_new] = last.emplace(std::make_pair(d.forward_thread, d.sequence_number), i);
    if (!is_new) {
      // In preorder, what began earlier and has not ended yet encloses.
      if (trace_event& outer = builder_.event(at->second); outer.end_ns >= e.end_ns && outer.end_ns > e.begin_ns)
        outer.set_kind(scope_kind::op);
      at->second = i;
    }
    if (builder_.text(e.name).substr(0, engine.size()) != engine) e.set_kind(scope_kind::backward_op);
  }
}

inline void trace_assembly::add_steps() {
  std::vector<trace_step> steps;
  for (std::uint32_t i = 0; i < builder_.event_count(); ++i) {
    const trace_event& e = builder_.event(i);
    if (!e.has(trace_event::step)) continue;
    const std::string number(builder_.text(e.name).substr(step_prefix.size()));
    steps.push_back(
        {std::strtoll(number.c_str(), nullptr, 10), e.begin_ns, e.end_ns, i, !e.has(trace_event::unfinished)});
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const trace_step& a, const trace_step& b) { return a.begin_ns < b.begin_ns; });
  for (const trace_step& step : steps) builder_.add_step(step);
  if (steps.empty()) return;
  builder_.info().first_step = steps.front().number;
  builder_.info().last_step = steps.back().number;
}

// For reports in order of time: the innermost event of their thread that they lie in, both ends included. On a border
// between two events it is the later one.
template <class Report>
void trace_assembly::find_innermost(const std::vector<Report>& reports, std::vector<std::uint32_t>& events) const {
  struct walk {
    std::uint32_t next = 0, end = 0, open = npos;
  };
  std::vector<walk> walks(lines_.size());
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const trace_track& track = builder_.track(lines_[i].index);
    walks[i].next = track.first_event;
    walks[i].end = track.first_event + track.event_count;
  }
  for (const Report& report : reports) {
    walk& w = walks[report.line];
    for (; w.next < w.end && builder_.event(w.next).begin_ns <= report.time_ns; ++w.next) w.open = w.next;
    while (w.open != npos && builder_.event(w.open).end_ns < report.time_ns) w.open = builder_.event(w.open).parent;
    events.push_back(w.open);
  }
}

inline void trace_assembly::add_memory() {
  std::stable_sort(memory_.begin(), memory_.end(),
                   [](const memory_report& a, const memory_report& b) { return a.time_ns < b.time_ns; });
  std::vector<std::uint32_t> events;
  find_innermost(memory_, events);
  std::map<std::pair<std::pair<std::int16_t, std::int16_t>, std::uint64_t>, std::uint32_t> live;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    memory_event m = memory_[i].event;
    m.event = events[i];
    m.track = lines_[memory_[i].line].index;
    const auto place = std::make_pair(std::make_pair(m.device_type, m.device_id), m.address);
    const auto known = live.find(place);
    if (m.bytes >= 0) {
      builder_.losses().lost_frees += known != live.end() ? 1 : 0;
      live[place] = builder_.add_memory(m);
    } else if (known != live.end()) {
      m.allocation = known->second;
      live.erase(known);
      builder_.add_memory(m);
    } else {
      builder_.add_unmatched_free({m.event, 1});
      ++builder_.losses().unmatched_frees;
    }
  }
  if (!memory_.empty()) builder_.info().has_memory = true;
}

inline void trace_assembly::add_marks() {
  std::stable_sort(marks_.begin(), marks_.end(),
                   [](const mark_report& a, const mark_report& b) { return a.time_ns < b.time_ns; });
  std::vector<std::uint32_t> events;
  find_innermost(marks_, events);
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    trace_mark mark = marks_[i].mark;
    mark.event = events[i];
    mark.track = lines_[marks_[i].line].index;
    builder_.add_mark(mark);
  }
}

inline std::uint32_t trace_assembly::innermost_at(const arrow_end& end) const {
  if (end.after != npos && slices_[end.after].event != npos) return slices_[end.after].event;
  const trace_track& track = builder_.track(lines_[end.line].index);
  std::uint32_t first = track.first_event, last = track.first_event + track.event_count;
  while (first < last) {  // the last event that begins no later
    const std::uint32_t middle = first + (last - first) / 2;
    if (builder_.event(middle).begin_ns <= end.time_ns)
      first = middle + 1;
    else
      last = middle;
  }
  std::uint32_t at = first == track.first_event ? npos : first - 1;
  const auto is_over = [&](const trace_event& e) {
    return e.end_ns < end.time_ns || (e.end_ns == end.time_ns && e.begin_ns != e.end_ns);
  };
  while (at != npos && is_over(builder_.event(at))) at = builder_.event(at).parent;
  return at;
}

inline void trace_assembly::add_arrows() {
  std::map<std::uint32_t, std::uint32_t> thread_of;  // kineto's number of a forward thread -> its id here
  for (const auto& [key, a] : arrows_) {
    const std::uint32_t from = a.starts.empty() ? npos : innermost_at(a.starts.front());
    for (const arrow_end& end : a.ends) {
      const std::uint32_t to = innermost_at(end);
      if (from == npos || to == npos) {
        ignore("arrows with an end outside every event");
        continue;
      }
      builder_.add_link({from, to, a.kind});
      if (a.kind != link_kind::forward_backward || builder_.event(to).detail == npos) continue;
      thread_of.emplace(builder_.detail(to).forward_thread, builder_.track(builder_.event(from).track).id);
    }
    if (a.ends.empty()) ignore("arrows without an end");
  }
  builder_.set_links_are_complete(true);
  // kineto counts forward threads in a way of its own; what the arrows tell about it makes the ids agree with ours.
  for (std::uint32_t i = 0; i < builder_.event_count(); ++i) {
    if (builder_.event(i).detail == npos) continue;
    event_detail& d = builder_.detail(i);
    const auto known = thread_of.find(d.forward_thread);
    if (d.forward_thread != 0 && known != thread_of.end()) d.forward_thread = known->second;
  }
}

inline void trace_assembly::add_facts() {
  trace_info& info = builder_.info();
  std::int64_t first = INT64_MAX, last = INT64_MIN;
  for (std::uint32_t i = 0; i < builder_.event_count(); ++i) {
    const trace_event& e = builder_.event(i);
    ++(e.has(trace_event::unfinished) ? builder_.losses().unfinished : builder_.losses().kept);
    first = (std::min)(first, e.begin_ns);
    last = (std::max)(last, e.end_ns);
  }
  if (!has_window_ && first <= last) {
    info.begin_ns = (std::min)(std::int64_t{0}, first);
    info.end_ns = last;
  }
  for (const auto& [what, count] : ignored_)
    builder_.add_note("not_read", "the file has " + what + " (" + std::to_string(count) + "), which were left out");
}

inline trace trace_assembly::finish(std::error_code& ec) {
  std::int64_t last = builder_.info().end_ns;
  for (const slice& s : slices_) last = (std::max)({last, s.begin_ns, s.end_ns});
  for (const auto& [key, open] : open_async_)
    for (const auto& [on, index] : open) {
      slices_[index].end_ns = last;
      slices_[index].flags |= trace_event::unfinished;
    }
  for (line& l : lines_) add_thread(l);
  for (line& l : lines_) add_alone(l, l.alone, track_kind::async);
  for (line& l : lines_) add_alone(l, l.device, track_kind::device);
  tell_wrappers_from_nodes();
  add_steps();
  add_memory();
  add_marks();
  add_arrows();
  add_facts();
  return builder_.finish(ec);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
