// Catches: names that take memory without a bound.
#include <support/recorded.hpp>
#include <support/skip.hpp>

#include <cstdint>
#include <string>

#include <stepprof/stepprof.hpp>

#include "resident.hpp"

namespace names_test {

namespace {

constexpr std::uint64_t names = 1000000;

void record(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t i = first; i < first + count; ++i) const stepprof::record_function scope(std::to_string(i));
}

}  // namespace

// Catches: names beyond their share that are kept nevertheless, and scopes lost with their name.
TEST_CASE("a million distinct names stay within a small budget", "[bounded]") {
  if (!test::can_measure_memory()) return test::skip("needs /proc/self/smaps_rollup");
  const test::heard heard;
  test::resident_course course;
  std::uint64_t kept = 0, nameless = 0, with_name = 0, lost = 0;
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{8} << 20;
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  options.on_trace_ready = [&](const stepprof::trace& t) {
    kept += t.losses().kept;
    lost += t.losses().dropped + t.losses().unfinished;
    nameless += t.losses().overflow_names;
    for (const stepprof::trace_event& e : t.events())
      with_name += !e.has(stepprof::trace_event::step) && t.name(e) != "(names overflow)";
  };
  stepprof::profile prof(options);
  constexpr std::uint64_t cycles = 200;
  for (std::uint64_t i = 0; i < cycles; ++i) {
    record(i * names / cycles, names / cycles);
    prof.step();
    if (i >= cycles / 10) course.measure();  // by then the share of the names is full
  }
  prof.stop();
  CAPTURE(course.figures());
  CHECK(course.is_flat());
  CHECK(kept == names);
  CHECK(lost == 0);
  CHECK(with_name + nameless == names);
  CHECK(with_name > 30000);  // a quarter of the budget is 2 MiB, a name of these takes 48 bytes
  CHECK(with_name < 45000);
  CHECK(stepprof::detail::the_pool.taken_blocks() <= 128);
}

// Catches: a result whose memory or time explodes with its number of names.
// FC-36: https://github.com/pytorch/pytorch/issues/56623
TEST_CASE("a million distinct names are a million rows", "[bounded]") {
  if (!test::can_measure_memory()) return test::skip("needs /proc/self/smaps_rollup");
  const test::heard heard;
  stepprof::profile prof;
  record(0, names);
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.losses().kept == names);
  CHECK(t.losses().overflow_names == 0);
  const stepprof::event_averages averages = prof.key_averages();
  CHECK(averages.rows.size() == names);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < names; i += 99999) {
    const stepprof::event_average* const row = averages.find(std::to_string(i));
    wrong += row == nullptr || row->calls != 1;
  }
  CHECK(wrong == 0);
  CHECK(test::contains(averages.table("self_cpu_time_total", 10), "Self CPU time total"));
}

}  // namespace names_test
