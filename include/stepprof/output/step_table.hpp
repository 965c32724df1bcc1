// The steps of a loop as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <stepprof/analysis/step_times.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/output/display_text.hpp>
#include <stepprof/output/text_grid.hpp>
#include <stepprof/output/units.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/stable_sort.hpp>

STEPPROF_BEGIN_NAMESPACE

/// How the table of the steps is printed.
struct step_table_options {
  std::int64_t row_limit = 100;            ///< Steps to print; -1: all. What stands below is of all steps anyway.
  bool slowest_first = false;              ///< Instead of the order of time.
  std::size_t slowest_named = 3;           ///< Slow steps that are named below the table with what made them slow.
  std::size_t max_name_column_width = 55;  ///< In columns of the terminal; longer names end in "...".
  std::string time_unit = {};              ///< `s`, `ms`, `us`; empty: each time in the unit that fits it.
};

/// A line for each step: its duration, the time in none of its thread's scopes (`Self CPU`), the number of scopes, the
/// memory allocated, freed and the difference (where memory was recorded), and the scope with the largest self time;
/// then the spread of the durations of complete steps, and the slowest steps with the name that is furthest above its
/// own median. A step that stop() cut is marked `(cut)`. Fails with errc::invalid_argument on a row_limit below -1 or
/// an unknown unit. Any thread.
[[nodiscard]] std::string table(const step_times& steps, const step_table_options& options, std::error_code& ec);
[[nodiscard]] inline std::string table(const step_times& steps, const step_table_options& options = {}) {
  std::error_code ec;
  std::string text = table(steps, options, ec);
  detail::throw_if(ec, "table");
  return text;
}
inline std::string step_times::table(const step_table_options& options) const {
  return ::stepprof::table(*this, options);
}
inline std::string step_times::table() const {
  return ::stepprof::table(*this);
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

class step_table_maker {
 public:
  step_table_maker(const step_times& steps, const step_table_options& options) : steps_(steps), options_(options) {}

  std::error_code check() {
    std::error_code ec;
    if (options_.row_limit < -1)
      return make_error(
          errc::invalid_argument,
          fmt::format("step table: row_limit is {}, must be -1 (all steps) or at least 0", options_.row_limit));
    unit_ = parse_time_unit(options_.time_unit, ec);
    return ec ? make_error(errc::invalid_argument, "step table: " + ec.message()) : ec;
  }

  std::string text() {
    add_columns();
    std::int64_t printed = 0;
    for (const step_time* step : in_order()) {
      if (printed++ == options_.row_limit) break;
      grid_.add_line(cells_of(*step));
    }
    std::string out;
    grid_.print(out);
    add_spread(out);
    for (const step_time* step : steps_.slowest(options_.slowest_named)) add_slow(out, *step);
    return out;
  }

 private:
  void add_columns() {
    constexpr std::size_t width = 12;
    for (const char* header : {"Step", "Duration", "Self CPU", "# of Scopes"}) grid_.add_column(header, width);
    if (steps_.has_memory)
      for (const char* header : {"Allocated", "Freed", "CPU Mem"}) grid_.add_column(header, width);
    grid_.add_column("Longest Self", width);
    grid_.add_column("Name", width, true);
  }
  [[nodiscard]] std::vector<const step_time*> in_order() const {
    std::vector<const step_time*> order;
    for (const step_time& step : steps_.rows) order.push_back(&step);
    if (options_.slowest_first)
      sort_stably(order.begin(), order.end(),
                  [](const step_time* a, const step_time* b) { return a->duration_ns > b->duration_ns; });
    return order;
  }
  [[nodiscard]] std::string time(std::int64_t ns) const { return format_time(ns, unit_); }
  [[nodiscard]] std::string name(const std::string& text) const {
    return cut_end(display_text(text), options_.max_name_column_width);
  }
  [[nodiscard]] std::vector<std::string> cells_of(const step_time& step) const {
    std::vector<std::string> cells = {fmt::format("{}{}", step.number, step.complete ? "" : " (cut)"),
                                      time(step.duration_ns), step.self_ns ? time(*step.self_ns) : "--",
                                      fmt::format("{}", step.scopes)};
    if (steps_.has_memory) {
      cells.push_back(format_bytes(step.memory.allocated_bytes));
      cells.push_back(format_bytes(step.memory.freed_bytes));
      cells.push_back(format_bytes(step.memory.net_bytes()));
    }
    cells.push_back(step.scopes == 0 ? "--" : time(step.longest_self_ns));
    cells.push_back(step.scopes == 0 ? "" : name(step.longest));
    return cells;
  }
  void add_spread(std::string& out) const {
    const duration_statistics& d = steps_.durations;
    out += counted(d.count, "complete step");
    if (d.count != 0)
      out += fmt::format(": mean {}, standard deviation {}, min {}, p50 {}, p95 {}, p99 {}, max {}",
                         format_time(d.mean_ns, unit_), d.count < 2 ? "--" : format_time(d.stddev_ns, unit_),
                         time(d.min_ns), time(d.p50_ns), time(d.p95_ns), time(d.p99_ns), time(d.max_ns));
    out += '\n';
  }
  void add_slow(std::string& out, const step_time& step) const {
    out += fmt::format("Slowest: step {}, {}", step.number, time(step.duration_ns));
    if (steps_.durations.p50_ns != 0)
      out += fmt::format(", {:.2f} x the median",
                         static_cast<double>(step.duration_ns) / static_cast<double>(steps_.durations.p50_ns));
    if (step.above_median_ns != 0)
      out += fmt::format("; {} is {} above its median", name(step.most_above_median), time(step.above_median_ns));
    out += '\n';
  }

  const step_times& steps_;
  const step_table_options& options_;
  time_unit unit_ = time_unit::automatic;
  text_grid grid_;
};

}  // namespace detail

inline std::string table(const step_times& steps, const step_table_options& options, std::error_code& ec) {
  const detail::own_work own;
  detail::step_table_maker maker(steps, options);
  ec = maker.check();
  return ec ? std::string() : maker.text();
}

STEPPROF_END_NAMESPACE
