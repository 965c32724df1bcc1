// Catches: signals at any place of the recorder that tear records apart.
#include <support/recorded.hpp>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>

#include <sys/time.h>

#include <stepprof/stepprof.hpp>

namespace signals_test {

namespace {

// Only this program's one thread is interrupted, so plain numbers would do, were it not for the compiler.
std::atomic<std::uint64_t> handled{0};
std::atomic<std::uint64_t> accepted{0};

void on_timer(int) {
  const std::uint64_t number = handled.fetch_add(1, std::memory_order_relaxed);
  stepprof::record_function scope(number % 2 == 0 ? "even signal" : "odd signal", stepprof::arg("number", number));
  if (scope.recorded()) accepted.fetch_add(1, std::memory_order_relaxed);
}

// Signals at short, uneven distances while it lives.
class timer {
 public:
  timer() {
    struct sigaction action = {};
    action.sa_handler = &on_timer;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &action, &before_);
    set(97);
  }
  ~timer() {
    set(0);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;

 private:
  static void set(int us) {
    itimerval every = {};
    every.it_interval.tv_usec = every.it_value.tv_usec = us;
    ::setitimer(ITIMER_REAL, &every, nullptr);
  }
  struct sigaction before_ = {};
};

}  // namespace

// Catches: a handler that finds the recorder half-way and breaks it: torn records, lost ends, wrong counts.
TEST_CASE("scopes of a handler that interrupts a recording thread anywhere are recorded or counted", "[signals]") {
  const test::heard heard;
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{64} << 20;
  stepprof::profile prof(options);
  handled = accepted = 0;
  std::uint64_t begins = 0;
  {
    const timer running;
    // Bounded: a machine may give few signals.
    for (int i = 0; i < 200000 && handled < 1000; ++i) {
      STEPPROF_SCOPE("outer");
      stepprof::record_function named("name " + std::to_string(i % 1000), stepprof::arg("i", i));
      stepprof::manual_scope manual;
      manual.begin("manual");
      manual.end();
      begins += 3;
    }
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(handled > 0);
  CHECK(t.losses().kept == begins + accepted);
  CHECK(t.losses().dropped == handled - accepted);
  CHECK(t.losses().reentrant == t.losses().dropped);
  CHECK(t.losses().unfinished == 0);
  CHECK(t.losses().unmatched_ends == 0);
  std::uint64_t outer = 0, signals = 0, named = 0, wrong = 0;
  for (const stepprof::trace_event& e : t.events()) {
    const std::string name(t.name(e));
    const stepprof::event_detail& d = t.detail(e);
    outer += name == "outer" && e.parent == stepprof::npos;
    signals += test::contains(name, "signal");
    // The argument of a scope is its own, whatever came between.
    if (name.compare(0, 5, "name ") != 0) continue;
    ++named;
    wrong += d.arg_count != 1 || "name " + std::to_string(t.arguments()[d.first_arg].int64 % 1000) != name;
  }
  CHECK(outer == begins / 3);
  CHECK(named == begins / 3);
  CHECK(wrong == 0);
  CHECK(signals == accepted);
  test::check_self_times(t);
}

}  // namespace signals_test
