// Catches: calls in the wrong order or place, failing callbacks and second profiles that break what is running.
#include <support/clocked_work.hpp>
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>
#include <support/temp_folder.hpp>

#include <memory>
#include <stdexcept>
#include <thread>

#include <stepprof/stepprof.hpp>

namespace profile_refusals_test {

using test::fake_clock;
using test::work;

namespace {

// The names of the scopes of a trace.
std::string names(const stepprof::trace& t) {
  std::string text;
  for (const stepprof::trace_event& e : t.events())
    if (!e.has(stepprof::trace_event::step)) text += (text.empty() ? "" : " ") + std::string(t.name(e));
  return text;
}

std::string refusal_of(const stepprof::profile_options& options) {
  std::error_code ec;
  const std::unique_ptr<stepprof::profile> made = stepprof::profile::create(options, ec);
  CHECK((made == nullptr) == static_cast<bool>(ec));
  std::string thrown;
  try {
    const stepprof::profile prof(options, stepprof::deferred);
  } catch (const stepprof::error& e) {
    thrown = e.what();
    CHECK(e.code() == stepprof::errc::invalid_argument);
  }
  CHECK(thrown == (ec ? ec.message() : ""));
  return thrown;
}

}  // namespace

// Catches: a schedule that cannot be followed and is only found out in the loop, or takes the program down.
// FC-04: pytorch/torchtitan PR4233, google/tunix PR2088. Without exceptions: tests/build.
TEST_CASE("impossible schedules are refused at construction, by both forms", "[profile]") {
  const test::heard heard;
  struct {
    stepprof::schedule schedule;
    const char* says;
  } const cases[] = {
      {{1, 1, 0, 1}, "active is 0, must be at least 1"},
      {{-1, 1, 1, 1}, "wait is -1, must be at least 0"},
      {{1, -1, 1, 1}, "warmup is -1, must be at least 0"},
      {{1, 1, -1, 1}, "active is -1, must be at least 1"},
      {{1, 1, 1, -1}, "repeat is -1, must be at least 0"},
      {{1, 1, 1, 1, -1}, "skip_first is -1, must be at least 0"},
      {{1, 1, 1, 1, 1, -1}, "skip_first_wait is -1, must be at least 0"},
      {{0, 0, 0, 0}, "active is 0, must be at least 1"},
  };
  for (const auto& c : cases) {
    stepprof::profile_options options;
    options.schedule = c.schedule;
    CHECK(test::contains(refusal_of(options), c.says));
    CHECK_THROWS_AS(stepprof::profile(options), stepprof::error);
  }
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{INT64_MAX, 1, 1, 0};  // nothing overflows; it only never begins
  CHECK(refusal_of(options).empty());
  stepprof::profile never(options);
  work("s");
  never.step();
  never.stop();
  CHECK(never.result().events().empty());
  CHECK(heard.codes() == "no_active_step no_active_step");  // of the one that create() made, and of this one

  options.schedule = stepprof::schedule{0, 0, 1, 0};
  std::string recorded;
  options.on_trace_ready = [&](const stepprof::trace& t) { recorded += names(t) + ";"; };
  stepprof::profile each(options);
  for (const char* name : {"a", "b", "c"}) {
    work(name);
    each.step();
  }
  each.stop();
  CHECK(recorded == "a;b;c;");
}

// Catches: an activity that cannot be recorded and shows up as zeros.
TEST_CASE("what cannot be recorded is refused by the profile", "[profile]") {
  stepprof::profile_options options;
  options.activities = {stepprof::activity::cpu, stepprof::activity::cuda};
  std::error_code ec;
  CHECK(stepprof::profile::create(options, ec) == nullptr);
  CHECK(ec == stepprof::errc::unsupported);
  CHECK(test::contains(ec.message(), "CUDA"));
}

// Catches: an exception of the callback that leaves step() and ends the training, or that stops later cycles.
// FC-08: pytorch/pytorch#167838, NovaSky-AI/SkyRL PR1750
TEST_CASE("a callback that fails does not disturb the loop and is told once", "[profile]") {
  for (const bool throws : {true, false}) {
    const test::heard heard;
    int calls = 0;
    stepprof::profile_options options;
    options.schedule = stepprof::schedule{0, 1, 1, 3};
    if (throws)
      options.on_trace_ready = [&](const stepprof::trace&) {
        if (++calls == 1) throw std::runtime_error("disk is full");
      };
    else
      options.on_trace_ready = [&](const stepprof::trace&) {
        return ++calls == 1 ? std::make_error_code(std::errc::no_space_on_device) : std::error_code();
      };
    stepprof::profile prof(options);
    CHECK(prof.last_error() == "");
    for (int i = 0; i < 6; ++i) {
      work("s");
      prof.step();
      CHECK(calls == (i + 1) / 2);
    }
    CHECK(test::contains(prof.last_error(), throws ? "disk is full" : "No space left on device"));
    CHECK(heard.codes() == "callback_failed");
    CHECK(heard.all.at(0).severity == stepprof::diagnostic_severity::error);
    CHECK(names(prof.result()) == "s");
    CHECK(prof.result().info().cycle == 2);
    prof.stop();
    CHECK(calls == 3);
  }
}

// Catches: a callback that throws while another exception unwinds the stack, which ends the program.
// FC-09: RobTand/prismaquant#899
TEST_CASE("a callback may throw while an exception is in flight", "[profile]") {
  const test::heard heard;
  static_assert(std::is_nothrow_destructible_v<stepprof::profile>);
  stepprof::profile_options options;
  options.on_trace_ready = [](const stepprof::trace&) { throw std::runtime_error("from the callback"); };
  std::string caught;
  try {
    stepprof::profile prof(options);
    stepprof::record_function scope("s");
    throw std::runtime_error("of the program");
  } catch (const std::exception& e) {
    caught = e.what();
  }
  CHECK(caught == "of the program");
  REQUIRE(heard.codes() == "callback_failed");
  CHECK(test::contains(heard.all[0].text, "from the callback"));

  // The same from a clean-up block, where the profile can still be asked.
  stepprof::profile prof(options);
  struct clean_up {
    stepprof::profile& prof;
    ~clean_up() { prof.stop(); }
  };
  try {
    const clean_up at_end{prof};
    throw std::runtime_error("of the program");
  } catch (const std::exception& e) {
    caught = e.what();
  }
  CHECK(caught == "of the program");
  CHECK(test::contains(prof.last_error(), "from the callback"));
  CHECK_FALSE(prof.running());
}

// Catches: a second stop that delivers again, fails loudly or breaks the next start.
// FC-10: vllm-project/vllm#51676, pytorch/kineto PR1029. From two threads: integration/profile_threads_test.cpp
TEST_CASE("stop before start and stop twice say that nothing runs", "[profile]") {
  const test::heard heard;
  int delivered = 0;
  stepprof::profile_options options;
  options.on_trace_ready = [&](const stepprof::trace&) { ++delivered; };
  stepprof::profile prof(options, stepprof::deferred);
  std::error_code ec;
  prof.stop(ec);
  CHECK(ec == stepprof::errc::not_running);
  prof.stop();
  prof.pause();
  prof.resume();
  CHECK_FALSE(prof.running());
  CHECK(delivered == 0);
  CHECK(heard.codes() == "");  // stop is a clean-up: it does not complain
  prof.step(ec);
  CHECK(ec == stepprof::errc::not_running);
  CHECK(test::contains(ec.message(), "call start() first"));
  CHECK(prof.step_number() == 0);
  CHECK(prof.last_error() == "");
  prof.step();
  prof.step();
  CHECK(heard.codes() == "step_refused");
  CHECK(test::contains(prof.last_error(), "not running"));

  for (int round = 1; round <= 3; ++round) {
    prof.start();
    work("s");
    prof.stop(ec);
    CHECK_FALSE(ec);
    prof.stop(ec);
    CHECK(ec == stepprof::errc::not_running);
    CHECK(delivered == round);
    CHECK(names(prof.result()) == "s");
  }
  prof.start();
  prof.start(ec);
  CHECK(ec == stepprof::errc::already_running);
  CHECK_THROWS_AS(prof.start(), stepprof::error);
  CHECK(prof.running());
}

// Catches: a second profile that stops the first one, or records nothing without a word.
// FC-12: pytorch/pytorch#44881, awwong1/torchprof#14, python/cpython#110770
TEST_CASE("a second profile is refused by the name of the first, which goes on", "[profile]") {
  const test::heard heard;
  stepprof::profile_options first_options;
  first_options.process_name = "trainer";
  stepprof::profile first(first_options);
  work("1");
  {
    stepprof::record_function around("around");  // (c): inside a function that the first one records
    std::error_code ec;
    CHECK(stepprof::profile::create({}, ec) == nullptr);
    CHECK(ec == stepprof::errc::already_running);
    CHECK(test::contains(ec.message(), "'trainer'"));
    CHECK(test::contains(ec.message(), "stop it first"));
    CHECK_THROWS_AS(stepprof::profile(), stepprof::error);
    work("2");
  }
  stepprof::profile second({}, stepprof::deferred);
  std::error_code ec;
  second.start(ec);
  CHECK(ec == stepprof::errc::already_running);
  second.stop(ec);  // (a): stops nothing
  CHECK(ec == stepprof::errc::not_running);
  second.pause();
  work("3");
  second.resume();
  CHECK(second.snapshot().events().empty());
  CHECK(first.running());
  CHECK_FALSE(second.running());
  first.stop();
  CHECK(names(first.result()) == "1 around 2 3");
  second.start();  // (b): after the first one has stopped
  work("4");
  second.stop();
  CHECK(names(second.result()) == "4");
  CHECK(names(first.result()) == "1 around 2 3");
  CHECK(heard.codes() == "");
}

// Catches: profiling from inside the callback that hangs, goes into the cycle being delivered, or fails in silence.
// FC-13: pytorch/pytorch#57172
TEST_CASE("the callback may record, read and export but not control", "[profile]") {
  const test::heard heard;
  std::vector<std::error_code> refused;
  std::string inside;
  stepprof::profile* running = nullptr;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 1, 2};
  options.on_trace_ready = [&](const stepprof::trace& t) {
    work("in the callback");
    inside += names(t) + ";";
    CHECK(test::contains(stepprof::key_averages(t).table(), "Self CPU time total"));
    CHECK(test::chrome_text(t) == test::chrome_text(t));
    CHECK(names(running->result()) == names(t));
    running->add_metadata("from", "inside");
    std::error_code ec;
    const test::temp_folder folder;
    running->export_stacks(folder / "stacks.txt", "self_cpu_time_total", ec);
    CHECK_FALSE(ec);
    CHECK(test::contents_of(folder / "stacks.txt") ==
          "ProfilerStep#" + std::to_string(t.info().first_step) + ";s 100\n");
    running->export_chrome_trace(folder / "trace.json", ec);
    CHECK_FALSE(ec);
    CHECK(test::check_trace(test::contents_of(folder / "trace.json")).slice_count("s") == 1);
    CHECK(stepprof::profile::create({}, ec) == nullptr);
    refused.push_back(ec);
    running->step(ec);
    refused.push_back(ec);
    running->stop(ec);
    refused.push_back(ec);
    running->start(ec);
    refused.push_back(ec);
    CHECK_THROWS_AS(stepprof::profile(), stepprof::error);
    stepprof::profile other({}, stepprof::deferred);
    other.stop(ec);
    CHECK(ec == stepprof::errc::not_running);
  };
  stepprof::profile prof(options);
  running = &prof;
  for (int i = 0; i < 4; ++i) {
    work("s");
    prof.step();
  }
  prof.stop();
  CHECK(inside == "s;s;");
  REQUIRE(refused.size() == 8);
  for (const std::error_code& ec : refused) {
    CHECK(ec == stepprof::errc::already_running);
    CHECK(test::contains(ec.message(), "inside on_trace_ready"));
  }
  CHECK(heard.codes() == "");
  CHECK(prof.result().metadata().size() == 1);
}

