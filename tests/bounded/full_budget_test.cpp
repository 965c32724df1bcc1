// Catches: a recorder that grows beyond its budget, or loses count of what it drops.
#include <support/counts.hpp>
#include <support/recorded.hpp>
#include <support/skip.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

#include "resident.hpp"

namespace full_budget_test {

namespace {

// What is recorded into which budget; `set` says what else the options hold.
struct load {
  std::size_t budget_bytes;
  std::uint64_t scopes;  // of all threads
  unsigned threads;
  std::function<void(stepprof::profile_options&)> set;
};

// Each scope that is not recorded, while a profile runs, must be in the counts.
void scopes(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; i += 4) {
    STEPPROF_SCOPE("outer");
    { STEPPROF_SCOPE("inner"); }
    { const stepprof::record_function named("run time"); }
    { STEPPROF_SCOPE("inner"); }
  }
}

constexpr std::uint64_t batches = 40;

// The scopes of a load in batches, with the memory after each.
test::resident_course record(const load& what) {
  test::resident_course course;
  for (std::uint64_t i = 0; i < batches; ++i) {
    std::vector<std::thread> threads;
    for (unsigned t = 1; t < what.threads; ++t)
      threads.emplace_back([&] { scopes(what.scopes / batches / what.threads); });
    scopes(what.scopes / batches / what.threads);
    for (std::thread& thread : threads) thread.join();
    course.measure();
  }
  return course;
}

struct outcome {
  stepprof::trace result;
  stepprof::recording_totals before, after;
  test::resident_course course;

  [[nodiscard]] std::uint64_t counted() const { return test::begins(after) - test::begins(before); }
};

outcome run(const load& what) {
  outcome out;
  stepprof::profile_options options;
  options.event_budget_bytes = what.budget_bytes;
  if (what.set) what.set(options);
  out.before = stepprof::process_totals();
  stepprof::profile prof(options);
  const stepprof::record_function open("open");  // until the end
  out.course = record(what);
  prof.stop();
  out.result = prof.result();
  out.after = stepprof::process_totals();
  return out;
}

// Of any load: no more memory, and every scope counted, by the process and in the trace.
outcome run_and_check(const load& what) {
  outcome out = run(what);
  CAPTURE(out.course.figures());
  CHECK(out.course.is_flat());
  CHECK(out.counted() == what.scopes + 1);
  CHECK(test::begins(out.result.losses()) == what.scopes + 1);
  return out;
}

}  // namespace

// Catches: memory taken for scopes that are dropped; a drop that is not counted, or counted twice.
// FC-34: https://github.com/wolfpld/tracy/issues/789
TEST_CASE("a full budget takes no more memory, and every scope is counted", "[bounded]") {
  if (!test::can_measure_memory()) return test::skip("needs /proc/self/smaps_rollup");
  const test::heard heard;
  const outcome out = run_and_check({std::size_t{8} << 20, 100000000, 1, {}});
  const stepprof::loss_counts& lost = out.result.losses();
  CHECK(lost.unfinished == 1);
  CHECK(lost.kept > 450000);  // of 16 bytes: 8 MiB hold 524288, less what names and headers take
  CHECK(lost.kept < 524288);
  CHECK(heard.codes() == "dropped_scopes");
}

// Catches: the same with threads that want the last of the memory at once, and logs of threads that have ended.
TEST_CASE("a budget that several threads fill takes no more memory, and every scope is counted", "[bounded]") {
  if (!test::can_measure_memory()) return test::skip("needs /proc/self/smaps_rollup");
  const test::heard heard;
  run_and_check({std::size_t{8} << 20, 16000000, 4, {}});
}

// Catches: a ring that grows, that counts a chunk twice or not at all, or that keeps anything but the end.
TEST_CASE("a ring takes no more memory, and every scope is counted", "[bounded]") {
  if (!test::can_measure_memory()) return test::skip("needs /proc/self/smaps_rollup");
  const test::heard heard;
  const auto as_ring = [](stepprof::profile_options& o) { o.when_full = stepprof::fill_policy::ring; };
  const outcome out = run_and_check({std::size_t{8} << 20, 100000000, 1, as_ring});
  const stepprof::loss_counts& lost = out.result.losses();
  CHECK(lost.overwritten == lost.dropped);
  CHECK(lost.unfinished == 0);  // the one that was open was the first to go
  CHECK(lost.kept > 400000);    // an eighth is kept for others
  CHECK(lost.kept < 524288);
  CHECK(lost.overwritten_ends + lost.unmatched_ends <= 1);  // one of four scopes is around others
  CHECK(lost.unmatched_ends == 0);
  CHECK(heard.codes() == "overwritten_scopes");
  const outcome of_several = run_and_check({std::size_t{8} << 20, 16000000, 4, as_ring});
  CHECK(of_several.result.losses().unmatched_ends == 0);
}

// Catches: scopes that leave something behind while nobody records.
// FC-34: https://github.com/bevyengine/bevy/issues/10831
TEST_CASE("scopes that nobody records take no memory", "[bounded]") {
  if (!test::can_measure_memory()) return test::skip("needs /proc/self/smaps_rollup");
  const stepprof::recording_totals before = stepprof::process_totals();
  const test::resident_course course = record({0, 100000000, 1, {}});
  CAPTURE(course.figures());
  CHECK(course.is_flat());
  const stepprof::recording_totals after = stepprof::process_totals();
  CHECK((after.kept == before.kept && after.dropped == before.dropped && after.late == before.late));
}

}  // namespace full_budget_test
