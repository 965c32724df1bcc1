// Prints how many instructions scopes take while a profile records that asked for nothing but scopes, and what an
// allocation takes; see flags.sh.
#include <cstdio>
#include <system_error>

#include <stepprof/stepprof.hpp>
#include <stepprof/timer/instruction_count.hpp>

#include "scopes.hpp"

namespace {

bool failed = false;

double instructions_of(void (*run)()) {
  stepprof::count_options options;
  options.may_rerun = true;
  options.number = 4096;
  std::error_code ec;
  const auto count = stepprof::count_instructions(run, options, ec);
  failed = failed || !count;
  return count ? count->per_run : 0;
}

}  // namespace

int main() {
  double of_off[2] = {}, of_recorded[8] = {};
  for (int i = 0; i < 2; ++i) of_off[i] = instructions_of(counted::off[i].run);
  const double malloc_and_free = instructions_of(&counted::malloc_and_free);
  {
    const stepprof::profile prof;
    for (int i = 0; i < 8; ++i) of_recorded[i] = instructions_of(counted::recorded[i].run);
  }
  if (failed) return 77;
  std::printf("malloc_and_free %.2f\n", malloc_and_free);
  for (int i = 0; i < 2; ++i) std::printf("%s %.2f\n", counted::off[i].what, of_off[i]);
  for (int i = 0; i < 8; ++i) std::printf("%s %.2f\n", counted::recorded[i].what, of_recorded[i]);
}
