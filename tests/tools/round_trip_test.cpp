#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/output/memory_timeline_file.hpp>
#include <stepprof/output/table.hpp>
#include <stepprof/tools/trace_reader.hpp>

namespace round_trip_test {

using namespace stepprof;

namespace {

std::string written(const trace& t) {
  std::string text;
  write_chrome_trace(t, text);
  return text;
}
std::string events_of(const trace& t) {
  std::string text;
  for (const trace_event& e : t.events()) {
    const event_detail& d = t.detail(e);
    text += std::string(t.name(e)) + " " + std::to_string(e.begin_ns) + ".." + std::to_string(e.end_ns) + " in " +
            std::to_string(e.parent) + " on " + std::to_string(e.track) + " kind " +
            std::to_string(static_cast<int>(e.kind())) + " flags " + std::to_string(e.flags) + " seq " +
            std::to_string(d.sequence_number) + "/" + std::to_string(d.forward_thread) + " " +
            std::string(t.text(d.input_dims)) + std::string(t.text(d.input_types)) +
            std::string(t.text(d.source_file)) + ":" + std::to_string(d.source_line);
    for (std::uint32_t i = 0; i < d.arg_count; ++i) {
      const trace_argument& a = t.arguments()[d.first_arg + i];
      text += " " + std::string(t.text(a.key)) + "=" + std::to_string(static_cast<int>(a.kind)) + ":" +
              (a.kind == trace_argument::type::text ? std::string(t.text(a.text)) : std::to_string(a.int64));
    }
    text += "\n";
  }
  return text;
}

// One of everything that a trace can hold, with the ties of time that a file cannot tell by times alone.
trace full_trace() {
  test::event_builder built(
      "t1: ProfilerStep#4![100..200]{ a[100..150]{ z[100..100] y[100..100]{ yy[100..100] } b[120..150]{ e[150..150] } "
      "} "
      "g[150..190] } z0[200..200] q[200..205]; t2: w[105..120]{ n~[106..119] } u[121..121]; "
      "async1: o1![107..130] o2[109..131]; async9: s![101..102]");
  trace_builder& b = built.builder;
  trace_info& info = b.info();
  info.begin_ns = 3;
  info.end_ns = 300;
  info.base_time_ns = 1790857026000000123;
  info.cycle = 2;
  info.first_step = info.last_step = 4;
  info.first_event_index = (std::uint64_t{1} << 32) - 2;
  info.clock = "tsc";
  info.trace_id = "00FF";
  info.has_memory = info.has_shapes = info.has_flops = true;
  info.scope_cost_ns = 36.25;
  for (std::uint32_t i = 0; i < b.event_count(); ++i) {
    const std::string name(b.text(b.event(i).name));
    if (name == "ProfilerStep#4") b.event(i).flags = trace_event::step;
    if (name == "o1") b.event(i).flags = trace_event::out_of_order | trace_event::other_thread;
    if (name == "o2") b.event(i).flags = trace_event::unfinished;
    if (name == "a" || name == "w" || name == "n") b.detail(i).sequence_number = 5;
    if (name == "w" || name == "n") b.detail(i).forward_thread = 1;
  }
  b.detail(1).input_dims = b.intern("[[64, 512], [], [[2, 3], [4]]]");
  b.detail(1).input_types = b.intern(R"(["std::vector<float>", "Scalar"])");
  b.detail(1).source_file = b.intern("C:\\src\\a.cpp");
  b.detail(1).source_line = 7;
  std::vector<trace_argument> args(3);
  args[0].key = b.intern("Ev Idx");  // a user's key that is one of ours
  args[0].int64 = INT64_MIN;
  args[1].key = b.intern("user.mine");  // and one that only looks like it
  args[1].kind = trace_argument::type::text;
  args[1].text = b.intern("line\nquote\" <tag> \xf0\x9f\x98\x80");
  args[2].key = b.intern("big");
  args[2].kind = trace_argument::type::real;
  args[2].real = 0.1;
  b.set_arguments(1, args);
  memory_event m;
  m.time_ns = 120;
  m.address = 0x7fffdeadbeef;
  m.bytes = m.total_allocated = 64;
  m.event = 1;  // its time alone would say b
  m.pool = b.intern("pinned");
  b.add_memory(m);
  m.time_ns = 150;
  m.bytes = -64;
  m.total_allocated = 0;
  m.event = npos;
  m.allocation = 0;
  m.track = 1;
  b.add_memory(m);
  b.add_unmatched_free({2, 3});
  b.losses().kept = 11;
  b.losses().dropped = 9;
  b.losses().unmatched_frees = 3;
  trace_mark mark;
  mark.time_ns = 121;
  mark.event = 1;
  mark.name = b.intern("epoch");
  b.add_mark(mark);
  mark.kind = trace_mark::type::counter;
  mark.event = npos;
  mark.name = b.intern("loss");
  mark.value = 2.5;
  b.add_mark(mark);
  b.add_step({4, 100, 200, 0, true});
  b.add_pause({160, 170});
  b.add_note("a_note", "something odd");
  b.add_metadata("traceName", "\"the user's own\"");
  b.add_metadata("run", R"({"a": [1, 2.5, null]})");
  b.process(0).rank = 3;
  b.process(0).host = "node7";
  b.process(0).labels = "CPU";
  b.track(1).os_id = 140000000000000;
  b.track(1).name = "worker <1>";
  return b.finish();
}

}  // namespace

// Catches: anything that a file of ours loses or turns into something else: a second export shows it.
TEST_CASE("a trace read back is written to the same bytes", "[round_trip]") {
  const trace t = full_trace();
  const std::string first = written(t);
  const trace back = parse_trace(first);
  CHECK(events_of(back) == events_of(t));
  CHECK(written(back) == first);
  REQUIRE(back.memory().size() == 2);
  CHECK(back.memory()[0].event == 1);
  CHECK(back.memory()[1].event == npos);
  CHECK(back.memory()[1].allocation == 0);
  CHECK(back.info().first_event_index == (std::uint64_t{1} << 32) - 2);
  CHECK(back.losses().dropped == 9);
  CHECK(back.processes()[0].rank == 3);
  REQUIRE(back.metadata().size() == 2);
  CHECK(back.metadata()[0].key == "traceName");
}

// Catches: a table of a file that differs from the table of the recording.
TEST_CASE("tables of the file are those of the recording", "[round_trip]") {
  const trace t = full_trace(), back = parse_trace(written(t));
  key_averages_options by_shape, by_scope;
  by_shape.group_by_input_shape = true;
  by_scope.group_by_stack_n = 2;
  for (const key_averages_options& options : {key_averages_options(), by_shape, by_scope})
    CHECK(key_averages(back, options).table("self_cpu_time_total", -1) ==
          key_averages(t, options).table("self_cpu_time_total", -1));
  CHECK(event_rows(back).table("", -1) == event_rows(t).table("", -1));
}

// Catches: pools of one address, devices, nested, lost or late blocks that a file confuses, so that columns, bookings
// or the timeline of a file differ from those of the recording.
TEST_CASE("memory of pools and devices is read back", "[round_trip]") {
  test::event_builder built("t1: a[10..100]{ b[20..90] }; t2: c[15..80]");
  trace_builder& b = built.builder;
  b.info().has_memory = true;
  b.info().end_ns = 200;
  std::int64_t now = 20;
  const auto add = [&](std::uint64_t address, std::int64_t bytes, std::int64_t total, std::uint32_t event,
                       const std::string& pool, std::uint32_t allocation, std::uint32_t flags = 0,
                       memory_device device = {}) {
    memory_event m;
    m.time_ns = ++now;
    m.address = address;
    m.bytes = bytes;
    m.total_allocated = total;
    m.event = event;
    m.track = event == 2 ? 1 : 0;
    m.pool = pool.empty() ? npos : b.intern(pool);
    m.allocation = allocation;
    m.flags = static_cast<std::uint8_t>(flags);
    m.device_type = device.type;
    m.device_id = device.index;
    return b.add_memory(m);
  };
  const memory_device cuda{1, 0};
  const std::uint32_t heap = add(0x1000, 256, 256, 0, "", npos);
  const std::uint32_t inner = add(0x1000, 64, 256, 1, "arena \"<1>\"", npos, memory_event::nested);
  const std::uint32_t device = add(0x1000, 512, 512, 2, "cuda:0", npos, 0, cuda);
  add(0x1000, -64, 256, 2, "arena \"<1>\"", inner, memory_event::nested);
  add(0x1000, -256, 0, 0, "", heap, memory_event::lost);
  const std::uint32_t again = add(0x1000, 32, 32, 1, "", npos);
  const std::uint32_t third = add(0x1000, 16, 48, 2, "", npos);
  add(0x1000, -32, 16, 1, "", again, memory_event::late);
  add(0x1000, -16, 0, 2, "", third);
  add(0x1000, -512, 0, 0, "cuda:0", device, 0, cuda);
  add(0x1000, 0, 0, 1, "empty", npos);
  b.losses().lost_frees = 1;
  b.losses().late_frees = 1;
  const trace t = b.finish();
  const std::string first = written(t);
  const trace back = parse_trace(first);
  CHECK(written(back) == first);
  REQUIRE(back.memory().size() == t.memory().size());
  for (std::size_t i = 0; i < t.memory().size(); ++i) {
    const memory_event &x = t.memory()[i], &y = back.memory()[i];
    INFO(i);
    CHECK((x.address == y.address && x.bytes == y.bytes && x.total_allocated == y.total_allocated));
    CHECK((x.event == y.event && x.track == y.track && x.allocation == y.allocation && x.flags == y.flags));
    CHECK((t.text(x.pool) == back.text(y.pool) && x.device_type == y.device_type && x.device_id == y.device_id));
  }
  CHECK(back.losses().lost_frees == 1);
  CHECK(back.losses().late_frees == 1);
  for (const free_booking booking : {free_booking::freeing_scope, free_booking::allocating_scope})
    for (const std::optional<std::string>& pool :
         {std::optional<std::string>(), std::optional<std::string>("arena \"<1>\"")}) {
      key_averages_options options;
      options.memory.booking = booking;
      options.memory.pool = pool;
      table_options columns;
      columns.columns = {"allocated_bytes", "freed_bytes", "peak_bytes", "free_count"};
      CHECK(key_averages(back, options).table(columns) == key_averages(t, options).table(columns));
    }
  CHECK(memory_timeline_json(back) == memory_timeline_json(t));
}

// Catches: times of PyTorch's file changed when it is written as one of ours.
TEST_CASE("PyTorch's capture survives being written by us", "[round_trip]") {
  const trace t = read_trace_file(STEPPROF_TEST_DATA "/torch-2.14.1-seed-capture.json");
  const trace back = parse_trace(written(t));
  CHECK(back.links().size() == 35);
  CHECK(key_averages(back).table("self_cpu_time_total", -1) == key_averages(t).table("self_cpu_time_total", -1));
  CHECK(back.info().base_time_ns == t.info().base_time_ns);
  CHECK(events_of(back).size() == events_of(t).size());
  CHECK(written(back) == written(t));
}

// Catches: a counter, which names no thread, taken for the events of a thread whose number was made up when the first
// file was read: a track more each time.
TEST_CASE("numbers made up for a file are still free when it is read again", "[round_trip]") {
  const trace t = parse_trace(R"({"traceEvents": [{"ph": "X", "name": "a", "pid": 7, "tid": 7, "ts": 1, "dur": 5},)"
                              R"({"ph": "X", "name": "b", "pid": 7, "ts": 2, "dur": 1},)"
                              R"({"ph": "C", "name": "loss", "pid": 7, "tid": 7, "ts": 3, "args": {"value": 1}}]})");
  CHECK(t.tracks().size() == 2);
  CHECK(parse_trace(written(t)).tracks().size() == 2);
  CHECK(written(parse_trace(written(t))) == written(t));
}

// Catches: a rank of a file with several processes, none of which it belongs to, lost when it is written and read
// again.
TEST_CASE("a rank that is of no process is kept", "[round_trip]") {
  const trace t = parse_trace(
      R"({"distributedInfo": {"rank": 3}, "traceEvents": [{"ph": "X", "name": "a", "pid": 7, "tid": 7, "ts": 1, "dur": 5},)"
      R"({"ph": "X", "name": "b", "pid": 8, "tid": 7, "ts": 2, "dur": 1}]})");
  const trace back = parse_trace(written(t));
  REQUIRE(back.metadata().size() == 1);
  CHECK(back.metadata()[0].json == "{\"rank\": 3}");
  CHECK(written(back) == written(t));
}

// Catches: nesting that cannot be told from a file because scopes share their ns. FC-22: pytorch/kineto#109
TEST_CASE("random trees full of ties of time are read back exactly", "[round_trip]") {
  std::mt19937 engine(7);
  const auto random = [&engine](std::uint32_t below) { return static_cast<std::int64_t>(engine() % below); };
  for (int round = 0; round < 200; ++round) {
    trace_builder b;
    b.add_process({});
    trace_track track;
    track.id = 1;
    b.add_track(track);
    std::vector<std::uint32_t> open;
    std::int64_t now = 0;
    for (int i = 0; i < 40; ++i) {
      now += random(2);
      if (!open.empty() && random(3) == 0) {
        b.event(open.back()).end_ns = now;
        open.pop_back();
        continue;
      }
      trace_event e;
      e.name = b.intern(std::string(1, static_cast<char>('a' + random(3))));
      e.begin_ns = now;
      e.parent = open.empty() ? npos : open.back();
      open.push_back(b.add_event(e));
    }
    for (; !open.empty(); open.pop_back()) b.event(open.back()).end_ns = now;
    const trace t = b.finish();
    INFO("round " << round);
    REQUIRE(events_of(parse_trace(written(t))) == events_of(t));
  }
}

}  // namespace round_trip_test
