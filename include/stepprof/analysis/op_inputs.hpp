// The inputs of one call, from the texts that a trace keeps of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

/// One input of an operation.
struct op_input {
  std::vector<std::int64_t> sizes;                 ///< Extents of a tensor, in elements; empty: a scalar, or none.
  std::vector<std::vector<std::int64_t>> tensors;  ///< Of a list of tensors: the sizes of each.
  bool is_list = false;                            ///< A list of tensors.
  std::string type;                                ///< "float", "Scalar", "ScalarList" ...; empty: not known.
  std::string value;                               ///< Of a scalar or a list of scalars: "2.5", "True", "[1, 1]".

  /// The product of the sizes; none when it is negative or beyond 2^63 - 1.
  [[nodiscard]] std::optional<std::int64_t> elements() const noexcept;
  /// `value` as whole numbers: a list of them or one; none when it is anything else.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers() const;
};

/// The inputs of a call, in order; empty when they were not recorded.
[[nodiscard]] std::vector<op_input> inputs_of(const trace& source, const event_detail& detail);

/// The product of two numbers from 0 on; none when it is beyond 2^63 - 1 or one is none or negative. For formulas.
[[nodiscard]] constexpr std::optional<std::int64_t> checked_product(std::optional<std::int64_t> a,
                                                                    std::optional<std::int64_t> b) noexcept {
  if (!a || !b || *a < 0 || *b < 0) return std::nullopt;
  if (*b != 0 && *a > INT64_MAX / *b) return std::nullopt;
  return *a * *b;
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// Reads lists of lists of numbers and texts as traces hold them. What makes no sense ends the reading.
class list_text {
 public:
  explicit list_text(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] bool next_is(char c) {
    skip_blanks();
    return at_ < text_.size() && text_[at_] == c;
  }
  [[nodiscard]] bool is_at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  std::optional<std::int64_t> number() {
    skip_blanks();
    const bool is_negative = take('-');
    if (at_ == text_.size() || !is_digit(text_[at_])) return std::nullopt;
    std::int64_t value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (value > (INT64_MAX - 9) / 10) return std::nullopt;
      value = value * 10 + (text_[at_] - '0');
    }
    return is_negative ? -value : value;
  }
  // Types and values hold no escapes but in names that no formula knows.
  std::optional<std::string> quoted() {
    if (!take('"')) return std::nullopt;
    std::string result;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      result += text_[at_];
    }
    return take('"') ? std::optional<std::string>(std::move(result)) : std::nullopt;
  }
  // [element, element ...]
  template <class Element>
  bool list(Element&& element) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!element()) return false;
    } while (take(','));
    return take(']');
  }
  bool numbers(std::vector<std::int64_t>& to) {
    return list([&] {
      const std::optional<std::int64_t> value = number();
      if (value) to.push_back(*value);
      return value.has_value();
    });
  }

 private:
  static bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

// One element of the sizes: [2, 3], or of a list of tensors [[2, 3], [4]].
inline bool read_sizes(list_text& text, op_input& input) {
  list_text ahead = text;
  input.is_list = ahead.take('[') && ahead.next_is('[');
  if (!input.is_list) return text.numbers(input.sizes);
  return text.list([&] { return text.numbers(input.tensors.emplace_back()); });
}

inline std::vector<std::string> read_texts(std::string_view text) {
  std::vector<std::string> result;
  list_text reader(text);
  reader.list([&] {
    std::optional<std::string> element = reader.quoted();
    if (element) result.push_back(std::move(*element));
    return element.has_value();
  });
  return result;
}

}  // namespace detail

inline std::optional<std::int64_t> op_input::elements() const noexcept {
  std::optional<std::int64_t> product = 1;
  for (const std::int64_t size : sizes) product = checked_product(product, size);
  return product;
}

inline std::optional<std::vector<std::int64_t>> op_input::integers() const {
  detail::list_text text(value);
  std::vector<std::int64_t> result;
  if (text.next_is('[')) {
    if (!text.numbers(result)) return std::nullopt;
  } else {
    const std::optional<std::int64_t> number = text.number();
    if (!number) return std::nullopt;
    result.push_back(*number);
  }
  if (!text.is_at_end()) return std::nullopt;
  return result;
}

inline std::vector<op_input> inputs_of(const trace& source, const event_detail& detail) {
  std::vector<op_input> result;
  detail::list_text sizes(source.text(detail.input_dims));
  if (!sizes.list([&] { return detail::read_sizes(sizes, result.emplace_back()); })) return {};
  std::vector<std::string> types = detail::read_texts(source.text(detail.input_types));
  std::vector<std::string> values = detail::read_texts(source.text(detail.concrete_inputs));
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (i < types.size()) result[i].type = std::move(types[i]);
    if (i < values.size()) result[i].value = std::move(values[i]);
  }
  return result;
}

STEPPROF_END_NAMESPACE
