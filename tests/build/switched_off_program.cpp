// Catches: a program that ends early, on an exception or an error, when it is compiled with STEPPROF_DISABLE: it calls
// every method of profile as it would with scopes.
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>

#include <stepprof/stepprof.hpp>

#include "checks.hpp"

namespace {

void work(stepprof::profile& prof) {
  STEPPROF_FUNCTION();
  STEPPROF_SCOPE("work", stepprof::arg("key", 1));
  const stepprof::record_function scope("work", stepprof::scope_kind::op, stepprof::inputs(1));
  check(!scope.recorded(), "the scope is compiled out");
  prof.pause();
  prof.resume();
}

void all_methods(const stepprof::profile_options& options) {
  stepprof::profile prof(options, stepprof::deferred);
  prof.add_metadata("before", "start");
  prof.start();
  for (int i = 0; i < 5; ++i) {
    work(prof);
    check(prof.running() && prof.step_number() == i, "it follows the steps");
    static_cast<void>(prof.current_action());
    static_cast<void>(prof.snapshot());
    prof.step();
  }
  prof.stop();
  prof.add_metadata_json("after", "[1]");
  const stepprof::trace t = prof.result();
  for (const stepprof::trace_event& e : t.events()) check(e.has(stepprof::trace_event::step), "only steps are there");
  check(!prof.key_averages().table("self_cpu_time_total", 5).empty(), "a table without rows is one");
  check(!prof.events().table().empty(), "also of events");
  std::error_code ec;
  prof.export_chrome_trace("switched_off.json");
  prof.export_chrome_trace("switched_off.json", ec);
  std::ostringstream text;
  prof.export_chrome_trace(text);
  prof.export_chrome_trace(text, ec);
  check(!ec, "a trace without scopes is written");
  prof.export_stacks("switched_off.folded");
  prof.export_stacks("switched_off.folded", "self_allocated");
  prof.export_stacks("switched_off.folded", "self_cpu_time_total", ec);
  check(prof.last_error().empty(), "nothing went wrong");
  check(prof.options().profile_memory == options.profile_memory, "the options are kept");
  stepprof::profile again(options);
  check(again.running(), "another profile may start");
}

}  // namespace

int main() {
  stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
  stepprof::profile_options options;
  all_methods(options);
  options.profile_memory = options.record_shapes = true;
  all_methods(options);
  options.schedule = stepprof::schedule{1, 1, 2};
  options.accumulate = true;
  options.on_trace_ready = [](const stepprof::trace& t) { check(!t.events().empty(), "the steps are delivered"); };
  all_methods(options);
  options.schedule = stepprof::schedule{100, 1, 1};  // nothing is recorded at all
  all_methods(options);
  return failures == 0 ? 0 : 1;
}
