// Tensors: strided views of shared memory, so that a transpose or a broadcast costs nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

#include <stepprof/record.hpp>

#include "storage.hpp"

namespace training {

/// Up to four numbers: the sizes of a tensor, its strides, or the dimensions that an op works on.
class dims {
 public:
  dims() = default;
  dims(std::initializer_list<std::int64_t> values) : rank_(values.size()) {
    std::size_t i = 0;
    for (const std::int64_t value : values) values_.at(i++) = value;
  }
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] const std::int64_t* data() const noexcept { return values_.data(); }
  [[nodiscard]] const std::int64_t* begin() const noexcept { return data(); }
  [[nodiscard]] const std::int64_t* end() const noexcept { return data() + rank_; }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const { return values_[i]; }
  [[nodiscard]] std::int64_t& operator[](std::size_t i) { return values_[i]; }
  [[nodiscard]] std::int64_t product() const noexcept {
    std::int64_t result = 1;
    for (const std::int64_t value : *this) result *= value;
    return result;
  }
  friend bool operator==(const dims& a, const dims& b) noexcept { return a.rank_ == b.rank_ && a.values_ == b.values_; }
  friend bool operator!=(const dims& a, const dims& b) noexcept { return !(a == b); }

 private:
  std::array<std::int64_t, 4> values_{};  // zero beyond the rank, which makes == correct
  std::size_t rank_ = 0;
};

/// The strides, in elements, of a tensor whose last dimension is the densest.
inline dims row_major_strides(const dims& sizes) {
  dims strides = sizes;
  std::int64_t step = 1;
  for (std::size_t i = sizes.rank(); i-- > 0; step *= sizes[i]) strides[i] = step;
  return strides;
}

/// A view of a shared block: which elements (sizes) and how far apart they lie (strides). A copy is another handle to
/// the same elements; the block is freed with its last handle.
template <class T>
class basic_tensor {
 public:
  /// No tensor at all, like a gradient that was never computed.
  basic_tensor() = default;
  /// A view of `memory` from its first element.
  basic_tensor(std::shared_ptr<storage> memory, const dims& sizes, const dims& strides)
      : memory_(std::move(memory)), sizes_(sizes), strides_(strides) {}

  /// Fresh, uninitialised elements in row-major order.
  static basic_tensor empty(const dims& sizes) {
    const auto bytes = static_cast<std::size_t>(sizes.product()) * sizeof(T);
    return {std::make_shared<storage>(bytes), sizes, row_major_strides(sizes)};
  }

  [[nodiscard]] bool defined() const noexcept { return memory_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<storage>& memory() const noexcept { return memory_; }
  [[nodiscard]] const dims& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const dims& strides() const noexcept { return strides_; }
  [[nodiscard]] std::int64_t size(std::size_t dim) const { return sizes_[dim]; }
  [[nodiscard]] std::int64_t stride(std::size_t dim) const { return strides_[dim]; }
  [[nodiscard]] std::int64_t count() const noexcept { return sizes_.product(); }
  [[nodiscard]] bool is_contiguous() const noexcept { return strides_ == row_major_strides(sizes_); }

  /// The elements, shared by all views of the block: a const handle does not make them const.
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(memory_->data()); }
  [[nodiscard]] T& operator()(std::int64_t i) const { return data()[i * strides_[0]]; }
  [[nodiscard]] T& operator()(std::int64_t i, std::int64_t j) const {
    return data()[i * strides_[0] + j * strides_[1]];
  }
  /// The value of a tensor with a single element.
  [[nodiscard]] T item() const { return *data(); }

 private:
  std::shared_ptr<storage> memory_;
  dims sizes_, strides_;
};

using tensor = basic_tensor<float>;
using label_tensor = basic_tensor<std::int64_t>;

/// Names of element types, as torch writes them into traces.
template <class T>
inline constexpr const char* element_name = nullptr;
template <>
inline constexpr const char* element_name<float> = "float";
template <>
inline constexpr const char* element_name<std::int64_t> = "long int";

}  // namespace training

// What the profiler shows of our types when an op names them as its inputs.
template <class T>
struct stepprof::input_traits<training::basic_tensor<T>> {
  static input_description describe(const training::basic_tensor<T>& t) {
    return {t.sizes().data(), t.sizes().rank(), t.strides().data(), training::element_name<T>};
  }
};
