// Ops that compute: each scope encloses the work that its name promises, and the memory of its result.
#pragma once

#include <cstdint>
#include <stdexcept>

#include <Eigen/Core>

#include "views.hpp"

namespace training {

// How torch numbers the choices that some ops take as inputs.
inline constexpr std::int64_t dtype_float32 = 6;
inline constexpr std::int64_t layout_strided = 0;
inline constexpr std::int64_t preserve_format = 1;
inline constexpr std::int64_t reduction_mean = 1;
inline constexpr std::int64_t ignore_no_label = -100;

using row_major_matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using column_major_matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

inline const tensor& require_contiguous(const tensor& a) {
  if (!a.is_contiguous()) throw std::invalid_argument("an op got a tensor that does not lie row by row, copy it first");
  return a;
}

/// All elements of a contiguous tensor as one array.
inline Eigen::Map<Eigen::ArrayXf> elements(const tensor& a) {
  return {require_contiguous(a).data(), a.count()};
}

/// A contiguous matrix as Eigen sees it.
inline Eigen::Map<row_major_matrix> rows_of(const tensor& a) {
  return {require_contiguous(a).data(), a.size(0), a.size(1)};
}

inline bool is_row_major(const tensor& a) {
  return a.stride(1) == 1 && a.stride(0) >= a.size(1);
}
inline bool is_column_major(const tensor& a) {
  return a.stride(0) == 1 && a.stride(1) >= a.size(0);
}

/// Calls `use` with the matrix in the layout that it has, so that a transposed operand is multiplied as it lies.
template <class Use>
void with_matrix(const tensor& a, Use use) {
  using outer = Eigen::OuterStride<>;
  if (is_row_major(a)) {
    aten::resolve_conj(a);
    use(Eigen::Map<row_major_matrix, 0, outer>(a.data(), a.size(0), a.size(1), outer(a.stride(0))));
  } else if (is_column_major(a)) {
    use(Eigen::Map<column_major_matrix, 0, outer>(a.data(), a.size(0), a.size(1), outer(a.stride(1))));
  } else {
    throw std::invalid_argument("mm: a matrix is neither row-major nor column-major, copy it first");
  }
}

/// result = a * b, or result += a * b.
inline void multiply(const tensor& result, const tensor& a, const tensor& b, bool add_to_result) {
  aten::resolve_conj(result);
  with_matrix(b, [&](const auto& right) {
    with_matrix(a, [&](const auto& left) {
      if (add_to_result)
        rows_of(result).noalias() += left * right;
      else
        rows_of(result).noalias() = left * right;
    });
  });
}

namespace aten {

inline void fill_(const tensor& a, double value) {
  STEPPROF_SCOPE("aten::fill_", op, inputs(a, value));
  elements(a) = static_cast<float>(value);
}

inline void zero_(const tensor& a) {
  STEPPROF_SCOPE("aten::zero_", op, inputs(a));
  elements(a) = 0.0f;
}

/// Copies a matrix of any strides into a matrix of the same sizes.
inline void copy_(const tensor& to, const tensor& from) {
  STEPPROF_SCOPE("aten::copy_", op, inputs(to, from, /*non_blocking*/ false));
  for (std::int64_t i = 0; i < to.size(0); ++i)
    for (std::int64_t j = 0; j < to.size(1); ++j) to(i, j) = from(i, j);
}

/// a += factor * b
inline void add_(const tensor& a, const tensor& b, double factor) {
  STEPPROF_SCOPE("aten::add_", op, inputs(a, b, factor));
  elements(a) += static_cast<float>(factor) * elements(b);
}

/// a + b; of matrices in any layout, as two uses of one operand may have their gradients in different ones.
inline tensor add(const tensor& a, const tensor& b) {
  STEPPROF_SCOPE("aten::add", op, inputs(a, b, std::int64_t{1}));
  tensor sum = tensor::empty(a.sizes());
  if (a.sizes().rank() < 2) {
    elements(sum) = elements(a) + elements(b);
  } else {
    for (std::int64_t i = 0; i < a.size(0); ++i)
      for (std::int64_t j = 0; j < a.size(1); ++j) sum(i, j) = a(i, j) + b(i, j);
  }
  return sum;
}

inline tensor mm(const tensor& a, const tensor& b) {
  STEPPROF_SCOPE("aten::mm", op, inputs(a, b));
  tensor product = tensor::empty({a.size(0), b.size(1)});
  multiply(product, a, b, false);
  return product;
}

/// The sum over the rows of a matrix, as a matrix of one row.
inline tensor sum(const tensor& a) {
  STEPPROF_SCOPE("aten::sum", op, inputs(a, list({0}), /*keepdim*/ true, no_input{}));
  tensor total = tensor::empty({1, a.size(1)});
  fill_(total, 0.0);
  rows_of(total) += rows_of(a).colwise().sum();
  return total;
}

inline tensor clamp_min(const tensor& a, std::int64_t least) {
  STEPPROF_SCOPE("aten::clamp_min", op, inputs(a, least));
  tensor result = tensor::empty(a.sizes());
  elements(result) = elements(a).max(static_cast<float>(least));
  return result;
}

/// `gradient` where `result` is above the threshold, else 0.
inline tensor threshold_backward(const tensor& gradient, const tensor& result, std::int64_t threshold) {
  STEPPROF_SCOPE("aten::threshold_backward", op, inputs(gradient, result, threshold));
  tensor out = tensor::empty(gradient.sizes());
  elements(out) = (elements(result) > static_cast<float>(threshold)).select(elements(gradient), 0.0f);
  return out;
}

/// d/dx of y = log_softmax(x) by rows: gradient - exp(y) * (sum of gradient along the row).
inline tensor log_softmax_backward_data(const tensor& gradient, const tensor& y, std::int64_t dim) {
  STEPPROF_SCOPE("aten::_log_softmax_backward_data", op, inputs(gradient, y, dim, dtype_float32));
  tensor out = tensor::empty(gradient.sizes());
  const auto from = rows_of(gradient), result = rows_of(y);
  auto to = rows_of(out);
  for (Eigen::Index i = 0; i < from.rows(); ++i)
    to.row(i).array() = from.row(i).array() - result.row(i).array().exp() * from.row(i).sum();
  return out;
}

/// d/dx of the mean of -x(i, label(i)).
inline tensor nll_loss_backward(const tensor& gradient, const tensor& x, const label_tensor& labels,
                                const tensor& total_weight) {
  STEPPROF_SCOPE("aten::nll_loss_backward", op,
                 inputs(gradient, x, labels, no_input{}, reduction_mean, ignore_no_label, total_weight));
  tensor out = tensor::empty(x.sizes());
  zero_(out);
  const float each = -gradient.item() / total_weight.item();
  for (std::int64_t i = 0; i < x.size(0); ++i) out(i, labels(i)) = each;
  return out;
}

inline tensor empty_strided(const dims& sizes, const dims& strides) {
  STEPPROF_SCOPE("aten::empty_strided", op,
                 inputs(list(sizes), list(strides), dtype_float32, layout_strided, no_input{}, /*pin_memory*/ false));
  return {tensor::empty(sizes).memory(), sizes, strides};
}

inline tensor empty_like(const tensor& a) {
  STEPPROF_SCOPE("aten::empty_like", op, inputs(a, no_input{}, no_input{}, no_input{}, false, preserve_format));
  return empty_strided(a.sizes(), a.strides());
}

inline tensor ones_like(const tensor& a) {
  STEPPROF_SCOPE("aten::ones_like", op, inputs(a, no_input{}, no_input{}, no_input{}, false, preserve_format));
  tensor ones = empty_like(a);
  fill_(ones, 1.0);
  return ones;
}

}  // namespace aten
}  // namespace training
