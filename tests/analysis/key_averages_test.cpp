#include <cstdint>
#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

#include <stepprof/analysis/key_averages.hpp>

namespace key_averages_test {

using namespace stepprof;

namespace {

std::vector<std::string> names_of(const event_averages& averages) {
  std::vector<std::string> names;
  for (const event_average& row : averages.rows) names.push_back(row.name);
  return names;
}
void set_shapes(trace_builder& b, std::uint32_t event, const std::string& shapes) {
  b.detail(event).input_dims = b.intern(shapes);
}
void report(trace_builder& b, std::uint32_t event, std::int64_t bytes, std::int64_t time_ns = 0) {
  memory_event m;
  m.event = event;
  m.bytes = bytes;
  m.time_ns = time_ns;
  b.add_memory(m);
}

}  // namespace

// Catches: the cost of inner scopes left in their parent, a scope charged twice or for what lies inside its child,
// steps and async events charged for scopes that they are not.
TEST_CASE("self time is also given without what recording cost", "[key_averages]") {
  test::event_builder b(
      "t1: ProfilerStep#0[0..2000]{ f[100..1100]{ g[200..300] g[400..600]{ h[450..460] } } } f[2500..2510];"
      "async2: f[0..50]");
  b.builder.event(0).flags = trace_event::step;
  b.builder.info().scope_cost_ns = 30;
  b.builder.info().scope_cost_inside_ns = 12.25;
  const event_averages rows = key_averages(b.builder.finish());
  CHECK(rows.at("ProfilerStep*").inner_scopes == 1);
  CHECK(rows.at("ProfilerStep*").self_ns == 1000);
  CHECK(rows.at("ProfilerStep*").corrected_self_ns == 982);  // 17.75 of the f in it
  CHECK(rows.at("f").inner_scopes == 2);
  CHECK(rows.at("f").self_ns == 710);
  CHECK(rows.at("f").corrected_self_ns == 650);  // 2 x 12.25 of its own, 2 x 17.75 of the g in it
  CHECK(rows.at("g").self_ns == 290);
  CHECK(rows.at("g").corrected_self_ns == 248);  // 2 x 12.25, and 17.75 of h
  CHECK(rows.at("h").corrected_self_ns == 0);    // less than what it costs to record it
  CHECK(rows.total_average().corrected_self_ns == 982 + 650 + 248);
  const event_averages unmeasured = key_averages(test::events("t1: f[0..10]{ g[2..3] }"));
  CHECK(unmeasured.at("f").corrected_self_ns == 9);
}

// Catches: sums, averages or the order of first appearance being wrong in the plainest case.
TEST_CASE("events of one name are one row, in the order of their first begin", "[key_averages]") {
  const event_averages rows = key_averages(test::events("t1: b[5..10]{ a[6..8] } a[12..20]; t2: c[0..3]"));
  CHECK(names_of(rows) == std::vector<std::string>{"c", "b", "a"});
  CHECK(rows.at("a").calls == 2);
  CHECK(rows.at("a").total_ns == 10);
  CHECK(rows.at("a").self_ns == 10);
  CHECK(rows.at("a").average_ns() == 5);
  CHECK(rows.at("a").min_ns == 2);
  CHECK(rows.at("a").max_ns == 8);
  CHECK(rows.at("a").top_level_ns == 8);
  CHECK_FALSE(rows.at("a").is_top_level);  // its first event has a parent
  CHECK(rows.at("b").self_ns == 3);
  CHECK(rows.self_cpu_time_total_ns() == 3 + 3 + 10);
  CHECK(rows.thread_count == 2);
  CHECK(rows.find("d") == nullptr);
  CHECK_THROWS_WITH(rows.at("d"), "event_averages::at: there is no row named 'd'; find() returns nullptr instead");
}

// Catches: total counted once per nested instance, so that recursion shows more than 100 %.
// FC-23: wolfpld/tracy#159
TEST_CASE("eleven nested calls around a second of work are one second", "[key_averages]") {
  std::string text = "t1:";
  for (int i = 0; i < 11; ++i) text += " f[0..1000]{";
  text += " g[0..1000] ";
  for (int i = 0; i < 11; ++i) text += "}";
  const event_averages rows = key_averages(test::events(text));
  CHECK(rows.at("f").total_ns == 1000);
  CHECK(rows.at("f").calls == 11);
  CHECK(rows.at("f").self_ns == 0);
  CHECK(rows.at("g").self_ns == 1000);
}

// Catches: recursion noticed only when parent and child are of one name. FC-23: rbspy/rbspy#23
TEST_CASE("mutual recursion counts the outermost span of each name", "[key_averages]") {
  const event_averages rows = key_averages(test::events("t1: A[0..100]{ B[10..90]{ A[20..80]{ B[30..70] } } }"));
  CHECK(rows.at("A").total_ns == 100);
  CHECK(rows.at("B").total_ns == 80);
  CHECK(rows.at("A").self_ns == 20 + 20);
  CHECK(rows.at("B").self_ns == 20 + 40);
  CHECK(rows.at("A").average_ns() == 50);
}

// Catches: an open instance remembered over its end, or over to a sibling or another thread.
// FC-23: wolfpld/tracy#1417
TEST_CASE("two threads add, and so do siblings and repeated roots", "[key_averages]") {
  const event_averages rows = key_averages(
      test::events("t1: f[0..10]{ f[2..6] } f[10..15]; t2: f[0..7]; t3: p[0..9]{ f[1..2] f[3..5]{ f[3..4] } }"));
  CHECK(rows.at("f").total_ns == 10 + 5 + 7 + 1 + 2);
  CHECK(rows.at("f").calls == 7);
  CHECK(rows.at("f").self_ns == 6 + 4 + 5 + 7 + 1 + 1 + 1);
}

// Catches: bytes of recursive calls counted at every level.
TEST_CASE("total memory counts the outermost instance too", "[key_averages]") {
  test::event_builder b("t1: f[0..10]{ f[2..6]{ g[3..4] } }");
  report(b.builder, 0, 100);
  report(b.builder, 1, 10);
  report(b.builder, 2, 1);
  const event_averages rows = key_averages(b.builder.finish());
  CHECK(rows.at("f").total_memory.net_bytes() == 111);
  CHECK(rows.at("f").self_memory.net_bytes() == 110);
  CHECK(rows.at("f").total_memory.allocations == 3);
  CHECK(rows.at("g").total_memory.net_bytes() == 1);
  CHECK(rows.has_memory);
}

// Catches: work of other threads taken from the scope that waits for it, or shares that pass 100 %.
// FC-25: pytorch/pytorch#45160
TEST_CASE("workers under a waiting scope take nothing from it", "[key_averages]") {
  std::string text = "t1: main[0..10000000]";
  for (int i = 2; i <= 9; ++i) text += "; t" + std::to_string(i) + ": work[0..10000000]";
  const event_averages rows = key_averages(test::events(text));
  CHECK(rows.at("main").self_ns == 10000000);
  CHECK(rows.at("main").total_ns == 10000000);
  CHECK(rows.at("work").total_ns == 80000000);
  CHECK(rows.self_cpu_time_total_ns() == 90000000);
  CHECK(rows.thread_count == 9);
}

// Catches: durations of scopes that do not nest exchanged or lost, or given a share of the whole.
// FC-19: wolfpld/tracy#426
TEST_CASE("async events keep their true duration beside self 0", "[key_averages]") {
  const event_averages rows = key_averages(test::events("t1: a[0..10]; async1: x[1..9] x[3..12] a[4..5]"));
  CHECK(rows.at("x").total_ns == 17);
  CHECK(rows.at("x").self_ns == 0);
  CHECK(rows.at("x").is_async);
  CHECK(rows.at("a").total_ns == 11);
  CHECK(rows.at("a").async_ns == 1);
  CHECK_FALSE(rows.at("a").is_async);
  CHECK(rows.total_average().total_ns == 10);
}

// Catches: an annotation that swallows the operation of the same name.
TEST_CASE("annotation and operation of one name are two rows, op and backward op are one", "[key_averages]") {
  const event_averages rows = key_averages(test::events("t1: f![0..10]{ f[2..6] } f~[10..13]"));
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0].is_annotation);
  CHECK(rows.rows[0].total_ns == 10);
  CHECK_FALSE(rows.rows[1].is_annotation);
  CHECK(rows.rows[1].total_ns == 7);
  CHECK(rows.rows[1].calls == 2);
}

