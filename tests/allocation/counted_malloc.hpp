// How often this thread has asked the heap for memory, or given some back.
#pragma once

#include <cstdint>

namespace test {

std::uint64_t heap_calls() noexcept;

// Runs `once` at the beginning of the n-th heap call, counted from 1, that this thread makes from now on. `n` = 0:
// never.
void at_heap_call(std::uint64_t n, void (*once)()) noexcept;

}  // namespace test
