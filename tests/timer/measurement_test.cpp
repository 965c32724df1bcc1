#include <string>
#include <vector>

#include <support/catch.hpp>

#include <stepprof/timer/measurement.hpp>

namespace measurement_test {

using stepprof::measurement;

namespace {

measurement of(std::int64_t number, std::vector<double> times) {
  measurement m;
  m.number_per_run = number;
  m.raw_times_ns = std::move(times);
  return m;
}

}  // namespace

// Catches: quantiles of blocks instead of runs, of unsorted times, or without interpolation.
TEST_CASE("statistics are of single runs", "[measurement]") {
  const measurement m = of(10, {40, 10, 30, 20});
  CHECK(m.times_ns() == std::vector<double>{4, 1, 3, 2});
  CHECK(m.min_ns() == 1);
  CHECK(m.p25_ns() == 1.75);
  CHECK(m.median_ns() == 2.5);
  CHECK(m.p75_ns() == 3.25);
  CHECK(m.iqr_ns() == 1.5);
  CHECK(m.mean_ns() == 2.5);
  CHECK(of(4, {1, 1, 4}).median_ns() == 0.25);  // below one nanosecond
  CHECK(of(4, {1, 1, 4}).mean_ns() == 0.5);
}

// Catches: a division by zero, or an index into nothing.
TEST_CASE("a measurement without blocks says so", "[measurement]") {
  const measurement m = of(1, {});
  CHECK(m.median_ns() == 0);
  CHECK(m.mean_ns() == 0);
  CHECK(m.significant_figures() == 1);
  CHECK_FALSE(m.meets_confidence());
  CHECK(m.warnings().empty());
  CHECK(m.to_string() == "  0 measurements, 1 run per measurement, 1 thread");
}

// Catches: torch's 25 ns a run, with which nothing below 250 ns is ever known to two digits, however long it is
// measured.
TEST_CASE("what the clock cannot tell is shared by the runs of a block", "[measurement]") {
  // The middle half is 1000 1000 1010 1010 a run: standard deviation 5, standard error 2.5, times 1.645: 4.11.
  const auto of_eight = [](std::int64_t n) {
    const double low = 1000 * static_cast<double>(n), high = 1010 * static_cast<double>(n);
    return of(n, {low, high, low, high, low, high, low, high});
  };
  CHECK(of_eight(1).significant_figures() == 1);                         // 1005 / 25 = 40
  CHECK(of_eight(10).significant_figures() == 2);                        // 1005 / 4.11 = 244
  CHECK(of(1000, {3000, 3000, 3000, 3000}).significant_figures() == 2);  // 3 / 0.025 = 120
  CHECK(of(1000000, {3e6, 3e6, 3e6, 3e6}).significant_figures() == 4);   // no more than 4
}

// Catches: tails that are counted, so that one preempted block takes a digit away.
TEST_CASE("tails do not change how many digits are known", "[measurement]") {
  CHECK(of(1000, {1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 5e7}).significant_figures() == 4);
}

// Catches: thresholds that include their own value the wrong way round.
TEST_CASE("confidence is the range below a share of the median", "[measurement]") {
  const measurement m = of(1, {90, 100, 100, 100, 110});  // quartiles 100 and 100
  CHECK(m.meets_confidence(0.001));
  const measurement wide = of(1, {90, 95, 100, 105, 110});  // 95 and 105: exactly 0.1
  CHECK_FALSE(wide.meets_confidence(0.1));
  CHECK(wide.meets_confidence(0.11));
}

// Catches: a division by zero where the clock saw nothing, which torch raises.
TEST_CASE("a median of 0 is no division", "[measurement]") {
  const measurement m = of(1, {0, 0, 0, 0});
  CHECK_FALSE(m.meets_confidence(100));
  CHECK(m.significant_figures() == 1);
  CHECK(m.to_string() ==
        "  Median: 0.00 ns\n"
        "  IQR:    0.00 ns (0.00 to 0.00)\n"
        "  4 measurements, 1 run per measurement, 1 thread\n"
        "  WARNING: The median is 0: the clock cannot see so little.\n"
        "           Time more runs per measurement.");
}

// Catches: torch's text changed where it is right; its example from the description of Measurement.
TEST_CASE("a measurement is printed as torch does", "[measurement]") {
  measurement m = of(100, {401000, 573000, 573000, 626000});
  m.task.label = "Broadcasting add";
  m.task.sub_label = "4x8";
  m.task.description = "out of place";
  // Quartiles: 401 + 0.75 * 172 = 530.0, and 573 + 0.25 * 53 = 586.25.
  CHECK(m.to_string() ==
        "Broadcasting add: 4x8\n"
        "out of place\n"
        "  Median: 5.73 us\n"
        "  IQR:    0.56 us (5.30 to 5.86)\n"
        "  4 measurements, 100 runs per measurement, 1 thread");
}

// Catches: "1 measurement, 1000 runs , 1 thread", "1 runs", "Median" of a single time.
TEST_CASE("numbers and their nouns agree", "[measurement]") {
  measurement m = of(1000, {2500000});
  CHECK(m.to_string() == "  2.50 us\n  1 measurement, 1000 runs, 1 thread");
  m.task.num_threads = 2;
  m.number_per_run = 1;
  CHECK(m.to_string() == "  2.50 ms\n  1 measurement, 1 run, 2 threads");
  CHECK(of(1, {1.5e9, 1.5e9}).to_string() == "  Median: 1.50 s\n  2 measurements, 1 run per measurement, 1 thread");
}

// Catches: warnings at the wrong threshold, or both at once.
TEST_CASE("noise is named", "[measurement]") {
  const auto first = [](const measurement& m) { return m.warnings().at(0); };
  CHECK(of(1, {90, 95, 100, 104, 110}).warnings().empty());  // 9 %
  CHECK(first(of(1, {90, 95, 100, 105, 110})) ==
        "  WARNING: Interquartile range is 10.0% of the median measurement.\n"
        "           This could indicate system fluctuation.");
  CHECK(first(of(1, {80, 85, 100, 110, 120})) ==
        "  WARNING: Interquartile range is 25.0% of the median measurement.\n"
        "           This suggests significant environmental influence.");
  CHECK(of(1, {80, 85, 100, 110, 120}).warnings().size() == 1);
}

// Catches: the loop's own cost hidden in a time that is mostly that.
TEST_CASE("a run that is hardly more than the loop is named", "[measurement]") {
  measurement m = of(1000, {1000});
  m.empty_loop_ns = 0.09;
  CHECK(m.warnings().empty());
  m.empty_loop_ns = 0.25;
  CHECK(m.to_string() ==
        "  1.00 ns\n"
        "  1 measurement, 1000 runs, 1 thread\n"
        "  WARNING: An empty loop takes 25.0% of the median measurement.\n"
        "           It is part of the times above; let a run do more.");
}

// Catches: 0.00 s for what takes less than a nanosecond, and 1000.00 ns.
TEST_CASE("units go from picoseconds to seconds, after rounding", "[measurement]") {
  using stepprof::detail::run_time_text;
  CHECK(run_time_text(0) == "0.00 ns");
  CHECK(run_time_text(0.25) == "250.00 ps");
  CHECK(run_time_text(0.0004) == "0.40 ps");
  CHECK(run_time_text(0.99999) == "999.99 ps");
  CHECK(run_time_text(0.999996) == "1.00 ns");
  CHECK(run_time_text(999.99) == "999.99 ns");
  CHECK(run_time_text(999.996) == "1.00 us");
  CHECK(run_time_text(1000) == "1.00 us");
  CHECK(run_time_text(5.73e6) == "5.73 ms");
  CHECK(run_time_text(2.5e12) == "2500.00 s");
  CHECK(run_time_text(-1500) == "-1.50 us");
}

// Catches: control characters of a user's text that move the lines of the print.
TEST_CASE("titles are one line, statements may be several", "[measurement]") {
  stepprof::task_description task;
  CHECK(task.title().empty());
  task.sub_label = "row";
  CHECK(task.title() == "row");
  task.stmt = "f(x)";
  CHECK(task.title() == "f(x): row");
  task.label = "a\nb";
  CHECK(task.title() == "a\\nb: row");
  task.label = "";
  task.stmt = "x = 1\nf(x)\t";
  CHECK(task.title() == "stmt: (row)\n  x = 1\n  f(x)\\t");
}

// Catches: blocks of different sizes joined as if they were equal, replicates of others mixed in, order lost.
TEST_CASE("merge joins equal descriptions", "[measurement]") {
  measurement a = of(10, {100, 200}), b = of(10, {300}), c = of(10, {50}), d = of(100, {1000});
  c.task.env = "other";
  a.empty_loop_ns = 1;
  b.empty_loop_ns = 2;
  const std::vector<measurement> same = stepprof::merge({a, c, b});
  REQUIRE(same.size() == 2);
  CHECK(same[0].number_per_run == 10);
  CHECK(same[0].raw_times_ns == std::vector<double>{100, 200, 300});
  CHECK(same[0].empty_loop_ns == 2);
  CHECK(same[1].task.env == "other");
  const std::vector<measurement> mixed = stepprof::merge({a, d, b});
  REQUIRE(mixed.size() == 1);
  CHECK(mixed[0].number_per_run == 1);
  CHECK(mixed[0].raw_times_ns == std::vector<double>{10, 20, 10, 30});
}

}  // namespace measurement_test
