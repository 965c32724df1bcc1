#include <algorithm>
#include <atomic>
#include <clocale>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <locale>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <nlohmann/json.hpp>

#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/output/folded_stacks.hpp>
#include <stepprof/output/table.hpp>

#include <support/catch.hpp>
#include <support/comma_locale.hpp>
#include <support/event_builder.hpp>
#include <support/skip.hpp>
#include <support/temp_folder.hpp>
#include <support/trace_checker.hpp>

namespace chrome_trace_test {

using namespace stepprof;
using nlohmann::json;
using test::checked_trace;

namespace {

// Writes a trace, runs the checker over it and returns what that saw.
checked_trace exported(const trace& t, chrome_trace_result* result = nullptr) {
  std::string text;
  const chrome_trace_result r = write_chrome_trace(t, text);
  if (result != nullptr) *result = r;
  checked_trace checked = test::check_trace(text);
  CHECK(checked.summary().empty());
  CHECK(r.bytes == text.size());
  CHECK(r.events == checked.events().size());
  CHECK(r.flows == checked.arrows.size());
  return checked;
}
json exported_json(const trace& t) {
  std::string text;
  write_chrome_trace(t, text);
  CHECK(test::check_trace(text).summary().empty());
  return json::parse(text);
}
json only(const json& file, const std::string& ph, const std::string& cat = "") {
  json result = json::array();
  for (const json& e : file.at("traceEvents"))
    if (e.at("ph") == ph && (cat.empty() || e.value("cat", "") == cat)) result.push_back(e);
  return result;
}
trace_argument argument(trace_builder& b, const std::string& key) {
  trace_argument a;
  a.key = b.intern(key);
  return a;
}
trace_argument text_argument(trace_builder& b, const std::string& key, const std::string& value) {
  trace_argument a = argument(b, key);
  a.kind = trace_argument::type::text;
  a.text = b.intern(value);
  return a;
}
void link(trace_builder& b, std::uint32_t event, std::int64_t number, std::uint32_t forward_thread) {
  b.detail(event).sequence_number = number;
  b.detail(event).forward_thread = forward_thread;
}
const std::string bad = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

// Catches: another schema than kineto's, that tools made for PyTorch's traces would not find their way in.
TEST_CASE("the file has kineto's keys and kinds", "[chrome_trace]") {
  test::event_builder e("t1: ProfilerStep#4![1000..9000]{ f[2000..3500] b~[4000..4100] }; async1: late[2500..5000]");
  trace_builder& b = e.builder;
  link(b, 1, 28, 0);
  link(b, 2, 28, 1);
  b.detail(1).input_dims = b.intern("[[64, 512], []]");
  b.detail(1).input_types = b.intern("[\"float\", \"Scalar\"]");
  b.event(2).flags |= trace_event::unfinished;
  memory_event m;
  m.time_ns = 2600;
  m.address = 0x1000;
  m.bytes = m.total_allocated = 64;
  m.event = 1;
  b.add_memory(m);
  b.add_mark({3000, b.intern("loss"), 0, npos, trace_mark::type::counter, 2.25});
  b.add_mark({3100, b.intern("here"), 0, 1, trace_mark::type::instant, 0});
  b.info().trace_id = "0123456789ABCDEF0123456789ABCDEF";
  b.info().begin_ns = 1000;
  b.info().end_ns = 9000;
  b.info().base_time_ns = 1790857026000000000;
  b.info().first_event_index = 100;
  b.info().has_memory = b.info().has_shapes = true;
  b.add_metadata("note", "{\"a\": [1, 2]}");
  b.track(0).name = "main";
  b.track(0).os_id = 140000000000000;

  std::string text;
  write_chrome_trace(b.finish(), text);
  const checked_trace t = test::check_trace(text);
  CHECK(t.summary().empty());
  std::vector<std::string> top;
  for (const auto& member : t.root().members) top.push_back(member.first);
  CHECK(top == std::vector<std::string>{"schemaVersion", "deviceProperties", "trace_id", "profile_memory",
                                        "record_shapes", "note", "stepprof", "displayTimeUnit", "baseTimeNanoseconds",
                                        "traceEvents", "traceName"});
  CHECK(t.root().at("baseTimeNanoseconds").text == "1790857026000001000");
  // Each event as it has to stand there, worked out by hand from the input above.
  // clang-format off
  for (const char* event : {
           R"-({"ph":"M","name":"process_name","ts":0.000,"pid":7,"args":{"name":"test"}})-",
           R"-({"ph":"M","name":"process_labels","ts":0.000,"pid":7,"args":{"labels":"CPU"}})-",
           R"-({"ph":"M","name":"process_sort_index","ts":0.000,"pid":7,"args":{"sort_index":7}})-",
           R"-({"ph":"M","name":"thread_name","ts":0.000,"pid":7,"tid":1,"args":{"name":"main"}})-",
           R"-({"ph":"M","name":"thread_sort_index","ts":0.000,"pid":7,"tid":1,"args":{"sort_index":1}})-",
           R"-({"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":7,"tid":1,"ts":0.000,"dur":8.000,"args":{"External id":101,"Record function id":0,"Ev Idx":100}})-",
           R"-({"ph":"X","cat":"cpu_op","name":"f","pid":7,"tid":1,"ts":1.000,"dur":1.500,"args":{"External id":102,"Record function id":0,"Ev Idx":101,"Sequence number":28,"Fwd thread id":0,"Input Dims":[[64,512],[]],"Input type":["float","Scalar"]}})-",
           R"-({"ph":"X","cat":"cpu_op","name":"b","pid":7,"tid":1,"ts":3.000,"dur":0.100,"args":{"External id":103,"Record function id":0,"Ev Idx":102,"Sequence number":28,"Fwd thread id":1,"finished":false}})-",
           R"-({"ph":"b","cat":"cpu_op","name":"late","pid":7,"tid":1,"id":15032385537,"ts":1.500,"args":{"External id":104,"Record function id":0,"Ev Idx":103}})-",
           R"-({"ph":"e","cat":"cpu_op","name":"late","pid":7,"tid":1,"id":15032385537,"ts":4.000})-",
           R"-({"ph":"s","id":15032385537,"pid":7,"tid":1,"ts":1.000,"cat":"fwdbwd","name":"fwdbwd"})-",
           R"-({"ph":"f","id":15032385537,"pid":7,"tid":1,"ts":3.000,"cat":"fwdbwd","name":"fwdbwd","bp":"e"})-",
           R"-({"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":7,"tid":1,"ts":1.600,"args":{"Total Reserved":0,"Total Allocated":64,"Bytes":64,"Device Id":-1,"Device Type":0,"Addr":4096,"Ev Idx":104,"Scope Ev Idx":101}})-",
           R"-({"ph":"C","cat":"memory","name":"Live bytes","pid":7,"ts":1.600,"args":{"CPU":64}})-",
           R"-({"ph":"C","cat":"counter","name":"loss","pid":7,"ts":2.000,"args":{"value":2.25}})-",
           R"-({"ph":"i","cat":"mark","name":"here","s":"t","pid":7,"tid":1,"ts":2.100,"args":{"Scope Ev Idx":101}})-",
           R"-({"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":0.000,"dur":8.000,"args":{"Op count":4}})-",
           R"-({"ph":"M","name":"process_sort_index","ts":0.000,"pid":"Spans","args":{"sort_index":536870912}})-",
           R"-({"ph":"i","s":"g","name":"Iteration Start: PyTorch Profiler","pid":"Traces","tid":"Trace PyTorch Profiler","ts":0.000})-",
           R"-({"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":8.000})-",
       }) {
    // clang-format on
    CAPTURE(event);
    CHECK(text.find("\n" + std::string(event)) != std::string::npos);
  }
  CHECK(t.events().size() == 20);
  REQUIRE(t.arrows.size() == 1);
  CHECK(t.arrow_text(t.arrows[0]) == "f -> b");
  CHECK(text.substr(text.size() - 17) == "],\"traceName\":\"\"}");
}

// Catches: what no event can say missing from the file, or said in other units than the documentation does.
TEST_CASE("the object stepprof holds losses, notes, steps and ids", "[chrome_trace]") {
  test::event_builder e("t1: ProfilerStep#4![1000..2000] f[2000..3000]");
  trace_builder& b = e.builder;
  b.info().begin_ns = 1000;
  b.info().end_ns = 3000;
  b.info().base_time_ns = 5;
  b.info().cycle = 2;
  b.info().first_step = b.info().last_step = 4;
  b.info().partial = true;
  b.info().scope_cost_ns = 31.5;
  b.info().clock = "tsc";
  b.info().profiler_bytes = 4096;
  b.info().first_event_index = 10;
  b.losses().kept = 2;
  b.losses().dropped = UINT64_MAX;
  b.add_note("paused", "once");
  b.add_step({4, 1000, 2000, 0, true});
  b.add_step({5, 2000, 3000, npos, false});
  b.add_pause({1200, 1300});
  b.add_unmatched_free({1, 3});
  b.process(0).os_pid = 7000000000;
  b.process(0).rank = 3;
  b.process(0).host = "node";
  b.track(0).os_id = 140000000000000;
  b.track(0).sort_index = -5;
  const json file = exported_json(b.finish());
  CHECK(file.at("distributedInfo") == json({{"rank", 3}}));
  CHECK(file.at("host_name") == "node");
  const json& s = file.at("stepprof");
  CHECK(s.at("schema") == 1);
  CHECK(s.at("begin_ns") == 1000);
  CHECK(s.at("end_ns") == 3000);
  CHECK(s.at("zero_ns") == 1000);
  CHECK(s.at("base_time_ns") == 5);
  CHECK(s.at("cycle") == 2);
  CHECK(s.at("first_step") == 4);
  CHECK(s.at("last_step") == 4);
  CHECK(s.at("partial") == true);
  CHECK(s.at("scope_cost_ns") == 31.5);
  CHECK(s.at("clock") == "tsc");
  CHECK(s.at("profiler_bytes") == 4096);
  CHECK(s.at("losses").at("kept") == 2);
  CHECK(s.at("losses").at("dropped") == "18446744073709551615");
  CHECK(s.at("losses").size() == 16);
  CHECK(s.at("notes") == json::parse(R"([{"code":"paused","text":"once"}])"));
  CHECK(s.at("steps") == json::parse(R"([{"number":4,"begin_ns":1000,"end_ns":2000,"event":10,"complete":true},
                                         {"number":5,"begin_ns":2000,"end_ns":3000,"event":-1,"complete":false}])"));
  CHECK(s.at("pauses") == json::parse("[[1200,1300]]"));
  CHECK(s.at("unmatched_frees") == json::parse(R"([{"event":11,"count":3}])"));
  CHECK(s.at("processes") == json::parse(R"([{"pid":7,"os_pid":7000000000,"rank":3,"host":"node","name":"test",
                                              "labels":"","sort_index":0}])"));
  CHECK(s.at("tracks") == json::parse(R"([{"pid":7,"tid":1,"kind":"thread","name":"","os_id":140000000000000,
                                           "sort_index":-5}])"));
  CHECK(s.at("flows") == json::parse(R"({"written":0,"left_out":0})"));
}

