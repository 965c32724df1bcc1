// Speedscope's own JSON: the scopes of every thread as they came, and how memory and native stacks add up.
//
// Format: https://www.speedscope.app/file-format-schema.json . Opened by dropping the file on
// https://www.speedscope.app, or by npm's `speedscope` without any network.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <stepprof/analysis/call_stack.hpp>
#include <stepprof/analysis/event_average.hpp>
#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/config.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/json_writer.hpp>
#include <stepprof/output/output_file.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Writes a file for speedscope. It holds one profile for each thread that has scopes, with their true times in ns from
/// the begin of the window; when memory was recorded "allocated bytes", by enclosing scopes; and when native stacks
/// were recorded "native stacks", the self times of scopes by the functions that called them. Scopes on async tracks do
/// not nest and are left out. The file appears under its name only when it is complete; .gz is compressed as for a
/// Chrome trace. errc::no_results when there is no scope on any thread; then no file is written. Any thread.
void export_speedscope(const trace& recording, const std::filesystem::path& path, std::error_code& ec);
/// The same, throwing stepprof::error, or std::system_error when the file cannot be written.
void export_speedscope(const trace& recording, const std::filesystem::path& path);
/// The same into a string, which is empty when `ec` is set.
[[nodiscard]] std::string speedscope_json(const trace& recording, std::error_code& ec);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// The frames of all profiles of a file, each once.
class speedscope_frames {
 public:
  struct frame {
    std::string_view name;
    std::string_view file;
    std::uint32_t line = 0;
  };
  explicit speedscope_frames(const trace& recording) : trace_(recording) {}

  std::uint32_t of_scope(const trace_event& e) {
    const event_detail& d = trace_.detail(e);
    return number({trace_.name(e), trace_.text(d.source_file), d.source_line});
  }
  // The frames of the event's native stack, outermost first, and the scope.
  std::vector<std::uint32_t> of_stack(const trace_event& e) {
    const event_detail& d = trace_.detail(e);
    const auto [found, is_new] = stacks_.try_emplace(call_stack_key(d));
    if (is_new) found->second = callers(trace_.call_stack(d));
    std::vector<std::uint32_t> stack = found->second;
    stack.push_back(of_scope(e));
    return stack;
  }
  [[nodiscard]] const std::vector<frame>& all() const noexcept { return frames_; }

 private:
  std::uint32_t number(const frame& f) {
    const auto [found, is_new] =
        numbers_.try_emplace({f.name, f.file, f.line}, static_cast<std::uint32_t>(frames_.size()));
    if (is_new) frames_.push_back(f);
    return found->second;
  }
  std::vector<std::uint32_t> callers(std::string_view text) {
    std::vector<std::uint32_t> result;
    for_each_frame(text, [&](std::string_view called) {
      const frame_parts parts = parts_of_frame(called);
      // By function: the lines from which it called others do not make it several.
      result.push_back(number({parts.function, parts.file, 0}));
    });
    std::reverse(result.begin(), result.end());
    return result;
  }

  const trace& trace_;
  std::vector<frame> frames_;
  std::map<std::tuple<std::string_view, std::string_view, std::uint32_t>, std::uint32_t> numbers_;
  wide_key_map<std::vector<std::uint32_t>> stacks_;
};

class speedscope_writer {
 public:
  speedscope_writer(const trace& recording, byte_sink& sink)
      : trace_(recording), tree_(recording), frames_(recording), out_(sink), begin_ns_(recording.info().begin_ns) {
    for (const trace_event& e : trace_.events()) begin_ns_ = (std::min)(begin_ns_, e.begin_ns);
  }

  // The frames come last: they are known then.
  void write() {
    out_.begin_object();
    out_.field("$schema", "https://www.speedscope.app/file-format-schema.json");
    out_.field("exporter", "stepprof@" STEPPROF_VERSION_TEXT);
    out_.field("name", trace_.processes().empty() ? "stepprof" : trace_.processes().front().name);
    out_.field("activeProfileIndex", 0);
    out_.key("profiles");
    out_.begin_array();
    for (std::uint32_t i = 0; i < trace_.tracks().size(); ++i) write_thread(trace_.tracks()[i]);
    if (trace_.info().has_memory) write_memory();
    if (trace_.info().has_stacks) write_native();
    out_.end_array();
    out_.key("shared");
    out_.begin_object();
    write_frames();
    out_.end_object();
    out_.end_object();
  }

 private:
  struct sample {
    std::vector<std::uint32_t> stack;
    std::int64_t weight;
  };

  void write_frames() {
    out_.key("frames");
    out_.begin_array();
    for (const speedscope_frames::frame& f : frames_.all()) {
      out_.begin_object();
      out_.field("name", f.name.empty() ? "(no name)" : f.name);
      if (!f.file.empty()) out_.field("file", f.file);
      if (f.line != 0) out_.field("line", f.line);
      out_.end_object();
    }
    out_.end_array();
  }
  void begin_profile(const char* type, const std::string& name, const char* unit, std::int64_t end) {
    out_.begin_object();
    out_.field("type", type);
    out_.field("name", name);
    out_.field("unit", unit);
    out_.field("startValue", 0);
    out_.field("endValue", end);
  }