// Catches: every step a row of its own, or a cut step that spoils the average of the complete ones.
// FC-03: facebookresearch/HolisticTraceAnalysis#76
TEST_CASE("steps are one row, and a step cut by stop is not averaged", "[key_averages]") {
  test::event_builder b(
      "t1: ProfilerStep#4![0..100] ProfilerStep#5![100..220] ProfilerStep#6![220..300] ProfilerStep#7![300..340]");
  for (std::uint32_t i = 0; i < 4; ++i) b.builder.event(i).flags = trace_event::step;
  b.builder.event(3).flags = trace_event::step | trace_event::unfinished;
  const event_averages rows = key_averages(b.builder.finish());
  REQUIRE(rows.rows.size() == 1);
  CHECK(rows.rows[0].name == "ProfilerStep*");
  CHECK(rows.rows[0].calls == 4);
  CHECK(rows.rows[0].unfinished == 1);
  CHECK(rows.rows[0].total_ns == 340);
  CHECK(rows.rows[0].average_ns() == 100);  // (100 + 120 + 80) / 3
}

// Catches: other names taken for steps.
TEST_CASE("only ProfilerStep#<number> is a step", "[key_averages]") {
  const event_averages rows =
      key_averages(test::events("t1: ProfilerStep#[0..1] ProfilerStep#x[1..2] ProfilerStep#7[2..3]"));
  CHECK(names_of(rows) == std::vector<std::string>{"ProfilerStep#", "ProfilerStep#x", "ProfilerStep*"});
}

