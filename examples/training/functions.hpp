// Differentiable ops: the forward computation of each, and the node that leads back through it.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "tape.hpp"

namespace training {

using stepprof::record_function;

// --- transpose -------------------------------------------------------------------------------------------------------

class t_backward final : public node {
 public:
  t_backward() : node("TBackward0") {}
  std::vector<tensor> apply(const tensor& gradient) override { return {aten::t(gradient)}; }
};

inline variable t(tape& on, const variable& a) {
  const record_function scope("aten::t", op, on.peek(), inputs(a.value()));
  return on.record(t_backward(), scope, aten::transpose(a.value(), 0, 1), {a});
}

// --- bias + a * b ----------------------------------------------------------------------------------------------------

class addmm_backward final : public node {
 public:
  addmm_backward(tensor a, tensor b) : node("AddmmBackward0"), a_(std::move(a)), b_(std::move(b)) {}
  std::vector<tensor> apply(const tensor& gradient) override {
    std::vector<tensor> out(3);
    if (needs(1)) out[1] = gradient_of_a(gradient);
    if (needs(2)) out[2] = gradient_of_b(gradient);
    if (needs(0)) out[0] = gradient;  // the engine sums it up to the size of the bias
    return out;
  }
  void release() override { a_ = b_ = tensor(); }

 private:
  // Each operand gets its gradient in its own layout. For a transposed one that is the transposed formula, transposed:
  // the product then comes out as the memory of the original wants it, and a parameter need not copy it.
  tensor gradient_of_a(const tensor& g) const {
    if (is_row_major(a_)) return aten::mm(g, aten::t(b_));
    return aten::t(aten::mm(b_, aten::t(g)));
  }
  tensor gradient_of_b(const tensor& g) const {
    if (is_row_major(b_)) return aten::mm(aten::t(a_), g);
    return aten::t(aten::mm(aten::t(g), a_));
  }
  tensor a_, b_;
};

inline variable addmm(tape& on, const variable& bias, const variable& a, const variable& b) {
  const tensor& left = a.value();
  const tensor& right = b.value();
  const record_function scope("aten::addmm", op, on.peek(),
                              inputs(bias.value(), left, right, /*beta*/ std::int64_t{1}, /*alpha*/ std::int64_t{1}));
  tensor result = tensor::empty({left.size(0), right.size(1)});
  aten::copy_(result, aten::expand(bias.value(), result.sizes()));
  multiply(result, left, right, true);
  return on.record(addmm_backward(left, right), scope, result, {bias, a, b});
}

/// x * weight^T + bias
inline variable linear(tape& on, const variable& x, const variable& weight, const variable& bias) {
  STEPPROF_SCOPE("aten::linear", op, on.peek(), inputs(x.value(), weight.value(), bias.value()));
  return addmm(on, bias, x, t(on, weight));
}

// --- relu ------------------------------------------------------------------------------------------------------------

class relu_backward final : public node {
 public:
  explicit relu_backward(tensor result) : node("ReluBackward0"), result_(std::move(result)) {}
  std::vector<tensor> apply(const tensor& gradient) override {
    return {aten::threshold_backward(gradient, result_, 0)};
  }
  void release() override { result_ = tensor(); }

 private:
  tensor result_;
};

inline variable relu(tape& on, const variable& x) {
  const record_function scope("aten::relu", op, on.peek(), inputs(x.value()));
  const tensor result = aten::clamp_min(x.value(), 0);
  return on.record(relu_backward(result), scope, result, {x});
}

// --- cross entropy ---------------------------------------------------------------------------------------------------

class log_softmax_backward final : public node {
 public:
  explicit log_softmax_backward(tensor result) : node("LogSoftmaxBackward0"), result_(std::move(result)) {}
  std::vector<tensor> apply(const tensor& gradient) override {
    return {aten::log_softmax_backward_data(gradient, result_, 1)};
  }
  void release() override { result_ = tensor(); }

