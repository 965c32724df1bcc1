#include <support/catch.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace recycled_test {

namespace {

// Begun on a thread that has ended since.
std::vector<std::unique_ptr<stepprof::record_function>> begun_elsewhere(int count) {
  std::vector<std::unique_ptr<stepprof::record_function>> scopes;
  std::thread([&] {
    for (int i = 0; i < count; ++i) scopes.push_back(std::make_unique<stepprof::record_function>("moved"));
  }).join();
  return scopes;
}

std::int64_t calls(const stepprof::profile& prof, const char* name) {
  const stepprof::event_averages averages = prof.key_averages();
  const stepprof::event_average* const row = averages.find(name);
  return row == nullptr ? 0 : row->calls;
}

}  // namespace

// Catches: threads told apart by the address of what they own, which the next thread may be given again.
TEST_CASE("a scope of a thread that has ended may end on one that looks the same", "[recycled]") {
  stepprof::profile prof;
  for (int round = 0; round < 50; ++round) {
    auto scopes = begun_elsewhere(8);
    std::thread([&scopes] {
      stepprof::record_function own("own");
      scopes.clear();
      for (int i = 0; i < 2000; ++i) stepprof::record_function inner("inner");
    }).join();
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(calls(prof, "moved") == 400);
  CHECK(calls(prof, "own") == 50);
  CHECK(calls(prof, "inner") == 100000);
  CHECK(t.losses().unfinished == 0);
  CHECK(t.losses().unmatched_ends == 0);
}

// Catches: memory that was cut into pieces for short threads and stays so, until nothing can be recorded any more.
TEST_CASE("a burst of short threads leaves the budget as it was", "[recycled]") {
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{4} << 20;
  stepprof::profile prof(options);
  for (int i = 0; i < 700; ++i) std::thread([] { STEPPROF_SCOPE("short"); }).join();
  prof.stop();
  CHECK(prof.result().losses().dropped > 0);  // 4 MiB are 1024 pieces, each thread takes two
  for (int round = 0; round < 2; ++round) {
    prof.start();
    for (int i = 0; i < 100000; ++i) {
      STEPPROF_SCOPE("long");
    }
    prof.stop();
    CHECK(calls(prof, "long") == 100000);
  }
}

// Catches: windows of one process that overlap by a little, so that they cannot be put together.
TEST_CASE("cycles follow each other without overlap while threads go on recording", "[recycled]") {
  stepprof::profile_options options;
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  options.accumulate = true;
  options.event_budget_bytes = std::size_t{64} << 20;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i)
    threads.emplace_back([&stop] {
      while (!stop.load()) {
        STEPPROF_SCOPE("outer");
        for (int k = 0; k < 10; ++k) {
          STEPPROF_SCOPE("inner");
          std::this_thread::yield();
        }
        // Else each window is as long as the threads keep this one from its turn, and longer than the one before.
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
  stepprof::profile prof(options);
  for (int i = 0; i < 8; ++i) {
    std::this_thread::yield();
    prof.step();
  }
  prof.stop();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(prof.result().steps().size() == 8);
  CHECK(prof.last_error().empty());
}

}  // namespace recycled_test
