// Catches: the wrong cycle being read, a partial one taken for a whole, and empty profiles that say too much or
// nothing.
#include <support/clocked_work.hpp>
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>
#include <support/temp_folder.hpp>

#include <stepprof/stepprof.hpp>

namespace profile_cycles_test {

using test::fake_clock;
using test::work;

namespace {

std::int64_t calls(const stepprof::event_averages& averages, const char* name) {
  const stepprof::event_average* row = averages.find(name);
  return row == nullptr ? 0 : row->calls;
}

}  // namespace

// Catches: call counts that nobody can predict, because a new cycle, or a stop in its warm-up, wipes the old one.
// FC-01: pytorch/pytorch#73828, pytorch/pytorch PR133095
TEST_CASE("call counts follow from the schedule by a formula", "[profile]") {
  const test::heard heard;
  constexpr std::int64_t steps = 100;
  for (const std::int64_t wait : {0, 1})
    for (const std::int64_t warmup : {0, 1, 10})
      for (const std::int64_t active : {1, 5, 10})
        for (const std::int64_t repeat : {0, 1, 4, 10})
          for (const bool accumulate : {false, true}) {
            INFO("wait " << wait << " warmup " << warmup << " active " << active << " repeat " << repeat
                         << " accumulate " << accumulate);
            stepprof::profile_options options;
            options.schedule = stepprof::schedule{wait, warmup, active, repeat};
            options.accumulate = accumulate;
            stepprof::profile prof(options);
            for (std::int64_t i = 0; i < steps; ++i) {
              work("s");
              prof.step();
            }
            prof.stop();
            const std::int64_t fitting = steps / (wait + warmup + active);
            const std::int64_t completed = repeat == 0 ? fitting : (std::min)(repeat, fitting);
            const std::int64_t cycles = accumulate ? completed : 1;
            const stepprof::event_averages averages = prof.key_averages();
            CHECK(averages.at("s").calls == active * cycles);
            CHECK(averages.at("s").total_ns == 100 * active * cycles);
            CHECK(averages.at("ProfilerStep*").calls == active * cycles);
            CHECK(prof.result().info().cycle == completed - 1);
          }
}

// Catches: a loop that forgot step() and gets neither a file nor a message.
// FC-02: pytorch/pytorch#91682
TEST_CASE("a profile whose step() is never called says so, once", "[profile]") {
  const test::heard heard;
  int delivered = 0;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{1, 1, 3};
  options.on_trace_ready = [&](const stepprof::trace&) { ++delivered; };
  {
    stepprof::profile prof(options);
    work("a");
    work("b");
  }
  REQUIRE(heard.codes() == "no_active_step");
  CHECK(test::contains(heard.all[0].text, "steps seen: 0"));
  CHECK(test::contains(heard.all[0].text, "first active step: 2"));

  stepprof::profile prof(options);
  work("a");
  prof.stop();
  const stepprof::event_averages averages = prof.key_averages();
  CHECK(averages.rows.empty());
  CHECK(test::contains(averages.table(), "Self CPU time total: "));
  CHECK(prof.result().events().empty());
  test::check_rules(prof.result());
  CHECK(heard.codes() == "no_active_step no_active_step");  // one for each profile
  CHECK(delivered == 0);

  // Nor does the handler that writes files: not even its folder is made.
  const test::temp_folder folder;
  options.on_trace_ready = stepprof::trace_handler(folder / "traces");
  {
    stepprof::profile with_handler(options);
    work("a");
    work("b");
  }
  CHECK(heard.codes() == "no_active_step no_active_step no_active_step");
  CHECK(folder.names().empty());
}

// Catches: the step that stop() cuts being dropped, or counted like a whole one.
// FC-03: facebookresearch/HolisticTraceAnalysis#76, pytorch/kineto#774
TEST_CASE("stop in the middle of a step delivers the window with that step cut", "[profile]") {
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 5, 1};
  options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
  stepprof::profile prof(options);
  for (int i = 0; i < 4; ++i) {
    work("s");
    prof.step();
  }
  work("half");
  fake_clock::advance(30);
  prof.stop();
  REQUIRE(cycles.size() == 1);
  const stepprof::trace& t = cycles[0];
  CHECK(test::drawn(t) ==
        "t: ProfilerStep#1[0..100]{ s[0..100] } ProfilerStep#2[100..200]{ s[100..200] } "
        "ProfilerStep#3[200..300]{ s[200..300] } ProfilerStep#4[300..430]?{ half[300..400] }");
  CHECK(t.info().partial);
  CHECK(t.info().first_step == 1);
  CHECK(t.info().last_step == 4);
  REQUIRE(t.steps().size() == 4);
  CHECK(t.steps()[2].complete);
  CHECK_FALSE(t.steps()[3].complete);
  const stepprof::event_average steps = prof.key_averages().at("ProfilerStep*");
  CHECK(steps.calls == 4);
  CHECK(steps.unfinished == 1);
  CHECK(steps.average_ns() == 100);
  test::check_rules(t);
}

