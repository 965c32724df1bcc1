// Catches: the profiler's own work, pauses and clocks that step back showing up in the user's times.
#include <support/clocked_work.hpp>
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace profile_time_test {

using test::fake_clock;
using test::work;

namespace {

// From here to the end of the block every reading of the clock takes a nanosecond, so that the profiler's own work
// between two readings cannot hide.
struct ticking {
  ticking() { fake_clock::ticks_per_reading(1); }
  ~ticking() { fake_clock::ticks_per_reading(0); }
};

// The tests after one in which the clock steps back must not find it there.
struct steps_back {
  steps_back() { fake_clock::advance(20000000); }
  ~steps_back() { fake_clock::advance(40000000); }
};

// A thread that records while another one reads the clock.
class recording_thread {
 public:
  static constexpr int scopes = 3;

  recording_thread() : thread_([this] { run(); }) {}
  ~recording_thread() {
    asked_ = -1;
    thread_.join();
  }
  recording_thread(const recording_thread&) = delete;
  recording_thread& operator=(const recording_thread&) = delete;

  // Returns when the scopes are recorded.
  void record() {
    const int wanted = ++asked_;
    while (done_ != wanted) std::this_thread::yield();
  }
  [[nodiscard]] int recorded() const { return done_ * scopes; }

 private:
  void run() {
    const stepprof::record_function around("around");
    while (asked_ >= 0) {
      if (done_ == asked_) {
        std::this_thread::yield();
        continue;
      }
      for (int i = 0; i < scopes; ++i) work("meanwhile");
      ++done_;
    }
  }

  std::atomic<int> asked_{0};
  std::atomic<int> done_{0};
  std::thread thread_;
};
recording_thread* other_thread = nullptr;
thread_local bool lets_others_record = false;

void let_others_record() {
  if (!lets_others_record) return;
  lets_others_record = false;
  other_thread->record();
  lets_others_record = true;
}

// How much of the pool was in use at each reading of the clock.
std::vector<std::uint32_t>& blocks_at_readings() {
  static std::vector<std::uint32_t> blocks;
  return blocks;
}

}  // namespace

// Catches: what stopping or the end of a step costs, booked to the scope that comes last.
// FC-26: https://github.com/pytorch/pytorch/issues/62390
TEST_CASE("the last scope costs what the others do, and is not missed where it is left out", "[profile]") {
  const test::heard heard;
  const auto durations = [](bool with_steps, bool with_last) {
    const ticking clock;
    stepprof::profile_options options;
    if (with_steps) options.schedule = stepprof::schedule{0, 0, 200, 1};
    stepprof::profile prof(options);
    for (int i = 0; i < 200; ++i) {
      work("A");
      work("B");
      if (with_last) work("C");
      if (with_steps) prof.step();
    }
    prof.stop();
    std::map<std::string, std::map<std::int64_t, int>> counts;  // how many took how long
    const stepprof::trace t = prof.result();
    for (const stepprof::trace_event& e : t.events())
      if (!e.has(stepprof::trace_event::step)) ++counts[std::string(t.name(e))][e.duration_ns()];
    return counts;
  };
  const std::map<std::int64_t, int> all_alike = {{101, 200}};  // the work, and the reading at its end
  for (const bool with_steps : {false, true}) {
    CHECK(durations(with_steps, true) ==
          decltype(durations(true, true)){{"A", all_alike}, {"B", all_alike}, {"C", all_alike}});
    CHECK(durations(with_steps, false) == decltype(durations(true, true)){{"A", all_alike}, {"B", all_alike}});
  }
}

// Catches: what registering a thread, taking a chunk or looking up a name costs being booked to the first scope.
// FC-05: pytorch/kineto#328
TEST_CASE("the first scope of a thread, and of a profile, costs what every scope costs", "[profile]") {
  for (const bool on_other_thread : {false, true}) {
    const test::heard heard;
    const ticking clock;
    stepprof::profile_options options;
    options.schedule = stepprof::schedule{0, 0, 3, 1};
    stepprof::profile prof(options);
    CHECK(heard.codes() == "no_warmup");
    const auto step = [](int i) {
      stepprof::record_function scope("run time " + std::to_string(i));
      STEPPROF_SCOPE("call site");
      const int sizes[1] = {i};
      stepprof::record_function last("with facts", stepprof::arg("i", i), stepprof::sequence_number(sizes[0]));
    };
    for (int i = 0; i < 3; ++i) {
      if (on_other_thread)
        std::thread(step, i).join();  // three threads, each for the first time
      else
        step(i);
      prof.step();
    }
    const stepprof::trace t = prof.result();
    // Readings in a scope: its own end, and begin and end of each scope inside. Facts have no time of their own.
    int scopes = 0;
    for (const stepprof::trace_event& e : t.events()) {
      if (e.has(stepprof::trace_event::step)) continue;
      ++scopes;
      const std::string name(t.name(e));
      CHECK(e.duration_ns() == (name == "with facts" ? 1 : name == "call site" ? 3 : 5));
    }
    CHECK(scopes == 9);
    const std::vector<stepprof::trace_step>& steps = t.steps();
    REQUIRE(steps.size() == 3);
    // What start() did before the first step is not in it.
    CHECK(steps[0].end_ns - steps[0].begin_ns <= steps[1].end_ns - steps[1].begin_ns);
    test::check_rules(t);
  }
}

namespace {

// Scopes of every kind, one after the other, beginning with the kind `first`.
void scopes_of_every_kind(int first) {
  for (int kind = first; kind < first + 3; ++kind) {
    if (kind % 3 == 0) {
      STEPPROF_SCOPE("call site");
      { STEPPROF_SCOPE("inside"); }
    } else if (kind % 3 == 1) {
      stepprof::record_function scope(std::string("run time"), stepprof::arg("i", first));
    } else {
      stepprof::manual_scope scope;
      scope.begin("manual");
      scope.end();
    }
  }
}

}  // namespace

// Catches: a thread whose registration lies between the reading of its first begin and the scope. The first thread
// hides that: it registers the call site, too, before it begins.
// FC-05: pytorch/kineto#328
TEST_CASE("many threads that record for the first time in the first step cost it what they cost every step",
          "[profile]") {
  constexpr int threads = 8, steps = 3;
  for (const std::int64_t warmup : {0, 1}) {
    const test::heard heard;
    const ticking clock;
    stepprof::profile_options options;
    options.schedule = stepprof::schedule{0, warmup, steps, 1};
    stepprof::profile prof(options);
    for (std::int64_t i = 0; i < warmup; ++i) prof.step();
    std::atomic<int> turn{0};  // one thread at a time: the readings of others would count, too
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([&turn, i] {
        for (int step = 0; step < steps; ++step) {
          while (turn != step * (threads + 1) + i) std::this_thread::yield();
          scopes_of_every_kind(i);
          ++turn;
        }
      });
    for (int step = 0; step < steps; ++step) {
      while (turn != step * (threads + 1) + threads) std::this_thread::yield();
      prof.step();
      ++turn;
    }
    for (std::thread& worker : workers) worker.join();
    const stepprof::trace t = prof.result();
    int scopes = 0;
    for (const stepprof::trace_event& e : t.events()) {
      if (e.has(stepprof::trace_event::step)) continue;
      ++scopes;
      const std::string name(t.name(e));
      INFO(name << " on thread " << t.tracks()[e.track].id);
      // Its end, and before it: begin and end of the one inside.
      CHECK(e.duration_ns() == (name == "call site" ? 3 : 1));
    }
    CHECK(scopes == threads * steps * 4);
    CHECK(heard.codes() == (warmup == 0 ? "no_warmup" : ""));
    test::check_rules(t);
  }
}

// Catches: a warning about a cold start that a schedule with warm-up gets, too.
TEST_CASE("a schedule that warms up gets no warning", "[profile]") {
  const test::heard heard;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 1};
  stepprof::profile prof(options);
  prof.step();
  CHECK(heard.codes() == "");
}

