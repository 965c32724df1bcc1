// Ops that make another view of the same memory: none of them allocates, none touches an element.
#pragma once

#include <utility>

#include "tensor.hpp"

namespace training {

using stepprof::inputs;
using stepprof::no_input;

/// The scope of an op that a library performs, as opposed to a region that its user names.
inline constexpr stepprof::scope_kind op = stepprof::scope_kind::op;

/// Sizes, strides or dimensions as the input of an op.
inline stepprof::scalar_list list(const dims& values) {
  return {values.data(), values.rank()};
}

namespace aten {

inline tensor as_strided(const tensor& a, const dims& sizes, const dims& strides) {
  STEPPROF_SCOPE("aten::as_strided", op, inputs(a, list(sizes), list(strides), no_input{}));
  return {a.memory(), sizes, strides};
}

inline tensor transpose(const tensor& a, std::int64_t dim0, std::int64_t dim1) {
  STEPPROF_SCOPE("aten::transpose", op, inputs(a, dim0, dim1));
  const auto i = static_cast<std::size_t>(dim0), j = static_cast<std::size_t>(dim1);
  dims sizes = a.sizes(), strides = a.strides();
  std::swap(sizes[i], sizes[j]);
  std::swap(strides[i], strides[j]);
  return as_strided(a, sizes, strides);
}

/// A matrix, rows and columns exchanged.
inline tensor t(const tensor& a) {
  STEPPROF_SCOPE("aten::t", op, inputs(a));
  return transpose(a, 0, 1);
}

/// A row shown as `sizes[0]` equal rows: the stride between them is 0.
inline tensor expand(const tensor& row, const dims& sizes) {
  STEPPROF_SCOPE("aten::expand", op, inputs(row, list(sizes), /*implicit*/ false));
  return as_strided(row, sizes, {0, row.stride(0)});
}

/// The same elements in the same order under other sizes. Only for tensors that are contiguous.
inline tensor view(const tensor& a, const dims& sizes) {
  STEPPROF_SCOPE("aten::view", op, inputs(a, list(sizes)));
  return {a.memory(), sizes, row_major_strides(sizes)};
}

/// The same tensor, cut off from whatever graph it was computed by.
inline tensor detach(const tensor& a) {
  STEPPROF_SCOPE("aten::detach", op, inputs(a));
  STEPPROF_SCOPE("detach", op, inputs(a));
  return a;
}

/// Real numbers are their own conjugates. Asked for by every matrix product before it reads a row-major operand.
inline const tensor& resolve_conj(const tensor& a) {
  STEPPROF_SCOPE("aten::resolve_conj", op, inputs(a));
  return a;
}

}  // namespace aten
}  // namespace training
