// record_function: a named region of the program, from here to the end of the block.
#pragma once

#include <cstdint>

#include <stepprof/record/args.hpp>
#include <stepprof/record/inputs.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// The kind of a scope is part of its begin word, so it is picked out of the attributes first.
template <class T>
constexpr void pick_kind(scope_kind&, const T&) noexcept {}
constexpr void pick_kind(scope_kind& kind, scope_kind given) noexcept {
  kind = given;
}

template <class T>
constexpr void pick_sequence(std::int64_t&, const T&) noexcept {}
constexpr void pick_sequence(std::int64_t& sequence, sequence_number given) noexcept {
  sequence = given.value;
}

template <class T>
void write_attribute(std::uint32_t, const scope_argument<T>& argument) noexcept {
  write_argument(0, argument.key, value_of(argument.value));
}
inline void write_attribute(std::uint32_t, scope_kind) noexcept {}
inline void write_attribute(std::uint32_t, sequence_number number) noexcept {
  if (number.value >= 0) write_sequence(number.value);
}
inline void write_attribute(std::uint32_t, forward_link link) noexcept {
  write_link(link);
}
template <class... Values>
void write_attribute(std::uint32_t flags, const input_values<Values...>& inputs) noexcept {
  if ((flags & flag_shapes) != 0) write_inputs(inputs);
}

template <scope_kind Default, class... Attributes>
constexpr scope_kind kind_of(const Attributes&... attributes) noexcept {
  scope_kind kind = Default;
  (pick_kind(kind, attributes), ...);
  return kind;
}

// What the kind adds to the begin word of a user annotation.
constexpr std::uint32_t kind_offset(scope_kind kind) noexcept {
  return (static_cast<std::uint32_t>(kind) - static_cast<std::uint32_t>(scope_kind::user_annotation)) << 24;
}

// Of the innermost open scope. The flags are those of this moment.
template <class... Attributes>
STEPPROF_ALWAYS_INLINE void write_attributes(const Attributes&... attributes) noexcept {
  if constexpr (sizeof...(Attributes) != 0) {
    const std::uint32_t flags = the_registry.gate.load(std::memory_order_relaxed);
    (write_attribute(flags, attributes), ...);
  }
}

// Begins a scope; `what` is the begin word of a user annotation. Returns as begin_scope does.
template <class Clock, class... Attributes>
STEPPROF_ALWAYS_INLINE std::uint64_t open_scope(std::uint32_t what, const Attributes&... attributes) noexcept {
  const std::uint64_t thread =
      begin_scope<Clock>(what + kind_offset(kind_of<scope_kind::user_annotation>(attributes...)));
  if (thread != 0) write_attributes(attributes...);
  return thread;
}

STEPPROF_COLD inline std::uint32_t name_site(call_site& site) noexcept {
  const cold_table* const cold = cold_paths();
  return cold == nullptr ? 0 : cold->register_site(site);
}

}  // namespace detail

/// A scope: records the time from its construction to its destruction, under a name, on the calling thread.
///
///     stepprof::record_function scope("aten::mm", stepprof::scope_kind::op, stepprof::inputs(a, b));
///
/// Attributes in any order: a scope_kind (default: user_annotation), sequence_number, forward_link, inputs(...), any
/// number of arg(key, value). While nothing records, all of it is one load and one branch, and no attribute is looked
/// at. Whether a scope is recorded is decided when it begins. A name longer than 16384 bytes is cut there, at a
/// character, and the trace says so. Never throws, never blocks, never allocates from the program's heap. Any thread; a
/// scope ends on the thread on which it began. One that is destroyed on another thread ends there, and is shown apart
/// from both. Leaving scopes by longjmp is not supported: they stay open until the scope around them ends, and are then
/// shown apart, counted as unfinished; each goes on to take 8 bytes of the event budget.
template <class Clock, bool Enabled>
class basic_record_function {
 public:
  template <class... Attributes>
  STEPPROF_NODISCARD_CONSTRUCTOR STEPPROF_ALWAYS_INLINE explicit basic_record_function(
      text_ref name, const Attributes&... attributes) noexcept {
    (detail::pick_sequence(sequence_, attributes), ...);  // a link names the number also when nothing records
    if (STEPPROF_UNLIKELY(detail::gate_is_open())) {
      const detail::cold_table* const cold = detail::cold_paths();
      if (cold == nullptr) return;
      id_ = cold->intern(name.data(), name.size());
      thread_ = detail::open_scope<Clock>(detail::what_of(detail::tag::begin_user, id_), attributes...);
    }
  }
  STEPPROF_ALWAYS_INLINE ~basic_record_function() {
    if (thread_ != 0) detail::end_scope<Clock>(thread_, detail::what_of(detail::tag::end, id_));
  }
  basic_record_function(const basic_record_function&) = delete;
  basic_record_function& operator=(const basic_record_function&) = delete;

  /// Whether this scope is being recorded.
  [[nodiscard]] bool recorded() const noexcept { return thread_ != 0; }

