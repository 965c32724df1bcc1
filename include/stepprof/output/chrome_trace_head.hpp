// What stands in a Chrome trace before its events: ids, the window, metadata, and the object `stepprof`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stepprof/config.hpp>
#include <stepprof/output/chrome_layout.hpp>
#include <stepprof/output/chrome_trace_texts.hpp>
#include <stepprof/output/json_writer.hpp>
#include <stepprof/trace/loss_fields.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// Numbers in [1, 2^31 - 1], unique within a group: the wished one where that is possible, else the lowest free one.
class unique_numbers {
 public:
  explicit unique_numbers(std::size_t count) : wishes_(count), numbers_(count) {}

  void wish(std::size_t index, std::uint64_t group, std::int64_t number) { wishes_[index] = {group, number}; }
  std::vector<std::int64_t> assign() {
    std::vector<std::size_t> late;
    for (std::size_t i = 0; i < wishes_.size(); ++i) {
      const std::int64_t number = wishes_[i].second;
      const bool possible = number >= 1 && number <= (std::numeric_limits<std::int32_t>::max)();
      if (possible && taken_.insert(wishes_[i]).second)
        numbers_[i] = number;
      else
        late.push_back(i);
    }
    for (const std::size_t i : late) {
      std::int64_t& next = next_[wishes_[i].first];
      do ++next;
      while (!taken_.insert({wishes_[i].first, next}).second);
      numbers_[i] = next;
    }
    return numbers_;
  }

 private:
  std::vector<std::pair<std::uint64_t, std::int64_t>> wishes_;
  std::vector<std::int64_t> numbers_;
  std::set<std::pair<std::uint64_t, std::int64_t>> taken_;
  std::map<std::uint64_t, std::int64_t> next_;
};

// pid and tid as they are shown. Perfetto turns what does not fit into 0 and 0 into the pid, so that threads merge.
class shown_ids {
 public:
  explicit shown_ids(const trace& recording) : trace_(recording) {
    const std::vector<trace_process>& processes = recording.processes();
    unique_numbers pids(processes.size());
    for (std::size_t i = 0; i < processes.size(); ++i) pids.wish(i, 0, processes[i].pid);
    pids_ = pids.assign();
    const std::vector<trace_track>& tracks = recording.tracks();
    unique_numbers tids(tracks.size());
    // An async track may have the id of a thread: it is told apart by the kind of its events.
    for (std::size_t i = 0; i < tracks.size(); ++i)
      tids.wish(i, std::uint64_t{tracks[i].process} * 4 + static_cast<std::uint64_t>(tracks[i].kind), tracks[i].id);
    tids_ = tids.assign();
    for (std::size_t i = 0; i < tracks.size(); ++i)
      if (tracks[i].kind == track_kind::thread && tids_[i] != tracks[i].id)
        replaced_[{tracks[i].process, tracks[i].id}] = tids_[i];
  }

  [[nodiscard]] std::int64_t pid(std::size_t process) const noexcept {
    return process < pids_.size() ? pids_[process] : pids_.empty() ? 1 : pids_[0];
  }
  [[nodiscard]] std::int64_t tid(std::size_t track) const noexcept { return tids_[track]; }
  [[nodiscard]] std::int64_t pid_of_track(std::size_t track) const noexcept {
    return pid(track < tids_.size() ? trace_.tracks()[track].process : 0);
  }
  // The tid that stands for a thread id of the trace.
  [[nodiscard]] std::int64_t shown_thread(std::uint32_t process, std::uint32_t id) const {
    const auto replaced = replaced_.find({process, id});
    return id == 0 || replaced == replaced_.end() ? id : replaced->second;
  }

 private:
  const trace& trace_;
  std::vector<std::int64_t> pids_;
  std::vector<std::int64_t> tids_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> replaced_;
};

// The window and the zero of `ts`.
class shown_window {
 public:
  explicit shown_window(const trace& recording)
      : begin_ns_(recording.info().begin_ns),
        end_ns_((std::max)(begin_ns_, recording.info().end_ns)),
        zero_ns_(begin_ns_) {
    for (const trace_event& e : recording.events()) include(e.begin_ns, e.end_ns);
    for (const memory_event& m : recording.memory()) include(m.time_ns, m.time_ns);
    for (const trace_mark& m : recording.marks()) include(m.time_ns, m.time_ns);
  }
  [[nodiscard]] std::int64_t begin_ns() const noexcept { return begin_ns_; }
  [[nodiscard]] std::int64_t end_ns() const noexcept { return end_ns_; }
  [[nodiscard]] std::int64_t zero_ns() const noexcept { return zero_ns_; }
  // Since zero; never negative.
  [[nodiscard]] std::int64_t ts(std::int64_t time_ns) const noexcept {
    const std::uint64_t ns = static_cast<std::uint64_t>(time_ns) - static_cast<std::uint64_t>(zero_ns_);
    return static_cast<std::int64_t>((std::min)(ns, std::uint64_t{INT64_MAX}));
  }
  // Beyond 2^42 us viewers, which read times as doubles, lose ns.
  [[nodiscard]] bool too_long() const noexcept { return ts(end_ns_) >= (std::int64_t{1} << 42) * 1000; }
  [[nodiscard]] static std::int64_t ev_idx(const trace& recording, std::uint32_t event) noexcept {
    return event == npos ? -1 : static_cast<std::int64_t>(recording.info().first_event_index + event);
  }

