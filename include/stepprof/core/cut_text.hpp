// Where a text is cut that is too long.
#pragma once

#include <cstddef>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// How much of a text fits into `limit` bytes without cutting a character of UTF-8.
[[nodiscard]] inline std::size_t cut_text(const char* text, std::size_t size, std::size_t limit) noexcept {
  if (size <= limit) return size;
  std::size_t cut = limit;
  while (cut > 0 && limit - cut < 4 && (static_cast<unsigned char>(text[cut]) & 0xc0u) == 0x80u) --cut;
  return limit - cut < 4 ? cut : limit;  // else it is no UTF-8
}

}  // namespace detail

STEPPROF_END_NAMESPACE