// FC-15: google/perfetto#426, pytorch/kineto#853, Ascend/pytorch#133
// Catches: times since 1970 in the file, whose ns a double cannot hold.
TEST_CASE("ns survive in a window that begins at an epoch-size time", "[chrome_trace]") {
  const std::int64_t epoch = 1767225600ll * 1000000000;
  trace_builder b;
  b.add_process({});
  trace_track track;
  track.id = 1;
  b.add_track(track);
  const std::int64_t lengths[] = {1, 7, 120, 999, 1, 1000, 1001, 7};
  std::int64_t at = epoch;
  for (int round = 0; round < 100; ++round)
    for (const std::int64_t length : lengths) {
      trace_event e;
      e.name = b.intern("s");
      e.begin_ns = at;
      at = e.end_ns = at + length;
      b.add_event(e);
    }
  b.info().begin_ns = epoch;
  b.info().end_ns = at;
  const checked_trace t = exported(b.finish());
  std::int64_t expected = 0;
  for (std::size_t i = 0; i < 800; ++i) {
    REQUIRE(t.slices[i].ts_ns == expected);
    REQUIRE(t.slices[i].dur_ns == lengths[i % 8]);
    REQUIRE(t.slices[i].parent == test::nothing);
    expected += lengths[i % 8];
  }
  CHECK(t.root().at("baseTimeNanoseconds").text == "1767225600000000000");
}

// Catches: a negative ts, which Perfetto drops, when something lies before the window.
TEST_CASE("ts 0 is the window's begin or what lies before it", "[chrome_trace]") {
  test::event_builder e("t1: f[50..60]");
  e.builder.info().begin_ns = 100;
  e.builder.info().end_ns = 200;
  e.builder.info().base_time_ns = 1000;
  const json file = exported_json(e.builder.finish());
  CHECK(only(file, "X", "cpu_op")[0].at("ts") == 0);
  CHECK(only(file, "X", "Trace")[0].at("ts") == 0.05);
  CHECK(only(file, "X", "Trace")[0].at("dur") == 0.1);
  CHECK(file.at("baseTimeNanoseconds") == 1050);
}

// FC-22: jlfwong/speedscope#230, pytorch/kineto#109, pytorch/kineto PR646
// Catches: scopes of no length lost, outside their parent, or with a nesting that cannot be found out any more.
TEST_CASE("scopes without length keep their place", "[chrome_trace]") {
  const checked_trace t = exported(test::events(
      "t1: p[5..5]{ c1[5..5]{ g[5..5] } c2[5..5] c3[5..5] } q[10..20]{ r[10..15] z[20..20]{ y[20..20] } } u[20..20] "
      "v[20..30]{ w[20..20] x[20..25] }"));
  const auto at = [&](const std::string& name) -> const test::checked_slice& {
    for (const test::checked_slice& s : t.slices)
      if (s.name == name) return s;
    throw std::runtime_error("no slice " + name);
  };
  const auto inside = [&](const std::string& inner, const std::string& outer) {
    for (std::size_t i = at(inner).parent; i != test::nothing; i = t.slices[i].parent)
      if (t.slices[i].name == outer) return true;
    return false;
  };
  CHECK(t.by_category.at("cpu_op") == 13);
  for (const char* name : {"c1", "g", "c2", "c3"}) CHECK(inside(name, "p"));
  CHECK(inside("g", "c1"));
  CHECK(inside("z", "q"));
  CHECK(inside("y", "z"));
  CHECK(inside("w", "v"));
  CHECK_FALSE(inside("u", "q"));
  // Only what lies at the very end of its parent is moved, and by one ns.
  CHECK(at("z").ts_ns == 19);
  CHECK(at("z").args().integer("Moved ns") == 1);
  CHECK(at("y").ts_ns == 19);
  CHECK(at("u").ts_ns == 20);
  CHECK(at("u").args().find("Moved ns") == nullptr);
  // The true parents by Ev Idx: p 0, c1 1, g 2, c2 3, c3 4, q 5, r 6, z 7, y 8, u 9, v 10, w 11, x 12.
  CHECK(at("c1").args().integer("Parent Ev Idx") == 0);
  CHECK(at("g").args().integer("Parent Ev Idx") == 1);
  CHECK(at("c2").args().integer("Parent Ev Idx") == 0);
  CHECK(at("c3").args().integer("Parent Ev Idx") == 0);
  CHECK(at("z").args().integer("Parent Ev Idx") == 5);
  CHECK(at("y").args().integer("Parent Ev Idx") == 7);
  CHECK(at("u").args().at("Parent Ev Idx").text == "-1");
  CHECK(at("w").args().integer("Parent Ev Idx") == 10);
  for (const char* name : {"p", "q", "r", "v", "x"}) CHECK(at(name).args().find("Parent Ev Idx") == nullptr);
}