// Catches: an empty profile on which a table, an export or a sort key fails, or that complains.
// FC-28: pytorch/pytorch PR8034, facebookresearch/HolisticTraceAnalysis#107
TEST_CASE("a profile without events has a table, a trace and nothing to report", "[profile]") {
  const test::heard heard;
  stepprof::profile prof;
  prof.add_metadata("key", "value");
  prof.stop();
  const stepprof::event_averages averages = prof.key_averages();
  CHECK(averages.rows.empty());
  for (const char* sort_by :
       {"", "self_cpu_time_total", "cpu_time_total", "cpu_time", "cpu_memory_usage", "self_cpu_memory_usage", "count",
        "key", "input_shapes", "stack", "allocated_bytes", "min_time", "unfinished_count", "source"}) {
    const std::string text = averages.table(sort_by);
    CHECK(test::contains(text, "# of Calls"));
    CHECK(test::contains(text, "Self CPU time total: 0"));
  }
  CHECK(prof.events().rows.empty());
  const test::temp_folder folder;
  std::error_code ec;
  prof.export_stacks(folder / "stacks.txt", "self_cpu_time_total", ec);
  CHECK(ec == stepprof::errc::no_results);  // flame-graph tools refuse an empty file
  CHECK(heard.codes() == "");
  prof.export_stacks(folder / "stacks.txt");
  prof.export_stacks(folder / "stacks.txt", "self_allocated");
  CHECK(heard.codes() == "no_stacks");
  CHECK_THROWS_AS(prof.export_stacks(folder / "stacks.txt", "cuda"), stepprof::error);
  CHECK(folder.names().empty());
  const test::checked_trace file = test::check_rules(prof.result());
  for (const test::checked_slice& slice : file.slices) CHECK(slice.cat == "Trace");  // the window itself
  CHECK(file.root().string("key") == "value");
  CHECK(heard.codes() == "no_stacks");
}

// Catches: methods that read the window that is being recorded, a partial cycle that replaces or joins a completed one,
// or one that cannot be read although there is nothing else.
TEST_CASE("the last completed cycle is read, or the partial one, or nothing", "[profile]") {
  for (const bool accumulate : {false, true}) {
    const test::heard heard;
    stepprof::profile_options options;
    options.schedule = stepprof::schedule{0, 1, 2, 0};
    options.accumulate = accumulate;
    stepprof::profile prof(options);
    CHECK(prof.key_averages().rows.empty());
    CHECK(prof.result().events().empty());
    CHECK(heard.codes() == "no_results");  // once, though it was asked twice
    prof.step();
    work("first");
    CHECK(prof.key_averages().rows.empty());  // being recorded
    CHECK(calls(key_averages(prof.snapshot()), "first") == 1);
    prof.stop();
    CHECK(calls(prof.key_averages(), "first") == 1);  // partial: nothing else is there
    CHECK(prof.result().info().partial);

    prof.start();  // goes on in step 1, which is active, and step 2
    work("second");
    prof.step();
    work("second");
    prof.step();
    CHECK(calls(prof.key_averages(), "second") == 2);
    CHECK(calls(prof.key_averages(), "first") == 0);  // a partial one is in no result beside a completed one
    CHECK_FALSE(prof.result().info().partial);
    prof.step();
    work("third");
    prof.stop();  // partial
    CHECK(calls(prof.key_averages(), "third") == 0);
    CHECK(calls(prof.key_averages(), "second") == 2);

    prof.start();  // in step 4, active
    work("third");
    prof.step();
    work("third");
    prof.step();
    CHECK(calls(prof.key_averages(), "third") == 2);
    CHECK(calls(prof.key_averages(), "second") == (accumulate ? 2 : 0));
    test::check_rules(prof.result());
    prof.stop();  // in a warm-up: wipes nothing
    CHECK(calls(prof.key_averages(), "third") == 2);
    CHECK(heard.codes() == "no_results");
  }
}

