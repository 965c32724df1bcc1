#include <algorithm>
#include <locale>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <stepprof/output/folded_stacks.hpp>

#include <support/catch.hpp>
#include <support/comma_locale.hpp>
#include <support/event_builder.hpp>
#include <support/skip.hpp>
#include <support/temp_folder.hpp>

namespace folded_stacks_test {

using namespace stepprof;

namespace {

std::string folded(const trace& t, const std::string& metric = "self_cpu_time_total") {
  std::error_code ec;
  std::string text = folded_stacks(t, metric, ec);
  CHECK_FALSE(ec);
  return text;
}

}  // namespace

// FC-76: google/pprof PR669, brendangregg/FlameGraph#214, brendangregg/FlameGraph#192, pytorch/pytorch#73556
// Catches: weights that do not add up to the self times, equal stacks on two lines, lines without weight.
TEST_CASE("each stack is a line with its self time", "[folded_stacks]") {
  CHECK(folded(test::events("t1: f[0..10]{ g[2..6]{ f[2..6] } g[6..8] }; t2: f[0..5]{ h[0..5] } f[7..8]")) ==
        "f 5\n"  // 10 - 4 - 2, and 1 on the second thread; the other one has none left
        "f;g 2\n"
        "f;g;f 4\n"
        "f;h 5\n");
}

// FC-76.
// Catches: names that break the format of the line.
TEST_CASE("any name makes one well formed line", "[folded_stacks]") {
  const std::vector<std::pair<std::string, std::string>> names = {{"a;b", "a:b"},
                                                                  {"a b", "a b"},
                                                                  {"a\nb\tc", "a b c"},
                                                                  {"std::map<int, f()>", "std::map<int, f()>"},
                                                                  {"trailing 12", "trailing 12"},
                                                                  {"", "(no name)"},
                                                                  {"\xff", "\xef\xbf\xbd"},
                                                                  {std::string("\0\x7f", 2), "  "}};
  trace_builder b;
  b.add_process({});
  b.add_track({});
  std::uint32_t parent = npos;
  std::string expected, line;
  for (std::size_t i = 0; i < names.size(); ++i) {
    trace_event e;
    e.name = b.intern(names[i].first);
    e.parent = parent;
    e.end_ns = static_cast<std::int64_t>(names.size() - i);
    parent = b.add_event(e);
    line += (i == 0 ? "" : ";") + names[i].second;
    expected += line + " 1\n";
  }
  CHECK(folded(b.finish()) == expected);
}

// Catches: weights with the thousands signs of a locale. FC-45: sysstat/sysstat#128
TEST_CASE("the locale changes no weight", "[folded_stacks]") {
  struct grouping : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const trace t = test::events("t1: f[0..1234567890]{ g[0..1000000000] }");
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new grouping));
  std::optional<test::comma_locale> comma(std::in_place);
  const bool has_comma = test::comma_locale::active();
  const std::string text = folded(t);
  comma.reset();
  std::locale::global(before);
  CHECK(text == "f 234567890\nf;g 1000000000\n");
  if (!has_comma) test::skip("needs a C locale with a comma");
}

// Catches: recursion that ends the program when scopes are nested deeply.
TEST_CASE("deep nesting is written without recursion", "[folded_stacks]") {
  trace_builder b;
  b.add_process({});
  b.add_track({});
  constexpr std::uint32_t depth = 3000;
  for (std::uint32_t i = 0; i < depth; ++i) {
    trace_event e;
    e.name = b.intern("f");
    e.parent = i == 0 ? npos : i - 1;
    e.begin_ns = i;
    e.end_ns = 2 * depth - i;
    b.add_event(e);
  }
  const std::string text = folded(b.finish());
  CHECK(std::count(text.begin(), text.end(), '\n') == depth);
}

