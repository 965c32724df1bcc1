// Single JSON values as text: escaped strings, numbers made by hand, validated JSON in a form that every viewer reads.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <stepprof/config.hpp>
#include <stepprof/output/utf8.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// --- strings -------------------------------------------------------------------------------------------------------

enum class json_byte : std::uint8_t { plain, escaped, beyond_ascii };

// `<`, `>` and `&` are escaped so that a trace pasted into a page stays text.
constexpr std::array<json_byte, 256> make_json_bytes() {
  std::array<json_byte, 256> table{};
  for (std::size_t c = 0; c < 256; ++c) {
    const bool escaped = c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&';
    table[c] = c >= 0x80 ? json_byte::beyond_ascii : escaped ? json_byte::escaped : json_byte::plain;
  }
  return table;
}
inline constexpr std::array<json_byte, 256> json_bytes = make_json_bytes();

inline json_byte json_byte_of(char c) noexcept {
  return json_bytes[static_cast<unsigned char>(c)];
}

// Escapes one byte into `out` (6 bytes of room) and returns the end.
inline char* escape_json_byte(char* out, char c) noexcept {
  *out++ = '\\';
  switch (c) {
    case '"':
    case '\\':
      *out++ = c;
      return out;
    case '\n':
      *out++ = 'n';
      return out;
    case '\t':
      *out++ = 't';
      return out;
    case '\r':
      *out++ = 'r';
      return out;
    default:
      break;
  }
  const auto byte = static_cast<unsigned char>(c);
  std::memcpy(out, "u00", 3);
  out[3] = "0123456789ABCDEF"[byte >> 4];
  out[4] = "0123456789ABCDEF"[byte & 15];
  return out + 5;
}

// The inside of a JSON string, piece by piece, to `append(data, size)`.
template <class Append>
void escape_json(std::string_view text, Append&& append) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const char* run = at;
    while (at != end && json_byte_of(*at) == json_byte::plain) ++at;
    if (at != run) append(run, static_cast<std::size_t>(at - run));
    if (at == end) return;
    if (json_byte_of(*at) == json_byte::escaped) {
      char buffer[6];
      append(buffer, static_cast<std::size_t>(escape_json_byte(buffer, *at++) - buffer));
      continue;
    }
    const utf8_sequence sequence = utf8_sequence_at(at, end);
    if (sequence.valid)
      append(at, sequence.size);
    else
      append("\xef\xbf\xbd", 3);
    at += sequence.size;
  }
}

inline void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  escape_json(text, [&out](const char* data, std::size_t size) { out.append(data, size); });
  out += '"';
}

// --- numbers -------------------------------------------------------------------------------------------------------

inline constexpr std::size_t max_integer_size = 20;  // -9223372036854775808, 18446744073709551615
inline constexpr std::size_t max_time_size = 21;     // -9223372036854775.808 with room
inline constexpr std::size_t max_real_size = 32;

inline constexpr char digit_pairs[201] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

inline std::size_t digit_count(std::uint64_t value) noexcept {
  for (std::size_t count = 1;; count += 4, value /= 10000) {
    if (value < 10) return count;
    if (value < 100) return count + 1;
    if (value < 1000) return count + 2;
    if (value < 10000) return count + 3;
  }
}

// In place from the back: a buffer of its own would cost a copy of unknown size.
inline char* write_digits(char* out, std::uint64_t value) noexcept {
  char* const end = out + digit_count(value);
  char* at = end;
  for (; value >= 100; value /= 100) std::memcpy(at -= 2, digit_pairs + 2 * (value % 100), 2);
  if (value >= 10)
    std::memcpy(at - 2, digit_pairs + 2 * value, 2);
  else
    at[-1] = static_cast<char>('0' + value);
  return end;
}

// |value| without overflow at the smallest one.
inline std::uint64_t magnitude_of(std::int64_t value) noexcept {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

inline char* write_integer(char* out, std::int64_t value) noexcept {
  if (value < 0) *out++ = '-';
  return write_digits(out, magnitude_of(value));
}

// Nanoseconds as microseconds with exactly three decimals.
inline char* write_time_us(char* out, std::int64_t ns) noexcept {
  if (ns < 0) *out++ = '-';
  const std::uint64_t value = magnitude_of(ns);
  const auto fraction = static_cast<std::uint32_t>(value % 1000);
  out = write_digits(out, value / 1000);
  out[0] = '.';
  out[1] = static_cast<char>('0' + fraction / 100);
  std::memcpy(out + 2, digit_pairs + 2 * (fraction % 100), 2);
  return out + 4;
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
  char* end = std::to_chars(out, limit, value, std::chars_format::fixed).ptr;
  const char* point = static_cast<const char*>(std::memchr(out, '.', static_cast<std::size_t>(end - out)));
  if (point == nullptr) {
    std::memcpy(end, ".0", 2);
    return end + 2;
  }
  return end - point <= 18 ? end : std::to_chars(out, limit, value, std::chars_format::scientific).ptr;
}

// --- JSON given as text --------------------------------------------------------------------------------------------

// Appends valid JSON without the space between its tokens, `<`, `>`, `&` escaped, and surrogate pairs as raw UTF-8: an
// escaped pair is fatal in Perfetto.
class json_normaliser {
 public:
  json_normaliser(std::string& out, std::string_view valid_json) : out_(out), json_(valid_json) {}

  void run() {
    for (; at_ < json_.size(); ++at_) {
      const char c = json_[at_];
      if (c == '"')
        string();
      else if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
        out_ += c;
    }
  }

 private:
  // Leaves at_ on the closing quote.
  void string() {
    out_ += '"';
    for (++at_; json_[at_] != '"'; ++at_) {
      const char c = json_[at_];
      if (c == '\\') {
        escape();
      } else if (json_byte_of(c) == json_byte::escaped) {
        char buffer[6];
        out_.append(buffer, static_cast<std::size_t>(escape_json_byte(buffer, c) - buffer));
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }
  // Leaves at_ on the last byte of the escape.
  void escape() {
    const std::uint32_t unit = json_[at_ + 1] == 'u' ? code_unit(at_ + 2) : 0;
    if (unit < 0xd800 || unit >= 0xe000) {
      out_.append(json_, at_, 2);
      ++at_;
      return;
    }
    const std::uint32_t c = 0x10000u + ((unit - 0xd800u) << 10) + (code_unit(at_ + 8) - 0xdc00u);
    for (int shift = 18; shift >= 0; shift -= 6)
      out_ += static_cast<char>(shift == 18 ? 0xf0u | c >> 18 : 0x80u | (c >> shift & 0x3fu));
    at_ += 11;
  }
  [[nodiscard]] std::uint32_t code_unit(std::size_t at) const noexcept {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
      const auto c = static_cast<std::uint32_t>(static_cast<unsigned char>(json_[i]));
      value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20u) - 'a' + 10);
    }
    return value;
  }

  std::string& out_;
  std::string_view json_;
  std::size_t at_ = 0;
};

}  // namespace detail
STEPPROF_END_NAMESPACE
