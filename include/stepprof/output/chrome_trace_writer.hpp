// Writes the events of a Chrome trace. What is in the file is described in chrome_trace.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <stepprof/analysis/trace_selection.hpp>
#include <stepprof/config.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/chrome_layout.hpp>
#include <stepprof/output/chrome_trace_head.hpp>
#include <stepprof/output/chrome_trace_scopes.hpp>
#include <stepprof/output/file_handle.hpp>
#include <stepprof/output/json_writer.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What export_chrome_trace() writes beside the events.
struct chrome_trace_options {
  /// A counter of live bytes, one value per memory event.
  bool live_bytes_counter = true;
  /// The file's key "traceName"; empty: the path.
  std::string trace_name = {};
  /// What is written of the recording: not its short scopes, only some kinds or some time.
  trace_selection selection = {};
  /// The most bytes of JSON in a file; 0: no limit. A larger recording becomes several files, `trace.part1.json`,
  /// `trace.part2.json` ..., each complete: it holds what begins in a part of the time and the scopes around it.
  /// Arrows between parts are left out and counted. Only where a path is given.
  std::uint64_t max_file_bytes = 0;
  /// How a file is made, where a path is given.
  output_file_options file = {};
};

/// What export_chrome_trace() has written.
struct chrome_trace_result {
  std::uint64_t events = 0;              ///< Elements of "traceEvents".
  std::uint64_t flows = 0;               ///< Arrows: pairs of s and f.
  std::uint64_t flows_left_out = 0;      ///< Arrows that at no ns would be tied to the right scopes in every viewer.
  std::uint64_t deep_scopes = 0;         ///< Written, but nested deeper than Perfetto shows (512).
  std::uint64_t bytes = 0;               ///< Of JSON, before any compression.
  std::uint64_t largest_file_bytes = 0;  ///< The same of the largest file, where there are several.
  std::vector<std::filesystem::path> files = {};  ///< That were written, where a path was given.
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

class chrome_trace_writer {
 public:
  chrome_trace_writer(const trace& recording, const std::vector<trace_link>& links, const chrome_trace_options& options,
                      byte_sink& sink)
      : trace_(recording),
        options_(options),
        layout_(chrome_layout_maker(recording, links).run()),
        ids_(recording),
        window_(recording),
        out_(sink),
        list_(out_),
        scopes_(recording, layout_, ids_, window_, out_, list_) {}

  chrome_trace_result run() {
    chrome_trace_head(trace_, ids_, window_, layout_).write(out_);
    out_.key("traceEvents");
    out_.begin_array();
    write_names();
    for (std::uint32_t i = 0; i < trace_.tracks().size(); ++i) scopes_.write_track(i);
    write_arrows();
    write_memory();
    write_marks();
    write_window();
    out_.append("\n");
    out_.end_array();
    out_.key("traceName");
    out_.raw(without_brackets(options_.trace_name));
    out_.end_object();
    out_.flush();
    result_.events = list_.count();
    result_.flows = layout_.arrows.size();
    result_.flows_left_out = layout_.arrows_left_out;
    result_.deep_scopes = layout_.too_deep;
    return result_;
  }

 private:
  static constexpr std::size_t event_room = json_event_list::event_room;

  // An escaped string in which no bracket of any kind stands.
  static std::string without_brackets(std::string_view text) {
    std::string escaped;
    append_json_string(escaped, text);
    std::string result;
    for (const char c : escaped) {
      switch (c) {
        case '[':
          result += "\\u005B";
          break;
        case ']':
          result += "\\u005D";
          break;
        case '{':
          result += "\\u007B";
          break;
        case '}':
          result += "\\u007D";
          break;
        default:
          result += c;
      }
    }
    return result;
  }

  [[nodiscard]] char* begin_event() { return list_.begin(); }
  void put_text(std::string_view text) { out_.append(text); }

  // --- names -------------------------------------------------------------------------------------------------------

  void write_names() {
    const std::vector<trace_process>& processes = trace_.processes();
    for (std::uint32_t i = 0; i < processes.size(); ++i) {
      const trace_process& p = processes[i];
      // An empty name is an error in Perfetto.
      if (!p.name.empty()) write_text_metadata("process_name", ids_.pid(i), 0, "name", p.name);
      write_text_metadata("process_labels", ids_.pid(i), 0, "labels", p.labels.empty() ? "CPU" : p.labels);
      const std::int64_t by_rank = p.rank >= 0 ? p.rank : ids_.pid(i);
      write_index_metadata("process_sort_index", ids_.pid(i), 0, p.sort_index != 0 ? p.sort_index : by_rank);
    }
    for (std::uint32_t i = 0; i < trace_.tracks().size(); ++i) {
      const trace_track& track = trace_.tracks()[i];
      if (track.kind != track_kind::thread) continue;
      const std::int64_t tid = ids_.tid(i);
      write_text_metadata("thread_name", ids_.pid_of_track(i), tid, "name",
                          track.name.empty() ? "thread " + std::to_string(tid) : track.name);
      write_index_metadata("thread_sort_index", ids_.pid_of_track(i), tid,
                           track.sort_index != 0 ? track.sort_index : tid);
    }
  }
  // tid 0: of the process.
  void begin_metadata(std::string_view name, std::int64_t pid, std::int64_t tid, std::string_view key) {
    char* at = put(begin_event(), "{\"ph\":\"M\",\"name\":\"");
    at = put(put(at, name), "\",\"ts\":0.000,\"pid\":");
    at = write_integer(at, pid);
    if (tid != 0) at = write_integer(put(at, ",\"tid\":"), tid);
    at = put(put(at, ",\"args\":{\""), key);
    out_.advance(put(at, "\":"));
  }
  void write_text_metadata(std::string_view name, std::int64_t pid, std::int64_t tid, std::string_view key,
                           std::string_view value) {
    begin_metadata(name, pid, tid, key);
    out_.expect_comma(false);
    out_.string(value);
    out_.append("}}");
  }
  void write_index_metadata(std::string_view name, std::int64_t pid, std::int64_t tid, std::int64_t value) {
    begin_metadata(name, pid, tid, "sort_index");
    out_.expect_comma(false);
    out_.integer(value);
    out_.append("}}");
  }

