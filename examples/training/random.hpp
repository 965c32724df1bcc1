// Random numbers that are the same everywhere.
#pragma once

#include <cstdint>
#include <random>

#include "tensor.hpp"

namespace training {

/// Uniform in [-bound, bound). Spelt out, as the distributions of the standard library differ between platforms.
inline float uniform(std::mt19937& random, float bound) {
  return bound * (static_cast<float>(random() >> 8) * (2.0f / 16777216.0f) - 1.0f);
}

inline tensor uniform_tensor(const dims& sizes, std::mt19937& random, float bound) {
  tensor result = tensor::empty(sizes);
  for (std::int64_t i = 0; i < result.count(); ++i) result.data()[i] = uniform(random, bound);
  return result;
}

}  // namespace training