// Catches: scopes that were cut at the end left out of calls and averages. FC-16: yse/easy_profiler#218
TEST_CASE("unfinished scopes count up to the cut", "[key_averages]") {
  test::event_builder b("t1: a[0..10] a[10..14]");
  b.builder.event(1).flags = trace_event::unfinished;
  const event_averages rows = key_averages(b.builder.finish());
  CHECK(rows.at("a").calls == 2);
  CHECK(rows.at("a").unfinished == 1);
  CHECK(rows.at("a").unfinished_ns == 4);
  CHECK(rows.at("a").average_ns() == 7);
}

// Catches: zero-length scopes lost or misplaced. FC-22: jlfwong/speedscope#230
TEST_CASE("scopes without length are counted", "[key_averages]") {
  const event_averages rows =
      key_averages(test::events("t1: p[5..5]{ a[5..5]{ g[5..5] } b[5..5] c[5..5] } q[5..9]{ z[9..9] }"));
  for (const char* name : {"p", "a", "g", "b", "c", "z"}) {
    CHECK(rows.at(name).calls == 1);
    CHECK(rows.at(name).total_ns == 0);
  }
  CHECK(rows.at("q").self_ns == 4);
}

// Catches: memory outside every scope lost, or mixed up with a scope of that name.
TEST_CASE("memory outside every scope is a row of its own", "[key_averages]") {
  test::event_builder b("t1: m[0..10] a[10..20]");
  b.builder.event(0).name = b.builder.intern("[memory]");
  report(b.builder, npos, 100, 5);
  report(b.builder, npos, -40, 6);
  report(b.builder, 1, 7, 12);
  const event_averages rows = key_averages(b.builder.finish());
  REQUIRE(rows.rows.size() == 3);
  CHECK(rows.rows[1].name == "[memory]");
  CHECK(rows.rows[1].is_memory);
  CHECK(rows.rows[1].calls == 2);
  CHECK(rows.rows[1].total_ns == 0);
  CHECK(rows.rows[1].self_memory.net_bytes() == 60);
  CHECK(rows.rows[1].self_memory.freed_bytes == 40);
  CHECK_FALSE(rows.rows[0].is_memory);
  CHECK(rows.rows[0].self_memory.net_bytes() == 0);
  CHECK(rows.total_average().total_memory.net_bytes() == 67);
}

