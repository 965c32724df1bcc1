#include <support/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace {

// One producer: nested scopes of every kind, until told to stop. Returns how many were recorded.
std::uint64_t produce(int seed, const std::atomic<bool>& stop) {
  stepprof::set_thread_name("producer " + std::to_string(seed));
  std::uint64_t recorded = 0;
  int block[4];
  for (std::uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
    stepprof::record_function outer("outer");
    recorded += outer.recorded() ? 1 : 0;
    {
      stepprof::record_function named(std::string("name ") + std::to_string(i % 100), stepprof::scope_kind::op,
                                      stepprof::arg("i", i), stepprof::sequence_number(static_cast<std::int64_t>(i)));
      recorded += named.recorded() ? 1 : 0;
      stepprof::report_alloc(&block[i % 4], 16);
      stepprof::manual_scope manual;
      manual.begin("manual");
      recorded += manual.recorded() ? 1 : 0;
      stepprof::report_free(&block[i % 4]);
    }
    if (i % 64 == 0) std::this_thread::yield();
  }
  return recorded;
}

std::uint64_t total(const stepprof::recording_totals& t) {
  return t.kept + t.unfinished + t.late + t.discarded;
}

// Everything a control thread may do, for a while. Returns the number of traces it got.
std::uint64_t control(std::size_t budget, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::uint64_t traces = 0;
  for (int round = 0; std::chrono::steady_clock::now() < end; ++round) {
    stepprof::profile_options options;
    options.event_budget_bytes = budget;
    options.profile_memory = true;
    if (round % 3 != 0) options.schedule = stepprof::schedule{round % 2, 1, 2, 0};
    options.on_trace_ready = [&traces](const stepprof::trace&) { ++traces; };
    stepprof::profile prof(options);
    for (int i = 0; i < 6; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (i == 2) prof.pause();
      if (i == 3) prof.resume();
      if (i == 4) {
        const stepprof::trace snapshot = prof.snapshot();
        std::ostringstream out;
        stepprof::export_chrome_trace(snapshot, out);
        CHECK(out.str().size() > 100);
        static_cast<void>(stepprof::key_averages(snapshot).table("self_cpu_time_total", 5));
      }
      prof.step();
    }
    prof.stop();
  }
  return traces;
}

}  // namespace

// Catches: scopes that are lost or counted twice while windows open and close under them.
TEST_CASE("every begin of eight threads is kept, unfinished, late, discarded or dropped, exactly", "[stress]") {
  stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
  for (const std::size_t budget : {std::size_t{2} << 20, std::size_t{64} << 20}) {
    const stepprof::recording_totals before = stepprof::process_totals();
    std::atomic<bool> stop{false};
    std::vector<std::uint64_t> recorded(8);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&recorded, &stop, i] { recorded[static_cast<std::size_t>(i)] = produce(i, stop); });
    const std::uint64_t traces = control(budget, std::chrono::milliseconds(1500));
    stop = true;
    for (std::thread& thread : threads) thread.join();
    const stepprof::recording_totals after = stepprof::process_totals();
    std::uint64_t produced = 0;
    for (const std::uint64_t count : recorded) produced += count;
    CHECK(traces > 0);
    CHECK(produced > 0);
    CHECK(total(after) - total(before) == produced);
    CHECK(after.kept > before.kept);
  }
  stepprof::set_diagnostics_hook(nullptr);
}

// Catches: logs of ended threads that are freed too early, too late, or twice.
TEST_CASE("thousands of short-lived threads are all recorded", "[stress]") {
  stepprof::profile prof;
  for (int round = 0; round < 100; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 10; ++i) threads.emplace_back([] { STEPPROF_SCOPE("short"); });
    for (std::thread& thread : threads) thread.join();
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(prof.key_averages().at("short").calls == 1000);
  CHECK(t.tracks().size() >= 1000);
  CHECK(t.losses().dropped == 0);
}