// Catches: a first active step that is long because the warm-up is thrown away inside it.
// FC-05: pytorch/kineto#328
TEST_CASE("throwing the warm-up away is in no step", "[profile]") {
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 1, 1};
  stepprof::profile prof(options);
  for (int i = 0; i < 100000; ++i) work("warm");  // 1.6 MB of log
  const std::uint32_t full = stepprof::detail::the_pool.taken_blocks();
  blocks_at_readings().clear();
  fake_clock::call_at_reading([] { blocks_at_readings().push_back(stepprof::detail::the_pool.taken_blocks()); });
  const ticking clock;
  prof.step();
  const std::size_t scope_begin = blocks_at_readings().size();
  work("s");
  fake_clock::call_at_reading(nullptr);
  prof.step();
  const stepprof::trace t = prof.result();
  REQUIRE(t.events().size() == 2);
  const auto readings_before = static_cast<std::size_t>(t.events()[1].begin_ns - t.events()[0].begin_ns);
  REQUIRE(readings_before <= scope_begin);
  REQUIRE(full > 20);
  CHECK(blocks_at_readings()[0] == full);
  for (std::size_t i = scope_begin - readings_before; i < scope_begin; ++i) CHECK(blocks_at_readings()[i] < full - 20);
}

// Catches: a cut whose time is later than the places it notes in the logs: scopes recorded between belong to the next
// window, which would begin behind them. And one whose time is earlier, but ends the scopes of its window.
TEST_CASE("what threads record while a window is cut keeps its times", "[profile]") {
  constexpr int steps = 5;
  for (void (*const call)(void (*)()) : {fake_clock::call_at_reading, fake_clock::call_after_reading}) {
    std::vector<stepprof::trace> cycles;
    stepprof::profile_options options;
    options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
    options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
    stepprof::profile prof(options);
    recording_thread other;
    other_thread = &other;
    call(let_others_record);
    for (int i = 0; i < steps; ++i) {
      other.record();
      work("s");
      lets_others_record = true;
      prof.step();
      lets_others_record = false;
    }
    call(nullptr);
    prof.stop();
    CHECK(other.recorded() >= 3 * steps * recording_thread::scopes);
    int seen = 0;
    for (const stepprof::trace& t : cycles) {
      test::check_rules(t);
      for (const stepprof::trace_event& e : t.events()) {
        if (t.name(e) != "meanwhile") continue;
        ++seen;
        CHECK(e.duration_ns() == 100);
        CHECK(e.begin_ns >= t.info().begin_ns);
        CHECK(e.end_ns <= t.info().end_ns);
      }
    }
    CHECK(seen == other.recorded());
    const stepprof::trace all = stepprof::merge(cycles);
    test::check_rules(all);
    REQUIRE(all.steps().size() >= steps);
    for (std::size_t i = 1; i < all.steps().size(); ++i) CHECK(all.steps()[i].begin_ns >= all.steps()[i - 1].end_ns);
  }
}