  // --- pieces ------------------------------------------------------------------------------------------------------

  void put_string(std::string_view key, std::string_view value) {
    out_.append(key);
    out_.expect_comma(false);
    out_.string(value);
  }
  [[nodiscard]] std::int64_t ev_idx_of(std::uint32_t event) const noexcept { return window_.ev_idx(trace_, event); }

  // --- arrows ------------------------------------------------------------------------------------------------------

  // All after the slices and before the instants: at equal times viewers go by the order in the file, and an arrow must
  // find its slices open and no instant in its way.
  void write_arrows() {
    std::uint64_t counter = 0;
    for (const drawn_arrow& arrow : layout_.arrows) {
      const std::uint32_t from_track = trace_.events()[arrow.link.from].track;
      const std::int64_t id = unique_id(ids_.pid_of_track(from_track), ++counter);
      write_arrow_end("s", arrow.link, id, from_track, arrow.from_ns);
      write_arrow_end("f", arrow.link, id, trace_.events()[arrow.link.to].track, arrow.to_ns);
    }
  }
  void write_arrow_end(std::string_view phase, const trace_link& link, std::int64_t id, std::uint32_t track,
                       std::int64_t time_ns) {
    char* at = write_integer(put(put(put(begin_event(), "{\"ph\":\""), phase), "\",\"id\":"), id);
    at = write_integer(put(at, ",\"pid\":"), ids_.pid_of_track(track));
    at = write_integer(put(at, ",\"tid\":"), ids_.tid(track));
    at = write_time_us(put(at, ",\"ts\":"), window_.ts(time_ns));
    at = put(at, link.kind == link_kind::forward_backward ? ",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\""
                                                          : ",\"cat\":\"link\",\"name\":\"link\"");
    out_.advance(put(at, phase == "f" ? ",\"bp\":\"e\"}" : "}"));
  }

  // --- memory and marks --------------------------------------------------------------------------------------------

  // pid and tid of a point in time, which may name a track that cannot be drawn on.
  char* put_place(char* at, std::uint32_t track) noexcept {
    const bool on_thread = track < trace_.tracks().size() && trace_.tracks()[track].kind == track_kind::thread;
    at = put(at, on_thread ? ",\"s\":\"t\",\"pid\":" : ",\"s\":\"p\",\"pid\":");
    at = write_integer(at, ids_.pid_of_track(track));
    if (on_thread) at = write_integer(put(at, ",\"tid\":"), ids_.tid(track));
    return at;
  }

