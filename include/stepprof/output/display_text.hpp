// Any bytes as text that is safe to print: control characters escaped, broken UTF-8 replaced, its width known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <stepprof/output/display_width.hpp>
#include <stepprof/output/utf8.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// "1 thread", "2 threads".
template <class Number>
std::string counted(Number count, std::string_view what) {
  return std::to_string(count).append(" ").append(what).append(count == 1 ? "" : "s");
}

struct decoded_character {
  std::uint32_t code_point = 0xfffd;
  std::size_t bytes = 1;  // how many were used up
  bool valid = false;
};

// Decodes the first character of a text that is not empty.
inline decoded_character decode_utf8(std::string_view text) noexcept {
  const utf8_sequence sequence = utf8_sequence_at(text.data(), text.data() + text.size());
  if (!sequence.valid) return {0xfffd, sequence.size, false};
  const auto bits = [text](std::size_t i, unsigned mask) { return static_cast<unsigned char>(text[i]) & mask; };
  std::uint32_t code_point = bits(0, sequence.size == 1 ? 0x7fu : 0x7fu >> sequence.size);
  for (std::size_t i = 1; i < sequence.size; ++i) code_point = code_point << 6 | bits(i, 0x3fu);
  return {code_point, sequence.size, true};
}

// Control characters, and those that reorder or break a line: they would move text out of its column.
inline bool must_be_escaped(std::uint32_t c) noexcept {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0x200e || c == 0x200f ||
         c == 0x61c || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

inline void append_escaped(std::string& out, std::uint32_t c) {
  switch (c) {
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      break;
  }
  constexpr char digits[] = "0123456789abcdef";
  const bool is_byte = c < 0x100;
  out += is_byte ? "\\x" : "\\u";
  for (int shift = is_byte ? 4 : 12; shift >= 0; shift -= 4) out += digits[(c >> shift) & 15u];
}

// Nearly every text: printed as it is, one column per byte.
inline bool is_plain(std::string_view text) noexcept {
  for (const char c : text)
    if (c < 0x20 || c > 0x7e) return false;
  return true;
}

// A text that is safe to print.
inline std::string display_text(std::string_view raw) {
  if (is_plain(raw)) return std::string(raw);
  std::string out;
  out.reserve(raw.size());
  while (!raw.empty()) {
    const decoded_character c = decode_utf8(raw);
    if (!c.valid)
      out += "\xef\xbf\xbd";
    else if (must_be_escaped(c.code_point))
      append_escaped(out, c.code_point);
    else
      out.append(raw.substr(0, c.bytes));
    raw.remove_prefix(c.bytes);
  }
  return out;
}

// Columns of a text made by display_text().
inline std::size_t display_width(std::string_view text) noexcept {
  if (is_plain(text)) return text.size();
  std::size_t width = 0;
  while (!text.empty()) {
    const decoded_character c = decode_utf8(text);
    width += code_point_width(c.code_point);
    text.remove_prefix(c.bytes);
  }
  return width;
}

// Columns that any text will take.
inline std::size_t shown_width(std::string_view raw) {
  return is_plain(raw) ? raw.size() : display_width(display_text(raw));
}

// The longest beginning of a text that fits into `columns`. Marks that join the last character stay with it.
inline std::string_view first_columns(std::string_view text, std::size_t columns) noexcept {
  std::size_t end = 0;
  for (std::size_t width = 0; end < text.size();) {
    const decoded_character c = decode_utf8(text.substr(end));
    width += code_point_width(c.code_point);
    if (width > columns) break;
    end += c.bytes;
  }
  return text.substr(0, end);
}

// The shortest end of a text that leaves out at least `columns`; marks whose character was left out go with it.
inline std::string_view without_first_columns(std::string_view text, std::size_t columns) noexcept {
  std::size_t width = 0;
  while (!text.empty()) {
    const decoded_character c = decode_utf8(text);
    const std::size_t w = code_point_width(c.code_point);
    if (width >= columns && w != 0) break;
    width += w;
    text.remove_prefix(c.bytes);
  }
  return text;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
