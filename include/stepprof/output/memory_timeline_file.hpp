// The memory timeline in a file: JSON, an SVG picture, or a page with both that needs nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <stepprof/analysis/memory_timeline.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/display_text.hpp>
#include <stepprof/output/json_writer.hpp>
#include <stepprof/output/memory_picture.hpp>
#include <stepprof/output/output_file.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Live bytes over time, by pool or by scope, in a file whose name says what it is:
///
/// - `.json`: an object with `times_ns` (since the begin of the recording, whose Unix time is `base_time_ns`),
///   `total_bytes`, and `series`, each with `name`, `nested`, `peak_bytes`, `peak_time_ns`, `last_bytes` and `bytes`;
///   `peak`, `last_bytes`, `steps` and what the options were beside it.
/// - `.svg`: stacked areas with axes, steps, a legend and the peak.
/// - `.html`: the same with values under the pointer, in one file that loads nothing.
///
/// With `.gz` behind it the file is compressed, as for export_chrome_trace(). It appears under its name only when it is
/// complete. Its size is bounded by the options, whatever the recording's.
///
/// errc::invalid_argument for another ending, or when memory was not recorded (profile_memory); errc::no_results when
/// nothing was allocated on the device; std::system_error when the file cannot be written. Any thread.
void export_memory_timeline(const trace& recording, const std::filesystem::path& path,
                            const memory_timeline_options& options = {});
/// The same, reporting through `ec`.
void export_memory_timeline(const trace& recording, const std::filesystem::path& path,
                            const memory_timeline_options& options, std::error_code& ec);
inline void export_memory_timeline(const trace& recording, const std::filesystem::path& path, std::error_code& ec) {
  export_memory_timeline(recording, path, {}, ec);
}

/// The picture as a text, a complete SVG file.
[[nodiscard]] std::string memory_timeline_svg(const trace& recording, const memory_timeline_options& options = {});
/// The page as a text, a complete HTML file.
[[nodiscard]] std::string memory_timeline_html(const trace& recording, const memory_timeline_options& options = {});
/// The object as a text.
[[nodiscard]] std::string memory_timeline_json(const trace& recording, const memory_timeline_options& options = {});

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

inline const char* name_of(memory_group group) noexcept {
  return group == memory_group::key ? "key" : "pool";
}

inline void write_integers(json_writer& out, std::string_view key, const std::vector<std::int64_t>& values) {
  out.key(key);
  out.begin_array();
  for (const std::int64_t value : values) out.integer(value);
  out.end_array();
}

inline void write_timeline(json_writer& out, const trace& recording, const memory_timeline& line,
                           const memory_timeline_options& options) {
  out.begin_object();
  out.field("schema", 1);
  out.field("group_by", name_of(options.group_by));
  out.field("device_type", options.device.type);
  out.field("device_index", options.device.index);
  out.field("base_time_ns", saturating_add(recording.info().base_time_ns, recording.info().begin_ns));
  out.field("duration_ns", line.duration_ns);
  out.field("events", static_cast<std::int64_t>(line.event_count));
  out.boolean_field("thinned", line.is_thinned);
  out.key("peak");
  out.begin_object();
  out.field("bytes", line.peak_bytes);
  out.field("time_ns", line.peak_time_ns);
  out.end_object();
  out.field("last_bytes", line.last_bytes());
  out.key("steps");
  out.begin_array();
  for (const trace_step& step : recording.steps()) {
    out.begin_object();
    out.field("number", step.number);
    out.field("begin_ns", saturating_sub(step.begin_ns, recording.info().begin_ns));
    out.field("end_ns", saturating_sub(step.end_ns, recording.info().begin_ns));
    out.end_object();
  }
  out.end_array();
  write_integers(out, "times_ns", line.times_ns);
  write_integers(out, "total_bytes", line.total_bytes);
  out.key("series");
  out.begin_array();
  for (const memory_series& s : line.series) {
    out.begin_object();
    out.field("name", s.name);
    out.boolean_field("nested", s.is_nested);
    out.field("peak_bytes", s.peak_bytes);
    out.field("peak_time_ns", s.peak_time_ns);
    out.field("last_bytes", s.bytes.empty() ? 0 : s.bytes.back());
    write_integers(out, "bytes", s.bytes);
    out.end_object();
  }
  out.end_array();
  out.end_object();
}

