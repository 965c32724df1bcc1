// Where UTF-8 sequences end and which of them are valid: the one definition that the JSON writer and scanner share.
#pragma once

#include <cstddef>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

struct utf8_sequence {
  std::size_t size;  // bytes used up, at least 1
  bool valid;
};

// The sequence at the beginning of [text, end), which is not empty. An invalid one is as long as the longest beginning
// of a valid sequence (at least one byte): what the Unicode standard, section 3.9, recommends to replace by one U+FFFD.
inline utf8_sequence utf8_sequence_at(const char* text, const char* end) noexcept {
  const auto lead = static_cast<unsigned char>(*text);
  if (lead < 0x80) return {1, true};
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  const std::size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  // The second byte also excludes overlong forms, surrogates and everything above U+10FFFF.
  unsigned low = lead == 0xe0 ? 0xa0u : lead == 0xf0 ? 0x90u : 0x80u;
  unsigned high = lead == 0xed ? 0x9fu : lead == 0xf4 ? 0x8fu : 0xbfu;
  for (std::size_t i = 1; i < size; ++i) {
    if (text + i == end) return {i, false};
    const unsigned next = static_cast<unsigned char>(text[i]);
    if (next < low || next > high) return {i, false};
    low = 0x80u;
    high = 0xbfu;
  }
  return {size, true};
}

}  // namespace detail
STEPPROF_END_NAMESPACE
