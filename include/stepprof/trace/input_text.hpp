// The inputs of an operation, from the log's encoding to the four texts that a trace keeps.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <stepprof/record/inputs.hpp>
#include <stepprof/trace/quote_json.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

inline std::string number_text(std::int64_t value) {
  return std::to_string(value);
}
inline std::string number_text(bool value) {
  return value ? "True" : "False";
}
// A bool as it is in a log whose bytes may be any.
enum class boolean_byte : unsigned char {};
inline std::string number_text(boolean_byte value) {
  return number_text(static_cast<unsigned char>(value) != 0);
}
// A floating-point scalar always shows that it is one: 1 is "1.", as torch prints it.
inline std::string number_text(double value) {
  if (value != value) return "nan";
  if (value > 1.7976931348623157e308) return "inf";
  if (value < -1.7976931348623157e308) return "-inf";
  char digits[64];
  // 17 digits: what torch prints, and enough to read the same value back.
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 17).ptr;
  std::string text(digits, end);
  if (text.find_first_of(".e") == std::string::npos) text += '.';
  return text;
}

// Decodes what input_encoder wrote. Arbitrary bytes are safe: it stops at the first that makes no sense.
class input_texts {
 public:
  explicit input_texts(std::string_view bytes) : bytes_(bytes) {
    while (at_ < bytes_.size() && !truncated) read_input(true);
    dims = "[" + dims + "]";
    strides = "[" + strides + "]";
    types = "[" + types + "]";
    concrete = "[" + concrete + "]";
  }

  std::string dims;
  std::string strides;
  std::string types;
  std::string concrete;
  bool truncated = false;

 private:
  template <class T>
  bool take(T& value) {
    if (bytes_.size() - at_ < sizeof value) {
      truncated = true;
      return false;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return true;
  }
  template <class T = std::int64_t>
  std::string take_list(std::size_t count) {
    std::string text = "[";
    for (std::size_t i = 0; i < count; ++i) {
      T value{};
      if (!take(value)) break;
      text += (i == 0 ? "" : ", ") + number_text(value);
    }
    return text + "]";
  }
  template <class T>
  void read_scalars() {
    std::uint16_t count = 0;
    if (take(count)) add("[]", "[]", "ScalarList", take_list<T>(count));
  }
  void read_complex() {
    double parts[2] = {0, 0};
    if (!take(parts)) return;
    const bool minus = !(parts[1] >= 0);  // as torch has it: also of what is no number
    add("[]", "[]", "Scalar", number_text(parts[0]) + (minus ? '-' : '+') + number_text(std::fabs(parts[1])) + "j");
  }
  static void append(std::string& list, const std::string& element) {
    if (!list.empty() && list.back() != '[') list += ", ";
    list += element;
  }
  void add(const std::string& d, const std::string& s, std::string_view type, const std::string& value) {
    append(dims, d);
    append(strides, s);
    std::string quoted;
    quote_json(quoted, type);
    append(types, quoted);
    append(concrete, "\"" + value + "\"");
  }
  void read_input(bool top) {
    unsigned char mark = 0;
    if (!take(mark)) return;
    switch (static_cast<input_mark>(mark)) {
      case input_mark::absent:
        add("[]", "[]", "", "");
        break;
      case input_mark::tensor:
        read_tensor(top);
        break;
      case input_mark::list_begin:
        read_list();
        break;
      case input_mark::scalar:
        read_scalar();
        break;
      case input_mark::scalar_list:
        read_scalars<std::int64_t>();
        break;
      case input_mark::real_list:
        read_scalars<double>();
        break;
      case input_mark::boolean_list:
        read_scalars<boolean_byte>();
        break;
      case input_mark::complex:
        read_complex();
        break;
      default:
        truncated = true;
        break;
    }
  }
  void read_tensor(bool top) {
    unsigned char rank = 0, has_strides = 0, dtype_size = 0;
    if (!take(rank) || !take(has_strides) || !take(dtype_size) || bytes_.size() - at_ < dtype_size) {
      truncated = true;
      return;
    }
    const std::string_view dtype = bytes_.substr(at_, dtype_size);
    at_ += dtype_size;
    const std::string d = take_list(rank);
    const std::string s = has_strides != 0 ? take_list(rank) : "[]";
    if (top) {
      add(d, s, dtype, "");
    } else {
      append(dims, d);
      append(strides, s);
    }
  }
  void read_list() {
    append(dims, "[");
    append(strides, "[");
    append(types, "\"TensorList\"");
    append(concrete, "\"\"");
    while (at_ < bytes_.size() && bytes_[at_] == static_cast<char>(input_mark::tensor)) {
      ++at_;
      read_tensor(false);
    }
    if (at_ < bytes_.size() && bytes_[at_] == static_cast<char>(input_mark::list_end))
      ++at_;
    else
      truncated = true;
    dims += "]";
    strides += "]";
  }
  void read_scalar() {
    unsigned char type = 0;
    std::uint64_t bits = 0;
    if (!take(type) || !take(bits)) return;
    std::int64_t integer = 0;
    double real = 0;
    std::memcpy(&integer, &bits, 8);
    std::memcpy(&real, &bits, 8);
    switch (static_cast<argument_type>(type)) {
      case argument_type::int64:
        add("[]", "[]", "Scalar", number_text(integer));
        break;
      case argument_type::uint64:
        add("[]", "[]", "Scalar", std::to_string(bits));
        break;
      case argument_type::real:
        add("[]", "[]", "Scalar", number_text(real));
        break;
      case argument_type::boolean:
        add("[]", "[]", "Scalar", number_text(integer != 0));
        break;
      default:
        truncated = true;
        break;
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
