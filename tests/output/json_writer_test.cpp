#include <cmath>
#include <cstdlib>
#include <limits>
#include <locale>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <stepprof/output/json_scanner.hpp>
#include <stepprof/output/json_writer.hpp>

#include <support/catch.hpp>
#include <support/strict_json.hpp>

namespace json_writer_test {

using namespace stepprof;

namespace {

template <class Write>
std::string written(Write&& write) {
  std::string out;
  {
    string_sink sink(out);
    json_writer writer(sink);
    write(writer);
  }
  return out;
}
std::string string_of(std::string_view text) {
  return written([&](json_writer& w) { w.string(text); });
}
std::string real_of(double value) {
  return written([&](json_writer& w) { w.real(value); });
}
std::string time_of(std::int64_t ns) {
  return written([&](json_writer& w) { w.time_us(ns); });
}
std::string json_of(std::string_view text) {
  return written([&](json_writer& w) { w.json(text); });
}
const std::string bad = "\xef\xbf\xbd";  // U+FFFD

// A numpunct that would spoil every number printed through a locale.
struct strange_numbers : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

}  // namespace

// Catches: commas missing, doubled or after the last element.
TEST_CASE("the writer places commas", "[json_writer]") {
  CHECK(written([](json_writer& w) {
          w.begin_object();
          w.key("a");
          w.begin_array();
          w.end_array();
          w.key("b");
          w.begin_array();
          w.integer(1);
          w.begin_object();
          w.end_object();
          w.boolean(true);
          w.null();
          w.string("x");
          w.end_array();
          w.key("c");
          w.real(0.5);
          w.end_object();
        }) == R"({"a":[],"b":[1,{},true,null,"x"],"c":0.5})");
}

// FC-40: pytorch/kineto PR1459, pytorch/pytorch#98432, pytorch/pytorch#113001
// Catches: a byte that breaks the string it stands in, or comes back as another one.
TEST_CASE("every byte survives, alone and between letters", "[json_writer]") {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string alone(1, static_cast<char>(byte));
    for (const std::string& text : {alone, "a" + alone + "z", "\"}],{\"ph\":\"X" + alone}) {
      const std::string json = string_of(text);
      std::string expected = text;
      if (byte >= 0x80) expected.replace(expected.find(alone), 1, bad);
      CHECK(nlohmann::json::parse(json).get<std::string>() == expected);
      const test::json_document document = test::strict_json::parse(json);
      CHECK(document.ok());
      CHECK(document.root.text == expected);
    }
  }
  CHECK(string_of("<&>") == R"("\u003C\u0026\u003E")");
  CHECK(string_of("\"\\/\n\r\t\b") == R"("\"\\/\n\r\t\u0008")");
  CHECK(string_of(std::string_view("\0", 1)) == R"("\u0000")");
}

