// What the flags of a recording cost where none of them is set: this file is compiled twice, once with
// STEPPROF_PLAIN_SCOPES set, which leaves the code for them out. Both programs count their scopes; flags.sh compares
// what they print.
#include <cstdio>
#include <cstdlib>

#include <stepprof/stepprof.hpp>
#include <stepprof/timer/instruction_count.hpp>

namespace {

double instructions_of(void (*run)()) {
  stepprof::count_options options;
  options.may_rerun = true;
  options.number = 4096;
  return stepprof::count_instructions(run, options).per_run;
}
void site() {
  STEPPROF_SCOPE("site");
}
void nested() {
  STEPPROF_SCOPE("1");
  STEPPROF_SCOPE("2");
  STEPPROF_SCOPE("3");
  STEPPROF_SCOPE("4");
}
void named() {
  const stepprof::record_function scope("a name given at run time");
}
void by_hand() {
  stepprof::manual_scope scope;
  scope.begin("by hand");
}

}  // namespace

int main() {
  const double off = instructions_of(&site);
  stepprof::profile prof;
  const double on = instructions_of(&site);
  const double four = instructions_of(&nested);
  const double run_time = instructions_of(&named);
  const double manual = instructions_of(&by_hand);
  std::printf("off %.2f\nsite %.2f\nnested4 %.2f\nnamed %.2f\nmanual %.2f\n", off, on, four, run_time, manual);
}
