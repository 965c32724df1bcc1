#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/trace/trace_builder.hpp>
#include <stepprof/trace/trace_merge.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

namespace native_stacks_test {

using namespace stepprof;
using stepprof::detail::source_frame;

namespace {

// What a symboliser knows, and how often it was asked.
struct known_names {
  std::map<std::string, std::map<std::uint64_t, std::vector<source_frame>>> of;  // by path and address in the file
  int opened = 0;
  int asked = 0;
};
known_names* the_names = nullptr;

class fake_symbols : public stepprof::detail::symboliser {
 public:
  explicit fake_symbols(const std::string& path) : path_(path) {}
  std::vector<source_frame> at(std::uint64_t address) override {
    ++the_names->asked;
    return the_names->of[path_][address];
  }

 private:
  std::string path_;
};

std::unique_ptr<stepprof::detail::symboliser> open_fake(const native_module&, const std::string& path) {
  ++the_names->opened;
  if (the_names->of.count(path) == 0) return nullptr;
  return std::make_unique<fake_symbols>(path);
}
constexpr stepprof::detail::symboliser_functions fake_functions = {&open_fake};

class with_names : public known_names {
 public:
  with_names() {
    the_names = this;
    stepprof::detail::the_symboliser = &fake_functions;
  }
  ~with_names() {
    stepprof::detail::the_symboliser = nullptr;
    the_names = nullptr;
  }
  with_names(const with_names&) = delete;
  with_names& operator=(const with_names&) = delete;
};

source_frame named(const std::string& function, const std::string& file = "", int line = 0, bool is_own = false) {
  return {function, file, line, is_own};
}
// One event for each stack; an address below 100 is in no module, others are in a.so, loaded at 100.
trace with_stacks(const std::vector<std::vector<std::uint64_t>>& stacks, const std::string& path = "/lib/a.so") {
  trace_builder b;
  b.add_process({});
  b.add_track({});
  native_module module;
  module.path = path;
  module.begin = module.bias = 100;
  module.end = 1000;
  b.add_native_module(module);
  std::int64_t time = 0;
  for (const std::vector<std::uint64_t>& stack : stacks) {
    trace_event e;
    e.name = b.intern("f");
    e.begin_ns = time;
    e.end_ns = ++time;
    const std::uint32_t event = b.add_event(e);
    const std::uint32_t index = b.add_native_stack(false);
    for (const std::uint64_t address : stack) b.add_native_frame({address, address < 100 ? npos : 0});
    b.set_native_stack(event, index);
  }
  b.info().has_stacks = true;
  return b.finish();
}
std::string_view stack_of(const trace& t, std::size_t event) {
  return t.call_stack(t.detail(t.events()[event]));
}

}  // namespace

// Catches: frames without what is known of them, inlined calls in the wrong order, and a ';' that makes two frames of
// one.
TEST_CASE("a frame says what is known", "[native_stacks]") {
  with_names names;
  auto& known = names.of["/lib/a.so"];
  known[10] = {named("inlined()", "a.hpp", 3), named("f(int)", "a;b.cpp", 7)};
  known[11] = {named("g()")};
  known[12] = {named("operator;()", "c.cpp", 1)};
  const trace t = with_stacks({{110, 111, 50, 255}, {112}});
  CHECK(stack_of(t, 0) == "a.hpp(3): inlined();a:b.cpp(7): f(int);g() [a.so+0xb];[0x32];[a.so+0x9b]");
  CHECK(stack_of(t, 1) == "c.cpp(1): operator:()");
}

// Catches: names that are looked up while nobody wants to see them, or again for every frame or reader.
TEST_CASE("names are looked up once, when they are asked for", "[native_stacks]") {
  with_names names;
  names.of["/lib/a.so"][10] = {named("f()")};
  const trace t = with_stacks({{110, 110, 111}, {110, 111}});
  CHECK(names.opened == 0);
  CHECK(stack_of(t, 0) == "f() [a.so+0xa];f() [a.so+0xa];[a.so+0xb]");
  CHECK(names.opened == 1);
  CHECK(names.asked == 2);
  const trace copy = t;
  CHECK(stack_of(copy, 1) == "f() [a.so+0xa];[a.so+0xb]");
  CHECK(names.opened == 1);
  CHECK(names.asked == 2);
}

// Catches: the recorder's own functions on top of every stack; the same left out where a program's function called
// one of them; a stack that is empty because nothing else was there.
TEST_CASE("the recorder's own frames are left out where they are the innermost", "[native_stacks]") {
  with_names names;
  auto& known = names.of["/lib/a.so"];
  known[1] = {named("begin", "p.hpp", 1, true), named("scope", "p.hpp", 2, true), named("f()", "a.cpp", 3)};
  known[2] = {named("timer", "p.hpp", 4, true)};
  known[3] = {named("main", "a.cpp", 5)};
  const trace t = with_stacks({{101, 102, 103}, {102}});
  CHECK(stack_of(t, 0) == "a.cpp(3): f();p.hpp(4): timer;a.cpp(5): main");
  CHECK(stack_of(t, 1) == "p.hpp(4): timer");
}

// Catches: an end of the program where nothing can find names, or the program's own file has no path.
TEST_CASE("without a symboliser there are modules and offsets", "[native_stacks]") {
  CHECK(stack_of(with_stacks({{110}}), 0) == "[a.so+0xa]");
  const trace own = with_stacks({{110}}, "");
  CHECK(stack_of(own, 0) == "[trace_tests+0xa]");
}

// FC-40: https://github.com/pytorch/kineto/pull/1459
// Catches: bytes of a frame that break the file.
TEST_CASE("any byte may stand in a frame", "[native_stacks]") {
  for (int c = 1; c < 128; ++c) {
    with_names names;
    const std::string byte(1, static_cast<char>(c));
    names.of["/lib/a.so"][10] = {named("f" + byte + "g", "x" + byte + "\"}],{\"ph\":\"X", 1)};
    std::string out;
    write_chrome_trace(with_stacks({{110}}), out);
    const std::string shown = c == ';' ? ":" : byte;
    std::string found;
    const nlohmann::json file = nlohmann::json::parse(out);
    for (const nlohmann::json& e : file.at("traceEvents"))
      if (e.at("ph") == "X" && e.at("name") == "f") found = e.at("args").at("Call stack");
    REQUIRE(found == "x" + shown + "\"}],{\"ph\":\"X(1): f" + shown + "g;");
  }
}

// Catches: stacks that name another trace's frames or modules after a merge.
TEST_CASE("merged traces keep their stacks", "[native_stacks]") {
  with_names names;
  names.of["/lib/a.so"][10] = {named("a()")};
  names.of["/lib/b.so"][10] = {named("b()")};
  trace_builder later;
  later.add_process({});
  later.add_track({});
  const std::uint32_t unused = later.add_native_module({"/lib/c.so", "", 0, 1, 0});
  const std::uint32_t module = later.add_native_module({"/lib/b.so", "", 100, 1000, 100});
  CHECK(unused == 0);
  trace_event e;
  e.name = later.intern("f");
  e.begin_ns = 10;
  e.end_ns = 11;
  later.add_event(e);
  const std::uint32_t stack = later.add_native_stack(true);
  later.add_native_frame({110, module});
  later.set_native_stack(0, stack);
  later.info().begin_ns = 10;
  const trace both = merge({with_stacks({{110}, {111}}), later.finish()});
  REQUIRE(both.events().size() == 3);
  CHECK(stack_of(both, 0) == "a() [a.so+0xa]");
  CHECK(stack_of(both, 1) == "[a.so+0xb]");
  CHECK(stack_of(both, 2) == "b() [b.so+0xa]");
  CHECK(both.native_stacks()[both.detail(both.events()[2]).native_stack].cut);
}

// Catches: an entry of details for each event, and a fact that one event has and others of its place then have, too.
TEST_CASE("events of one place and stack share what is known of them", "[native_stacks]") {
  test::event_builder b("t1: f[0..1] f[1..2] f[2..3] f[3..4]");
  const std::uint32_t file = b.builder.intern("a.cpp");
  for (std::uint32_t i = 0; i < 4; ++i) b.builder.event(i).detail = b.builder.source(file, 3);
  const std::uint32_t first = b.builder.add_native_stack(false);
  const std::uint32_t second = b.builder.add_native_stack(false);
  b.builder.set_native_stack(0, first);
  b.builder.set_native_stack(1, first);
  b.builder.set_native_stack(2, second);
  b.builder.detail(1).sequence_number = 5;
  const trace t = b.builder.finish();
  const std::vector<trace_event>& e = t.events();
  CHECK(t.details().size() == 4);  // the place, with either stack, and that of the second event
  CHECK(t.detail(e[0]).native_stack == first);
  CHECK(t.detail(e[1]).native_stack == first);
  CHECK(t.detail(e[2]).native_stack == second);
  CHECK(t.detail(e[3]).native_stack == npos);
  CHECK(t.detail(e[0]).sequence_number == -1);
  CHECK(t.detail(e[1]).sequence_number == 5);
  for (const trace_event& event : e) CHECK(t.detail(event).source_line == 3);
}

// Catches: indices that lead out of the trace.
TEST_CASE("stacks and modules that do not exist are refused", "[native_stacks]") {
  std::error_code ec;
  test::event_builder b("t1: f[0..1]");
  b.builder.set_native_stack(0, 0);
  CHECK(b.builder.finish(ec).events().empty());
  CHECK(ec.message() == "trace: an event names a native stack that does not exist");
  test::event_builder c("t1: f[0..1]");
  c.builder.set_native_stack(0, c.builder.add_native_stack(false));
  c.builder.add_native_frame({1, 0});
  CHECK(c.builder.finish(ec).events().empty());
  CHECK(ec.message() == "trace: a native frame names a module that does not exist");
}

}  // namespace native_stacks_test
