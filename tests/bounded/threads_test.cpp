// Catches: threads that leave something behind when they end.
#include <support/recorded.hpp>
#include <support/skip.hpp>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

#include "resident.hpp"

namespace threads_test {

namespace {

constexpr int at_once = 16;
constexpr int rounds = 1250;
constexpr std::uint64_t all_threads = std::uint64_t{at_once} * rounds;  // 20000

// Lets nobody go before all 16 are there: that as many live at once as ever will, from the first round on, is part of
// what memory is measured against.
class meeting {
 public:
  void wait_for_all() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (++here_ == at_once) all_are_here_.notify_all();
    all_are_here_.wait(lock, [this] { return here_ == at_once; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_are_here_;
  int here_ = 0;
};

// 16 threads with a name of their own and one scope, which have ended when this returns.
void one_round(int round, const std::string& phase, bool own_scopes = true) {
  meeting all;
  std::vector<std::thread> threads;
  for (int i = 0; i < at_once; ++i)
    threads.emplace_back([&, i] {
      all.wait_for_all();
      const std::string own = phase + " " + std::to_string(round * at_once + i);
      stepprof::set_thread_name(own);
      const stepprof::record_function scope(own_scopes ? "scope of " + own : std::string("scope"));
    });
  for (std::thread& thread : threads) thread.join();
}

// Whether each of the threads, and none else, is in the trace with its name and its scope.
bool holds_all(const stepprof::trace& t, const std::string& phase) {
  std::set<std::string> expected;
  for (std::uint64_t i = 0; i < all_threads; ++i) expected.insert(phase + " " + std::to_string(i));
  for (const stepprof::trace_track& track : t.tracks()) {
    if (expected.erase(track.name) == 0 || track.event_count != 1) return false;
    if (t.name(t.events()[track.first_event]) != "scope of " + track.name) return false;
  }
  return expected.empty();
}

std::string exported(const stepprof::trace& t) {
  std::string text;
  stepprof::write_chrome_trace(t, text);
  return text;
}

}  // namespace

// Catches: a registration that each thread leaves behind, with and without a session, and what a second session shows
// of the threads of the first.
// FC-37: https://github.com/yse/easy_profiler/issues/178
TEST_CASE("twenty thousand short threads leave nothing behind", "[bounded]") {
  if (!test::can_measure_memory()) return test::skip("needs /proc/self/smaps_rollup");
  const test::heard heard;
  {
    test::resident_course course;
    for (int round = 0; round < rounds; ++round) {
      one_round(round, "unrecorded");
      if (round % 25 == 24) course.measure();
    }
    CAPTURE(course.figures());
    CHECK(course.is_flat());
  }
  {
    // A cycle for each ten rounds: what is read is given back. Names of scopes are kept for the whole session.
    test::resident_course course;
    std::uint64_t kept = 0;
    stepprof::profile_options options;
    options.event_budget_bytes = std::size_t{8} << 20;
    options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
    options.on_trace_ready = [&](const stepprof::trace& t) { kept += t.losses().kept; };
    stepprof::profile prof(options);
    for (int round = 0; round < rounds; ++round) {
      one_round(round, "cycle", false);
      if (round % 10 == 9) prof.step();
      if (round % 25 == 24) course.measure();
    }
    prof.stop();
    CAPTURE(course.figures());
    CHECK(course.is_flat());
    CHECK(kept == all_threads);
  }
  stepprof::profile first;
  for (int round = 0; round < rounds; ++round) one_round(round, "first");
  first.stop();
  CHECK(holds_all(first.result(), "first"));
  const std::string text = exported(first.result());  // long after the last of the threads has ended
  stepprof::profile second;
  for (int round = 0; round < rounds; ++round) one_round(round, "second");
  second.stop();
  CHECK(holds_all(second.result(), "second"));
  CHECK(holds_all(first.result(), "first"));
  CHECK(exported(first.result()) == text);
  CHECK_FALSE(test::contains(exported(second.result()), "first 1"));  // names of the first's threads and scopes
  CHECK(first.result().losses().dropped + second.result().losses().dropped == 0);
}

}  // namespace threads_test
