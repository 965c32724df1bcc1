// Every question about compiler, platform or switch, answered once.
#pragma once

#include <stepprof/version.hpp>

// --- switches a user may define for a whole program ---------------------------------------------------------------
// STEPPROF_PORTABLE   1: portable clock and plain memory only, as on a platform that nothing is known about.
// STEPPROF_CLOCK      a clock type (see core/clock.hpp) to use instead of the platform's best one.
// STEPPROF_DISABLE    1: the macros and record_function of this translation unit compile to nothing.

#ifndef STEPPROF_PORTABLE
#define STEPPROF_PORTABLE 0
#endif

#ifndef STEPPROF_DISABLE
#define STEPPROF_DISABLE 0
#endif

// Set by the test that shows what the flags of a recording cost: a program in which none of them ever is.
#ifndef STEPPROF_WITHOUT_FLAGS
#define STEPPROF_WITHOUT_FLAGS 0
#endif

// --- compiler ------------------------------------------------------------------------------------------------------
#if defined(__GNUC__) || defined(__clang__)
#define STEPPROF_LIKELY(x) __builtin_expect(!!(x), 1)
#define STEPPROF_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define STEPPROF_ASSUME(x) ((x) ? static_cast<void>(0) : __builtin_unreachable())
#define STEPPROF_ALWAYS_INLINE inline __attribute__((always_inline))
#define STEPPROF_NOINLINE __attribute__((noinline))
#define STEPPROF_COLD __attribute__((noinline, cold))
// For benchmarks: the compiler has to assume that the value is looked at, and that all memory is read and written.
#define STEPPROF_KEEP_IN_REGISTER(value) asm volatile("" : : "r"(value) : "memory")
#define STEPPROF_KEEP_IN_MEMORY(value) asm volatile("" : : "m"(value) : "memory")
#define STEPPROF_CLOBBER_MEMORY() asm volatile("" : : : "memory")
// Process-wide objects must be one object even when a library is built with hidden visibility.
#define STEPPROF_SHARED __attribute__((visibility("default")))
// A function of which each program and library calls its own, even when another one exports it, too.
#define STEPPROF_OWN __attribute__((visibility("hidden")))
// A function that may read what sanitizers guard.
#define STEPPROF_UNGUARDED __attribute__((noinline, no_sanitize("address", "thread", "undefined")))
// Where the function that this stands in goes on when it returns.
#define STEPPROF_RETURN_ADDRESS() __builtin_return_address(0)
// Folds the length of a literal without a header.
#define STEPPROF_STRLEN(text) __builtin_strlen(text)
#define STEPPROF_MEMCPY(to, from, bytes) static_cast<void>(__builtin_memcpy(to, from, bytes))
#else
#include <atomic>
#include <cstring>
#define STEPPROF_STRLEN(text) std::strlen(text)
#define STEPPROF_MEMCPY(to, from, bytes) static_cast<void>(std::memcpy(to, from, bytes))
#define STEPPROF_LIKELY(x) (x)
#define STEPPROF_UNLIKELY(x) (x)
#define STEPPROF_ASSUME(x) __assume(x)
#define STEPPROF_ALWAYS_INLINE __forceinline
#define STEPPROF_NOINLINE __declspec(noinline)
#define STEPPROF_COLD __declspec(noinline)
#define STEPPROF_KEEP_IN_REGISTER(value) STEPPROF_KEEP_IN_MEMORY(value)
#define STEPPROF_KEEP_IN_MEMORY(value) \
  static_cast<void>(*const_cast<const volatile char*>(&reinterpret_cast<const char&>(value)))
#define STEPPROF_CLOBBER_MEMORY() std::atomic_signal_fence(std::memory_order_seq_cst)
#define STEPPROF_SHARED
#define STEPPROF_OWN
#define STEPPROF_RETURN_ADDRESS() nullptr
#endif

// The lowest byte of a number is the first one in memory.
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define STEPPROF_LITTLE_ENDIAN 0
#else
#define STEPPROF_LITTLE_ENDIAN 1
#endif

// [[nodiscard]] of a constructor, which is C++20 but which compilers take in C++17: a scope that is never given a name
// ends where it begins.
#if (defined(__clang__) && __clang_major__ >= 10) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 10)
#define STEPPROF_NODISCARD_CONSTRUCTOR [[nodiscard]]
#else
#define STEPPROF_NODISCARD_CONSTRUCTOR
#endif

