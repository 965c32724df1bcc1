// The inputs of an operation: shapes, strides, element types and scalars, copied into the log when shapes are recorded.
#pragma once

#include <cstddef>
#include <cstdint>

#include <stepprof/core/cut_text.hpp>
#include <stepprof/core/registry.hpp>
#include <stepprof/record/args.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What the profiler wants to know of a tensor, a matrix, an image ... The pointers are read at once and not kept.
struct input_description {
  const std::int64_t* sizes = nullptr;    ///< `rank` extents, in elements.
  std::size_t rank = 0;                   ///< 0: a tensor of one element without dimensions.
  const std::int64_t* strides = nullptr;  ///< `rank` strides in elements, or null when they do not matter.
  /// Name of the element type, e.g. "float"; empty or null: not known. Cut to 255 bytes, at a character.
  const char* dtype = "";
};

/// Specialise this for a type of yours, so that inputs() can take it:
/// `static input_description describe(const T&) noexcept`.
template <class T>
struct input_traits;

/// An input that was not given.
struct no_input {};

/// A list of tensors (a range of a described type), kept apart from its neighbours. Numbers are no tensors: a list of
/// integers is a scalar_list.
template <class Iterator>
struct input_range {
  Iterator first;
  Iterator last;
};
template <class Iterator>
[[nodiscard]] input_range<Iterator> input_list(Iterator first, Iterator last) {
  return {first, last};
}

/// A list of integers as one input, e.g. the sizes given to a view.
struct scalar_list {
  const std::int64_t* values = nullptr;
  std::size_t count = 0;
};
/// The same of floating-point numbers, and of bools.
struct real_list {
  const double* values = nullptr;
  std::size_t count = 0;
};
struct boolean_list {
  const bool* values = nullptr;
  std::size_t count = 0;
};

/// A complex number as one input.
struct complex_scalar {
  double real = 0;
  double imaginary = 0;
};

namespace detail {

// Whether a type is an input_description or has input_traits.
template <class T, class = void>
struct is_described {
  static constexpr bool value = false;
};
template <class T>
struct is_described<T, decltype(static_cast<void>(sizeof(input_traits<T>)))> {
  static constexpr bool value = true;
};
template <>
struct is_described<input_description, void> {
  static constexpr bool value = true;
};

// How inputs stand in the log: each input is one of these bytes and what follows it, in order; numbers are copied as
// they are in memory.
enum class input_mark : unsigned char {
  absent = 0,
  tensor = 1,  // u8 rank, u8 has strides, u8 length of dtype, dtype, i64 sizes[rank], i64 strides[rank]
  list_begin = 2,
  list_end = 3,
  scalar = 4,        // u8 argument_type, 8 bytes
  scalar_list = 5,   // u16 count, i64 values[count]
  truncated = 6,     // the inputs behind this did not fit
  real_list = 7,     // u16 count, double values[count]
  boolean_list = 8,  // u16 count, u8 values[count]
  complex = 9,       // double real, double imaginary
};

// Collects the encoded inputs on the stack: no allocation on any path.
class input_encoder {
 public:
  static constexpr std::size_t capacity = 2048;

  template <class T>
  void add(const T& value) noexcept {
    add_kind(value, value_tag<value_kind_of<T>::value>());
  }
  void add(const no_input&) noexcept { put(input_mark::absent); }
  template <class Iterator>
  void add(const input_range<Iterator>& list) noexcept {
    put(input_mark::list_begin);
    for (Iterator it = list.first; it != list.last; ++it) add_tensor(*it);
    put(input_mark::list_end);
  }
  void add(const scalar_list& list) noexcept { put_list(input_mark::scalar_list, list.values, list.count); }
  void add(const real_list& list) noexcept { put_list(input_mark::real_list, list.values, list.count); }
  void add(const boolean_list& list) noexcept { put_list(input_mark::boolean_list, list.values, list.count); }
  void add(const complex_scalar& value) noexcept {
    if (!fits(17)) return;
    put(input_mark::complex);
    put_bytes(&value, 16);
  }
  void add(const input_description& tensor) noexcept {
    const std::size_t dtype = tensor.dtype == nullptr ? 0 : cut_text(tensor.dtype, STEPPROF_STRLEN(tensor.dtype), 255);
    const bool strides = tensor.strides != nullptr;
    if (tensor.rank > 255 || !fits(4 + dtype + tensor.rank * (strides ? 16u : 8u))) {
      full_ = true;
      return;
    }
    put(input_mark::tensor);
    const unsigned char head[3] = {static_cast<unsigned char>(tensor.rank), strides, static_cast<unsigned char>(dtype)};
    put_bytes(head, 3);
    put_bytes(tensor.dtype, dtype);
    put_bytes(tensor.sizes, tensor.rank * 8);
    if (strides) put_bytes(tensor.strides, tensor.rank * 8);
  }

