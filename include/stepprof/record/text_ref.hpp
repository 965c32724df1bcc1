// A text given by the user: a pointer and a length, made from anything that has both.
#pragma once

#include <cstddef>

#include <stepprof/config.hpp>
#include <stepprof/core/cut_text.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {
const char* characters_of(const char*) noexcept;  // only to ask whether something is one
}  // namespace detail

/// A text for the length of one call: made from a literal, a `const char*`, or anything with size() and with data() of
/// chars, such as std::string and std::string_view. What is recorded is a copy, so temporaries are safe. Bytes of any
/// value are allowed. The length of a `const char*` is measured only when the text is recorded.
class text_ref {
 public:
  constexpr text_ref() = default;
  constexpr text_ref(const char* text, std::size_t length) noexcept : data_(text), length_(length) {}
  // NOLINTNEXTLINE: implicit on purpose
  constexpr text_ref(const char* text) noexcept : data_(text), length_(unmeasured) {}
  template <class Text, class = decltype(detail::characters_of(static_cast<const Text*>(nullptr)->data()) +
                                         static_cast<const Text*>(nullptr)->size())>
  // NOLINTNEXTLINE: implicit on purpose
  text_ref(const Text& text) noexcept : data_(text.data()), length_(static_cast<std::size_t>(text.size())) {}

  [[nodiscard]] const char* data() const noexcept { return data_ == nullptr ? "" : data_; }
  [[nodiscard]] std::size_t size() const noexcept {
    if (length_ != unmeasured) return length_;
    return data_ == nullptr ? 0 : STEPPROF_STRLEN(data_);
  }

 private:
  static constexpr std::size_t unmeasured = ~std::size_t{0};
  const char* data_ = "";
  std::size_t length_ = 0;
};

namespace detail {

inline std::size_t size_within(const text_ref& text, std::size_t limit) noexcept {
  return cut_text(text.data(), text.size(), limit);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