// Catches: bytes attributed for a free of something older than the window. FC-30: pytorch/pytorch#107955
TEST_CASE("frees of older memory are counted with their scope, without bytes", "[key_averages]") {
  test::event_builder b("t1: F[0..10]{ g[1..2] }");
  b.builder.add_unmatched_free({0, 100});
  report(b.builder, 1, 64);
  const event_averages rows = key_averages(b.builder.finish());
  CHECK(rows.at("F").self_memory.unmatched_frees == 100);
  CHECK(rows.at("F").self_memory.net_bytes() == 0);
  CHECK(rows.at("F").total_memory.net_bytes() == 64);
  CHECK(rows.at("g").total_memory.unmatched_frees == 0);
}

// Catches: what one scope allocates and another frees shown in neither, or self above total.
// FC-31: pytorch/pytorch#70028
TEST_CASE("allocated here, freed there", "[key_averages]") {
  test::event_builder b("t1: A[0..10]; t2: B[10..20]; t3: P[0..30]{ C[5..6] }");
  report(b.builder, 0, 1 << 20, 1);
  report(b.builder, 2, 100, 2);
  report(b.builder, 3, -100, 5);
  report(b.builder, 1, -(1 << 20), 11);
  const event_averages rows = key_averages(b.builder.finish());
  CHECK(rows.at("A").total_memory.net_bytes() == 1 << 20);
  CHECK(rows.at("B").total_memory.net_bytes() == -(1 << 20));
  CHECK(rows.at("B").self_memory.freed_bytes == 1 << 20);
  CHECK(rows.at("P").total_memory.net_bytes() == 0);
  CHECK(rows.at("P").self_memory.net_bytes() == 100);
  CHECK(rows.at("C").self_memory.net_bytes() == -100);
}

// Catches: shapes compared by their first characters, as they are displayed, or lists of tensors taken for equal.
// FC-29: pytorch/pytorch PR20035
TEST_CASE("rows by shape keep apart what differs anywhere", "[key_averages]") {
  std::string shapes = "[[";
  for (int i = 0; i < 60; ++i) shapes += "64, ";
  test::event_builder b("t1: f[0..1] f[1..2] f[2..3] f[3..4] g[4..5] f[5..6]");
  set_shapes(b.builder, 0, shapes + "1]]");
  set_shapes(b.builder, 1, shapes + "2]]");
  set_shapes(b.builder, 2, shapes + "1]]");
  set_shapes(b.builder, 3, "[[[2, 3], [4]]]");
  set_shapes(b.builder, 4, shapes + "1]]");
  set_shapes(b.builder, 5, "[]");
  const trace t = b.builder.finish();
  key_averages_options options;
  options.group_by_input_shape = true;
  const event_averages rows = key_averages(t, options);
  REQUIRE(rows.rows.size() == 5);
  CHECK(rows.rows[0].calls == 2);
  CHECK(rows.rows[0].shapes == shapes + "1]]");
  CHECK(rows.rows[2].shapes == "[[[2, 3], [4]]]");
  CHECK(rows.rows[4].shapes.empty());
  CHECK(key_averages(t).at("f").calls == 5);
  CHECK(key_averages(t).at("f").shapes.empty());
}

// Catches: rows by caller that look at the direct parent only, at the root only, or at steps one by one.
TEST_CASE("rows by the enclosing scopes", "[key_averages]") {
  const trace t = test::events(
      "t1: ProfilerStep#0![0..50]{ x[0..20]{ m[1..3]{ f[1..2] } } y[20..40]{ m[21..23]{ f[21..23] } } }"
      " ProfilerStep#1![50..99]{ x[50..60]{ m[51..53]{ f[51..52] } } f[70..75] }");
  key_averages_options options;
  const auto rows_of_f = [&](std::size_t n) {
    options.group_by_stack_n = n;
    std::vector<std::vector<std::string>> stacks;
    for (const event_average& row : key_averages(t, options).rows)
      if (row.name == "f") stacks.push_back(row.stack);
    return stacks;
  };
  using stacks = std::vector<std::vector<std::string>>;
  CHECK(rows_of_f(0) == stacks{{}});
  CHECK(rows_of_f(1) == stacks{{"m"}, {"ProfilerStep*"}});
  CHECK(rows_of_f(2) == stacks{{"m", "x"}, {"m", "y"}, {"ProfilerStep*"}});
  CHECK(rows_of_f(9) == stacks{{"m", "x", "ProfilerStep*"}, {"m", "y", "ProfilerStep*"}, {"ProfilerStep*"}});
}

