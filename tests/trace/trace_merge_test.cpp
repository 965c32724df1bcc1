// Catches: accumulated cycles that lose, double or cross-wire anything of the traces they are made of.
#include <support/catch.hpp>
#include <support/event_builder.hpp>
#include <support/recorded.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <stepprof/trace/loss_fields.hpp>
#include <stepprof/trace/trace_merge.hpp>

namespace trace_merge_test {

using namespace stepprof;

namespace {

// "t1: a[0..10]{ b[2..3] }; t2: ..." in the grammar of event_builder, tracks in order, with the host where it is known.
std::string shown(const trace& t) {
  std::string text;
  for (const trace_track& track : t.tracks()) {
    text += text.empty() ? "" : "; ";
    if (const std::string& host = t.processes()[track.process].host; !host.empty()) text += host + "/";
    text += (track.kind == track_kind::thread ? "t" : "async") + std::to_string(track.id) + ":";
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = track.first_event; i < track.first_event + track.event_count; ++i) {
      const trace_event& e = t.events()[i];
      if (i > track.first_event && e.parent == i - 1) {
        text += "{";
        open.push_back(e.parent);
      }
      while (!open.empty() && open.back() != e.parent) {
        text += " }";
        open.pop_back();
      }
      text += " " + std::string(t.name(e)) + "[" + std::to_string(e.begin_ns) + ".." + std::to_string(e.end_ns) + "]";
    }
    for (std::size_t i = 0; i < open.size(); ++i) text += " }";
  }
  return text;
}

struct cycle : test::event_builder {
  cycle(const std::string& text, std::int64_t begin, std::int64_t end) : event_builder(text) {
    builder.info().begin_ns = begin;
    builder.info().end_ns = end;
  }
  trace finish() { return builder.finish(); }
};

constexpr std::int64_t base = 1790857026000000000;

// A process of that host whose origin has that Unix time, known to 30 ns.
trace of_host(const char* host, std::int64_t base_time_ns, std::int64_t begin, std::int64_t wall_shift = 0) {
  cycle c("t1: a[" + std::to_string(begin) + ".." + std::to_string(begin + 10) + "]", begin, begin + 10);
  c.builder.process(0).host = host;
  c.builder.info().base_time_ns = base_time_ns;
  c.builder.info().base_time_error_ns = 30;
  c.builder.info().wall_shift_ns = wall_shift;
  return c.finish();
}

}  // namespace

// Catches: tracks that appear twice, events of a later cycle before those of an earlier one, and parents of the other
// trace.
TEST_CASE("cycles are appended track by track", "[trace_merge]") {
  const trace first = cycle("t1: a[0..10]{ b[2..3] }; t2: c[1..5]", 0, 10).finish();
  const trace second =
      cycle("t2: c[21..22]{ d[21..22] } c[22..24]; t3: e[20..30]; t1: a[20..30]{ x[20..25]{ b[21..22] } }", 20, 30)
          .finish();
  const std::string expected =
      "t1: a[0..10]{ b[2..3] } a[20..30]{ x[20..25]{ b[21..22] } }; "
      "t2: c[1..5] c[21..22]{ d[21..22] } c[22..24]; t3: e[20..30]";
  const trace both = merge({first, second});
  CHECK(shown(both) == expected);
  CHECK(both.events()[3].parent == 2);
  CHECK(both.events()[4].parent == 3);
  CHECK(both.processes().size() == 1);
  CHECK(both.tracks()[1].first_event == 5);
  CHECK(both.tracks()[1].event_count == 4);
  CHECK(both.info().begin_ns == 0);
  CHECK(both.info().end_ns == 30);
  // The order in which they are given does not matter: time decides. Tracks are as first met.
  CHECK(shown(merge({second, first})) == expected);
}

