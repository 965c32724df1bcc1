// The events of a Chrome trace file sorted by what they are: slices, arrows, memory, marks, names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/tools/chrome_json.hpp>
#include <stepprof/tools/own_facts.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace_builder.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What is read from a trace file.
struct trace_reader_options {
  /// PyTorch's `python_function` events, one per Python call, as operations. Without them the rows are those of torch's
  /// own tables.
  bool python_functions = false;
};

namespace detail {

// A duration of the file.
struct file_slice {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t order = -1;  // Ev Idx; below 0: none
  std::int64_t parent_order = no_parent_told;
  std::uint32_t name = npos;
  std::uint32_t event = npos;  // its index in the trace, once it has one
  scope_kind kind = scope_kind::op;
  std::uint32_t flags = 0;
  bool has_detail = false;
  event_detail detail;
  std::vector<trace_argument> args;

  static constexpr std::int64_t no_parent_told = -2;  // -1: told that there is none
};

// What the file calls a thread.
struct file_line {
  trace_track track;
  std::int64_t pid = 0;
  std::vector<std::uint32_t> nested, alone, device;  // slices: of the thread, asynchronous, of a device
  std::uint32_t last_slice = npos;                   // the one read last, which an arrow may follow
  std::uint32_t index = npos;                        // of its thread track in the trace
  bool is_thread = false;                            // something of the file says that there is a thread
  bool is_numbered = false;                          // the number is the file's
};

// Something at one moment.
struct file_point {
  std::int64_t time_ns = 0;
  std::uint32_t line = 0;
  std::int64_t scope_order = -1;  // Ev Idx of the scope that it belongs to
};
struct file_arrow_end : file_point {
  std::uint32_t after = npos;  // the slice that stands before it in the file and begins at the same time
};
struct file_arrow {
  std::vector<file_arrow_end> starts, ends;
  link_kind kind = link_kind::custom;
};
struct file_memory : file_point {
  memory_event event;
  bool is_free = false;
};
struct file_mark : file_point {
  trace_mark mark;
};

// The sink of chrome_json_handler. Texts, processes and facts go straight into `builder`.
class trace_records {
 public:
  explicit trace_records(const trace_reader_options& options) : options_(options) {}

  std::string on_file_key(std::string key, file_value value);
  std::string on_event(chrome_event&& event);

  trace_builder builder;
  own_facts own;
  std::vector<file_slice> slices;
  std::vector<file_line> lines;
  std::vector<file_memory> memory;
  std::vector<file_mark> marks;
  std::vector<file_arrow> arrows;                                          // in the order in which they first appear
  std::unordered_map<std::string, std::vector<std::uint32_t>> open_async;  // slices
  std::map<std::string, std::uint64_t> ignored;
  std::vector<trace_metadata> metadata;
  std::string host;
  bool has_window = false;

  void ignore(const std::string& what) { ++ignored[what]; }

 private:
  static std::string fault(const chrome_event& e, const std::string& what) {
    std::string text = "traceEvents[" + std::to_string(e.index) + "]";
    if (!e.name.empty()) text += " ('" + e.name + "')";
    return text + ": " + what;
  }
  static std::string time(const chrome_event& e, const file_value& value, const char* field, std::int64_t& ns);
  // A mark that only our own writer makes.
  [[nodiscard]] bool is_true(const chrome_event& e, const char* key) const {
    const file_value* value = own.valid ? e.arg(key) : nullptr;
    return value != nullptr && value->boolean;
  }
  static std::int64_t integer_arg(const chrome_event& e, std::string_view key, std::int64_t otherwise);
  std::string read_slice(const chrome_event& e);
  std::string read_async(const chrome_event& e);
  std::string read_arrow_end(const chrome_event& e);
  std::string read_instant(const chrome_event& e);
  void read_memory(const chrome_event& e, std::int64_t time_ns);
  std::string read_counter(const chrome_event& e);
  std::string read_names(const chrome_event& e);
  std::string read_window(const chrome_event& e);
  void add_mark(const chrome_event& e, std::int64_t time_ns, std::string_view name, const file_value* value);
  file_slice new_slice(const chrome_event& e, std::int64_t begin_ns);
  bool read_known_arg(file_slice& s, const std::string& key, const file_value& value);
  bool read_own_arg(file_slice& s, const std::string& key, const file_value& value);
  trace_argument argument(std::string_view key, const file_value& value);
  std::uint32_t process_for(const chrome_event& e);
  std::uint32_t line_for(const chrome_event& e);