 private:
  void include(std::int64_t begin_ns, std::int64_t end_ns) noexcept {
    zero_ns_ = (std::min)(zero_ns_, begin_ns);
    end_ns_ = (std::max)(end_ns_, end_ns);
  }
  std::int64_t begin_ns_;
  std::int64_t end_ns_;
  std::int64_t zero_ns_;
};

class chrome_trace_head {
 public:
  chrome_trace_head(const trace& recording, const shown_ids& ids, const shown_window& window,
                    const chrome_layout& layout)
      : trace_(recording), info_(recording.info()), ids_(ids), window_(window), layout_(layout) {}

  // Opens the object and writes all keys that come before the events.
  void write(json_writer& out) const {
    out.begin_object();
    out.key("schemaVersion");
    out.integer(1);
    out.key("deviceProperties");
    out.raw("[]");
    write_metadata(out);
    out.key("stepprof");
    write_stepprof(out);
    out.key("displayTimeUnit");
    out.string("ns");
    out.key("baseTimeNanoseconds");
    out.integer(static_cast<std::int64_t>(static_cast<std::uint64_t>(info_.base_time_ns) +
                                          static_cast<std::uint64_t>(window_.zero_ns())));
  }

  // Keys that have a meaning in the file, in kineto or in a viewer.
  static bool is_reserved_key(std::string_view key) noexcept {
    static constexpr std::string_view reserved[] = {"",
                                                    "schemaVersion",
                                                    "deviceProperties",
                                                    "stepprof",
                                                    "displayTimeUnit",
                                                    "baseTimeNanoseconds",
                                                    "traceEvents",
                                                    "traceName",
                                                    "systemTraceEvents",
                                                    "stackFrames",
                                                    "samples",
                                                    "traceAnnotations",
                                                    "controllerTraceDataKey",
                                                    "powerTraceAsString",
                                                    "metadata"};
    return std::find(std::begin(reserved), std::end(reserved), key) != std::end(reserved);
  }

 private:
  using pair = std::pair<std::string, std::string>;  // `"key":` and value, as written

