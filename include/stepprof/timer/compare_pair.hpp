// Two callables compared on one machine that drifts: blocks in turn, and how sure the ratio is.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/core/clock.hpp>
#include <stepprof/output/display_text.hpp>
#include <stepprof/timer/measurement.hpp>
#include <stepprof/timer/time_text.hpp>
#include <stepprof/timer/timed_block.hpp>
#include <stepprof/trace/error.hpp>

STEPPROF_BEGIN_NAMESPACE

/// One side of a comparison. What is called before and after each block of runs is not timed.
template <class Run>
struct candidate {
  std::string name;
  Run run;
  std::function<void()> before_block = {};
  std::function<void()> after_block = {};
};
template <class Run>
candidate(std::string, Run) -> candidate<Run>;
template <class Run, class Before, class After>
candidate(std::string, Run, Before, After) -> candidate<Run>;

struct pair_options {
  std::string label = {};   ///< The title.
  std::int64_t number = 0;  ///< Runs in a block. 0: so many that the clock is 0.1 % of a block or less.
  std::int64_t pairs = 0;   ///< Rounded up to an even number. 0: until min_run_time is over.
  /// Time that all blocks together are to take, when `pairs` is 0. It takes longer when the interval needs more pairs.
  std::chrono::nanoseconds min_run_time = std::chrono::milliseconds(500);
  double confidence = 0.95;      ///< Of the intervals; above 0, at most 0.999999.
  std::int64_t num_threads = 1;  ///< As in task_description.
  std::uint64_t seed = 1;        ///< Of the order of the blocks.
};

/// An estimate and the interval around it.
struct estimate {
  double value = 0;
  double low = 0;
  double high = 0;
  [[nodiscard]] bool contains(double x) const noexcept { return low <= x && x <= high; }
};

/// What compare_pair() found. Block i of `a` and block i of `b` were measured one directly after the other.
struct pair_comparison {
  measurement a;
  measurement b;
  estimate ratio;          ///< Time of B over time of A.
  estimate difference_ns;  ///< Time of a run of B minus that of a run of A.
  double confidence = 0.95;

  /// Whether the interval of the ratio leaves out 1.
  [[nodiscard]] bool differs() const noexcept { return !ratio.contains(1); }
  /// Both medians and least times, ratio and difference with their intervals, e.g.
  /// `B / A: 1.02 x (95 %: 1.01 to 1.03), 400 pairs of 100 runs`; lines as in measurement::to_string().
  [[nodiscard]] std::string to_string() const;
};

