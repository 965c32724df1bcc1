// The engine: walks the graph from the loss back to the parameters.
#pragma once

#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tape.hpp"

namespace training {

/// One backward pass. Nodes run when all of their gradient has arrived; of those that could, the one that was made last
/// runs first, and gradient accumulation before everything, so that memory is given back as early as possible.
class engine {
 public:
  void run(const std::shared_ptr<node>& root, tensor gradient) {
    count_arrivals(root);
    work_[root.get()].gradient = std::move(gradient);
    ready_.push(root);
    while (!ready_.empty()) {
      const std::shared_ptr<node> next = ready_.top();
      ready_.pop();
      evaluate(*next);
    }
  }

 private:
  struct pending {
    int missing = 0;  ///< Gradients that have yet to arrive.
    tensor gradient;  ///< The sum of those that have.
  };
  struct runs_later {
    static std::int64_t priority(const node& n) {
      return n.sequence >= 0 ? n.sequence : (std::numeric_limits<std::int64_t>::max)();
    }
    bool operator()(const std::shared_ptr<node>& a, const std::shared_ptr<node>& b) const {
      return priority(*a) < priority(*b);
    }
  };

  void count_arrivals(const std::shared_ptr<node>& root) {
    std::vector<node*> open{root.get()};
    work_[root.get()];
    while (!open.empty()) {
      const node* from = open.back();
      open.pop_back();
      for (const std::shared_ptr<node>& to : from->next) {
        if (!to) continue;
        const bool is_new = work_.find(to.get()) == work_.end();
        ++work_[to.get()].missing;
        if (is_new) open.push_back(to.get());
      }
    }
  }

  // As in torch: everything that a node causes, down to giving back what it had saved, lies inside this one scope.
  void evaluate(node& n) {
    const stepprof::record_function wrapper(n.wrapper_name(), op, stepprof::sequence_number(n.sequence), n.forward);
    std::vector<tensor> gradients = call(n, std::move(work_[&n].gradient));
    n.release();
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (n.next[i]) deliver(n.next[i], std::move(gradients[i]));
  }

  // Takes the incoming gradient by value: it dies here, unless the results still refer to it.
  static std::vector<tensor> call(node& n, tensor gradient) {
    std::vector<tensor> gradients = apply(n, gradient);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (n.next[i]) gradients[i] = sum_to(gradients[i], n.next[i]->sizes);
    return gradients;
  }

  static std::vector<tensor> apply(node& n, const tensor& gradient) {
    const stepprof::record_function scope(n.name(), stepprof::scope_kind::backward_op,
                                          stepprof::sequence_number(n.sequence), n.forward, inputs(gradient));
    return n.apply(gradient);
  }

  // Undoes a broadcast: what was one row in the forward pass gets the sum over all the rows that it became.
  static tensor sum_to(const tensor& gradient, const dims& sizes) {
    if (gradient.sizes() == sizes) return gradient;
    return aten::view(aten::sum(gradient), sizes);
  }

  void deliver(const std::shared_ptr<node>& to, tensor gradient) {
    pending& waiting = work_[to.get()];
    waiting.gradient = waiting.gradient.defined() ? aten::add(waiting.gradient, gradient) : std::move(gradient);
    if (--waiting.missing == 0) ready_.push(to);
  }

  std::unordered_map<const node*, pending> work_;
  std::priority_queue<std::shared_ptr<node>, std::vector<std::shared_ptr<node>>, runs_later> ready_;
};

/// Computes the gradient of `loss`, a single number, for every parameter that it depends on. Once per loss: what the
/// graph had saved is given back on the way.
inline void backward(const variable& loss) {
  if (!loss.gradient_node()) throw std::invalid_argument("backward: the loss depends on no parameter");
  const tensor one = aten::ones_like(loss.value());
  engine().run(loss.gradient_node(), one);
}

}  // namespace training
