// Prints how many instructions scopes take while a profile records that asked for nothing but scopes, and what an
// allocation takes: compiled twice, as it is and with the code of all flags removed; see flags_off.sh.
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include <stepprof/record/operator_new.hpp>
#include <stepprof/stepprof.hpp>
#include <stepprof/timer/instruction_count.hpp>

namespace {

struct vector_of_three {
  std::int64_t size = 3;
};

void plain() {
  STEPPROF_SCOPE("plain");
}
void nested() {
  STEPPROF_SCOPE("outer");
  STEPPROF_SCOPE("inner");
}
void named() {
  const stepprof::record_function scope("a name given at run time");
}
void with_argument() {
  STEPPROF_SCOPE("argument", stepprof::scope_kind::op, stepprof::arg("rows", 64));
}
void with_inputs() {
  STEPPROF_SCOPE("inputs", stepprof::scope_kind::op, stepprof::inputs(vector_of_three()));
}
void allocation() {
  void* const block = ::operator new(64);
  STEPPROF_KEEP_IN_REGISTER(block);
  ::operator delete(block);
}
void plain_allocation() {
  void* const block = std::malloc(64);
  STEPPROF_KEEP_IN_REGISTER(block);
  std::free(block);
}

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

template <>
struct stepprof::input_traits<vector_of_three> {
  static input_description describe(const vector_of_three& v) noexcept { return {&v.size, 1, nullptr, "float"}; }
};

int main() {
  struct line {
    const char* what;
    void (*run)();
  };
  constexpr line recorded[] = {{"plain", &plain},
                               {"nested", &nested},
                               {"named", &named},
                               {"with_argument", &with_argument},
                               {"with_inputs", &with_inputs},
                               {"allocation", &allocation}};
  double counts[8] = {};
  const double off_plain = instructions_of(&plain);
  const double off_allocation = instructions_of(&allocation);
  const double malloc_and_free = instructions_of(&plain_allocation);
  {
    const stepprof::profile prof;
    for (std::size_t i = 0; i < 6; ++i) counts[i] = instructions_of(recorded[i].run);
  }
  if (failed) return 77;
  std::printf("off_plain %.2f\noff_allocation %.2f\nmalloc_and_free %.2f\n", off_plain, off_allocation,
              malloc_and_free);
  for (std::size_t i = 0; i < 6; ++i) std::printf("%s %.2f\n", recorded[i].what, counts[i]);
}
