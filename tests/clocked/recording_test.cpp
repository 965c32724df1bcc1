#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace recording_test {
struct matrix {
  std::int64_t sizes[2];
  std::int64_t strides[2];
};
}  // namespace recording_test

template <>
struct stepprof::input_traits<recording_test::matrix> {
  static input_description describe(const recording_test::matrix& m) noexcept {
    return {m.sizes, 2, m.strides, "float"};
  }
};

namespace recording_test {

using test::fake_clock;

namespace {

stepprof::profile_options plain(std::size_t budget = std::size_t{64} << 20) {
  stepprof::profile_options options;
  options.event_budget_bytes = budget;
  return options;
}

// Opens `depth` scopes inside each other and closes them; returns how many were recorded. On the heap: so many frames
// do not fit on every stack.
std::uint64_t nest(std::size_t depth, std::int64_t ns) {
  std::vector<std::unique_ptr<stepprof::record_function>> open;
  std::uint64_t recorded = 0;
  for (std::size_t i = 0; i < depth; ++i) {
    open.push_back(std::make_unique<stepprof::record_function>("level"));
    recorded += open.back()->recorded() ? 1u : 0u;
    fake_clock::advance(ns);
  }
  while (!open.empty()) open.pop_back();
  return recorded;
}

enum class color : char { red = 'r' };
enum mode : std::uint64_t { write = UINT64_MAX };

std::string argument_text(const stepprof::trace& t, const stepprof::trace_event& e, std::string_view key) {
  const stepprof::event_detail& d = t.detail(e);
  for (std::uint32_t i = d.first_arg; i < d.first_arg + d.arg_count; ++i) {
    const stepprof::trace_argument& a = t.arguments()[i];
    if (t.text(a.key) != key) continue;
    switch (a.kind) {
      case stepprof::trace_argument::type::int64:
        return "int64 " + std::to_string(a.int64);
      case stepprof::trace_argument::type::uint64:
        return "uint64 " + std::to_string(a.uint64);
      case stepprof::trace_argument::type::real:
        return "real " + std::to_string(a.real);
      case stepprof::trace_argument::type::boolean:
        return a.boolean ? "true" : "false";
      case stepprof::trace_argument::type::text:
        return "text " + std::string(t.text(a.text));
      case stepprof::trace_argument::type::json:
        return "json";
    }
  }
  return "absent";
}

}  // namespace

// Catches: a time stamp whose upper half is lost, so that a long or late scope comes out 2^32 ticks short.
TEST_CASE("times are 64 bits wide over any number of epochs", "[recording]") {
  constexpr std::int64_t epoch = std::int64_t{1} << 32;
  stepprof::profile prof(plain());
  {
    stepprof::record_function outer("outer");
    for (int i = 0; i < 5; ++i) {
      stepprof::record_function inner("inner");
      fake_clock::advance(3 * epoch + i);
    }
    fake_clock::advance(7);
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.events().size() == 6);
  CHECK(t.events()[0].duration_ns() == 15 * epoch + 0 + 1 + 2 + 3 + 4 + 7);
  for (std::uint32_t i = 0; i < 5; ++i) {
    CHECK(t.events()[i + 1].duration_ns() == 3 * epoch + static_cast<std::int64_t>(i));
    CHECK(t.events()[i + 1].parent == 0);
  }
  CHECK(t.losses().clamps == 0);
}

// Catches: ends that find no room when more scopes are open than one chunk can end, or nesting that is lost at the
// border of two chunks.
TEST_CASE("scopes may be open deeper than one chunk has room for their ends", "[recording]") {
  for (const std::int64_t ns : {std::int64_t{1}, std::int64_t{1} << 31}) {  // the second changes the epoch all the time
    stepprof::profile prof(plain());
    CHECK(nest(30000, ns) == 30000);
    { stepprof::record_function after("after"); }
    prof.stop();
    const stepprof::trace t = prof.result();
    REQUIRE(t.events().size() == 30001);
    for (std::uint32_t i = 0; i < 30000; ++i) {
      REQUIRE(t.events()[i].parent == (i == 0 ? stepprof::npos : i - 1));
      REQUIRE(t.events()[i].duration_ns() == (30000 - static_cast<std::int64_t>(i)) * ns);
    }
    CHECK(t.events()[30000].parent == stepprof::npos);
    CHECK(t.losses().unmatched_ends == 0);
    CHECK(t.losses().clamps == 0);
  }
}

// Catches: scopes that take no time lost on the way, or torn out of the scope in which they were opened.
// FC-22: jlfwong/speedscope#230, pytorch/kineto#109, pytorch/kineto PR646
TEST_CASE("scopes recorded while the clock stands still keep their order, depth and parents", "[recording]") {
  stepprof::profile prof(plain());
  {
    STEPPROF_SCOPE("parent");
    {
      STEPPROF_SCOPE("child 1");
      { STEPPROF_SCOPE("grandchild"); }
    }
    { STEPPROF_SCOPE("child 2"); }
    { STEPPROF_SCOPE("child 3"); }
  }
  fake_clock::advance(10);
  {
    STEPPROF_SCOPE("long");
    fake_clock::advance(10);
    { STEPPROF_SCOPE("at the end"); }
  }
  { STEPPROF_SCOPE("behind it"); }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) ==
        "t: parent[0..0]{ child 1[0..0]{ grandchild[0..0] } child 2[0..0] child 3[0..0] } "
        "long[10..20]{ at the end[20..20] } behind it[20..20]");
  const stepprof::event_averages rows = prof.key_averages();
  CHECK(rows.rows.size() == 8);
  for (const stepprof::event_average& row : rows.rows) CHECK(row.calls == 1);

  const test::checked_trace file = test::check_rules(t);
  const auto slice = [&](const std::string& name) -> const test::checked_slice& {
    for (const test::checked_slice& s : file.slices)
      if (s.name == name) return s;
    throw std::runtime_error("no slice " + name);
  };
  const auto is_inside = [&](const std::string& inner, const std::string& outer) {
    for (std::size_t i = slice(inner).parent; i != test::nothing; i = file.slices[i].parent)
      if (file.slices[i].name == outer) return true;
    return false;
  };
  for (const char* name : {"child 1", "grandchild", "child 2", "child 3"}) CHECK(is_inside(name, "parent"));
  CHECK(is_inside("at the end", "long"));
  CHECK_FALSE(is_inside("behind it", "long"));
  // Where times alone would leave the parent open the file says it.
  const auto number = [&](const std::string& name) { return slice(name).args().integer("Ev Idx"); };
  const auto parent = [&](const std::string& name) { return slice(name).args().integer("Parent Ev Idx"); };
  for (const char* name : {"child 1", "child 2", "child 3"}) CHECK(parent(name) == number("parent"));
  CHECK(parent("grandchild") == number("child 1"));
  CHECK(parent("at the end") == number("long"));
  CHECK(slice("at the end").args().integer("Moved ns") == 1);
}

