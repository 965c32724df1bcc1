// The picture of a memory timeline: stacked areas of live bytes over time, as SVG.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <stepprof/analysis/memory_timeline.hpp>
#include <stepprof/output/axis.hpp>
#include <stepprof/output/display_text.hpp>
#include <stepprof/output/units.hpp>
#include <stepprof/output/xml_text.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Draws one timeline. The plot is a fixed rectangle; the legend stands at its right.
class memory_picture {
 public:
  memory_picture(const memory_timeline& line, const std::vector<trace_step>& steps, std::int64_t begin_ns,
                 std::string_view title)
      : line_(line), steps_(steps), begin_ns_(begin_ns), title_(title) {
    std::int64_t most = line.peak_bytes;
    for (const memory_series& s : line.series) most = (std::max)(most, s.peak_bytes);
    bytes_ = axis_of_bytes(most, 6);
    time_ = axis_of_time(line.duration_ns, 10);
    height_ = (std::max)(520.0, 78 + 36.0 * static_cast<double>(line.series.size()));
  }

  // Where the plot is, for whoever wants to point into it.
  static constexpr double left = 90, right = 900, top = 60, bottom = 440, width = 1200;

  // A complete element; `attributes` go into it.
  [[nodiscard]] std::string svg(std::string_view attributes) {
    out_ = fmt::format(
        "<svg {} viewBox=\"0 0 {} {}\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{}\" y=\"30\" font-size=\"18\" "
        "fill=\"#222\">{}</text>\n",
        attributes, width, height_, left, xml_text(title_));
    add_grid();
    add_areas();
    add_nested();
    add_steps();
    add_frame();
    add_peak();
    add_legend();
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  [[nodiscard]] double x(std::int64_t time_ns) const noexcept {
    const double whole = static_cast<double>((std::max)(line_.duration_ns, std::int64_t{1}));
    return left + (right - left) * (std::clamp)(static_cast<double>(time_ns) / whole, 0.0, 1.0);
  }
  [[nodiscard]] double y(double bytes) const noexcept { return bottom - (bottom - top) * bytes / bytes_.last; }
  template <class... Values>
  void add(fmt::format_string<Values...> text, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Values>(values)...);
  }

  void add_grid() {
    out_ += "<g stroke=\"#ddd\" fill=\"#444\">\n";
    for (std::size_t i = 0; i < bytes_.ticks(); ++i) {
      const double at = y(bytes_.tick(i));
      add("<path d=\"M{} {:.1f}H{}\"/><text stroke=\"none\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
          left, at, right, left - 8, at + 4.5, bytes_.text(bytes_.tick(i)));
    }
    for (std::size_t i = 0; i < time_.ticks(); ++i) {
      if (time_.tick(i) > static_cast<double>(line_.duration_ns)) break;
      const double at = x(static_cast<std::int64_t>(time_.tick(i)));
      add("<path d=\"M{:.1f} {}v5\" stroke=\"#888\"/><text stroke=\"none\" x=\"{:.1f}\" y=\"{}\" "
          "text-anchor=\"middle\">{}</text>\n",
          at, bottom, at, bottom + 22, time_.text(time_.tick(i)));
    }
    add("</g>\n<text x=\"{}\" y=\"{}\" fill=\"#444\" text-anchor=\"middle\">time since the begin of the "
        "recording</text>\n"
        "<text x=\"18\" y=\"{}\" fill=\"#444\" text-anchor=\"middle\" transform=\"rotate(-90 18 {})\">live "
        "bytes</text>\n",
        (left + right) / 2, bottom + 46, (top + bottom) / 2, (top + bottom) / 2);
  }

