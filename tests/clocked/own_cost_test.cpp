#include "support/fake_clock.hpp"

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>

#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

#include "support/catch.hpp"

namespace own_cost_test {

// Every reading takes ten ns, and nothing else takes any time.
struct slow_readings {
  slow_readings() { test::fake_clock::ticks_per_reading(10); }
  ~slow_readings() { test::fake_clock::ticks_per_reading(0); }
};

// Catches: a cost that is a constant, or of one clock reading; the part that a scope shows of it mixed up with the
// rest.
TEST_CASE("each session measures what a scope costs", "[own_cost]") {
  stepprof::profile prof(stepprof::profile_options(), stepprof::deferred);
  {
    const slow_readings slow;
    prof.start();
  }
  prof.stop();
  // 128 scopes of two readings, and one of the two readings around them.
  CHECK(prof.result().info().scope_cost_ns == (128 * 2 + 1) * 10.0 / 128);
  CHECK(prof.result().info().scope_cost_inside_ns == 10);
  prof.start();
  prof.stop();
  CHECK(prof.result().info().scope_cost_ns == 0);  // time stands still: it cannot be measured
}

// Catches: scopes of the measurement in a trace, in the counts of the process or in the thread's own log.
TEST_CASE("what measures the cost leaves no record", "[own_cost]") {
  const slow_readings slow;
  { stepprof::profile warm; }
  const stepprof::recording_totals before = stepprof::process_totals();
  stepprof::profile prof;
  { STEPPROF_SCOPE("work"); }
  prof.stop();
  CHECK(prof.result().events().size() == 1);
  CHECK(prof.result().losses().late == 0);
  const stepprof::recording_totals after = stepprof::process_totals();
  CHECK(after.kept == before.kept + 1);
  CHECK((after.late == before.late && after.discarded == before.discarded && after.dropped == before.dropped));
  CHECK(prof.result().tracks().size() == 1);
}

// Catches: pieces of memory that each start takes and does not give back.
TEST_CASE("the memory of the measurement is given back", "[own_cost]") {
  const slow_readings slow;
  std::uint32_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    stepprof::profile prof;
    { STEPPROF_SCOPE("work"); }
    prof.stop();
    if (i == 1) taken = stepprof::detail::the_pool.taken_blocks();
  }
  CHECK(stepprof::detail::the_pool.taken_blocks() == taken);
}

namespace {

// Raises a signal at every reading of the clock while it lives.
struct signal_at_reading {
  static inline int handled = 0;
  static inline int misled = 0;  // how often the handler found a log that nobody reads
  signal_at_reading() : before_(std::signal(SIGUSR1, &handler)) {
    handled = misled = 0;
    test::fake_clock::call_at_reading([] { std::raise(SIGUSR1); });
  }
  ~signal_at_reading() {
    test::fake_clock::call_at_reading(nullptr);
    std::signal(SIGUSR1, before_);
  }
  signal_at_reading(const signal_at_reading&) = delete;
  signal_at_reading& operator=(const signal_at_reading&) = delete;

 private:
  static void handler(int) {
    ++handled;
    misled += stepprof::detail::this_thread_id() == 0xffffffffu ? 1 : 0;
  }
  void (*before_)(int);
};

}  // namespace

// Catches: what a handler records while the cost is measured, lost with the log of the measurement.
TEST_CASE("a handler never finds the log of the measurement", "[own_cost]") {
  if (STEPPROF_POSIX == 0) return;  // signals are held back there only
  stepprof::profile prof(stepprof::profile_options(), stepprof::deferred);
  {
    const signal_at_reading signals;
    prof.start();
  }
  prof.stop();
  CHECK(signal_at_reading::handled > 0);
  CHECK(signal_at_reading::misled == 0);
}

// Catches: a thread that starts a profile inside a scope and then has another log, so that the scope never ends.
TEST_CASE("a thread that starts a profile inside its own scopes keeps its log", "[own_cost]") {
  const slow_readings slow;
  stepprof::profile prof;
  const auto outer = std::make_unique<stepprof::record_function>("outer");
  const std::uint32_t thread = stepprof::detail::this_thread_id();
  prof.stop();
  CHECK(prof.result().losses().unfinished == 1);
  prof.start();
  CHECK(stepprof::detail::this_thread_id() == thread);
  auto inner = std::make_unique<stepprof::record_function>("inner");
  inner.reset();
  prof.stop();
  CHECK(prof.result().losses().kept == 1);
  CHECK(prof.result().losses().unmatched_ends == 0);
  CHECK(prof.result().tracks()[0].id == thread);
}

// Catches: a cost that is lost on the way to the table or the file.
TEST_CASE("the cost stands below the table and in the trace", "[own_cost]") {
  const slow_readings slow;
  stepprof::profile prof;
  { STEPPROF_SCOPE("work"); }
  prof.stop();
  CHECK(prof.key_averages().table().find("Recording cost 20.1ns a scope, ") != std::string::npos);
  std::string text;
  stepprof::write_chrome_trace(prof.result(), text);
  const stepprof::trace read = stepprof::parse_trace(text);
  CHECK(read.info().scope_cost_ns == prof.result().info().scope_cost_ns);
  CHECK(read.info().scope_cost_inside_ns == 10);
  CHECK(read.info().profiler_bytes > 0);
}

}  // namespace own_cost_test