// Catches: a begin that is written without room for its end, and drops that are not counted.
TEST_CASE("when the budget is used up new scopes are dropped and counted exactly", "[recording]") {
  stepprof::profile prof(plain(std::size_t{1} << 20));
  std::uint64_t produced = 0;
  std::uint64_t recorded = 0;
  for (int i = 0; i < 200000; ++i) {
    stepprof::record_function outer("outer");
    stepprof::record_function inner("inner");
    produced += 2;
    recorded += (outer.recorded() ? 1u : 0u) + (inner.recorded() ? 1u : 0u);
    fake_clock::advance(1);
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(recorded < produced);
  CHECK(t.losses().kept == recorded);
  CHECK(t.losses().kept + t.losses().dropped == produced);
  CHECK(t.losses().unfinished == 0);
  CHECK(t.losses().unmatched_ends == 0);
  // 16 bytes a scope: 1 MiB holds less than 65536 of them, as names and logs, of earlier sessions too, need some room.
  CHECK(t.losses().kept > 30000);
  CHECK(t.losses().kept <= 65536);

  // What was read is given back: the next session records again.
  prof.start();
  { stepprof::record_function again("again"); }
  prof.stop();
  CHECK(prof.key_averages().at("again").calls == 1);
  CHECK(prof.result().losses().dropped == 0);
}

// Catches: deep nesting in a small budget that loses ends.
TEST_CASE("deep nesting in a full pool drops begins, never ends", "[recording]") {
  stepprof::profile prof(plain(std::size_t{1} << 20));
  const std::uint64_t recorded = nest(100000, 1);
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(recorded < 100000);
  CHECK(recorded > 20000);
  CHECK(t.losses().kept == recorded);
  CHECK(t.losses().dropped == 100000 - recorded);
  CHECK(t.losses().unfinished == 0);
}

// Catches: names kept by pointer. FC-38: pytorch/pytorch#133444
TEST_CASE("a recorded text is the one at entry, whatever happens to the memory later", "[recording]") {
  stepprof::profile prof(plain());
  std::string name = "first name, too long for a small string";
  std::string value = "first value, too long for a small string";
  {
    stepprof::record_function scope(name, stepprof::arg("key", value));
    name.replace(0, name.size(), "other text in the same memory, of the same");
    value.replace(0, value.size(), "other text in the same memory, of the same.");
  }
  { stepprof::record_function scope(name); }
  { stepprof::record_function scope(std::string("a temporary")); }
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.events().size() == 3);
  CHECK(t.name(t.events()[0]) == "first name, too long for a small string");
  CHECK(argument_text(t, t.events()[0], "key") == "text first value, too long for a small string");
  CHECK(t.name(t.events()[1]) == "other text in the same memory, of the same");
  CHECK(t.name(t.events()[2]) == "a temporary");
}

