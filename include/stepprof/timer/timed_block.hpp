// A block of runs between two readings of a clock: on the calling thread, or on several threads at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/core/clock.hpp>
#include <stepprof/timer/do_not_optimize.hpp>
#include <stepprof/timer/measurement.hpp>
#include <stepprof/trace/error.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Not inlined: every block is the same code, and no run moves past the reading of a clock.
template <class Run>
STEPPROF_NOINLINE void run_block(Run& run, std::int64_t number) {
  for (std::int64_t i = 0; i < number; ++i) run_once(run);
}

struct block_span {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

template <class Clock, class Run>
block_span span_of_block(Run& run, std::int64_t number) {
  static_assert(Clock::counts_ns, "a timer needs a clock whose ticks are nanoseconds");
  block_span span;
  span.begin_ns = static_cast<std::int64_t>(ticks_of(Clock::begin()));
  run_block(run, number);
  span.end_ns = static_cast<std::int64_t>(ticks_of(Clock::end()));
  return span;
}

// Threads that wait for blocks. They live as long as a measurement, so that what a thread does only once (its heap, its
// caches) is not part of every block.
class thread_team {
 public:
  struct block {
    block_span (*run)(void* what, std::int64_t number) = nullptr;
    void* what = nullptr;
    std::int64_t number = 0;
  };

  // The caller is one of the threads.
  thread_team(std::int64_t threads, std::error_code& ec) : members_(static_cast<std::size_t>(threads)) {
    std::string thrown;
    const auto start = [this] {
      for (std::size_t i = 1; i < members_.size(); ++i) threads_.emplace_back([this, i] { serve(members_[i]); });
    };
    if (!call_guarded(start, thrown))
      ec = make_error(errc::unsupported, fmt::format("num_threads is {}, but the system refused thread {}: {}", threads,
                                                     threads_.size() + 2, thrown));
  }
  thread_team(const thread_team&) = delete;
  thread_team& operator=(const thread_team&) = delete;
  ~thread_team() {
    block_ = {};
    announce();
    for (std::thread& t : threads_) t.join();
  }

  // From the first thread's begin to the last one's end.
  block_span run(const block& b, std::error_code& ec) {
    block_ = b;
    announce();
    wait_until(ready_, threads_.size());
    // Release: whoever sees the gate open is to see that `done_` is 0.
    ready_.store(0, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    gate_.store(round_.load(std::memory_order_relaxed), std::memory_order_release);
    run_member(members_[0]);
    wait_until(done_, threads_.size());
    return joined(ec);
  }

 private:
  struct member {
    block_span span;
    std::string thrown;
    bool failed = false;
  };

  // Release: a thread that sees the new round sees the block.
  void announce() { round_.fetch_add(1, std::memory_order_release); }

  // Giving the core away, as there may be fewer cores than threads.
  template <class Number>
  static void wait_until(const std::atomic<Number>& value, Number wanted) {
    // Acquire: what the other side wrote before is seen.
    while (value.load(std::memory_order_acquire) != wanted) std::this_thread::yield();
  }

  void serve(member& m) {
    for (std::uint64_t round = 1;; ++round) {
      wait_until(round_, round);
      if (block_.run == nullptr) return;
      ready_.fetch_add(1, std::memory_order_release);
      wait_until(gate_, round);  // all threads are running by now
      run_member(m);
      // Release: whoever counts all of them sees what each wrote.
      done_.fetch_add(1, std::memory_order_release);
    }
  }

  void run_member(member& m) {
    m.failed = !call_guarded([this, &m] { m.span = block_.run(block_.what, block_.number); }, m.thrown);
  }

  block_span joined(std::error_code& ec) const {
    block_span all = members_[0].span;
    for (const member& m : members_) {
      if (m.failed) ec = make_error(errc::callback_failed, "timer: the callable threw: " + m.thrown);
      all.begin_ns = (std::min)(all.begin_ns, m.span.begin_ns);
      all.end_ns = (std::max)(all.end_ns, m.span.end_ns);
    }
    return all;
  }

  block block_;
  std::vector<member> members_;
  std::atomic<std::uint64_t> round_{0};  // up to which blocks were announced
  std::atomic<std::uint64_t> gate_{0};   // up to which they may begin
  std::atomic<std::size_t> ready_{0};
  std::atomic<std::size_t> done_{0};
  std::vector<std::thread> threads_;  // last: they use the others
};

// Times blocks on a clock; remembers the first thing that went wrong.
template <class Clock>
class block_timer {
 public:
  explicit block_timer(std::int64_t num_threads) {
    if (num_threads > 1) team_ = std::make_unique<thread_team>(num_threads, failure_);
  }

  // Never negative, whatever the clock does; 0 after a failure.
  template <class Run>
  std::int64_t ns_of(Run& run, std::int64_t number) {
    if (failure_) return 0;
    const block_span span = span_of(run, number);
    return (std::max)(span.end_ns - span.begin_ns, std::int64_t{0});
  }

  [[nodiscard]] const std::error_code& failure() const noexcept { return failure_; }

 private:
  template <class Run>
  block_span span_of(Run& run, std::int64_t number) {
    if (team_ == nullptr) return span_of_block<Clock>(run, number);
    Run* what = &run;  // a pointer to it, as the callable itself may be const
    const auto on_thread = [](void* at, std::int64_t n) { return span_of_block<Clock>(**static_cast<Run**>(at), n); };
    return team_->run({on_thread, &what, number}, failure_);
  }

  std::error_code failure_;
  std::unique_ptr<thread_team> team_;
};

// The cost of the clock itself: a block without runs.
template <class Clock>
double clock_overhead_ns(block_timer<Clock>& timer) {
  empty_run nothing;
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) times.push_back(static_cast<double>(timer.ns_of(nothing, 0)));
  return median_of(times);
}

inline constexpr std::int64_t most_runs_in_block = 0x7fffffff;

// How many runs make a block that the clock can time: 1, 10, 100, ... until its own cost is at most 0.01 % and a block
// takes at least a thousandth of the whole. Doing so is the warm-up.
template <class NsOfBlock>
std::int64_t block_size(double overhead_ns, std::chrono::nanoseconds min_run_time, const NsOfBlock& ns_of_block) {
  const auto whole_ns = static_cast<double>(min_run_time.count());
  for (std::int64_t number = 1;; number *= 10) {
    const auto ns = static_cast<double>(ns_of_block(number));
    const bool is_enough = (overhead_ns <= 1e-4 * ns && ns >= whole_ns / 1000) || ns > whole_ns;
    if (is_enough || number > most_runs_in_block / 10) return number;
  }
}

// What a run of an empty loop takes in blocks of that many: the least of three.
template <class Clock>
double empty_loop_ns(block_timer<Clock>& timer, std::int64_t number) {
  empty_run nothing;
  const std::int64_t runs = (std::min)(number, std::int64_t{1000000});
  std::int64_t least = timer.ns_of(nothing, runs);
  for (int i = 0; i < 2; ++i) least = (std::min)(least, timer.ns_of(nothing, runs));
  return static_cast<double>(least) / static_cast<double>(runs);
}

inline std::error_code checked_threads(std::int64_t num_threads) {
  if (num_threads >= 1 && num_threads <= 1024) return {};
  return make_error(errc::invalid_argument, fmt::format("num_threads is {}, must be from 1 to 1024", num_threads));
}

}  // namespace detail

STEPPROF_END_NAMESPACE
