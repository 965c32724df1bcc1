// Keeps a compiler from leaving out work whose result nobody looks at.
#pragma once

#include <type_traits>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

/// The compiler has to assume that all memory is read and written here: stores before it happen, loads after it too.
STEPPROF_ALWAYS_INLINE void clobber_memory() noexcept {
  STEPPROF_CLOBBER_MEMORY();
}

/// The compiler has to assume that `value` is looked at here, and clobber_memory(). It costs at most what it takes to
/// have the value: a register for a number or a pointer, its place in memory for anything else. What led to the value
/// is computed at run time only if the compiler does not know its inputs: keep those too, before they are used.
template <class T>
STEPPROF_ALWAYS_INLINE void do_not_optimize(const T& value) noexcept {
  if constexpr (std::is_scalar_v<T> && sizeof(T) <= sizeof(void*))
    STEPPROF_KEEP_IN_REGISTER(value);
  else
    STEPPROF_KEEP_IN_MEMORY(value);
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// One run of what is measured: what it returns is kept, and nothing moves from one run into the next.
template <class Run>
STEPPROF_ALWAYS_INLINE void run_once(Run& run) {
  if constexpr (std::is_void_v<decltype(run())>) {
    run();
    clobber_memory();
  } else {
    do_not_optimize(run());
  }
}

// What a loop around nothing is compared with.
struct empty_run {
  void operator()() const noexcept {}
};

}  // namespace detail

STEPPROF_END_NAMESPACE
