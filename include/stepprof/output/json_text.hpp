// Texts in JSON: escaped strings, and validated JSON in a form that every viewer reads.
#pragma once

#include <array>
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

// Whether eight bytes are plain, all at once: a table asked byte by byte takes five times as long.
inline bool are_plain(const char* eight) noexcept {
  constexpr std::uint64_t ones = 0x0101010101010101u;
  constexpr std::uint64_t highest = 0x80u * ones;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, eight, sizeof bytes);
  // Subtracting sets the highest bit of a byte that was 0 (too small). Beyond that it sets only those of bytes after
  // one that is not plain, or that are beyond ASCII.
  const auto equal = [=](std::uint64_t c) { return (bytes ^ c * ones) - ones; };
  const std::uint64_t escaped =
      equal('"') | equal('\\') | equal('<') | equal('>') | equal('&') | (bytes - 0x20u * ones);
  return ((escaped | bytes) & highest) == 0;
}

// Up to the first byte that is not plain.
inline const char* end_of_plain(const char* at, const char* end) noexcept {
  while (end - at >= 8 && are_plain(at)) at += 8;
  while (at != end && json_byte_of(*at) == json_byte::plain) ++at;
  return at;
}

// The inside of a JSON string, piece by piece, to `append(data, size)`.
template <class Append>
void escape_json(std::string_view text, Append&& append) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const char* run = at;
    at = end_of_plain(at, end);
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

// The same with its quotes to `out`, which has room for 6 times its size and 10 bytes more. Returns the end.
inline char* write_json_string(char* out, std::string_view text) {
  *out++ = '"';
  const char* at = text.data();
  const char* const end = at + text.size();
  for (; end - at >= 8 && are_plain(at); at += 8, out += 8) std::memcpy(out, at, 8);
  // The rest, with bytes that have been copied, as eight.
  const std::ptrdiff_t rest = end - at;
  if (rest < 8 && text.size() >= 8 && are_plain(end - 8)) {
    std::memcpy(out + rest - 8, end - 8, 8);
    at = end;
    out += rest;
  }
  for (; at != end && json_byte_of(*at) == json_byte::plain; ++at) *out++ = *at;
  if (at != end)
    escape_json({at, static_cast<std::size_t>(end - at)}, [&out](const char* data, std::size_t size) {
      std::memcpy(out, data, size);
      out += size;
    });
  *out++ = '"';
  return out;
}

inline void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  escape_json(text, [&out](const char* data, std::size_t size) { out.append(data, size); });
  out += '"';
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
