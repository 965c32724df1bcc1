// Catches: options that C++20's designated initialisers cannot fill where they are used: an ambiguous call, or a
// warning about each field that is left out.
#include <cstdio>
#include <string>
#include <system_error>

#include <all_headers.hpp>

int main() {
  stepprof::profile prof({.schedule = stepprof::schedule{.wait = 0, .warmup = 1, .active = 2},
                          .record_shapes = true,
                          .on_trace_ready = [](const stepprof::trace&) {}});
  static_cast<void>(stepprof::trace_handler("never_called", {.worker_name = "w"}));
  for (int i = 0; i < 3; ++i) {
    STEPPROF_SCOPE("s", stepprof::inputs(1));
    prof.step();
  }
  const stepprof::event_averages averages = prof.key_averages({.group_by_input_shape = true});
  bool right = averages.table({.sort_by = "count", .row_limit = 5}) == averages.table("count", 5);
  right = right && averages.table({}) == averages.table() && averages.table({.sort_by = ""}) == averages.table("");
  right = right && stepprof::table(averages, {.row_limit = 5}) == averages.table("", 5);
  prof.stop();
  std::error_code ec;
  prof.export_chrome_trace("newest_standard.json");
  stepprof::export_chrome_trace(prof.result(), "newest_standard.json", {.live_bytes_counter = false});
  stepprof::export_chrome_trace(prof.result(), "newest_standard.json", {}, ec);
  const stepprof::trace t = stepprof::read_trace_file("newest_standard.json", {.python_functions = true});
  right = right && !ec && stepprof::key_averages(t, {.group_by_stack_n = 1}).find("s") != nullptr;
  stepprof::profile({}, stepprof::deferred).stop();
  right = right && stepprof::profile::create({.record_shapes = true}, ec) != nullptr;
  std::puts(right ? "options are filled" : "wrong: see the source for which text differs");
  return right ? 0 : 1;
}
