#include <support/catch.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include <stepprof/trace/time_base.hpp>

namespace time_base_test {

using stepprof::detail::tick_converter;

namespace {

constexpr std::int64_t second = 1000000000;
constexpr std::int64_t day = 86400 * second;

// What the conversion is, with 64 bits of mantissa where the platform has them.
std::int64_t exact(std::uint64_t ticks, double ns_per_tick) {
  return static_cast<std::int64_t>(std::floor(static_cast<long double>(ticks) * static_cast<long double>(ns_per_tick)));
}

}  // namespace

// Catches: a product that overflows or loses its low bits, so that after days the trace's clock is off by microseconds.
TEST_CASE("any rate is kept to the nanosecond, over days", "[time_base]") {
  std::mt19937_64 random(1);
  // 1 MHz to 10 GHz. No bound on the spread of the logarithm is special.
  std::uniform_real_distribution<double> exponent(-1.0, 3.0);
  for (int round = 0; round < 2000; ++round) {
    const double ns_per_tick = std::pow(10.0, exponent(random));
    const std::uint64_t origin = random() >> 2;
    const tick_converter convert(origin, ns_per_tick);
    CAPTURE(ns_per_tick, origin);
    for (int i = 0; i < 20; ++i) {
      // Up to 30 days, with as many short times as long ones.
      const double most = 30.0 * static_cast<double>(day) / ns_per_tick;
      const auto ticks = static_cast<std::uint64_t>(most) >> (random() % 50);
      CAPTURE(ticks);
      REQUIRE(std::abs(convert(origin + ticks) - exact(ticks, ns_per_tick)) <= 1);
    }
  }
}

// Catches: an end that comes before its begin after the conversion.
TEST_CASE("the conversion never goes back", "[time_base]") {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(-1.0, 3.0);
  for (int round = 0; round < 500; ++round) {
    const double ns_per_tick = std::pow(10.0, exponent(random));
    const std::uint64_t origin = random() >> 2;
    const tick_converter convert(origin, ns_per_tick);
    // Neighbours, at places where a half of the product is full, and anywhere.
    std::uint64_t at = origin + ((random() % 1000000) << 32) - 50;
    std::int64_t before = convert(at);
    for (int i = 0; i < 100; ++i) {
      at += i % 10 == 9 ? random() % 100000 : 1;
      const std::int64_t now = convert(at);
      REQUIRE(now >= before);
      REQUIRE(now - before <= static_cast<std::int64_t>(100000 * ns_per_tick) + 1);
      before = now;
    }
  }
}

// Catches: times before the change of a rate that are moved to it, or converted with the new rate.
TEST_CASE("a change of the rate changes no time before it", "[time_base]") {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> exponent(-1.0, 3.0);
  for (int round = 0; round < 500; ++round) {
    const double ns_per_tick = std::pow(10.0, exponent(random));
    const std::uint64_t origin = random() >> 2, change = origin + random() % 1000000000;
    const tick_converter old_rate(origin, ns_per_tick, 77);
    const tick_converter new_rate(old_rate, change, ns_per_tick * 1.5);
    const tick_converter newest(new_rate, change + 1000, ns_per_tick);
    CHECK(old_rate(origin) == 77);
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t before = origin + random() % (change - origin + 1), after = random() % 1000000;
      CAPTURE(origin, change, before, after);
      REQUIRE(new_rate(before) == old_rate(before));
      REQUIRE(std::abs(new_rate(change + after) - old_rate(change) - exact(after, ns_per_tick * 1.5)) <= 1);
      REQUIRE(newest(change + after % 1000) == new_rate(change + after % 1000));
    }
    CHECK(new_rate(0) == 77);
    CHECK(newest(origin) == new_rate(change));  // two changes back are the past
  }
}