/// **The way to compare two callables.** Blocks of equal numbers of runs are timed in rounds of two pairs, A B B A or
/// B A A B, at random. A machine that gets slower or faster during a round adds the same to both sides, and so does
/// being first or second; measured one after the other, all of that would be in the ratio.
///
/// Each round yields one ratio and one difference, of the mean of a side's two blocks; where these differ by more than
/// 5 %, the longer one was disturbed and only the shorter one counts. The results are the medians of all rounds.
/// The intervals are those of the sign test, from order statistics: whatever the distribution, the median of n
/// independent values lies between the k-th smallest and the k-th largest with probability 1 - 2 P(Bin(n, 1/2) < k)
/// (David and Nagaraja, Order Statistics, 3rd edition, section 7.1); k is the largest that gives at least `confidence`.
/// They tell the noise of this run apart from a difference, not this machine from another one; and what happens in few
/// blocks only is in none of these figures.
///
/// Each side is a callable or a `candidate`. Clock and threads are as in `timer`. Fails, and then has no blocks, when
/// an option is not allowed (errc::invalid_argument: the text says which), or as `timer` does.
template <class Clock = monotonic_clock, class A, class B>
pair_comparison compare_pair(A a, B b, const pair_options& options, std::error_code& ec);
template <class Clock = monotonic_clock, class A, class B>
pair_comparison compare_pair(A a, B b, const pair_options& options = {}) {
  std::error_code ec;
  pair_comparison result = compare_pair<Clock>(std::move(a), std::move(b), options, ec);
  detail::throw_if(ec, "compare_pair");
  return result;
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// How many of the smallest, and of the largest, of n values may be left out of an interval that holds their median with
// this confidence, plus one; 0: none of the values is far enough out.
inline std::size_t interval_rank(std::size_t n, double confidence) {
  const double allowed = (1 - confidence) / 2;
  const auto count = static_cast<double>(n);
  // P(Bin(n, 1/2) = k) in logarithms: it is too small for a double where n is above a thousand.
  double log_p = -count * std::log(2.0), below = 0;
  for (std::size_t k = 0;; ++k) {
    below += std::exp(log_p);
    // A little more than allowed is rounding.
    if (below > allowed * (1 + 1e-9) || k >= n) return k;
    log_p += std::log((count - static_cast<double>(k)) / static_cast<double>(k + 1));
  }
}

inline std::size_t rounds_needed(double confidence) {
  std::size_t n = 1;
  while (interval_rank(n, confidence) == 0) ++n;
  return n;
}

// Of at least rounds_needed() values.
inline estimate median_with_interval(std::vector<double> values, double confidence) {
  std::sort(values.begin(), values.end());
  const std::size_t rank = (std::max)(interval_rank(values.size(), confidence), std::size_t{1});
  return {quantile_of(values, 0.5), values[rank - 1], values[values.size() - rank]};
}

inline std::error_code checked(const pair_options& o) {
  const auto refused = [](const std::string& text) { return make_error(errc::invalid_argument, text); };
  if (!(o.confidence > 0 && o.confidence <= 0.999999))
    return refused(fmt::format("confidence is {}, must be above 0 and at most 0.999999", o.confidence));
  if (o.number < 0 || o.number > most_runs_in_block)
    return refused(fmt::format("number is {}, must be from 0 to {}", o.number, most_runs_in_block));
  const auto least = static_cast<std::int64_t>(2 * rounds_needed(o.confidence));
  if (o.pairs != 0 && o.pairs < least - 1)
    return refused(fmt::format("pairs is {}, must be at least {} for a confidence of {}, or 0 for automatic", o.pairs,
                               least, o.confidence));
  if (o.min_run_time.count() < 0)
    return refused(fmt::format("min_run_time is {} ns, must be at least 0", o.min_run_time.count()));
  return checked_threads(o.num_threads);
}

// How many runs take `wanted_ns`, at least 1: tens of them are timed until they do. Short blocks, because what is
// preempted is a block; the least of three, because a preemption would make them far too short.
template <class NsOfBlock>
std::int64_t short_block_size(double wanted_ns, double whole_ns, const NsOfBlock& ns_of_block) {
  for (std::int64_t number = 1;; number *= 10) {
    double ns = ns_of_block(number);
    if (ns > whole_ns || number > most_runs_in_block / 10) return number;
    for (int i = 0; i < 2 && ns >= wanted_ns; ++i) ns = (std::min)(ns, ns_of_block(number));
    if (ns < wanted_ns || !(ns > 0)) continue;
    return (std::max)(static_cast<std::int64_t>(std::ceil(static_cast<double>(number) * wanted_ns / ns)),
                      std::int64_t{1});
  }
}

// What stands for the two blocks that a side has in a round: their mean, so that drift cancels. But where one took much
// longer it was disturbed, as nothing makes a block shorter; then the other one.
inline double undisturbed_ns(double x, double y) {
  const double less = (std::min)(x, y), more = (std::max)(x, y);
  return more <= 1.05 * less ? (x + y) / 2 : less;
}

// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
inline std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

template <class Run>
candidate<Run> as_candidate(candidate<Run> c) {
  return c;
}
template <class Run>
candidate<Run> as_candidate(Run run) {
  return {{}, std::move(run), {}, {}};
}

// A round is A B B A or B A A B.
template <class Clock, class A, class B>
class pair_runner {
 public:
  pair_runner(candidate<A> a, candidate<B> b, const pair_options& options)
      : a_(std::move(a)), b_(std::move(b)), options_(options), timer_(options.num_threads), random_(options.seed) {}

  pair_comparison run(std::error_code& ec) {
    pair_comparison result;
    result.confidence = options_.confidence;
    const std::int64_t number = prepare();
    describe(result.a, a_.name, number);
    describe(result.b, b_.name, number);
    for (std::size_t rounds = 0; !is_done(rounds) && !timer_.failure(); ++rounds) round(result);
    ec = timer_.failure();
    if (!ec) estimate_both(result, ec);
    if (ec) result.a.raw_times_ns = result.b.raw_times_ns = {};
    return result;
  }

 private:
  template <class Run>
  std::int64_t block(candidate<Run>& c, std::int64_t number) {
    if (c.before_block) c.before_block();
    const std::int64_t ns = timer_.ns_of(c.run, number);
    if (c.after_block) c.after_block();
    return ns;
  }

  // The number of runs in a block; both sides are warm afterwards.
  std::int64_t prepare() {
    if (options_.number > 0) {
      block(a_, options_.number);
      block(b_, options_.number);
      return options_.number;
    }
    const double overhead_ns = clock_overhead_ns(timer_);
    const auto whole_ns = static_cast<double>(options_.min_run_time.count());
    const double wanted_ns = (std::max)(1000 * overhead_ns, whole_ns / 4000);
    const auto search = [&](auto& side) {
      return short_block_size(wanted_ns, whole_ns, [&](std::int64_t n) { return static_cast<double>(block(side, n)); });
    };
    const std::int64_t of_a = search(a_);
    return (std::max)(of_a, search(b_));
  }

  void describe(measurement& m, const std::string& name, std::int64_t number) {
    m.number_per_run = number;
    m.task.label = options_.label;
    m.task.sub_label = name;
    m.task.num_threads = options_.num_threads;
    m.empty_loop_ns = empty_loop_ns(timer_, number);
  }

  bool is_done(std::size_t rounds) const {
    if (options_.pairs > 0) return 2 * rounds >= static_cast<std::size_t>(options_.pairs);
    const bool is_over = total_ns_ >= options_.min_run_time.count() && rounds >= rounds_needed(options_.confidence);
    return is_over || rounds >= most_rounds;
  }

  void round(pair_comparison& result) {
    const bool is_a_first = (next_random(random_) & 1) == 0;
    for (const bool is_a : {is_a_first, !is_a_first, !is_a_first, is_a_first}) {
      measurement& m = is_a ? result.a : result.b;
      const std::int64_t ns = is_a ? block(a_, m.number_per_run) : block(b_, m.number_per_run);
      m.raw_times_ns.push_back(static_cast<double>(ns));
      total_ns_ += ns;
    }
  }

  void estimate_both(pair_comparison& result, std::error_code& ec) const {
    const std::vector<double>&a = result.a.raw_times_ns, &b = result.b.raw_times_ns;
    std::vector<double> ratios, differences;
    for (std::size_t i = 0; i + 1 < a.size(); i += 2) {
      const double of_a = undisturbed_ns(a[i], a[i + 1]), of_b = undisturbed_ns(b[i], b[i + 1]);
      if (!(of_a > 0)) {
        ec = make_error(errc::invalid_argument,
                        fmt::format("number is {}: the clock saw nothing of a block of A; time more runs per block, "
                                    "or 0 for automatic",
                                    result.a.number_per_run));
        return;
      }
      ratios.push_back(of_b / of_a);
      differences.push_back((of_b - of_a) / static_cast<double>(result.a.number_per_run));
    }
    result.ratio = median_with_interval(std::move(ratios), options_.confidence);
    result.difference_ns = median_with_interval(std::move(differences), options_.confidence);
  }

  static constexpr std::size_t most_rounds = 250000;  // a clock that stands still must not be waited for

  candidate<A> a_;
  candidate<B> b_;
  const pair_options& options_;
  block_timer<Clock> timer_;
  std::uint64_t random_;
  std::int64_t total_ns_ = 0;
};

// As many decimals as half of the interval has, 2 to 4.
inline int ratio_decimals(const estimate& ratio) {
  const double half = (ratio.high - ratio.low) / 2;
  if (!(half > 0)) return 2;
  return static_cast<int>((std::clamp)(std::ceil(-std::log10(half) - 1e-9), 2.0, 4.0));  // 0.01 is two decimals
}

// "A", or "A: name".
inline std::string side_name(const char* letter, const measurement& m) {
  return std::string("  ") + letter + (m.task.sub_label.empty() ? "" : ": " + display_text(m.task.sub_label));
}

inline std::string side_text(const std::string& name, const measurement& m, std::size_t width) {
  return fmt::format("{}{}  {} (least {})\n", name, std::string(width - display_width(name), ' '),
                     run_time_text(m.median_ns()), run_time_text(m.min_ns()));
}

}  // namespace detail