// Catches: a merge that cannot take nothing, or changes a single trace.
TEST_CASE("none and one are fine", "[trace_merge]") {
  CHECK(merge({}).events().empty());
  CHECK(merge({}).processes().empty());
  const trace one = cycle("t1: a[0..10]{ b[2..3] }; async4: c[1..5] d[2..9]", 0, 10).finish();
  CHECK(shown(merge({one})) == shown(one));
  CHECK(merge({one, trace()}).events().size() == 4);
}

// Catches: overlapping windows (a trace given twice) that are made into a broken trace.
TEST_CASE("overlapping traces are refused", "[trace_merge]") {
  const trace one = cycle("t1: a[0..10]", 0, 10).finish();
  std::error_code ec;
  CHECK(merge({one, one}, ec).events().empty());
  CHECK(ec == errc::bad_trace);
  CHECK_THROWS_WITH(merge({one, one}), "trace: event 1 ('a') overlaps the event before it");
  CHECK(merge({one}, ec).events().size() == 1);
  CHECK_FALSE(ec);
}

// Catches: clocks of several processes put side by side as if they were one.
// FC-75: https://github.com/gaogaotiantian/viztracer/issues/361
TEST_CASE("traces that count from different origins are no cycles of one process", "[trace_merge]") {
  const trace here = of_host("here", base, 0);
  const trace there = of_host("there", base + 11561600000, 20);
  const trace without_anchor = of_host("nowhere", 0, 20);
  std::error_code ec;
  for (const trace& other : {there, without_anchor}) {
    CHECK(merge({here, other}, ec).events().empty());
    CHECK(ec == errc::bad_trace);
    CHECK(merge({other, here, here}, ec).events().empty());
    CHECK(ec == errc::bad_trace);
  }
  CHECK_THROWS_WITH(merge({here, without_anchor}),
                    "merge: the traces count their times from different origins (Unix times 1790857026000000000 and 0 "
                    "ns; 0 is unknown); merge those of one process, or use merge_processes");
  CHECK(merge({here, of_host("here", base, 20)}, ec).events().size() == 2);
  CHECK_FALSE(ec);
  CHECK(merge({of_host("", 0, 0), without_anchor}, ec).events().size() == 2);
}

// Catches: steady clocks of two hosts, hours apart, taken for one, which looks plausible and is wrong by seconds; a
// trace that does not say when it was; an error that nobody states.
// FC-75: https://github.com/gaogaotiantian/viztracer/issues/361
TEST_CASE("processes are aligned by the times of their systems", "[trace_merge]") {
  // The second host's steady clock began 11.56 s later, and its system's clock is 1.6 ms ahead: at one moment the first
  // trace's times are 11.56 s larger.
  constexpr std::int64_t apart = 11560000000, skew = 1600000;
  const trace here = of_host("here", base, apart + 100);
  const trace there = of_host("there", base + apart + skew, 100);
  const trace merged = merge_processes({there, here});
  CHECK(shown(merged) == "here/t1: a[11560000100..11560000110]; there/t1: a[11561600100..11561600110]");
  const std::int64_t offset = merged.events()[1].begin_ns - merged.events()[0].begin_ns;
  const trace_info& info = merged.info();
  CHECK(offset == skew);  // what the clocks of the hosts differ by
  CHECK(info.base_time_ns == base);
  CHECK(info.begin_ns == apart + 100);
  CHECK(info.end_ns == apart + skew + 110);
  CHECK(info.base_time_error_ns == 30);
  REQUIRE(merged.notes().size() == 1);
  CHECK(merged.notes()[0].code == "aligned_clocks");
  CHECK(merged.notes()[0].text ==
        "the clocks of the processes were aligned by the times of their systems, whose own differences are not known: "
        "process 7 of here moved by 0 ns, +-30 ns; process 7 of there moved by 11561600000 ns, +-30 ns");
  for (const char* const order : {"forward", "backward"}) {
    std::vector<trace> traces = {here, of_host("nowhere", 0, 20), there};
    if (order[0] == 'b') std::reverse(traces.begin(), traces.end());
    std::error_code ec;
    CHECK(merge_processes(traces, ec).events().empty());
    CHECK(ec == errc::bad_trace);
    CHECK(test::contains(ec.message(), "trace_info::base_time_ns of a trace is 0"));
  }
  CHECK(merge_processes({}).events().empty());
}

