// A clock for timers that tests set by hand: it stands still unless what is timed moves it.
#pragma once

#include <atomic>
#include <cstdint>

#include <stepprof/core/clock.hpp>

namespace test {

struct timer_clock {
  static constexpr bool counts_ns = true;
  static constexpr const char* name = "by hand";
  static stepprof::stamp begin() noexcept { return stepprof::stamp_of(now().fetch_add(cost()) + cost()); }
  static stepprof::stamp end() noexcept { return begin(); }
  static bool usable() noexcept { return true; }

  static void advance(std::int64_t ns) noexcept { now().fetch_add(static_cast<std::uint64_t>(ns)); }
  /// Back to the beginning; a reading moves it by this much.
  static void reset(std::uint64_t ns_per_reading = 0) noexcept {
    now().store(1000000);
    cost() = ns_per_reading;
  }

 private:
  static std::atomic<std::uint64_t>& now() noexcept {
    static std::atomic<std::uint64_t> value{1000000};
    return value;
  }
  static std::uint64_t& cost() noexcept {
    static std::uint64_t value = 0;
    return value;
  }
};

}  // namespace test