// Catches: names from call sites and run-time names of the same text that stay two names.
TEST_CASE("equal names are one name wherever they come from", "[recording]") {
  stepprof::profile prof(plain());
  { STEPPROF_SCOPE("same"); }
  { STEPPROF_SCOPE("same"); }
  { stepprof::record_function scope("same"); }
  { stepprof::record_function scope(std::string("same")); }
  std::thread([] { stepprof::record_function scope("same"); }).join();
  prof.stop();
  CHECK(prof.key_averages().at("same").calls == 5);
  CHECK(prof.result().events()[0].name == prof.result().events()[4].name);
}

// Catches: names that collide in the cache or the trie, and names with any bytes.
TEST_CASE("many distinct names, of any bytes, stay distinct", "[recording]") {
  stepprof::profile prof(plain());
  std::vector<std::string> names;
  for (int i = 0; i < 5000; ++i)
    names.push_back("name " + std::to_string(i % 2500) + std::string(static_cast<std::size_t>(i / 2500), '\0'));
  for (int round = 0; round < 2; ++round)
    for (const std::string& name : names) stepprof::record_function scope(name);
  { stepprof::record_function scope(""); }
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.events().size() == 10001);
  for (std::size_t i = 0; i < 10000; ++i) REQUIRE(t.name(t.events()[i]) == names[i % 5000]);
  CHECK(t.name(t.events()[10000]).empty());
  CHECK(t.losses().overflow_names == 0);
}

// Catches: run-time names that fill the budget and then overwrite each other or stop the recording.
TEST_CASE("names beyond their share of the budget become one counted name", "[recording]") {
  stepprof::profile prof(plain(std::size_t{1} << 20));  // a quarter of it for names: 256 KiB
  const std::string tail(200, 'x');
  for (int i = 0; i < 3000; ++i) stepprof::record_function scope(std::to_string(i) + tail);
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.events().size() == 3000);
  CHECK(t.losses().overflow_names > 1000);
  CHECK(t.losses().overflow_names < 2500);
  std::uint64_t overflowed = 0;
  for (std::size_t i = 0; i < t.events().size(); ++i) {
    if (t.name(t.events()[i]) == "(names overflow)")
      ++overflowed;
    else
      CHECK(t.name(t.events()[i]) == std::to_string(i) + tail);
  }
  CHECK(overflowed == t.losses().overflow_names);
}