  // Values hold from one time to the next. Only what changes is drawn, from left to right and, for the lower border of
  // an area, back.
  void add_border(const std::vector<double>& heights, bool back) {
    const std::size_t count = heights.size();
    double drawn = -1;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = back ? count - 1 - k : k;
      const std::size_t corner = back ? (std::min)(i + 1, count - 1) : i;
      const double at = y(heights[i]);
      if (k == 0) add("{}{:.1f} {:.1f}", back ? "L" : "M", x(line_.times_ns[i]), at);
      if (k != 0 && (at < drawn - 0.05 || at > drawn + 0.05))
        add("H{:.1f}V{:.1f}", x(line_.times_ns[corner]), at);
      else if (k != 0)
        continue;
      drawn = at;
    }
    add("H{:.1f}", x(back ? line_.times_ns.front() : line_.times_ns.back()));
  }
  void add_areas() {
    if (line_.times_ns.empty()) return;
    std::vector<double> lower(line_.times_ns.size()), upper(line_.times_ns.size());
    out_ += "<g stroke-width=\"0.7\">\n";  // so that the shortest peak is seen
    for (std::size_t s = 0; s < line_.series.size(); ++s) {
      if (line_.series[s].is_nested) continue;
      for (std::size_t i = 0; i < upper.size(); ++i)
        upper[i] = lower[i] + static_cast<double>(line_.series[s].bytes[i]);
      add("<path class=\"area\" fill=\"{0}\" stroke=\"{0}\" d=\"", color(s));
      add_border(upper, false);
      add_border(lower, true);
      add("Z\"><title>{}</title></path>\n", xml_text(line_.series[s].name));
      lower = upper;
    }
    out_ += "</g>\n";
  }
  // They lie in other areas: on top of these, from the bottom on.
  void add_nested() {
    if (line_.times_ns.empty()) return;
    for (std::size_t s = 0; s < line_.series.size(); ++s) {
      if (!line_.series[s].is_nested) continue;
      const std::vector<double> heights(line_.series[s].bytes.begin(), line_.series[s].bytes.end());
      add("<path class=\"nested\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-dasharray=\"5 3\" d=\"",
          color(s));
      add_border(heights, false);
      add("\"><title>{}</title></path>\n", xml_text(line_.series[s].name));
    }
  }

  void add_steps() {
    const std::size_t every = steps_.size() / 120 + 1;
    const std::size_t labelled = steps_.size() / 16 + 1;
    out_ += "<g class=\"steps\" stroke=\"#333\" stroke-dasharray=\"2 3\" fill=\"#555\" font-size=\"11\">\n";
    for (std::size_t i = 0; i < steps_.size(); i += every) {
      const std::int64_t begin = saturating_sub(steps_[i].begin_ns, begin_ns_);
      if (begin < 0 || begin > line_.duration_ns) continue;
      add("<path d=\"M{:.1f} {}V{}\"/>", x(begin), top, bottom);
      if (i % labelled == 0)
        add("<text stroke=\"none\" x=\"{:.1f}\" y=\"{}\">#{}</text>", x(begin) + 2, top - 4, steps_[i].number);
      out_ += '\n';
    }
    out_ += "</g>\n";
  }
  void add_frame() { add("<path d=\"M{} {}V{}H{}\" fill=\"none\" stroke=\"#888\"/>\n", left, top, bottom, right); }
  void add_peak() {
    if (line_.peak_bytes <= 0) return;
    const double at = x(line_.peak_time_ns), height = y(static_cast<double>(line_.peak_bytes));
    const bool at_right = at > (left + right) / 2;
    add("<g class=\"peak\"><circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"none\" stroke=\"#c00\" "
        "stroke-width=\"2\"/><text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#c00\" text-anchor=\"{}\" paint-order=\"stroke\" "
        "stroke=\"#fff\" stroke-width=\"3\">peak {} at {}</text></g>\n",
        at, height, at + (at_right ? -8 : 8), (std::max)(height - 4, top + 14), at_right ? "end" : "start",
        format_bytes(line_.peak_bytes), format_time(line_.peak_time_ns));
  }
  void add_legend() {
    double at = top + 4;
    for (std::size_t s = 0; s < line_.series.size(); ++s, at += 36) {
      const memory_series& series = line_.series[s];
      const std::string name =
          display_width(series.name) > 30 ? std::string(first_columns(series.name, 29)) + "\xe2\x80\xa6" : series.name;
      if (series.is_nested)
        add("<path d=\"M{} {:.0f}h14\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"5 3\"/>", right + 24, at,
            color(s));
      else
        add("<rect x=\"{}\" y=\"{:.0f}\" width=\"14\" height=\"14\" fill=\"{}\"/>", right + 24, at - 7, color(s));
      add("<text x=\"{}\" y=\"{:.0f}\" fill=\"#222\"><title>{}</title>{}</text><text x=\"{}\" y=\"{:.0f}\" "
          "fill=\"#777\" font-size=\"11\">peak {}, {} at the end{}</text>\n",
          right + 44, at + 4, xml_text(series.name), xml_text(name), right + 44, at + 18,
          format_bytes(series.peak_bytes), format_bytes(series.bytes.empty() ? 0 : series.bytes.back()),
          series.is_nested ? ", nested" : "");
    }
  }

  // Told apart also by those who see red and green alike, as far as twelve colours can be.
  [[nodiscard]] const char* color(std::size_t series) const noexcept {
    static constexpr const char* colors[] = {"#4477aa", "#ee8866", "#44bb99", "#ddcc77", "#aa4499", "#88ccee",
                                             "#bbcc33", "#882255", "#77aadd", "#cc6677", "#117733", "#ffaabb"};
    return line_.series[series].name == "(other)" ? "#bbbbbb" : colors[series % 12];
  }

  const memory_timeline& line_;
  const std::vector<trace_step>& steps_;
  std::int64_t begin_ns_;
  std::string_view title_;
  axis bytes_, time_;
  double height_;
  std::string out_;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
