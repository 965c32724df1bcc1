// Asks Valgrind, when the program runs under it, without its headers. On the real machine a request is a few rotations
// that leave everything as it was.
#pragma once

#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// From valgrind.h and callgrind.h, which promise never to change these numbers.
enum class valgrind_request : std::uint64_t {
  running_on_valgrind = 0x1001,
  callgrind_zero_stats = 0x43540001,  // 'C' 'T'
  callgrind_dump_stats_at = 0x43540003,
  callgrind_start_instrumentation = 0x43540004,
};

// What Valgrind answers; `unanswered` without it, or when its tool does not know the request.
inline std::uint64_t ask_valgrind(valgrind_request request, std::uint64_t unanswered,
                                  const void* argument = nullptr) noexcept {
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(argument);
  const volatile std::uint64_t words[6] = {static_cast<std::uint64_t>(request), at, 0, 0, 0, 0};
  std::uint64_t answer = unanswered;
#if !STEPPROF_PORTABLE && defined(__linux__) && defined(__x86_64__) && defined(__LP64__)
  __asm__ volatile(
      "rolq $3, %%rdi; rolq $13, %%rdi\n\trolq $61, %%rdi; rolq $51, %%rdi\n\t"
      "xchgq %%rbx, %%rbx"
      : "+d"(answer)
      : "a"(&words[0])
      : "cc", "memory");
#elif !STEPPROF_PORTABLE && defined(__linux__) && defined(__aarch64__) && defined(__LP64__)
  __asm__ volatile(
      "mov x3, %0\n\tmov x4, %1\n\t"
      "ror x12, x12, #3; ror x12, x12, #13\n\tror x12, x12, #51; ror x12, x12, #61\n\t"
      "orr x10, x10, x10\n\t"
      "mov %0, x3"
      : "+r"(answer)
      : "r"(&words[0])
      : "cc", "memory", "x3", "x4");
#else
  static_cast<void>(words);
#endif
  return answer;
}

inline bool runs_under_valgrind() noexcept {
  return ask_valgrind(valgrind_request::running_on_valgrind, 0) != 0;
}

// Only Callgrind answers this, with 0; instrumentation is on afterwards.
inline bool start_callgrind() noexcept {
  return runs_under_valgrind() && ask_valgrind(valgrind_request::callgrind_start_instrumentation, 1) == 0;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