// FC-40: pytorch/kineto PR1459, pytorch/pytorch#98432, pytorch/pytorch#113001
// FC-41: google/perfetto#598, pytorch/pytorch#130622, pytorch/pytorch#136180, nlohmann/json#1195
// FC-78: microsoft/playwright PR40655, wso2/vscode-extensions PR828
// Catches: one text position that is written without escaping.
TEST_CASE("any text in any position leaves the file whole", "[chrome_trace]") {
  std::vector<std::pair<std::string, std::string>> texts;  // given, read back
  for (int c = 0; c < 256; ++c) {
    const std::string byte(1, static_cast<char>(c));
    const std::string shown = c < 0x80 ? byte : bad;
    texts.emplace_back(byte, shown);
    texts.emplace_back("a" + byte + "z", "a" + shown + "z");
  }
  for (const char* text : {"\"}],{\"ph\":\"X", "]}", "}}]}", "\\", "\\u0000", "%s%n{}{0}", "</script><img onerror=x>",
                           "\xed\xa0\x80", "\xf0\x9f\x98\x80", "\xe2\x80\xa8", "line\nbreak\r\t\b\f"})
    texts.emplace_back(text, text == std::string("\xed\xa0\x80") ? bad + bad + bad : text);
  for (const auto& [text, shown] : texts) {
    if (text.empty()) continue;
    trace_builder b;
    trace_process process;
    process.pid = 7;
    process.name = process.host = process.labels = text;
    b.add_process(process);
    trace_track track;
    track.id = 1;
    track.name = text;
    b.add_track(track);
    trace_event e;
    e.name = b.intern(text);
    e.end_ns = 1000;
    b.add_event(e);
    b.set_arguments(
        0, {text_argument(b, text, "value"), text_argument(b, "key", text), text_argument(b, "json key", text)});
    event_detail& d = b.detail(0);
    d.stack = d.source_file = d.input_types = d.input_dims = b.intern(text);
    d.source_line = 3;
    track.kind = track_kind::async;
    b.add_track(track);
    b.add_event(e);
    b.add_mark({10, b.intern(text), 0, npos, trace_mark::type::instant, 0});
    b.add_mark({20, b.intern(text), 0, npos, trace_mark::type::counter, 1});
    memory_event m;
    m.time_ns = 30;
    m.pool = b.intern(text);
    b.add_memory(m);
    b.add_note(text, text);
    b.info().clock = b.info().trace_id = text;
    b.add_metadata("m" + text, "[1]");
    chrome_trace_options options;
    options.trace_name = text;
    std::string out;
    write_chrome_trace(b.finish(), out, options);
    const checked_trace t = test::check_trace(out);
    CAPTURE(text);
    REQUIRE(t.summary().empty());
    REQUIRE(t.events().size() == 5 + 1 + 2 + 3 + 2 + 4);
    const json file = json::parse(out);
    REQUIRE(t.process_names.at("7") == shown);
    REQUIRE(t.thread_names.at("7/1") == shown);
    const json slice = only(file, "X", "cpu_op")[0];
    REQUIRE(slice.at("name") == shown);
    REQUIRE(slice.at("args").at(text.empty() ? "user." : shown) == "value");
    REQUIRE(slice.at("args").at("key") == shown);
    REQUIRE(slice.at("args").at("Call stack") == (text.empty() ? "" : shown + ';'));
    REQUIRE(slice.at("args").at("Source") == shown + ":3");
    // Where a JSON value belongs, a text that is one stays one ("1"), any other is a string.
    if (!json::accept(text)) REQUIRE(slice.at("args").at("Input type") == shown);
    REQUIRE(only(file, "b")[0].at("name") == shown);
    REQUIRE(only(file, "e")[0].at("name") == shown);
    REQUIRE(only(file, "i", "mark")[0].at("name") == shown);
    REQUIRE(only(file, "C", "counter")[0].at("name") == shown);
    REQUIRE(only(file, "i", "cpu_instant_event")[0].at("args").at("Pool") == shown);
    REQUIRE(file.at("stepprof").at("notes")[0] == json({{"code", shown}, {"text", shown}}));
    REQUIRE(file.at("stepprof").at("clock") == shown);
    REQUIRE(file.at("stepprof").at("tracks")[0].at("name") == shown);
    REQUIRE(file.at("host_name") == shown);
    REQUIRE(file.at("trace_id") == shown);
    REQUIRE(file.at("m" + shown) == json::parse("[1]"));
    REQUIRE(file.at("traceName") == shown);
    REQUIRE(out.find_first_of("<>&") == std::string::npos);
  }
}

// FC-43: pytorch/kineto#888
// Catches: metadata that breaks out of its value, takes the place of a key of the format, or a path taken as a format.
TEST_CASE("metadata and the path cannot break the file", "[chrome_trace]") {
  const test::temp_folder folder;
  const trace t = test::events("t1: f[0..1]")
                      .with_metadata("broken", "1],\"traceEvents\":[")
                      .with_metadata("traceEvents", "[]")
                      .with_metadata("displayTimeUnit", "\"s\"")
                      .with_metadata("", "1")
                      .with_metadata("x\xff", "1")
                      .with_metadata("x\xfe", "2")
                      .with_metadata("emoji", "\"\\ud83d\\ude00\"")
                      .with_metadata("trace_id", "\"mine\"");
  const std::string path = folder / "a]}%s%n{}\\\"'b.json";
  export_chrome_trace(t, path);
  const std::string text = test::contents_of(path);
  CHECK(test::check_trace(text).summary().empty());
  const json file = json::parse(text);
  CHECK(file.at("broken") == "1],\"traceEvents\":[");
  CHECK(file.at("user.traceEvents") == json::array());
  CHECK(file.at("user.displayTimeUnit") == "s");
  CHECK(file.at("displayTimeUnit") == "ns");
  CHECK(file.at("user.") == 1);
  CHECK(file.at("x" + bad) == 2);
  CHECK(file.at("emoji") == "\xf0\x9f\x98\x80");
  CHECK(file.at("trace_id") == "mine");
  CHECK(file.at("traceName") == path);
  // A reader that looks for the last bracket finds the end of the events.
  const std::size_t bracket = text.rfind(']');
  CHECK(text.compare(bracket, 14, "],\"traceName\":") == 0);
  CHECK(text.rfind('}') == text.size() - 1);
}

// FC-40: pytorch/kineto PR1459, pytorch/pytorch#98432, pytorch/pytorch#113001
// Catches: a path that is taken for a format, unescaped or cleaned on its way to the system or into the file.
TEST_CASE("the path may hold every byte that a path can hold", "[chrome_trace]") {
  const test::temp_folder folder;
  const trace t = test::events("t1: f[0..1]");
  std::vector<std::pair<std::string, std::string>> names;  // given, shown
  std::string all, all_shown;
  for (int c = 1; c < 256; ++c) {
    if (c == '/') continue;
    const std::string byte(1, static_cast<char>(c));
    const std::string shown = c < 0x80 ? byte : bad;
    names.emplace_back("a" + byte + "z", "a" + shown + "z");
    if (c < '0' && c != '.') names.emplace_back(byte, shown);  // "." is the folder itself
    all += byte;
    all_shown += shown;  // no two of these bytes make a character together
  }
  names.emplace_back(all, all_shown);
  names.emplace_back("%s%n{}{0}\\\"'.json", "%s%n{}{0}\\\"'.json");
  std::vector<std::string> expected;
  for (const auto& [name, shown] : names) {
    CAPTURE(name);
    const std::string path = folder / name;
    std::error_code ec;
    export_chrome_trace(t, path, ec);
    REQUIRE_FALSE(ec);
    export_stacks(t, path + "s", "self_cpu_time_total", ec);  // 255 bytes at most
    REQUIRE_FALSE(ec);
    const checked_trace file = test::check_trace(test::contents_of(path));
    REQUIRE(file.summary().empty());
    REQUIRE(file.root().string("traceName") == folder / shown);
    REQUIRE(test::contents_of(path + "s") == "f 1\n");
    expected.push_back(name);
    expected.push_back(name + "s");
  }
  std::sort(expected.begin(), expected.end());
  CHECK(folder.names() == expected);
}

