// Catches: signals at any place of the recorder that tear records apart.
// FC-68: https://github.com/gperftools/gperftools/issues/775, https://github.com/gperftools/gperftools/issues/1188,
// https://github.com/tmm1/stackprof/pull/242, https://github.com/HPCToolkit/hpctoolkit/issues/96
// At every single instruction: tests/clocked/every_instruction_test.cpp.
#include <support/counts.hpp>
#include <support/recorded.hpp>
#include <support/sanitized.hpp>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/time.h>

#include <stepprof/stepprof.hpp>

namespace signals_test {

namespace {

std::atomic<std::uint64_t> handled{0};
std::atomic<std::uint64_t> accepted{0};
std::atomic<std::uint64_t> too_late{0};  // refused because their thread's end was seen, not because of the recorder

void on_timer(int) {
  const std::uint64_t number = handled.fetch_add(1, std::memory_order_relaxed);
  stepprof::record_function scope(number % 2 == 0 ? "even signal" : "odd signal", stepprof::arg("number", number));
  if (scope.recorded())
    accepted.fetch_add(1, std::memory_order_relaxed);
  else if (stepprof::detail::this_thread.exited)
    too_late.fetch_add(1, std::memory_order_relaxed);
}

// Whether the calling thread, and those that it makes, leave the timer's signals to other threads.
void leave_signals_to_others(bool leave) {
  sigset_t of_timer;
  ::sigemptyset(&of_timer);
  ::sigaddset(&of_timer, SIGALRM);
  ::pthread_sigmask(leave ? SIG_BLOCK : SIG_UNBLOCK, &of_timer, nullptr);
}

// Signals at short, uneven distances while it lives: ten thousand in a second, where the machine gives so many.
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
    std::signal(SIGALRM, SIG_IGN);  // one that nobody has taken yet is forgotten
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

namespace {

constexpr std::uint64_t scopes_of_round = 3;

// One round, in which all scopes but those of the handler are accepted.
void record_round(std::uint64_t i) {
  STEPPROF_SCOPE("outer");
  const stepprof::record_function named("name " + std::to_string(i % 100), stepprof::arg("i", i));
  stepprof::manual_scope manual;
  manual.begin("manual");
}

// Threads on which signals come, while it lives. Each is allowed so many rounds.
class interrupted_threads {
 public:
  explicit interrupted_threads(int count) {
    for (int n = 0; n < count; ++n)
      threads_.emplace_back([this] {
        leave_signals_to_others(false);
        for (std::uint64_t i = 0;;) {
          const bool last = done_;
          for (; i < allowed_; ++i) record_round(i);
          if (last) return;
          std::this_thread::yield();
        }
      });
    // Each of them is new to the recorder, and dies at once.
    threads_.emplace_back([this] {
      leave_signals_to_others(false);
      for (;;) {
        const bool last = done_;
        for (; fresh_ < fresh_allowed_; ++fresh_) std::thread(&record_round, 0).join();
        if (last) return;
        std::this_thread::yield();
      }
    });
  }
  // Returns the rounds of all threads together.
  std::uint64_t join() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
    return allowed_ * (threads_.size() - 1) + fresh_;
  }
  void allow(std::uint64_t rounds, std::uint64_t fresh) {
    allowed_ += rounds;
    fresh_allowed_ += fresh;
  }

 private:
  std::atomic<std::uint64_t> allowed_{0}, fresh_allowed_{0}, fresh_{0};
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

// Scopes of traces, and what the traces say of them.
struct sums {
  stepprof::loss_counts lost;
  std::uint64_t outer = 0, named = 0, manual = 0, signals = 0, wrong = 0;

