// The model: linear layers with a relu between them.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "functions.hpp"
#include "random.hpp"

namespace training {

struct linear_layer {
  variable weight, bias;

  linear_layer(std::int64_t in, std::int64_t out, std::mt19937& random) {
    const float bound = 1.0f / std::sqrt(static_cast<float>(in));
    weight = variable::parameter(uniform_tensor({out, in}, random, bound));
    bias = variable::parameter(uniform_tensor({out}, random, bound));
  }
  variable operator()(tape& on, const variable& x) const { return linear(on, x, weight, bias); }
};

/// `layers` linear layers: all but the last keep the number of features and are followed by a relu.
class mlp {
 public:
  mlp(std::int64_t layers, std::int64_t features, std::int64_t classes, std::mt19937& random) {
    for (std::int64_t i = 1; i < layers; ++i) layers_.emplace_back(features, features, random);
    layers_.emplace_back(features, classes, random);
  }

  /// The scores of each class, a row per sample.
  variable operator()(tape& on, variable x) const {
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      x = layers_[i](on, x);
      x = relu(on, x);  // here the memory of the layer's own result goes: only relu's is needed for the way back
    }
    return layers_.back()(on, x);
  }

  [[nodiscard]] std::vector<variable> parameters() const {
    std::vector<variable> all;
    for (const linear_layer& layer : layers_) {
      all.push_back(layer.weight);
      all.push_back(layer.bias);
    }
    return all;
  }

 private:
  std::vector<linear_layer> layers_;
};

}  // namespace training
