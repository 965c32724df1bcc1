#include <cstdlib>

#include <support/catch.hpp>

#include <stepprof/stepprof.hpp>
#include <stepprof/timer/instruction_count.hpp>

namespace scope_test {

namespace {

double instructions_of(void (*run)()) {
  stepprof::count_options options;
  options.may_rerun = true;
  options.number = 4096;  // changing chunks belongs to it
  return stepprof::count_instructions(run, options).per_run;
}
void scope() {
  STEPPROF_SCOPE("work");
}
void clock_twice() {
  stepprof::do_not_optimize(stepprof::product_clock::begin());
  stepprof::do_not_optimize(stepprof::product_clock::end());
}

}  // namespace

// Catches: a lock, a look-up, an allocation or a second thread-local access on the path of every scope; a scope that is
// not recorded; work that is done while nothing records.
TEST_CASE("a scope takes few instructions, and next to none while nothing records", "[scope]") {
  if (std::system("command -v valgrind > /dev/null 2>&1") != 0 || STEPPROF_MEMORY_OPERANDS == 0) return;
  const double off = instructions_of(&scope);
  stepprof::profile prof;
  const double on = instructions_of(&scope);
  const double clock = instructions_of(&clock_twice);
  CAPTURE(off, on, clock);
  CHECK(off <= 8);  // a load, a test and a branch; the rest is the call of this function
  CHECK(on >= clock + 20);
  CHECK(on - off <= 45);
  prof.stop();
  CHECK(prof.result().losses().dropped == 0);
}

}  // namespace scope_test
