// How the durations of many calls are spread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

/// How durations are spread. Percentiles are by the nearest rank: the least duration that at least so many percent of
/// all do not exceed, so always one that was measured (definition 1 of Hyndman and Fan, "Sample quantiles in
/// statistical packages", The American Statistician 50, 1996).
struct duration_statistics {
  std::int64_t count = 0;
  std::int64_t min_ns = 0;
  std::int64_t p50_ns = 0;
  std::int64_t p95_ns = 0;
  std::int64_t p99_ns = 0;
  std::int64_t max_ns = 0;
  double mean_ns = 0;
  double stddev_ns = 0;  ///< Of the sample: the squares are divided by count - 1. 0 when there are fewer than two.
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

inline std::int64_t nearest_rank(const std::int64_t* sorted_ns, std::size_t count, std::size_t percent) noexcept {
  // count / 100 apart, so that no count is too large.
  const std::size_t rank = count / 100 * percent + (count % 100 * percent + 99) / 100;
  return sorted_ns[rank - 1];
}

// Sorts the durations. None may be negative.
inline duration_statistics statistics_of(std::int64_t* durations_ns, std::size_t count) {
  duration_statistics s;
  if (count == 0) return s;
  std::sort(durations_ns, durations_ns + count);
  s.count = static_cast<std::int64_t>(count);
  s.min_ns = durations_ns[0];
  s.p50_ns = nearest_rank(durations_ns, count, 50);
  s.p95_ns = nearest_rank(durations_ns, count, 95);
  s.p99_ns = nearest_rank(durations_ns, count, 99);
  s.max_ns = durations_ns[count - 1];
  // What lies above the least: equal durations have no deviation, whatever their size, and small ones stay exact.
  double above_ns = 0;
  for (std::size_t i = 0; i < count; ++i) above_ns += static_cast<double>(durations_ns[i] - s.min_ns);
  above_ns /= static_cast<double>(count);
  s.mean_ns = static_cast<double>(s.min_ns) + above_ns;
  if (count < 2) return s;
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double deviation_ns = static_cast<double>(durations_ns[i] - s.min_ns) - above_ns;
    squares += deviation_ns * deviation_ns;
  }
  s.stddev_ns = std::sqrt(squares / static_cast<double>(count - 1));
  return s;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
