// How long a callable takes: once, or for as long as it takes to say so with confidence.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/core/clock.hpp>
#include <stepprof/timer/do_not_optimize.hpp>
#include <stepprof/timer/measurement.hpp>
#include <stepprof/timer/timed_block.hpp>
#include <stepprof/trace/error.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Called with each block that was measured: its runs, and the time of all of them.
using block_callback = std::function<void(std::int64_t number, std::chrono::nanoseconds block)>;

struct blocked_autorange_options {
  /// Time that all blocks together are to take.
  std::chrono::nanoseconds min_run_time = std::chrono::milliseconds(200);
  block_callback on_block = {};
};

struct adaptive_autorange_options {
  /// The interquartile range as a share of the median below which the measurement is good enough.
  double threshold = 0.1;
  std::chrono::nanoseconds min_run_time = std::chrono::milliseconds(10);
  /// When to stop at the latest.
  std::chrono::nanoseconds max_run_time = std::chrono::seconds(10);
  block_callback on_block = {};
};

/// Times a callable without arguments, in blocks of many runs between two readings of the clock. What a run returns is
/// kept (do_not_optimize), so that it is computed.
///
/// The times are those of the clock: the cost of the loop and of reading the clock is **not** taken off, as that would
/// be a guess that can make short runs negative. It is measured beside them (`measurement::empty_loop_ns`), and a
/// measurement of which it is a tenth or more says so. The autoranges choose blocks in which the clock's part is at
/// most 0.01 %.
///
/// To compare two callables, use compare_pair(): two measurements one after the other also measure what changed on the
/// machine in between.
///
/// With `num_threads` above 1, that many threads run each block at once: a block begins when all are ready and ends
/// with the last of them. Times are then per run of *each* thread. What the callable throws on several threads comes
/// out as errc::callback_failed; on one thread it just passes through.
///
/// The forms with an `error_code` give a measurement without blocks on failure, the others throw stepprof::error. A
/// timer may be used by one thread at a time.
template <class Callable, class Clock = monotonic_clock>
class timer {
 public:
  explicit timer(Callable run, task_description task = {}) : run_(std::move(run)), task_(std::move(task)) {}

  /// One block of `number` runs (1 or more), after max(number / 100, 2) runs to warm up.
  measurement timeit(std::int64_t number, std::error_code& ec);
  measurement timeit(std::int64_t number = 1000000) {
    return throwing([&](std::error_code& ec) { return timeit(number, ec); });
  }

  /// Blocks of one size, which is searched first, until they have taken min_run_time together (or are a million).
  measurement blocked_autorange(const blocked_autorange_options& options, std::error_code& ec);
  measurement blocked_autorange(const blocked_autorange_options& options = {}) {
    return throwing([&](std::error_code& ec) { return blocked_autorange(options, ec); });
  }

  /// The same until, with 4 blocks or more, the times meet the threshold; and between min_run_time and max_run_time.
  measurement adaptive_autorange(const adaptive_autorange_options& options, std::error_code& ec);
  measurement adaptive_autorange(const adaptive_autorange_options& options = {}) {
    return throwing([&](std::error_code& ec) { return adaptive_autorange(options, ec); });
  }

 private:
  using block_timer = detail::block_timer<Clock>;

  template <class Measure>
  static measurement throwing(const Measure& measure) {
    std::error_code ec;
    measurement m = measure(ec);
    detail::throw_if(ec, "timer");
    return m;
  }

  std::int64_t search(block_timer& t, std::chrono::nanoseconds min_run_time) {
    return detail::block_size(detail::clock_overhead_ns(t), min_run_time,
                              [&](std::int64_t number) { return t.ns_of(run_, number); });
  }

  // Blocks of `number` runs until is_done(measurement, total ns).
  template <class IsDone>
  measurement blocks(block_timer& t, std::int64_t number, const block_callback& on_block, const IsDone& is_done,
                     std::error_code& ec);

