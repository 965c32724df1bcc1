// The clocks: what a time stamp of the log is, and how each platform reads one.
#pragma once

#include <cstdint>
#include <time.h>  // clock_gettime; <chrono> costs every user's compiler more than the rest of this header

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

/// A time stamp in ticks of its clock. The log keeps the low half with every word and the high half once in a while.
struct stamp {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

[[nodiscard]] constexpr std::uint64_t ticks_of(stamp t) noexcept {
  return (static_cast<std::uint64_t>(t.high) << 32) | t.low;
}
[[nodiscard]] constexpr stamp stamp_of(std::uint64_t ticks) noexcept {
  return {static_cast<std::uint32_t>(ticks), static_cast<std::uint32_t>(ticks >> 32)};
}

// A clock is a type with
//   static stamp begin() noexcept, end() noexcept   read at the begin and at the end of a scope
//   static bool usable() noexcept                   whether it runs at one steady rate on all cores
//   static constexpr bool counts_ns                 true: a tick is a nanosecond; false: the rate is measured
//   static constexpr const char* name
// All functions may be called by any thread, in signal handlers too.

/// CLOCK_MONOTONIC in nanoseconds: works everywhere, about 24 ns a reading.
struct monotonic_clock {
  static constexpr bool counts_ns = true;
  static constexpr const char* name = "monotonic";
  static stamp begin() noexcept {
    timespec now{};
#if defined(CLOCK_MONOTONIC)
    ::clock_gettime(CLOCK_MONOTONIC, &now);
#else
    ::timespec_get(&now, TIME_UTC);
#endif
    return stamp_of(static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec));
  }
  static stamp end() noexcept {
    return begin();
  }
  static bool usable() noexcept {
    return true;
  }
};

#if STEPPROF_CLOCK_X86

/// The time-stamp counter, about 10 ns a reading. It is not ordered with the work around it: up to some tens of
/// nanoseconds of a very short scope may be booked to its neighbour. Where that matters, compile the program with
/// `-DSTEPPROF_CLOCK=stepprof::ordered_tsc_clock`.
struct tsc_clock {
  static constexpr bool counts_ns = false;
  static constexpr const char* name = "tsc";
  // Not <x86intrin.h>: it costs every user's compiler a second. The asm keeps the halves apart, as the log wants them.
  static STEPPROF_ALWAYS_INLINE stamp begin() noexcept {
    stamp t;
    __asm__ volatile("rdtsc" : "=a"(t.low), "=d"(t.high));
    return t;
  }
  static STEPPROF_ALWAYS_INLINE stamp end() noexcept {
#if defined(__x86_64__)
    // The end joins the high half to the thread's number: that it fills a register spares an instruction.
    std::uint32_t low;
    std::uint64_t high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    STEPPROF_ASSUME(high <= 0xffffffffu);
    return {low, static_cast<std::uint32_t>(high)};
#else
    return begin();
#endif
  }
  /// Invariant TSC: CPUID 8000_0007h, EDX bit 8 (AMD64 manual volume 3, Intel SDM volume 2, CPUID).
  static bool usable() noexcept {
    std::uint32_t a = 0x80000000u, b = 0, c = 0, d = 0;
    cpuid(a, b, c, d);
    if (a < 0x80000007u) return false;
    a = 0x80000007u;
    cpuid(a, b, c, d);
    return (d & (1u << 8)) != 0;
  }

 private:
  static void cpuid(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d) noexcept {
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  }
};

/// The time-stamp counter read so that a scope is charged for its own work and for no other: waits for the work before
/// it (LFENCE, Intel SDM volume 3, "Time-Stamp Counter"). About 6 ns more for each reading than tsc_clock.
struct ordered_tsc_clock : tsc_clock {
  static constexpr const char* name = "ordered tsc";
  static STEPPROF_ALWAYS_INLINE stamp begin() noexcept {
    stamp t;
    __asm__ volatile("lfence\n\trdtsc" : "=a"(t.low), "=d"(t.high) : : "memory");
    return t;
  }
  static STEPPROF_ALWAYS_INLINE stamp end() noexcept { return begin(); }
};

using platform_clock = tsc_clock;

/// What this thread has read and done stands before the next reading of the clock: LFENCE, as for ordered_tsc_clock.
STEPPROF_ALWAYS_INLINE void order_clock() noexcept {
  __asm__ volatile("lfence" : : : "memory");
}

#elif STEPPROF_CLOCK_ARM

/// The generic timer of ARMv8-A (CNTVCT_EL0), which always runs at one steady rate.
struct counter_clock {
  static constexpr bool counts_ns = false;
  static constexpr const char* name = "cntvct";
  static STEPPROF_ALWAYS_INLINE stamp begin() noexcept {
    std::uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return stamp_of(ticks);
  }
  static STEPPROF_ALWAYS_INLINE stamp end() noexcept { return begin(); }
  static bool usable() noexcept { return true; }
};

using platform_clock = counter_clock;

/// What this thread has read and done stands before the next reading of the clock.
STEPPROF_ALWAYS_INLINE void order_clock() noexcept {
  __asm__ volatile("isb" : : : "memory");
}

#else

using platform_clock = monotonic_clock;

/// What this thread has read and done stands before the next reading of the clock.
STEPPROF_ALWAYS_INLINE void order_clock() noexcept {}

#endif

#if defined(STEPPROF_CLOCK)
/// The clock of this program, as the program chose it.
using product_clock = STEPPROF_CLOCK;
#else
/// The clock of this program.
using product_clock = platform_clock;
#endif

STEPPROF_END_NAMESPACE