  void write_thread(const trace_track& track) {
    if (track.kind != track_kind::thread || track.event_count == 0) return;
    const std::string shown = track.name.empty() ? "thread" : track.name;
    begin_profile("evented", shown + " (" + std::to_string(track.id) + ')', "nanoseconds", last_end(track));
    out_.key("events");
    out_.begin_array();
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = track.first_event; i < track.first_event + track.event_count; ++i) {
      const trace_event& e = trace_.events()[i];
      close_until(open, e.parent);
      write_event("O", e, e.begin_ns);
      open.push_back(i);
    }
    close_until(open, npos);
    out_.end_array();
    out_.end_object();
  }
  [[nodiscard]] std::int64_t last_end(const trace_track& track) const {
    std::int64_t end = (std::max)(begin_ns_, trace_.info().end_ns);
    for (std::uint32_t i = track.first_event; i < track.first_event + track.event_count; ++i)
      end = (std::max)(end, trace_.events()[i].end_ns);
    return saturating_sub(end, begin_ns_);
  }
  void close_until(std::vector<std::uint32_t>& open, std::uint32_t parent) {
    for (; !open.empty() && open.back() != parent; open.pop_back()) {
      const trace_event& e = trace_.events()[open.back()];
      write_event("C", e, e.end_ns);
    }
  }
  void write_event(const char* type, const trace_event& e, std::int64_t time_ns) {
    out_.begin_object();
    out_.field("type", type);
    out_.field("frame", frames_.of_scope(e));
    out_.field("at", saturating_sub(time_ns, begin_ns_));
    out_.end_object();
  }

  void write_memory() {
    std::vector<sample> samples;
    for (std::uint32_t i = 0; i < trace_.events().size(); ++i) {
      const std::int64_t bytes = tree_.self_memory(i).allocated_bytes;
      if (bytes <= 0) continue;
      std::vector<std::uint32_t> stack{frames_.of_scope(trace_.events()[i])};
      for (std::uint32_t at = trace_.events()[i].parent; at != npos; at = trace_.events()[at].parent)
        stack.push_back(frames_.of_scope(trace_.events()[at]));
      std::reverse(stack.begin(), stack.end());
      samples.push_back({std::move(stack), bytes});
    }
    write_samples("allocated bytes", "bytes", std::move(samples));
  }
  void write_native() {
    std::vector<sample> samples;
    for (std::uint32_t i = 0; i < trace_.events().size(); ++i)
      if (tree_.self_ns(i) > 0) samples.push_back({frames_.of_stack(trace_.events()[i]), tree_.self_ns(i)});
    write_samples("native stacks", "nanoseconds", std::move(samples));
  }
  // Equal stacks as one.
  void write_samples(const std::string& name, const char* unit, std::vector<sample> samples) {
    if (samples.empty()) return;
    sort_stably(samples.begin(), samples.end(), [](const sample& a, const sample& b) { return a.stack < b.stack; });
    std::vector<sample> merged;
    std::int64_t sum = 0;
    for (sample& s : samples) {
      sum = saturating_add(sum, s.weight);
      if (!merged.empty() && merged.back().stack == s.stack)
        merged.back().weight = saturating_add(merged.back().weight, s.weight);
      else
        merged.push_back(std::move(s));
    }
    begin_profile("sampled", name, unit, sum);
    out_.key("samples");
    out_.begin_array();
    for (const sample& s : merged) {
      out_.begin_array();
      for (const std::uint32_t frame : s.stack) out_.integer(frame);
      out_.end_array();
    }
    out_.end_array();
    out_.key("weights");
    out_.begin_array();
    for (const sample& s : merged) out_.integer(s.weight);
    out_.end_array();
    out_.end_object();
  }

  const trace& trace_;
  event_tree tree_;
  speedscope_frames frames_;
  json_writer out_;
  std::int64_t begin_ns_;
};

inline std::error_code speedscope_fault(const trace& recording) {
  const auto has_scopes = [](const trace_track& t) { return t.kind == track_kind::thread && t.event_count != 0; };
  if (std::any_of(recording.tracks().begin(), recording.tracks().end(), has_scopes)) return {};
  return make_error(errc::no_results, "export_speedscope: there is no scope on any thread; was anything recorded?");
}

// Returns what failed for the message of the throwing form.
inline std::string export_speedscope_to(const trace& recording, const std::filesystem::path& path,
                                        std::error_code& ec) {
  const own_work own;
  ec = speedscope_fault(recording);
  if (ec) return {};
  return write_file(
      path, [&](byte_sink& file) { speedscope_writer(recording, file).write(); }, ec);
}

}  // namespace detail

inline std::string speedscope_json(const trace& recording, std::error_code& ec) {
  const detail::own_work own;
  std::string text;
  ec = detail::speedscope_fault(recording);
  if (ec) return text;
  string_sink sink(text);
  detail::speedscope_writer(recording, sink).write();
  return text;
}

inline void export_speedscope(const trace& recording, const std::filesystem::path& path, std::error_code& ec) {
  detail::export_speedscope_to(recording, path, ec);
}
inline void export_speedscope(const trace& recording, const std::filesystem::path& path) {
  std::error_code ec;
  const std::string doing = detail::export_speedscope_to(recording, path, ec);
  detail::throw_if(ec, doing.c_str());
}

STEPPROF_END_NAMESPACE