// Catches: a clock that was set while a process recorded, and an alignment that claims to know better.
// FC-75: https://github.com/gaogaotiantian/viztracer/issues/361
TEST_CASE("what a system's clock was set by is part of the stated error", "[trace_merge]") {
  constexpr std::int64_t hour = 3600000000000;
  for (const std::int64_t shift : {hour, -hour}) {
    const trace merged = merge_processes({of_host("here", base, 0), of_host("there", base, 0, shift)});
    CHECK(merged.info().base_time_error_ns == hour + 30);
    CHECK(test::contains(merged.notes()[0].text, "of there moved by 0 ns, +-3600000000030 ns"));
    CHECK(test::contains(merged.notes()[0].text, "of here moved by 0 ns, +-30 ns"));
  }
}

// Catches: processes of two hosts with one number that become one, cycles of one process that become two, and numbers
// that are given twice.
TEST_CASE("each process keeps its own tracks", "[trace_merge]") {
  const std::vector<trace> traces = {of_host("here", base, 0), of_host("there", base, 0), of_host("here", base, 20),
                                     of_host("there", base, 20), of_host("here", base + 1000, 0)};
  const trace merged = merge_processes(traces);
  CHECK(shown(merged) ==
        "here/t1: a[0..10] a[20..30]; there/t1: a[0..10] a[20..30]; here/t1: a[1000..1010]");  // that pid came again
  REQUIRE(merged.processes().size() == 3);
  std::set<std::int64_t> pids;
  for (const trace_process& p : merged.processes()) {
    pids.insert(p.pid);
    CHECK((p.os_pid == 0 ? p.pid : p.os_pid) == 7);
  }
  CHECK(pids.size() == 3);
  // A merged trace can be merged again.
  const trace more = merge_processes({merged, of_host("elsewhere", base, 40)});
  CHECK(more.processes().size() == 4);
  CHECK(more.events().size() == 6);
  CHECK(test::contains(more.notes().back().text, "of elsewhere"));
}

// Catches: times of steps, marks, memory and pauses that stay where they were.
TEST_CASE("everything of a process is moved", "[trace_merge]") {
  const auto make = [](const char* host, std::int64_t base_time) {
    cycle c("t1: a[10..30]", 0, 40);
    trace_builder& b = c.builder;
    b.info().base_time_ns = base_time;
    b.process(0).host = host;
    b.add_step({7, 5, 35, npos, true});
    b.add_pause({11, 12});
    trace_mark mark;
    mark.time_ns = 13;
    mark.name = b.intern("mark");
    b.add_mark(mark);
    memory_event m;
    m.time_ns = 14;
    m.bytes = 8;
    m.event = 0;
    b.add_memory(m);
    return c.finish();
  };
  const trace merged = merge_processes({make("here", base), make("there", base + 1000)});
  REQUIRE(merged.steps().size() == 2);
  CHECK(merged.steps()[1].begin_ns == 1005);
  CHECK(merged.steps()[1].end_ns == 1035);
  CHECK(merged.pauses()[1].begin_ns == 1011);
  CHECK(merged.pauses()[1].end_ns == 1012);
  CHECK(merged.marks()[1].time_ns == 1013);
  CHECK(merged.memory()[1].time_ns == 1014);
  CHECK(merged.info().end_ns == 1040);
  CHECK(merged.info().wall_shift_ns == 0);
}