  // What write() writes.
  [[nodiscard]] record_part finish() noexcept {
    if (full_) bytes_[size_++] = static_cast<unsigned char>(input_mark::truncated);
    return {bytes_, static_cast<std::uint32_t>(size_)};
  }
  void write() noexcept {
    const record_part part = finish();
    cold_paths()->append(make_what(tag::inputs, 0), false, &part, 1, 0);
  }

 private:
  template <class T>
  void add_kind(const T& value, value_tag<value_kind::text>) noexcept {
    static_assert(is_described<T>::value,
                  "stepprof::inputs: an input must be a bool, a number, an enum, a scalar_list, a real_list, a "
                  "boolean_list, a complex_scalar, an input_list, no_input{}, or of a type that stepprof::input_traits "
                  "is specialised for");
    if constexpr (is_described<T>::value) add(input_traits<T>::describe(value));
  }
  template <class T>
  void add_kind(const T& value, value_tag<value_kind::character>) noexcept {
    add_kind(value, value_tag<value_kind::text>());
  }
  // The reader of a list expects nothing else.
  template <class T>
  void add_tensor(const T& value) noexcept {
    static_assert(is_described<T>::value,
                  "stepprof::input_list: the range must be of input_description or of a type that "
                  "stepprof::input_traits is specialised for; give a list of integers as "
                  "stepprof::scalar_list{values, count}");
    if constexpr (is_described<T>::value) add(value);
  }
  template <class T, value_kind Kind>
  void add_kind(const T& value, value_tag<Kind>) noexcept {
    if (!fits(10)) return;
    const argument_value v = value_of(value);
    put(input_mark::scalar);
    const auto type = static_cast<unsigned char>(v.type);
    put_bytes(&type, 1);
    put_bytes(&v.uint64, 8);
  }
  template <class T>
  void put_list(input_mark mark, const T* values, std::size_t count) noexcept {
    if (!fits(count > capacity ? capacity : 3 + count * sizeof(T))) return;
    put(mark);
    const auto count_16 = static_cast<std::uint16_t>(count);
    put_bytes(&count_16, 2);
    put_bytes(values, count * sizeof(T));
  }
  bool fits(std::size_t bytes) noexcept {
    if (full_ || size_ + bytes + 16 > capacity) full_ = true;
    return !full_;
  }
  void put(input_mark mark) noexcept {
    if (fits(1) || mark == input_mark::list_end) bytes_[size_++] = static_cast<unsigned char>(mark);
  }
  void put_bytes(const void* data, std::size_t bytes) noexcept {
    // More never comes: fits() was asked. For the compiler's sake. Nothing may have no address.
    if (size_ > capacity - bytes || bytes == 0) return;
    STEPPROF_MEMCPY(bytes_ + size_, data, bytes);
    size_ += bytes;
  }

  std::size_t size_ = 0;
  bool full_ = false;
  unsigned char bytes_[capacity];
};

template <class... Values>
struct input_values;
template <>
struct input_values<> {
  void encode(input_encoder&) const noexcept {}
};
template <class First, class... Rest>
struct input_values<First, Rest...> {
  const First& first;
  input_values<Rest...> rest;
  void encode(input_encoder& out) const noexcept {
    out.add(first);
    rest.encode(out);
  }
};

inline input_values<> refer_to() noexcept {
  return {};
}
template <class First, class... Rest>
input_values<First, Rest...> refer_to(const First& first, const Rest&... rest) noexcept {
  return {first, refer_to(rest...)};
}

template <class Inputs>
STEPPROF_COLD void write_inputs(const Inputs& inputs) noexcept {
  input_encoder out;
  inputs.encode(out);
  out.write();
}

}  // namespace detail

/// The inputs of an operation, in order: values whose type has input_traits, input_description, numbers, bools and
/// enums (as their number), complex_scalar, scalar_list, real_list, boolean_list, input_list(first, last), no_input{}.
/// Looked at only while shapes are recorded. What does not fit into 2 KiB is left out and the trace says so.
template <class... Values>
[[nodiscard]] detail::input_values<Values...> inputs(const Values&... values) noexcept {
  return detail::refer_to(values...);
}

STEPPROF_END_NAMESPACE
