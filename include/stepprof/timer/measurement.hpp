// What a timer measured: the time of every block of runs, and what they say about one run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/output/display_text.hpp>
#include <stepprof/timer/time_text.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What is measured, for titles and for the place in a table of `compare`. All texts may be empty.
struct task_description {
  std::string stmt = {};         ///< The code, as text; only shown.
  std::string label = {};        ///< The table.
  std::string sub_label = {};    ///< The row; without one, `stmt` is.
  std::string description = {};  ///< The column.
  std::string env = {};          ///< What distinguishes equal rows, e.g. a branch; shown when there are several.
  std::int64_t num_threads = 1;  ///< Threads that run the callable at once, from 1 to 1024.

  /// `label: sub_label`, with the statement in place of a label that is empty.
  [[nodiscard]] std::string title() const;
  friend bool operator==(const task_description& a, const task_description& b) noexcept {
    return a.stmt == b.stmt && a.label == b.label && a.sub_label == b.sub_label && a.description == b.description &&
           a.env == b.env && a.num_threads == b.num_threads;
  }
  friend bool operator!=(const task_description& a, const task_description& b) noexcept { return !(a == b); }
};

/// Times of blocks of `number_per_run` runs each. All times are in ns, as double: a block's is a whole number, but a
/// run's share of it may be far below one. They are as the clock said; nothing has been taken off (`empty_loop_ns`).
/// Without any block all statistics are 0.
struct measurement {
  std::int64_t number_per_run = 1;
  std::vector<double> raw_times_ns = {};  ///< Of whole blocks, in the order of measuring.
  task_description task = {};
  /// What one run of an empty loop took in a block of this size: the loop's and the clock's part of every time below.
  /// 0 when it was not measured or the clock cannot see it.
  double empty_loop_ns = 0;

  /// Of single runs, in the order of measuring.
  [[nodiscard]] std::vector<double> times_ns() const;
  [[nodiscard]] double min_ns() const { return quantile_ns(0); }
  [[nodiscard]] double p25_ns() const { return quantile_ns(0.25); }
  [[nodiscard]] double median_ns() const { return quantile_ns(0.5); }
  [[nodiscard]] double p75_ns() const { return quantile_ns(0.75); }
  [[nodiscard]] double iqr_ns() const { return p75_ns() - p25_ns(); }
  [[nodiscard]] double mean_ns() const;
  /// Interpolated linearly between the two nearest times; `share` from 0 to 1.
  [[nodiscard]] double quantile_ns(double share) const;

  /// How many digits of the median mean something, 1 to 4: the median over 1.645 standard errors of the middle half of
  /// the times, which are taken to be at least 25 ns a block.
  [[nodiscard]] int significant_figures() const;
  /// Whether the interquartile range is less than this share of the median. A median of 0 meets nothing.
  [[nodiscard]] bool meets_confidence(double threshold = 0.1) const { return iqr_ns() < threshold * median_ns(); }

  /// What makes the times doubtful, a text of two lines each, as printed.
  [[nodiscard]] std::vector<std::string> warnings() const;
  /// Title, median, interquartile range, numbers of blocks and runs, warnings; a line each, the last without its end.
  [[nodiscard]] std::string to_string() const;
};

