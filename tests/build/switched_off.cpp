// Catches: files with the profiler compiled in and out that take each other's functions once they are one program.
#include <cstdio>

#include <stepprof/stepprof.hpp>

bool disabled_part();

namespace {

bool enabled_part() {
  STEPPROF_SCOPE("enabled");
  const stepprof::record_function scope("enabled");
  stepprof::manual_scope manual;
  manual.begin("enabled");
  const stepprof::async_scope async("enabled");
  const bool recorded = scope.recorded() && manual.recorded() && async.recorded();
  manual.end();
  return recorded;
}

}  // namespace

int main() {
  stepprof::profile prof;
  bool right = enabled_part() && !disabled_part() && enabled_part();
  prof.stop();
  const stepprof::event_averages averages = prof.key_averages();
  right = right && averages.rows.size() == 1 && averages.at("enabled").calls == 8;
  std::puts(right ? "only what was compiled in is recorded" : "wrong: see the sources for what is to be recorded");
  return right ? 0 : 1;
}