  Callable run_;
  task_description task_;
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

inline constexpr std::size_t most_blocks = 1000000;  // a clock that stands still must not be waited for

// Looks at the quantiles after every block as long as that is cheap, then ever less often.
inline bool is_due(std::size_t blocks) {
  return blocks > 3 && blocks % (1 + blocks / 64) == 0;
}

inline std::error_code checked(const blocked_autorange_options& options) {
  if (options.min_run_time.count() >= 0) return {};
  return make_error(errc::invalid_argument,
                    fmt::format("min_run_time is {} ns, must be at least 0", options.min_run_time.count()));
}

inline std::error_code checked(const adaptive_autorange_options& options) {
  if (!(options.threshold > 0))
    return make_error(errc::invalid_argument, fmt::format("threshold is {}, must be above 0", options.threshold));
  if (options.max_run_time < options.min_run_time)
    return make_error(errc::invalid_argument,
                      fmt::format("max_run_time is {} ns, must be at least min_run_time, which is {} ns",
                                  options.max_run_time.count(), options.min_run_time.count()));
  return checked(blocked_autorange_options{options.min_run_time, {}});
}

}  // namespace detail

template <class Callable, class Clock>
template <class IsDone>
measurement timer<Callable, Clock>::blocks(block_timer& t, std::int64_t number, const block_callback& on_block,
                                           const IsDone& is_done, std::error_code& ec) {
  measurement m;
  m.number_per_run = number;
  m.task = task_;
  m.empty_loop_ns = detail::empty_loop_ns(t, number);
  std::int64_t total_ns = 0;
  while (!t.failure() && m.raw_times_ns.size() < detail::most_blocks) {
    const std::int64_t ns = t.ns_of(run_, number);
    total_ns += ns;
    m.raw_times_ns.push_back(static_cast<double>(ns));
    if (on_block) on_block(number, std::chrono::nanoseconds(ns));
    if (is_done(m, std::chrono::nanoseconds(total_ns))) break;
  }
  ec = t.failure();
  if (ec) m.raw_times_ns.clear();
  return m;
}

template <class Callable, class Clock>
measurement timer<Callable, Clock>::timeit(std::int64_t number, std::error_code& ec) {
  ec = detail::checked_threads(task_.num_threads);
  if (!ec && number < 1)
    ec = detail::make_error(errc::invalid_argument, fmt::format("number is {}, must be at least 1", number));
  if (ec) return {1, {}, task_, 0};
  block_timer t(task_.num_threads);
  t.ns_of(run_, (std::max)(number / 100, std::int64_t{2}));
  return blocks(
      t, number, {}, [](const measurement&, std::chrono::nanoseconds) { return true; }, ec);
}

template <class Callable, class Clock>
measurement timer<Callable, Clock>::blocked_autorange(const blocked_autorange_options& options, std::error_code& ec) {
  ec = detail::checked_threads(task_.num_threads);
  if (!ec) ec = detail::checked(options);
  if (ec) return {1, {}, task_, 0};
  block_timer t(task_.num_threads);
  const std::int64_t number = search(t, options.min_run_time);
  return blocks(
      t, number, options.on_block,
      [&](const measurement&, std::chrono::nanoseconds total) { return total >= options.min_run_time; }, ec);
}

template <class Callable, class Clock>
measurement timer<Callable, Clock>::adaptive_autorange(const adaptive_autorange_options& options, std::error_code& ec) {
  ec = detail::checked_threads(task_.num_threads);
  if (!ec) ec = detail::checked(options);
  if (ec) return {1, {}, task_, 0};
  block_timer t(task_.num_threads);
  // Blocks of 50 us or more, as there is no total time to take a thousandth of.
  const std::int64_t number = search(t, std::chrono::milliseconds(50));
  const auto is_done = [&](const measurement& m, std::chrono::nanoseconds total) {
    if (total >= options.max_run_time) return true;
    return total >= options.min_run_time && detail::is_due(m.raw_times_ns.size()) &&
           m.meets_confidence(options.threshold);
  };
  return blocks(t, number, options.on_block, is_done, ec);
}

STEPPROF_END_NAMESPACE
