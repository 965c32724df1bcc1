// Axes of pictures: round numbers at which lines are drawn, and their texts.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// From 0 to at least `last`, in at most `most` steps of one round size, told in one unit.
struct axis {
  double last = 1;  // of what is drawn
  double step = 1;
  double unit = 1;
  const char* suffix = "";

  [[nodiscard]] std::size_t ticks() const noexcept { return static_cast<std::size_t>(last / step + 0.5) + 1; }
  [[nodiscard]] double tick(std::size_t i) const noexcept { return step * static_cast<double>(i); }
  [[nodiscard]] std::string text(double value) const { return fmt::format("{:.6g}{}", value / unit, suffix); }
};

// 1, 2 or 5 times a power of ten of the unit.
inline double round_step(double least) noexcept {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * 0.999999) return factor * power;
  return 10 * power;
}

inline axis make_axis(double last, int most, double unit, const char* suffix) noexcept {
  axis a;
  a.unit = unit;
  a.suffix = suffix;
  a.step = round_step(last / unit / most) * unit;
  a.last = std::ceil(last / a.step * 0.999999) * a.step;
  return a;
}

inline axis axis_of_bytes(std::int64_t bytes, int most) noexcept {
  constexpr const char* suffixes[] = {" B", " KB", " MB", " GB", " TB", " PB", " EB"};
  const double last = bytes < most ? most : static_cast<double>(bytes);
  double unit = 1;
  std::size_t i = 0;
  for (; i < 6 && last >= unit * 1024; ++i) unit *= 1024;
  return make_axis(last, most, unit, suffixes[i]);
}

inline axis axis_of_time(std::int64_t ns, int most) noexcept {
  const double last = ns < most ? most : static_cast<double>(ns);
  if (last >= 1e9) return make_axis(last, most, 1e9, " s");
  if (last >= 1e6) return make_axis(last, most, 1e6, " ms");
  return last >= 1e3 ? make_axis(last, most, 1e3, " us") : make_axis(last, most, 1, " ns");
}

}  // namespace detail

STEPPROF_END_NAMESPACE
