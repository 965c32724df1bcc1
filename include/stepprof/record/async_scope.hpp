// async_scope: a scope that belongs to no thread, such as a request, a task or a coroutine.
#pragma once

#include <cstdint>

#include <stepprof/record/scope_handle.hpp>

STEPPROF_BEGIN_NAMESPACE

/// A scope that begins on one thread and ends with end(), or with the object, on any: the time of a request on its way
/// through a server, of a task with what it waited for, of a coroutine with its suspensions. Scopes may overlap it in
/// any way: it is a lane of its own in the trace, of its true duration, and in nobody's self time. A
/// record_function of the same name around each part of it that runs shows where that was, and books the part's time
/// and memory to its key. It can be moved, also while it is open, and one that was moved from is not. Attributes as for
/// record_function. Never throws, never blocks. One thread at a time.
template <bool Enabled>
class basic_async_scope {
 public:
  basic_async_scope() = default;
  template <class... Attributes>
  STEPPROF_NODISCARD_CONSTRUCTOR explicit basic_async_scope(text_ref name, const Attributes&... attributes) noexcept {
    handle_.begin(name, attributes...);
    handle_.detach();
  }
  ~basic_async_scope() { end(); }
  basic_async_scope(basic_async_scope&& other) noexcept { handle_.take(other.handle_); }
  /// A scope that is still open ends first.
  basic_async_scope& operator=(basic_async_scope&& other) noexcept {
    if (this != &other) handle_.take(other.handle_);
    return *this;
  }

  /// Ends the scope; does nothing when it is not open.
  void end() noexcept { handle_.end(); }
  /// Whether this scope is open and being recorded.
  [[nodiscard]] bool recorded() const noexcept { return handle_.recorded(); }

 private:
  detail::scope_handle<Enabled> handle_;
};

using async_scope = basic_async_scope<STEPPROF_IF_ENABLED(true, false)>;

STEPPROF_END_NAMESPACE
