// Scopes that count themselves, so that what was recorded can be compared with it.
#pragma once

#include <atomic>
#include <cstdint>

#include <stepprof/record.hpp>

namespace lifetimes {

// Scopes begun while something recorded, and those of them that were accepted. Used before main and after exit:
// constant-initialised and never destroyed.
inline std::atomic<std::uint64_t> begun{0};
inline std::atomic<std::uint64_t> accepted{0};

// Call right after the begin of a scope. `open` is whether something recorded before.
inline void count(bool open, bool recorded) {
  if (open) begun.fetch_add(1, std::memory_order_relaxed);
  if (recorded) accepted.fetch_add(1, std::memory_order_relaxed);
}

// One scope.
inline void record_one(const char* name) {
  const bool open = stepprof::detail::gate_is_open();
  const stepprof::record_function scope(name);
  count(open, scope.recorded());
}

// Two scopes, one of them a macro's. It shares the other's fate where recording neither begins nor ends meanwhile.
inline void record_two(const char* name) {
  const bool open = stepprof::detail::gate_is_open();
  const stepprof::record_function scope(name);
  count(open, scope.recorded());
  {
    STEPPROF_SCOPE("of a macro");
    count(open, scope.recorded());
  }
}

}  // namespace lifetimes