// Catches: recursion counted per name although rows are told apart by caller.
TEST_CASE("total follows the row's own key, not the name", "[key_averages]") {
  key_averages_options options;
  options.group_by_stack_n = 1;
  const event_averages rows = key_averages(test::events("t1: f[0..100]{ f[10..90]{ f[20..80] } }"), options);
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0].total_ns == 100);  // f called by nobody
  CHECK(rows.rows[1].total_ns == 80);   // f called by f: the outer of the two
  CHECK(rows.rows[1].calls == 2);
}

// Catches: native frames ignored, or compared beyond the depth that was asked for.
TEST_CASE("rows by native frames", "[key_averages]") {
  test::event_builder b("t1: f[0..1] f[1..2] f[2..3]");
  b.builder.detail(0).stack = b.builder.intern("in;main;start");
  b.builder.detail(1).stack = b.builder.intern("in;other;start");
  b.builder.detail(2).stack = b.builder.intern("in;main;elsewhere");
  const trace t = b.builder.finish();
  key_averages_options options;
  options.stack = stack_source::native;
  options.group_by_stack_n = 2;
  const event_averages rows = key_averages(t, options);
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0].calls == 2);
  CHECK(rows.rows[0].stack == std::vector<std::string>{"in", "main"});
  CHECK(rows.rows[1].stack == std::vector<std::string>{"in", "other"});
}

// Catches: two broken names merged because they look alike. FC-41: google/perfetto#598
TEST_CASE("names are told apart by their bytes", "[key_averages]") {
  trace_builder b;
  b.add_process({});
  b.add_track({});
  std::int64_t now = 0;
  for (const std::string& name :
       {std::string("a\xff"), std::string("a\xfe"), std::string("a\0b", 3), std::string("a")}) {
    trace_event e;
    e.name = b.intern(name);
    e.begin_ns = now;
    e.end_ns = ++now;
    b.add_event(e);
  }
  const event_averages rows = key_averages(b.finish());
  REQUIRE(rows.rows.size() == 4);
  CHECK(rows.at(std::string("a\0b", 3)).calls == 1);
}

// Catches: counters of 32 bits anywhere between rows and sums. FC-27: takashi-ishio/selogger#17
TEST_CASE("rows can be fed without recording and stay exact beyond 32 bits", "[key_averages]") {
  event_average row;
  row.name = "f";
  row.calls = 3000000000;
  row.self_ns = row.total_ns = row.top_level_ns = std::int64_t{1} << 40;
  row.min_ns = 5;
  row.max_ns = 9;
  row.self_memory.allocated_bytes = row.total_memory.allocated_bytes = std::int64_t{1} << 41;
  event_average other = row;
  other.is_annotation = true;
  event_average more = row;
  more.calls = 1;
  more.min_ns = 3;
  event_averages averages;
  averages.rows = merge_rows({row, other, more});
  REQUIRE(averages.rows.size() == 2);
  CHECK(averages.rows[0].calls == 3000000001);
  CHECK(averages.rows[0].total_ns == std::int64_t{1} << 41);
  CHECK(averages.rows[0].min_ns == 3);
  CHECK(averages.rows[0].self_memory.net_bytes() == std::int64_t{1} << 42);
  CHECK(averages.self_cpu_time_total_ns() == 3 * (std::int64_t{1} << 40));
  CHECK(averages.total_average().calls == 6000000001);
}

