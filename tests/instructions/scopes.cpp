// Scopes and allocations, compiled twice: as they are, and with the code of all flags removed (STEPPROF_WITHOUT_FLAGS).
// Everything behind them is the other source's, the same in both programs.
#include "scopes.hpp"

#include <cstdint>
#include <cstdlib>

#include <stepprof/record.hpp>
#include <stepprof/record/operator_new.hpp>

namespace counted {
namespace {

// The C library's strlen and memcmp take more instructions for some addresses: the same in both programs.
alignas(64) constexpr char rows[] = "rows";
alignas(64) constexpr char run_time[] = "a name given at run time";
alignas(64) constexpr char handle[] = "by hand";

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
void nested4() {
  STEPPROF_SCOPE("1");
  STEPPROF_SCOPE("2");
  STEPPROF_SCOPE("3");
  STEPPROF_SCOPE("4");
}
void named() {
  const stepprof::record_function scope(run_time);
}
void manual() {
  stepprof::manual_scope scope;
  scope.begin(handle);
}
void with_argument() {
  STEPPROF_SCOPE("argument", stepprof::scope_kind::op, stepprof::arg(rows, 64));
}
void with_inputs();
void allocation() {
  void* const block = ::operator new(64);
  STEPPROF_KEEP_IN_REGISTER(block);
  ::operator delete(block);
}

}  // namespace
}  // namespace counted

template <>
struct stepprof::input_traits<counted::vector_of_three> {
  static input_description describe(const counted::vector_of_three& v) noexcept {
    return {&v.size, 1, nullptr, "float"};
  }
};

namespace counted {
namespace {

void with_inputs() {
  STEPPROF_SCOPE("inputs", stepprof::scope_kind::op, stepprof::inputs(vector_of_three()));
}

}  // namespace

void malloc_and_free() {
  void* const block = std::malloc(64);
  STEPPROF_KEEP_IN_REGISTER(block);
  std::free(block);
}

const line off[2] = {{"off_plain", &plain}, {"off_allocation", &allocation}};
const line recorded[8] = {{"plain", &plain},
                          {"nested", &nested},
                          {"nested4", &nested4},
                          {"named", &named},
                          {"manual", &manual},
                          {"with_argument", &with_argument},
                          {"with_inputs", &with_inputs},
                          {"allocation", &allocation}};

}  // namespace counted
