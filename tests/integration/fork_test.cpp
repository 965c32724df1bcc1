// Catches: a child of fork that waits for threads which only its parent has, or a parent that a fork disturbs.
#include <support/forked.hpp>
#include <support/recorded.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace fork_test {

using test::calls;
using test::child_can_profile;
using test::every_step_a_cycle;
using test::in_two_threads;
using test::run_in_child;

namespace {

// Calls `work` again and again on a thread of its own while it lives.
class busy_thread {
 public:
  explicit busy_thread(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          while (!done_) work();
        }) {}
  ~busy_thread() {
    done_ = true;
    thread_.join();
  }
  busy_thread(const busy_thread&) = delete;
  busy_thread& operator=(const busy_thread&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace

// Catches: a lock that is taken by another thread when the process is forked and stays so in the child, what it guards
// torn, and a parent that loses scopes because it was forked.
TEST_CASE("a process may be forked while its threads are anywhere in the library", "[fork]") {
  if (STEPPROF_POSIX == 0) return;  // without the system's services a fork is not seen
  if (!test::children_of_threads_may_allocate) return;
  const stepprof::diagnostics_hook ignore = [](const stepprof::diagnostic&) {};
  const stepprof::diagnostics_hook before = stepprof::set_diagnostics_hook(ignore);
  std::int64_t in_cycles = 0, recorded = 0, children = 0;
  stepprof::profile prof(every_step_a_cycle([&](const stepprof::trace& t) { in_cycles += calls(t, "parent"); }));
  const auto child_can_use_all = [&] {
    const bool inactive = !prof.running() && !stepprof::record_function("nobody records this").recorded();
    prof.add_metadata("key", "of the child");
    // Whole, whatever it is.
    const bool read = calls(prof.result(), "parent") <= recorded && prof.last_error().size() < 10000;
    return inactive && read && child_can_profile();
  };
  {
    const busy_thread steps([&] { prof.step(); });
    const busy_thread reads([&] {
      prof.add_metadata("key", std::to_string(prof.snapshot().events().size() + prof.result().events().size()));
    });
    const busy_thread fails([&] {
      std::error_code ec;
      stepprof::profile::create({}, ec);  // this one records already
      if (ec.message().empty()) std::abort();
    });
    const busy_thread reports([&] {
      stepprof::set_diagnostics_hook(ignore);
      stepprof::report_diagnostic({"code", "text"});
      prof.add_metadata_json("key", "{}");
    });
    for (; children < 50; ++children) {
      for (int i = 0; i < 10; ++i) {
        STEPPROF_SCOPE("parent");
        ++recorded;
      }
      REQUIRE(run_in_child(child_can_use_all) == 0);
    }
  }
  prof.stop();
  stepprof::set_diagnostics_hook(before);
  CHECK(in_cycles == recorded);
  CHECK(recorded == 500);
}

// Catches: ends that a child writes of scopes which only its parent has: its own traces then tell of ends without a
// scope.
TEST_CASE("scopes that the parent began leave nothing in the child", "[fork]") {
  if (STEPPROF_POSIX == 0) return;
  stepprof::profile prof;
  auto plain = std::make_unique<stepprof::record_function>("plain");
  stepprof::manual_scope manual;
  manual.begin("manual");
  CHECK(run_in_child([&] {
          std::uint64_t unmatched = 0;
          stepprof::profile own(
              every_step_a_cycle([&](const stepprof::trace& t) { unmatched += t.losses().unmatched_ends; }));
          plain.reset();
          manual.end();
          for (int i = 0; i < 3; ++i) own.step();
          own.stop();
          return unmatched == 0;
        }) == 0);
  manual.end();
  plain.reset();
  prof.stop();
  CHECK(prof.result().losses().kept == 2);
  CHECK(prof.result().losses().unfinished == 0);
}

// Catches: a child that waits for a callback of its parent, and threads of it that no longer wait for each other.
TEST_CASE("a process may be forked while callbacks run", "[fork]") {
  if (STEPPROF_POSIX == 0) return;
  std::promise<void> in_callback, in_hook, go_on;
  const std::shared_future<void> may_go_on = go_on.get_future().share();
  const stepprof::diagnostics_hook before = stepprof::set_diagnostics_hook([&](const stepprof::diagnostic& d) {
    if (d.code != "waits") return;
    in_hook.set_value();
    may_go_on.wait();
  });
  std::int64_t recorded = 0;
  stepprof::profile prof(every_step_a_cycle([&](const stepprof::trace& t) {
    recorded += calls(t, "parent");
    if (recorded != 1) return;
    in_callback.set_value();
    may_go_on.wait();
  }));
  { STEPPROF_SCOPE("parent"); }
  std::thread steps([&] { prof.step(); });
  std::thread reports([] { stepprof::report_diagnostic({"waits", "text"}); });
  in_callback.get_future().wait();
  in_hook.get_future().wait();
  CHECK(run_in_child([&] {
          std::atomic<int> started{0}, stopped{0};
          test::twice_in_child([&] {
            std::error_code ec;
            prof.start(ec);
            started += ec ? 0 : 1;
          });
          test::twice_in_child([&] {
            std::error_code ec;
            prof.stop(ec);
            stopped += ec ? 0 : 1;
          });
          return started == 1 && stopped == 1 && child_can_profile();
        }) == 0);
  { STEPPROF_SCOPE("parent"); }
  go_on.set_value();
  steps.join();
  reports.join();
  prof.step();
  prof.stop();
  stepprof::set_diagnostics_hook(before);
  CHECK(recorded == 2);
}

// Catches: a child in which each thread makes a new lock of its own, so that none waits for the other.
TEST_CASE("threads of a child share the locks that they find", "[fork]") {
  if (STEPPROF_POSIX == 0) return;
  const test::heard heard;
  std::atomic<int> inside{0}, overlaps{0}, arrived{0};
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{1} << 20;
  options.schedule = stepprof::step_schedule([&](std::int64_t) {  // asked by control calls, which wait for each other
    overlaps += inside++;
    for (int i = 0; i < 100; ++i) overlaps += inside - 1;  // the other one has time to come
    --inside;
    return stepprof::action::record;
  });
  { const stepprof::profile used; }
  std::vector<std::unique_ptr<stepprof::profile>> profiles;
  for (int i = 0; i < 1000; ++i) profiles.push_back(std::make_unique<stepprof::profile>(options, stepprof::deferred));
  const auto start_and_stop_all = [&] {
    int meetings = 0;
    const auto meet = [&] {
      ++arrived;
      for (++meetings; arrived < 2 * meetings;) {
      }
    };
    std::error_code ec;
    for (const auto& prof : profiles) {
      meet();
      prof->start(ec);
      meet();
      prof->stop(ec);
    }
  };
  CHECK(run_in_child([&] {
          in_two_threads(start_and_stop_all);
          return overlaps == 0;
        }) == 0);
}

// Catches: a callback that forks, and leaves the child with a control call which never ends or which others interrupt.
TEST_CASE("a callback may fork", "[fork]") {
  if (STEPPROF_POSIX == 0) return;
  const test::heard heard;
  int calls_back = 0;
  pid_t child = -1;
  stepprof::profile* running = nullptr;
  std::thread other;
  std::atomic<int> entered{0}, started{0};
  bool started_early = false;
  stepprof::profile prof(every_step_a_cycle([&](const stepprof::trace&) {
    if (++calls_back != 1) return;
    child = ::fork();
    if (child != 0) return;
    ::alarm(60);
    other = std::thread([&] {
      entered = 1;
      std::error_code ec;
      running->start(ec);
      started = ec ? -1 : 1;
    });
    while (entered == 0) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    started_early = started != 0;
  }));
  running = &prof;
  { STEPPROF_SCOPE("parent"); }
  prof.step();
  if (child == 0)
    test::finish_child([&] {
      other.join();
      const bool right = started == 1 && !started_early && prof.running();
      prof.stop();
      return right && child_can_profile();
    });
  CHECK(test::status_of(child) == 0);
  { STEPPROF_SCOPE("parent"); }
  prof.step();
  CHECK(calls(prof.result(), "parent") == 1);
  prof.stop();
  CHECK(calls_back == 2);
}

}  // namespace fork_test
