// A text as a JSON string, for the texts of a trace that are lists in JSON.
#pragma once

#include <string>
#include <string_view>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Appends it. Bytes beyond ASCII stay as they are, also where they are no UTF-8: those who show them replace them.
inline void quote_json(std::string& out, std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace detail

STEPPROF_END_NAMESPACE