// FC-41: google/perfetto#598, pytorch/pytorch#130622, pytorch/pytorch#136180, nlohmann/json#1195,
// g4klx/MMDVM-Host PR891
// Catches: more or fewer replacements than the Unicode standard recommends (its table 3-8 and the rows before it).
TEST_CASE("each maximal invalid subpart becomes one U+FFFD", "[json_writer]") {
  const auto inside = [](std::string_view text) {
    const std::string json = string_of(text);
    return json.substr(1, json.size() - 2);
  };
  CHECK(inside("\xc0\xaf") == bad + bad);  // overlong
  CHECK(inside("\xe0\x80\xaf") == bad + bad + bad);
  CHECK(inside("\xf0\x80\x80\xaf") == bad + bad + bad + bad);
  CHECK(inside("\xed\xa0\x80\xed\xbf\xbf\xed\xaf") == bad + bad + bad + bad + bad + bad + bad + bad);  // surrogates
  CHECK(inside("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42") == bad + bad + bad + bad + bad + "A" + bad + bad + "B");
  CHECK(inside("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41") == bad + bad + bad + bad + "A");  // truncated
  CHECK(inside("a\xe2\x82") == "a" + bad);
  CHECK(inside("a\xf0\x9f\x98") == "a" + bad);
  CHECK(inside("\xf5") == bad);
  CHECK(inside("\x80") == bad);
  // Valid and to be kept, raw: the borders of each length, noncharacters, line separators, an emoji.
  for (const char* text : {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
                           "\xef\xb7\x90", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\xe2\x80\xa8", "\xf0\x9f\x98\x80"})
    CHECK(inside(text) == text);
}

// Catches: texts that cross the end of the buffer, or are longer than it.
TEST_CASE("long texts are written whole", "[json_writer]") {
  for (const std::size_t size : {262143u, 262144u, 262145u, 1000000u}) {
    std::string text(size, 'x');
    text.back() = '"';
    text += "\xf0\x9f\x98\x80";
    CHECK(nlohmann::json::parse(string_of(text)).get<std::string>() == text);
    CHECK(json_of('"' + std::string(size, 'y') + '"').size() == size + 2);
  }
}

// Catches: a time in floating point, without its three decimals, or wrong at the ends of the range.
TEST_CASE("times are microseconds with three decimals", "[json_writer]") {
  CHECK(time_of(0) == "0.000");
  CHECK(time_of(1) == "0.001");
  CHECK(time_of(10) == "0.010");
  CHECK(time_of(999) == "0.999");
  CHECK(time_of(1000) == "1.000");
  CHECK(time_of(123456789) == "123456.789");
  CHECK(time_of(-1) == "-0.001");
  CHECK(time_of(-1500) == "-1.500");
  CHECK(time_of(INT64_MAX) == "9223372036854775.807");
  CHECK(time_of(INT64_MIN) == "-9223372036854775.808");
}

// Catches: digits lost or swapped in the hand-made conversion of integers.
TEST_CASE("integers are exact, beyond 64 bits signed as text", "[json_writer]") {
  const auto integer = [](std::int64_t v) { return written([&](json_writer& w) { w.integer(v); }); };
  const auto positive = [](std::uint64_t v) { return written([&](json_writer& w) { w.unsigned_integer(v); }); };
  std::uint64_t power = 1;
  std::string text = "1";
  for (int i = 0; i < 19; ++i, power *= 10, text += '0') {
    CHECK(integer(static_cast<std::int64_t>(power)) == text);
    CHECK(integer(-static_cast<std::int64_t>(power)) == "-" + text);
    CHECK(integer(static_cast<std::int64_t>(power - 1)) ==
          (i == 0 ? "0" : std::string(static_cast<std::size_t>(i), '9')));
  }
  CHECK(integer(1234567) == "1234567");
  CHECK(integer(INT64_MIN) == "-9223372036854775808");
  CHECK(positive(9223372036854775807u) == "9223372036854775807");
  CHECK(positive(9223372036854775808u) == "\"9223372036854775808\"");
  CHECK(positive(UINT64_MAX) == "\"18446744073709551615\"");
}

// FC-44: pytorch/kineto#105, MobileNativeFoundation/bluepill#437, apitrace/apitrace#339
// Catches: NaN and infinity as bare words, a double that does not read back, more decimals than Perfetto can take.
TEST_CASE("doubles are shortest, read back the same and stay readable", "[json_writer]") {
  CHECK(real_of(std::nan("")) == "\"NaN\"");
  CHECK(real_of(std::numeric_limits<double>::infinity()) == "\"Infinity\"");
  CHECK(real_of(-std::numeric_limits<double>::infinity()) == "\"-Infinity\"");
  CHECK(real_of(0.0) == "0.0");
  CHECK(real_of(-0.0) == "-0.0");
  CHECK(real_of(1) == "1.0");
  CHECK(real_of(static_cast<double>(0.1f)) == "0.10000000149011612");
  CHECK(real_of(0.001) == "0.001");
  CHECK(real_of(0.00025) == "2.5e-04");
  CHECK(real_of(1e15) == "1e+15");
  CHECK(real_of(999999999999999.0) == "999999999999999.0");
  CHECK(real_of(1e308) == "1e+308");
  CHECK(real_of(5e-324) == "5e-324");
  CHECK(real_of(0.0012345678901234567) == "1.2345678901234567e-03");  // 19 decimals otherwise
  std::uint64_t state = 88172645463325252u;
  for (int i = 0; i < 20000; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    double value;
    std::memcpy(&value, &state, sizeof value);
    if (i % 2 != 0) value = std::ldexp(static_cast<double>(state >> 11), static_cast<int>(state % 120) - 90);
    if (!std::isfinite(value)) continue;
    const std::string text = real_of(value);
    REQUIRE(std::strtod(text.c_str(), nullptr) == value);
    const std::size_t point = text.find('.');
    const std::size_t decimals = point == std::string::npos ? 0 : (std::min)(text.find('e'), text.size()) - point - 1;
    REQUIRE(decimals <= 17);
    REQUIRE(is_valid_json(text));
  }
}

// FC-45: akheron/jansson#32, Tencent/rapidjson#72, tgockel/json-voorhees#34, sysstat/sysstat#128
// Catches: numbers printed through a locale.
TEST_CASE("no locale changes a number", "[json_writer]") {
  const auto all = [] { return real_of(1234567.25) + time_of(1234567891) + string_of("\xc3\xa9"); };
  const std::string expected = all();
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new strange_numbers));
  const std::string under_strange = all();
  std::locale::global(before);
  CHECK(under_strange == expected);
  CHECK(expected == "1234567.251234567.891\"\xc3\xa9\"");
}

// Catches: users' JSON put in with what a viewer cannot read, or invalid JSON put in at all.
TEST_CASE("given JSON is normalised, or quoted when it is not JSON", "[json_writer]") {
  CHECK(json_of(" { \"a\" : [ 1 , 2.50 , \"x y\" ] }\n") == R"({"a":[1,2.50,"x y"]})");
  CHECK(json_of("\"\\ud83d\\uDE00\"") == "\"\xf0\x9f\x98\x80\"");
  CHECK(json_of("\"\\u00e9\\n\\\\\\\"\"") == "\"\\u00e9\\n\\\\\\\"\"");
  CHECK(json_of("\"</x>&\"") == R"("\u003C/x\u003E\u0026")");
  CHECK(json_of("{\"a\":}") == R"("{\"a\":}")");
  CHECK(json_of("") == "\"\"");
  CHECK(json_of("1],\"x\":[2") == R"("1],\"x\":[2")");
}

