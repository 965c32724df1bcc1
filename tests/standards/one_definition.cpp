// Catches: a function or variable in a header that is not inline, so that a program of two files does not link; what
// one of the standards does not have, or warns of, in headers and in what their macros become.
#include <forward/all_headers.hpp>

// In the end C++23 is 202302L; compilers that are older than it have less, but more than C++20.
constexpr int standard = __cplusplus > 202002L ? 23 : __cplusplus == 202002L ? 20 : 17;
static_assert(STEPPROF_TEST_STANDARD == standard, "compiled in that standard");

const void* seen_again();

int main() {
  STEPPROF_FUNCTION();
  STEPPROF_SCOPE("a scope of a macro", stepprof::arg("standard", standard));
  // An inline object is one object, whichever file asks.
  return seen_again() == &stepprof::error_category() ? 0 : 1;
}