// Catches: sums of long times and of large rows that overflow, so that a total is negative.
TEST_CASE("sums of rows end at the largest number", "[key_averages]") {
  const event_averages threads = key_averages(
      test::events("t1: a[0..4500000000000000000]; t2: a[0..4500000000000000000]; t3: a[0..4500000000000000000]"));
  CHECK(threads.at("a").self_ns == INT64_MAX);
  CHECK(threads.at("a").total_ns == INT64_MAX);
  CHECK(threads.at("a").max_ns == 4500000000000000000);
  CHECK(threads.total_average().total_ns == INT64_MAX);
  const event_averages lanes =
      key_averages(test::events("async1: a[0..9000000000000000000] a[0..9000000000000000000]"));
  CHECK(lanes.at("a").async_ns == INT64_MAX);

  event_average row;
  row.calls = row.self_ns = row.total_ns = row.self_memory.frees = INT64_MAX - 1;
  event_average negative;
  negative.self_ns = negative.unfinished = INT64_MIN;
  event_averages averages;
  averages.rows = {row, row, negative};
  CHECK(averages.self_cpu_time_total_ns() == -1);  // 2^63 - 1 - 2^63
  CHECK(averages.total_average().calls == INT64_MAX);
  CHECK(merge_rows(averages.rows)[0].self_memory.frees == INT64_MAX);
}

// Catches: frees of blocks without bytes outside every scope counted as allocations.
TEST_CASE("a free outside every scope is a free, whatever its size", "[key_averages]") {
  test::event_builder b("t1: a[0..10]");
  memory_event m;
  b.builder.add_memory(m);
  m.allocation = 0;
  b.builder.add_memory(m);
  m.allocation = npos;
  m.bytes = INT64_MIN;
  b.builder.add_memory(m);
  const event_averages rows = key_averages(b.builder.finish());
  CHECK(rows.at("[memory]").self_memory.allocations == 1);
  CHECK(rows.at("[memory]").self_memory.frees == 2);
  CHECK(rows.at("[memory]").self_memory.freed_bytes == INT64_MAX);
}

// Catches: rows merged although shapes or stacks differ, or texts that only agree when put behind each other.
TEST_CASE("merging rows looks at the whole key", "[key_averages]") {
  event_average a;
  a.name = "f";
  a.calls = 1;
  event_average b = a, c = a, d = a;
  b.shapes = "[[1]]";
  c.stack = {"x", "y"};
  d.stack = {"xy"};
  CHECK(merge_rows({a, b, c, d, c}).size() == 4);
}

// Catches: a total row that counts nested scopes several times.
TEST_CASE("the total row sums what is at top level", "[key_averages]") {
  const event_average total =
      key_averages(test::events("t1: a[0..10]{ b[2..6] } c[10..12]; t2: d[0..3]")).total_average();
  CHECK(total.name == "Total");
  CHECK(total.total_ns == 15);
  CHECK(total.self_ns == 15);
  CHECK(total.calls == 4);
  CHECK(event_averages().total_average().total_ns == 0);
}

// Catches: single events without their own values, or not in order of time.
TEST_CASE("events one by one", "[key_averages]") {
  test::event_builder b("t1: a[5..10]{ b[6..8] } a[12..20]; t2: c[0..3]");
  set_shapes(b.builder, 1, "[[2]]");
  report(b.builder, 0, 3, 7);
  report(b.builder, npos, 9, 11);
  const event_averages rows = event_rows(b.builder.finish());
  CHECK(names_of(rows) == std::vector<std::string>{"c", "a", "b", "[memory]", "a"});
  CHECK(rows.rows[1].self_ns == 3);
  CHECK(rows.rows[1].total_memory.net_bytes() == 3);
  CHECK(rows.rows[2].shapes == "[[2]]");
  CHECK_FALSE(rows.rows[2].is_top_level);
  CHECK(rows.rows[4].calls == 1);
}

// Catches: an empty trace that a maximum or a first element is taken of. FC-28: pytorch/pytorch PR8034
TEST_CASE("nothing recorded is no rows", "[key_averages]") {
  CHECK(key_averages(trace()).rows.empty());
  CHECK(event_rows(trace()).rows.empty());
  CHECK(key_averages(trace()).self_cpu_time_total_ns() == 0);
}

}  // namespace key_averages_test
