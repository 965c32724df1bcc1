// The tape: what an op must remember so that gradients can be carried back through it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels.hpp"

namespace training {

/// One step of the way back: takes the gradient of an op's result and gives those of its inputs.
class node {
 public:
  explicit node(const char* name) : name_(name), wrapper_name_("autograd::engine::evaluate_function: " + name_) {}
  virtual ~node() = default;

  /// The gradients of the inputs, in their order; an undefined tensor where none is needed.
  virtual std::vector<tensor> apply(const tensor& gradient) = 0;
  /// Drops the tensors saved for apply(). A graph is walked once.
  virtual void release() {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& wrapper_name() const noexcept { return wrapper_name_; }
  /// Whether input `i` leads to something that wants a gradient.
  [[nodiscard]] bool needs(std::size_t i) const { return next[i] != nullptr; }

  std::vector<std::shared_ptr<node>> next;  ///< Per input the node that takes its gradient, or nothing.
  dims sizes;                               ///< Of the forward result, so of the gradient that apply() expects.
  std::int64_t sequence = -1;               ///< Place on the tape; gradient accumulation has none.
  stepprof::forward_link forward;           ///< The scope in which the forward op ran: the tail of the arrow.

 private:
  std::string name_, wrapper_name_;
};

/// A tensor that knows how it was computed. A copy is another handle to the same variable.
class variable {
 public:
  variable() = default;
  /// Not explicit: data goes into a model as it is.
  variable(tensor value) : state_(std::make_shared<state>()) { state_->value = std::move(value); }
  /// A leaf whose gradient is collected.
  static variable parameter(tensor value) {
    variable result(std::move(value));
    result.state_->is_parameter = true;
    return result;
  }

  [[nodiscard]] const tensor& value() const { return state_->value; }
  /// Undefined until a backward pass reached this parameter.
  [[nodiscard]] const tensor& gradient() const { return state_->gradient; }
  void set_gradient(tensor gradient) const { state_->gradient = std::move(gradient); }

  /// The node that takes this variable's gradient: of the op that made it, or of the parameter itself.
  [[nodiscard]] std::shared_ptr<node> gradient_node() const;

 private:
  friend class tape;
  struct state {
    tensor value, gradient;
    std::shared_ptr<node> producer;
    std::weak_ptr<node> accumulator;  // weak: the accumulator holds the variable
    bool is_parameter = false;
  };
  std::shared_ptr<state> state_;
};

/// Ends a path: adds up what arrives for a parameter.
class accumulate_grad final : public node {
 public:
  explicit accumulate_grad(variable parameter)
      : node("torch::autograd::AccumulateGrad"), parameter_(std::move(parameter)) {
    sizes = parameter_.value().sizes();
  }
  std::vector<tensor> apply(const tensor& gradient) override {
    if (parameter_.gradient().defined())
      aten::add_(parameter_.gradient(), gradient, 1.0);
    else
      parameter_.set_gradient(aten::detach(gradient));
    return {};
  }

 private:
  variable parameter_;
};

inline std::shared_ptr<node> variable::gradient_node() const {
  if (!state_->is_parameter) return state_->producer;
  std::shared_ptr<node> result = state_->accumulator.lock();
  if (!result) state_->accumulator = result = std::make_shared<accumulate_grad>(*this);
  return result;
}

/// Numbers the nodes in the order in which they are made, whether or not anybody records.
class tape {
 public:
  /// The number that the next node will get. Ops put it into their scope; one that makes no node itself, like linear,
  /// thereby shares it with the op inside that does.
  [[nodiscard]] stepprof::sequence_number peek() const noexcept { return stepprof::sequence_number(next_); }

  /// The result of an op as a variable, with its node when one of its inputs needs a gradient.
  template <class Node>
  variable record(Node made, const stepprof::record_function& scope, tensor result,
                  std::initializer_list<variable> operands) {
    variable output(std::move(result));
    std::vector<std::shared_ptr<node>> next;
    for (const variable& operand : operands) next.push_back(operand.gradient_node());
    const auto is_set = [](const std::shared_ptr<node>& n) { return n != nullptr; };
    if (std::none_of(next.begin(), next.end(), is_set)) return output;

    auto made_node = std::make_shared<Node>(std::move(made));
    made_node->next = std::move(next);
    made_node->sizes = output.value().sizes();
    made_node->sequence = next_++;
    made_node->forward = scope.link();
    output.state_->producer = std::move(made_node);
    return output;
  }

 private:
  std::int64_t next_ = 0;
};

}  // namespace training
