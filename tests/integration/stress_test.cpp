#include <support/recorded.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace stress_test {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What the threads of one case share. Catch2 2 counts assertions on one thread only, so they leave texts instead.
struct arena {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> allowed{UINT64_MAX};  // producers wait when they have begun so many
  std::atomic<std::uint64_t> checked{0};           // snapshots that were checked
  std::atomic<std::uint64_t> exported{0};
  std::string fault;  // of the snapshot thread
};

struct produced {
  std::uint64_t begins = 0;    // all of them
  std::uint64_t recorded = 0;  // that were accepted
  std::uint64_t shut = 0;      // before which the gate was seen closed
};

// One producer: nested scopes of every kind, until told to stop.
produced produce(int seed, arena& shared) {
  stepprof::set_thread_name("producer " + std::to_string(seed));
  produced count;
  const auto add = [&count](bool recorded) {
    ++count.begins;
    count.recorded += recorded ? 1 : 0;
  };
  int block[4];
  for (std::uint64_t i = 0; !shared.stop.load(std::memory_order_relaxed); ++i) {
    if (shared.begun.fetch_add(3, std::memory_order_relaxed) >= shared.allowed.load(std::memory_order_relaxed)) {
      std::this_thread::yield();
      continue;
    }
    count.shut += stepprof::detail::the_registry.gate.load(std::memory_order_relaxed) == 0 ? 1u : 0u;
    stepprof::record_function outer("outer");
    add(outer.recorded());
    {
      stepprof::record_function named(std::string("name ") + std::to_string(i % 100), stepprof::scope_kind::op,
                                      stepprof::arg("i", i), stepprof::sequence_number(static_cast<std::int64_t>(i)));
      add(named.recorded());
      stepprof::report_alloc(&block[i % 4], 16);
      stepprof::manual_scope manual;
      manual.begin("manual");
      add(manual.recorded());
      stepprof::report_free(&block[i % 4]);
    }
    if (i % 64 == 0) std::this_thread::yield();
  }
  return count;
}

class producers {
 public:
  explicit producers(arena& shared, int threads = 8) : counts_(static_cast<std::size_t>(threads)) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this, &shared, i] { counts_[static_cast<std::size_t>(i)] = produce(i, shared); });
  }
  produced join() {
    produced sum;
    for (std::thread& thread : threads_) thread.join();
    for (const produced& count : counts_) {
      sum.begins += count.begins;
      sum.recorded += count.recorded;
      sum.shut += count.shut;
    }
    return sum;
  }

 private:
  std::vector<produced> counts_;
  std::vector<std::thread> threads_;
};

std::uint64_t total(const stepprof::recording_totals& t) {
  return t.kept + t.unfinished + t.late + t.discarded;
}

// Takes snapshots and lets the producers go on after each. The oracle is slow: it looks at the small ones, and not at
// too many.
void take_snapshots(const stepprof::profile& prof, arena& shared, std::uint64_t burst) {
  while (!shared.stop) {
    const stepprof::trace t = prof.snapshot();
    if (burst != 0) shared.allowed = shared.begun + burst;
    if (t.events().empty() || t.events().size() > 4000 || shared.checked >= 12) {
      std::this_thread::sleep_for(milliseconds(1));
      continue;
    }
    const std::string found = test::check_trace(test::chrome_text(t)).summary();
    if (shared.fault.empty()) shared.fault = found;
    ++shared.checked;
  }
}

// Reads and exports what there is.
void export_results(const stepprof::profile& prof, arena& shared) {
  while (!shared.stop) {
    std::ostringstream out;
    prof.export_chrome_trace(out);
    static_cast<void>(prof.key_averages().table("self_cpu_time_total", 5));
    shared.exported += out.str().size() > 100 ? 1 : 0;
    std::this_thread::sleep_for(milliseconds(2));
  }
}

// Until the time is over and everything that is to happen has happened; not for ever.
template <class Condition>
void run_for(milliseconds time, Condition happened) {
  const auto begin = steady_clock::now();
  while (steady_clock::now() - begin < time || (!happened() && steady_clock::now() - begin < 20 * time))
    std::this_thread::sleep_for(milliseconds(5));
}

}  // namespace