// FC-44: pytorch/kineto#105, MobileNativeFoundation/bluepill#437, apitrace/apitrace#339
// Catches: numbers that are no JSON, or lose a bit.
TEST_CASE("arguments of every type are exact", "[chrome_trace]") {
  test::event_builder e("t1: f[0..10]");
  trace_builder& b = e.builder;
  std::vector<trace_argument> args;
  const auto real = [&](const char* key, double value) {
    args.push_back(argument(b, key));
    args.back().kind = trace_argument::type::real;
    args.back().real = value;
  };
  const auto integer = [&](const char* key, std::int64_t value) {
    args.push_back(argument(b, key));
    args.back().int64 = value;
  };
  real("nan", std::nan(""));
  real("inf", std::numeric_limits<double>::infinity());
  real("-inf", -std::numeric_limits<double>::infinity());
  real("-0", -0.0);
  real("denormal", 4.9406564584124654e-324);
  real("1e308", 1e308);
  real("float", static_cast<double>(0.1f));
  integer("min", INT64_MIN);
  integer("max", INT64_MAX);
  args.push_back(argument(b, "umax"));
  args.back().kind = trace_argument::type::uint64;
  args.back().uint64 = UINT64_MAX;
  args.push_back(argument(b, "yes"));
  args.back().kind = trace_argument::type::boolean;
  args.back().boolean = true;
  args.push_back(argument(b, "json"));
  args.back().kind = trace_argument::type::json;
  args.back().text = b.intern("{\"a\": [1, null]}");
  b.set_arguments(0, args);
  b.add_mark({1, b.intern("c"), 0, npos, trace_mark::type::counter, std::nan("")});
  b.add_mark({2, b.intern("c"), 0, npos, trace_mark::type::counter, 0.1});
  memory_event m;
  m.time_ns = 5;
  m.address = UINT64_MAX;
  m.bytes = INT64_MIN;
  m.total_allocated = INT64_MAX;
  b.add_memory(m);
  const json file = exported_json(b.finish());
  const json a = only(file, "X", "cpu_op")[0].at("args");
  CHECK(a.at("nan") == "NaN");
  CHECK(a.at("inf") == "Infinity");
  CHECK(a.at("-inf") == "-Infinity");
  CHECK(std::signbit(a.at("-0").get<double>()));
  CHECK(a.at("denormal").get<double>() == 4.9406564584124654e-324);
  CHECK(a.at("1e308").get<double>() == 1e308);
  CHECK(a.at("float").get<double>() == static_cast<double>(0.1f));
  CHECK(a.at("min") == INT64_MIN);
  CHECK(a.at("max") == INT64_MAX);
  CHECK(a.at("umax") == "18446744073709551615");
  CHECK(a.at("yes") == true);
  CHECK(a.at("json") == json::parse("{\"a\":[1,null]}"));
  // A counter takes numbers only.
  CHECK(only(file, "i", "counter")[0].at("args").at("value") == "NaN");
  CHECK(only(file, "C", "counter")[0].at("args").at("value") == 0.1);
  CHECK(file.at("stepprof").at("notes")[0].at("code") == "unplotted_values");
  CHECK(only(file, "i", "cpu_instant_event")[0].at("args").at("Addr") == "18446744073709551615");
}

// FC-45: akheron/jansson#32, Tencent/rapidjson#72, tgockel/json-voorhees#34, sysstat/sysstat#128
// Catches: a number printed through the C locale, the global C++ locale or the stream's.
TEST_CASE("no locale changes the file", "[chrome_trace]") {
  struct strange : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  test::event_builder e("t1: f[0..123456789]");
  trace_builder& b = e.builder;
  std::vector<trace_argument> args{argument(b, "x")};
  args[0].kind = trace_argument::type::real;
  args[0].real = 1234567.5;
  b.set_arguments(0, args);
  b.info().end_ns = 123456789;
  b.info().scope_cost_ns = 12345.25;
  b.add_mark({5, b.intern("c"), 0, npos, trace_mark::type::counter, 7654321.5});
  const trace t = b.finish();
  std::string expected;
  write_chrome_trace(t, expected);
  CHECK(test::check_trace(expected).summary().empty());

  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new strange));
  std::optional<test::comma_locale> comma(std::in_place);
  const bool has_comma = test::comma_locale::active();
  std::ostringstream imbued;
  imbued.imbue(std::locale(std::locale::classic(), new strange));
  imbued.setf(std::ios::hex | std::ios::showpos);
  imbued.width(100);
  export_chrome_trace(t, imbued);
  std::string under_strange;
  write_chrome_trace(t, under_strange);
  comma.reset();
  std::locale::global(before);
  CHECK(imbued.str() == expected);
  CHECK(under_strange == expected);
  if (!has_comma) test::skip("needs a C locale with a comma");
}

// FC-45: akheron/jansson#32, Tencent/rapidjson#72, tgockel/json-voorhees#34, sysstat/sysstat#128
// Catches: a writer that asks for the locale, or sets its own for as long as it writes: other threads change it, too,
// or see what they did not ask for.
TEST_CASE("no locale changes any output, also when another thread changes it meanwhile", "[chrome_trace]") {
  struct strange : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  // Enough numbers for some to be written at any moment.
  std::string scopes = "t1: f[0..1234567890]{";
  for (int i = 0; i < 100; ++i)
    scopes += " g" + std::to_string(i) + "[" + std::to_string(10000000 * i) + ".." +
              std::to_string(10000000 * i + 1234567) + "]";
  test::event_builder e(scopes + " }");
  trace_builder& b = e.builder;
  std::vector<trace_argument> args{argument(b, "x")};
  args[0].kind = trace_argument::type::real;
  args[0].real = 1234567.5;
  for (std::uint32_t i = 0; i < b.event_count(); ++i) b.set_arguments(i, args);
  b.info().scope_cost_ns = 12345.25;
  const trace t = b.finish();
  const auto outputs = [&t] {
    std::error_code ec;
    std::string text;
    write_chrome_trace(t, text);
    return text + folded_stacks(t, "self_cpu_time_total", ec) + key_averages(t).table("self_cpu_time_total");
  };
  const std::string expected = outputs();
  for (const char* part : {"1234567.5", "12345.25", "f 1111111190\nf;g0 1234567\n", " 90.00% ", "1.111s"}) {
    CAPTURE(part);
    CHECK(expected.find(part) != std::string::npos);
  }

  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new strange));
  std::optional<test::comma_locale> comma(std::in_place);
  const bool has_comma = test::comma_locale::active();
  const std::string with_comma = std::setlocale(LC_NUMERIC, nullptr);
  const bool same_in_comma_locale = outputs() == expected;
  // What differs while another thread does `meanwhile` again and again.
  const auto different_beside = [&](const std::function<void()>& meanwhile) {
    std::atomic<bool> done{false};
    std::atomic<int> rounds{0};
    std::thread other([&] {
      for (; !done; ++rounds) meanwhile();
    });
    int different = 0;
    for (int i = 0; i < 50 || rounds < 50; ++i) different += outputs() != expected;
    done = true;
    other.join();
    return different;
  };
  const int different_beside_changes = different_beside([&] {
    std::locale::global(std::locale::classic());
    std::locale::global(std::locale(std::locale::classic(), new strange));
    std::setlocale(LC_NUMERIC, with_comma.c_str());
  });
  const std::locale set;
  int seen_changed = 0;
  const int different_beside_looking = different_beside([&] {
    for (int i = 0; i < 100; ++i)
      seen_changed += std::setlocale(LC_NUMERIC, nullptr) != with_comma || std::locale() != set;
  });
  comma.reset();
  std::locale::global(before);
  CHECK(same_in_comma_locale);
  CHECK(different_beside_changes == 0);
  CHECK(different_beside_looking == 0);
  CHECK(seen_changed == 0);
  if (!has_comma) test::skip("needs a C locale with a comma");
}

