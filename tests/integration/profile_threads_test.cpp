// Catches: what a profile does while other threads record, stop it, come and go.
#include <support/recorded.hpp>
#include <support/counts.hpp>
#include <support/sanitized.hpp>
#include <support/temp_folder.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace profile_threads_test {

namespace {

using test::calls;

std::vector<std::string> thread_names(const stepprof::trace& t) {
  std::vector<std::string> names;
  for (const stepprof::trace_track& track : t.tracks()) names.push_back(track.name);
  return names;
}

}  // namespace

// Catches: two deliveries, or none, when two threads stop at once.
// FC-10: vllm-project/vllm#51676
TEST_CASE("of two threads that stop at once exactly one stops", "[profile]") {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> delivered{0}, stopped{0}, not_running{0}, returned_early{0};
    stepprof::profile_options options;
    options.on_trace_ready = [&](const stepprof::trace&) { ++delivered; };
    stepprof::profile prof(options);
    { STEPPROF_SCOPE("s"); }
    const auto stop = [&] {
      std::error_code ec;
      prof.stop(ec);
      stopped += !ec;
      not_running += ec == stepprof::errc::not_running;
      returned_early += delivered != 1;  // whoever comes second returns after the delivery
    };
    std::thread other(stop);
    stop();
    other.join();
    CHECK(stopped == 1);
    CHECK(not_running == 1);
    CHECK(returned_early == 0);
    CHECK(calls(prof.result(), "s") == 1);
  }
}

// Catches: reading while recording that hangs, crashes, consumes what is recorded, or shows half a scope as whole.
// FC-11: pytorch/pytorch#156563
TEST_CASE("results can be read while another thread records", "[profile]") {
  const test::heard heard;
  constexpr std::int64_t burst = 500;
  std::atomic<std::int64_t> rounds{0}, allowed{burst};
  stepprof::profile prof;
  std::thread worker([&] {
    while (rounds < 6 * burst) {
      while (rounds >= allowed) std::this_thread::yield();
      STEPPROF_SCOPE("outer");
      { STEPPROF_SCOPE("inner"); }
      ++rounds;
    }
  });
  for (int i = 0; i < 5; ++i) {
    STEPPROF_SCOPE("step");
    prof.step();
  }
  CHECK(prof.key_averages().rows.empty());  // nothing is completed: that is said once, and where to look instead
  CHECK(test::contains(prof.key_averages().table(), "Self CPU time total"));
  REQUIRE(heard.codes() == "no_results");
  CHECK(test::contains(heard.all[0].text, "snapshot()"));
  std::int64_t before = 0;
  for (int i = 0; i < 5; ++i) {
    allowed += burst;  // the next burst runs beside the snapshot
    const std::int64_t at_least = rounds;
    const stepprof::trace t = prof.snapshot();
    CHECK(calls(t, "step") == 5);
    CHECK(calls(t, "inner") >= at_least);
    CHECK(calls(t, "inner") >= before);
    before = calls(t, "inner");
    // At most the scopes of the moment are cut.
    CHECK(t.losses().unfinished <= 2);
    test::check_rules(t);
  }
  worker.join();
  prof.stop();
  CHECK(calls(prof.result(), "outer") == 6 * burst);
  CHECK(calls(prof.result(), "inner") == 6 * burst);
  CHECK(prof.result().losses().unfinished == 0);
}

