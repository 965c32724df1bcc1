// manual_scope: a scope whose begin and end are called, in any order relative to other scopes.
#pragma once

#include <stepprof/record/scope_handle.hpp>

STEPPROF_BEGIN_NAMESPACE

/// A scope that ends when end() is called, or with the object. Scopes that end before one that began inside them do not
/// nest: they keep their true duration but are shown on an async track, with self time 0; so are those that end on
/// another thread than they began on. For what is meant to move between threads there is async_scope. One thread at a
/// time.
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
    handle_.begin(name, attributes...);
  }
  /// Ends the scope; does nothing when it is not open.
  void end() noexcept { handle_.end(); }
  /// Whether this scope is open and being recorded.
  [[nodiscard]] bool recorded() const noexcept { return handle_.recorded(); }

 private:
  detail::scope_handle<Enabled> handle_;
};

using manual_scope = basic_manual_scope<STEPPROF_IF_ENABLED(true, false)>;

STEPPROF_END_NAMESPACE
