#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/timer_clock.hpp>

#include <stepprof/timer/compare_pair.hpp>
#include <stepprof/timer/timer.hpp>

namespace compare_pair_test {

using clock = test::timer_clock;
using stepprof::candidate;
using stepprof::pair_comparison;
using stepprof::pair_options;
using namespace std::chrono_literals;

namespace {

// Every run is slower than the one before, whatever it is: after a thousand runs, twice as slow.
struct drifting_machine {
  std::int64_t runs = 0;
  void run(std::int64_t ns) { clock::advance(ns * (1000 + runs++)); }
};

pair_options pairs(std::int64_t count, std::int64_t number = 1) {
  pair_options options;
  options.pairs = count;
  options.number = number;
  return options;
}

// The order in which blocks of A and B were run.
std::string order_of(const pair_options& options) {
  clock::reset(0);
  std::string order;
  const auto side = [&order](char letter) {
    return candidate{std::string(1, letter), [] { clock::advance(1); }, [&order, letter] { order += letter; }, [] {}};
  };
  stepprof::compare_pair<clock>(side('A'), side('B'), options);
  return order.substr(2);  // one block each to warm up
}

}  // namespace

// Catches: blocks of A first and of B after them, or always in the same order, with which drift is taken for a ratio.
TEST_CASE("a drifting machine leaves the ratio alone", "[compare_pair]") {
  clock::reset(0);
  drifting_machine machine;
  const auto a = [&machine] { machine.run(100); };
  const auto b = [&machine] { machine.run(102); };
  const pair_comparison paired = stepprof::compare_pair<clock>(a, b, pairs(200));
  CHECK(paired.ratio.value == Approx(1.02).epsilon(1e-12));
  CHECK(paired.ratio.low == Approx(1.02).epsilon(1e-12));
  CHECK(paired.ratio.high == Approx(1.02).epsilon(1e-12));
  CHECK(paired.a.raw_times_ns.size() == 200);
  CHECK(paired.b.raw_times_ns.size() == 200);

  machine = {};
  stepprof::blocked_autorange_options options;
  options.min_run_time = 40ms;  // a run is a block: 100 us and more
  stepprof::timer<decltype(a), clock> first(a);
  stepprof::timer<decltype(b), clock> second(b);
  const stepprof::measurement of_a = first.blocked_autorange(options), of_b = second.blocked_autorange(options);
  CHECK(of_a.number_per_run == 1);
  CHECK(of_b.median_ns() / of_a.median_ns() > 1.2);
}

// Catches: being the second of a pair booked as the work of B.
TEST_CASE("the place in a pair leaves the difference alone", "[compare_pair]") {
  clock::reset(0);
  int blocks = 0;
  const auto run = [&blocks](std::int64_t ns) { clock::advance(ns + (blocks++ % 2 == 0 ? 0 : 10)); };
  const pair_comparison result = stepprof::compare_pair<clock>([&run] { run(100); }, [&run] { run(102); }, pairs(100));
  CHECK(result.difference_ns.value == 2);
  CHECK(result.difference_ns.low == 2);
  CHECK(result.difference_ns.high == 2);
  CHECK(result.ratio.value == Approx(1.02).epsilon(1e-12));  // the quicker blocks alone: 10 of 100 is a disturbance
}

// Catches: a machine on which every third block is preempted, and a median that then is one of preempted rounds.
TEST_CASE("preempted blocks do not count", "[compare_pair]") {
  clock::reset(0);
  const auto with_preemptions = [](std::int64_t ns, int& blocks) {
    clock::advance(ns + (++blocks % 3 == 0 ? 4000000 : 0));
  };
  int of_a = 0, of_b = 1;
  const pair_comparison result = stepprof::compare_pair<clock>([&] { with_preemptions(1000000, of_a); },
                                                               [&] { with_preemptions(1020000, of_b); }, pairs(100));
  CHECK(result.ratio.value == Approx(1.02).epsilon(1e-12));
  CHECK(result.ratio.low == Approx(1.02).epsilon(1e-12));
  CHECK(result.ratio.high == Approx(1.02).epsilon(1e-12));
}

// Catches: a clock whose own cost is a large part of a block.
TEST_CASE("blocks are a thousand readings of the clock long", "[compare_pair]") {
  clock::reset(40);
  pair_options options;
  options.min_run_time = 1ms;
  const auto run = [] { clock::advance(100); };
  // 40 us are wanted; 1000 runs take 100.04.
  CHECK(stepprof::compare_pair<clock>(run, run, options).a.number_per_run == 400);
}

// Catches: an order that a periodic disturbance could follow, that changes from run to run, or that is not in rounds.
TEST_CASE("rounds are A B B A or B A A B", "[compare_pair]") {
  const std::string order = order_of(pairs(64));
  REQUIRE(order.size() == 128);
  int a_first = 0;
  for (std::size_t i = 0; i < order.size(); i += 4) {
    const std::string round = order.substr(i, 4);
    CHECK((round == "ABBA" || round == "BAAB"));
    a_first += round == "ABBA" ? 1 : 0;
  }
  CHECK(a_first > 8);
  CHECK(a_first < 24);
  CHECK(order_of(pairs(64)) == order);
  pair_options other = pairs(64);
  other.seed = 2;
  CHECK(order_of(other) != order);
}

// Catches: hooks that are timed, left out in the search for a block's size, or called once per run.
TEST_CASE("what is around a block is not timed", "[compare_pair]") {
  clock::reset(0);
  bool is_prepared = false, was_prepared = true;
  int befores = 0, afters = 0;
  const auto prepare = [&] {
    is_prepared = true;
    ++befores;
    clock::advance(1000000);
  };
  const auto clean = [&] {
    is_prepared = false;
    ++afters;
    clock::advance(1000000);
  };
  const candidate b{"b",
                    [&] {
                      was_prepared = was_prepared && is_prepared;
                      clock::advance(200);
                    },
                    prepare, clean};
  pair_options options;
  options.min_run_time = 1ms;
  const pair_comparison result = stepprof::compare_pair<clock>([] { clock::advance(100); }, b, options);
  CHECK(was_prepared);
  CHECK(result.a.number_per_run == 3);  // of the quicker one; 1 ms / 4000 is 250 ns
  CHECK(result.ratio.value == 2);
  CHECK(result.difference_ns.value == 100);
  // A pair takes 900 ns, a round 1.8 us; the 556th ends after 1 ms.
  CHECK(result.b.raw_times_ns.size() == 1112);
  CHECK(befores == 1116);  // and a block of 1 run and three of 10 to find the size
  CHECK(afters == 1116);
  CHECK(stepprof::compare_pair<clock>(
            b, [] { clock::advance(100); }, options)
            .b.number_per_run == 3);
}

// Catches: fewer pairs than an interval needs, because the time was over.
TEST_CASE("there are as many pairs as the interval needs", "[compare_pair]") {
  clock::reset(0);
  pair_options options;
  options.min_run_time = 0ns;
  const auto slow = [] { clock::advance(1000000000); };
  CHECK(stepprof::compare_pair<clock>(slow, slow, options).a.raw_times_ns.size() == 12);
  options.confidence = 0.99;
  CHECK(stepprof::compare_pair<clock>(slow, slow, options).a.raw_times_ns.size() == 16);
  CHECK(stepprof::compare_pair<clock>(slow, slow, pairs(13)).a.raw_times_ns.size() == 14);
}

// Catches: ranks that are off by one: an interval that promises more than it holds. From tables of the sign test.
TEST_CASE("the interval of a median is that of the sign test", "[compare_pair]") {
  using stepprof::detail::interval_rank;
  CHECK(interval_rank(5, 0.95) == 0);   // 2 / 32 is 6.3 %
  CHECK(interval_rank(6, 0.95) == 1);   // 2 / 64 is 3.1 %
  CHECK(interval_rank(8, 0.95) == 1);   // 2 * 9 / 256 is 7.0 %
  CHECK(interval_rank(9, 0.95) == 2);   // 2 * 10 / 512 is 3.9 %
  CHECK(interval_rank(10, 0.95) == 2);  // 2 * 11 / 1024 is 2.1 %
  CHECK(interval_rank(20, 0.95) == 6);
  CHECK(interval_rank(25, 0.95) == 8);
  CHECK(interval_rank(100, 0.95) == 40);
  CHECK(interval_rank(7, 0.99) == 0);
  CHECK(interval_rank(8, 0.99) == 1);
  CHECK(interval_rank(1, 0.5) == 0);
  CHECK(interval_rank(2, 0.5) == 1);  // exactly one half lies outside
  // (100000 - 1.96 * sqrt(100000)) / 2: the normal approximation.
  CHECK(interval_rank(100000, 0.95) == Approx(49690).margin(1));
  const stepprof::estimate e = stepprof::detail::median_with_interval({9, 1, 8, 2, 7, 3, 6, 4, 5, 10}, 0.95);
  CHECK(e.value == 5.5);
  CHECK(e.low == 2);
  CHECK(e.high == 9);
}

// Catches: another text, or digits that the interval does not have.
TEST_CASE("a comparison is printed", "[compare_pair]") {
  pair_comparison result;
  result.a.number_per_run = result.b.number_per_run = 100;
  result.a.raw_times_ns = {1240000, 1248000, 1256000, 1248000};
  result.b.raw_times_ns = {1270000, 1272960, 1280000, 1272960};
  result.a.task.label = "train step";
  result.a.task.sub_label = "out";
  result.b.task.sub_label = "inside";
  result.ratio = {1.02, 1.01, 1.03};
  result.difference_ns = {249.6, 124.8, 374.4};
  CHECK(result.to_string() ==
        "train step\n"
        "  A: out     12.48 us (least 12.40 us)\n"
        "  B: inside  12.73 us (least 12.70 us)\n"
        "  B / A: 1.02 x (95 %: 1.01 to 1.03), 4 pairs of 100 runs\n"
        "  B - A: 249.60 ns a run (95 %: 124.80 ns to 374.40 ns)");
  CHECK(result.differs());

  result.a.task = result.b.task = {};
  result.a.task.num_threads = 2;
  result.a.number_per_run = result.b.number_per_run = 1;
  result.ratio = {1.0004, 0.9991, 1.0017};
  result.confidence = 0.999;
  CHECK(result.to_string() ==
        "  A  1.25 ms (least 1.24 ms)\n"
        "  B  1.27 ms (least 1.27 ms)\n"
        "  B / A: 1.000 x (99.9 %: 0.999 to 1.002), 4 pairs of 1 run, 2 threads\n"
        "  B - A: 249.60 ns a run (99.9 %: 124.80 ns to 374.40 ns)\n"
        "  No difference shown: 1 lies in the interval of the ratio.");
  CHECK_FALSE(result.differs());
}

// Catches: nonsense measured, a division by zero, or a refusal without a remedy.
TEST_CASE("what cannot be compared is refused", "[compare_pair]") {
  clock::reset(0);
  const auto nothing = [] {};
  const auto refused = [&nothing](const pair_options& options) {
    std::error_code ec;
    const pair_comparison result = stepprof::compare_pair<clock>(nothing, nothing, options, ec);
    CHECK(ec == stepprof::errc::invalid_argument);
    CHECK(result.a.raw_times_ns.empty());
    CHECK(result.b.raw_times_ns.empty());
    return ec.message();
  };
  pair_options options;
  options.confidence = 1;
  CHECK(refused(options) == "confidence is 1, must be above 0 and at most 0.999999");
  options = {};
  options.min_run_time = -1ns;
  CHECK(refused(options) == "min_run_time is -1 ns, must be at least 0");
  options = {};
  options.num_threads = 0;
  CHECK(refused(options) == "num_threads is 0, must be from 1 to 1024");
  CHECK(refused(pairs(12, -1)) == "number is -1, must be from 0 to 2147483647");
  CHECK(refused(pairs(10)) == "pairs is 10, must be at least 12 for a confidence of 0.95, or 0 for automatic");
  CHECK(refused(pairs(12)) ==
        "number is 1: the clock saw nothing of a block of A; time more runs per block, or 0 for automatic");
  CHECK_THROWS_AS(stepprof::compare_pair<clock>(nothing, nothing, pairs(12)), stepprof::error);
}

}  // namespace compare_pair_test