// Catches: cycles handed to the callback accumulated, or cycles that are numbered wrongly over a restart.
TEST_CASE("the callback gets each cycle alone, numbered, also when they are accumulated", "[profile]") {
  std::string seen;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 0, 1, 0};
  options.accumulate = true;
  options.on_trace_ready = [&](const stepprof::trace& t) {
    seen += std::to_string(t.info().cycle) + ":" + std::to_string(t.info().first_step) + "-" +
            std::to_string(t.info().last_step) + (t.info().partial ? "~ " : " ") +
            std::to_string(stepprof::key_averages(t).at("s").calls) + "; ";
  };
  const test::heard heard;
  stepprof::profile prof(options);
  for (int session = 0; session < 2; ++session) {
    if (session != 0) prof.start();
    work("s");
    prof.step();
    work("s");
    prof.step();
    work("s");
    prof.stop();
  }
  // The second session goes on in the step in which the first one was stopped.
  CHECK(seen == "0:0-0 1; 1:1-1 1; 2:2-2~ 1; 3:2-2 1; 4:3-3 1; 5:4-4~ 1; ");
  CHECK(prof.step_number() == 4);
  CHECK(calls(prof.key_averages(), "s") == 4);
  CHECK(heard.codes() == "no_warmup");
}

// Catches: a partial cycle that is delivered although it holds nothing but its step, or is not although it holds
// something that is no scope.
TEST_CASE("a partial cycle is delivered when it holds more than its step", "[profile]") {
  int block = 0;
  const auto deliveries = [&](void (*doing)(int*)) {
    int delivered = 0;
    const test::heard heard;
    stepprof::profile_options options;
    options.schedule = stepprof::schedule{0, 1, 2};
    options.profile_memory = true;
    options.on_trace_ready = [&](const stepprof::trace& t) {
      ++delivered;
      test::check_rules(t);
    };
    stepprof::profile prof(options);
    prof.step();
    doing(&block);
    prof.stop();
    CHECK(prof.result().info().partial == (delivered == 1));
    return delivered;
  };
  CHECK(deliveries([](int*) {}) == 0);
  CHECK(deliveries([](int*) { work("s"); }) == 1);
  CHECK(deliveries([](int*) { stepprof::mark("here"); }) == 1);
  CHECK(deliveries([](int*) { stepprof::counter("loss", 0.5); }) == 1);
  CHECK(deliveries([](int* b) { stepprof::report_alloc(b, 4); }) == 1);
  CHECK(deliveries([](int* b) { stepprof::report_free(b); }) == 1);
}

// Catches: a cycle that lost everything it should have held, and is therefore not delivered, without a word.
TEST_CASE("a partial cycle of which everything was dropped is delivered and reported", "[profile]") {
  const test::heard heard;
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 2};
  options.event_budget_bytes = 1 << 20;
  options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
  stepprof::profile prof(options);
  prof.step();
  std::vector<stepprof::detail::block_ref> taken;
  while (const auto block = stepprof::detail::the_pool.take()) taken.push_back(block);
  while (const auto block = stepprof::detail::the_pool.take_small()) taken.push_back(block);
  std::thread([] { work("dropped"); }).join();  // a thread for whose log there is no room
  for (const auto block : taken) stepprof::detail::the_pool.give_back(block);
  prof.stop();
  REQUIRE(cycles.size() == 1);
  CHECK(cycles[0].losses().kept == 0);
  CHECK(cycles[0].losses().dropped == 1);
  CHECK(heard.codes() == "dropped_scopes");
}

// Catches: without a schedule, a window that is cut by steps, called partial, or not kept.
TEST_CASE("without a schedule everything from start to stop is one complete cycle", "[profile]") {
  const test::heard heard;
  int delivered = 0;
  stepprof::profile_options options;
  options.on_trace_ready = [&](const stepprof::trace& t) {
    ++delivered;
    CHECK_FALSE(t.info().partial);
    CHECK(t.info().first_step == -1);
    CHECK(t.steps().empty());
  };
  stepprof::profile prof(options);
  for (int i = 0; i < 5; ++i) {
    work("s");
    prof.step();
  }
  CHECK(prof.step_number() == 5);
  CHECK(prof.current_action() == stepprof::action::record);
  CHECK(delivered == 0);
  prof.stop();
  CHECK(delivered == 1);
  CHECK(test::drawn(prof.result()) == "t: s[0..100] s[100..200] s[200..300] s[300..400] s[400..500]");
  prof.start();
  work("again");
  prof.stop();
  CHECK(delivered == 2);
  CHECK(test::drawn(prof.result()) == "t: again[0..100]");
  CHECK(heard.codes() == "");
}

