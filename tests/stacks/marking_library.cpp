// A library that records one scope, in a function named FUNCTION.
#include <stepprof/record.hpp>

namespace {

[[gnu::noinline]] void FUNCTION() {
  STEPPROF_SCOPE("of the library");
  asm volatile("" ::: "memory");
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void call();
extern "C" void call() {
  FUNCTION();
  asm volatile("" ::: "memory");  // what follows a call keeps it from becoming a jump
}
