// Catches: signal handlers that record: records torn by them, or their scopes lost without being counted.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <csignal>
#include <string>
#include <thread>

#include <stepprof/stepprof.hpp>

namespace signals_test {

using test::fake_clock;

namespace {

// A signal that comes while this thread reads the clock for the n-th time from now. The begin and the end of a scope
// read it before they write; longer records read it while they are being written.
struct interrupted {
  static inline int countdown = 0;
  static inline int handled = 0;
  static inline int accepted = 0;  // scopes of the handler

  explicit interrupted(int reading) {
    before_ = std::signal(SIGUSR1, &handler);
    handled = accepted = 0;
    countdown = reading;
    fake_clock::call_at_reading(&at_reading);
  }
  ~interrupted() {
    fake_clock::call_at_reading(nullptr);
    std::signal(SIGUSR1, before_);
  }
  interrupted(const interrupted&) = delete;
  interrupted& operator=(const interrupted&) = delete;

 private:
  static void at_reading() {
    if (countdown > 0 && --countdown == 0) std::raise(SIGUSR1);
  }
  static void handler(int) {
    ++handled;
    {
      const stepprof::record_function scope("handler");
      accepted += scope.recorded() ? 1 : 0;
    }
    {
      stepprof::manual_scope scope;
      scope.begin("handler's own");
      accepted += scope.recorded() ? 1 : 0;
    }
    stepprof::mark("handled");
    stepprof::report_alloc(&handled, 4);
  }
  void (*before_)(int);
};

// Inside the recorder the clock is read for records that have a time: here for the counter's.
void scope_with_argument() {
  const stepprof::record_function scope("outer", stepprof::arg("key", 7));
  stepprof::counter("level", 1);
}

}  // namespace

// Catches: a handler that writes into a half-written record, or whose scopes vanish without a count.
TEST_CASE("a scope of a signal handler is recorded outside the recorder and refused and counted inside", "[signals]") {
  stepprof::profile_options options;
  options.profile_memory = true;
  fake_clock::ticks_per_reading(1);
  int outside = 0;
  int inside = 0;
  for (int reading = 1; reading < 20; ++reading) {
    CAPTURE(reading);
    const test::heard heard;
    stepprof::profile prof(options);
    scope_with_argument();  // this session's names are known from here on
    {
      const interrupted here(reading);
      scope_with_argument();
    }
    scope_with_argument();
    prof.stop();
    const int handled = interrupted::handled, accepted = interrupted::accepted;
    if (handled == 0) break;  // there are no more readings
    const stepprof::trace t = prof.result();
    test::check_rules(t);
    std::string names;
    int whole = 0;
    for (const stepprof::trace_event& e : t.events()) {
      const stepprof::event_detail& d = t.detail(e);
      if (t.name(e) != "outer") continue;
      whole += d.arg_count == 1 && t.arguments()[d.first_arg].int64 == 7 && !e.has(stepprof::trace_event::unfinished);
    }
    CHECK(whole == 3);
    CHECK((accepted == 0 || accepted == 2));
    CHECK(t.events().size() == 3 + static_cast<std::size_t>(accepted));
    CHECK(t.losses().kept == t.events().size());
    CHECK(t.losses().unfinished == 0);
    CHECK(t.losses().unmatched_ends == 0);
    CHECK(t.losses().dropped == static_cast<std::uint64_t>(2 - accepted));
    CHECK(t.losses().reentrant == t.losses().dropped);
    CHECK(t.losses().dropped_arguments == (accepted == 0 ? 1 : 0));
    CHECK(t.losses().dropped_memory == (accepted == 0 ? 1 : 0));
    CHECK(t.marks().size() + t.losses().dropped_arguments == 4);  // three of the counter, and the handler's
    CHECK(t.memory().size() + t.losses().dropped_memory == 1);
    CHECK(test::contains(heard.codes(), "reentrant_scopes") == (accepted == 0));
    ++(accepted == 0 ? inside : outside);
  }
  // Before the begin is written, while the counter is being written, and before the end is written.
  CHECK(outside == 2);
  CHECK(inside == 1);
  fake_clock::ticks_per_reading(0);
}

// Catches: scopes of handlers that are children of the wrong scope.
TEST_CASE("the scope of a signal handler stands where the signal came", "[signals]") {
  const auto drawn = [](int reading) {
    stepprof::profile prof;
    {
      const interrupted here(reading);
      for (int i = 0; i < 2; ++i) {
        STEPPROF_SCOPE("outer");
      }
    }
    prof.stop();
    std::string names;
    const stepprof::trace t = prof.result();
    for (const stepprof::trace_event& e : t.events())
      names += std::string(t.name(e)) + (e.parent == stepprof::npos ? " " : "< ");
    return names;
  };
  drawn(100);  // the call site and this thread are known from here on
  CHECK(drawn(1) == "handler handler's own outer outer ");
  CHECK(drawn(2) == "outer handler< handler's own< outer ");
  CHECK(drawn(3) == "outer handler handler's own outer ");
  CHECK(drawn(4) == "outer outer handler< handler's own< ");
}

// Catches: a handler that finds the recorder in a state of its own while a thread gets its log, a chunk or a name.
TEST_CASE("a signal at any reading of a thread's first scopes breaks nothing", "[signals]") {
  fake_clock::ticks_per_reading(1);
  int last = 0;
  for (int reading = 1; reading < 40; ++reading) {
    CAPTURE(reading);
    const test::heard heard;
    stepprof::profile prof;
    int handled = 0, accepted = 0;
    std::thread([&] {
      const interrupted here(reading);
      stepprof::record_function outer("first of thread " + std::to_string(reading), stepprof::arg("key", 1));
      stepprof::manual_scope manual;
      manual.begin("manual");
      fake_clock::advance(std::int64_t{1} << 32);  // the next record is one of an epoch
      { STEPPROF_SCOPE("inner"); }
      manual.end();
      handled = interrupted::handled;
      accepted = interrupted::accepted;
      interrupted::countdown = 0;
    }).join();
    prof.stop();
    const stepprof::trace t = prof.result();
    CHECK(t.losses().kept == static_cast<std::uint64_t>(3 + accepted));
    CHECK(t.losses().dropped == static_cast<std::uint64_t>(2 * handled - accepted));
    CHECK(t.losses().reentrant == t.losses().dropped);
    CHECK(t.losses().unfinished == 0);
    test::check_rules(t);
    if (handled == 0) break;
    last = reading;
  }
  CHECK(last >= 7);  // two at the first record of a thread, one more at every other that has a time
  CHECK(last < 39);
  fake_clock::ticks_per_reading(0);
}

// Catches: an end that leaves the recorder of a thread which has no log, and so opens what every such thread shares.
TEST_CASE("an end that entered the recorder before its thread lost the log in a fork changes nothing", "[signals]") {
  const stepprof::profile prof;
  // As in a child that a signal handler forked between the end's entering and its slow path.
  std::thread([] {
    const std::uint32_t end = stepprof::detail::what_of(stepprof::detail::tag::end, 1);
    stepprof::detail::cold_paths()->end(stepprof::stamp{}, end, 0xfffffffeu, true);
  }).join();
  CHECK(stepprof::detail::no_log.inside);
  CHECK(stepprof::detail::no_log.owner == 0);
}

}  // namespace signals_test
