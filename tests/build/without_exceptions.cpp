// Catches: a profile that needs exceptions to refuse what it cannot follow, or to come through a callback that fails.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>

#include <stepprof/stepprof.hpp>

#include "checks.hpp"

namespace {

void refused(const stepprof::schedule& schedule, const char* says) {
  stepprof::profile_options options;
  options.schedule = schedule;
  std::error_code ec;
  const std::unique_ptr<stepprof::profile> made = stepprof::profile::create(options, ec);
  check(made == nullptr, says);
  check(ec == stepprof::errc::invalid_argument, says);
  check(ec.message().find(says) != std::string::npos, says);
}

// FC-04: pytorch/torchtitan PR4233, google/tunix PR2088
void impossible_schedules() {
  refused({1, 1, 0, 1}, "active is 0, must be at least 1");
  refused({0, 0, 0, 0}, "active is 0, must be at least 1");
  refused({-1, 1, 1, 1}, "wait is -1, must be at least 0");
  refused({1, -1, 1, 1}, "warmup is -1, must be at least 0");
  refused({1, 1, -1, 1}, "active is -1, must be at least 1");
  refused({1, 1, 1, -1}, "repeat is -1, must be at least 0");
  refused({1, 1, 1, 1, -1}, "skip_first is -1, must be at least 0");
  refused({1, 1, 1, 1, 1, -1}, "skip_first_wait is -1, must be at least 0");
}

void valid_schedules() {
  std::error_code ec;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{INT64_MAX, 1, 1, 0};
  const std::unique_ptr<stepprof::profile> never = stepprof::profile::create(options, ec);
  check(!ec && never != nullptr, "wait = INT64_MAX is valid");
  if (never == nullptr) return;
  never->step();
  never->stop();
  check(never->result().events().empty(), "wait = INT64_MAX records nothing");

  int cycles = 0;
  options.schedule = stepprof::schedule{0, 0, 1, 0};
  options.on_trace_ready = [&cycles](const stepprof::trace& t) {
    ++cycles;
    check(t.events().size() == 2, "each step and its scope");
    return std::make_error_code(std::errc::no_space_on_device);
  };
  const std::unique_ptr<stepprof::profile> each = stepprof::profile::create(options, ec);
  check(!ec && each != nullptr, "active = 1 alone is valid");
  if (each == nullptr) return;
  check(stepprof::profile::create({}, ec) == nullptr, "a second profile is refused");
  check(ec == stepprof::errc::already_running, "because the first one runs");
  for (int i = 0; i < 3; ++i) {
    { STEPPROF_SCOPE("s"); }
    each->step();
  }
  each->stop();
  check(cycles == 3, "every step is recorded, although the callback fails");
  check(!each->last_error().empty(), "the callback's error is kept");
  check(each->key_averages().at("s").calls == 1, "the last cycle can be read");
}

}  // namespace

int main() {
  stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
  impossible_schedules();
  valid_schedules();
  return failures == 0 ? 0 : 1;
}
