// Sums of numbers that a program or a file gave: they end at the largest or smallest value instead of overflowing.
#pragma once

#include <cstdint>
#include <limits>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

[[nodiscard]] constexpr std::int64_t saturating_add(std::int64_t a, std::int64_t b) noexcept {
  if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
  if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
  return a + b;
}
[[nodiscard]] constexpr std::int64_t saturating_sub(std::int64_t a, std::int64_t b) noexcept {
  if (b < 0 && a > INT64_MAX + b) return INT64_MAX;
  if (b > 0 && a < INT64_MIN + b) return INT64_MIN;
  return a - b;
}
[[nodiscard]] constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

// The number as another integer type, the nearest one where it does not fit.
template <class To>
[[nodiscard]] constexpr To saturating_cast(std::uint64_t value) noexcept {
  constexpr auto most = static_cast<std::uint64_t>((std::numeric_limits<To>::max)());
  return static_cast<To>(value < most ? value : most);
}
template <class To>
[[nodiscard]] constexpr To saturating_cast(std::int64_t value) noexcept {
  if (value >= 0) return saturating_cast<To>(static_cast<std::uint64_t>(value));
  constexpr auto least = static_cast<std::int64_t>((std::numeric_limits<To>::min)());
  return static_cast<To>(value > least ? value : least);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