// Catches: an export that reads what another thread is writing, waits for it, or takes away what is still recorded.
// FC-11: pytorch/pytorch#156563
TEST_CASE("a profile exports its last cycle while another thread records the next one", "[profile]") {
  const test::heard heard;
  const test::temp_folder folder;
  constexpr std::int64_t burst = 300;
  std::atomic<std::int64_t> rounds{0}, allowed{0};
  std::atomic<bool> done{false};
  stepprof::profile_options options;
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  stepprof::profile prof(options);
  std::thread worker([&] {
    while (!done) {
      if (rounds >= allowed) {
        std::this_thread::yield();
        continue;
      }
      {
        STEPPROF_SCOPE("outer");
        STEPPROF_SCOPE("inner");
      }
      ++rounds;
    }
  });
  const auto export_now = [&](std::error_code& of_trace, std::error_code& of_stacks) {
    prof.export_chrome_trace(folder / "t.json", of_trace);
    prof.export_stacks(folder / "stacks.txt", "self_cpu_time_total", of_stacks);
    return test::check_trace(test::contents_of(folder / "t.json"));
  };
  std::error_code of_trace, of_stacks;
  for (std::int64_t cycle = 0; cycle < 4; ++cycle) {
    allowed += burst;  // runs beside the exports
    const test::checked_trace file = export_now(of_trace, of_stacks);
    CHECK_FALSE(of_trace);
    CHECK(file.summary().empty());
    const auto expected = static_cast<std::size_t>(cycle == 0 ? 0 : burst);  // nothing is completed in the first round
    CHECK(file.slice_count("outer") == expected);
    CHECK(file.slice_count("inner") == expected);
    if (cycle == 0)
      CHECK(of_stacks == stepprof::errc::no_results);
    else
      CHECK_FALSE(of_stacks);
    const std::string stacks = test::contents_of(folder / "stacks.txt");
    CHECK(test::contains(stacks, "outer;inner ") == (cycle != 0));
    while (rounds < allowed) std::this_thread::yield();
    prof.step();
  }
  done = true;
  worker.join();
  prof.stop();
  CHECK(calls(prof.result(), "outer") == burst);
  CHECK(heard.codes() == "no_results");
}

// Catches: an open scope that is lost, or ends in the year 1970 or "at the end of everything"; ends that come later and
// write into a trace that is being read.
// FC-16: pytorch/pytorch PR124080, pytorch/pytorch PR150131, catapult-project/catapult#1658, yse/easy_profiler#218
TEST_CASE("scopes still open at stop are cut there and flagged", "[profile]") {
  stepprof::profile prof;
  std::string before;
  {
    stepprof::record_function a("A");
    {
      stepprof::record_function b("B");
      std::thread([&] { prof.stop(); }).join();
      before = test::chrome_text(prof.result());
    }
  }
  const stepprof::trace t = prof.result();
  CHECK(test::chrome_text(t) == before);
  REQUIRE(t.events().size() == 2);
  const stepprof::trace_event& a = *test::find_event(t, "A");
  const stepprof::trace_event& b = *test::find_event(t, "B");
  CHECK(b.parent == 0);
  for (const stepprof::trace_event* e : {&a, &b}) {
    CHECK(e->has(stepprof::trace_event::unfinished));
    CHECK(e->end_ns == t.info().end_ns);
  }
  CHECK(t.losses().unfinished == 2);
  CHECK(t.losses().kept == 0);
  // Cut scopes count in the averages, and the footer names them.
  CHECK(prof.key_averages().at("A").calls == 1);
  CHECK(prof.key_averages().at("A").unfinished == 1);
  const std::string table = prof.key_averages().table();
  CHECK(test::contains(table.substr(table.find("Self CPU time total")), "A"));
  test::check_rules(t);

  // The late ends are in no later trace.
  prof.start();
  { STEPPROF_SCOPE("next"); }
  prof.stop();
  CHECK(prof.result().events().size() == 1);
  CHECK(prof.result().losses().unmatched_ends == 0);
}

// Catches: starting or stopping with a scope alive that crashes, adopts what follows, or loses it.
// FC-17: pytorch/pytorch PR31346
TEST_CASE("a scope opened before start is absent and disturbs nothing", "[profile]") {
  stepprof::profile prof({}, stepprof::deferred);
  {
    stepprof::record_function a("A");
    prof.start();
    { stepprof::record_function b("B"); }
  }
  { stepprof::record_function c("C"); }
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.events().size() == 2);
  CHECK(test::find_event(t, "A") == nullptr);
  CHECK(test::find_event(t, "B")->parent == stepprof::npos);
  CHECK_FALSE(test::find_event(t, "B")->has(stepprof::trace_event::unfinished));
  CHECK(t.losses().unmatched_ends == 0);
  test::check_rules(t);
}