// FC-48: google/perfetto#1822, google/trace-viewer#119, dsharlet/slinky PR427, koute/not-perf#22
// FC-28: pytorch/pytorch PR8034, facebookresearch/HolisticTraceAnalysis#107
// Catches: commas that depend on there being events of a kind.
TEST_CASE("a file with any of its parts missing is whole", "[chrome_trace]") {
  CHECK(exported(trace()).events().size() == 4);
  CHECK(exported(test::events("")).events().size() == 3 + 4);
  CHECK(exported(test::events("t1: a[0..1]")).events().size() == 3 + 2 + 1 + 4);
  CHECK(exported(test::events("t1: a[0..1] b[1..2]")).events().size() == 3 + 2 + 2 + 4);
  CHECK(exported(test::events("async1: a[0..1]")).events().size() == 3 + 2 + 4);
  CHECK(exported(trace().with_metadata("k", "1")).root().at("k").text == "1");
  trace_builder counters;
  counters.add_process({});
  counters.add_track({});
  counters.add_mark({0, counters.intern("c"), 0, npos, trace_mark::type::counter, 1});
  CHECK(exported(counters.finish()).by_phase.at("C") == 1);
  // An arrow alone is none: the least is its two scopes, on one thread or two.
  for (const bool two_threads : {false, true}) {
    test::event_builder flow(two_threads ? "t1: a[0..1]; t2: b[2..3]" : "t1: a[0..1] b[2..3]");
    flow.builder.add_link({0, 1, link_kind::custom});
    const checked_trace t = exported(flow.builder.finish());
    CHECK(t.events().size() == 3 + (two_threads ? 4 : 2) + 2 + 2 + 4);
    CHECK((t.by_phase.at("s") == 1 && t.by_phase.at("f") == 1));
    REQUIRE(t.arrows.size() == 1);
    CHECK(t.arrow_text(t.arrows[0]) == "a -> b");
  }
  // Where it cannot be drawn there is nothing of it: scopes on no thread, an arrow against time.
  test::event_builder async("async1: a[0..1] b[2..3]");
  async.builder.add_link({0, 1, link_kind::custom});
  CHECK(exported(async.builder.finish()).events().size() == 3 + 2 * 2 + 4);
  test::event_builder backwards("t1: a[0..1] b[2..3]");
  backwards.builder.add_link({1, 0, link_kind::custom});
  CHECK(exported(backwards.builder.finish()).events().size() == 3 + 2 + 2 + 4);
  trace_builder instants;
  instants.add_process({});
  instants.add_track({});
  instants.add_mark({0, instants.intern("c"), 0, npos, trace_mark::type::instant, 1});
  instants.add_memory({});
  CHECK(exported(instants.finish()).by_phase.at("i") == 2 + 2);
  for (const char* name : {"", "x"}) {
    trace_builder b;
    trace_process process;
    process.name = name;
    b.add_process(process);
    exported(b.finish());
  }
}

// FC-49: ilnytskyi/xdebug-to-chromium-trace-converter PR2
// Catches: args that are no object, a key that comes twice, a key of ours replaced by the user's.
TEST_CASE("arguments follow the rules for keys", "[chrome_trace]") {
  const auto args_of = [](const std::vector<std::pair<std::string, std::string>>& given) {
    test::event_builder e("t1: f[0..1]");
    std::vector<trace_argument> args;
    for (const auto& [key, value] : given) args.push_back(text_argument(e.builder, key, value));
    e.builder.set_arguments(0, args);
    json result = only(exported_json(e.builder.finish()), "X", "cpu_op")[0].at("args");
    CHECK(result.at("External id") == 1);
    CHECK(result.at("Record function id") == 0);
    CHECK(result.at("Ev Idx") == 0);
    for (const char* key : {"External id", "Record function id", "Ev Idx"}) result.erase(key);
    return result;
  };
  CHECK(args_of({}).empty());
  CHECK(args_of({{"k", "1"}}) == json({{"k", "1"}}));
  CHECK(args_of({{"k", "1"}, {"l", "2"}, {"k", "3"}}) == json({{"k", "3"}, {"l", "2"}}));
  CHECK(args_of({{"", "1"}}) == json({{"user.", "1"}}));
  CHECK(args_of({{"Ev Idx", "1"}, {"finished", "2"}}) == json({{"user.Ev Idx", "1"}, {"user.finished", "2"}}));
  CHECK(args_of({{"user.Ev Idx", "1"}, {"Ev Idx", "2"}}) == json({{"user.Ev Idx", "2"}}));
  CHECK(args_of({{"x\xff", "1"}, {"x\xfe", "2"}}) == json({{"x" + bad, "2"}}));
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 64; ++i) many.emplace_back("k" + std::to_string(i), std::to_string(i));
  CHECK(args_of(many).size() == 64);
}

// FC-49: ilnytskyi/xdebug-to-chromium-trace-converter PR2
// Catches: one key of ours that is forgotten: a user's argument stands beside our value, or looks like it where we have
// none.
TEST_CASE("an argument under any key of ours stands beside it", "[chrome_trace]") {
  // As the documentation of the format lists them.
  const std::vector<std::string> on_every_scope = {"External id", "Record function id", "Ev Idx"};
  const std::vector<std::string> where_known = {"Sequence number", "Fwd thread id",   "Input Dims",   "Input Strides",
                                                "Input type",      "Concrete Inputs", "Call stack",   "Source",
                                                "finished",        "Other thread",    "Out of order", "Parent Ev Idx",
                                                "Moved ns"};
  const std::vector<std::string> reserved = {"Module Hierarchy", "Backend"};
  test::event_builder e("t1: plain[0..10]{ full[10..10] }");
  trace_builder& b = e.builder;
  b.event(1).flags = trace_event::unfinished | trace_event::other_thread | trace_event::out_of_order;
  link(b, 1, 28, 1);
  event_detail& d = b.detail(1);
  d.input_dims = d.input_strides = d.input_types = d.concrete_inputs = b.intern("[]");
  d.stack = d.source_file = b.intern("text");
  std::vector<std::string> all = on_every_scope;
  all.insert(all.end(), where_known.begin(), where_known.end());
  all.insert(all.end(), reserved.begin(), reserved.end());
  std::vector<trace_argument> args;
  for (const std::string& key : all) args.push_back(text_argument(b, key, "the user's " + key));
  b.set_arguments(0, args);
  b.set_arguments(1, args);
  const json slices = only(exported_json(b.finish()), "X", "cpu_op");
  const json& plain = slices[0].at("args");
  const json& full = slices[1].at("args");
  for (const std::string& key : all) {
    CAPTURE(key);
    CHECK(plain.value("user." + key, json()) == "the user's " + key);
    CHECK(full.value("user." + key, json()) == "the user's " + key);
  }
  for (const std::string& key : where_known) {
    CAPTURE(key);
    CHECK_FALSE(plain.contains(key));
    CHECK(full.contains(key));
    CHECK(full.value(key, json()) != "the user's " + key);
  }
  for (const std::string& key : reserved) {
    CHECK_FALSE(plain.contains(key));
    CHECK_FALSE(full.contains(key));
  }
  CHECK(plain.size() == all.size() + on_every_scope.size());
  CHECK(full.size() == all.size() + on_every_scope.size() + where_known.size());
}

