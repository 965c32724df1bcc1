#include <cstdint>
#include <string>
#include <vector>

#include <stepprof/analysis/step_times.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

namespace step_times_test {
using namespace stepprof;

namespace {

// Every event named "ProfilerStep#k" becomes step k.
class recording {
 public:
  explicit recording(const std::string& text) : events_(text) {
    for (std::uint32_t i = 0; i < builder().event_count(); ++i) {
      trace_event& e = builder().event(i);
      const std::string name(builder().text(e.name));
      if (name.rfind("ProfilerStep#", 0) != 0) continue;
      e.flags = trace_event::step;
      builder().add_step({std::stoll(name.substr(13)), e.begin_ns, e.end_ns, i, true});
    }
  }
  trace_builder& builder() { return events_.builder; }
  void add_memory(std::int64_t time_ns, std::int64_t bytes, std::uint32_t track = 0) {
    memory_event m;
    m.time_ns = time_ns;
    m.bytes = bytes;
    m.track = track;
    builder().add_memory(m);
  }
  trace finish() { return builder().finish(); }

 private:
  test::event_builder events_;
};

}  // namespace

// Catches: self times that hold what scopes took, scopes of other threads forgotten, borders counted twice.
TEST_CASE("what a step took and held", "[step_times]") {
  recording r(
      "t1: ProfilerStep#4![0..100]{ a[10..40]{ b[20..25] } } ProfilerStep#5![100..300]{ a[100..290] };"
      " t2: w[50..120] w[120..130] w[301..302]");
  r.add_memory(0, 64);      // at the begin of step 4
  r.add_memory(100, 8, 1);  // on the border, by another thread: step 5
  r.add_memory(250, -64);
  r.add_memory(300, 16);    // at the end of the last
  r.add_memory(301, 1024);  // outside
  const step_times steps = steps_of(r.finish());
  REQUIRE(steps.rows.size() == 2);
  const step_time& first = steps.rows[0];
  CHECK(first.number == 4);
  CHECK(first.begin_ns == 0);
  CHECK(first.duration_ns == 100);
  CHECK(first.self_ns.value() == 70);
  CHECK(first.scopes == 3);  // a, b, w
  CHECK(first.memory.allocated_bytes == 64);
  CHECK(first.memory.freed_bytes == 0);
  CHECK(first.longest == "w");  // 70 of it, the part behind the border included
  CHECK(first.longest_self_ns == 70);
  const step_time& second = steps.rows[1];
  CHECK(second.self_ns.value() == 10);
  CHECK(second.scopes == 2);
  CHECK(second.memory.allocated_bytes == 24);
  CHECK(second.memory.freed_bytes == 64);
  CHECK(second.memory.net_bytes() == -40);
  CHECK(second.longest == "a");
  CHECK(second.longest_self_ns == 190);
  CHECK(steps.has_memory);
}

// Catches: the median of a name over the steps in which it occurs only; cut steps among the slow ones; equal steps
// called slow.
TEST_CASE("slow steps and what made them slow", "[step_times]") {
  recording r(
      "t1: ProfilerStep#0![0..100]{ f[0..60] } ProfilerStep#1![100..200]{ f[100..165] }"
      " ProfilerStep#2![200..500]{ f[200..270] gc[270..490] } ProfilerStep#3![500..650]{ f[500..640] }"
      " ProfilerStep#4![650..1650]{ f[650..1650] }");
  trace whole = r.finish();
  const step_times all = steps_of(whole);
  CHECK(all.durations.count == 5);
  CHECK(all.durations.p50_ns == 150);
  std::vector<std::int64_t> slow;
  for (const step_time* step : all.slowest(10)) slow.push_back(step->number);
  CHECK(slow == std::vector<std::int64_t>{4, 2});
  CHECK(all.slowest(1).size() == 1);
  CHECK(all.rows[2].most_above_median == "gc");  // 220 above a median of 0; f only 0 above its 70
  CHECK(all.rows[2].above_median_ns == 220);
  CHECK(all.rows[4].most_above_median == "f");
  CHECK(all.rows[4].above_median_ns == 930);
  CHECK(all.rows[0].most_above_median.empty());
}

// Catches: the partial step counted among the complete ones.
TEST_CASE("a step that was cut", "[step_times]") {
  test::event_builder b("t1: ProfilerStep#0![0..100] ProfilerStep#1![100..900]{ f[100..900] }");
  b.builder.add_step({0, 0, 100, 0, true});
  b.builder.add_step({1, 100, 900, 1, false});
  for (std::uint32_t i = 0; i < 2; ++i) b.builder.event(i).flags = trace_event::step;
  const step_times steps = steps_of(b.builder.finish());
  CHECK(steps.durations.count == 1);
  CHECK(steps.durations.max_ns == 100);
  CHECK(steps.slowest(3).empty());
  CHECK_FALSE(steps.rows.at(1).complete);
  CHECK(steps.rows.at(1).longest_self_ns == 800);
}

// Catches: a self time invented for a step that stands beside the scopes, or was not drawn at all.
TEST_CASE("steps that do not nest have no self time", "[step_times]") {
  test::event_builder b("t1: f[0..150]; async2: ProfilerStep#0![0..100]");
  b.builder.event(1).flags = trace_event::step;
  b.builder.add_step({0, 0, 100, 1, true});
  b.builder.add_step({1, 100, 200, npos, true});
  const step_times steps = steps_of(b.builder.finish());
  REQUIRE(steps.rows.size() == 2);
  CHECK_FALSE(steps.rows[0].self_ns);
  CHECK_FALSE(steps.rows[1].self_ns);
  CHECK(steps.rows[0].longest == "f");
  CHECK(steps.rows[1].longest.empty());
  CHECK(steps.rows[1].scopes == 0);
}

// Catches: the steps of one process that get the scopes of another, in a recording of several.
TEST_CASE("steps of several processes", "[step_times]") {
  trace_builder b;
  for (std::uint32_t p = 0; p < 2; ++p) {
    b.add_process({});
    trace_track track;
    track.process = p;
    track.id = 1;
    b.add_track(track);
    trace_event e;
    e.name = b.intern("ProfilerStep#3");
    e.begin_ns = p * 10;
    e.end_ns = 100 + p * 10;
    e.flags = trace_event::step;
    const std::uint32_t step = b.add_event(e);
    e = {};
    e.name = b.intern(p == 0 ? "first" : "second");
    e.parent = step;
    e.begin_ns = 20;
    e.end_ns = 30;
    b.add_event(e);
    b.add_step({3, p * 10, 100 + p * 10, step, true});
  }
  const step_times steps = steps_of(b.finish());
  REQUIRE(steps.rows.size() == 2);
  CHECK(steps.rows[0].longest == "first");
  CHECK(steps.rows[0].scopes == 1);
  CHECK(steps.rows[1].longest == "second");
}

// Catches: rows made up for a recording without steps.
TEST_CASE("no steps", "[step_times]") {
  const step_times steps = steps_of(test::events("t1: f[0..10]"));
  CHECK(steps.rows.empty());
  CHECK(steps.durations.count == 0);
  CHECK(steps.slowest(3).empty());
}

}  // namespace step_times_test
