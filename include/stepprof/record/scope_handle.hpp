// What manual and asynchronous scopes share: a begin and an end that find each other by a number, wherever they are.
#pragma once

#include <cstdint>

#include <stepprof/record/record_function.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

template <bool Enabled>
class scope_handle {
 public:
  template <class... Attributes>
  void begin(text_ref name, const Attributes&... attributes) noexcept {
    end();
    if (!gate_is_open()) return;
    const scope_kind kind = kind_of<scope_kind::user_annotation>(attributes...);
    if (open(name, kind)) write_attributes(attributes...);
  }
  void end() noexcept {
    if (serial_ == 0) return;
    const record_part part{&serial_, 8};
    // The room for the end was kept in the log of the thread that began; elsewhere it must be found.
    const bool own = this_thread_id() == static_cast<std::uint32_t>(serial_ >> 32);
    cold_paths()->append(make_what(tag::end_manual, id_), true, &part, 1, own ? -16 : 0);
    serial_ = 0;
  }
  // Says, after the attributes, that nothing nests in this scope.
  void detach() noexcept {
    if (serial_ == 0) return;
    const record_part part{&serial_, 8};
    cold_paths()->append(make_what(tag::detach, 0), false, &part, 1, 0);
  }
  void take(scope_handle& other) noexcept {
    end();
    serial_ = other.serial_;
    id_ = other.id_;
    other.serial_ = 0;
  }
  [[nodiscard]] bool recorded() const noexcept { return serial_ != 0; }

 private:
  bool open(text_ref name, scope_kind kind) noexcept {
    const cold_table* const cold = cold_paths();
    if (cold == nullptr) return false;
    id_ = cold->intern(name.data(), name.size());
    const std::uint64_t thread = this_thread_id();  // has been given one for its name
    serial_ = thread << 32 | the_registry.next_serial.fetch_add(1, std::memory_order_relaxed);
    const record_part part{&serial_, 8};
    const std::uint32_t what = make_what(tag::begin_manual_op, id_) + (static_cast<std::uint32_t>(kind) << 24);
    if (!cold->append(what, true, &part, 1, 16)) serial_ = 0;
    return serial_ != 0;
  }

  std::uint64_t serial_ = 0;  // logical thread of the begin << 32 | a number; 0: not open
  std::uint32_t id_ = 0;
};

// With the profiler compiled out: nothing at all.
template <>
class scope_handle<false> {
 public:
  template <class... Attributes>
  void begin(text_ref, const Attributes&...) noexcept {}
  void end() noexcept {}
  void detach() noexcept {}
  void take(scope_handle&) noexcept {}
  [[nodiscard]] bool recorded() const noexcept { return false; }
};

}  // namespace detail

STEPPROF_END_NAMESPACE