// FC-53: pytorch/pytorch#92855, sgl-project/sglang-omni PR2248
// Catches: an export that changes the recording, or depends on anything but it.
TEST_CASE("every export gives the same bytes", "[chrome_trace]") {
  std::string names;
  for (int i = 0; i < 500; ++i)
    names += " n" + std::to_string(i % 37) + "[" + std::to_string(i) + ".." + std::to_string(i + 1) + "]";
  const trace t = test::events("t1:" + names + "; t2:" + names);
  std::string first;
  write_chrome_trace(t, first);
  CHECK(test::check_trace(first).summary().empty());
  const test::temp_folder folder;
  chrome_trace_options options;
  options.trace_name = "name";
  std::vector<std::thread> threads;
  std::vector<std::string> results(4);
  for (std::size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 10; ++k) {
        results[i].clear();
        write_chrome_trace(t, results[i]);
        std::error_code ec;
        export_chrome_trace(t, folder / ("t" + std::to_string(i)), options, ec);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) CHECK(result == first);
  std::string named;
  write_chrome_trace(t, named, options);
  for (int i = 0; i < 4; ++i) CHECK(test::contents_of(folder / ("t" + std::to_string(i))) == named);
}

// FC-53: pytorch/pytorch#92855, sgl-project/sglang-omni PR2248
// Catches: an exporter that spoils the recording for the next one, of its own or of another kind.
TEST_CASE("exports of every kind in any order give the same bytes", "[chrome_trace]") {
  const trace t = test::events("t1: f[0..100]{ g[20..60]{ f[20..30] } }; t2: h[0..50]");
  using exporter = std::function<std::string()>;
  const exporter as_trace = [&t] {
    std::string text;
    write_chrome_trace(t, text);
    return text;
  };
  const exporter as_stacks = [&t] {
    std::error_code ec;
    return folded_stacks(t, "self_cpu_time_total", ec);
  };
  const exporter as_table = [&t] { return key_averages(t).table("self_cpu_time_total"); };
  const std::string first = as_trace();
  CHECK(test::check_trace(first).summary().empty());
  CHECK(as_trace() == first);
  const std::string stacks = as_stacks();
  CHECK(stacks == "f 60\nf;g 30\nf;g;f 10\nh 50\n");
  const std::string rows = as_table();
  CHECK(rows.find("Self CPU time total: 0.150us") != std::string::npos);
  CHECK(as_trace() == first);

  // And at the same time.
  for (const auto& [one, two] :
       {std::pair(as_trace, as_stacks), std::pair(as_stacks, as_table), std::pair(as_table, as_trace)}) {
    const std::string one_alone = one(), two_alone = two();
    bool same = true;
    std::thread other([&, run = two] {
      for (int i = 0; i < 50; ++i) same = run() == two_alone && same;
    });
    bool mine_same = true;
    for (int i = 0; i < 50; ++i) mine_same = one() == one_alone && mine_same;
    other.join();
    CHECK(same);
    CHECK(mine_same);
  }
  CHECK(as_trace() == first);
  CHECK(as_stacks() == stacks);
  CHECK(as_table() == rows);
}

// FC-52: aras-p/ClangBuildAnalyzer#2, soctrace-inria/framesoc#139, torognes/vsearch#243
// Catches: a failed export that reports success, leaves something behind, or spoils the next one.
TEST_CASE("a failed export is an error and a second one works", "[chrome_trace]") {
  const test::temp_folder folder;
  const trace t = test::events("t1: f[0..1]");
  std::error_code ec;
  CHECK(export_chrome_trace(t, folder / "missing/t.json", ec).events == 0);
  CHECK(ec == std::errc::no_such_file_or_directory);
  CHECK_THROWS_WITH(export_chrome_trace(t, folder / "missing/t.json"),
                    "cannot write '" + (folder / "missing/t.json") + "': No such file or directory");
  CHECK_THROWS_AS(export_chrome_trace(t, folder.path()), std::system_error);
  CHECK(export_chrome_trace(t, folder / "t.json", ec).flows == 0);
  CHECK_FALSE(ec);
  CHECK(folder.names() == std::vector<std::string>{"t.json"});
  CHECK(test::check_trace(test::contents_of(folder / "t.json")).summary().empty());
}

// Catches: a stream that fails unnoticed, or whose exceptions are swallowed or unasked for.
TEST_CASE("a stream that fails is an error", "[chrome_trace]") {
  const trace t = test::events("t1: f[0..1]");
  std::ostringstream good;
  const chrome_trace_result result = export_chrome_trace(t, good);
  CHECK(result.bytes == good.str().size());
  CHECK(test::check_trace(good.str()).summary().empty());
  std::ostream none(nullptr);
  std::error_code ec;
  export_chrome_trace(t, none, ec);
  CHECK(ec == std::io_errc::stream);
  CHECK(none.bad());
  CHECK_THROWS_AS(export_chrome_trace(t, none), std::system_error);
}

namespace {

// Takes everything, and only when it is flushed says that it could not be kept.
struct full_at_flush : std::stringbuf {
  int sync() override { return -1; }
};

// A file whose buffer takes whatever fits into it; std::filebuf itself writes texts that are not very short at once.
struct buffered_file : std::filebuf {
  std::streamsize xsputn(const char* text, std::streamsize size) override { return std::streambuf::xsputn(text, size); }
};

}  // namespace

// FC-52: aras-p/ClangBuildAnalyzer#2, soctrace-inria/framesoc#139, torognes/vsearch#243
// Catches: a file so small that the stream's buffer holds all of it, reported as written before anything was.
TEST_CASE("a stream that fails only when it is flushed is an error", "[chrome_trace]") {
  const trace t = test::events("t1: f[0..1]");
  std::error_code ec;
  full_at_flush buffer;
  std::ostream buffered(&buffer);
  export_chrome_trace(t, buffered, ec);
  CHECK(test::check_trace(buffer.str()).summary().empty());  // all was taken
  CHECK(ec == std::io_errc::stream);
  CHECK(buffered.bad());
  buffered.clear();
  CHECK_THROWS_AS(export_chrome_trace(t, buffered), std::system_error);
  std::ostringstream good;
  export_chrome_trace(t, good, ec);
  CHECK_FALSE(ec);

  // A device of the test's own, never the machine's. Without the right to make one, the above has to do.
  const test::temp_folder folder;
  const std::string full = folder / "full";
  std::vector<char> room(std::size_t{1} << 16);
  buffered_file file;
  file.pubsetbuf(room.data(), static_cast<std::streamsize>(room.size()));
  if (::mknod(full.c_str(), S_IFCHR | 0666, ::makedev(1, 7)) != 0 || !file.open(full, std::ios::out)) return;
  std::ostream device(&file);
  export_chrome_trace(t, device, ec);
  CHECK(ec == std::io_errc::stream);
  CHECK(device.bad());
}

// FC-46: google/perfetto#738, google/perfetto#886, google/perfetto#522, thoren-d/tracing-chrome#32
// Catches: ids that Perfetto turns into 0, so that threads fall onto one line.
TEST_CASE("ids are unique and in range, names stay with them", "[chrome_trace]") {
  trace_builder b;
  const auto add = [&](std::int64_t pid, std::initializer_list<std::uint32_t> ids) {
    trace_process process;
    process.pid = pid;
    process.os_pid = 7000000000;
    const std::uint32_t index = b.add_process(process);
    for (const std::uint32_t id : ids) {
      trace_track track;
      track.process = index;
      track.id = id;
      track.os_id = std::uint64_t{1} << 32;
      track.name = std::to_string(index) + ":" + std::to_string(id);
      b.add_track(track);
      trace_event e;
      e.name = b.intern("e");
      e.end_ns = 10;
      b.add_event(e);
    }
  };
  add(1, {0, 1, 2, 0x80000000u, 0xffffffffu});
  add(1, {1});
  add(7000000000, {1});
  const checked_trace t = exported(b.finish());
  std::set<std::string> threads, names;
  for (const auto& [thread, name] : t.thread_names) {
    threads.insert(thread);
    names.insert(name);
  }
  CHECK(threads == std::set<std::string>{"1/1", "1/2", "1/3", "1/4", "1/5", "2/1", "3/1"});
  CHECK(names == std::set<std::string>{"0:0", "0:1", "0:2", "0:2147483648", "0:4294967295", "1:1", "2:1"});
  CHECK(t.thread_names.at("1/1") == "0:1");
  CHECK(t.root().at("stepprof").at("tracks").items[0].integer("os_id") == (1ll << 32));
  CHECK(t.root().at("stepprof").at("processes").items[2].integer("os_pid") == 7000000000);
}