  void write_metadata(json_writer& out) const {
    std::vector<pair> pairs = known_metadata();
    for (const trace_metadata& m : trace_.metadata()) {
      std::string key;
      append_json_string(key, is_reserved_key(m.key) ? "user." + m.key : m.key);
      pairs.emplace_back(key, valid_json(m.json));
    }
    // Compared as written: two keys may differ only in bytes that are replaced.
    std::set<std::string_view> seen;
    std::vector<bool> last(pairs.size());
    for (std::size_t i = pairs.size(); i-- > 0;) last[i] = seen.insert(pairs[i].first).second;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!last[i]) continue;
      out.raw(pairs[i].first);
      out.append(":");
      out.expect_comma(false);
      out.raw(pairs[i].second);
    }
  }
  [[nodiscard]] std::vector<pair> known_metadata() const {
    std::vector<pair> pairs;
    const auto add = [&pairs](std::string_view key, const std::string& value) {
      pairs.emplace_back("\"" + std::string(key) + "\"", value);
    };
    const auto text = [](std::string_view value) {
      std::string result;
      append_json_string(result, value);
      return result;
    };
    const std::vector<trace_process>& processes = trace_.processes();
    if (!info_.trace_id.empty()) add("trace_id", text(info_.trace_id));
    if (!processes.empty() && !processes[0].host.empty()) add("host_name", text(processes[0].host));
    if (info_.has_memory) add("profile_memory", "1");
    if (info_.has_shapes) add("record_shapes", "1");
    if (info_.has_stacks) add("with_stack", "1");
    if (info_.has_flops) add("with_flops", "1");
    if (processes.size() == 1 && processes[0].rank >= 0)
      add("distributedInfo", "{\"rank\":" + std::to_string(processes[0].rank) + "}");
    return pairs;
  }

  void write_stepprof(json_writer& out) const {
    out.begin_object();
    write_info(out);
    write_losses(out);
    write_notes(out);
    write_steps(out);
    write_pauses(out);
    write_unmatched_frees(out);
    write_processes(out);
    write_tracks(out);
    out.key("flows");
    out.begin_object();
    out.field("written", static_cast<std::int64_t>(layout_.arrows.size()));
    out.field("left_out", static_cast<std::int64_t>(layout_.arrows_left_out));
    out.end_object();
    out.end_object();
  }

  void write_info(json_writer& out) const {
    out.field("schema", 1);
    out.field("version", STEPPROF_VERSION_TEXT);
    out.field("begin_ns", info_.begin_ns);
    out.field("end_ns", info_.end_ns);
    out.field("zero_ns", window_.zero_ns());
    out.field("base_time_ns", info_.base_time_ns);
    out.field("base_time_error_ns", info_.base_time_error_ns);
    out.field("wall_shift_ns", info_.wall_shift_ns);
    out.field("cycle", info_.cycle);
    out.field("first_step", info_.first_step);
    out.field("last_step", info_.last_step);
    out.boolean_field("partial", info_.partial);
    out.unsigned_field("first_event_index", info_.first_event_index);
    out.field("clock", info_.clock);
    out.key("scope_cost_ns");
    out.real(info_.scope_cost_ns);
    out.key("scope_cost_inside_ns");
    out.real(info_.scope_cost_inside_ns);
    out.unsigned_field("profiler_bytes", info_.profiler_bytes);
  }
  void write_losses(json_writer& out) const {
    out.key("losses");
    out.begin_object();
    for (const auto& [key, field] : loss_fields) out.unsigned_field(key, trace_.losses().*field);
    out.end_object();
  }

  // The notes of the recording, then those on the file itself; one of a former export does not come twice.
  void write_notes(json_writer& out) const {
    std::vector<trace_note> notes = trace_.notes();
    notes.erase(std::remove_if(notes.begin(), notes.end(),
                               [](const trace_note& n) {
                                 return n.code == "deep_scopes" || n.code == "flows_left_out" ||
                                        n.code == "unplotted_values" || n.code == "long_window";
                               }),
                notes.end());
    const auto add = [&notes](bool condition, const char* code, const std::string& text) {
      if (condition) notes.push_back({code, text});
    };
    const auto unplotted = std::count_if(trace_.marks().begin(), trace_.marks().end(), [](const trace_mark& m) {
      return m.kind == trace_mark::type::counter && !std::isfinite(m.value);
    });
    add(layout_.too_deep != 0, "deep_scopes",
        std::to_string(layout_.too_deep) + " scopes are nested deeper than 512 levels; Perfetto does not show them");
    add(layout_.arrows_left_out != 0, "flows_left_out",
        std::to_string(layout_.arrows_left_out) +
            " arrows are not in the file: at no time would viewers tie them to the right scopes");
    add(unplotted != 0, "unplotted_values",
        std::to_string(unplotted) + " values of counters are not numbers; they are written as instants");
    add(window_.too_long(), "long_window", "the window is longer than 50 days; viewers round the times beyond that");
    out.key("notes");
    out.begin_array();
    for (const trace_note& note : notes) {
      out.begin_object();
      out.field("code", note.code);
      out.field("text", note.text);
      out.end_object();
    }
    out.end_array();
  }

  void write_steps(json_writer& out) const {
    out.key("steps");
    out.begin_array();
    for (const trace_step& step : trace_.steps()) {
      out.begin_object();
      out.field("number", step.number);
      out.field("begin_ns", step.begin_ns);
      out.field("end_ns", step.end_ns);
      out.field("event", window_.ev_idx(trace_, step.event));
      out.boolean_field("complete", step.complete);
      out.end_object();
    }
    out.end_array();
  }
  void write_pauses(json_writer& out) const {
    out.key("pauses");
    out.begin_array();
    for (const paused_interval& pause : trace_.pauses()) {
      out.begin_array();
      out.integer(pause.begin_ns);
      out.integer(pause.end_ns);
      out.end_array();
    }
    out.end_array();
  }
  void write_unmatched_frees(json_writer& out) const {
    out.key("unmatched_frees");
    out.begin_array();
    for (const unmatched_free& free : trace_.unmatched_frees()) {
      out.begin_object();
      out.field("event", window_.ev_idx(trace_, free.event));
      out.unsigned_field("count", free.count);
      out.end_object();
    }
    out.end_array();
  }
  void write_processes(json_writer& out) const {
    out.key("processes");
    out.begin_array();
    for (std::size_t i = 0; i < trace_.processes().size(); ++i) {
      const trace_process& p = trace_.processes()[i];
      out.begin_object();
      out.field("pid", ids_.pid(i));
      out.field("os_pid", real_pid(p));
      out.field("rank", p.rank);
      out.field("host", p.host);
      out.field("name", p.name);
      out.field("labels", p.labels);
      out.field("sort_index", p.sort_index);
      out.end_object();
    }
    out.end_array();
  }
  void write_tracks(json_writer& out) const {
    out.key("tracks");
    out.begin_array();
    for (std::size_t i = 0; i < trace_.tracks().size(); ++i) {
      const trace_track& track = trace_.tracks()[i];
      out.begin_object();
      out.field("pid", ids_.pid_of_track(i));
      out.field("tid", ids_.tid(i));
      out.field("kind", track.kind == track_kind::thread  ? "thread"
                        : track.kind == track_kind::async ? "async"
                                                          : "device");
      out.field("name", track.name);
      out.unsigned_field("os_id", track.os_id);
      out.field("sort_index", track.sort_index);
      out.end_object();
    }
    out.end_array();
  }

  const trace& trace_;
  const trace_info& info_;
  const shown_ids& ids_;
  const shown_window& window_;
  const chrome_layout& layout_;
};

}  // namespace detail
STEPPROF_END_NAMESPACE