// Catches: the same at any moment, with the scopes of another thread.
// FC-17: pytorch/pytorch PR31346
TEST_CASE("starting and stopping 1000 times under open scopes keeps every trace consistent", "[profile]") {
  const test::heard heard;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> recorded{0};
  const stepprof::recording_totals before = stepprof::process_totals();
  std::thread worker([&] {
    while (!done.load(std::memory_order_relaxed)) {
      stepprof::record_function a("A");
      stepprof::record_function b("B");
      recorded += (a.recorded() ? 1u : 0u) + (b.recorded() ? 1u : 0u);
    }
  });
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{8} << 20;
  stepprof::profile prof(options, stepprof::deferred);
  std::uint64_t in_traces = 0, late = 0;
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) {
    prof.start();
    if (i % 8 == 0) std::this_thread::yield();
    prof.stop();
    const stepprof::trace t = prof.result();
    in_traces += t.losses().kept + t.losses().unfinished;
    late += t.losses().late;
    wrong += t.losses().unmatched_ends != 0 || t.losses().kept + t.losses().unfinished != t.events().size();
    // B is inside an A, or its A began before the window. The name of a scope that took two sessions to begin is lost.
    for (const stepprof::trace_event& e : t.events()) {
      const std::string_view parent = e.parent == stepprof::npos ? "A" : t.name(t.events()[e.parent]);
      wrong += e.parent != stepprof::npos && t.name(e) != "B" && t.name(e) != "(unknown name)";
      wrong += parent != "A" && parent != "(unknown name)";
    }
    if (i % 100 == 0) test::check_rules(t);
  }
  done = true;
  worker.join();
  const stepprof::recording_totals after = stepprof::process_totals();
  CHECK(wrong == 0);
  CHECK(after.kept + after.unfinished - before.kept - before.unfinished == in_traces);
  CHECK(after.late - before.late >= late);
  CHECK(in_traces + (after.late - before.late) == recorded);
  CHECK(after.dropped == before.dropped);
}

// Catches: threads that write into what stop() gave back, scopes of which one half is in a trace, a thread that ends
// while it is read.
// FC-63: https://github.com/pytorch/pytorch/pull/185741, https://github.com/pytorch/pytorch/issues/32883
TEST_CASE("a profile is started and stopped under 32 threads that come and go", "[profile]") {
  const test::heard heard;
  const int rounds = test::sanitized ? 100 : 1000;
  constexpr int workers = 32;
  constexpr int own_ends = 4;  // workers that do each burst on a thread of its own, which then ends
  std::mutex mutex;
  std::condition_variable changed;
  int round = 0;  // under the mutex
  std::atomic<std::uint64_t> recorded{0};
  const stepprof::recording_totals before = stepprof::process_totals();
  const auto burst = [&recorded] {
    for (int i = 0; i < 10; ++i) {
      const stepprof::record_function outer("outer");
      const stepprof::record_function inner("inner");
      recorded += (outer.recorded() ? 1u : 0u) + (inner.recorded() ? 1u : 0u);
    }
  };
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w)
    threads.emplace_back([&, w] {
      for (int done = 0; done >= 0;) {
        {
          std::unique_lock<std::mutex> hold(mutex);
          changed.wait(hold, [&] { return round != done; });
          done = round;
        }
        if (w < own_ends)
          std::thread(burst).join();
        else
          burst();
      }
    });
  const auto begin_round = [&](int number) {
    {
      const std::lock_guard<std::mutex> hold(mutex);
      round = number;
    }
    changed.notify_all();
  };
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{8} << 20;
  stepprof::profile prof(options, stepprof::deferred);
  std::uint64_t in_traces = 0;
  int wrong = 0, with_scopes = 0;
  for (int i = 1; i <= rounds; ++i) {
    prof.start();
    begin_round(i);
    if (i % 2 == 0) std::this_thread::yield();
    prof.stop();
    const stepprof::trace t = prof.result();
    in_traces += t.events().size();
    with_scopes += t.events().empty() ? 0 : 1;
    wrong += t.losses().unmatched_ends != 0 || t.losses().dropped != 0;
    wrong += t.losses().kept + t.losses().unfinished != t.events().size();
    std::int64_t in_rows = 0, cut = 0;
    for (const stepprof::event_average& row : prof.key_averages().rows) {
      in_rows += row.calls;
      cut += row.unfinished;
    }
    wrong += in_rows != static_cast<std::int64_t>(t.events().size());
    wrong += cut != static_cast<std::int64_t>(t.losses().unfinished);
    if (i % 100 == 0) test::check_rules(t);
  }
  begin_round(-1);
  for (std::thread& thread : threads) thread.join();
  const stepprof::recording_totals after = stepprof::process_totals();
  CHECK(wrong == 0);
  CHECK(with_scopes > 0);
  CHECK(after.kept + after.unfinished - before.kept - before.unfinished == in_traces);
  CHECK(in_traces + (after.late - before.late) == recorded);
  CHECK(after.dropped == before.dropped);
}

