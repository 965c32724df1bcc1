// Numbers as JSON writes them, made by hand: integers, times, doubles in their shortest form.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// --- integers ------------------------------------------------------------------------------------------------------
//
// Room that a number needs: its digits, at most 20, and what is stored behind them, as digits are written by eights.

inline constexpr std::size_t max_integer_size = 28;
inline constexpr std::size_t max_time_size = 32;
inline constexpr std::size_t max_real_size = 48;

// The digits of a value below 10^8 as numbers, one per byte, the first in the lowest byte. All of them at once in one
// register: two digits at a time from a table take twice as long.
inline std::uint64_t eight_digits(std::uint32_t value) noexcept {
  const std::uint64_t fours = value / 10000 | std::uint64_t{value % 10000} << 32;
  const std::uint64_t hundreds = (fours * 5243 >> 19) & 0x0000007f0000007fu;  // by 100, exact below 10^4
  const std::uint64_t pairs = hundreds | (fours - 100 * hundreds) << 16;
  const std::uint64_t tens = (pairs * 103 >> 10) & 0x000f000f000f000fu;  // by 10, exact below 100
  return tens | (pairs - 10 * tens) << 8;
}
inline constexpr std::uint64_t ascii_zeros = 0x3030303030303030u;
// The lowest byte first.
inline void store_eight(char* out, std::uint64_t bytes) noexcept {
  if constexpr (STEPPROF_LITTLE_ENDIAN != 0) {
    std::memcpy(out, &bytes, sizeof bytes);
  } else {
    for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(bytes >> 8 * i & 0xff);
  }
}

// Digits without the zeros in front of them.
struct short_digits {
  std::uint64_t text;  // the first in the lowest byte
  std::uint32_t count;
};
// Counted without a branch, as lengths of times are as good as random; and by comparing, which is faster than asking
// for the first bit that is set.
inline short_digits digits_below_1e8(std::uint32_t value) noexcept {
  const std::uint32_t count = 1u + (value >= 10) + (value >= 100) + (value >= 1000) + (value >= 10000) +
                              (value >= 100000) + (value >= 1000000) + (value >= 10000000);
  return {(eight_digits(value) + ascii_zeros) >> 8 * (8 - count), count};
}
inline char* write_short(char* out, short_digits digits) noexcept {
  store_eight(out, digits.text);
  return out + digits.count;
}
inline char* write_below_1e8(char* out, std::uint32_t value) noexcept {
  return write_short(out, digits_below_1e8(value));
}
inline char* write_eight_digits(char* out, std::uint32_t value) noexcept {
  store_eight(out, eight_digits(value) + ascii_zeros);
  return out + 8;
}

// Counts and sizes are mostly this small, and a program gives alike ones again and again: here branches are cheaper.
inline char* write_below_1000(char* out, std::uint32_t value) noexcept {
  const std::uint32_t hundreds = value / 100;
  const std::uint32_t tens = value / 10 - 10 * hundreds;
  if (value >= 100) *out++ = static_cast<char>('0' + hundreds);
  if (value >= 10) *out++ = static_cast<char>('0' + tens);
  *out = static_cast<char>('0' + value % 10);
  return out + 1;
}

inline char* write_digits(char* out, std::uint64_t value) noexcept {
  constexpr std::uint64_t e8 = 100000000;
  if (value < 1000) return write_below_1000(out, static_cast<std::uint32_t>(value));
  if (value < e8) return write_below_1e8(out, static_cast<std::uint32_t>(value));
  const std::uint64_t high = value / e8;
  if (high < e8) {
    out = write_below_1e8(out, static_cast<std::uint32_t>(high));
  } else {
    out = write_below_1e8(out, static_cast<std::uint32_t>(high / e8));
    out = write_eight_digits(out, static_cast<std::uint32_t>(high % e8));
  }
  return write_eight_digits(out, static_cast<std::uint32_t>(value % e8));
}

// |value| without overflow at the smallest one.
inline std::uint64_t magnitude_of(std::int64_t value) noexcept {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

inline char* write_integer(char* out, std::int64_t value) noexcept {
  if (value < 0) *out++ = '-';
  return write_digits(out, magnitude_of(value));
}

// The last `count` digits of a time, 4 to 8, with the point before the last three.
inline char* write_last_digits_us(char* out, std::uint32_t value, std::uint32_t count) noexcept {
  const std::uint64_t digits = eight_digits(value) + ascii_zeros;
  store_eight(out, digits >> 8 * (8 - count));
  out += count - 3;
  store_eight(out, (digits >> 32 & ~std::uint64_t{0xff}) | '.');
  return out + 4;
}

// Nanoseconds as microseconds with exactly three decimals.
inline char* write_time_us(char* out, std::int64_t ns) noexcept {
  constexpr std::uint64_t e8 = 100000000;
  if (ns < 0) *out++ = '-';
  const std::uint64_t value = magnitude_of(ns);
  if (value >= e8)
    return write_last_digits_us(write_digits(out, value / e8), static_cast<std::uint32_t>(value % e8), 8);
  const auto rest = static_cast<std::uint32_t>(value);
  return write_last_digits_us(out, rest,
                              4u + (rest >= 10000) + (rest >= 100000) + (rest >= 1000000) + (rest >= 10000000));
}

// --- doubles -------------------------------------------------------------------------------------------------------

// A value below 10^9 that has at most six decimals, in millionths; 0: it is none. As the millionths fit into 50 bits,
// no other multiple of a millionth reads back as the same double, so this is its shortest form, too.
inline std::uint64_t exact_millionths(double value) noexcept {
  if (!(value < 1e9)) return 0;
  const auto millionths = static_cast<std::uint64_t>(value * 1e6 + 0.5);
  return static_cast<double>(millionths) / 1e6 == value ? millionths : 0;
}
// `millionths` is not 0.
inline char* write_millionths(char* out, std::uint64_t millionths) noexcept {
  out = write_digits(out, millionths / 1000000);
  *out++ = '.';
  const std::uint64_t decimals = eight_digits(static_cast<std::uint32_t>(millionths % 1000000)) >> 16;
  store_eight(out, decimals + ascii_zeros);
  return out + 1 + (decimals >> 8 != 0) + (decimals >> 16 != 0) + (decimals >> 24 != 0) + (decimals >> 32 != 0) +
         (decimals >> 40 != 0);
}

// The shortest text that reads back as the same double, always recognisable as one ("1.0"); non-finite ones as text.
//
// Perfetto accumulates the digits after the point in 64 bits and reads integers of more than 18 digits wrongly, hence
// the exponent form outside [1e-3, 1e15) and where a plain form would need more than 17 decimals.
inline char* write_real(char* out, double value) noexcept {
  if (!std::isfinite(value)) {
    const std::string_view text = std::isnan(value) ? "\"NaN\"" : value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
  }
  char* const limit = out + max_real_size;
  const double size = std::fabs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e15))
    return std::to_chars(out, limit, value, std::chars_format::scientific).ptr;
  if (const std::uint64_t millionths = exact_millionths(size)) {
    if (value < 0) *out++ = '-';
    return write_millionths(out, millionths);
  }
  char* end = std::to_chars(out, limit, value, std::chars_format::fixed).ptr;
  const char* point = static_cast<const char*>(std::memchr(out, '.', static_cast<std::size_t>(end - out)));
  if (point == nullptr) {
    std::memcpy(end, ".0", 2);
    return end + 2;
  }
  return end - point <= 18 ? end : std::to_chars(out, limit, value, std::chars_format::scientific).ptr;
}

}  // namespace detail
STEPPROF_END_NAMESPACE
