// Catches: a function or variable in a header that is not inline, so that a program of two files does not link; what
// one of the standards does not have, or warns of.
#include <forward/all_headers.hpp>

// In the end C++23 is 202302L; compilers that are older than it have less, but more than C++20.
constexpr int standard = __cplusplus > 202002L ? 23 : __cplusplus == 202002L ? 20 : 17;
static_assert(STEPPROF_TEST_STANDARD == standard, "compiled in that standard");

const void* seen_again();

int main() {
  // An inline object is one object, whichever file asks.
  return seen_again() == &stepprof::error_category() ? 0 : 1;
}