// Catches: nesting that Perfetto drops passed over in silence.
TEST_CASE("scopes deeper than viewers show are counted", "[chrome_trace]") {
  std::string text = "t1:", tail;
  for (int i = 0; i < 515; ++i) {
    text += " d[" + std::to_string(i) + ".." + std::to_string(2000 - i) + "]{";
    tail += "}";
  }
  test::event_builder e(text + tail);
  e.builder.add_link({0, 513, link_kind::custom});
  std::string out;
  const chrome_trace_result result = write_chrome_trace(e.builder.finish(), out);
  const checked_trace t = test::check_trace(out);
  CHECK(t.rules() == std::set<std::string>{"depth"});
  CHECK(t.findings.size() == 3);
  CHECK(result.deep_scopes == 3);
  CHECK(result.flows_left_out == 1);  // one of its ends is not shown
  CHECK(t.root().at("stepprof").at("notes").items[0].string("code") == "deep_scopes");
  CHECK(t.slice_count("d") == 515);
}

// Catches: a counter that mixes devices, which chrome://tracing would show as one.
TEST_CASE("memory events have instants and a counter per device", "[chrome_trace]") {
  test::event_builder e("t1: f[0..100]; t2: g[0..100]");
  trace_builder& b = e.builder;
  memory_event m;
  m.time_ns = 10;
  m.bytes = m.total_allocated = 100;
  b.add_memory(m);
  m.time_ns = 20;
  m.track = 1;
  m.device_type = 1;
  m.device_id = 0;
  m.total_allocated = 7;
  b.add_memory(m);
  m.time_ns = 30;
  m.device_type = 0;
  m.device_id = -1;
  m.bytes = -100;
  m.total_allocated = 0;
  b.add_memory(m);
  const trace t = b.finish();
  const json file = exported_json(t);
  const json counters = only(file, "C", "memory");
  REQUIRE(counters.size() == 3);
  CHECK(counters[0].at("args") == json({{"CPU", 100}}));
  CHECK(counters[1].at("name") == "Live bytes 1:0");
  CHECK(counters[1].at("args") == json({{"device", 7}}));
  CHECK(counters[2].at("args") == json({{"CPU", 0}}));
  const json instants = only(file, "i", "cpu_instant_event");
  CHECK(instants[1].at("tid") == 2);
  CHECK_FALSE(instants[0].at("args").contains("finished"));
  CHECK_FALSE(instants[0].at("args").contains("Scope Ev Idx"));
  chrome_trace_options options;
  options.live_bytes_counter = false;
  std::string out;
  write_chrome_trace(t, out, options);
  CHECK(only(json::parse(out), "C").empty());
}

// Catches: flags that viewers' users need, missing or on every event.
TEST_CASE("odd scopes say what is odd about them", "[chrome_trace]") {
  test::event_builder e("t1: open[0..10] done[10..20]; async1: moved[1..5] crossed[2..8]");
  e.builder.event(0).flags |= trace_event::unfinished;
  e.builder.event(2).flags |= trace_event::other_thread;
  e.builder.event(3).flags |= trace_event::out_of_order;
  const json file = exported_json(e.builder.finish());
  const json slices = only(file, "X", "cpu_op");
  CHECK(slices[0].at("args").at("finished") == false);
  CHECK_FALSE(slices[1].at("args").contains("finished"));
  const json async = only(file, "b");
  CHECK(async[0].at("args").at("Other thread") == true);
  CHECK(async[1].at("args").at("Out of order") == true);
  CHECK(async[0].at("id") != async[1].at("id"));
}

// FC-57: pytorch/pytorch PR57182, FC-58: pytorch/pytorch PR102424, FC-61: google/trace-viewer#1088
// Catches: arrows between other slices than those that belong together, or with one end missing.
TEST_CASE("arrows join what belongs together", "[chrome_trace]") {
  test::event_builder e(
      "t1: outer[0..10]{ inner[2..6] }; t2: wrap[20..30]{ b~[21..29] } wrap[40..50]{ b~[41..49] } alone~[60..70] "
      "zero[70..70]");
  trace_builder& b = e.builder;
  for (const std::uint32_t forward : {0u, 1u}) link(b, forward, 7, 0);
  for (const std::uint32_t backward : {2u, 3u, 4u, 5u}) link(b, backward, 7, 1);
  link(b, 6, 9, 1);   // its forward is not in the trace
  link(b, 7, 11, 0);  // its backward is not
  chrome_trace_result result;
  const checked_trace t = exported(b.finish(), &result);
  REQUIRE(t.arrows.size() == 1);
  CHECK(t.arrow_text(t.arrows[0]) == "inner -> b");
  CHECK(t.slices[t.arrows[0].to].ts_ns == 21);
  CHECK(t.slices[6].args().integer("Sequence number") == 9);
  CHECK(t.slices[7].args().integer("Sequence number") == 11);
}

// Catches: an arrow at a time at which a viewer ties it to a neighbour.
TEST_CASE("an arrow is moved by a ns where it must be, left out where it cannot be", "[chrome_trace]") {
  const auto arrows = [](const std::string& text, std::uint32_t from, std::uint32_t to, std::int64_t instant = -1) {
    test::event_builder e(text);
    e.builder.add_link({from, to, link_kind::custom});
    if (instant >= 0) e.builder.add_mark({instant, e.builder.intern("tick"), 0, npos, trace_mark::type::instant, 0});
    chrome_trace_result result;
    const checked_trace t = exported(e.builder.finish(), &result);
    CHECK(result.flows + result.flows_left_out == 1);
    if (t.arrows.empty()) return std::string("none");
    CHECK(t.arrows[0].cat == "link");
    return t.arrow_text(t.arrows[0]);
  };
  CHECK(arrows("t1: a[0..5] b[7..9]", 0, 1) == "a -> b");
  CHECK(arrows("t1: a[0..5] b[5..9]", 0, 1) == "a -> b");           // touching: 1 ns into b
  CHECK(arrows("t1: a[0..5] b[5..6]", 0, 1) == "none");             // no ns left in b
  CHECK(arrows("t1: a[0..5] b[5..9]{ c[6..8] }", 0, 1) == "none");  // its child begins there
  CHECK(arrows("t1: a[0..5] b[7..9]{ c[7..8] }", 0, 1) == "none");  // the child begins with it
  CHECK(arrows("t1: a[0..5] b[7..9]{ c[7..8] }", 0, 2) == "a -> c");
  CHECK(arrows("t1: a[0..5] b[7..7]", 0, 1) == "a -> b");   // no length, but alone
  CHECK(arrows("t1: a[0..5] b[7..9]", 0, 1, 7) == "none");  // an instant in the same ns
  CHECK(arrows("t1: a[0..5] b[7..9]", 0, 1, 8) == "a -> b");
  CHECK(arrows("t1: a[0..5] b[5..9]", 0, 1, 6) == "none");
  CHECK(arrows("t1: a[0..5] b[5..9]", 0, 1, 7) == "a -> b");
  CHECK(arrows("t1: a[0..5] b[7..9]", 1, 0) == "none");  // against time
  // Two without length: catapult finds the one that stands first in the file.
  CHECK(arrows("t1: p[0..9]{ s[5..5] y[5..8]{ z[5..5] } }", 0, 3) == "none");
  CHECK(arrows("t1: a[0..5]", 0, 0) == "none");
  CHECK(arrows("t1: a[0..5]; async1: b[7..9]", 0, 1) == "none");
}