// Catches: texts, details and arguments that keep an index of the trace they come from.
TEST_CASE("details and arguments keep their texts", "[trace_merge]") {
  const auto make = [](std::int64_t at, const std::string& prefix) {
    const std::string begin = std::to_string(at);
    cycle c("t1: f" + prefix + "[" + begin + ".." + std::to_string(at + 9) + "]{ g[" + begin + ".." + begin + "] }", at,
            at + 9);
    trace_builder& b = c.builder;
    event_detail d;
    d.sequence_number = at;
    d.forward_thread = 3;
    d.source_line = 12;
    d.input_dims = b.intern(prefix + "dims");
    d.input_strides = b.intern(prefix + "strides");
    d.input_types = b.intern("types");
    d.concrete_inputs = b.intern(prefix + "concrete");
    d.source_file = b.intern("file");
    d.stack = b.intern(prefix + "stack");
    b.detail(1) = d;
    b.event(1).flags = trace_event::unfinished;
    b.event(1).set_kind(scope_kind::backward_op);
    std::vector<trace_argument> arguments(3);
    arguments[0].key = b.intern(prefix + "number");
    arguments[0].int64 = at;
    arguments[1].key = b.intern("text");
    arguments[1].kind = trace_argument::type::text;
    arguments[1].text = b.intern(prefix + "value");
    arguments[2].key = b.intern("json");
    arguments[2].kind = trace_argument::type::json;
    arguments[2].text = b.intern("[1]");
    b.set_arguments(1, arguments);
    return c.finish();
  };
  const trace both = merge({make(0, "x"), make(10, "yy")});
  REQUIRE(both.events().size() == 4);
  CHECK(both.events()[0].detail == npos);
  CHECK(both.events()[3].has(trace_event::unfinished));
  CHECK(both.events()[3].kind() == scope_kind::backward_op);
  CHECK(both.events()[1].name == both.events()[3].name);
  const std::string prefixes[] = {"x", "yy"};
  for (std::uint32_t i = 0; i < 2; ++i) {
    const event_detail& d = both.detail(both.events()[1 + 2 * i]);
    CHECK(d.sequence_number == 10 * i);
    CHECK(d.forward_thread == 3);
    CHECK(d.source_line == 12);
    CHECK(both.text(d.input_dims) == prefixes[i] + "dims");
    CHECK(both.text(d.input_strides) == prefixes[i] + "strides");
    CHECK(both.text(d.input_types) == "types");
    CHECK(both.text(d.concrete_inputs) == prefixes[i] + "concrete");
    CHECK(both.text(d.source_file) == "file");
    CHECK(both.text(d.stack) == prefixes[i] + "stack");
    REQUIRE(d.arg_count == 3);
    const trace_argument* a = &both.arguments()[d.first_arg];
    CHECK(both.text(a[0].key) == prefixes[i] + "number");
    CHECK(a[0].int64 == 10 * i);
    CHECK(both.text(a[1].text) == prefixes[i] + "value");
    CHECK(both.text(a[2].key) == "json");
    CHECK(both.text(a[2].text) == "[1]");
  }
}