  void write_memory() {
    std::uint64_t ev_idx = trace_.info().first_event_index + trace_.events().size();
    for (const memory_event& m : trace_.memory()) {
      char* at = put(begin_event(), "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\"");
      at = write_time_us(put(put_place(at, m.track), ",\"ts\":"), window_.ts(m.time_ns));
      at = write_integer(put(at, ",\"args\":{\"Total Reserved\":0,\"Total Allocated\":"), m.total_allocated);
      at = write_integer(put(at, ",\"Bytes\":"), m.bytes);
      at = write_integer(put(at, ",\"Device Id\":"), m.device_id);
      at = write_integer(put(at, ",\"Device Type\":"), m.device_type);
      at = put(at, ",\"Addr\":");
      const bool is_text = m.address > INT64_MAX;
      if (is_text) *at++ = '"';
      at = write_digits(at, m.address);
      if (is_text) *at++ = '"';
      at = write_digits(put(at, ",\"Ev Idx\":"), ev_idx++);
      if (m.event != npos) at = write_integer(put(at, ",\"Scope Ev Idx\":"), ev_idx_of(m.event));
      if (m.bytes == 0 && m.is_free()) at = put(at, ",\"Free\":true");
      if (m.has(memory_event::nested)) at = put(at, ",\"Nested\":true");
      if (m.has(memory_event::lost)) at = put(at, ",\"Lost\":true");
      if (m.has(memory_event::late)) at = put(at, ",\"Late\":true");
      out_.advance(at);
      if (m.pool != npos) put_string(",\"Pool\":", trace_.text(m.pool));
      put_text("}}");
      if (options_.live_bytes_counter) write_live_bytes(m);
    }
  }
  // Of the device and, for a named pool, of the pool.
  void write_live_bytes(const memory_event& m) {
    if (!m.has(memory_event::nested)) {
      out_.advance(put(begin_event(), "{\"ph\":\"C\",\"cat\":\"memory\",\"name\":\"Live bytes"));
      out_.advance(put_device(out_.room(event_room), m));
      put_live_bytes(m, m.total_allocated);
    }
    if (m.pool == npos || (m.is_free() && m.allocation == npos)) return;
    std::int64_t& live = live_in_pool_[{m.pool, m.device_type, m.device_id}];
    live = saturating_add(live, m.bytes);
    out_.advance(put(begin_event(), "{\"ph\":\"C\",\"cat\":\"memory\",\"name\":\"Live bytes"));
    out_.advance(put_device(out_.room(event_room), m));
    put_text(" in ");
    escape_json(trace_.text(m.pool), [this](const char* text, std::size_t size) { put_text({text, size}); });
    put_live_bytes(m, live);
  }
  static char* put_device(char* at, const memory_event& m) noexcept {
    if (m.device_type == 0) return at;
    *at++ = ' ';
    at = write_integer(at, m.device_type);
    *at++ = ':';
    return write_integer(at, m.device_id);
  }
  void put_live_bytes(const memory_event& m, std::int64_t bytes) {
    char* at = write_integer(put(out_.room(event_room), "\",\"pid\":"), ids_.pid_of_track(m.track));
    at = write_time_us(put(at, ",\"ts\":"), window_.ts(m.time_ns));
    at = put(at, m.device_type == 0 ? ",\"args\":{\"CPU\":" : ",\"args\":{\"device\":");
    out_.advance(put(write_integer(at, bytes), "}}"));
  }

  void write_marks() {
    for (const trace_mark& m : trace_.marks()) {
      if (m.kind == trace_mark::type::instant)
        write_instant(m);
      else
        write_counter(m);
    }
  }
  void write_instant(const trace_mark& m) {
    out_.advance(put(begin_event(), "{\"ph\":\"i\",\"cat\":\"mark\""));
    put_string(",\"name\":", trace_.text(m.name));
    char* at = write_time_us(put(put_place(out_.room(event_room), m.track), ",\"ts\":"), window_.ts(m.time_ns));
    if (m.event != npos) at = put(write_integer(put(at, ",\"args\":{\"Scope Ev Idx\":"), ev_idx_of(m.event)), "}");
    out_.advance(put(at, "}"));
  }
  // A counter takes numbers only; what is none is shown as an instant of the process, where it hides no arrow.
  void write_counter(const trace_mark& m) {
    const bool number = std::isfinite(m.value);
    out_.advance(
        put(begin_event(), number ? "{\"ph\":\"C\",\"cat\":\"counter\"" : "{\"ph\":\"i\",\"cat\":\"counter\""));
    put_string(",\"name\":", trace_.text(m.name));
    char* at = put(out_.room(event_room), number ? ",\"pid\":" : ",\"s\":\"p\",\"pid\":");
    at = write_time_us(put(write_integer(at, ids_.pid_of_track(m.track)), ",\"ts\":"), window_.ts(m.time_ns));
    out_.advance(put(write_real(put(at, ",\"args\":{\"value\":"), m.value), "}}"));
  }

  // --- the window --------------------------------------------------------------------------------------------------

  void write_window() {
    char* at = put(begin_event(),
                   "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\",\"pid\":\"Spans\","
                   "\"tid\":\"PyTorch Profiler\",\"ts\":");
    at = write_time_us(at, window_.ts(window_.begin_ns()));
    at = write_time_us(put(at, ",\"dur\":"), window_.ts(window_.end_ns()) - window_.ts(window_.begin_ns()));
    at = write_digits(put(at, ",\"args\":{\"Op count\":"), trace_.events().size());
    out_.advance(put(at, "}}"));
    out_.advance(put(begin_event(),
                     "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"ts\":0.000,\"pid\":\"Spans\","
                     "\"args\":{\"sort_index\":536870912}}"));
    at = put(begin_event(),
             "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Iteration Start: PyTorch Profiler\",\"pid\":\"Traces\","
             "\"tid\":\"Trace PyTorch Profiler\",\"ts\":");
    out_.advance(put(write_time_us(at, window_.ts(window_.begin_ns())), "}"));
    at = put(begin_event(),
             "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\",\"pid\":\"\",\"tid\":\"\",\"ts\":");
    out_.advance(put(write_time_us(at, window_.ts(window_.end_ns())), "}"));
  }

  const trace& trace_;
  const chrome_trace_options& options_;
  const chrome_layout layout_;
  const shown_ids ids_;
  const shown_window window_;
  json_writer out_;
  json_event_list list_;
  chrome_trace_scopes scopes_;
  chrome_trace_result result_;
  std::map<std::tuple<std::uint32_t, std::int16_t, std::int16_t>, std::int64_t> live_in_pool_;  // name, device
};

}  // namespace detail
STEPPROF_END_NAMESPACE
