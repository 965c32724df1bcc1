#include <string>

#include <stepprof/output/csv.hpp>

#include <support/catch.hpp>

namespace csv_test {
using namespace stepprof;

namespace {
std::string cell(const std::string& text) {
  std::string out;
  detail::append_csv_text(out, text);
  return out;
}
}  // namespace

// Catches: separators inside a cell that split it.
TEST_CASE("cells are quoted where they have to be", "[csv]") {
  CHECK(cell("aten::mm") == "aten::mm");
  CHECK(cell("") == "");
  CHECK(cell("[[64, 512], []]") == "\"[[64, 512], []]\"");
  CHECK(cell("say \"hi\"") == "\"say \"\"hi\"\"\"");
  CHECK(cell("a\nb\r\n") == "\"a\nb\r\n\"");
  CHECK(cell("semi;colon tab\t") == "semi;colon tab\t");
}

// Catches: a name that a spreadsheet runs as a formula; the quote in front of the apostrophe; digits taken for texts.
TEST_CASE("no cell begins a formula", "[csv]") {
  CHECK(cell("=cmd|'/C calc'!A0") == "'=cmd|'/C calc'!A0");
  CHECK(cell("+1") == "'+1");
  CHECK(cell("-1") == "'-1");
  CHECK(cell("@SUM(A1)") == "'@SUM(A1)");
  CHECK(cell("\t=1") == "'\t=1");
  CHECK(cell("\r=1") == "\"'\r=1\"");
  CHECK(cell("=1,2") == "\"'=1,2\"");
  CHECK(cell("a=1") == "a=1");
  detail::csv_lines lines;
  lines.integer("", -5);
  lines.none("");
  lines.text("", "x");
  lines.end_record();
  lines.integer("", INT64_MIN);
  lines.end_record();
  CHECK(lines.lines() == "-5,,x\r\n-9223372036854775808\r\n");
}

// Catches: bytes that are no UTF-8, or end a text in some readers.
TEST_CASE("broken bytes are replaced", "[csv]") {
  CHECK(cell("a\xff"
             "b\xc3") ==
        "a\xef\xbf\xbd"
        "b\xef\xbf\xbd");
  CHECK(cell(std::string("a\0b", 3)) ==
        "a\xef\xbf\xbd"
        "b");
  CHECK(cell("\xe4\xb8\xad") == "\xe4\xb8\xad");
}

}  // namespace csv_test
