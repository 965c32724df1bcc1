// Comma-separated values: cells that every reader splits alike and that no spreadsheet takes for a formula.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/output/utf8.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// A text as RFC 4180 wants it: quoted where it holds a comma, a quote or a line break, quotes doubled. A text that a
// spreadsheet would take for a formula gets an apostrophe in front, which it takes for "this is text"
// (https://owasp.org/www-community/attacks/CSV_Injection). Broken UTF-8 becomes U+FFFD, a zero byte, too.
inline void append_csv_text(std::string& out, std::string_view text) {
  const bool is_formula = !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
  const bool is_quoted = text.find_first_of(",\"\r\n") != std::string_view::npos;
  if (is_quoted) out += '"';
  if (is_formula) out += '\'';
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const utf8_sequence sequence = utf8_sequence_at(at, end);
    if (!sequence.valid || *at == '\0')
      out += "\xef\xbf\xbd";
    else
      out.append(at, sequence.size);
    if (*at == '"') out += '"';
    at += sequence.size;
  }
  if (is_quoted) out += '"';
}

// Cells, one record a line.
class csv_lines {
 public:
  void text(std::string_view, std::string_view value) {
    separate();
    append_csv_text(out_, value);
  }
  void integer(std::string_view, std::int64_t value) {
    separate();
    fmt::format_to(std::back_inserter(out_), "{}", value);
  }
  // A cell without a value.
  void none(std::string_view) { separate(); }
  void end_record() {
    out_ += "\r\n";
    is_first_ = true;
  }
  [[nodiscard]] std::string& lines() noexcept { return out_; }

 private:
  void separate() {
    if (!is_first_) out_ += ',';
    is_first_ = false;
  }
  std::string out_;
  bool is_first_ = true;
};

// The names of the columns, from any record.
class csv_header {
 public:
  explicit csv_header(csv_lines& lines) : lines_(lines) {}
  void text(std::string_view key, std::string_view) { lines_.text({}, key); }
  void integer(std::string_view key, std::int64_t) { lines_.text({}, key); }
  void none(std::string_view key) { lines_.text({}, key); }

 private:
  csv_lines& lines_;
};

}  // namespace detail
STEPPROF_END_NAMESPACE
