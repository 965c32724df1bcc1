#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <support/catch.hpp>

#include <stepprof/timer/compare_pair.hpp>
#include <stepprof/timer/timer.hpp>

namespace timer_threads_test {

namespace {

stepprof::task_description on_threads(std::int64_t threads) {
  stepprof::task_description task;
  task.num_threads = threads;
  return task;
}

// The threads that were there, and how often something was run.
class visitors {
 public:
  void visit() {
    const std::lock_guard<std::mutex> hold(mutex_);
    threads_.insert(std::this_thread::get_id());
    ++visits_;
  }
  std::size_t threads() const { return threads_.size(); }
  std::int64_t visits() const { return visits_; }

 private:
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
  std::int64_t visits_ = 0;
};

}  // namespace

// Catches: threads that take their turns one after the other: then none would ever meet the others. New threads for
// each block, with cold heaps and caches.
TEST_CASE("all threads run a block at once, and stay", "[timer]") {
  constexpr std::int64_t threads = 4;
  std::atomic<std::int64_t> arrived{0};
  visitors seen;
  stepprof::timer t(
      [&] {
        seen.visit();
        const std::int64_t meeting = arrived.fetch_add(1) / threads + 1;
        while (arrived.load() < meeting * threads) std::this_thread::yield();
      },
      on_threads(threads));
  const stepprof::measurement m = t.timeit(5);
  CHECK(m.raw_times_ns.size() == 1);
  CHECK(m.raw_times_ns[0] > 0);
  CHECK(m.task.num_threads == threads);
  CHECK(seen.threads() == threads);
  CHECK(seen.visits() == threads * (2 + 5));
}

// Catches: blocks of one thread compared with blocks of several.
TEST_CASE("both sides of a comparison run on all threads", "[compare_pair]") {
  visitors a, b;
  stepprof::pair_options options;
  options.num_threads = 3;
  options.number = 2;
  options.pairs = 12;
  const stepprof::pair_comparison result = stepprof::compare_pair([&a] { a.visit(); }, [&b] { b.visit(); }, options);
  CHECK(result.a.task.num_threads == 3);
  CHECK(a.threads() == 3);
  CHECK(b.threads() == 3);
  CHECK(a.visits() == 3 * 2 * 13);  // one block to warm up
  CHECK(b.visits() == 3 * 2 * 13);
}

// Catches: an exception on another thread that ends the program, or a timer that then waits for that thread for ever.
TEST_CASE("what is thrown on several threads comes out as an error", "[timer]") {
  const std::thread::id main_thread = std::this_thread::get_id();
  stepprof::timer t(
      [main_thread] {
        if (std::this_thread::get_id() != main_thread) throw std::runtime_error("no luck");
      },
      on_threads(2));
  std::error_code ec;
  CHECK(t.timeit(1, ec).raw_times_ns.empty());
  CHECK(ec == stepprof::errc::callback_failed);
  CHECK(ec.message() == "timer: the callable threw: no luck");
  CHECK_THROWS_AS(t.blocked_autorange(), stepprof::error);
}

// Catches: an exception on one thread that is swallowed or changed.
TEST_CASE("what is thrown on one thread passes through", "[timer]") {
  stepprof::timer t([] { throw std::out_of_range("mine"); });
  CHECK_THROWS_AS(t.timeit(1), std::out_of_range);
}

}  // namespace timer_threads_test
