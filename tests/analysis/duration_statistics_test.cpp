#include <cmath>
#include <cstdint>
#include <vector>

#include <stepprof/analysis/key_averages.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

namespace duration_statistics_test {
using namespace stepprof;

namespace {

duration_statistics of(std::vector<std::int64_t> durations_ns) {
  return detail::statistics_of(durations_ns.data(), durations_ns.size());
}
key_averages_options with_statistics() {
  key_averages_options options;
  options.statistics = true;
  return options;
}

}  // namespace

// Catches: ranks off by one, interpolated percentiles, unsorted input, a division by n instead of n - 1.
TEST_CASE("spread of durations", "[duration_statistics]") {
  // 1..100 in another order: the p-th percentile by nearest rank is p.
  std::vector<std::int64_t> hundred;
  for (std::int64_t i = 0; i < 100; ++i) hundred.push_back(i * 37 % 100 + 1);
  const duration_statistics s = of(hundred);
  CHECK(s.count == 100);
  CHECK(s.min_ns == 1);
  CHECK(s.p50_ns == 50);
  CHECK(s.p95_ns == 95);
  CHECK(s.p99_ns == 99);
  CHECK(s.max_ns == 100);
  CHECK(s.mean_ns == 50.5);
  // Σ (i - 50.5)² = n (n² - 1) / 12 = 83325; divided by 99.
  CHECK(s.stddev_ns == Approx(std::sqrt(83325.0 / 99)).epsilon(1e-14));

  const duration_statistics three = of({30, 10, 20});
  CHECK(three.p50_ns == 20);
  CHECK(three.p95_ns == 30);
  CHECK(three.stddev_ns == 10);      // (100 + 0 + 100) / 2
  CHECK(of({10, 20}).p50_ns == 10);  // the least that half of them do not exceed
  std::vector<std::int64_t> many(1000001, 7);
  many.front() = 9;
  CHECK(of(many).p99_ns == 7);
  CHECK(of(many).max_ns == 9);
}

// Catches: a division by zero, a deviation of NaN or of rounding errors.
TEST_CASE("spread of few or equal durations", "[duration_statistics]") {
  CHECK(of({}).count == 0);
  CHECK(of({}).stddev_ns == 0);
  const duration_statistics one = of({5});
  CHECK(one.p50_ns == 5);
  CHECK(one.p99_ns == 5);
  CHECK(one.stddev_ns == 0);
  const std::int64_t huge = INT64_MAX - 1;
  const duration_statistics equal = of({huge, huge, huge});
  CHECK(equal.stddev_ns == 0);
  CHECK(equal.p95_ns == huge);
  // Far from zero, yet exact: 1 ns of spread around 2^62.
  CHECK(of({std::int64_t{1} << 62, (std::int64_t{1} << 62) + 2}).stddev_ns == Approx(std::sqrt(2.0)).epsilon(1e-14));
}

// Catches: durations of one row counted in another, recursive or asynchronous calls left out, statistics nobody asked
// for.
TEST_CASE("every row has the spread of its own events", "[duration_statistics]") {
  const trace recorded =
      test::events("t1: f[0..100]{ g[10..20] f[20..50] } g[100..130]; t2: f[0..7]; async3: h[5..65] h[6..8]");
  const event_averages rows = key_averages(recorded, with_statistics());
  CHECK(rows.has_statistics);
  const duration_statistics f = rows.at("f").durations.value();
  CHECK(f.count == 3);
  CHECK(f.min_ns == 7);
  CHECK(f.p50_ns == 30);
  CHECK(f.max_ns == 100);
  const duration_statistics g = rows.at("g").durations.value();
  CHECK(g.count == 2);
  CHECK(g.p50_ns == 10);
  CHECK(g.p99_ns == 30);
  CHECK(g.mean_ns == 20);
  CHECK(rows.at("h").durations.value().max_ns == 60);
  CHECK(rows.at("h").durations.value().min_ns == 2);
  CHECK_FALSE(key_averages(recorded).has_statistics);
  CHECK_FALSE(key_averages(recorded).at("f").durations);
}

// Catches: groupings that put the durations into other rows than the calls.
TEST_CASE("the spread follows the grouping", "[duration_statistics]") {
  key_averages_options options = with_statistics();
  options.group_by_stack_n = 1;
  const event_averages rows =
      key_averages(test::events("t1: a[0..100]{ g[10..20] } b[100..200]{ g[110..150] }"), options);
  std::vector<std::int64_t> medians;
  for (const event_average& row : rows.rows)
    if (row.name == "g") medians.push_back(row.durations.value().p50_ns);
  CHECK(medians == std::vector<std::int64_t>{10, 40});
}

// Catches: the step that stop() cut among the durations of steps; memory outside scopes taken for calls.
TEST_CASE("cut steps and memory have no duration", "[duration_statistics]") {
  test::event_builder b("t1: ProfilerStep#0![0..100] ProfilerStep#1![100..300] ProfilerStep#2![300..301] f[302..304]");
  for (std::uint32_t i = 0; i < 3; ++i) b.builder.event(i).flags = trace_event::step;
  b.builder.event(2).flags = trace_event::step | trace_event::unfinished;
  b.builder.event(3).flags = trace_event::unfinished;
  memory_event m;
  m.bytes = 8;
  m.time_ns = 303;
  b.builder.add_memory(m);
  b.builder.info().has_memory = true;
  const event_averages rows = key_averages(b.builder.finish(), with_statistics());
  CHECK(rows.at("ProfilerStep*").durations.value().count == 2);
  CHECK(rows.at("ProfilerStep*").durations.value().min_ns == 100);
  CHECK(rows.at("f").durations.value().count == 1);  // other scopes count, as in their averages
  CHECK_FALSE(rows.at("[memory]").durations);
}

// Catches: percentiles added up when rows are joined.
TEST_CASE("joined rows have no spread", "[duration_statistics]") {
  const event_averages rows = key_averages(test::events("t1: f[0..100] g[100..110]"), with_statistics());
  std::vector<event_average> twice = rows.rows;
  twice.push_back(rows.at("f"));
  const std::vector<event_average> joined = merge_rows(twice);
  CHECK_FALSE(joined.at(0).durations);
  CHECK(joined.at(1).durations.value().p50_ns == 10);
  CHECK_FALSE(rows.total_average().durations);
}

}  // namespace duration_statistics_test