// Catches: weights that wrap round, so that the widest stack of a flame graph is the narrowest.
TEST_CASE("a weight ends at the largest number", "[folded_stacks]") {
  CHECK(folded(test::events("t1: f[0..9000000000000000000]; t2: f[0..9000000000000000000]; "
                            "t3: f[0..9000000000000000000]")) == "f 18446744073709551615\n");
}

// FC-77: pytorch/pytorch#100253, pytorch/pytorch#89406
// Catches: an empty file reported as success, or an error that does not say what to turn on.
TEST_CASE("no stacks is an error that names the remedy", "[folded_stacks]") {
  const test::temp_folder folder;
  const trace t = test::events("t1: f[0..10]");
  const std::string path = folder / "stacks.txt";
  CHECK_THROWS_WITH(export_stacks(t, path, "cuda"),
                    "export_stacks: metric is 'cuda', must be self_cpu_time_total, self_allocated or calls");
  CHECK_THROWS_WITH(export_stacks(t, path, "self_allocated"),
                    "export_stacks: metric is self_allocated, which needs profile_memory to be on");
  std::error_code ec;
  export_stacks(trace(), path, "self_cpu_time_total", ec);
  CHECK(ec == errc::no_results);
  CHECK(folder.names().empty());
  CHECK_THROWS_AS(export_stacks(t, folder / "missing/x"), std::system_error);
  export_stacks(t, path);
  CHECK(test::contents_of(path) == "f 10\n");

  test::event_builder b("t1: f[0..10]{ g[2..4] }");
  b.builder.info().has_memory = true;
  memory_event m;
  m.bytes = 64;
  m.event = 1;
  b.builder.add_memory(m);
  CHECK(folded(b.builder.finish(), "self_allocated") == "f;g 64\n");
}

// Catches: calls that are weighed by time, scopes without time or on async tracks that are not counted, recursion that
// counts once.
TEST_CASE("calls can be the weight of a stack", "[folded_stacks]") {
  const trace t = test::events("t1: f[0..10]{ g[2..2] g[3..4] f[5..6] }; t2: f[0..5]");
  CHECK(folded(t, "calls") == "f 2\nf;f 1\nf;g 2\n");
}

// Catches: frames from the innermost to the outermost, calls of one function from two lines as two frames, files whose
// names end in what looks like a line, scopes of one function that cannot be told apart, and scopes without a stack
// that are lost.
TEST_CASE("native stacks are folded by function", "[folded_stacks]") {
  test::event_builder b("t1: a[0..10]{ b[2..5] } a[10..13] c[20..21]");
  b.builder.detail(0).stack = b.builder.intern("m.cpp(7): f(int);m.cpp(3): main");
  b.builder.detail(1).stack = b.builder.intern("m.cpp(9): g() const;m.cpp(8): f(int);m.cpp(3): main");
  b.builder.detail(2).stack = b.builder.intern("x(2).cpp(10): f(int);main [prog+0x12]");
  b.builder.info().has_stacks = true;
  const trace t = b.builder.finish();
  std::error_code ec;
  CHECK(folded_stacks(t, "self_cpu_time_total", stack_source::native, ec) ==
        "c 1\n"
        "main;f(int);a 10\n"  // 7 and 3
        "main;f(int);g() const;b 3\n");
  CHECK_FALSE(ec);
  CHECK(folded_stacks(t, "calls", stack_source::native, ec) == "c 1\nmain;f(int);a 2\nmain;f(int);g() const;b 1\n");
}

// FC-77: pytorch/pytorch#100253, pytorch/pytorch#89406
// Catches: native stacks that were asked for and not recorded, reported as an empty success.
TEST_CASE("native stacks that were not recorded are an error that names the option", "[folded_stacks]") {
  const test::temp_folder folder;
  CHECK_THROWS_WITH(export_stacks(test::events("t1: f[0..10]"), folder / "stacks.txt", "calls", stack_source::native),
                    "export_stacks: native stacks need with_stack to be on");
  CHECK(folder.names().empty());
}

}  // namespace folded_stacks_test