// Catches: a scanner that accepts what a strict reader refuses, or the other way round.
TEST_CASE("the scanner knows RFC 8259", "[json_scanner]") {
  for (const char* text : {"0",
                           "-0",
                           "-0.0e+00",
                           "1e308",
                           "1.7976931348623157e308",
                           "[]",
                           "{}",
                           "[[[]]]",
                           "{\"a\":{\"b\":[1,2]}}",
                           " true ",
                           "null\n",
                           "false",
                           "\"\"",
                           "\"\\u0000\\\"\\/\"",
                           "\"\xf0\x9f\x98\x80\"",
                           "\"\\ud83d\\ude00\"",
                           "\"\x7f\"",
                           "[1,\t2\r\n]",
                           "1E5",
                           "0.5",
                           "1e-999",
                           "0e999999999999999999",
                           "{\"\":0,\"\":1}"}) {
    CAPTURE(text);
    CHECK(is_valid_json(text));
    CHECK(nlohmann::json::accept(text));
  }
  for (const char* text : {"",
                           " ",
                           "01",
                           "-",
                           "+1",
                           ".5",
                           "5.",
                           "1e",
                           "1e+",
                           "0x1",
                           "NaN",
                           "nan",
                           "Infinity",
                           "-Infinity",
                           "tru",
                           "True",
                           "truee",
                           "nul",
                           "[",
                           "]",
                           "[1",
                           "[1,",
                           "[1,]",
                           "[,1]",
                           "[1 2]",
                           "{",
                           "}",
                           "{\"a\"",
                           "{\"a\":",
                           "{\"a\":1",
                           "{\"a\":1,",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{'a':1}",
                           "{1:1}",
                           "{\"a\" 1}",
                           "[1}",
                           "{\"a\":1]",
                           "1 2",
                           "[] []",
                           "\"",
                           "\"a",
                           "\"\\",
                           "\"\\\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\t\"",
                           "\"\n\"",
                           "'a'",
                           "// c\n1",
                           "/**/1",
                           "\"\xff\"",
                           "\"\xc0\xaf\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xe2\x82\"",
                           "1\f",
                           "1e309",
                           "-1e309",
                           "1.7976931348623159e308",
                           "0.1e310",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\ud800\"",
                           "\"\\ud800x\"",
                           "\"\\ud800\\n\"",
                           "\"\\ud800\\ue000\"",
                           "\"\\u00:0\"",
                           "\"\\u00G0\"",
                           "\"\\u00/0\"",
                           "{\"\\q\":1}",
                           "{\"a\tb\":1}"}) {
    CAPTURE(text);
    CHECK_FALSE(is_valid_json(text));
    CHECK_FALSE(nlohmann::json::accept(text));
  }
  CHECK_FALSE(
      is_valid_json("\xef\xbb\xbf"
                    "1"));  // a byte order mark, which nlohmann_json skips
  CHECK(is_valid_json("17976931348623157" + std::string(292, '0')));
  CHECK_FALSE(is_valid_json("17976931348623159" + std::string(292, '0')));
  // The first number that rounds to infinity is 2^1024 - 2^970, whose digits these are.
  const std::string first_infinite =
      "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070963"
      "3028641669288791094655554785194040263065748867150582068190890200070838367627385484581771153176447573027"
      "0069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792";
  for (const std::string& text :
       {std::string("1.797693134862315807937e308"), std::string("1.7976931348623158079372e308"),
        first_infinite.substr(0, 307) + "91", first_infinite.substr(0, 307) + "91.99"}) {
    CHECK(is_valid_json(text));
    CHECK(nlohmann::json::accept(text));
  }
  for (const std::string& text :
       {std::string("1.797693134862315807938e308"), std::string("1.797693134862315807937290e308"), first_infinite,
        first_infinite + ".5", first_infinite.substr(0, 307) + "93"}) {
    CHECK_FALSE(is_valid_json(text));
    CHECK_FALSE(nlohmann::json::accept(text));
  }
  CHECK(is_valid_json("\t[\r1\t,\n2 ]\r"));
  CHECK_FALSE(is_valid_json(std::string_view("1\0", 2)));
  CHECK_FALSE(is_valid_json(std::string_view("\"\0\"", 3)));
}

// Catches: a message without place, or recursion that ends the program on deep input.
TEST_CASE("the scanner tells where and is not exhausted by depth", "[json_scanner]") {
  CHECK(find_json_fault("{\"a\":tru}").offset == 5);
  CHECK(std::string(find_json_fault("{\"a\":tru}").reason) == "a value is missing");
  CHECK(is_valid_json(std::string(512, '[') + std::string(512, ']')));
  CHECK_FALSE(is_valid_json(std::string(513, '[') + std::string(513, ']')));
  CHECK_FALSE(is_valid_json(std::string(1000000, '[')));
  CHECK_FALSE(is_valid_json(std::string(1000000, '{')));
}

}  // namespace json_writer_test