// Catches: scopes that are lost or counted twice while windows open and close under them, and traces broken by it.
TEST_CASE("every begin of eight threads is kept, unfinished, late or discarded, whatever other threads control",
          "[stress]") {
  const stepprof::diagnostics_hook hook = stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
  for (const bool in_bursts : {true, false}) {
    const stepprof::recording_totals before = stepprof::process_totals();
    std::atomic<std::uint64_t> traces{0};
    stepprof::profile_options options;
    options.event_budget_bytes = in_bursts ? std::size_t{16} << 20 : std::size_t{2} << 20;
    options.profile_memory = true;
    options.schedule = stepprof::schedule{1, 1, 2, 0};
    options.on_trace_ready = [&traces](const stepprof::trace&) { ++traces; };
    stepprof::profile prof(options, stepprof::deferred);
    arena shared;
    if (in_bursts) shared.allowed = 1000;
    producers writing(shared);
    std::vector<std::thread> control;
    control.emplace_back([&] {
      for (int round = 0; !shared.stop; ++round) {
        std::error_code ec;
        prof.start(ec);
        for (int i = 0; i < 10 && !shared.stop; ++i) {
          std::this_thread::sleep_for(milliseconds(1));
          if (i == 3 && round % 2 == 0) prof.pause();
          if (i == 5 && round % 4 == 0) prof.resume();
        }
        prof.stop();
      }
    });
    control.emplace_back([&] {
      while (!shared.stop) {
        std::error_code ec;
        prof.step(ec);  // refused while nothing runs
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    control.emplace_back([&] { take_snapshots(prof, shared, in_bursts ? 1000 : 0); });
    control.emplace_back([&] { export_results(prof, shared); });
    run_for(milliseconds(1200),
            [&] { return traces > 0 && shared.exported > 0 && (!in_bursts || shared.checked >= 3); });
    shared.stop = true;
    for (std::thread& thread : control) thread.join();
    const produced sum = writing.join();
    const stepprof::recording_totals after = stepprof::process_totals();
    CHECK_FALSE(prof.running());
    CHECK(traces > 0);
    CHECK(shared.exported > 0);
    if (in_bursts) CHECK(shared.checked >= 3);
    CHECK(shared.fault == "");
    CHECK(sum.recorded > 0);
    CHECK(total(after) - total(before) == sum.recorded);
    CHECK(after.kept > before.kept);
  }
  stepprof::set_diagnostics_hook(hook);
}

// Catches: a begin that is dropped without being counted, or counted in two windows or in none, when memory is short
// and windows follow each other without a gap.
TEST_CASE("while the gate stays open every begin is kept, unfinished or dropped, in the traces and in all",
          "[stress]") {
  const stepprof::diagnostics_hook hook = stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
  const stepprof::recording_totals before = stepprof::process_totals();
  std::uint64_t in_traces = 0;
  std::uint64_t traces = 0;
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{1} << 20;
  options.profile_memory = true;
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  options.on_trace_ready = [&](const stepprof::trace& t) {  // in step() and stop(), which wait for each other
    in_traces += t.losses().kept + t.losses().unfinished + t.losses().late + t.losses().dropped;
    ++traces;
  };
  stepprof::profile prof(options);
  arena shared;
  producers writing(shared);
  std::vector<std::thread> control;
  control.emplace_back([&] {
    while (!shared.stop) prof.step();
  });
  control.emplace_back([&] { take_snapshots(prof, shared, 0); });
  control.emplace_back([&] { export_results(prof, shared); });
  run_for(milliseconds(2000),
          [&] { return shared.exported > 0 && stepprof::process_totals().dropped > before.dropped; });
  shared.stop = true;
  for (std::thread& thread : control) thread.join();
  const produced sum = writing.join();
  prof.stop();
  const stepprof::recording_totals after = stepprof::process_totals();
  CHECK(sum.shut == 0);
  CHECK(shared.fault == "");
  CHECK(traces > 1);
  CHECK(after.dropped > before.dropped);
  CHECK(after.kept > before.kept);
  CHECK(total(after) - total(before) == sum.recorded);
  CHECK(total(after) + after.dropped - total(before) - before.dropped == sum.begins);
  CHECK(in_traces == sum.begins);
  stepprof::set_diagnostics_hook(hook);
}

// Catches: exports that lose what an earlier one of the same session had, or that a recording thread, a stop or a start
// breaks. FC-54: https://github.com/pytorch/pytorch/issues/19420
TEST_CASE("each export while sixteen threads record holds what the one before it held", "[stress]") {
  const test::heard heard;
  stepprof::profile_options options;
  options.profile_memory = true;
  stepprof::profile prof(options, stepprof::deferred);
  arena shared;
  shared.allowed = 0;
  producers writing(shared, 16);
  std::vector<std::string> files;  // looked at afterwards: the waiting threads leave little time to this one
  int shrunk = 0;
  std::uint64_t last_kept = 0;
  const auto take = [&](const stepprof::trace& t, bool first) {
    if (!first && t.losses().kept < last_kept) ++shrunk;
    last_kept = t.losses().kept;
    files.push_back(test::chrome_text(t));
  };
  for (int session = 0; session < 2; ++session) {
    prof.start();
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t until = shared.begun + 400;
      shared.allowed = until;
      while (shared.begun < until - 200) std::this_thread::yield();  // they go on while this exports
      take(prof.snapshot(), i == 0);
    }
    prof.stop();
    take(prof.result(), false);
    CHECK(last_kept > 300);
  }
  shared.stop = true;
  writing.join();
  CHECK(shrunk == 0);
  std::string faults;
  for (const std::string& file : files) faults += test::check_trace(file).summary();
  CHECK(faults == "");
}

// Catches: logs of ended threads that are freed too early, too late, or twice. More of them:
// bounded/threads. FC-37: https://github.com/yse/easy_profiler/issues/178
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

}  // namespace stress_test
