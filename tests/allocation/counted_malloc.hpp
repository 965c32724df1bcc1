// How often this thread has asked the heap for memory, or given some back.
#pragma once

#include <cstdint>

namespace test {

std::uint64_t heap_calls() noexcept;

}  // namespace test
