// A clock that tests set by hand. A test file includes this first: its whole program then records on this clock.
#pragma once

#include <atomic>
#include <cstdint>

namespace test {
struct fake_clock;
}
#define STEPPROF_CLOCK ::test::fake_clock
#include <stepprof/core/clock.hpp>

namespace test {

// Ticks are nanoseconds. Stands still unless told otherwise; `ticks_per_reading` makes every reading later than the
// last.
struct fake_clock {
  static constexpr bool counts_ns = true;
  static constexpr const char* name = "fake";
  static stepprof::stamp begin() noexcept {
    if (void (*const look)() = at_reading().load(std::memory_order_relaxed)) look();
    const std::uint64_t ticks = now().fetch_add(step().load(std::memory_order_relaxed), std::memory_order_relaxed);
    if (void (*const look)() = after_reading().load(std::memory_order_relaxed)) look();
    return stepprof::stamp_of(ticks);
  }
  static stepprof::stamp end() noexcept { return begin(); }
  static bool usable() noexcept { return true; }

  static void set(std::uint64_t ns) noexcept { now().store(ns); }
  static std::uint64_t stands_at() noexcept { return now().load(); }
  static void advance(std::int64_t ns) noexcept { now().fetch_add(static_cast<std::uint64_t>(ns)); }
  static void ticks_per_reading(std::uint64_t ns) noexcept { step().store(ns); }
  /// Called before every reading; nullptr: nothing. It must not record.
  static void call_at_reading(void (*look)()) noexcept { at_reading().store(look); }
  /// The same after every reading, whose value is taken.
  static void call_after_reading(void (*look)()) noexcept { after_reading().store(look); }

 private:
  static std::atomic<void (*)()>& after_reading() noexcept {
    static std::atomic<void (*)()> value{nullptr};
    return value;
  }
  static std::atomic<void (*)()>& at_reading() noexcept {
    static std::atomic<void (*)()> value{nullptr};
    return value;
  }
  // Not at 0: the origin of the traces is where the clock stands when the first profile starts.
  static std::atomic<std::uint64_t>& now() noexcept {
    static std::atomic<std::uint64_t> value{1000000};
    return value;
  }
  static std::atomic<std::uint64_t>& step() noexcept {
    static std::atomic<std::uint64_t> value{0};
    return value;
  }
};

}  // namespace test