// Catches: the calls without an error code that are refused in the callback and say nothing.
TEST_CASE("what the callback may not do is reported once and kept as the last error", "[profile]") {
  const test::heard heard;
  stepprof::profile* running = nullptr;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 1, 0};
  options.on_trace_ready = [&](const stepprof::trace&) {
    running->step();
    running->stop();
    running->pause();
    running->resume();
  };
  stepprof::profile prof(options);
  running = &prof;
  for (int i = 0; i < 4; ++i) {
    work("s");
    prof.step();
  }
  CHECK(prof.running());
  CHECK(prof.step_number() == 4);
  CHECK(heard.codes() == "step_refused stop_refused pause_refused resume_refused");
  CHECK(test::contains(prof.last_error(), "resume()"));
  work("s");
  CHECK(names(prof.snapshot()) == "s");  // not paused
}

// Catches: a diagnostics hook that makes a control call and waits for ever, as the reporting call still holds its lock.
TEST_CASE("the diagnostics hook may control and read the profile that reports", "[profile]") {
  stepprof::profile* running = nullptr;
  std::string seen;
  std::string last_text;
  const stepprof::diagnostics_hook before = stepprof::set_diagnostics_hook([&](const stepprof::diagnostic& d) {
    seen += d.code + ";";
    last_text = d.text;
    static_cast<void>(running->last_error());
    static_cast<void>(running->result());
    if (d.code == "callback_failed") running->step();
    if (d.code == "accumulate_limit") running->stop();
  });
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 1, 0};
  options.accumulate = true;
  options.accumulate_limit_bytes = 1 << 20;
  options.on_trace_ready = [](const stepprof::trace&) { throw 1; };
  stepprof::profile prof(options);
  running = &prof;
  prof.step();
  work("s");
  prof.step();  // step 2, and from the hook step 3
  CHECK(prof.step_number() == 3);
  for (int i = 0; i < 40000; ++i) work("s");
  prof.step();
  stepprof::set_diagnostics_hook(before);
  CHECK(seen == "callback_failed;accumulate_limit;");
  CHECK_FALSE(prof.running());
  CHECK(names(prof.result()) == "s");  // the small cycle
  CHECK(test::contains(last_text, "accumulate_limit_bytes is 1048576"));
}

