// Compiled as optimised programs are, with frame pointers and without. named_stacks.cpp knows the lines of middle().
#include <stacks/called_functions.hpp>

#include <stepprof/record.hpp>

// Behind a call it keeps the call from becoming a jump.
#define KEEP_FRAME() asm volatile("" ::: "memory")

[[gnu::noinline]] void scope_by_macro() {
  STEPPROF_SCOPE("by macro");
  KEEP_FRAME();
}

namespace {

[[gnu::noinline]] void scope_by_name(const char* name) {
  const stepprof::record_function scope(name);
  KEEP_FRAME();
}
[[gnu::noinline]] void scope_by_hand() {
  stepprof::manual_scope scope;
  scope.begin("by hand");
  KEEP_FRAME();
  scope.end();
}
[[gnu::always_inline]] inline void inlined_helper() {
  STEPPROF_SCOPE("inlined");
  KEEP_FRAME();
}
[[gnu::noinline]] void has_inlined() {
  inlined_helper();
  KEEP_FRAME();
}

}  // namespace

[[gnu::noinline]] void middle() {
  scope_by_macro();
  scope_by_name("by name");
  scope_by_hand();
  has_inlined();
  KEEP_FRAME();
}
[[gnu::noinline]] void outer() {
  middle();
  KEEP_FRAME();
}
[[gnu::noinline]] void descend(int levels) {
  if (levels == 0)
    scope_by_macro();
  else
    descend(levels - 1);
  KEEP_FRAME();
}
