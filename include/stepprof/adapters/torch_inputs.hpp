// The inputs of a libtorch operation, as the log keeps them: what kineto writes of them, and nothing else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <stepprof/record/inputs.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// Of longer lists torch shows neither the tensors nor the numbers.
inline constexpr std::size_t most_shown_in_torch_list = 30;

// "float", "long int", "c10::Half": libtorch's own names, which do not end in a zero.
class torch_type_names {
 public:
  torch_type_names() {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const auto name = c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(i)).name();
      names_[i].assign(name.data(), name.size());
    }
  }
  [[nodiscard]] const char* of(c10::ScalarType type) const noexcept {
    const auto i = static_cast<std::size_t>(type);
    return i < names_.size() ? names_[i].c_str() : "";
  }
  // Never destroyed: ops may run in static destructors.
  static const torch_type_names& get() {
    static const auto* const names = new torch_type_names;
    return *names;
  }

 private:
  std::array<std::string, static_cast<std::size_t>(c10::ScalarType::Undefined)> names_;
};

// Only strided tensors have strides. Throws what sizes() throws for a tensor whose sizes are no numbers.
inline input_description describe_torch_tensor(const at::Tensor& tensor) {
  input_description d;
  if (!tensor.defined()) return d;
  const auto sizes = tensor.sizes();
  d.sizes = sizes.data();
  d.rank = sizes.size();
  if (tensor.layout() == at::kStrided) d.strides = tensor.strides().data();
  d.dtype = torch_type_names::get().of(tensor.scalar_type());
  return d;
}

inline void add_torch_tensor(input_encoder& out, const at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_nested())
    out.add(describe_torch_tensor(tensor));
  else
    out.add(no_input{});
}

// Lets input_list() walk over a list's values.
struct torch_list_iterator {
  const c10::IValue* at;
  input_description operator*() const { return describe_torch_tensor(at->toTensor()); }
  torch_list_iterator& operator++() {
    ++at;
    return *this;
  }
  bool operator!=(const torch_list_iterator& other) const { return at != other.at; }
};

// A list of numbers, all of one type; false when it is none.
template <class List, class T, class Is, class To>
bool add_torch_numbers(input_encoder& out, c10::ArrayRef<c10::IValue> list, Is is, To to) {
  T values[most_shown_in_torch_list];
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!(list[i].*is)()) return false;
    values[i] = (list[i].*to)();
  }
  out.add(List{values, list.size()});
  return true;
}

inline void add_torch_list(input_encoder& out, const c10::IValue& value) {
  const c10::ArrayRef<c10::IValue> list = value.toListRef();
  const bool is_long = list.size() > most_shown_in_torch_list;
  // The type of a list is asked for only where its values leave it open: that is a call into libtorch.
  if ((list.empty() || list[0].isTensor()) && value.isTensorList())
    return out.add(
        input_list(torch_list_iterator{list.begin()}, torch_list_iterator{is_long ? list.begin() : list.end()}));
  using v = c10::IValue;
  if (is_long || !(add_torch_numbers<scalar_list, std::int64_t>(out, list, &v::isInt, &v::toInt) ||
                   add_torch_numbers<real_list, double>(out, list, &v::isDouble, &v::toDouble) ||
                   add_torch_numbers<boolean_list, bool>(out, list, &v::isBool, &v::toBool)))
    out.add(no_input{});
}

inline void add_torch_input(input_encoder& out, const c10::IValue& value) {
  if (value.isTensor()) return add_torch_tensor(out, value.toTensor());
  if (value.isInt()) return out.add(value.toInt());
  if (value.isDouble()) return out.add(value.toDouble());
  if (value.isBool()) return out.add(value.toBool());
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return out.add(complex_scalar{number.real(), number.imag()});
  }
  if (value.isList()) return add_torch_list(out, value);
  out.add(no_input{});
}

// Of the innermost open scope. What cannot be described (sizes that are symbols) is left out with all its neighbours.
inline void write_torch_inputs(c10::ArrayRef<const c10::IValue> inputs) noexcept {
  try {
    input_encoder out;
    for (const c10::IValue& value : inputs) add_torch_input(out, value);
    out.write();
  } catch (...) {
  }
}

}  // namespace detail
STEPPROF_END_NAMESPACE
