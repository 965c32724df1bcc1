// Catches: options that are accepted and then record nothing, or refused without saying what to change.
#include <support/catch.hpp>
#include <support/event_builder.hpp>

#include <functional>
#include <stdexcept>
#include <string>

#include <stepprof/session/options.hpp>

namespace options_test {

using namespace stepprof;

namespace {

std::string fault_of(const profile_options& options, errc expected = errc::invalid_argument) {
  std::error_code ec = std::make_error_code(std::errc::io_error);
  validate(options, ec);
  if (!ec) {
    CHECK_NOTHROW(validate(options));
    return "";
  }
  CHECK(ec == expected);
  CHECK_THROWS_WITH(validate(options), ec.message());
  CHECK_THROWS_AS(validate(options), error);
  return ec.message();
}

template <class Change>
std::string fault_after(const Change& change, errc expected = errc::invalid_argument) {
  profile_options options;
  change(options);
  return fault_of(options, expected);
}

}  // namespace

// Catches: defaults that are refused, or that are not those documented.
TEST_CASE("the default options are valid", "[options]") {
  const profile_options options;
  CHECK(fault_of(options).empty());
  CHECK(options.schedule.empty());
  CHECK(options.event_budget_bytes == 268435456u);
  CHECK(to_string(options.when_full) == "drop_newest");
  CHECK(to_string(stepprof::fill_policy::ring) == "ring");
  CHECK_FALSE(options.accumulate);
  CHECK_FALSE(options.on_trace_ready);
}

// Catches: a field that is not checked, in one of the two error forms, or a message without its value.
TEST_CASE("each field that can be wrong is refused with value and remedy", "[options]") {
  CHECK(fault_after([](profile_options& o) {
          o.schedule = schedule{1, 1, 0};
        }) == "profile_options: schedule: active is 0, must be at least 1");
  CHECK(fault_after([](profile_options& o) { o.event_budget_bytes = 1048575; }) ==
        "profile_options: event_budget_bytes is 1048575, must be 1048576 (1 MiB) to 17179869184 (16 GiB)");
  CHECK(fault_after([](profile_options& o) { o.event_budget_bytes = 17179869185u; }) ==
        "profile_options: event_budget_bytes is 17179869185, must be 1048576 (1 MiB) to 17179869184 (16 GiB)");
  CHECK(fault_after([](profile_options& o) { o.when_full = static_cast<stepprof::fill_policy>(7); }) ==
        "profile_options: when_full is 7, must be fill_policy::drop_newest or fill_policy::ring");
  CHECK(fault_after([](profile_options& o) { o.when_full = stepprof::fill_policy::ring; }).empty());
  CHECK(fault_after([](profile_options& o) { o.accumulate_limit_bytes = 0; }) ==
        "profile_options: accumulate_limit_bytes is 0, must be at least 1048576 (1 MiB)");
  CHECK(fault_after([](profile_options& o) { o.activities.clear(); }) ==
        "profile_options: activities is empty, must hold at least activity::cpu");
  CHECK(fault_after([](profile_options& o) {
          o.activities = {activity::cpu, activity::cpu};
        }) == "profile_options: activities holds CPU twice, must hold it once");
  CHECK(fault_after([](profile_options& o) { o.event_budget_bytes = 1048576; }).empty());
  CHECK(fault_after([](profile_options& o) { o.event_budget_bytes = 17179869184u; }).empty());
  CHECK(fault_after([](profile_options& o) { o.accumulate_limit_bytes = UINT64_MAX; }).empty());
}

// Catches: an activity that is accepted and then yields zeros.
TEST_CASE("what cannot be recorded is refused as unsupported", "[options]") {
  CHECK(fault_after(
            [](profile_options& o) {
              o.activities = {activity::cpu, activity::cuda};
            },
            errc::unsupported) ==
        "profile_options: activities holds CUDA, which this build cannot record; leave it out");
  CHECK(fault_after([](profile_options& o) { o.activities = {activity::hardware_counters}; }, errc::unsupported) ==
        "profile_options: activities holds HARDWARE_COUNTERS, which this build cannot record; leave it out");
  CHECK(fault_after([](profile_options& o) { o.activities = {static_cast<activity>(200)}; }, errc::unsupported) ==
        "profile_options: activities holds UNKNOWN, which this build cannot record; leave it out");
}

// Catches: an option that is accepted and then records nothing.
TEST_CASE("stacks are refused where they cannot be walked", "[options]") {
  if (!stepprof::detail::system_can_unwind)
    CHECK(fault_after([](profile_options& o) { o.with_stack = true; }, errc::unsupported) ==
          "profile_options: with_stack is true, but stacks cannot be walked on this platform; set it to false");
}

// Catches: a depth that is taken for another one, or that overruns the frames of a stack.
TEST_CASE("the depth of stacks is checked where stacks are recorded", "[options]") {
  if (!stepprof::detail::system_can_unwind) return;
  for (const std::size_t depth : {std::size_t{0}, std::size_t{257}, std::size_t{SIZE_MAX}}) {
    const auto change = [depth](profile_options& o) { o.stack_depth = depth; };
    std::error_code ec;
    profile_options options;
    change(options);
    validate(options, ec);
    CHECK_FALSE(ec);
    const auto with_stack = [&](profile_options& o) {
      change(o);
      o.with_stack = true;
    };
    CHECK(fault_after(with_stack, errc::invalid_argument) ==
          "profile_options: stack_depth is " + std::to_string(depth) + ", must be 1 to 256");
  }
  profile_options options;
  options.with_stack = true;
  for (const std::size_t depth : {std::size_t{1}, std::size_t{256}}) {
    options.stack_depth = depth;
    std::error_code ec;
    validate(options, ec);
    CHECK_FALSE(ec);
  }
}

// Catches: only the first fault told, so that the user runs into the next one.
TEST_CASE("all faults are told at once", "[options]") {
  const auto change = [](profile_options& o) {
    o.activities = {activity::cuda};
    o.schedule = schedule{-1};
    o.event_budget_bytes = 0;
  };
  CHECK(fault_after(change) ==
        "profile_options: schedule: wait is -1, must be at least 0; activities holds CUDA, which this build cannot "
        "record; leave it out; event_budget_bytes is 0, must be 1048576 (1 MiB) to 17179869184 (16 GiB)");
}

// Catches: a rank that no file can be named after.
TEST_CASE("ranks", "[options]") {
  CHECK(fault_after([](profile_options& o) { o.rank = -5; }) ==
        "profile_options: rank is -5, must be -1 (none) or at least 0");
}

// Catches: flops that are counted from shapes which nobody recorded.
TEST_CASE("flops need shapes", "[options]") {
  profile_options options;
  CHECK_FALSE(options.needs_shapes());
  options.with_flops = true;
  CHECK(options.needs_shapes());
  options = {};
  options.record_shapes = true;
  CHECK(options.needs_shapes());
}

namespace {
int function_calls = 0;
void plain_function(const trace&) {
  ++function_calls;
}
struct both_forms {
  void operator()(const trace&) const { throw std::runtime_error("the throwing form"); }
  void operator()(const trace&, std::error_code& ec) const { ec = std::make_error_code(std::errc::no_space_on_device); }
};
}  // namespace

// Catches: a form of callback that is not accepted, is called in the wrong form, or whose error is lost.
TEST_CASE("a callback may have any of three forms", "[trace_callback]") {
  const trace t = test::events("t1: a[0..3]");
  trace_callback callback;
  CHECK_FALSE(callback);
  CHECK_FALSE(callback(t));

  std::size_t seen = 0;
  callback = [&seen](const trace& given) { seen = given.events().size(); };
  CHECK(callback);
  CHECK_FALSE(callback(t));
  CHECK(seen == 1);
  callback = [&seen](const trace&) { return ++seen; };  // a result that is no error
  CHECK_FALSE(callback(t));
  CHECK(seen == 2);

  callback = plain_function;
  CHECK_FALSE(callback(t));
  CHECK(function_calls == 1);

  callback = [](const trace&) { return std::make_error_code(std::errc::io_error); };
  CHECK(callback(t) == std::errc::io_error);
  callback = both_forms();
  CHECK(callback(t) == std::errc::no_space_on_device);
}

// Catches: emptiness in another coat that is called and throws bad_function_call.
TEST_CASE("nothing to call is nothing", "[trace_callback]") {
  CHECK_FALSE(trace_callback(nullptr));
  CHECK_FALSE(trace_callback(std::function<void(const trace&)>()));
  CHECK_FALSE(trace_callback(std::function<void(const trace&, std::error_code&)>()));
  CHECK_FALSE(trace_callback(static_cast<void (*)(const trace&)>(nullptr)));
  static_assert(!std::is_constructible_v<trace_callback, int>, "");
}

// FC-08: pytorch/pytorch#167838
// Catches: an exception that leaves step(), or an error without its text.
TEST_CASE("what a callback throws becomes an error with its text", "[trace_callback]") {
  const trace_callback throwing = [](const trace&) { throw std::runtime_error("disk on fire"); };
  const std::error_code ec = throwing(trace());
  CHECK(ec == errc::callback_failed);
  CHECK(ec.message() == "on_trace_ready: the callback threw: disk on fire");
  const trace_callback odd = [](const trace&) { throw 3; };
  CHECK(odd(trace()) == errc::callback_failed);
  const trace t;
  static_assert(noexcept(odd(t)), "");
}

}  // namespace options_test