// Catches: scopes destroyed on another thread that corrupt one of the two stacks.
// FC-18: pytorch/pytorch#32517, wolfpld/tracy#1184
TEST_CASE("scopes may end on another thread while both are busy", "[profile]") {
  const test::heard heard;
  constexpr int count = 2000;
  std::vector<std::unique_ptr<stepprof::record_function>> handed(count);
  std::atomic<int> ready{0};
  stepprof::profile prof;
  std::thread receiver([&] {
    STEPPROF_SCOPE("receiver");
    for (int i = 0; i < count; ++i) {
      STEPPROF_SCOPE("receive");
      while (ready.load(std::memory_order_acquire) <= i) std::this_thread::yield();
      handed[static_cast<std::size_t>(i)].reset();
    }
  });
  {
    STEPPROF_SCOPE("sender");
    for (int i = 0; i < count; ++i) {
      STEPPROF_SCOPE("send");
      handed[static_cast<std::size_t>(i)] = std::make_unique<stepprof::record_function>("handed");
      { STEPPROF_SCOPE("inside"); }
      ready.store(i + 1, std::memory_order_release);
    }
  }
  receiver.join();
  prof.stop();
  const stepprof::trace t = prof.result();
  const stepprof::event_averages rows = prof.key_averages();
  for (const char* name : {"receive", "send", "handed", "inside"}) CHECK(rows.at(name).calls == count);
  CHECK(rows.at("handed").self_ns == 0);
  CHECK(t.losses().unfinished == 0);
  CHECK(t.losses().unmatched_ends == 0);
  int wrong = 0;
  for (const stepprof::trace_event& e : t.events()) {
    const bool apart = t.tracks()[e.track].kind == stepprof::track_kind::async;
    wrong += apart != (t.name(e) == "handed") || apart != e.has(stepprof::trace_event::other_thread);
  }
  CHECK(wrong == 0);
  test::check_rules(t);
}

