// What is odd but not wrong: said once, through one hook of the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stepprof/config.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/fork_safe_mutex.hpp>

STEPPROF_BEGIN_NAMESPACE

enum class diagnostic_severity : std::uint8_t { info, warning, error };

/// One thing that the user should know although nothing failed.
struct diagnostic {
  std::string code;  ///< A stable short name, e.g. "no_active_step".
  std::string text;  ///< A sentence that names values and the remedy.
  diagnostic_severity severity = diagnostic_severity::warning;
};

/// Called with every diagnostic, on the thread that found it, with no lock of the hook held.
using diagnostics_hook = std::function<void(const diagnostic&)>;

/// Replaces the hook of the process and returns the one before (empty: the default). An empty hook restores the
/// default, which writes one line to stderr: `stepprof: warning: <text>`.
///
/// A hook may profile and may set another hook. What is found on the same thread while the hook runs goes to the
/// default, so that a hook cannot call itself for ever. What it throws is swallowed, and the default takes its
/// diagnostic instead. A hook that is being replaced may still be running on another thread. Any thread.
diagnostics_hook set_diagnostics_hook(diagnostics_hook hook);

/// Hands a diagnostic to the hook. Any thread.
void report_diagnostic(const diagnostic& what) noexcept;

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// The memory of one profile of what it has said: each code goes to the hook at most once. Any thread.
class diagnostics_once {
 public:
  /// True when this was the first of its code. Whoever calls should hold no lock that a control call takes, as the hook
  /// may make one.
  bool report(const diagnostic& what) noexcept {
    bool first = false;
    std::string thrown;
    call_guarded([&] { first = remember(what.code); }, thrown);
    if (first) report_diagnostic(what);
    return first;
  }
  [[nodiscard]] bool has_reported(std::string_view code) const {
    const process_lock hold(&fork_state::data);
    return knows(code);
  }

 private:
  bool knows(std::string_view code) const {
    for (const std::string& c : codes_)
      if (c == code) return true;
    return false;
  }
  bool remember(const std::string& code) {
    const process_lock hold(&fork_state::data);
    if (knows(code)) return false;
    codes_.push_back(code);
    return true;
  }

  std::vector<std::string> codes_;
};

// The hook is shared, so that one which replaces itself is not destroyed while it runs.
using shared_hook = std::shared_ptr<const diagnostics_hook>;
inline STEPPROF_CONSTINIT std::atomic<shared_hook*> the_shared_hook{nullptr};
// Never destroyed: destructors of static profiles may still report.
inline shared_hook& the_hook() {
  return immortal(the_shared_hook);
}

inline bool& this_thread_is_in_the_hook() noexcept {
  static thread_local bool inside = false;
  return inside;
}

// One line whatever the text holds: names in it are the user's, and a terminal obeys control bytes.
inline std::string diagnostic_line(const diagnostic& what) {
  static constexpr const char* names[] = {"info", "warning", "error"};
  std::string line = std::string("stepprof: ") + names[static_cast<unsigned>(what.severity) % 3u] + ": " + what.text;
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\n' ? ' ' : '?';
  return line + '\n';
}

inline void write_diagnostic(const diagnostic& what) {
  const std::string line = diagnostic_line(what);
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call, so that lines of several threads do not mix
}

inline shared_hook current_hook() {
  const shared_hook& hook = the_hook();
  const process_lock hold(&fork_state::data);
  return hook;
}

inline void deliver_diagnostic(const diagnostic& what) {
  bool& inside = this_thread_is_in_the_hook();
  const shared_hook hook = inside ? nullptr : current_hook();
  if (!hook) return write_diagnostic(what);
  std::string thrown;
  inside = true;
  const bool returned = call_guarded(
      [&] {
        const users_work users;
        (*hook)(what);
      },
      thrown);
  inside = false;
  if (!returned) write_diagnostic(what);
}

}  // namespace detail

inline diagnostics_hook set_diagnostics_hook(diagnostics_hook hook) {
  auto next = hook ? std::make_shared<const diagnostics_hook>(std::move(hook)) : nullptr;
  detail::shared_hook& current = detail::the_hook();
  {
    const detail::process_lock hold(&detail::fork_state::data);
    current.swap(next);
  }
  return next ? *next : diagnostics_hook();
}

inline void report_diagnostic(const diagnostic& what) noexcept {
  std::string thrown;
  detail::call_guarded([&] { detail::deliver_diagnostic(what); }, thrown);
}

STEPPROF_END_NAMESPACE