inline std::string timeline_title(const trace& recording, const memory_timeline_options& options) {
  std::string title = std::string("Live memory by ") + (options.group_by == memory_group::key ? "scope" : "pool");
  if (!(options.device == memory_device()))
    title += fmt::format(" of device {}:{}", options.device.type, options.device.index);
  if (!recording.processes().empty() && !recording.processes().front().name.empty())
    title += ", " + recording.processes().front().name;
  return title;
}

// Shows what holds at the time under the pointer. What it shows is put in as text, never as markup.
inline constexpr std::string_view timeline_script = R"(
const line = JSON.parse(document.getElementById('data').textContent);
const svg = document.querySelector('svg'), tip = document.getElementById('tip'), mark = document.getElementById('mark');
const bytes = b => { let u = 0; while (Math.abs(b) >= 1024 && u < 6) { b /= 1024; ++u; }
  return (u ? b.toFixed(2) : b) + ' ' + ['B', 'KB', 'MB', 'GB', 'TB', 'PB', 'EB'][u]; };
const time = t => t < 1e6 ? (t / 1e3).toFixed(3) + 'us' : t < 1e9 ? (t / 1e6).toFixed(3) + 'ms' : (t / 1e9).toFixed(3) + 's';
document.getElementById('summary').textContent = 'Peak ' + bytes(line.peak.bytes) + ' at ' + time(line.peak.time_ns) +
  ', ' + bytes(line.last_bytes) + ' at the end; ' + line.events + ' allocations and frees, ' + line.times_ns.length +
  ' points' + (line.thinned ? ' (thinned, peaks kept)' : '') + ', ' + line.series.length + ' series.';
const point = t => { let low = 0, high = line.times_ns.length;
  while (high - low > 1) { const m = (low + high) >> 1; if (line.times_ns[m] <= t) low = m; else high = m; } return low; };
svg.addEventListener('mousemove', e => {
  const box = svg.getBoundingClientRect(), x = (e.clientX - box.left) * WIDTH / box.width;
  const inside = x >= LEFT && x <= RIGHT;
  tip.hidden = !inside; mark.setAttribute('visibility', inside ? 'visible' : 'hidden');
  if (!inside) return;
  const t = (x - LEFT) / (RIGHT - LEFT) * line.duration_ns, i = point(t);
  mark.setAttribute('d', 'M' + x + ' TOPvBOTTOM');
  tip.replaceChildren();
  const row = (name, value) => { const r = document.createElement('div'), v = document.createElement('b');
    r.textContent = name + ' '; v.textContent = value; r.append(v); tip.append(r); };
  row('at', time(t)); row('all', bytes(line.total_bytes[i]));
  for (const s of line.series) if (s.bytes[i] !== 0) row(s.name, bytes(s.bytes[i]));
  tip.style.left = (e.pageX + 16) + 'px'; tip.style.top = (e.pageY + 16) + 'px';
});
svg.addEventListener('mouseleave', () => { tip.hidden = true; mark.setAttribute('visibility', 'hidden'); });
)";

// `name` in the script becomes the number.
inline void fill_in(std::string& script, std::string_view name, double value) {
  for (std::size_t at = 0; (at = script.find(name, at)) != std::string::npos;)
    script.replace(at, name.size(), fmt::format("{}", value));
}
inline std::string filled_script() {
  std::string script(timeline_script);
  fill_in(script, "WIDTH", memory_picture::width);
  fill_in(script, "LEFT", memory_picture::left);
  fill_in(script, "RIGHT", memory_picture::right);
  fill_in(script, "BOTTOM", memory_picture::bottom - memory_picture::top);
  fill_in(script, "TOP", memory_picture::top);
  return script;
}

enum class timeline_format { json, svg, html, unknown };

inline timeline_format format_of(const std::filesystem::path& path) {
  const std::string ending = ending_of(path);
  if (ending == ".json") return timeline_format::json;
  if (ending == ".svg") return timeline_format::svg;
  return ending == ".html" || ending == ".htm" ? timeline_format::html : timeline_format::unknown;
}