// For a function that only takes the address of what its n-th argument points to: a block just allocated is not "used
// uninitialised" when it is reported.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define STEPPROF_ADDRESS_ONLY(n) __attribute__((access(none, n)))
#else
#define STEPPROF_ADDRESS_ONLY(n)
#endif

// __constinit / require_constant_initialization: a hot object that needed a constructor would cost a guard per access.
#if defined(__cpp_constinit)
#define STEPPROF_CONSTINIT constinit
#elif defined(__clang__)
#define STEPPROF_CONSTINIT __attribute__((require_constant_initialization))
#elif defined(__GNUC__) && __GNUC__ >= 10
#define STEPPROF_CONSTINIT __constinit
#else
#define STEPPROF_CONSTINIT
#endif

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#define STEPPROF_EXCEPTIONS 1
#define STEPPROF_TRY try
#define STEPPROF_CATCH_ALL catch (...)
#define STEPPROF_THROW(exception) throw exception
#else
#define STEPPROF_EXCEPTIONS 0
#define STEPPROF_TRY if (true)
#define STEPPROF_CATCH_ALL else
#define STEPPROF_THROW(exception) ::std::abort()
#endif

// Around macros that number what they declare: clang++ 22 calls __COUNTER__ an extension where users turn on
// -Wpedantic.
#if defined(__clang__) && defined(__has_warning)
#if __has_warning("-Wc2y-extensions")
#define STEPPROF_COUNTING_BEGIN \
  _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wc2y-extensions\"")
#define STEPPROF_COUNTING_END _Pragma("clang diagnostic pop")
#endif
#endif
#ifndef STEPPROF_COUNTING_BEGIN
#define STEPPROF_COUNTING_BEGIN
#define STEPPROF_COUNTING_END
#endif

// A scope of a translation unit that is compiled to nothing must be another type than one that records, or the two
// would share definitions.
#if STEPPROF_DISABLE
#define STEPPROF_IF_ENABLED(enabled, disabled) disabled
#else
#define STEPPROF_IF_ENABLED(enabled, disabled) enabled
#endif

// --- platform ------------------------------------------------------------------------------------------------------
#if !STEPPROF_PORTABLE && (defined(__unix__) || defined(__APPLE__))
#define STEPPROF_POSIX 1
#else
#define STEPPROF_POSIX 0
#endif

#if !STEPPROF_PORTABLE && defined(__linux__)
#define STEPPROF_LINUX 1
#else
#define STEPPROF_LINUX 0
#endif

// The compiler's own unwinder, and a dynamic linker that says what is loaded where.
#if STEPPROF_LINUX && (defined(__GNUC__) || defined(__clang__)) && defined(__ELF__) && !defined(__ARM_EABI__)
#define STEPPROF_UNWIND 1
#else
#define STEPPROF_UNWIND 0
#endif

// Each module that records says so to a profile that asks the dynamic linker what is loaded.
#if STEPPROF_LINUX && (defined(__GNUC__) || defined(__clang__)) && defined(__ELF__)
#define STEPPROF_SIGNS_MODULES 1
#else
#define STEPPROF_SIGNS_MODULES 0
#endif

#if !STEPPROF_PORTABLE && (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__i386__))
#define STEPPROF_CLOCK_X86 1
#else
#define STEPPROF_CLOCK_X86 0
#endif

#if defined(__SANITIZE_THREAD__)
#define STEPPROF_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STEPPROF_THREAD_SANITIZER 1
#endif
#endif
#ifndef STEPPROF_THREAD_SANITIZER
#define STEPPROF_THREAD_SANITIZER 0
#endif

// Single instructions on memory, which compilers do not make of atomics. ThreadSanitizer does not see them.
#if STEPPROF_CLOCK_X86 && !STEPPROF_THREAD_SANITIZER && defined(__x86_64__) && defined(__LP64__) && \
    defined(__GCC_ASM_FLAG_OUTPUTS__)
#define STEPPROF_MEMORY_OPERANDS 1
#else
#define STEPPROF_MEMORY_OPERANDS 0
#endif

#if !STEPPROF_PORTABLE && (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__)
#define STEPPROF_CLOCK_ARM 1
#else
#define STEPPROF_CLOCK_ARM 0
#endif