// Catches: a correction of the clock's rate, or a reading that was interrupted, taken for a clock that was set; sums
// that overflow.
TEST_CASE("a clock that is set is told from one whose rate is corrected", "[time_base]") {
  using stepprof::detail::clock_anchor;
  using stepprof::detail::wall_shift_ns;
  using stepprof::detail::wall_was_set;
  const clock_anchor from{0, 5, 1790857026000000000, 0};
  CHECK(wall_shift_ns(from, {0, 5 + second, from.wall_ns + second, 0}) == 0);
  CHECK(wall_shift_ns(from, {0, 5 + second, from.wall_ns + 3600 * second, 0}) == 3599 * second);
  CHECK(wall_shift_ns(from, {0, 5 + second, from.wall_ns - 3600 * second, 0}) == -3601 * second);
  CHECK(wall_shift_ns({0, INT64_MAX, INT64_MIN, 0}, {0, INT64_MIN, INT64_MAX, 0}) == INT64_MAX);
  for (const std::int64_t sign : {1, -1}) {
    CHECK_FALSE(wall_was_set(sign * 1000000, 0));
    CHECK(wall_was_set(sign * 1000001, 0));
    CHECK_FALSE(wall_was_set(sign * (1800000000 + 1000000), 3600 * second));
    CHECK(wall_was_set(sign * (1800000000 + 1000001), 3600 * second));
  }
  const clock_anchor now = stepprof::detail::take_anchor();
  CHECK(now.error_ns >= 0);
  CHECK(now.error_ns < second);
}

// Catches: a rate that is rounded on its way, so that the two clocks drift apart between the anchors that gave it.
TEST_CASE("at both anchors the clocks agree", "[time_base]") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t first = random() >> 2;
    // From 10 ms, the shortest distance used, to ten days; 1 MHz to 10 GHz.
    const auto ns = static_cast<std::int64_t>(10000000 + random() % static_cast<std::uint64_t>(10 * day));
    const std::uint64_t ticks = static_cast<std::uint64_t>(ns) / 1000 * (1 + random() % 10000);
    const tick_converter convert(first, static_cast<double>(ns) / static_cast<double>(ticks));
    CAPTURE(first, ns, ticks);
    REQUIRE(convert(first) == 0);
    REQUIRE(std::abs(convert(first + ticks) - ns) <= 1);
  }
}

// Catches: nanoseconds that are rounded though the clock counts them, and times before the origin that wrap.
TEST_CASE("a clock that counts nanoseconds is taken as it is", "[time_base]") {
  const std::uint64_t since_1970 = 1700000000000000000u;
  for (const std::uint64_t origin : {std::uint64_t{0}, std::uint64_t{12345}, since_1970}) {
    const tick_converter convert(origin, 1.0);
    for (const std::uint64_t ns :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4294967295}, std::uint64_t{4294967296},
          std::uint64_t{86400000000001}, std::uint64_t{4500000000000000001}})
      CHECK(convert(origin + ns) == static_cast<std::int64_t>(ns));
    if (origin != 0) CHECK(convert(origin - 1) == 0);
  }
  CHECK(tick_converter()(86400000000001) == 86400000000001);
  CHECK(tick_converter(5, 1.0)(0) == 0);
}

// Catches: the rate of a coarse counter that does not fit the fixed point.
TEST_CASE("slow counters and exact rates come out exactly", "[time_base]") {
  CHECK(tick_converter(0, 40.0)(25000000) == second);                // 25 MHz
  CHECK(tick_converter(0, 1000000.0)(86400000) == day);              // 1 kHz
  CHECK(tick_converter(0, 1000000000.0)(86400) == day);              // 1 Hz
  CHECK(tick_converter(0, 0.5)(std::uint64_t{2} * day + 1) == day);  // 2 GHz, rounded down
  CHECK(tick_converter(0, 0.25)(std::uint64_t{400} * day) == 100 * day);
}

// Catches: times of a log with any numbers that wrap, so that a scope ends before it begins or lasts for 292 years.
TEST_CASE("whatever a clock says, times neither wrap nor go back", "[time_base]") {
  for (const double ns_per_tick : {1e-6, 0.37, 0.5, 1.0, 40.0, 1e9})
    for (const std::int64_t origin_ns : {std::int64_t{0}, std::int64_t{4600000000000000000}}) {
      const tick_converter convert(1000, ns_per_tick, origin_ns);
      std::int64_t last = convert(0);
      CHECK(last == origin_ns);
      for (int bit = 0; bit < 64; ++bit)
        for (const std::uint64_t less : {1u, 0u}) {
          const std::int64_t ns = convert((std::uint64_t{1} << bit) - less);
          REQUIRE(ns >= last);
          last = ns;
        }
      REQUIRE(convert(~std::uint64_t{0}) >= last);
    }
  CHECK(tick_converter(0, 1.0)(4000000000000000000) == 4000000000000000000);  // 126 years
}

}  // namespace time_base_test