// Catches: argument types that lose their value or their type on the way.
TEST_CASE("arguments keep their type and value", "[recording]") {
  stepprof::profile prof(plain());
  {
    stepprof::record_function scope(
        "scope", stepprof::scope_kind::op, stepprof::arg("int", -5),
        stepprof::arg("big", std::numeric_limits<std::uint64_t>::max()),
        stepprof::arg("small", std::numeric_limits<std::int64_t>::min()), stepprof::arg("real", 0.5),
        stepprof::arg("float", 0.25f), stepprof::arg("yes", true), stepprof::arg("no", false),
        stepprof::arg("literal", "text"), stepprof::arg("view", std::string_view("a\0b", 3)),
        stepprof::arg("color", color::red), stepprof::arg("mode", write), stepprof::arg("letter", 'x'),
        stepprof::arg("byte", std::uint8_t{65}));
    { stepprof::record_function inner("inner"); }
    scope.add_arg("late", 7);
    scope.add_arg("late text", "x");
    scope.add_arg("late letter", 'y');
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  const stepprof::trace_event& e = t.events()[0];
  CHECK(e.kind() == stepprof::scope_kind::op);
  CHECK(argument_text(t, e, "int") == "int64 -5");
  CHECK(argument_text(t, e, "big") == "uint64 18446744073709551615");
  CHECK(argument_text(t, e, "small") == "int64 -9223372036854775808");
  CHECK(argument_text(t, e, "real") == "real 0.500000");
  CHECK(argument_text(t, e, "float") == "real 0.250000");
  CHECK(argument_text(t, e, "yes") == "true");
  CHECK(argument_text(t, e, "no") == "false");
  CHECK(argument_text(t, e, "literal") == "text text");
  CHECK(argument_text(t, e, "view") == std::string("text a\0b", 8));
  CHECK(argument_text(t, e, "color") == "int64 114");
  CHECK(argument_text(t, e, "mode") == "uint64 18446744073709551615");
  CHECK(argument_text(t, e, "letter") == "text x");
  CHECK(argument_text(t, e, "byte") == "uint64 65");
  CHECK(argument_text(t, e, "late letter") == "text y");
  CHECK(argument_text(t, e, "late") == "int64 7");
  CHECK(argument_text(t, e, "late text") == "text x");
  CHECK(argument_text(t, t.events()[1], "late") == "absent");
}

namespace {

// What tells apart any two doubles, also -0.0 from 0.0 and one NaN from another.
std::uint64_t bits_of(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

// Catches: a recorder that rounds floating-point values, or loses the sign of zero, on the way into the log or out.
// FC-44: pytorch/kineto#105, MobileNativeFoundation/bluepill#437, apitrace/apitrace#339
TEST_CASE("floating-point values that are not numbers, or not exact in fewer bits, are recorded bit by bit",
          "[recording]") {
  using limits = std::numeric_limits<double>;
  const struct {
    double value;
    const char* in_file;  // of a scope's argument
    const char* as_input;
  } cases[] = {{limits::quiet_NaN(), "NaN", "nan"},
               {limits::infinity(), "Infinity", "inf"},
               {-limits::infinity(), "-Infinity", "-inf"},
               {-0.0, "-0.0", "-0."},
               {limits::denorm_min(), "5e-324", "4.9406564584124654e-324"},
               {1e308, "1e+308", "1e+308"},
               {0.1, "0.1", "0.10000000000000001"}};
  for (const auto& c : cases) {
    CAPTURE(c.in_file);
    stepprof::profile_options options = plain();
    options.record_shapes = true;
    stepprof::profile prof(options);
    {
      stepprof::record_function scope("s", stepprof::arg("at begin", c.value), stepprof::inputs(c.value));
      scope.add_arg("late", c.value);
      fake_clock::advance(10);
      stepprof::counter("counter", c.value);
      fake_clock::advance(10);
    }
    prof.stop();
    const stepprof::trace t = prof.result();
    REQUIRE(t.arguments().size() == 2);
    for (const stepprof::trace_argument& a : t.arguments()) {
      CHECK(a.kind == stepprof::trace_argument::type::real);
      CHECK(bits_of(a.real) == bits_of(c.value));
    }
    REQUIRE(t.marks().size() == 1);
    CHECK(bits_of(t.marks()[0].value) == bits_of(c.value));
    CHECK(t.text(t.detail(t.events()[0]).concrete_inputs) == "[\"" + std::string(c.as_input) + "\"]");

    const test::checked_trace file = test::check_rules(t);
    for (const test::json_node& event : file.events()) {
      if (event.string("name") == "s")
        for (const char* key : {"at begin", "late"}) CHECK(event.at("args").at(key).text == c.in_file);
      if (event.string("name") != "counter") continue;
      CHECK(event.string("ph") == (std::isfinite(c.value) ? "C" : "i"));  // a counter takes numbers only
      CHECK(event.at("args").at("value").text == c.in_file);
    }
  }
  stepprof::profile prof(plain());
  { stepprof::record_function scope("s", stepprof::arg("float", 0.1f), stepprof::arg("long", 0.1L)); }
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.arguments().size() == 2);
  CHECK(bits_of(t.arguments()[0].real) == bits_of(13421773.0 / 134217728));  // what a float makes of 0.1
  CHECK(bits_of(t.arguments()[1].real) == bits_of(0.1));
}

// Catches: inputs that shift by one, lists that melt into one input, scalars without their value.
TEST_CASE("inputs are recorded as texts of shapes, types, strides and values", "[recording]") {
  const matrix a{{64, 512}, {512, 1}};
  const std::vector<matrix> list{{{2, 3}, {3, 1}}, {{4, 5}, {5, 1}}};
  const std::int64_t sizes[] = {8, 9};
  const auto record = [&] {
    stepprof::record_function scope(
        "op", stepprof::inputs(a, 1, 1.0, 2.5, true, stepprof::no_input{},
                               stepprof::input_list(list.begin(), list.end()), stepprof::scalar_list{sizes, 2}, a));
  };
  stepprof::profile_options options = plain();
  SECTION("with record_shapes") {
    options.record_shapes = true;
    stepprof::profile prof(options);
    record();
    record();
    prof.stop();
    const stepprof::trace t = prof.result();
    const stepprof::event_detail& d = t.detail(t.events()[0]);
    CHECK(t.text(d.input_dims) == "[[64, 512], [], [], [], [], [], [[2, 3], [4, 5]], [], [64, 512]]");
    CHECK(t.text(d.input_strides) == "[[512, 1], [], [], [], [], [], [[3, 1], [5, 1]], [], [512, 1]]");
    CHECK(t.text(d.input_types) ==
          R"(["float", "Scalar", "Scalar", "Scalar", "Scalar", "", "TensorList", "ScalarList", "float"])");
    CHECK(t.text(d.concrete_inputs) == R"(["", "1", "1.", "2.5", "True", "", "", "[8, 9]", ""])");
    CHECK(t.detail(t.events()[1]).input_dims == d.input_dims);
  }
  SECTION("without") {
    stepprof::profile prof(options);
    record();
    prof.stop();
    CHECK(prof.result().details().empty());
  }
}

// Catches: a null name of an element type that is measured, and a list that claims to be longer than memory.
TEST_CASE("odd descriptions of inputs do no harm", "[recording]") {
  const std::int64_t sizes[] = {8};
  stepprof::profile_options options = plain();
  options.record_shapes = true;
  stepprof::profile prof(options);
  { stepprof::record_function scope("op", stepprof::inputs(stepprof::input_description{sizes, 1, nullptr, nullptr})); }
  {
    stepprof::record_function scope(
        "long", stepprof::inputs(1, stepprof::scalar_list{sizes, SIZE_MAX / 8 + 1}, 2));  // 8 times that is 0
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.text(t.detail(t.events()[0]).input_dims) == "[[8]]");
  CHECK(t.text(t.detail(t.events()[0]).input_types) == R"([""])");
  CHECK(t.text(t.detail(t.events()[1]).concrete_inputs) == R"(["1"])");
  CHECK(t.notes().size() == 1);
}

// Catches: more inputs than fit that are cut without a word.
TEST_CASE("inputs that do not fit are left out and noted", "[recording]") {
  stepprof::profile_options options = plain();
  options.record_shapes = true;
  stepprof::profile prof(options);
  const std::vector<matrix> list(200, matrix{{1, 2}, {2, 1}});
  {
    stepprof::record_function scope("op", stepprof::inputs(list[0], stepprof::input_list(list.begin(), list.end()), 3));
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.text(t.detail(t.events()[0]).input_dims).substr(0, 17) == "[[1, 2], [[1, 2],");
  REQUIRE(t.notes().size() == 1);
  CHECK(t.notes()[0].code == "inputs_truncated");
}

// Catches: marks and counters in the wrong place or on the wrong track.
TEST_CASE("marks and counters stand where they were made", "[recording]") {
  stepprof::profile prof(plain());
  {
    stepprof::record_function scope("scope");
    fake_clock::advance(5);
    stepprof::mark("here");
    stepprof::counter("queue", 3.5);
  }
  stepprof::counter("queue", 4);
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.marks().size() == 3);
  CHECK(t.text(t.marks()[0].name) == "here");
  CHECK(t.marks()[0].event == 0);
  CHECK(t.marks()[0].time_ns == t.events()[0].begin_ns + 5);
  CHECK(t.marks()[1].kind == stepprof::trace_mark::type::counter);
  CHECK(t.marks()[1].value == 3.5);
  CHECK(t.marks()[2].event == stepprof::npos);
}

// Catches: links that name the wrong thread, or are made up when the forward scope was not recorded.
TEST_CASE("a forward link holds the logical thread and the number, and no thread when nothing was recorded",
          "[recording]") {
  stepprof::forward_link before;
  {
    const stepprof::record_function scope("forward", stepprof::sequence_number(3));
    before = scope.link();
  }
  CHECK(before.thread == 0);
  stepprof::profile prof(plain());
  stepprof::forward_link link;
  {
    const stepprof::record_function scope("forward", stepprof::sequence_number(4));
    link = scope.link();
  }
  std::thread([link] {
    const stepprof::record_function scope("backward", stepprof::scope_kind::backward_op, link);
  }).join();
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(link.sequence == 4);
  CHECK(link.thread == t.tracks()[t.events()[0].track].id);
  CHECK(t.detail(t.events()[0]).sequence_number == 4);
  CHECK(t.detail(t.events()[0]).forward_thread == 0);
  CHECK(t.detail(t.events()[1]).sequence_number == 4);
  CHECK(t.detail(t.events()[1]).forward_thread == link.thread);
}

// Catches: a wrapper of a node whose forward scope was not recorded, taken for a forward scope with that number.
// FC-61: google/trace-viewer#1088
TEST_CASE("a scope with the link of a forward scope that was not recorded gets no arrow and is no forward scope",
          "[recording]") {
  stepprof::forward_link link;
  {
    const stepprof::record_function scope("forward", stepprof::sequence_number(4));
    link = scope.link();
  }
  stepprof::profile prof(plain());
  {
    const stepprof::record_function wrapper("wrapper", stepprof::scope_kind::op, link);
    const stepprof::record_function node("node", stepprof::scope_kind::backward_op, link);
  }
  // Of another pass, with a link to this thread: the wrapper above must not be its forward end.
  link.thread = 1;
  { const stepprof::record_function node("node", stepprof::scope_kind::backward_op, link); }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.detail(t.events()[0]).sequence_number == 4);
  CHECK(t.detail(t.events()[1]).sequence_number == 4);
  CHECK(stepprof::flow_pairs(t).empty());
}

