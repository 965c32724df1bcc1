// Text in SVG and HTML.
#pragma once

#include <string>
#include <string_view>

#include <stepprof/config.hpp>
#include <stepprof/output/utf8.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Any bytes as the text of an element or of a quoted attribute: nothing in it is markup, or a character that XML
// forbids.
inline std::string xml_text(std::string_view raw) {
  std::string text;
  const char* at = raw.data();
  const char* const end = at + raw.size();
  while (at != end) {
    const utf8_sequence sequence = utf8_sequence_at(at, end);
    const std::string_view bytes(at, sequence.size);
    const auto c = static_cast<unsigned char>(*at);
    at += sequence.size;
    if (!sequence.valid || bytes == "\xef\xbf\xbe" || bytes == "\xef\xbf\xbf")
      text += "\xef\xbf\xbd";
    else if (c < 0x20 || c == 0x7f)
      text += ' ';
    else if (c == '<')
      text += "&lt;";
    else if (c == '>')
      text += "&gt;";
    else if (c == '&')
      text += "&amp;";
    else if (c == '"')
      text += "&quot;";
    else if (c == '\'')
      text += "&#39;";
    else
      text += bytes;
  }
  return text;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
