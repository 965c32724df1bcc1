// Catches: a session that leaves something behind.
#include <support/recorded.hpp>
#include <support/skip.hpp>

#include <cstddef>
#include <string>

#include <stepprof/stepprof.hpp>

#include "resident.hpp"

namespace sessions_test {

namespace {

// Three steps, of which the last two are recorded, with 100 scopes whose names no other session has.
void one_session(int number, std::uint64_t& rows) {
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{/*wait*/ 0, /*warmup*/ 1, /*active*/ 2, /*repeat*/ 1};
  stepprof::profile prof(options);
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 50; ++i)
      const stepprof::record_function scope("session " + std::to_string(number) + " step " + std::to_string(step) +
                                            " scope " + std::to_string(i));
    prof.step();
  }
  prof.stop();
  const stepprof::event_averages averages = prof.key_averages();
  rows += averages.rows.size();
  const std::string last = "session " + std::to_string(number) + " step 2 scope 49";
  if (averages.find(last) == nullptr || prof.result().losses().overflow_names != 0) rows += 1000000;
}

}  // namespace

// Catches: names, results, threads or files that a session keeps.
// FC-35: https://github.com/pytorch/pytorch/issues/193348
TEST_CASE("ten thousand sessions of names of their own take no more memory than a hundred", "[bounded]") {
  if (!test::can_measure_memory()) return test::skip("needs /proc/self/smaps_rollup");
  const test::heard heard;
  test::resident_course course;
  std::uint64_t rows = 0, threads = 0;
  std::size_t files = 0;
  constexpr int sessions = 10000;
  for (int i = 0; i < sessions; ++i) {
    one_session(i, rows);
    if (i == 99) {
      threads = test::thread_count();
      files = test::open_file_count();
    }
    if (i >= 99 && i % 100 == 99) course.measure();
  }
  CAPTURE(course.figures());
  CHECK(course.is_flat());
  CHECK(rows == std::uint64_t{sessions} * (100 + 1));  // the steps are one row
  CHECK(test::thread_count() == threads);
  CHECK(test::open_file_count() == files);
}

}  // namespace sessions_test
