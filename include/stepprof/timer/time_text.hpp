// Times of single runs as text: from picoseconds to seconds, two decimals.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/output/display_text.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

struct run_time_unit {
  const char* suffix;
  const char* name;
  double ns;
  [[nodiscard]] std::string text(double time_ns) const { return fmt::format("{:.2f}", time_ns / ns); }
  [[nodiscard]] std::string text_with_unit(double time_ns) const { return text(time_ns) + " " + suffix; }
};

// The unit in which a time has one to three digits before the point, after rounding: 999.996 ns are 1.00 us. A time
// below 1 ns is one, too (the average of a block); nothing is 0 ns.
inline run_time_unit unit_for(double time_ns) noexcept {
  constexpr run_time_unit units[] = {
      {"ps", "picoseconds", 1e-3}, {"ns", "nanoseconds", 1}, {"us", "microseconds", 1e3}, {"ms", "milliseconds", 1e6}};
  const double size = std::fabs(time_ns);
  if (size == 0) return units[1];
  for (const run_time_unit& unit : units)
    if (size < 999.995 * unit.ns) return unit;
  return {"s", "seconds", 1e9};
}

inline std::string run_time_text(double time_ns) {
  return unit_for(time_ns).text_with_unit(time_ns);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
