// Where a text that is too long is cut: at a character.
#pragma once

#include <cstddef>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// How much of a UTF-8 text fits into `limit` bytes without cutting a character.
[[nodiscard]] inline std::size_t cut_text(const char* text, std::size_t size, std::size_t limit) noexcept {
  if (size <= limit) return size;
  std::size_t cut = limit;
  while (cut > 0 && limit - cut < 4 && (static_cast<unsigned char>(text[cut]) & 0xc0u) == 0x80u) --cut;
  return limit - cut < 4 ? cut : limit;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
