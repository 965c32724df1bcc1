// Catches: arrows between forward and backward scopes that are lost, doubled or left hanging on the way from the
// program to the file.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace links_test {

using test::fake_clock;

namespace {

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

stepprof::forward_link forward(std::int64_t number) {
  const stepprof::record_function scope("forward", stepprof::scope_kind::op, stepprof::sequence_number(number));
  fake_clock::advance(10);
  return scope.link();
}
void backward(stepprof::forward_link link) {
  const stepprof::record_function scope("backward", stepprof::scope_kind::backward_op, link);
  fake_clock::advance(10);
}

// The sequence numbers that the file shows, as "forward 3 backward 3 ".
std::string numbers(const test::checked_trace& t) {
  std::string text;
  for (const test::checked_slice& s : t.slices)
    if (s.args().find("Sequence number") != nullptr) text += s.name + " " + s.args().at("Sequence number").text + " ";
  return text;
}

}  // namespace

// Catches: links that point into storage which has grown meanwhile.
// FC-60: pytorch/pytorch#69443, pytorch/pytorch#72858, pytorch/pytorch#74139
TEST_CASE("a hundred thousand recorded pairs with inputs and arguments are as many arrows", "[links]") {
  constexpr std::int64_t count = 100000;
  stepprof::profile_options options;
  options.record_shapes = true;
  stepprof::profile prof(options);
  fake_clock::ticks_per_reading(5);
  std::vector<stepprof::forward_link> tape;
  for (std::int64_t i = 0; i < count; ++i) {
    const stepprof::record_function scope("op " + std::to_string(i % 100), stepprof::scope_kind::op,
                                          stepprof::sequence_number(i), stepprof::inputs(i % 50, 2.5),
                                          stepprof::arg("index", i), stepprof::arg("text", std::to_string(i)));
    tape.push_back(scope.link());
  }
  for (; !tape.empty(); tape.pop_back())
    const stepprof::record_function scope("node", stepprof::scope_kind::backward_op, tape.back(), stepprof::inputs(1),
                                          stepprof::arg("left", tape.size()));
  fake_clock::ticks_per_reading(0);
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.losses().dropped + t.losses().dropped_arguments == 0);
  REQUIRE(t.events().size() == 2 * count);
  const std::vector<stepprof::trace_link> pairs = stepprof::flow_pairs(t);
  REQUIRE(pairs.size() == count);
  // The i-th forward scope and the i-th backward scope from the end are a pair.
  std::int64_t wrong = 0;
  for (const stepprof::trace_link& pair : pairs) wrong += pair.from + pair.to != 2 * count - 1;
  CHECK(wrong == 0);
  const std::string text = test::chrome_text(t);
  CHECK(occurrences(text, "\"ph\":\"s\"") + occurrences(text, "\"ph\": \"s\"") == count);
  CHECK(occurrences(text, "\"ph\":\"f\"") + occurrences(text, "\"ph\": \"f\"") == count);
}

// Catches: a number that loses its upper half on the way through the log, one below 0 that is shown or linked, or 0
// taken for none.
// FC-57: pytorch/pytorch PR57182
TEST_CASE("the smallest and the largest numbers are recorded and linked, those below 0 are neither", "[links]") {
  const auto with_number = [](std::int64_t number) {
    stepprof::profile prof;
    const stepprof::forward_link link = forward(number);
    CHECK(link.sequence == number);
    backward(link);
    prof.stop();
    const stepprof::trace t = prof.result();
    for (const stepprof::trace_event& e : t.events())
      CHECK(t.detail(e).sequence_number == (number < 0 ? -1 : number));  // -1: none
    const test::checked_trace file = test::check_rules(t);
    std::string arrows;
    for (const test::checked_arrow& arrow : file.arrows) arrows += file.arrow_text(arrow);
    return numbers(file) + arrows;
  };
  CHECK(with_number(0) == "forward 0 backward 0 forward -> backward");
  CHECK(with_number(INT64_MAX) == "forward 9223372036854775807 backward 9223372036854775807 forward -> backward");
  // Above 32 bits, and equal to 1 and -1 in the lower half.
  CHECK(with_number((std::int64_t{1} << 32) + 1) == "forward 4294967297 backward 4294967297 forward -> backward");
  CHECK(with_number(0xffffffff) == "forward 4294967295 backward 4294967295 forward -> backward");
  CHECK(with_number(-1).empty());
  CHECK(with_number(INT64_MIN).empty());
  CHECK(with_number(INT64_MIN + 1).empty());
  CHECK(with_number(-(std::int64_t{1} << 32)).empty());  // 0 in the lower half
}

