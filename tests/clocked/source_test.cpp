// Catches: places in the source that the macros record and no trace, file or table shows.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <string>

#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

namespace source_test {

namespace {

constexpr int first_line = __LINE__ + 2;
void first_place() {
  STEPPROF_SCOPE("work");
  test::fake_clock::advance(1);
}
constexpr int second_line = __LINE__ + 2;
void second_place() {
  STEPPROF_SCOPE("work", stepprof::sequence_number(3), stepprof::arg("n", 1));
  test::fake_clock::advance(1);
}
constexpr int function_line = __LINE__ + 2;
void function_place() {
  STEPPROF_FUNCTION();
  test::fake_clock::advance(1);
}
void no_place() {
  stepprof::record_function scope("work");
  test::fake_clock::advance(1);
}

std::string here(int line) {
  return std::string(__FILE__) + ":" + std::to_string(line);
}
std::string source_of(const stepprof::trace& t, std::size_t event) {
  const stepprof::event_detail& d = t.detail(t.events()[event]);
  if (d.source_file == stepprof::npos) return "none";
  return std::string(t.text(d.source_file)) + ":" + std::to_string(d.source_line);
}

stepprof::trace recorded() {
  stepprof::profile prof;
  no_place();
  first_place();
  second_place();
  function_place();
  for (int i = 0; i < 100; ++i) first_place();
  prof.stop();
  return prof.result();
}

void check_places(const stepprof::trace& t) {
  REQUIRE(t.events().size() == 104);
  CHECK(source_of(t, 0) == "none");
  CHECK(source_of(t, 1) == here(first_line));
  CHECK(source_of(t, 2) == here(second_line));  // two places of one name stay two
  CHECK(t.detail(t.events()[2]).sequence_number == 3);
  CHECK(t.detail(t.events()[2]).arg_count == 1);
  CHECK(source_of(t, 3) == here(function_line));
  CHECK(t.name(t.events()[3]) == "function_place");
  CHECK(source_of(t, 103) == here(first_line));
  CHECK(t.detail(t.events()[103]).sequence_number == -1);  // the arguments of one scope are no other's
  // A place takes memory once, however often the program comes by.
  CHECK(t.events()[103].detail == t.events()[1].detail);
  CHECK(t.details().size() <= 4);
}

}  // namespace

// Catches: file and line lost on the way from the macro to the trace, mixed up between places of one name, or kept once
// per scope.
TEST_CASE("a macro's place in the source is in the trace", "[source]") {
  check_places(recorded());
}

// Catches: places that the file does not have, or that reading it or putting cycles together loses.
TEST_CASE("a macro's place in the source is in the file, and is read back", "[source]") {
  const stepprof::trace t = recorded();
  const test::checked_trace file = test::check_rules(t);
  CHECK(test::contains(test::chrome_text(t), R"("Ev Idx":)" + std::to_string(t.info().first_event_index + 1) +
                                                 R"(,"Source":")" + here(first_line) + "\"}"));
  check_places(stepprof::parse_trace(test::chrome_text(t)));

  stepprof::trace_builder nothing;
  nothing.info().begin_ns = t.info().end_ns;
  nothing.info().base_time_ns = t.info().base_time_ns;
  check_places(stepprof::merge({t, nothing.finish()}));
}

// Catches: a column of sources that is empty, or a row that has none because its first event has none.
TEST_CASE("a row shows the place of the first event that knows it", "[source]") {
  const stepprof::event_averages rows = stepprof::key_averages(recorded());
  CHECK(rows.at("work").source == here(first_line));
  CHECK(rows.at("function_place").source == here(function_line));
  stepprof::table_options options;
  options.columns = {"source"};
  options.max_src_column_width = stepprof::table_options::unlimited;
  const std::string text = rows.table(options);
  CHECK(test::contains(text, "Defined At"));
  CHECK(test::contains(text, here(first_line)));
  CHECK(test::contains(text, here(function_line)));
}

}  // namespace source_test
