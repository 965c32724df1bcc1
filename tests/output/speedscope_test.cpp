#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include <stepprof/output/speedscope.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>
#include <support/temp_folder.hpp>

namespace speedscope_test {

using namespace stepprof;
using nlohmann::json;

namespace {

json written(const trace& t) {
  std::error_code ec;
  const std::string text = speedscope_json(t, ec);
  REQUIRE_FALSE(ec);
  return json::parse(text);
}
// "O a 0, O b 2, C b 6, ...", names instead of numbers.
std::string events_of(const json& file, const json& profile) {
  std::string text;
  for (const json& e : profile.at("events"))
    text += (text.empty() ? "" : ", ") + e.at("type").get<std::string>() + ' ' +
            file.at("shared").at("frames").at(e.at("frame").get<std::size_t>()).at("name").get<std::string>() + ' ' +
            std::to_string(e.at("at").get<std::int64_t>());
  return text;
}
std::string samples_of(const json& file, const json& profile) {
  std::string text;
  REQUIRE(profile.at("samples").size() == profile.at("weights").size());
  for (std::size_t i = 0; i < profile.at("samples").size(); ++i) {
    for (const json& frame : profile.at("samples")[i])
      text += file.at("shared").at("frames").at(frame.get<std::size_t>()).at("name").get<std::string>() + '/';
    text += ' ' + std::to_string(profile.at("weights")[i].get<std::int64_t>()) + ", ";
  }
  return text;
}

}  // namespace

// Catches: ends that are missing, come in another order than the begins went in, or stand after the next begin; threads
// in one profile; times that count from elsewhere; one frame for each instance of a scope.
TEST_CASE("each thread is a profile of begins and ends", "[speedscope]") {
  test::event_builder b("t1: f[10..20]{ g[12..16]{ f[12..16] } g[16..18] } h[20..21]; t2: f[11..15]");
  b.builder.info().begin_ns = 10;
  b.builder.info().end_ns = 30;
  const json file = written(b.builder.finish());
  CHECK(file.at("$schema") == "https://www.speedscope.app/file-format-schema.json");
  REQUIRE(file.at("profiles").size() == 2);
  const json& first = file.at("profiles")[0];
  CHECK(first.at("type") == "evented");
  CHECK(first.at("unit") == "nanoseconds");
  CHECK(first.at("startValue") == 0);
  CHECK(first.at("endValue") == 20);
  CHECK(events_of(file, first) == "O f 0, O g 2, O f 2, C f 6, C g 6, O g 6, C g 8, C f 10, O h 10, C h 11");
  CHECK(events_of(file, file.at("profiles")[1]) == "O f 1, C f 5");
  CHECK(file.at("shared").at("frames").size() == 3);
}

// Catches: places in the source that are lost, scopes of one name in two places that become one frame, and a name that
// breaks the file or is empty, which the schema's readers show as nothing.
TEST_CASE("frames have names and places", "[speedscope]") {
  test::event_builder b("t1: f[0..1] f[1..2] f[2..3] x[3..4]");
  b.builder.event(0).detail = b.builder.source(b.builder.intern("a;\"</script>.cpp"), 3);
  b.builder.event(1).detail = b.builder.source(b.builder.intern("a;\"</script>.cpp"), 4);
  b.builder.event(3).name = b.builder.intern("");
  std::error_code ec;
  const std::string text = speedscope_json(b.builder.finish(), ec);
  CHECK(text.find('<') == std::string::npos);
  const json frames = json::parse(text).at("shared").at("frames");
  CHECK(frames == json::parse(R"x([{"name":"f","file":"a;\"</script>.cpp","line":3},
                                  {"name":"f","file":"a;\"</script>.cpp","line":4}, {"name":"f"},
                                  {"name":"(no name)"}])x"));
}

// Catches: bytes of a scope that are booked to its parents as well, equal stacks that stand there twice, and frees that
// take bytes away.
TEST_CASE("allocated bytes are a profile by enclosing scopes", "[speedscope]") {
  test::event_builder b("t1: f[0..10]{ g[2..4] g[5..6] }");
  b.builder.info().has_memory = true;
  const auto report = [&b](std::int64_t time, std::int64_t bytes, std::uint32_t event, std::uint32_t of = npos) {
    memory_event m;
    m.time_ns = time;
    m.bytes = bytes;
    m.event = event;
    m.allocation = of;
    return b.builder.add_memory(m);
  };
  const std::uint32_t block = report(1, 100, 0);
  report(2, 7, 1);
  report(3, -100, 1, block);
  report(5, 8, 2);
  const json file = written(b.builder.finish());
  REQUIRE(file.at("profiles").size() == 2);
  const json& memory = file.at("profiles")[1];
  CHECK(memory.at("name") == "allocated bytes");
  CHECK(memory.at("unit") == "bytes");
  CHECK(memory.at("endValue") == 115);
  CHECK(samples_of(file, memory) == "f/ 100, f/g/ 15, ");
}

// Catches: native frames from the innermost to the outermost, total times instead of self times.
TEST_CASE("native stacks are a profile by calling functions", "[speedscope]") {
  test::event_builder b("t1: f[0..10]{ g[2..5] } f[10..11]");
  b.builder.detail(0).stack = b.builder.intern("m.cpp(7): in();m.cpp(3): main");
  b.builder.detail(1).stack = b.builder.intern("m.cpp(8): in();m.cpp(3): main");
  b.builder.detail(2).stack = b.builder.intern("m.cpp(7): in();m.cpp(3): main");
  b.builder.info().has_stacks = true;
  const json file = written(b.builder.finish());
  REQUIRE(file.at("profiles").size() == 2);
  const json& native = file.at("profiles")[1];
  CHECK(native.at("name") == "native stacks");
  CHECK(native.at("endValue") == 11);
  CHECK(samples_of(file, native) == "main/in()/f/ 8, main/in()/g/ 3, ");
}

// Catches: an end of the program when scopes are nested deeply, and async scopes whose ends do not nest.
TEST_CASE("deep nesting is written, scopes apart are not", "[speedscope]") {
  trace_builder b;
  b.add_process({});
  b.add_track({});
  constexpr std::uint32_t depth = 20000;
  for (std::uint32_t i = 0; i < depth; ++i) {
    trace_event e;
    e.name = b.intern("f");
    e.parent = i == 0 ? npos : i - 1;
    e.end_ns = 1;
    b.add_event(e);
  }
  trace_track apart;
  apart.kind = track_kind::async;
  b.add_track(apart);
  trace_event e;
  e.name = b.intern("apart");
  e.end_ns = 5;
  b.add_event(e);
  const json file = written(b.finish());
  REQUIRE(file.at("profiles").size() == 1);
  CHECK(file.at("profiles")[0].at("events").size() == 2 * depth);
  CHECK(file.at("shared").at("frames").size() == 1);
}

// Catches: a file without profiles, which speedscope cannot open, as a success.
TEST_CASE("without scopes there is no file", "[speedscope]") {
  const test::temp_folder folder;
  CHECK_THROWS_WITH(export_speedscope(trace(), folder / "x.json"),
                    "export_speedscope: there is no scope on any thread; was anything recorded?");
  std::error_code ec;
  export_speedscope(trace(), folder / "x.json", ec);
  CHECK(ec == errc::no_results);
  CHECK(folder.names().empty());
  CHECK_THROWS_AS(export_speedscope(test::events("t1: f[0..1]"), folder / "missing/x"), std::system_error);
  export_speedscope(test::events("t1: f[0..1]"), folder / "x.json");
  CHECK(folder.names() == std::vector<std::string>{"x.json"});
}

}  // namespace speedscope_test