// Catches: a snapshot that consumes, stops or changes what is recorded, or that shows the losses of earlier windows.
TEST_CASE("a snapshot shows the running window and leaves it alone", "[profile]") {
  const test::heard heard;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{1, 0, 3, 1};
  stepprof::profile prof(options);
  prof.add_metadata("key", "value");
  work("outside");
  CHECK(prof.snapshot().events().empty());  // no window is open
  prof.step();
  work("a");
  {
    stepprof::record_function open("open");
    fake_clock::advance(10);
    const stepprof::trace t = prof.snapshot();
    CHECK(test::drawn(t) == "t: ProfilerStep#1[0..110]?{ a[0..100] open[100..110]? }");
    CHECK(t.info().partial);
    CHECK(t.metadata().size() == 1);
    CHECK(test::chrome_text(t) == test::chrome_text(t));
    test::check_rules(t);
    fake_clock::advance(10);
  }
  CHECK(test::drawn(prof.snapshot()) == "t: ProfilerStep#1[0..120]?{ a[0..100] open[100..120] }");
  prof.step();
  prof.step();
  prof.step();
  CHECK(test::drawn(prof.result()) ==
        "t: ProfilerStep#1[0..120]{ a[0..100] open[100..120] } ProfilerStep#2[120..120] ProfilerStep#3[120..120]");
  CHECK(prof.snapshot().events().empty());
  prof.stop();
  CHECK(prof.snapshot().events().empty());
  CHECK(heard.codes() == "no_warmup");
}

// Catches: losses of one cycle that are told again by the snapshots and the cycles after it.
TEST_CASE("each window has its own losses", "[profile]") {
  const test::heard heard;
  stepprof::profile_options options;
  options.event_budget_bytes = 1 << 20;
  stepprof::profile prof(options);
  for (int i = 0; i < 200000; ++i) stepprof::record_function scope("s");
  CHECK(prof.snapshot().losses().dropped > 0);
  prof.stop();
  const stepprof::loss_counts first = prof.result().losses();
  CHECK(first.kept + first.dropped == 200000);
  prof.start();
  work("s");
  CHECK(prof.snapshot().losses().dropped == 0);
  prof.stop();
  CHECK(prof.result().losses().dropped == 0);
  CHECK(prof.result().losses().kept == 1);
}

// Catches: metadata that reaches only traces made after it was added, or is lost at the next cycle.
TEST_CASE("metadata is in every trace, whenever it was added", "[profile]") {
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 1, 2};
  options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
  stepprof::profile prof(options, stepprof::deferred);
  prof.add_metadata("before", "1");
  prof.start();
  prof.step();
  work("s");
  prof.add_metadata_json("during", "[1, {\"a\": null}]");
  prof.step();
  prof.step();
  work("s");
  prof.step();
  prof.stop();
  prof.add_metadata("after", "quote \" \n");
  prof.add_metadata("before", "2");  // replaces
  REQUIRE(cycles.size() == 2);
  CHECK(cycles[0].metadata().size() == 2);
  CHECK(cycles[1].metadata().size() == 2);
  const test::checked_trace file = test::check_rules(prof.result());
  CHECK(file.root().string("before") == "2");
  CHECK(file.root().string("after") == "quote \" \n");
  CHECK(file.root().at("during").items.size() == 2);
  CHECK(test::check_trace(test::chrome_text(cycles[1])).root().string("before") == "1");  // a trace never changes

  std::error_code ec;
  prof.add_metadata_json("bad", "{\"a\": }", ec);
  CHECK(ec == stepprof::errc::invalid_argument);
  CHECK(test::contains(ec.message(), "bad"));
  CHECK_THROWS_AS(prof.add_metadata_json("bad", ""), stepprof::error);
  CHECK(prof.result().metadata().size() == 3);
}

// Catches: a trace that refers to memory of the profile, of its logs or of the next session.
TEST_CASE("a trace outlives its profile and the sessions after it", "[profile]") {
  stepprof::trace kept;
  {
    stepprof::profile prof;
    { stepprof::record_function scope(std::string("a name made at run time, too long for any small string")); }
    prof.stop();
    kept = prof.result();
  }
  const std::string before = test::chrome_text(kept);
  for (int i = 0; i < 3; ++i) {  // run-time names live for one session
    stepprof::profile prof;
    work("another name");
    prof.stop();
  }
  CHECK(test::chrome_text(kept) == before);
  CHECK(kept.name(kept.events()[0]) == "a name made at run time, too long for any small string");
}

}  // namespace profile_cycles_test