// Catches: links, memory, marks and steps that point into the wrong trace.
TEST_CASE("whatever names an event names the same one afterwards", "[trace_merge]") {
  cycle one("t1: f[0..10]; t2: g[1..2]", 0, 10);
  one.builder.add_link({0, 1, link_kind::custom});
  memory_event m;
  m.time_ns = 1;
  m.bytes = 100;
  m.event = 1;
  m.track = 1;
  m.pool = one.builder.intern("arena");
  one.builder.add_memory(m);
  one.builder.add_unmatched_free({npos, 2});
  one.builder.add_unmatched_free({0, 1});
  trace_mark mark;
  mark.time_ns = 9;
  mark.name = one.builder.intern("late");
  mark.event = 0;
  one.builder.add_mark(mark);
  one.builder.add_step({4, 0, 10, 0, true});

  // Its tracks stand the other way round, so that every index moves.
  cycle two("t2: g[21..22]; t1: f[20..30]", 20, 30);
  two.builder.add_link({1, 0, link_kind::forward_backward});
  m = memory_event();
  m.time_ns = 21;
  m.bytes = 7;
  m.event = 0;
  m.track = 0;
  two.builder.add_memory(m);
  m.time_ns = 25;
  m.bytes = -7;
  m.event = 1;
  m.track = 1;
  m.allocation = 0;
  two.builder.add_memory(m);
  two.builder.add_unmatched_free({npos, 5});
  two.builder.add_unmatched_free({1, 3});
  mark.time_ns = 20;
  mark.name = two.builder.intern("tick");
  mark.event = npos;
  mark.track = 1;
  mark.kind = trace_mark::type::counter;
  mark.value = 2.5;
  two.builder.add_mark(mark);
  two.builder.add_step({5, 20, 30, 1, false});
  two.builder.add_pause({26, 27});

  // Merged: 0 = f, 1 = f of the second, 2 = g, 3 = g of the second.
  const trace both = merge({one.finish(), two.finish()});
  REQUIRE(shown(both) == "t1: f[0..10] f[20..30]; t2: g[1..2] g[21..22]");
  REQUIRE(both.links().size() == 2);
  CHECK((both.links()[0].from == 0 && both.links()[0].to == 2 && both.links()[0].kind == link_kind::custom));
  CHECK((both.links()[1].from == 1 && both.links()[1].to == 3));
  CHECK_FALSE(both.links_are_complete());

  REQUIRE(both.memory().size() == 3);
  CHECK((both.memory()[0].event == 2 && both.memory()[0].track == 1 && both.text(both.memory()[0].pool) == "arena"));
  CHECK((both.memory()[1].event == 3 && both.memory()[1].track == 1 && both.memory()[1].pool == npos));
  CHECK((both.memory()[2].event == 1 && both.memory()[2].track == 0 && both.memory()[2].allocation == 1));

  REQUIRE(both.unmatched_frees().size() == 3);
  std::uint32_t frees[3] = {};  // of the first f, of the second f, outside
  for (const unmatched_free& f : both.unmatched_frees()) frees[f.event == npos ? 2 : f.event] += f.count;
  CHECK((frees[0] == 1 && frees[1] == 3 && frees[2] == 7));

  REQUIRE(both.marks().size() == 2);
  CHECK((both.text(both.marks()[0].name) == "late" && both.marks()[0].event == 0 && both.marks()[0].track == 0));
  CHECK((both.text(both.marks()[1].name) == "tick" && both.marks()[1].event == npos && both.marks()[1].track == 0));
  CHECK(both.marks()[1].value == 2.5);

  REQUIRE(both.steps().size() == 2);
  CHECK((both.steps()[0].number == 4 && both.steps()[0].event == 0 && both.steps()[0].complete));
  CHECK((both.steps()[1].number == 5 && both.steps()[1].event == 1 && !both.steps()[1].complete));
  REQUIRE(both.pauses().size() == 1);
  CHECK(both.pauses()[0].begin_ns == 26);
}

// Catches: a count that is not added, or a fact of the window taken from one cycle only.
TEST_CASE("losses are added and the facts span all cycles", "[trace_merge]") {
  const auto make = [](std::int64_t cycle_number, std::uint64_t factor) {
    cycle c("t1: a[" + std::to_string(10 * cycle_number) + ".." + std::to_string(10 * cycle_number + 5) + "]",
            10 * cycle_number, 10 * cycle_number + 5);
    std::uint64_t count = 0;
    for (const stepprof::detail::loss_field& field : stepprof::detail::loss_fields)
      c.builder.losses().*field.count = ++count * factor;
    trace_info& info = c.builder.info();
    info.trace_id = std::string(32, static_cast<char>('a' + cycle_number));
    info.base_time_ns = 77;
    info.cycle = cycle_number;
    info.first_step = 4 + 9 * cycle_number;
    info.last_step = 8 + 9 * cycle_number;
    info.has_memory = cycle_number == 1;
    info.profiler_bytes = 1000 * factor;
    info.scope_cost_ns = 3;
    info.clock = "tsc";
    return c.finish();
  };
  const trace all = merge({make(0, 1), make(1, 10), make(2, 100)});
  const loss_counts& l = all.losses();
  CHECK((l.kept == 111 && l.unfinished == 222 && l.late == 333 && l.dropped == 444 && l.reentrant == 555));
  CHECK((l.overwritten == 666 && l.dropped_arguments == 777 && l.dropped_memory == 888 && l.overflow_names == 999));
  CHECK((l.clamps == 1110 && l.unmatched_frees == 1221 && l.unmatched_ends == 1332 && l.overwritten_ends == 1443));
  CHECK((l.lost_frees == 1554 && l.late_frees == 1665 && l.cold_chunks == 1776));
  CHECK(merge({make(0, UINT64_MAX), make(1, 1)}).losses().kept == UINT64_MAX);  // of a file, say
  CHECK(all.info().trace_id == std::string(32, 'a'));
  CHECK((all.info().begin_ns == 0 && all.info().end_ns == 25 && all.info().base_time_ns == 77));
  CHECK((all.info().cycle == 2 && all.info().first_step == 4 && all.info().last_step == 26));
  CHECK((all.info().has_memory && !all.info().has_shapes && !all.info().partial));
  CHECK((all.info().profiler_bytes == 100000 && all.info().scope_cost_ns == 3 && all.info().clock == "tsc"));
}

