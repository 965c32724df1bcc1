// Stochastic gradient descent: each parameter takes a step against its gradient.
#pragma once

#include <utility>
#include <vector>

#include "kernels.hpp"
#include "tape.hpp"

namespace training {

class sgd {
 public:
  sgd(std::vector<variable> parameters, double learning_rate)
      : parameters_(std::move(parameters)), learning_rate_(learning_rate) {}

  /// Drops the gradients, and with them their memory; the next backward pass makes new ones.
  void zero_grad() const {
    STEPPROF_SCOPE("Optimizer.zero_grad#SGD.zero_grad");
    for (const variable& p : parameters_) p.set_gradient({});
  }

  void step() const {
    STEPPROF_SCOPE("Optimizer.step#SGD.step");
    for (const variable& p : parameters_)
      if (p.gradient().defined()) aten::add_(p.value(), p.gradient(), -learning_rate_);
  }

 private:
  std::vector<variable> parameters_;
  double learning_rate_;
};

}  // namespace training