 private:
  tensor result_;
};

/// The variable itself: every tensor of this library is already of the one type that could be asked for.
inline const variable& to_float(tape& on, const variable& x) {
  STEPPROF_SCOPE("aten::to", op, on.peek(),
                 inputs(x.value(), dtype_float32, layout_strided, no_input{}, no_input{}, /*non_blocking*/ false,
                        /*copy*/ false, no_input{}));
  return x;
}

/// The logarithm of the softmax along each row, and its node.
inline variable log_softmax_rows(tape& on, const variable& x) {
  const record_function scope("aten::_log_softmax", op, on.peek(),
                              inputs(x.value(), /*dim*/ std::int64_t{1}, /*half_to_float*/ false));
  tensor result = tensor::empty(x.value().sizes());
  const auto from = rows_of(x.value());
  auto to = rows_of(result);
  for (Eigen::Index i = 0; i < from.rows(); ++i) {
    const float most = from.row(i).maxCoeff();  // subtracted, so that exp never overflows
    const float log_sum = std::log((from.row(i).array() - most).exp().sum());
    to.row(i).array() = from.row(i).array() - most - log_sum;
  }
  return on.record(log_softmax_backward(result), scope, result, {x});
}

inline variable log_softmax(tape& on, const variable& x) {
  STEPPROF_SCOPE("aten::log_softmax", op, on.peek(), inputs(x.value(), /*dim*/ std::int64_t{1}, dtype_float32));
  return log_softmax_rows(on, to_float(on, x));
}

class nll_loss_backward final : public node {
 public:
  nll_loss_backward(tensor x, label_tensor labels, tensor total_weight)
      : node("NllLossBackward0"),
        x_(std::move(x)),
        labels_(std::move(labels)),
        total_weight_(std::move(total_weight)) {}
  std::vector<tensor> apply(const tensor& gradient) override {
    return {aten::nll_loss_backward(gradient, x_, labels_, total_weight_)};
  }
  void release() override {
    x_ = total_weight_ = tensor();
    labels_ = label_tensor();
  }

 private:
  tensor x_;
  label_tensor labels_;
  tensor total_weight_;
};

/// The mean of -x(i, label(i)), and its node.
inline variable nll_loss_forward(tape& on, const variable& x, const label_tensor& labels) {
  const record_function scope("aten::nll_loss_forward", op, on.peek(),
                              inputs(x.value(), labels, no_input{}, reduction_mean, ignore_no_label));
  const tensor loss = tensor::empty({}), total_weight = tensor::empty({});
  float sum = 0;
  for (std::int64_t i = 0; i < labels.size(0); ++i) sum -= x.value()(i, labels(i));
  *total_weight.data() = static_cast<float>(labels.size(0));
  *loss.data() = sum / total_weight.item();
  return on.record(nll_loss_backward(x.value(), labels, total_weight), scope, loss, {x});
}

inline variable nll_loss(tape& on, const variable& x, const label_tensor& labels) {
  STEPPROF_SCOPE("aten::nll_loss", op, on.peek(),
                 inputs(x.value(), labels, no_input{}, reduction_mean, ignore_no_label));
  return nll_loss_forward(on, x, labels);
}

inline variable nll_loss_nd(tape& on, const variable& x, const label_tensor& labels) {
  STEPPROF_SCOPE("aten::nll_loss_nd", op, on.peek(),
                 inputs(x.value(), labels, no_input{}, reduction_mean, ignore_no_label));
  return nll_loss(on, x, labels);
}

/// How badly the rows of `x`, taken as scores of classes, predict `labels`: the mean of -log(softmax(x)(i, label(i))).
inline variable cross_entropy_loss(tape& on, const variable& x, const label_tensor& labels) {
  STEPPROF_SCOPE("aten::cross_entropy_loss", op, on.peek(),
                 inputs(x.value(), labels, no_input{}, reduction_mean, ignore_no_label, /*label_smoothing*/ 0.0));
  return nll_loss_nd(on, log_softmax(on, x), labels);
}

}  // namespace training
