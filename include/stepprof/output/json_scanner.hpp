// A strict JSON scanner: decides whether text given by users may be put into a file as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <stepprof/config.hpp>
#include <stepprof/output/utf8.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What is wrong with a JSON text, and where.
struct json_fault {
  const char* reason = nullptr;  ///< A part of a sentence, e.g. "a value is missing"; nullptr: nothing is wrong.
  std::size_t offset = 0;        ///< In bytes.
  explicit operator bool() const noexcept { return reason != nullptr; }
};

/// Objects and arrays nested deeper than this are refused, as other readers recurse.
inline constexpr std::size_t max_json_depth = 512;

/// The first fault of a text that should be exactly one JSON value by RFC 8259, in valid UTF-8.
///
/// Refused beyond the grammar, as common readers refuse the whole file for it: a lone half of a surrogate pair, and a
/// number that no double can hold. Equal keys in one object are accepted. Linear time, no recursion, no allocation.
/// Any thread.
[[nodiscard]] json_fault find_json_fault(std::string_view text) noexcept;

/// True when find_json_fault() finds nothing.
[[nodiscard]] inline bool is_valid_json(std::string_view text) noexcept {
  return !find_json_fault(text);
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

class json_scanner {
 public:
  explicit json_scanner(std::string_view text) : begin_(text.data()), at_(begin_), end_(begin_ + text.size()) {}

  json_fault run() noexcept {
    const char* reason = scan();
    return {reason, static_cast<std::size_t>(at_ - begin_)};
  }

 private:
  // Each function moves at_ on and returns what is wrong, nullptr when nothing is.
  const char* scan() noexcept {
    for (;;) {
      bool opened = false;
      if (const char* fault = value(opened)) return fault;
      if (opened) continue;
      bool more = false;
      if (const char* fault = after_value(more)) return fault;
      if (!more) return nullptr;
    }
  }

  // A value, or the opening of one that is not empty; then its first element is due (`opened`).
  const char* value(bool& opened) noexcept {
    skip_space();
    if (at_ == end_) return "a value is missing";
    switch (*at_) {
      case '{':
        return open(true, opened);
      case '[':
        return open(false, opened);
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }
  const char* open(bool object, bool& opened) noexcept {
    if (depth_ == max_json_depth) return "it is nested too deeply";
    const std::uint64_t bit = std::uint64_t{1} << depth_ % 64;
    std::uint64_t& bits = objects_[depth_ / 64];
    bits = object ? bits | bit : bits & ~bit;
    ++depth_;
    ++at_;
    skip_space();
    if (at_ != end_ && *at_ == (object ? '}' : ']')) {
      ++at_;
      --depth_;
      return nullptr;
    }
    opened = true;
    return object ? key() : nullptr;
  }
  // What stands between a value and the next; closes what ends here. `more`: another value is due.
  const char* after_value(bool& more) noexcept {
    for (;;) {
      skip_space();
      if (depth_ == 0) return at_ == end_ ? nullptr : "something follows the value";
      if (at_ == end_) return "a closing bracket is missing";
      const bool object = (objects_[(depth_ - 1) / 64] >> (depth_ - 1) % 64 & 1u) != 0;
      if (*at_ == ',') {
        ++at_;
        more = true;
        return object ? key() : nullptr;
      }
      if (*at_ != (object ? '}' : ']')) return "a comma or a closing bracket is missing";
      ++at_;
      --depth_;
    }
  }
  const char* key() noexcept {
    skip_space();
    if (at_ == end_ || *at_ != '"') return "a key in quotes is missing";
    if (const char* fault = string()) return fault;
    skip_space();
    if (at_ == end_ || *at_ != ':') return "a colon is missing";
    ++at_;
    return nullptr;
  }
  const char* word(std::string_view expected) noexcept {
    if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, expected.size()) != expected)
      return "a value is missing";
    at_ += expected.size();
    return nullptr;
  }

  const char* string() noexcept {
    for (++at_; at_ != end_;) {
      const auto c = static_cast<unsigned char>(*at_);
      if (c == '"') {
        ++at_;
        return nullptr;
      }
      if (c < 0x20) return "a control character is not escaped";
      if (c == '\\') {
        if (const char* fault = escape()) return fault;
        continue;
      }
      const utf8_sequence sequence = utf8_sequence_at(at_, end_);
      if (!sequence.valid) return "the text is not valid UTF-8";
      at_ += sequence.size;
    }
    return "a closing quote is missing";
  }
  const char* escape() noexcept {
    if (end_ - at_ < 2) return "a closing quote is missing";
    if (at_[1] != 'u') {
      if (std::string_view("\"\\/bfnrt").find(at_[1]) == std::string_view::npos) return "an escape is unknown";
      at_ += 2;
      return nullptr;
    }
    const int unit = code_unit(at_);
    if (unit < 0) return "\\u needs four hexadecimal digits";
    if (unit >= 0xd800 && unit < 0xe000) {
      const int low = unit < 0xdc00 ? code_unit(at_ + 6) : -1;
      if (low < 0xdc00 || low >= 0xe000) return "half of a surrogate pair stands alone";
      at_ += 6;
    }
    at_ += 6;
    return nullptr;
  }
  // The value of "\uXXXX" at `p`, -1 when there is none.
  [[nodiscard]] int code_unit(const char* p) const noexcept {
    if (end_ - p < 6 || p[0] != '\\' || p[1] != 'u') return -1;
    int value = 0;
    for (int i = 2; i < 6; ++i) {
      const char c = p[i];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return -1;
      value = value * 16 + digit;
    }
    return value;
  }

  const char* number() noexcept {
    const char* start = at_;
    if (*at_ == '-') ++at_;
    if (!digit()) {
      at_ = start;
      return "a value is missing";
    }
    magnitude size;
    if (*at_ == '0') {
      ++at_;
      if (digit()) return "a number begins with 0";
    }
    for (; digit(); ++at_) size.integer_digit(*at_);
    if (at_ != end_ && *at_ == '.') {
      ++at_;
      if (!digit()) return "a digit is missing after the decimal point";
      for (; digit(); ++at_) size.fraction_digit(*at_);
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      ++at_;
      const bool negative = at_ != end_ && *at_ == '-';
      if (at_ != end_ && (*at_ == '-' || *at_ == '+')) ++at_;
      if (!digit()) return "a digit is missing in the exponent";
      std::int64_t exponent = 0;
      for (; digit(); ++at_)
        if (exponent < 1000000000000000) exponent = exponent * 10 + (*at_ - '0');
      size.exponent += negative ? -exponent : exponent;
    }
    if (!size.fits_a_double()) return "a number is too large";
    return nullptr;
  }
  [[nodiscard]] bool digit() const noexcept { return at_ != end_ && *at_ >= '0' && *at_ <= '9'; }

  // Decides without converting whether a number stays below the first one that rounds to infinity.
  struct magnitude {
    // The digits of 2^1024 - 2^970, the first number that rounds to infinity. The last is not 0: what stops short is
    // less.
    static constexpr std::string_view limit =
        "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070963"
        "3028641669288791094655554785194040263065748867150582068190890200070838367627385484581771153176447573027"
        "0069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792";
    std::int64_t exponent = -1;  // of the first digit that counts, in scientific notation
    bool started = false;
    int order = 0;  // the digits so far against the limit: -1 below, 0 equal, 1 above
    std::size_t digits = 0;

    void integer_digit(char c) noexcept {
      if (c != '0' || started) ++exponent;
      take(c);
    }
    void fraction_digit(char c) noexcept {
      if (!started && c == '0') --exponent;
      take(c);
    }
    void take(char c) noexcept {
      started = started || c != '0';
      if (!started) return;
      if (order == 0 && digits < limit.size()) order = c < limit[digits] ? -1 : c > limit[digits] ? 1 : 0;
      ++digits;
    }
    [[nodiscard]] bool fits_a_double() const noexcept {
      if (!started || exponent < 308) return true;
      return exponent == 308 && (order < 0 || (order == 0 && digits < limit.size()));
    }
  };

  void skip_space() noexcept {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  std::size_t depth_ = 0;
  std::uint64_t objects_[max_json_depth / 64] = {};  // one bit per open bracket: it is an object
};

}  // namespace detail

inline json_fault find_json_fault(std::string_view text) noexcept {
  return detail::json_scanner(text).run();
}

STEPPROF_END_NAMESPACE
