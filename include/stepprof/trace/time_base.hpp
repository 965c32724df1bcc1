// From ticks to nanoseconds: anchors, the measured rate, one origin for all traces of a process.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>

#include <stepprof/core/cold_paths.hpp>
#include <stepprof/trace/saturating.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// The same moment on three clocks.
struct clock_anchor {
  std::uint64_t ticks = 0;
  std::int64_t steady_ns = 0;
  std::int64_t wall_ns = 0;
  std::int64_t error_ns = 0;  // how far apart the readings of the last two may be
};

// How far the system's clock went ahead of the steady one between two moments.
[[nodiscard]] constexpr std::int64_t wall_shift_ns(const clock_anchor& from, const clock_anchor& to) noexcept {
  return saturating_sub(saturating_sub(to.wall_ns, from.wall_ns), saturating_sub(to.steady_ns, from.steady_ns));
}
// Whether that is more than a correction of its rate, which adjtimex(2) and ntp_adjtime(2) limit to 500 millionths, and
// a millisecond for readings that were interrupted.
[[nodiscard]] constexpr bool wall_was_set(std::int64_t shift_ns, std::int64_t elapsed_ns) noexcept {
  const std::int64_t most = elapsed_ns / 2000 + 1000000;
  return shift_ns > most || shift_ns < -most;
}

// Best of five bracketed readings: a preemption between the clocks spoils at most four of them.
inline clock_anchor take_anchor() noexcept {
  clock_anchor best;
  std::uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = ticks_of(read_clock());
    const std::int64_t steady = steady_ns();
    const std::int64_t wall = wall_ns();
    const std::int64_t steady_after = steady_ns();
    const std::uint64_t after = ticks_of(read_clock());
    if (after - before >= best_width) continue;
    best_width = after - before;
    best = {before + best_width / 2, steady, wall, steady_after - steady};
  }
  return best;
}

// A monotone map from ticks to ns since the origin: a multiplication in fixed point. The factor keeps all 53 bits of
// the rate, so that after days the clocks still meet to the nanosecond; the product then needs 128 bits, put together
// here because not every compiler has such an integer.
class tick_converter {
 public:
  tick_converter() = default;
  // `origin` ticks are `origin_ns`; so is everything before.
  tick_converter(std::uint64_t origin, double ns_per_tick, std::int64_t origin_ns = 0) noexcept
      : line_(origin, ns_per_tick, origin_ns) {
    before_.origin_ns = origin_ns;
    before_.origin = UINT64_MAX;
  }
  // From `origin` on with another rate; before as `before` says.
  tick_converter(const tick_converter& before, std::uint64_t origin, double ns_per_tick) noexcept
      : line_(origin, ns_per_tick, before(origin)), before_(before.line_) {}

  [[nodiscard]] std::int64_t operator()(std::uint64_t ticks) const noexcept {
    return ticks > line_.origin ? line_(ticks) : before_(ticks);
  }
  [[nodiscard]] double ns_per_tick() const noexcept {
    return std::ldexp(static_cast<double>(line_.factor), -static_cast<int>(line_.shift));
  }

 private:
  static constexpr double two_to_52 = 4503599627370496.0;
  static constexpr double two_to_63 = 9223372036854775808.0;
  static constexpr std::uint64_t low_half = 0xffffffffu;
  // 146 years, twice of which fit into 63 bits. Whatever a log says, times neither wrap nor last longer than a trace
  // allows.
  static constexpr std::int64_t max_ns = 4600000000000000000;

  // One rate.
  struct line {
    std::uint64_t origin = 0;
    std::int64_t origin_ns = 0;
    std::uint64_t factor = std::uint64_t{1} << 52;  // a tick is a nanosecond
    std::uint64_t max_ticks = std::uint64_t{max_ns};
    unsigned shift = 52;

    line() = default;
    line(std::uint64_t from, double ns_per_tick, std::int64_t from_ns) noexcept
        : origin(from), origin_ns(from_ns), shift(0) {
      double scaled = ns_per_tick;
      for (; scaled < two_to_52 && shift < 63; ++shift) scaled *= 2;
      factor = static_cast<std::uint64_t>(scaled);
      const double most = static_cast<double>(max_ns) / ns_per_tick;
      max_ticks = most < two_to_63 ? static_cast<std::uint64_t>(most) : std::uint64_t{1} << 63;
    }
    [[nodiscard]] std::int64_t operator()(std::uint64_t ticks) const noexcept {
      if (ticks <= origin) return origin_ns;
      const std::uint64_t d = (std::min)(ticks - origin, max_ticks);
      const std::uint64_t d_high = d >> 32, d_low = d & low_half, f_high = factor >> 32, f_low = factor & low_half;
      const std::uint64_t bottom = d_low * f_low;
      const std::uint64_t middle = d_high * f_low + (bottom >> 32);  // none of these sums passes 64 bits
      const std::uint64_t middle_low = d_low * f_high + (middle & low_half);
      const std::uint64_t high = d_high * f_high + (middle >> 32) + (middle_low >> 32);
      const std::uint64_t low = (middle_low << 32) | (bottom & low_half);
      return origin_ns + static_cast<std::int64_t>(shift == 0 ? low : (high << (64 - shift)) | (low >> shift));
    }
  };

  line line_;
  line before_;
};

// The process's clocks: the oldest anchor is taken when the first profile starts.
class time_base {
 public:
  void begin() noexcept {
    if (begun_) return;
    begun_ = true;
    the_cold.slow_clock.store(!product_clock::usable(), std::memory_order_relaxed);
    oldest_ = take_anchor();
  }
  [[nodiscard]] static bool counts_ns() noexcept {
    return product_clock::counts_ns || the_cold.slow_clock.load(std::memory_order_relaxed);
  }
  [[nodiscard]] static const char* clock_name() noexcept {
    return the_cold.slow_clock.load(std::memory_order_relaxed) ? monotonic_clock::name : product_clock::name;
  }
  [[nodiscard]] const clock_anchor& oldest() const noexcept { return oldest_; }

  // The end of what converter() looks at. Anchors closer than 10 ms would not give the rate to a few millionths, so the
  // first trace of a process may wait for that long, once.
  [[nodiscard]] clock_anchor newest() const {
    clock_anchor newest = take_anchor();
    while (!counts_ns() && newest.steady_ns - oldest_.steady_ns < 10000000) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      newest = take_anchor();
    }
    return newest;
  }
  // Converts all times since the last cut, with the rate since the oldest anchor.
  [[nodiscard]] tick_converter converter(const clock_anchor& newest) const {
    if (counts_ns()) return {oldest_.ticks, 1.0};
    const double rate =
        static_cast<double>(newest.steady_ns - oldest_.steady_ns) / static_cast<double>(newest.ticks - oldest_.ticks);
    if (cut_ticks_ == 0) return {oldest_.ticks, rate};
    return {before_cut_, cut_ticks_, rate};
  }
  // What is in a window ends here. The next one's rate is another, but its times go on from this one, so that what a
  // thread did in two windows does not overlap. Times of the next one that lie before, because its threads recorded
  // while the cut was noted, are converted as this one's.
  void note_cut(std::uint64_t ticks, const tick_converter& convert) noexcept {
    if (counts_ns() || ticks <= cut_ticks_) return;
    before_cut_ = convert;
    cut_ticks_ = ticks;
  }

 private:
  bool begun_ = false;
  clock_anchor oldest_;
  std::uint64_t cut_ticks_ = 0;
  tick_converter before_cut_;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
