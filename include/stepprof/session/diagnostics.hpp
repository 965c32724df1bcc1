// What is odd but not wrong: said once, through one hook of the process.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stepprof/config.hpp>
#include <stepprof/trace/error.hpp>

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
    const std::lock_guard<std::mutex> hold(mutex_);
    return knows(code);
  }

 private:
  bool knows(std::string_view code) const {
    for (const std::string& c : codes_)
      if (c == code) return true;
    return false;
  }
  bool remember(const std::string& code) {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (knows(code)) return false;
    codes_.push_back(code);
    return true;
  }

  mutable std::mutex mutex_;
  std::vector<std::string> codes_;
};

// Serves the hook. The hook is shared, so that one which replaces itself is not destroyed while it runs.
struct hook_slot {
  std::mutex mutex;
  std::shared_ptr<const diagnostics_hook> hook;
};

inline hook_slot& the_hook() {
  static hook_slot* slot = new hook_slot;  // never destroyed: destructors of static profiles may still report
  return *slot;
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

inline std::shared_ptr<const diagnostics_hook> current_hook() {
  hook_slot& slot = the_hook();
  const std::lock_guard<std::mutex> hold(slot.mutex);
  return slot.hook;
}

inline void deliver_diagnostic(const diagnostic& what) {
  bool& inside = this_thread_is_in_the_hook();
  const std::shared_ptr<const diagnostics_hook> hook = inside ? nullptr : current_hook();
  if (!hook) return write_diagnostic(what);
  std::string thrown;
  inside = true;
  const bool returned = call_guarded([&] { (*hook)(what); }, thrown);
  inside = false;
  if (!returned) write_diagnostic(what);
}

}  // namespace detail

inline diagnostics_hook set_diagnostics_hook(diagnostics_hook hook) {
  auto next = hook ? std::make_shared<const diagnostics_hook>(std::move(hook)) : nullptr;
  detail::hook_slot& slot = detail::the_hook();
  {
    const std::lock_guard<std::mutex> hold(slot.mutex);
    slot.hook.swap(next);
  }
  return next ? *next : diagnostics_hook();
}

inline void report_diagnostic(const diagnostic& what) noexcept {
  std::string thrown;
  detail::call_guarded([&] { detail::deliver_diagnostic(what); }, thrown);
}

STEPPROF_END_NAMESPACE