// Catches: a callback whose time is in the next step, or whose scopes are.
TEST_CASE("delivering is in no step", "[profile]") {
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options;
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  options.on_trace_ready = [&](const stepprof::trace& t) {
    cycles.push_back(t);
    work("callback", 1000);
  };
  stepprof::profile prof(options);
  for (int i = 0; i < 3; ++i) {
    work("s");
    prof.step();
  }
  REQUIRE(cycles.size() == 3);
  CHECK(test::drawn(cycles[0]) == "t: ProfilerStep#0[0..100]{ s[0..100] }");
  CHECK(test::drawn(cycles[1]) == "t: callback[0..1000] ProfilerStep#1[1000..1100]{ s[1000..1100] }");
  CHECK(test::drawn(cycles[2]) == "t: callback[0..1000] ProfilerStep#2[1000..1100]{ s[1000..1100] }");
  for (const stepprof::trace& t : cycles) test::check_rules(t);
}

// Catches: paused time that stays in self times, scopes of a pause that are recorded, and scopes open across it that
// are torn.
TEST_CASE("a pause leaves the self time of the scopes that are open across it", "[profile]") {
  stepprof::profile prof;
  {
    stepprof::record_function outer("outer");
    fake_clock::advance(10);
    {
      stepprof::record_function inner("inner");
      fake_clock::advance(20);
      prof.pause();
      prof.pause();  // does nothing
      work("paused", 500);
      CHECK(test::drawn(prof.snapshot()) == "t: outer[0..530]?{ inner[10..530]? }");
      CHECK(stepprof::key_averages(prof.snapshot()).at("inner").self_ns == 20);
      fake_clock::advance(100);
      prof.resume();
      prof.resume();
      fake_clock::advance(30);
    }
    prof.pause();
    fake_clock::advance(7);
    prof.resume();
    work("after");
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) == "t: outer[0..767]{ inner[10..660] after[667..767] }");
  REQUIRE(t.pauses().size() == 2);
  CHECK(t.pauses()[0].end_ns - t.pauses()[0].begin_ns == 600);
  CHECK(t.pauses()[1].end_ns - t.pauses()[1].begin_ns == 7);
  const stepprof::event_averages rows = prof.key_averages();
  CHECK(rows.at("outer").self_ns == 10);
  CHECK(rows.at("inner").self_ns == 50);
  CHECK(rows.at("after").self_ns == 100);
  CHECK(rows.at("outer").total_ns == 767);
  test::check_rules(t);
}

