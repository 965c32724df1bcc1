// Faster native stacks by libunwind: with this header in any one source file of a program, libunwind walks the stacks
// of scopes (profile_options::with_stack) where the system has it: about 10 ns a frame instead of 100.
//
// It is loaded when the program starts, not linked: a program that is linked with it throws its exceptions through it,
// too, which is slower and none of a profiler's business. Link stepprof::libunwind.
#pragma once

#include <cstdint>

#include <dlfcn.h>

#include <stepprof/config.hpp>
#include <stepprof/core/system.hpp>
#include <stepprof/core/unwind.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// libunwind keeps what it learned of each address for each thread and never forgets it, so an address whose library was
// unloaded could lead it astray, off the stack even. 0: the thread has not begun to walk; else how many modules had
// been unloaded by then, and 1.
inline thread_local std::uint32_t libunwind_unloads = 0;

inline int (*libunwind_backtrace)(void** out, int size) = nullptr;

STEPPROF_NOINLINE inline std::uint32_t walk_with_libunwind(std::uintptr_t* out, std::uint32_t limit) noexcept {
  const std::uint32_t unloads = system_unload_count() + 1;
  if (libunwind_unloads == 0) libunwind_unloads = unloads;
  if (libunwind_unloads != unloads) return system_walk_stack(out, limit);
  static_assert(sizeof(void*) == sizeof(std::uintptr_t), "addresses are written in place");
  const int count = libunwind_backtrace(reinterpret_cast<void**>(out), static_cast<int>(limit));
  std::uint32_t frames = 0;
  while (frames < static_cast<std::uint32_t>(count < 0 ? 0 : count) && out[frames] != 0) --out[frames++];
  return frames;
}

STEPPROF_OWN inline void pin_libunwind_walker() noexcept {
  system_pin_this_module();
}

inline constexpr stack_walker libunwind_walker = {&walk_with_libunwind, &pin_libunwind_walker};
// Before main(), or when the library that holds it is loaded. False where the system has no libunwind.
inline const bool libunwind_is_installed = [] {
  if (!system_can_unwind) return false;
  void* const library = ::dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);  // stays
  if (library == nullptr) return false;
  void* const function = ::dlsym(library, "unw_backtrace");
  if (function == nullptr) return false;
  libunwind_backtrace = reinterpret_cast<int (*)(void**, int)>(function);
  // Release: whoever sees the walker sees its function.
  the_walker.store(&libunwind_walker, std::memory_order_release);
  return true;
}();

}  // namespace detail
STEPPROF_END_NAMESPACE
