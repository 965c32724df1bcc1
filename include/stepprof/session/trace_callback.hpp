// Anything that a user may want called with a finished trace, in one type that does not throw.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include <stepprof/config.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Holds a copyable callable of one of three forms, or nothing:
/// `void f(const trace&)`, `std::error_code f(const trace&)`, `void f(const trace&, std::error_code&)`.
/// What has the last form is called in it; a result that is no error_code is ignored. nullptr, an empty std::function
/// and a null function pointer are nothing.
class trace_callback {
 public:
  trace_callback() = default;
  trace_callback(std::nullptr_t) {}
  template <class Callable, class Plain = std::decay_t<Callable>,
            class = std::enable_if_t<!std::is_same_v<Plain, trace_callback> &&
                                     (std::is_invocable_v<Plain&, const trace&> ||
                                      std::is_invocable_v<Plain&, const trace&, std::error_code&>)>>
  trace_callback(Callable&& callable) {
    if constexpr (std::is_invocable_v<Plain&, const trace&, std::error_code&>) {
      hold<void(const trace&, std::error_code&)>(std::forward<Callable>(callable),
                                                 [](const auto& f, const trace& t, std::error_code& ec) { f(t, ec); });
    } else if constexpr (std::is_convertible_v<std::invoke_result_t<Plain&, const trace&>, std::error_code>) {
      hold<std::error_code(const trace&)>(std::forward<Callable>(callable),
                                          [](const auto& f, const trace& t, std::error_code& ec) { ec = f(t); });
    } else {
      hold<void(const trace&)>(std::forward<Callable>(callable),
                               [](const auto& f, const trace& t, std::error_code&) { f(t); });
    }
  }

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(call_); }

  /// Calls it. The error that it returns, or errc::callback_failed with the text of what it throws. Does nothing when
  /// there is nothing to call.
  [[nodiscard]] std::error_code operator()(const trace& t) const noexcept {
    std::error_code ec;
    if (!call_) return ec;
    std::string thrown;
    const auto call = [&] {
      const detail::users_work users;
      call_(t, ec);
    };
    if (!detail::call_guarded(call, thrown))
      ec = detail::make_error(errc::callback_failed, "on_trace_ready: the callback threw: " + thrown);
    return ec;
  }

 private:
  // Through a std::function of the callable's own form, as that one knows what "empty" means.
  template <class Form, class Callable, class Call>
  void hold(Callable&& callable, Call call) {
    std::function<Form> function(std::forward<Callable>(callable));
    if (!function) return;
    call_ = [function = std::move(function), call](const trace& t, std::error_code& ec) { call(function, t, ec); };
  }

  std::function<void(const trace&, std::error_code&)> call_;
};

STEPPROF_END_NAMESPACE
