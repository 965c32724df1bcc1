// What a scope may be given beside its name: kind, arguments, sequence numbers, links.
#pragma once

#include <cstdint>

#include <stepprof/core/registry.hpp>
#include <stepprof/core/scope_kind.hpp>
#include <stepprof/record/text_ref.hpp>

STEPPROF_BEGIN_NAMESPACE

/// The number under which a program's tape knows an operation. Below 0: none. Numbers belong to the program; they are
/// given to the scope of the forward operation (and, through forward_link, to the backward one).
struct sequence_number {
  std::int64_t value;
  explicit constexpr sequence_number(std::int64_t number) noexcept : value(number) {}
};

/// Names a forward scope, to be kept in the tape's node and handed to the backward scope: the arrow in the trace runs
/// from the forward scope with this thread and number to the backward one. `thread` is 0 when the forward scope was not
/// recorded: the backward scope then shows its number, and no arrow.
struct forward_link {
  std::uint32_t thread = 0;  ///< Logical id of the forward thread, the `tid` of the trace.
  std::int64_t sequence = -1;
};

namespace detail {

enum class value_kind { boolean, integer, unsigned_integer, real, enumeration, character, text };

// Without <type_traits>, which would be most of the light header's compile time: what it asks, all compilers know.
template <class T>
struct value_kind_of {
  static constexpr value_kind value = __is_enum(T) ? value_kind::enumeration : value_kind::text;
};
template <class T>
struct is_text {
  static constexpr bool value = __is_constructible(text_ref, const T&);
};
#define STEPPROF_VALUE_KIND(type, kind)                   \
  template <>                                             \
  struct value_kind_of<type> {                            \
    static constexpr value_kind value = value_kind::kind; \
  };
STEPPROF_VALUE_KIND(bool, boolean)
STEPPROF_VALUE_KIND(char, character)
STEPPROF_VALUE_KIND(signed char, integer)
STEPPROF_VALUE_KIND(short, integer)
STEPPROF_VALUE_KIND(int, integer)
STEPPROF_VALUE_KIND(long, integer)
STEPPROF_VALUE_KIND(long long, integer)
STEPPROF_VALUE_KIND(unsigned char, unsigned_integer)
STEPPROF_VALUE_KIND(unsigned short, unsigned_integer)
STEPPROF_VALUE_KIND(unsigned int, unsigned_integer)
STEPPROF_VALUE_KIND(unsigned long, unsigned_integer)
STEPPROF_VALUE_KIND(unsigned long long, unsigned_integer)
STEPPROF_VALUE_KIND(float, real)
STEPPROF_VALUE_KIND(double, real)
STEPPROF_VALUE_KIND(long double, real)
#undef STEPPROF_VALUE_KIND

// An argument's value as the log holds it: eight bytes, or a text.
struct argument_value {
  argument_type type = argument_type::int64;
  union {
    std::int64_t int64;
    std::uint64_t uint64;
    double real;
  };
  text_ref text;
  argument_value() : int64(0) {}
};

template <value_kind Kind>
struct value_tag {};

template <class T>
argument_value make_value(const T& value, value_tag<value_kind::boolean>) noexcept {
  argument_value v;
  v.type = argument_type::boolean;
  v.int64 = value ? 1 : 0;
  return v;
}
template <class T>
argument_value make_value(const T& value, value_tag<value_kind::integer>) noexcept {
  argument_value v;
  v.int64 = static_cast<std::int64_t>(value);
  return v;
}
template <class T>
argument_value make_value(const T& value, value_tag<value_kind::unsigned_integer>) noexcept {
  argument_value v;
  v.type = argument_type::uint64;
  v.uint64 = static_cast<std::uint64_t>(value);
  return v;
}
template <class T>
argument_value make_value(const T& value, value_tag<value_kind::real>) noexcept {
  argument_value v;
  v.type = argument_type::real;
  v.real = static_cast<double>(value);
  return v;
}
template <class T>
argument_value make_value(const T& value, value_tag<value_kind::character>) noexcept {
  argument_value v;
  v.type = argument_type::text;
  v.text = text_ref(&value, 1);
  return v;
}
template <class T>
argument_value make_value(const T& value, value_tag<value_kind::text>) noexcept {
  static_assert(
      is_text<T>::value,
      "stepprof::arg: the value must be a bool, a number, an enum, a char or a text (const char*, std::string, "
      "anything with data() and size()); cast a pointer to std::uintptr_t, load an atomic");
  argument_value v;
  v.type = argument_type::text;
  if constexpr (is_text<T>::value) v.text = text_ref(value);
  return v;
}
template <class T>
argument_value make_value(const T& value, value_tag<value_kind::enumeration>) noexcept {
  const auto number = +static_cast<__underlying_type(T)>(value);  // + makes a number of a char
  return make_value(number, value_tag<value_kind_of<decltype(+number)>::value>());
}
template <class T>
argument_value value_of(const T& value) noexcept {
  return make_value(value, value_tag<value_kind_of<T>::value>());
}

// Longer texts of arguments are cut here, at a character.
inline constexpr std::size_t max_text_bytes = 8192;

}  // namespace detail

/// A typed argument of a scope; made by arg().
template <class T>
struct scope_argument {
  text_ref key;
  const T& value;
};

/// `arg("rows", 64)`: a bool, an integer, a floating-point number, an enum (shown as its number), a char (a text of
/// that one character) or a text (cut at 8192 bytes) that the trace shows under this key. A signed or unsigned char,
/// such as std::uint8_t, is an integer. The value is read when the scope begins; it is not even looked at while nothing
/// is recorded.
template <class T>
[[nodiscard]] scope_argument<T> arg(text_ref key, const T& value) noexcept {
  return {key, value};
}
/// The same for a literal.
[[nodiscard]] inline scope_argument<text_ref> arg(text_ref key, const text_ref& value) noexcept {
  return {key, value};
}

/// `flops(2.0 * m * n * k)`: the floating-point operations of the scope itself, for the columns `Total FLOPs` and
/// `FLOP/s`. It is the argument "flops", and goes before a formula for the name.
template <class T>
[[nodiscard]] scope_argument<T> flops(const T& count) noexcept {
  return {"flops", count};
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// Writes one argument of the innermost open scope whose name is `scope`, or of the innermost one when it is 0.
STEPPROF_COLD inline void write_argument(std::uint32_t scope, text_ref key, const argument_value& value) noexcept {
  const cold_table* const cold = cold_paths();
  if (cold == nullptr) return;
  const std::uint32_t head[2] = {scope, static_cast<std::uint32_t>(value.type)};
  const std::uint64_t size = size_within(value.text, max_text_bytes);
  const bool is_text = value.type == argument_type::text;
  const record_part parts[3] = {{head, 8},
                                {is_text ? static_cast<const void*>(&size) : &value.uint64, 8},
                                {value.text.data(), is_text ? static_cast<std::uint32_t>(size) : 0}};
  cold->append(make_what(tag::argument, cold->intern(key.data(), key.size())), false, parts, 3, 0);
}

STEPPROF_COLD inline void write_sequence(std::int64_t number) noexcept {
  const record_part part{&number, 8};
  cold_paths()->append(make_what(tag::sequence, 0), false, &part, 1, 0);
}

STEPPROF_COLD inline void write_link(forward_link link) noexcept {
  const std::uint64_t thread = link.thread;
  const record_part parts[2] = {{&thread, 8}, {&link.sequence, 8}};
  cold_paths()->append(make_what(tag::link, 0), false, parts, 2, 0);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