  /// What a tape's node keeps of this forward scope: its thread and the sequence number it was given.
  [[nodiscard]] forward_link link() const noexcept { return {static_cast<std::uint32_t>(thread_ >> 32), sequence_}; }

  /// Adds an argument while the scope is open. On the scope's own thread; when scopes of one name are open inside each
  /// other, it goes to the innermost. Does nothing while nothing records.
  template <class T>
  void add_arg(text_ref key, const T& value) noexcept {
    if (thread_ != 0 && detail::gate_is_open()) detail::write_argument(id_, key, detail::value_of(value));
  }
  void add_arg(text_ref key, const char* value) noexcept { add_arg(key, text_ref(value)); }

 private:
  std::uint64_t thread_ = 0;  // whose log holds the begin << 32; 0: not recorded
  std::uint32_t id_ = 0;      // of the name
  std::int64_t sequence_ = -1;
};

/// With the profiler compiled out: nothing at all.
template <class Clock>
class basic_record_function<Clock, false> {
 public:
  template <class... Attributes>
  STEPPROF_NODISCARD_CONSTRUCTOR explicit basic_record_function(text_ref, const Attributes&...) noexcept {}
  ~basic_record_function() {}
  basic_record_function(const basic_record_function&) = delete;
  basic_record_function& operator=(const basic_record_function&) = delete;
  [[nodiscard]] bool recorded() const noexcept { return false; }
  [[nodiscard]] forward_link link() const noexcept { return {}; }
  template <class T>
  void add_arg(text_ref, const T&) noexcept {}
};

namespace detail {

// The scope of STEPPROF_SCOPE. Its place in the source knows the name and both words, so that it keeps nothing but the
// thread, and a compiler that sees the object keeps even that in a register.
template <class Clock>
class site_scope {
 public:
  template <class... Attributes>
  STEPPROF_ALWAYS_INLINE explicit site_scope(call_site& site, const char*, const Attributes&... attributes) noexcept
      : site_(site) {
    if (STEPPROF_UNLIKELY(gate_is_open())) {
      // Acquire: then the end finds its word, too.
      std::uint32_t what = site.what.load(std::memory_order_acquire);
      if (STEPPROF_UNLIKELY(must_ask(what)))
        what = name_site(site);
      else
        STEPPROF_ASSUME(what != 0);  // what the comparison of two words says, too
      if (STEPPROF_LIKELY(what != 0)) thread_ = open_scope<Clock>(what, attributes...);
    }
  }
  STEPPROF_ALWAYS_INLINE ~site_scope() {
    // Relaxed: the begin has seen it.
    if (thread_ != 0) end_scope<Clock>(thread_, site_.end_what.load(std::memory_order_relaxed));
  }
  site_scope(const site_scope&) = delete;
  site_scope& operator=(const site_scope&) = delete;

 private:
  std::uint64_t thread_ = 0;  // whose log holds the begin << 32; 0: not recorded
  call_site& site_;
};

}  // namespace detail

/// A scope on the program's clock.
using record_function = basic_record_function<product_clock, STEPPROF_IF_ENABLED(true, false)>;

#define STEPPROF_DETAIL_JOIN2(a, b) a##b
#define STEPPROF_DETAIL_JOIN(a, b) STEPPROF_DETAIL_JOIN2(a, b)
#define STEPPROF_DETAIL_FIRST2(first, ...) first
#define STEPPROF_DETAIL_FIRST(...) STEPPROF_DETAIL_FIRST2(__VA_ARGS__, 0)
#define STEPPROF_DETAIL_SCOPE(number, name, ...)                                                           \
  static STEPPROF_CONSTINIT ::stepprof::detail::call_site STEPPROF_DETAIL_JOIN(stepprof_site_, number){    \
      name, __FILE__, static_cast<::std::uint32_t>(__LINE__), {0}, {0}};                                   \
  ::stepprof::detail::site_scope<::stepprof::product_clock> STEPPROF_DETAIL_JOIN(stepprof_scope_, number)( \
      STEPPROF_DETAIL_JOIN(stepprof_site_, number), __VA_ARGS__)

/// `STEPPROF_SCOPE("name", attributes...)`: a scope from here to the end of the block, with a call site of its own,
/// which is the cheapest way and also records file and line. The name must be a literal.
#define STEPPROF_SCOPE(...)                                                                                   \
  STEPPROF_COUNTING_BEGIN                                                                                     \
  STEPPROF_IF_ENABLED(STEPPROF_DETAIL_SCOPE(__COUNTER__, "" STEPPROF_DETAIL_FIRST(__VA_ARGS__), __VA_ARGS__), \
                      static_cast<void>(0))                                                                   \
  STEPPROF_COUNTING_END

/// A scope named after the enclosing function.
#define STEPPROF_FUNCTION()                                                                         \
  STEPPROF_COUNTING_BEGIN                                                                           \
  STEPPROF_IF_ENABLED(STEPPROF_DETAIL_SCOPE(__COUNTER__, __func__, __func__), static_cast<void>(0)) \
  STEPPROF_COUNTING_END

STEPPROF_END_NAMESPACE