// Catches: a note that is repeated for each cycle, or one that is lost because only its code was compared.
TEST_CASE("notes appear once and later metadata and names win", "[trace_merge]") {
  cycle one("t1: a[0..1]", 0, 1);
  one.builder.add_note("x", "same");
  one.builder.add_note("x", "first");
  one.builder.add_metadata("k", "1");
  one.builder.add_metadata("only", "true");
  one.builder.track(0).name = "main";
  one.builder.track(0).os_id = 55;
  one.builder.process(0).host = "node";
  cycle two("t1: a[2..3]", 2, 3);
  two.builder.add_note("x", "same");
  two.builder.add_note("x", "second");
  two.builder.add_metadata("k", "2");
  two.builder.process(0).name = "renamed";
  const trace both = merge({one.finish(), two.finish()});
  REQUIRE(both.notes().size() == 3);
  CHECK(both.notes()[0].text == "same");
  CHECK(both.notes()[1].text == "first");
  CHECK(both.notes()[2].text == "second");
  REQUIRE(both.metadata().size() == 2);
  CHECK((both.metadata()[0].key == "k" && both.metadata()[0].json == "2"));
  CHECK(both.metadata()[1].key == "only");
  CHECK((both.tracks()[0].name == "main" && both.tracks()[0].os_id == 55));
  CHECK((both.processes()[0].name == "renamed" && both.processes()[0].host == "node"));
}

// Catches: processes mixed up because their threads have equal ids, and lanes merged because their numbers are equal.
TEST_CASE("only tracks of one process and one kind are joined", "[trace_merge]") {
  cycle one("t1: a[0..10]; async1: s[0..4]", 0, 10);
  one.builder.track(1).name = "steps";
  cycle two("t1: a[5..15]; async1: s[5..6]", 5, 15);
  two.builder.process(0).pid = 8;
  two.builder.track(1).name = "steps";
  cycle three("async1: o[20..21] s[20..21]; t1: a[20..21]", 20, 21);
  three.builder.track(0).name = "other";
  const trace all = merge({one.finish(), two.finish(), three.finish()});
  CHECK(shown(all) ==
        "t1: a[0..10] a[20..21]; async1: s[0..4]; t1: a[5..15]; async1: s[5..6]; async1: o[20..21] s[20..21]");
  REQUIRE(all.processes().size() == 2);
  CHECK(all.tracks()[2].process == 1);
  CHECK(all.tracks()[4].process == 0);
}