namespace {

// Holds the thread that asks for it inside its next reading of the clock: in a begin, that is after the look-up of the
// name and before the begin is written.
struct stalling {
  static std::atomic<int>& phase() {
    static std::atomic<int> value{0};
    return value;
  }
  static bool& armed() {
    static thread_local bool value = false;
    return value;
  }
  static void at_reading() {
    if (!armed()) return;
    armed() = false;
    phase() = 1;
    while (phase() != 2) std::this_thread::yield();
  }
};

// The name under which a scope "stalled" is found that began to begin, and did so `starts` sessions later.
std::string name_after_stall(int starts) {
  stepprof::profile prof(plain());
  stalling::phase() = 0;
  fake_clock::call_at_reading(&stalling::at_reading);
  std::thread worker([] {
    { stepprof::record_function warm("warm"); }
    stalling::armed() = true;
    stepprof::record_function scope(std::string("stalled"), stepprof::arg("key", 1));
  });
  while (stalling::phase() != 1) std::this_thread::yield();
  for (int i = 0; i < starts; ++i) {
    prof.stop();
    prof.start();
    for (int k = 0; k < 10; ++k) stepprof::record_function other("other " + std::to_string(10 * i + k));
  }
  stalling::phase() = 2;
  worker.join();
  fake_clock::call_at_reading(nullptr);
  prof.stop();
  const stepprof::trace t = prof.result();
  const stepprof::trace_event& e = t.events().back();
  CHECK(argument_text(t, e, "key") == "int64 1");
  return std::string(t.name(e));
}

}  // namespace

// Catches: an id of an earlier session's name that is looked up in the table of this one, while that is being written:
// scopes get the names of others.
TEST_CASE("a thread that is stalled over starts gets its own name or none", "[recording]") {
  CHECK(name_after_stall(0) == "stalled");
  CHECK(name_after_stall(1) == "stalled");
  CHECK(name_after_stall(2) == "(unknown name)");
  CHECK(name_after_stall(3) == "(unknown name)");
  CHECK(name_after_stall(0) == "stalled");
}

}  // namespace recording_test