  void add(const stepprof::trace& t) {
    stepprof::detail::add_losses(lost, t.losses());
    for (const stepprof::trace_event& e : t.events()) {
      const std::string_view name = t.name(e);
      outer += name == "outer" ? 1u : 0u;
      named += name.substr(0, 5) == "name " ? 1u : 0u;
      manual += name == "manual" ? 1u : 0u;
      signals += name == "odd signal" || name == "even signal" ? 1u : 0u;
      if (name == "outer" && e.parent != stepprof::npos) ++wrong;
      if (name == "manual" && e.parent != stepprof::npos && t.name(t.events()[e.parent]).substr(0, 5) != "name ")
        ++wrong;
    }
    test::check_self_times(t);
  }
};

}  // namespace

// Catches: a handler that meets the recorder where a chunk ends, where a thread is new, or where a window is cut, and
// breaks it: torn records, lost ends, wrong counts.
TEST_CASE("handlers interrupt threads that record, begin and end while windows are cut", "[signals]") {
  if (STEPPROF_POSIX == 0) return;  // what sees the end of a thread is then made on the heap
  const test::heard heard;
  constexpr int steps = 12;
  const std::uint64_t burst = test::sanitized ? 2000 : 6000;  // chunks are 64 KiB: each burst goes through several
  sums all;
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{64} << 20;
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  options.on_trace_ready = [&](const stepprof::trace& t) { all.add(t); };
  stepprof::profile prof(options);
  handled = accepted = too_late = 0;
  std::uint64_t rounds = 0;
  leave_signals_to_others(true);
  {
    interrupted_threads threads(2);
    const timer running;
    for (int step = 0; step < steps; ++step) {
      leave_signals_to_others(step % 4 != 3);  // now and then it is the control calls that are interrupted
      threads.allow(burst, 10);
      prof.step();
    }
    leave_signals_to_others(true);
    rounds = threads.join();
  }
  leave_signals_to_others(false);
  prof.stop();
  CAPTURE(handled, accepted, too_late, all.lost.unfinished);
  CHECK(handled > 0);
  CHECK(rounds == steps * (2 * burst + 10));
  CHECK(test::begins(all.lost) == scopes_of_round * rounds + handled);
  CHECK(all.lost.kept + all.lost.unfinished + all.lost.late == scopes_of_round * rounds + accepted);
  CHECK(all.lost.reentrant + too_late == all.lost.dropped);
  CHECK(all.lost.late == 0);
  CHECK(all.lost.unmatched_ends == 0);
  CHECK(all.outer == rounds);
  CHECK(all.named == rounds);
  CHECK(all.manual == rounds);
  CHECK(all.signals == accepted);
  CHECK(all.wrong == 0);
}

// Catches: a handler that records while the profile starts or stops, on the threads and in the calls themselves, and
// whose scopes are lost or counted twice.
TEST_CASE("handlers interrupt threads, and the calls themselves, while a profile starts and stops", "[signals]") {
  if (STEPPROF_POSIX == 0) return;  // what sees the end of a thread is then made on the heap
  const test::heard heard;
  const int turns = test::sanitized ? 40 : 200;
  const stepprof::recording_totals before = stepprof::process_totals();
  handled = accepted = 0;
  sums all;
  std::uint64_t own = 0;
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{8} << 20;
  stepprof::profile prof(options, stepprof::deferred);
  {
    interrupted_threads threads(1);
    const timer running;
    for (int i = 0; i < turns; ++i) {
      leave_signals_to_others(i % 2 == 0);
      prof.start();
      record_round(0);
      own += scopes_of_round;
      threads.allow(50, 1);
      prof.stop();
      all.add(prof.result());
    }
    leave_signals_to_others(true);
    threads.join();
  }
  leave_signals_to_others(false);
  const stepprof::recording_totals after = stepprof::process_totals();
  CAPTURE(handled, accepted, all.lost.unfinished, after.late - before.late, after.dropped - before.dropped);
  CHECK(handled > 0);
  CHECK(after.kept + after.unfinished - before.kept - before.unfinished == all.lost.kept + all.lost.unfinished);
  CHECK(all.lost.kept + all.lost.unfinished == all.outer + all.named + all.manual + all.signals);
  CHECK(all.outer + all.named + all.manual >= own);
  CHECK(all.signals <= accepted);
  CHECK(all.signals + (after.late - before.late) >= accepted);
  CHECK(after.dropped - before.dropped <= handled - accepted);
  CHECK(all.lost.reentrant <= after.dropped - before.dropped);
  CHECK(all.lost.unmatched_ends == 0);
  CHECK(all.wrong == 0);
}

}  // namespace signals_test