// Catches: anything lost or doubled that the small examples do not hold. A plain recount of what went in.
TEST_CASE("random cycles keep every event under its parent", "[trace_merge]") {
  std::mt19937 random(5);
  std::vector<trace> cycles;
  std::size_t events = 0;
  std::vector<std::string> expected(4);
  for (std::int64_t c = 0; c < 20; ++c) {
    std::string text;
    for (unsigned track = 1; track < 4; ++track) {
      if (random() % 4 == 0) continue;
      std::string mine;
      std::int64_t at = c * 1000;
      for (std::uint64_t i = random() % 5; i > 0; --i) {
        const std::int64_t end = at + 10 + static_cast<std::int64_t>(random() % 50);
        mine += " f" + std::to_string(random() % 3) + "[" + std::to_string(at) + ".." + std::to_string(end) + "]";
        ++events;
        if (random() % 2 != 0) {
          mine += "{ g[" + std::to_string(at + 1) + ".." + std::to_string(at + 5) + "] }";
          ++events;
        }
        at = end;
      }
      text += (text.empty() ? "t" : "; t") + std::to_string(track) + ":" + mine;
      expected[track] += mine;
    }
    cycles.push_back(cycle(text, c * 1000, c * 1000 + 999).finish());
  }
  // Merged in two steps they give the same, if no half lies inside the other.
  const trace all_in_order = merge(cycles);
  const trace early = merge({cycles.begin(), cycles.begin() + 10});
  const trace late = merge({cycles.begin() + 10, cycles.end()});
  CHECK(shown(merge({late, early})) == shown(all_in_order));
  std::shuffle(cycles.begin(), cycles.end(), random);
  const trace all = merge(cycles);
  CHECK(all.events().size() == events);
  for (const trace_track& track : all.tracks()) {
    const std::string start = "t" + std::to_string(track.id) + ":";
    CHECK(("; " + shown(all) + ";").find("; " + start + expected[track.id] + ";") != std::string::npos);
  }
}

// Catches: a cap that counts nothing of what really takes the memory.
TEST_CASE("the memory of a trace grows with its events and texts", "[trace_merge]") {
  const trace small = cycle("t1: a[0..1]", 0, 1).finish();
  CHECK(memory_bytes(small) >= sizeof(trace_event) + 1);
  test::event_builder b("t1: a[0..1]");
  for (int i = 0; i < 1000; ++i) {
    trace_event e;
    e.begin_ns = e.end_ns = i + 1;
    e.name = b.builder.intern("name " + std::to_string(1000 + i));
    b.builder.add_event(e);
  }
  const std::uint64_t large = memory_bytes(b.builder.finish());
  CHECK(large >= 1000 * (sizeof(trace_event) + 9));
  CHECK(large <= 4 * 1000 * (sizeof(trace_event) + 9));
}

// Catches: a result whose columns follow the first cycle alone: a later one may have been recorded with more.
TEST_CASE("what any cycle was recorded with, the result has", "[trace_merge]") {
  using flag = bool trace_info::*;
  for (const flag f : {&trace_info::partial, &trace_info::has_shapes, &trace_info::has_memory, &trace_info::has_stacks,
                       &trace_info::has_flops})
    for (const bool in_first : {false, true}) {
      cycle first("t1: a[0..10]", 0, 10), second("t1: a[20..30]", 20, 30);
      (in_first ? first : second).builder.info().*f = true;
      second.builder.info().clock = "a clock";
      const trace_info merged = merge({first.finish(), second.finish()}).info();
      for (const flag g : {&trace_info::partial, &trace_info::has_shapes, &trace_info::has_memory,
                           &trace_info::has_stacks, &trace_info::has_flops})
        CHECK(merged.*g == (f == g));
      CHECK(merged.clock == "a clock");
    }
}

// Catches: arrows that are said to be all there when one of the traces was a part of a recording.
TEST_CASE("links are complete when they are in every trace", "[trace_merge]") {
  for (const bool first_is : {false, true})
    for (const bool second_is : {false, true}) {
      cycle first("t1: a[0..10]", 0, 10), second("t1: a[20..30]", 20, 30);
      first.builder.set_links_are_complete(first_is);
      second.builder.set_links_are_complete(second_is);
      CHECK(merge({first.finish(), second.finish()}).links_are_complete() == (first_is && second_is));
    }
}

}  // namespace trace_merge_test