inline std::error_code timeline_fault(const trace& recording, const std::filesystem::path& path,
                                      const memory_timeline_options& options) {
  if (format_of(path) == timeline_format::unknown)
    return make_error(errc::invalid_argument, "export_memory_timeline: '" + display_text(path.string()) +
                                                  "' must end in .json, .svg or .html (.gz may follow)");
  if (!recording.info().has_memory && recording.memory().empty())
    return make_error(errc::invalid_argument, "export_memory_timeline needs profile_memory to be on");
  for (const memory_event& m : recording.memory())
    if (memory_device{m.device_type, m.device_id} == options.device) return {};
  return make_error(errc::no_results,
                    "export_memory_timeline: no allocation was reported; include <stepprof/record/operator_new.hpp> in "
                    "one source of the program, or call report_alloc()");
}

// Returns what failed for the message of the throwing form.
inline std::string export_memory_timeline_to(const trace& recording, const std::filesystem::path& path,
                                             const memory_timeline_options& options, std::error_code& ec) {
  const own_work own;
  ec = timeline_fault(recording, path, options);
  if (ec) return {};
  const timeline_format format = format_of(path);
  const std::string text = format == timeline_format::json  ? memory_timeline_json(recording, options)
                           : format == timeline_format::svg ? memory_timeline_svg(recording, options)
                                                            : memory_timeline_html(recording, options);
  return write_file(path, text, ec);
}

inline std::string timeline_json(const trace& recording, const memory_timeline& line,
                                 const memory_timeline_options& options) {
  std::string text;
  string_sink sink(text);
  {
    json_writer out(sink);
    write_timeline(out, recording, line, options);
  }
  return text;
}
inline std::string timeline_svg(const trace& recording, const memory_timeline& line,
                                const memory_timeline_options& options, std::string_view attributes) {
  const std::string title = timeline_title(recording, options);
  return memory_picture(line, recording.steps(), recording.info().begin_ns, title).svg(attributes);
}

}  // namespace detail

inline std::string memory_timeline_json(const trace& recording, const memory_timeline_options& options) {
  const detail::own_work own;
  return detail::timeline_json(recording, memory_over_time(recording, options), options);
}

inline std::string memory_timeline_svg(const trace& recording, const memory_timeline_options& options) {
  const detail::own_work own;
  return detail::timeline_svg(recording, memory_over_time(recording, options), options,
                              "xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\"");
}

inline std::string memory_timeline_html(const trace& recording, const memory_timeline_options& options) {
  const detail::own_work own;
  const memory_timeline line = memory_over_time(recording, options);
  const std::string title = detail::xml_text(detail::timeline_title(recording, options));
  std::string svg = detail::timeline_svg(recording, line, options, "width=\"100%\"");
  svg.insert(svg.rfind("</svg>"), "<path id=\"mark\" stroke=\"#000\" visibility=\"hidden\"/>\n");
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + title +
         "</title>\n<style>\nbody { font: 14px system-ui, sans-serif; margin: 16px; color: #222; background: #fff }\n"
         "#tip { position: absolute; background: #fffd; border: 1px solid #999; padding: 6px 8px; max-width: 480px; "
         "pointer-events: none; overflow-wrap: anywhere }\n</style>\n</head>\n<body>\n" +
         svg + "<p id=\"summary\"></p>\n<div id=\"tip\" hidden></div>\n<script id=\"data\" type=\"application/json\">" +
         detail::timeline_json(recording, line, options) + "</script>\n<script>" + detail::filled_script() +
         "</script>\n</body>\n</html>\n";
}

inline void export_memory_timeline(const trace& recording, const std::filesystem::path& path,
                                   const memory_timeline_options& options, std::error_code& ec) {
  detail::export_memory_timeline_to(recording, path, options, ec);
}

inline void export_memory_timeline(const trace& recording, const std::filesystem::path& path,
                                   const memory_timeline_options& options) {
  const detail::own_work own;
  std::error_code ec;
  const std::string doing = detail::export_memory_timeline_to(recording, path, options, ec);
  detail::throw_if(ec, doing.c_str());
}

STEPPROF_END_NAMESPACE