/// Joins measurements of equal descriptions, in the order in which each was first seen. Where their blocks are of
/// different sizes, the times of single runs are joined (number_per_run 1).
[[nodiscard]] std::vector<measurement> merge(const std::vector<measurement>& measurements);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// Of sorted values; 0 for none.
inline double quantile_of(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double at = (std::clamp)(share, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = (std::min)(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile_of(values, 0.5);
}

// The standard error of the mean of the middle half of some sorted values: tails would hide how well it is known.
inline double middle_error(const std::vector<double>& sorted) {
  const std::size_t first = sorted.size() / 4, last = (3 * sorted.size() + 3) / 4;
  const auto count = static_cast<double>(last - first);
  double sum = 0, squares = 0;
  for (std::size_t i = first; i < last; ++i) sum += sorted[i];
  for (std::size_t i = first; i < last; ++i) squares += std::pow(sorted[i] - sum / count, 2);
  return std::sqrt(squares / count) / std::sqrt(count);
}

// Every line of a text, safe to print, after two blanks.
inline std::string indented(std::string_view text) {
  std::string out;
  for (std::size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find('\n');
    out += (out.empty() ? "  " : "\n  ") + display_text(text.substr(0, end));
    if (end == std::string_view::npos) break;
  }
  return out;
}

inline std::string doubt(const std::string& what, const char* meaning) {
  return "  WARNING: " + what + "\n           " + meaning;
}

}  // namespace detail

inline std::string task_description::title() const {
  if (!label.empty() || stmt.find('\n') == std::string::npos) {
    const std::string name = detail::display_text(label.empty() ? stmt : label);
    const std::string row = detail::display_text(sub_label);
    return name + (name.empty() || row.empty() ? "" : ": ") + row;
  }
  return "stmt:" + (sub_label.empty() ? "" : " (" + detail::display_text(sub_label) + ")") + "\n" +
         detail::indented(stmt);
}

inline std::vector<double> measurement::times_ns() const {
  std::vector<double> times = raw_times_ns;
  for (double& t : times) t /= static_cast<double>(number_per_run);
  return times;
}

inline double measurement::quantile_ns(double share) const {
  std::vector<double> times = times_ns();
  std::sort(times.begin(), times.end());
  return detail::quantile_of(times, share);
}

inline double measurement::mean_ns() const {
  if (raw_times_ns.empty()) return 0;
  const double sum = std::accumulate(raw_times_ns.begin(), raw_times_ns.end(), 0.0);
  return sum / static_cast<double>(raw_times_ns.size()) / static_cast<double>(number_per_run);
}

inline int measurement::significant_figures() const {
  std::vector<double> times = times_ns();
  std::sort(times.begin(), times.end());
  const double median = detail::quantile_of(times, 0.5);
  if (!(median > 0)) return 1;
  const double least_ns = 25 / static_cast<double>(number_per_run);
  const double interval_ns = (std::max)(1.645 * detail::middle_error(times), least_ns);
  return static_cast<int>((std::clamp)(std::floor(std::log10(median / interval_ns)), 1.0, 4.0));
}

inline std::vector<std::string> measurement::warnings() const {
  std::vector<std::string> out;
  if (raw_times_ns.empty()) return out;
  const double median = median_ns();
  if (!(median > 0)) {
    out.push_back(detail::doubt("The median is 0: the clock cannot see so little.", "Time more runs per measurement."));
    return out;
  }
  if (!meets_confidence())
    out.push_back(
        detail::doubt(fmt::format("Interquartile range is {:.1f}% of the median measurement.", iqr_ns() / median * 100),
                      meets_confidence(0.25) ? "This could indicate system fluctuation."
                                             : "This suggests significant environmental influence."));
  if (empty_loop_ns >= 0.1 * median)
    out.push_back(detail::doubt(
        fmt::format("An empty loop takes {:.1f}% of the median measurement.", empty_loop_ns / median * 100),
        "It is part of the times above; let a run do more."));
  return out;
}

inline std::string measurement::to_string() const {
  std::vector<std::string> lines;
  for (const std::string& text : {task.title(), detail::display_text(task.description)})
    if (!text.empty()) lines.push_back(text);
  const std::size_t blocks = raw_times_ns.size();
  const double median = median_ns();
  const detail::run_time_unit unit = detail::unit_for(median);
  if (blocks > 0) lines.push_back((blocks > 1 ? "  Median: " : "  ") + unit.text_with_unit(median));
  if (blocks >= 4)
    lines.push_back("  IQR:    " + unit.text_with_unit(iqr_ns()) + " (" + unit.text(p25_ns()) + " to " +
                    unit.text(p75_ns()) + ")");
  lines.push_back("  " + detail::counted(blocks, "measurement") + ", " + detail::counted(number_per_run, "run") +
                  (blocks == 1 ? "" : " per measurement") + ", " + detail::counted(task.num_threads, "thread"));
  for (std::string& text : warnings()) lines.push_back(std::move(text));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

namespace detail {

inline void join(measurement& into, const measurement& from) {
  const auto to_single_runs = [](measurement& m) {
    m.raw_times_ns = m.times_ns();
    m.number_per_run = 1;
  };
  measurement more = from;
  if (into.number_per_run != more.number_per_run) {
    to_single_runs(into);
    to_single_runs(more);
  }
  into.raw_times_ns.insert(into.raw_times_ns.end(), more.raw_times_ns.begin(), more.raw_times_ns.end());
  into.empty_loop_ns = (std::max)(into.empty_loop_ns, more.empty_loop_ns);
}

}  // namespace detail

inline std::vector<measurement> merge(const std::vector<measurement>& measurements) {
  std::vector<measurement> merged;
  for (const measurement& m : measurements) {
    const auto same =
        std::find_if(merged.begin(), merged.end(), [&m](const auto& seen) { return seen.task == m.task; });
    if (same == merged.end())
      merged.push_back(m);
    else
      detail::join(*same, m);
  }
  return merged;
}

STEPPROF_END_NAMESPACE