// Catches: names that are lost when they are given early, late, twice, or when the thread is gone by the time of
// reading.
// FC-62: https://github.com/yse/easy_profiler/issues/53, https://github.com/thoren-d/tracing-chrome/pull/14
TEST_CASE("threads and the process are named as they named themselves", "[profile]") {
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 1, 0};
  options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
  stepprof::set_process_name("first name");
  std::atomic<int> phase{0};
  std::thread early([&] {
    stepprof::set_thread_name("early");  // before it records anything
    const auto wait_for = [&](int p) {
      while (phase < p) std::this_thread::yield();
    };
    wait_for(1);
    { STEPPROF_SCOPE("early's"); }
    phase = 2;
    wait_for(3);
    stepprof::set_thread_name("renamed");
    { STEPPROF_SCOPE("early's"); }
    phase = 4;
  });
  stepprof::profile prof(options);
  prof.step();
  std::thread([] {
    STEPPROF_SCOPE("gone's");
    stepprof::set_thread_name(std::string("gone, and its name is cut after forty-six bytes"));
  }).join();
  std::thread([] { stepprof::set_thread_name("records nothing"); }).join();
  phase = 1;
  while (phase < 2) std::this_thread::yield();
  prof.step();
  stepprof::set_process_name("second name");
  prof.step();
  phase = 3;
  while (phase < 4) std::this_thread::yield();
  prof.step();
  early.join();
  prof.stop();
  REQUIRE(cycles.size() == 2);
  const std::vector<std::string> first = thread_names(cycles[0]);
  const std::vector<std::string> second = thread_names(cycles[1]);
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::count(names.begin(), names.end(), name);
  };
  CHECK(first.size() == 3);  // with the one that steps
  CHECK(has(first, "early") == 1);
  CHECK(has(first, "gone, and its name is cut after forty-six byte") == 1);
  CHECK(second.size() == 2);
  CHECK(has(second, "renamed") == 1);
  CHECK(cycles[0].processes().at(0).name == "first name");
  CHECK(cycles[1].processes().at(0).name == "second name");
  const auto file_names = [](const stepprof::trace& t, const std::string& name) {
    const test::checked_trace file = test::check_rules(t);
    return std::any_of(file.thread_names.begin(), file.thread_names.end(),
                       [&](const auto& id_and_name) { return id_and_name.second == name; });
  };
  for (int i = 0; i < 2; ++i) {
    CHECK(file_names(cycles[0], "gone, and its name is cut after forty-six byte"));
    CHECK(file_names(cycles[0], "early"));
  }
  CHECK(file_names(cycles[1], "renamed"));
  for (const stepprof::trace& t : cycles)
    for (const stepprof::trace_track& track : t.tracks()) CHECK(track.id >= 1);

  // A name given in the options is only this profile's.
  options = {};
  options.process_name = "by option";
  stepprof::profile named(options);
  named.stop();
  CHECK(named.result().processes().at(0).name == "by option");
  stepprof::profile plain;
  plain.stop();
  CHECK(plain.result().processes().at(0).name == "second name");
}

// Catches: names and shapes that are kept by reference, and what they refer to being copied or kept alive.
// FC-38: pytorch/pytorch#133444
TEST_CASE("nothing that a scope was given is referred to later", "[profile]") {
  struct counted {
    static int& copies() {
      static int count = 0;
      return count;
    }
    counted() = default;
    counted(const counted&) { ++copies(); }
    const char* data() const { return text.data(); }
    std::size_t size() const { return text.size(); }
    std::string text = "an object that can be a text, longer than any small string";
  };
  stepprof::profile_options options;
  options.record_shapes = true;
  stepprof::profile prof(options);
  {
    std::unique_ptr<stepprof::record_function> scope;
    {
      std::string name = "a temporary name, longer than any small string";
      std::vector<std::int64_t> sizes = {64, 512};
      std::string type = "float";
      const counted object;
      stepprof::input_description input;
      input.sizes = sizes.data();
      input.rank = sizes.size();
      input.dtype = type.c_str();
      scope = std::make_unique<stepprof::record_function>(name + "!", stepprof::inputs(input),
                                                          stepprof::arg("object", object));
      std::fill(name.begin(), name.end(), '?');
      std::fill(sizes.begin(), sizes.end(), -1);
      std::fill(type.begin(), type.end(), '?');
    }
    const std::string reuses_the_memory(64, '#');
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.events().size() == 1);
  CHECK(t.name(t.events()[0]) == "a temporary name, longer than any small string!");
  const stepprof::event_detail& detail = t.detail(t.events()[0]);
  CHECK(t.text(detail.input_dims) == "[[64, 512]]");
  CHECK(t.text(detail.input_types) == "[\"float\"]");
  REQUIRE(detail.arg_count == 1);
  CHECK(t.text(t.arguments()[detail.first_arg].text) == "an object that can be a text, longer than any small string");
  CHECK(counted::copies() == 0);
  test::check_rules(t);
}

}  // namespace profile_threads_test
