// On which device memory lies.
#pragma once

#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

/// A device as kineto numbers them: type 0 is the CPU, 1 CUDA, and so on; the index is -1 on the CPU.
struct memory_device {
  std::int16_t type = 0;
  std::int16_t index = -1;
};
[[nodiscard]] constexpr bool operator==(memory_device a, memory_device b) noexcept {
  return a.type == b.type && a.index == b.index;
}

STEPPROF_END_NAMESPACE
