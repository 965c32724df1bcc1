// Catches: a thread that asks the heap for memory in order to have its end seen, and ends that nobody sees.
#include <support/catch.hpp>

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

#include "counted_malloc.hpp"

namespace late_keys_test {

namespace {

// Takes all the keys whose values a thread has room for, while it lives.
class used_up_keys {
 public:
  used_up_keys() {
    do {
      keys_.emplace_back();
      REQUIRE(::pthread_key_create(&keys_.back(), nullptr) == 0);
    } while (keys_.back() < stepprof::detail::keys_in_thread);
  }
  ~used_up_keys() {
    for (const pthread_key_t key : keys_) ::pthread_key_delete(key);
  }
  used_up_keys(const used_up_keys&) = delete;
  used_up_keys& operator=(const used_up_keys&) = delete;

  void free_one() {
    ::pthread_key_delete(keys_.front());
    keys_.erase(keys_.begin());
  }

 private:
  std::vector<pthread_key_t> keys_;
};

// The recorder's own hook, made anew; as it was when this is gone.
class hook_made_late {
 public:
  hook_made_late() {
    stepprof::detail::exit_hook() = {};
    made = stepprof::detail::exit_hook().install(&stepprof::detail::at_thread_exit);
  }
  ~hook_made_late() { stepprof::detail::exit_hook() = before_; }
  hook_made_late(const hook_made_late&) = delete;
  hook_made_late& operator=(const hook_made_late&) = delete;
  bool made;

 private:
  const stepprof::detail::thread_exit_hook before_ = stepprof::detail::exit_hook();
};

std::size_t logs() {
  std::size_t count = 0;
  for (auto ref = stepprof::detail::the_cold.logs.load(); ref != 0; ref = stepprof::detail::log_at(ref)->next.load())
    ++count;
  return count;
}

std::atomic<int> ends{0};

}  // namespace

// Catches: the C library's calloc for a late key, which a signal handler that records must not call; and logs of ended
// threads that are kept for ever.
TEST_CASE("a program that has used up the early keys can record and end threads", "[allocation]") {
  { const stepprof::profile installs; }
  const used_up_keys keys;
  const hook_made_late hook;
  CHECK_FALSE(hook.made);
  const std::size_t before = logs();
  constexpr int threads = 100;
  std::uint64_t heap_calls = 0;
  stepprof::profile prof;
  for (int i = 0; i < threads; ++i)
    std::thread([&] {
      const std::uint64_t heap_calls_before = test::heap_calls();
      { STEPPROF_SCOPE("s"); }
      heap_calls += test::heap_calls() - heap_calls_before;
    }).join();
  prof.stop();
  CHECK(heap_calls == 0);
  CHECK(prof.result().losses().kept == threads);
  CHECK(prof.key_averages().at("s").calls == threads);
  // The system may still know a thread for a moment after it was joined.
  for (int i = 0; i < 1000000 && logs() > before; ++i) {
    std::this_thread::yield();
    CHECK(stepprof::process_totals().dropped == 0);
  }
  CHECK(logs() <= before);
}

// Catches: a late key although an early one is free.
TEST_CASE("an early key that is free again sees threads end", "[allocation]") {
  used_up_keys keys;
  keys.free_one();
  ends = 0;
  stepprof::detail::thread_exit_hook hook;
  REQUIRE(hook.install([](void*) { ++ends; }));
  std::uint64_t heap_calls = 0;
  bool armed = false;
  std::thread([&] {
    const std::uint64_t before = test::heap_calls();
    armed = hook.arm(&hook);
    heap_calls = test::heap_calls() - before;
  }).join();
  ::pthread_key_delete(hook.key);
  CHECK(armed);
  CHECK(heap_calls == 0);
  CHECK(ends == 1);
}

}  // namespace late_keys_test