namespace {

// A random thread: scopes of few ns, with and without length, touching and nested.
void random_scopes(std::mt19937& random, trace_builder& b, std::uint32_t parent, std::int64_t begin, std::int64_t end,
                   int depth) {
  std::int64_t at = begin;
  for (int i = 0; i < 3 && at <= end; ++i) {
    trace_event e;
    e.name = b.intern("e" + std::to_string(b.event_count()));
    e.parent = parent;
    e.begin_ns = at + static_cast<std::int64_t>(random() % 3);
    e.end_ns = e.begin_ns + static_cast<std::int64_t>(random() % 6);
    if (e.end_ns > end) return;
    at = e.end_ns;
    const std::uint32_t index = b.add_event(e);
    if (depth > 0 && random() % 2 == 0) random_scopes(random, b, index, e.begin_ns, e.end_ns, depth - 1);
  }
}

}  // namespace

// Catches: any arrow that a viewer ties to another slice than that it was made for, on traces full of ties; and arrows
// left out although a ns for them exists: every ns of every slice is tried in the checker.
TEST_CASE("arrows are drawn exactly where viewers agree", "[chrome_trace]") {
  std::mt19937 random(11);
  int drawn = 0, impossible = 0;
  for (int round = 0; round < 150; ++round) {
    trace_builder b;
    b.add_process({});
    trace_track track;
    track.id = 1;
    b.add_track(track);
    random_scopes(random, b, npos, 1, 40, 3);
    const std::uint32_t count = b.event_count();
    track.id = 2;
    b.add_track(track);
    trace_event sink;
    sink.name = b.intern("sink");
    sink.begin_ns = 1000;
    sink.end_ns = 2000;
    // One target for each arrow, as they must not share a slice to be told apart.
    for (std::uint32_t i = 0; i < count; ++i) {
      sink.begin_ns = 1000 + 10 * std::int64_t{i};
      sink.end_ns = sink.begin_ns + 5;
      b.add_link({i, b.add_event(sink), link_kind::custom});
    }
    const int ticks = static_cast<int>(random() % 3);
    std::vector<std::int64_t> times;
    for (int i = 0; i < ticks; ++i) times.push_back(static_cast<std::int64_t>(random() % 40));
    for (const std::int64_t time : times) b.add_mark({time, b.intern("tick"), 0, npos, trace_mark::type::instant, 0});
    const trace t = b.finish();
    const checked_trace checked = exported(t);
    std::set<std::uint32_t> tied;
    for (const test::checked_arrow& arrow : checked.arrows) {
      const long long from = checked.slices[arrow.from].args().integer("Ev Idx");
      const long long to = checked.slices[arrow.to].args().integer("Ev Idx");
      REQUIRE(to == from + count);
      tied.insert(static_cast<std::uint32_t>(from));
    }
    // All probes in one file: arrows do not change what slices are there.
    std::string text;
    write_chrome_trace(t, text);
    const std::size_t insert = text.find("\n{\"ph\":\"s\"");
    if (insert == std::string::npos) continue;
    std::string probes;
    for (int ns = 0; ns < 60; ++ns)
      probes += "\n{\"ph\":\"s\",\"id\":" + std::to_string(900000 + ns) +
                ",\"pid\":1,\"tid\":1,\"cat\":\"probe\",\"name\":\"probe\",\"ts\":0.0" + (ns < 10 ? "0" : "") +
                std::to_string(ns) + "},";
    text.insert(insert, probes);
    const checked_trace probed = test::check_trace(text);
    for (std::uint32_t i = 0; i < count; ++i) {
      const trace_event& e = t.events()[i];
      const test::checked_slice& drawn_as = probed.slices.at(i);
      REQUIRE(drawn_as.args().integer("Ev Idx") == i);
      bool possible = false;
      for (std::int64_t ns = drawn_as.ts_ns; ns < drawn_as.end_ns() || ns == drawn_as.ts_ns; ++ns) {
        // Where a slice ends, catapult's answer hangs on the rounding of a sum of doubles: not to be relied on.
        if (std::any_of(probed.slices.begin(), probed.slices.end(), [&](const test::checked_slice& slice) {
              return slice.thread == "1/1" && slice.end_ns() == ns && slice.dur_ns != 0;
            }))
          continue;
        const test::checked_binding& tie = probed.bindings.at(static_cast<std::size_t>(ns));
        REQUIRE((tie.cat == "probe" && tie.ts_ns == ns));
        possible = possible ||
                   (tie.perfetto == tie.catapult && tie.perfetto != test::nothing &&
                    !probed.slices[tie.perfetto].instant && probed.slices[tie.perfetto].args().integer("Ev Idx") == i);
      }
      CAPTURE(round, i, e.begin_ns, e.end_ns);
      if (tied.count(i) != 0) REQUIRE(possible);
      if (possible && e.duration_ns() != 0) REQUIRE(tied.count(i) != 0);
      (possible ? drawn : impossible) += 1;
    }
  }
  CHECK(drawn > 300);
  CHECK(impossible > 100);
}

// FC-60: pytorch/pytorch#69443, pytorch/pytorch#72858, pytorch/pytorch#74139
// Catches: arrows lost or doubled when there are many, with arguments and shapes.
TEST_CASE("many arrows with arguments and shapes are exact", "[chrome_trace]") {
  constexpr std::uint32_t count = 5000;
  trace_builder b;
  b.add_process({});
  trace_track track;
  track.id = 1;
  b.add_track(track);
  for (std::uint32_t i = 0; i < 2 * count; ++i) {
    trace_event e;
    e.name = b.intern("op" + std::to_string(i % 100));
    e.begin_ns = 10 * std::int64_t{i};
    e.end_ns = e.begin_ns + 5;
    const bool backward = i >= count;
    if (backward) e.set_kind(scope_kind::backward_op);
    const std::uint32_t index = b.add_event(e);
    b.set_arguments(index, {text_argument(b, "k" + std::to_string(i % 7), std::to_string(i))});
    b.detail(index).input_dims = b.intern("[[" + std::to_string(i % 50) + "]]");
    link(b, index, backward ? 2 * count - 1 - i : i, backward ? 1 : 0);
  }
  const checked_trace t = exported(b.finish());
  REQUIRE(t.arrows.size() == count);
  for (const test::checked_arrow& arrow : t.arrows)
    REQUIRE(t.slices[arrow.from].args().integer("Ev Idx") + t.slices[arrow.to].args().integer("Ev Idx") ==
            2 * count - 1);
}

// FC-59: pytorch/pytorch#42564, pytorch/pytorch#57476
// Catches: ids of arrows that come twice, or are too large for a double, or differ only beyond 22 bits of the pid.
TEST_CASE("ids of arrows carry the pid and are unique in the file", "[chrome_trace]") {
  trace_builder b;
  for (const std::int64_t pid : {std::int64_t{0x7fffffff}, std::int64_t{0x3fffff}}) {
    trace_process process;
    process.pid = pid;
    const std::uint32_t index = b.add_process(process);
    trace_track track;
    track.process = index;
    track.id = 1;
    b.add_track(track);
    for (std::int64_t i = 0; i < 10; ++i) {
      trace_event e;
      e.name = b.intern("e");
      e.begin_ns = 10 * i;
      e.end_ns = e.begin_ns + 5;
      if (i >= 5) e.set_kind(scope_kind::backward_op);
      const std::uint32_t event = b.add_event(e);
      link(b, event, i % 5, i >= 5 ? 1 : 0);
    }
  }
  const checked_trace t = exported(b.finish());
  CHECK(t.arrows.size() == 10);
  CHECK(t.arrows[0].id == std::to_string((0x3fffffll << 31) + 1));
}

}  // namespace chrome_trace_test
