// A text given by the user: a pointer and a length, made from anything that has both.
#pragma once

#include <cstddef>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

/// A text for the length of one call: made from a literal, a `const char*`, or anything with data() and size() such as
/// std::string and std::string_view. What is recorded is a copy, so temporaries are safe. Bytes of any value are
/// allowed.
struct text_ref {
  const char* data = "";
  std::size_t size = 0;

  constexpr text_ref() = default;
  constexpr text_ref(const char* text, std::size_t length) noexcept : data(text), size(length) {}
  // NOLINTNEXTLINE: implicit on purpose
  text_ref(const char* text) noexcept : data(text == nullptr ? "" : text), size(STEPPROF_STRLEN(data)) {}
  template <class Text,
            class = decltype(static_cast<const Text*>(nullptr)->data() + static_cast<const Text*>(nullptr)->size())>
  // NOLINTNEXTLINE: implicit on purpose
  text_ref(const Text& text) noexcept : data(text.data()), size(static_cast<std::size_t>(text.size())) {}
};

STEPPROF_END_NAMESPACE
