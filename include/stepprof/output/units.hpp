// Times, bytes and shares as text, as tables print them. Independent of the locale.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <stepprof/trace/error.hpp>

STEPPROF_BEGIN_NAMESPACE

/// The unit in which times are printed.
enum class time_unit : std::uint8_t { automatic, s, ms, us };

/// A time unit from `s`, `ms`, `us`, or the empty text for automatic; anything else is errc::invalid_argument.
[[nodiscard]] time_unit parse_time_unit(std::string_view text, std::error_code& ec);
[[nodiscard]] inline time_unit parse_time_unit(std::string_view text) {
  std::error_code ec;
  const time_unit unit = parse_time_unit(text, ec);
  detail::throw_if(ec, "parse_time_unit");
  return unit;
}

/// A time given in ns with three decimals, e.g. `856.563us`, `6.783ms`, `1.250s`: microseconds below one millisecond,
/// seconds from one second on. What would round to 1000 of one unit is 1 of the next. Negative times scale alike.
template <class Number>
[[nodiscard]] std::string format_time(Number ns, time_unit unit = time_unit::automatic);

/// Bytes, e.g. `-20 B`, `652.50 KB`, `5.72 MB`, up to `EB`; a unit is 1024 of the one before.
[[nodiscard]] std::string format_bytes(std::int64_t bytes);

/// A number with a decimal prefix, e.g. `950`, `12.35K`, `1.50G`, up to `E`.
[[nodiscard]] std::string format_rate(std::int64_t value);

namespace detail {

// A unit of floating-point operations, as the header of a column says it.
struct flops_unit {
  std::string_view header;
  double flops;
};
// The largest unit in which `least`, from 1 on, is not below 1.
[[nodiscard]] inline flops_unit flops_unit_for(std::int64_t least) noexcept {
  constexpr flops_unit units[] = {{"FLOPs", 1},    {"KFLOPs", 1e3},  {"MFLOPs", 1e6},
                                  {"GFLOPs", 1e9}, {"TFLOPs", 1e12}, {"PFLOPs", 1e15}};
  std::size_t unit = 0;
  for (; unit < 5 && least >= 1000; least /= 1000) ++unit;
  return units[unit];
}
// A count in that unit with three decimals; `--` when there is none.
[[nodiscard]] inline std::string format_flops(std::int64_t flops, flops_unit unit) {
  return flops <= 0 ? "--" : fmt::format("{:.3f}", static_cast<double>(flops) / unit.flops);
}

}  // namespace detail

/// A share, e.g. `27.59%`; `--` when the whole is 0.
[[nodiscard]] std::string format_percent(double part, double whole);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// Rounding decides before the unit does: "1024.00" means that the next unit is due. (A comparison of the numbers
// themselves would have to guess how they will be rounded.)
inline bool reaches(const std::string& text, std::string_view limit) {
  const std::size_t digits = text.find_first_of("0123456789");
  const std::size_t length = text.find('.') - digits;
  return length != limit.size() ? length > limit.size() : text.compare(digits, length, limit) >= 0;
}

// "-0.00" would look like an error.
inline std::string without_negative_zero(std::string text) {
  if (text.size() > 1 && text[0] == '-' && text.find_first_of("123456789") == std::string::npos) text.erase(0, 1);
  return text;
}

// Ties are rounded away from zero on the exact value: 197514.5 ns are 197.515us, though no double is 197.5145.
inline std::string format_time_value(double ns, time_unit unit) {
  struct step {
    time_unit unit;
    double thousandth_ns;
    const char* suffix;
  };
  constexpr step steps[] = {{time_unit::us, 1, "us"}, {time_unit::ms, 1e3, "ms"}, {time_unit::s, 1e6, "s"}};
  for (const step& s : steps) {
    if (unit != time_unit::automatic && unit != s.unit) continue;
    const std::int64_t thousandths = std::llround((std::clamp)(ns / s.thousandth_ns, -9.2e18, 9.2e18));
    const std::int64_t size = thousandths < 0 ? -thousandths : thousandths;
    if (unit == time_unit::automatic && s.unit != time_unit::s && size >= 1000000) continue;
    return fmt::format("{}{}.{:03}{}", thousandths < 0 ? "-" : "", size / 1000, size % 1000, s.suffix);
  }
  return "";
}

}  // namespace detail

inline time_unit parse_time_unit(std::string_view text, std::error_code& ec) {
  ec.clear();
  if (text.empty()) return time_unit::automatic;
  if (text == "s") return time_unit::s;
  if (text == "ms") return time_unit::ms;
  if (text == "us") return time_unit::us;
  ec = detail::make_error(errc::invalid_argument,
                          "time_unit is '" + std::string(text) + "', must be 's', 'ms', 'us', or empty for automatic");
  return time_unit::automatic;
}

template <class Number>
std::string format_time(Number ns, time_unit unit) {
  return detail::format_time_value(static_cast<double>(ns), unit);
}

namespace detail {

// With the first of the suffixes in which the number is below `base`.
template <std::size_t Count>
std::string with_suffix(std::int64_t number, int base, std::string_view limit, const char* const (&suffixes)[Count]) {
  double value = static_cast<double>(number);
  std::string text;
  for (const char* suffix : suffixes) {
    value /= base;
    text = fmt::format("{:.2f}", value);
    const bool is_too_big = reaches(text, limit);
    text += suffix;
    if (!is_too_big) break;
  }
  return text;
}

}  // namespace detail

inline std::string format_bytes(std::int64_t bytes) {
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  constexpr const char* suffixes[] = {" KB", " MB", " GB", " TB", " PB", " EB"};
  return detail::with_suffix(bytes, 1024, "1024", suffixes);
}

inline std::string format_rate(std::int64_t value) {
  if (value > -1000 && value < 1000) return fmt::format("{}", value);
  constexpr const char* suffixes[] = {"K", "M", "G", "T", "P", "E"};
  return detail::with_suffix(value, 1000, "1000", suffixes);
}

inline std::string format_percent(double part, double whole) {
  if (whole == 0) return "--";
  return detail::without_negative_zero(fmt::format("{:.2f}", part * 100 / whole)) + "%";
}

STEPPROF_END_NAMESPACE