// Catches: a schedule's callable that makes a control call and waits for ever.
TEST_CASE("a schedule may read the profile but not control it", "[profile]") {
  const test::heard heard;
  stepprof::profile* running = nullptr;
  stepprof::profile_options options;
  options.schedule = [&](std::int64_t step) {
    if (running != nullptr) {
      static_cast<void>(running->step_number());
      std::error_code ec;
      running->stop(ec);
      CHECK(ec == stepprof::errc::already_running);
    }
    return step < 100 ? stepprof::action::none : stepprof::action::record;
  };
  stepprof::profile prof(options);
  running = &prof;
  prof.step();
  prof.step();
  CHECK(prof.step_number() == 2);
  prof.stop();
  REQUIRE(heard.codes() == "no_active_step");
  CHECK(test::contains(heard.all[0].text, "first active step: 100"));
}

// Catches: a callable whose copy throws, which stop() asks a copy of and which would end the program there.
TEST_CASE("a schedule whose copy throws does not end the program", "[profile]") {
  const test::heard heard;
  struct uncopyable {
    bool* armed;
    explicit uncopyable(bool* a) : armed(a) {}
    uncopyable(const uncopyable& other) : armed(other.armed) {
      if (*armed) throw std::runtime_error("copied");
    }
    stepprof::action operator()(std::int64_t) const { return stepprof::action::none; }
  };
  bool armed = false;
  stepprof::profile_options options;
  options.schedule = uncopyable(&armed);
  stepprof::profile prof(options);
  armed = true;
  prof.step();
  prof.stop();
  REQUIRE(heard.codes() == "no_active_step");
  CHECK(test::contains(heard.all[0].text, "first active step: none that could be found"));
}

// Catches: what is odd being reported at every step, or only for the first profile of the process.
TEST_CASE("diagnostics come once from each profile", "[profile]") {
  for (int i = 0; i < 2; ++i) {
    const test::heard heard;
    stepprof::profile_options options;
    options.schedule = stepprof::schedule{0, 0, 1, 0};
    stepprof::profile prof(options);
    prof.stop();
    prof.start();
    prof.stop();
    prof.start();
    CHECK(heard.codes() == "no_warmup");
    std::thread([&] { prof.step(); }).join();
    prof.step();
    std::thread([&] { prof.step(); }).join();
    prof.step();
    prof.stop();
    CHECK(heard.codes() == "no_warmup steps_apart");
  }
}

}  // namespace profile_refusals_test
