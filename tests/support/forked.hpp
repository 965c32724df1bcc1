// Children of fork, and what they can do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include <support/counts.hpp>
#include <support/sanitized.hpp>

#include <stepprof/stepprof.hpp>

namespace test {

// In a child: ends it, with 0 when all went well. One that hangs is ended by the alarm.
[[noreturn]] inline void finish_child(const std::function<bool()>& work) {
  ::alarm(60);
  ::_exit(work() ? 0 : 1);
}
inline int status_of(pid_t child) {
  int status = -1;
  return ::waitpid(child, &status, 0) == child ? status : -1;
}
inline int run_in_child(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) finish_child(work);
  return status_of(child);
}

// ThreadSanitizer ends a child that makes threads when its parent had several.
inline constexpr bool children_of_threads_may_have_threads = !thread_sanitized;

// AddressSanitizer's allocator has locks that a fork does not wait for: a child that was forked while another thread
// allocated may wait for one of them for ever.
inline constexpr bool children_of_threads_may_allocate = !address_sanitized;

inline void in_two_threads(const std::function<void()>& work) {
  std::atomic<int> ready{0};
  const auto begin_together = [&] {
    ++ready;
    while (ready < 2) std::this_thread::yield();
    work();
  };
  std::thread other(begin_together);
  begin_together();
  other.join();
}

inline void twice_in_child(const std::function<void()>& work) {
  if (children_of_threads_may_have_threads) return in_two_threads(work);
  work();
  work();
}

inline stepprof::profile_options every_step_a_cycle(std::function<void(const stepprof::trace&)> callback) {
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{8} << 20;
  options.schedule = stepprof::schedule{0, 0, 1, 0};
  options.on_trace_ready = std::move(callback);
  return options;
}

// What a child does with a profile of its own: 40 scopes, 20 steps, by two threads where that can be, and everything
// that has a lock.
inline bool child_can_profile() {
  std::int64_t recorded = 0;
  bool right = true;
  std::atomic<int> reported{0};
  stepprof::set_diagnostics_hook([&](const stepprof::diagnostic& d) { reported += d.code == "step_refused"; });
  stepprof::profile prof(every_step_a_cycle([&](const stepprof::trace& t) { recorded += calls(t, "child"); }));
  twice_in_child([&] {
    for (int i = 0; i < 10; ++i) {
      STEPPROF_SCOPE("child");
      { STEPPROF_SCOPE("child"); }
      prof.step();
    }
  });
  prof.pause();
  prof.resume();
  prof.add_metadata("key", "text");
  right = right && prof.running() && prof.step_number() == 20 && prof.snapshot().events().size() == 1;
  prof.stop();
  prof.step();  // refused, kept and reported
  std::error_code ec;
  prof.step(ec);
  return right && recorded == 40 && prof.last_error() == ec.message() && ec == stepprof::errc::not_running &&
         reported == 1 && stepprof::process_totals().dropped == 0;
}

}  // namespace test