// Catches: a pause that a step, a new window or a stop ends, or that is lost because no window was open.
TEST_CASE("a pause lasts over steps and windows until resume", "[profile]") {
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{1, 1, 2, 0};
  options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
  stepprof::profile prof(options);
  prof.pause();  // in a wait step
  prof.step();
  work("warm");
  fake_clock::advance(5);
  prof.step();  // the window opens paused
  work("paused");
  prof.resume();
  work("a");
  prof.pause();
  prof.step();
  work("paused");
  prof.step();
  REQUIRE(cycles.size() == 1);
  CHECK(test::drawn(cycles[0]) == "t: ProfilerStep#2[0..200]{ a[100..200] } ProfilerStep#3[200..300]");
  REQUIRE(cycles[0].pauses().size() == 2);
  CHECK(cycles[0].pauses()[0].begin_ns == cycles[0].info().begin_ns);
  CHECK(cycles[0].pauses()[0].end_ns - cycles[0].pauses()[0].begin_ns == 100);
  CHECK(cycles[0].pauses()[1].end_ns == cycles[0].info().end_ns);
  CHECK(stepprof::key_averages(cycles[0]).at("ProfilerStep*").self_ns == 0);
  test::check_rules(cycles[0]);
  prof.step();
  prof.step();  // still paused, in the second cycle
  work("paused");
  prof.stop();
  CHECK(cycles.size() == 1);  // nothing but its step
  prof.start();               // in step 6, active; a new session is not paused
  work("b");
  prof.stop();
  REQUIRE(cycles.size() == 2);
  CHECK(test::drawn(cycles[1]) == "t: ProfilerStep#6[0..100]?{ b[0..100] }");
}

// Catches: times that become negative or huge when the clock steps back, children outside their parents, silence.
// FC-14: wolfpld/tracy#758, DynamoRIO/dynamorio#7725, golang/go#8976, tyoma/micro-profiler#3
TEST_CASE("a clock that steps back is clamped, counted and reported", "[profile]") {
  const test::heard heard;
  const steps_back clock;
  stepprof::profile prof;
  fake_clock::advance(10);
  {
    stepprof::record_function back_by_one("back by one");
    fake_clock::advance(-1);
  }
  fake_clock::advance(11);
  {
    stepprof::record_function parent("parent");
    fake_clock::advance(-5000000);
    { stepprof::record_function child("child"); }
    fake_clock::advance(5000100);
    { stepprof::record_function child("child"); }
    fake_clock::advance(-5000000);
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) == "t: back by one[10..10] parent[20..120]{ child[20..20] child[120..120] }");
  // The first scope's end; begin and end of the first child; the end of the parent.
  CHECK(t.losses().clamps == 4);
  CHECK(t.info().end_ns - t.info().begin_ns == 120);
  CHECK(heard.codes() == "clamped_times");
  test::check_rules(t);
}

// Catches: a clock that stands behind the window's begin, for threads that record for the first time and for windows.
// FC-14: wolfpld/tracy#758
TEST_CASE("a clock that steps back between windows and threads gives no time outside the session", "[profile]") {
  const test::heard heard;
  const steps_back clock;
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options;
  options.profile_memory = true;
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
  stepprof::profile prof(options);
  for (int i = 0; i < 3; ++i) {
    fake_clock::advance(-5000000);
    work("s");
    std::thread([&] {
      stepprof::record_function scope("fresh");
      stepprof::report_alloc(&cycles, 8);
      fake_clock::advance(50);
    }).join();
    prof.pause();
    fake_clock::advance(-1000);
    prof.resume();
    prof.step();
  }
  prof.stop();
  REQUIRE(cycles.size() == 3);
  for (const stepprof::trace& t : cycles) {
    test::check_rules(t);
    CHECK(t.losses().clamps > 0);
    for (const stepprof::trace_event& e : t.events()) {
      CHECK(e.begin_ns >= 0);
      CHECK(e.duration_ns() >= 0);
      CHECK(e.duration_ns() <= 1000);
      CHECK(e.end_ns <= t.info().end_ns);
    }
  }
  CHECK(heard.codes() == "clamped_times");
}

}  // namespace profile_time_test