// Catches: half an arrow, or a sequence number that goes with it.
// FC-61: google/trace-viewer#1088
TEST_CASE("a pair of which one end is not recorded has no arrow and keeps its number", "[links]") {
  const test::heard heard;
  SECTION("the forward scope lies in a step that is not recorded") {
    stepprof::profile_options options;
    options.schedule = stepprof::schedule{1, 0, 1, 1};
    stepprof::profile prof(options);
    const stepprof::forward_link before = forward(3);
    prof.step();
    const stepprof::forward_link within = forward(4);
    backward(within);
    backward(before);
    prof.step();
    prof.stop();
    const test::checked_trace checked = test::check_rules(prof.result());
    CHECK(numbers(checked) == "forward 4 backward 4 backward 3 ");
    REQUIRE(checked.arrows.size() == 1);
    CHECK(checked.arrow_text(checked.arrows[0]) == "forward -> backward");
  }
  SECTION("the forward scope lies in the cycle before") {
    std::vector<stepprof::trace> cycles;
    stepprof::profile_options options;
    options.schedule = stepprof::schedule{0, 0, 1, 2};
    options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
    stepprof::profile prof(options);
    const stepprof::forward_link before = forward(3);
    prof.step();
    backward(before);
    prof.step();
    prof.stop();
    REQUIRE(cycles.size() == 2);
    const test::checked_trace first = test::check_rules(cycles[0]);
    CHECK(numbers(first) == "forward 3 ");
    CHECK(first.arrows.empty());
    const test::checked_trace second = test::check_rules(cycles[1]);
    CHECK(numbers(second) == "backward 3 ");
    CHECK(second.arrows.empty());
  }
  SECTION("the backward scope is dropped because memory is full") {
    stepprof::profile_options options;
    options.event_budget_bytes = std::size_t{1} << 20;
    stepprof::profile prof(options);
    const stepprof::forward_link first = forward(3);
    const stepprof::forward_link second = forward(4);
    backward(first);
    // With arguments that are large: the file is to have few events.
    const std::string large(8000, 'x');
    std::uint64_t refused = 0;
    while (refused == 0) {
      const stepprof::record_function scope("fill", stepprof::arg("text", large));
      refused += scope.recorded() ? 0u : 1u;
      test::fake_clock::advance(10);  // scopes that take no time all look nested
    }
    backward(second);
    prof.stop();
    const stepprof::trace t = prof.result();
    CHECK(t.losses().dropped == 2);  // the last "fill", and the backward scope
    CHECK(t.losses().dropped_arguments > 0);
    const test::checked_trace checked = test::check_rules(t);
    CHECK(numbers(checked) == "forward 3 forward 4 backward 3 ");
    CHECK(checked.arrows.size() == 1);
  }
  SECTION("the forward scope is dropped because memory is full") {
    stepprof::profile_options options;
    options.event_budget_bytes = std::size_t{1} << 20;
    options.schedule = stepprof::schedule{0, 0, 1, 2};
    std::vector<stepprof::trace> cycles;
    options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
    stepprof::profile prof(options);
    for (bool room = true; room;) room = stepprof::record_function("fill").recorded();
    const stepprof::forward_link dropped = forward(3);
    CHECK(dropped.thread == 0);
    prof.step();
    backward(dropped);
    prof.step();
    prof.stop();
    REQUIRE(cycles.size() == 2);
    const test::checked_trace checked = test::check_rules(cycles[1]);
    CHECK(numbers(checked) == "backward 3 ");
    CHECK(checked.arrows.empty());
  }
}

// Catches: an arrow to or from a scope that takes no time, hanging in the air.
// FC-61: google/trace-viewer#1088
TEST_CASE("a forward scope of no duration keeps its number, with an arrow only where it binds", "[links]") {
  stepprof::profile prof;
  stepprof::forward_link link;
  {
    const stepprof::record_function outer("outer");
    fake_clock::advance(5);
    {
      const stepprof::record_function scope("forward", stepprof::sequence_number(3));
      link = scope.link();
    }
    fake_clock::advance(5);
  }
  backward(link);
  prof.stop();
  const test::checked_trace checked = test::check_rules(prof.result());
  CHECK(numbers(checked) == "forward 3 backward 3 ");
  for (const test::checked_arrow& arrow : checked.arrows) CHECK(checked.arrow_text(arrow) == "forward -> backward");
}

}  // namespace links_test
