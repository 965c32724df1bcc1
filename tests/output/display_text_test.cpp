#include <string>
#include <string_view>

#include <support/catch.hpp>

#include <stepprof/output/display_text.hpp>

namespace display_text_test {

using namespace stepprof;
using detail::display_text;
using detail::display_width;

namespace {
const std::string bad = "\xef\xbf\xbd";  // U+FFFD
}

// Catches: control bytes, or characters that reorder a line, reaching the terminal. FC-29, FC-78
TEST_CASE("control characters are escaped", "[display_text]") {
  CHECK(display_text("a\tb\nc\rd") == "a\\tb\\nc\\rd");
  CHECK(display_text("\x1b[31mred") == "\\x1b[31mred");
  CHECK(display_text(std::string("\0", 1) + "\x7f") == "\\x00\\x7f");
  CHECK(display_text("\xc2\x9b"
                     "31m") == "\\x9b31m");          // the one-character escape sequence
  CHECK(display_text("\xe2\x80\xae") == "\\u202e");  // turns the rest of the line round
  CHECK(display_text("\xe2\x80\xa8") == "\\u2028");  // line separator
  CHECK(display_text("plain \"text\" \\ <b>") == "plain \"text\" \\ <b>");
  for (int byte = 0; byte < 256; ++byte)
    for (const char c : display_text(std::string("x") + static_cast<char>(byte) + "y"))
      CHECK((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
}

// Catches: invalid UTF-8 passed through, or valid text next to it swallowed. FC-41: nlohmann/json#1195
// One U+FFFD for each maximal beginning of a sequence: table 3-8 of the Unicode standard.
TEST_CASE("broken UTF-8 becomes U+FFFD", "[display_text]") {
  CHECK(display_text("a\x80z") == "a" + bad + "z");               // lone continuation
  CHECK(display_text("\xe4\xb8") == bad);                         // cut at the end
  CHECK(display_text("\xe4\xb8z") == bad + "z");                  // cut before a letter
  CHECK(display_text("\xed\xa0\x80") == bad + bad + bad);         // half of a surrogate pair
  CHECK(display_text("\xc0\xaf") == bad + bad);                   // overlong
  CHECK(display_text("\xf5\x80") == bad + bad);                   // beyond U+10FFFF
  CHECK(display_text("\xf4\x8f\xbf\xbf") == "\xf4\x8f\xbf\xbf");  // the last code point
  CHECK(display_text("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41") == bad + bad + bad + bad + "A");
  CHECK(display_text("\xef\xbf\xbe") == "\xef\xbf\xbe");  // a noncharacter is valid UTF-8
}

// Catches: widths counted in bytes or in code points.
TEST_CASE("widths are those of a terminal", "[display_text]") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("\xc3\xa9") == 1);                              // e acute
  CHECK(display_width("e\xcc\x81") == 1);                             // e and a combining acute
  CHECK(display_width("\xe4\xb8\xad\xe6\x96\x87") == 4);              // two ideographs
  CHECK(display_width("\xed\x95\x9c") == 2);                          // a syllable of Hangul ...
  CHECK(display_width("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab") == 2);  // ... and the same from its three letters
  CHECK(display_width("\xf0\x9f\x98\x80") == 2);                      // an emoji
  CHECK(display_width("\xef\xbc\xa1") == 2);                          // fullwidth A
  CHECK(display_width("\xef\xbd\xb1") == 1);                          // halfwidth katakana
  CHECK(display_width("\xe2\x80\x8b") == 0);                          // zero width space
  CHECK(display_width("\xc2\xad") == 1);                              // a soft hyphen is shown by terminals
  CHECK(display_width("\xf0\xa0\x80\x80") == 2);                      // an ideograph of plane 2
  CHECK(display_width(bad) == 1);
}

// Catches: a cut through a wide character or between a letter and its accent.
TEST_CASE("texts are cut between characters", "[display_text]") {
  using detail::first_columns;
  using detail::without_first_columns;
  CHECK(first_columns("abcdef", 3) == "abc");
  CHECK(first_columns("a\xe4\xb8\xad\xe6\x96\x87", 2) == "a");
  CHECK(first_columns("a\xe4\xb8\xad\xe6\x96\x87", 3) == "a\xe4\xb8\xad");
  CHECK(first_columns("e\xcc\x81x", 1) == "e\xcc\x81");
  CHECK(first_columns("abc", 10) == "abc");
  CHECK(without_first_columns("abcdef", 2) == "cdef");
  CHECK(without_first_columns("\xe4\xb8\xad\xe6\x96\x87x", 1) == "\xe6\x96\x87x");
  CHECK(without_first_columns("e\xcc\x81x", 1) == "x");
  CHECK(without_first_columns("abc", 5).empty());
}

}  // namespace display_text_test