  trace_reader_options options_;
  std::unordered_map<std::string, std::uint32_t> line_of_, process_of_, arrow_of_;
  std::uint32_t invented_ids_ = 0;
};

// --------------------------------------------------------------------------------------------------------------------

inline std::string trace_records::on_file_key(std::string key, file_value value) {
  trace_info& info = builder.info();
  const bool is_on = value.integer_or(0) != 0 || value.boolean;
  if (key == "baseTimeNanoseconds") {
    info.base_time_ns = value.integer_or(0);
  } else if (key == "stepprof" && value.kind == file_value::type::json) {
    own = own_facts_reader::read(value.text);
    if (!own.valid) ignore("a key \"stepprof\" of another version");
  } else if (key == "trace_id") {
    info.trace_id = value.text;
  } else if (key == "host_name") {
    host = value.text;
  } else if (key == "record_shapes") {
    info.has_shapes = is_on;
  } else if (key == "profile_memory") {
    info.has_memory = is_on;
  } else if (key == "with_stack") {
    info.has_stacks = is_on;
  } else if (key == "with_flops") {
    info.has_flops = is_on;
  } else if (key != "schemaVersion" && key != "deviceProperties" && key != "displayTimeUnit" && key != "traceName") {
    metadata.push_back({std::move(key), text_of(value)});
  }
  return "";
}

inline std::string trace_records::on_event(chrome_event&& e) {
  if (e.ph.empty()) return fault(e, "has no ph (the kind of event)");
  const bool is_point = e.ph == "i" || e.ph == "I" || e.ph == "R";
  if (e.pid.kind == file_value::type::text && (e.cat == "Trace" || e.ph == "M" || is_point)) return read_window(e);
  if (e.ph == "X") return read_slice(e);
  if (e.ph == "b" || e.ph == "e") return read_async(e);
  if (e.ph == "s" || e.ph == "f") return read_arrow_end(e);
  if (is_point) return read_instant(e);
  if (e.ph == "C") return read_counter(e);
  if (e.ph == "M") return read_names(e);
  ignore("events of kind '" + e.ph + "'");
  return "";
}

inline std::string trace_records::time(const chrome_event& e, const file_value& value, const char* field,
                                       std::int64_t& ns) {
  if (!value.exists()) return fault(e, std::string(field) + " is missing, must be a time in microseconds");
  const bool is_number = value.is_integer() || value.kind == file_value::type::real;
  if ((is_number || value.kind == file_value::type::text) && parse_microseconds(value.text, ns)) return "";
  return fault(e, std::string(field) + " is " + text_of(value) + ", must be a number of microseconds, at most 4.6e15");
}

inline std::int64_t trace_records::integer_arg(const chrome_event& e, std::string_view key, std::int64_t otherwise) {
  const file_value* value = e.arg(key);
  return value == nullptr ? otherwise : value->integer_or(otherwise);
}

// kineto's own marks: when recording began and ended.
inline std::string trace_records::read_window(const chrome_event& e) {
  std::int64_t begin = 0, duration = 0;
  if (e.ph == "M" || (e.ph != "X" && e.name != "Record Window End")) return "";
  std::string text = time(e, e.ts, "ts", begin);
  if (e.ph == "X" && text.empty()) text = time(e, e.dur, "dur", duration);
  if (!text.empty()) return text;
  if (e.ph == "X") builder.info().begin_ns = begin;
  builder.info().end_ns = (std::max)(builder.info().end_ns, saturating_add(begin, duration));
  has_window = true;
  return "";
}

inline std::uint32_t trace_records::process_for(const chrome_event& e) {
  const auto [at, is_new] = process_of_.emplace(text_of(e.pid), static_cast<std::uint32_t>(process_of_.size()));
  if (!is_new) return at->second;
  trace_process process;
  const std::int64_t pid = e.pid.integer_or(0);
  const bool is_usable = pid >= 1 && pid <= INT32_MAX;
  process.pid = is_usable ? pid : 0x40000000 + ++invented_ids_;
  process.os_pid = is_usable ? 0 : pid;
  if (e.pid.kind == file_value::type::text) process.name = e.pid.text;
  builder.add_process(std::move(process));
  return at->second;
}

inline std::uint32_t trace_records::line_for(const chrome_event& e) {
  const auto [at, is_new] =
      line_of_.emplace(text_of(e.pid) + ' ' + text_of(e.tid), static_cast<std::uint32_t>(lines.size()));
  if (!is_new) return at->second;
  file_line l;
  l.track.process = process_for(e);
  l.pid = e.pid.integer_or(0);
  const std::int64_t tid = e.tid.integer_or(0);
  const bool is_usable = tid >= 1 && tid <= INT32_MAX;
  l.track.id = is_usable ? static_cast<std::uint32_t>(tid) : 0x40000000u + ++invented_ids_;
  l.is_numbered = is_usable;
  l.track.os_id = is_usable || tid < 0 ? 0 : static_cast<std::uint64_t>(tid);
  if (e.tid.kind == file_value::type::text) l.track.name = e.tid.text;
  lines.push_back(std::move(l));
  return at->second;
}

inline trace_argument trace_records::argument(std::string_view key, const file_value& value) {
  trace_argument a;
  a.key = builder.intern(key);
  switch (value.kind) {
    case file_value::type::boolean:
      a.kind = trace_argument::type::boolean;
      a.boolean = value.boolean;
      break;
    case file_value::type::int64:
      a.int64 = value.int64;
      break;
    case file_value::type::uint64:
      a.kind = trace_argument::type::uint64;
      a.uint64 = value.uint64;
      break;
    case file_value::type::real:
      a.kind = trace_argument::type::real;
      a.real = value.real;
      break;
    case file_value::type::text:
      a.kind = trace_argument::type::text;
      a.text = builder.intern(value.text);
      break;
    default:
      a.kind = trace_argument::type::json;
      a.text = builder.intern(text_of(value));
  }
  return a;
}

// What kineto has: false when the argument is not one of those that a trace has a field for.
inline bool trace_records::read_known_arg(file_slice& s, const std::string& key, const file_value& value) {
  static constexpr std::pair<std::string_view, std::uint32_t event_detail::*> lists[] = {
      {"Input Dims", &event_detail::input_dims},
      {"Input Strides", &event_detail::input_strides},
      {"Input type", &event_detail::input_types},
      {"Concrete Inputs", &event_detail::concrete_inputs}};
  for (const auto& [name, field] : lists) {
    if (key != name || value.kind != file_value::type::json) continue;
    s.detail.*field = builder.intern(value.text);
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
  if (key == "Call stack" && value.kind == file_value::type::text) {
    std::string_view frames = value.text;
    if (!frames.empty() && frames.back() == ';') frames.remove_suffix(1);
    s.detail.stack = builder.intern(frames);
    return s.has_detail = true;
  }
  if (key == "Ev Idx" && value.is_integer()) {
    s.order = value.integer_or(-1);
    return true;
  }
  if (key != "finished" || value.kind != file_value::type::boolean) return false;
  if (!value.boolean) s.flags |= trace_event::unfinished;
  return true;
}

inline std::uint32_t flag_named(const std::string& key) noexcept {
  if (key == "Other thread") return trace_event::other_thread;
  if (key == "Out of order") return trace_event::out_of_order;
  return key == "Async" ? trace_event::async : 0u;
}

// What only our own files have.
inline bool trace_records::read_own_arg(file_slice& s, const std::string& key, const file_value& value) {
  if (key == "External id" || key == "Record function id") return true;  // follow from Ev Idx
  const std::uint32_t flag = flag_named(key);
  if (flag != 0) {
    s.flags |= flag;
    return true;
  }
  if (key == "Parent Ev Idx") {
    s.parent_order = value.integer_or(file_slice::no_parent_told);
    return true;
  }
  if (key == "Moved ns") {
    s.begin_ns = saturating_add(s.begin_ns, value.integer_or(0));
    s.end_ns = saturating_add(s.end_ns, value.integer_or(0));
    return true;
  }
  const std::size_t colon = value.text.rfind(':');
  if (key != "Source" || value.kind != file_value::type::text || colon == std::string::npos) return false;
  s.detail.source_file = builder.intern(std::string_view(value.text).substr(0, colon));
  const std::uint64_t line = std::strtoull(value.text.c_str() + colon + 1, nullptr, 10);
  s.detail.source_line = saturating_cast<std::uint32_t>(line);
  return s.has_detail = true;
}

inline file_slice trace_records::new_slice(const chrome_event& e, std::int64_t begin_ns) {
  file_slice s;
  s.begin_ns = s.end_ns = begin_ns;
  s.name = builder.intern(e.name);
  if (e.cat == "user_annotation") s.kind = scope_kind::user_annotation;
  if (s.kind == scope_kind::user_annotation && is_step_name(e.name)) s.flags |= trace_event::step;
  for (const auto& [key, value] : e.args)
    if (!read_known_arg(s, key, value) && !(own.valid && read_own_arg(s, key, value)))
      s.args.push_back(argument(own.valid ? unprefixed_argument(key) : key, value));
  const bool is_known = e.cat.empty() || e.cat == "cpu_op" || e.cat == "user_annotation";
  if (!is_known) {
    file_value category;
    category.kind = file_value::type::text;
    category.text = e.cat;
    s.args.push_back(argument("cat", category));
  }
  return s;
}

inline std::string trace_records::read_slice(const chrome_event& e) {
  if (e.cat == "python_function" && !options_.python_functions) {
    ignore("python_function events");
    return "";
  }
  std::int64_t begin = 0, duration = 0;
  std::string text = time(e, e.ts, "ts", begin);
  if (text.empty()) text = time(e, e.dur, "dur", duration);
  if (text.empty() && duration < 0) text = fault(e, "dur is " + e.dur.text + ", must not be negative");
  if (!text.empty()) return text;
  file_slice s = new_slice(e, begin);
  s.end_ns = saturating_add(s.end_ns, duration);
  const auto index = static_cast<std::uint32_t>(slices.size());
  file_line& l = lines[line_for(e)];
  const bool is_device = e.cat == "kernel" || e.cat == "concurrent_kernel" || e.cat == "gpu_memcpy" ||
                         e.cat == "gpu_memset" || e.cat == "gpu_user_annotation";
  (is_device ? l.device : l.nested).push_back(index);
  l.last_slice = index;
  slices.push_back(std::move(s));
  return "";
}

inline std::string trace_records::read_async(const chrome_event& e) {
  std::int64_t at = 0;
  std::string text = time(e, e.ts, "ts", at);
  if (!text.empty()) return text;
  std::vector<std::uint32_t>& open = open_async[text_of(e.pid) + ' ' + e.cat + ' ' + text_of(e.id)];
  if (e.ph == "b") {
    open.push_back(static_cast<std::uint32_t>(slices.size()));
    lines[line_for(e)].alone.push_back(open.back());
    slices.push_back(new_slice(e, at));
  } else if (open.empty()) {
    ignore("ends of asynchronous events without a begin");
  } else {
    slices[open.back()].end_ns = (std::max)(at, slices[open.back()].begin_ns);
    open.pop_back();
  }
  return "";
}

inline std::string trace_records::read_arrow_end(const chrome_event& e) {
  file_arrow_end end;
  std::string text = time(e, e.ts, "ts", end.time_ns);
  if (text.empty() && !e.id.exists()) text = fault(e, "id is missing, so the arrow has no other end");
  if (!text.empty()) return text;
  end.line = line_for(e);
  // kineto writes an arrow's end behind the slice that it belongs to; its time alone would name a child that begins
  // in the same ns. In our own files the time alone is right.
  const std::uint32_t last = lines[end.line].last_slice;
  if (!own.valid && last != npos && slices[last].begin_ns == end.time_ns) end.after = last;
  const auto [at, is_new] =
      arrow_of_.emplace(e.cat + ' ' + e.name + ' ' + text_of(e.id), static_cast<std::uint32_t>(arrows.size()));
  if (is_new) arrows.emplace_back();
  file_arrow& a = arrows[at->second];
  if (e.cat == "fwdbwd") a.kind = link_kind::forward_backward;
  (e.ph == "s" ? a.starts : a.ends).push_back(end);
  return "";
}

inline void trace_records::add_mark(const chrome_event& e, std::int64_t time_ns, std::string_view name,
                                    const file_value* value) {
  file_mark mark;
  mark.time_ns = time_ns;
  mark.line = line_for(e);
  mark.scope_order = integer_arg(e, "Scope Ev Idx", -1);
  mark.mark.name = builder.intern(name);
  if (value != nullptr) {
    mark.mark.kind = trace_mark::type::counter;
    // JSON has no word for what is not finite; it is written as a text.
    if (value->is_integer() || value->kind == file_value::type::real)
      mark.mark.value = value->as_double();
    else
      mark.mark.value = value->text == "Infinity"    ? std::numeric_limits<double>::infinity()
                        : value->text == "-Infinity" ? -std::numeric_limits<double>::infinity()
                                                     : std::numeric_limits<double>::quiet_NaN();
  }
  marks.push_back(mark);
}

inline std::string trace_records::read_instant(const chrome_event& e) {
  std::int64_t at = 0;
  std::string text = time(e, e.ts, "ts", at);
  if (!text.empty()) return text;
  const file_value* bytes = e.arg("Bytes");
  if (e.name == "[memory]" && bytes != nullptr && bytes->is_integer())
    read_memory(e, at);
  else
    add_mark(e, at, e.name, e.cat == "counter" ? e.arg("value") : nullptr);
  return "";
}

inline void trace_records::read_memory(const chrome_event& e, std::int64_t time_ns) {
  file_memory report;
  report.time_ns = time_ns;
  report.line = line_for(e);
  report.scope_order = integer_arg(e, "Scope Ev Idx", -1);
  lines[report.line].is_thread = true;
  memory_event& m = report.event;
  if (const file_value* address = e.arg("Addr"))  // beyond int64 it is written as a text
    m.address = address->kind == file_value::type::text ? std::strtoull(address->text.c_str(), nullptr, 10)
                                                        : address->unsigned_or(0);
  m.bytes = integer_arg(e, "Bytes", 0);
  report.is_free = m.bytes < 0 || is_true(e, "Free");
  m.total_allocated = integer_arg(e, "Total Allocated", 0);
  m.device_type = saturating_cast<std::int16_t>(integer_arg(e, "Device Type", 0));  // no other type becomes the CPU
  m.device_id = saturating_cast<std::int16_t>(integer_arg(e, "Device Id", -1));
  m.flags = static_cast<std::uint8_t>((is_true(e, "Nested") ? memory_event::nested : 0) |
                                      (is_true(e, "Lost") ? memory_event::lost : 0) |
                                      (is_true(e, "Late") ? memory_event::late : 0));
  if (const file_value* pool = e.arg("Pool")) m.pool = builder.intern(pool->text);
  memory.push_back(report);
}

inline std::string trace_records::read_counter(const chrome_event& e) {
  std::int64_t at = 0;
  std::string text = time(e, e.ts, "ts", at);
  if (!text.empty()) return text;
  if (own.valid && e.cat == "memory") return "";  // made from the memory events, and so again
  for (const auto& [key, value] : e.args) add_mark(e, at, e.args.size() == 1 ? e.name : e.name + ' ' + key, &value);
  return "";
}

inline std::string trace_records::read_names(const chrome_event& e) {
  const file_value* name = e.arg("name");
  const file_value* sort_index = e.arg("sort_index");
  const file_value* labels = e.arg("labels");
  if (e.name == "thread_name" || e.name == "thread_sort_index") {
    file_line& l = lines[line_for(e)];
    l.is_thread = true;
    if (name != nullptr) l.track.name = name->text;
    if (sort_index != nullptr) l.track.sort_index = sort_index->integer_or(0);
    return "";
  }
  trace_process& process = builder.process(process_for(e));
  if (e.name == "process_name" && name != nullptr) process.name = name->text;
  if (e.name == "process_labels" && labels != nullptr) process.labels = labels->text;
  if (e.name == "process_sort_index" && sort_index != nullptr) process.sort_index = sort_index->integer_or(0);
  return "";
}

}  // namespace detail

STEPPROF_END_NAMESPACE
