// Something to learn: points around one centre per class, the same in every run.
#pragma once

#include <cstdint>
#include <random>

#include "random.hpp"

namespace training {

struct dataset {
  tensor points;        ///< A row per sample.
  label_tensor labels;  ///< Its class.
};

inline dataset make_dataset(std::int64_t samples, std::int64_t features, std::int64_t classes, std::mt19937& random) {
  const tensor centres = uniform_tensor({classes, features}, random, 1.0f);
  dataset data{uniform_tensor({samples, features}, random, 1.0f), label_tensor::empty({samples})};
  for (std::int64_t i = 0; i < samples; ++i) {
    data.labels(i) = static_cast<std::int64_t>(random() % static_cast<unsigned>(classes));
    for (std::int64_t j = 0; j < features; ++j) data.points(i, j) += centres(data.labels(i), j);
  }
  return data;
}

}  // namespace training
