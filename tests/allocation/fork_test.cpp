// Catches: a fork at any moment of a call of the library that hangs parent or child. The moments are the heap calls.
#include <support/catch.hpp>
#include <support/forked.hpp>

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

#include "counted_malloc.hpp"

namespace fork_test {

namespace {

std::atomic<bool> inside{false};
std::atomic<bool> about_to_fork{false};
std::atomic<bool> forking{false};
std::atomic<bool> forked{false};
std::atomic<int> failed_children{0};

// Handlers of this kind run in the opposite order: this one, made first, runs when nothing is waited for any more.
const bool told = ::pthread_atfork([] { forking = true; }, nullptr, nullptr) == 0;

// Stays where it is until the other thread has forked, unless that one seems to wait for this one before.
void wait_for_fork() {
  inside = true;
  for (int patience = 1000; !forked && (forking || patience > 0);) {
    if (about_to_fork) --patience;
    std::this_thread::yield();
  }
}

// As a signal handler may do; the child would go on to another program.
void fork_here() {
  inside = true;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  failed_children += test::status_of(child) == 0 ? 0 : 1;
}

// Control calls and others that have something to guard.
struct session {
  session() {
    stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
    prof.start();
  }
  ~session() {
    prof.stop();
    stepprof::set_diagnostics_hook(before);
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  void call_all() {
    { STEPPROF_SCOPE("parent"); }
    prof.step();
    prof.add_metadata("key", prof.snapshot().info().trace_id);
    idle.step();  // refused, kept and reported
    stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
    ++rounds;
  }

  const stepprof::diagnostics_hook before = stepprof::set_diagnostics_hook({});
  std::int64_t recorded = 0;
  std::int64_t rounds = 0;
  stepprof::profile prof{
      test::every_step_a_cycle([this](const stepprof::trace& t) { recorded += test::calls(t, "parent"); }),
      stepprof::deferred};
  stepprof::profile idle{{}, stepprof::deferred};
};

}  // namespace

// Catches: a lock that another thread holds at the moment of the fork, and that the child finds locked.
TEST_CASE("a child can profile, wherever another thread of its parent was", "[fork]") {
  session all;
  REQUIRE(told);
  std::uint64_t moments = 0;
  for (bool reached = true; reached;) {
    inside = about_to_fork = forking = forked = false;
    std::atomic<bool> over{false};
    std::thread other([&] {
      test::at_heap_call(moments + 1, &wait_for_fork);
      all.call_all();
      test::at_heap_call(0, nullptr);
      over = true;
    });
    while (!inside && !over) std::this_thread::yield();
    reached = inside;
    about_to_fork = true;
    const pid_t child = ::fork();
    if (child == 0) test::finish_child(&test::child_can_profile);
    forked = true;
    other.join();
    REQUIRE(test::status_of(child) == 0);
    ++moments;
  }
  CHECK(moments > 100);
  CHECK(all.recorded == all.rounds);
}

// Catches: a fork in a signal handler that waits for the thread which it interrupted.
TEST_CASE("a thread may fork wherever it is", "[fork]") {
  session all;
  failed_children = 0;
  std::uint64_t moments = 0;
  for (inside = true; inside; ++moments) {
    inside = false;
    test::at_heap_call(moments + 1, &fork_here);
    all.call_all();
    test::at_heap_call(0, nullptr);
  }
  CHECK(moments > 100);
  CHECK(failed_children == 0);
  CHECK(all.recorded == all.rounds);
}

}  // namespace fork_test
