// manual_scope: a scope whose begin and end are called, in any order relative to other scopes.
#pragma once

#include <cstdint>

#include <stepprof/record/record_function.hpp>

STEPPROF_BEGIN_NAMESPACE

/// A scope that ends when end() is called, or with the object. Scopes that end before one that began inside them do not
/// nest: they keep their true duration but are shown on an async track, with self time 0; so are those that end on
/// another thread than they began on. One thread at a time.
template <bool Enabled>
class basic_manual_scope {
 public:
  basic_manual_scope() = default;
  ~basic_manual_scope() { end(); }
  basic_manual_scope(const basic_manual_scope&) = delete;
  basic_manual_scope& operator=(const basic_manual_scope&) = delete;

  /// Begins the scope; one that is still open ends first. Attributes as for record_function.
  template <class... Attributes>
  void begin(text_ref name, const Attributes&... attributes) noexcept {
    end();
    if (!detail::gate_is_open()) return;
    const scope_kind kind = detail::kind_of<scope_kind::user_annotation>(attributes...);
    if (open(name, kind)) detail::write_attributes(attributes...);
  }
  /// Ends the scope; does nothing when it is not open.
  void end() noexcept {
    if (serial_ == 0) return;
    const detail::record_part part{&serial_, 8};
    // The room for the end was kept in the log of the thread that began; elsewhere it must be found.
    const bool own = detail::this_thread_id() == static_cast<std::uint32_t>(serial_ >> 32);
    detail::cold_paths()->append(detail::make_what(detail::tag::end_manual, id_), true, &part, 1, own ? -16 : 0);
    serial_ = 0;
  }
  [[nodiscard]] bool recorded() const noexcept { return serial_ != 0; }

 private:
  bool open(text_ref name, scope_kind kind) noexcept {
    const detail::cold_table* const cold = detail::cold_paths();
    if (cold == nullptr) return false;
    id_ = cold->intern(name.data(), name.size());
    const std::uint64_t thread = detail::this_thread_id();  // has been given one for its name
    serial_ = thread << 32 | detail::the_registry.next_serial.fetch_add(1, std::memory_order_relaxed);
    const detail::record_part part{&serial_, 8};
    const std::uint32_t what =
        detail::make_what(detail::tag::begin_manual_op, id_) + (static_cast<std::uint32_t>(kind) << 24);
    if (!cold->append(what, true, &part, 1, 16)) serial_ = 0;
    return serial_ != 0;
  }

  std::uint64_t serial_ = 0;  // logical thread of the begin << 32 | a number; 0: not open
  std::uint32_t id_ = 0;
};

/// With the profiler compiled out: nothing at all.
template <>
class basic_manual_scope<false> {
 public:
  template <class... Attributes>
  void begin(text_ref, const Attributes&...) noexcept {}
  void end() noexcept {}
  [[nodiscard]] bool recorded() const noexcept { return false; }
};

using manual_scope = basic_manual_scope<STEPPROF_IF_ENABLED(true, false)>;

STEPPROF_END_NAMESPACE