template <class Clock, class A, class B>
pair_comparison compare_pair(A a, B b, const pair_options& options, std::error_code& ec) {
  ec = detail::checked(options);
  if (ec) return {};
  detail::pair_runner<Clock, decltype(detail::as_candidate(a).run), decltype(detail::as_candidate(b).run)> pair(
      detail::as_candidate(std::move(a)), detail::as_candidate(std::move(b)), options);
  return pair.run(ec);
}

inline std::string pair_comparison::to_string() const {
  std::string out;
  if (!a.task.label.empty()) out += detail::display_text(a.task.label) + "\n";
  const std::string name_a = detail::side_name("A", a), name_b = detail::side_name("B", b);
  const std::size_t width = (std::max)(detail::display_width(name_a), detail::display_width(name_b));
  out += detail::side_text(name_a, a, width) + detail::side_text(name_b, b, width);
  const int decimals = detail::ratio_decimals(ratio);
  const std::string level = fmt::format("{:g} %", confidence * 100);
  out += fmt::format("  B / A: {:.{}f} x ({}: {:.{}f} to {:.{}f}), {} of {}", ratio.value, decimals, level, ratio.low,
                     decimals, ratio.high, decimals, detail::counted(a.raw_times_ns.size(), "pair"),
                     detail::counted(a.number_per_run, "run"));
  if (a.task.num_threads != 1) out += ", " + detail::counted(a.task.num_threads, "thread");
  out += fmt::format("\n  B - A: {} a run ({}: {} to {})", detail::run_time_text(difference_ns.value), level,
                     detail::run_time_text(difference_ns.low), detail::run_time_text(difference_ns.high));
  if (!differs()) out += "\n  No difference shown: 1 lies in the interval of the ratio.";
  return out;
}

STEPPROF_END_NAMESPACE
