// Errors of everything outside the hot path: one throwing form, one std::error_code form, one text for both.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

#include <stepprof/config.hpp>
#include <stepprof/trace/fork_safe_mutex.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What kind of thing went wrong. Comparable with std::error_code: `if (ec == stepprof::errc::invalid_argument)`.
enum class errc : int {
  invalid_argument = 1,  ///< A field of an option struct or an argument has a value that is not allowed.
  already_running = 2,   ///< Another profile records, or a control call was made from inside on_trace_ready.
  not_running = 3,       ///< The profile is not recording.
  no_results = 4,        ///< Nothing has been recorded that could be read.
  bad_trace = 5,         ///< A trace file, or the input of trace_builder, breaks a rule of the format.
  out_of_memory = 6,     ///< The event pool could not be reserved.
  unsupported = 7,       ///< Asked for something that this build or machine cannot record or write.
  callback_failed = 8,   ///< A user's callback threw or reported a failure.
};

/// Thrown by the throwing forms. `what()` names the field, the value and the remedy; `code()` is the kind.
/// Failing file operations throw std::system_error instead.
class error : public std::runtime_error {
 public:
  error(errc code, const std::string& text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] errc code() const noexcept { return code_; }

 private:
  errc code_;
};

/// The category of every std::error_code that stepprof makes itself. `message()` is the same text, with field, value
/// and remedy, that the throwing form would have thrown (the last 256 texts of the process are kept; older codes get a
/// general text). Any thread.
[[nodiscard]] const std::error_category& error_category() noexcept;

[[nodiscard]] inline std::error_condition make_error_condition(errc code) noexcept {
  return {static_cast<int>(code), error_category()};
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// A std::error_code carries only a number; to keep the text with it, the number is kind + 256 * serial and the text
// waits in a ring that is looked up by serial.
class error_texts {
 public:
  static constexpr int kept = 256;

  int store(int code, const std::string& text) {
    const process_lock hold(&fork_state::data);
    serial_ = serial_ % max_serial + 1;
    slots_[serial_ % kept].serial = serial_;
    slots_[serial_ % kept].text = text;
    return code + 256 * serial_;
  }
  std::string find(int value) {
    const process_lock hold(&fork_state::data);
    const slot& s = slots_[(value / 256) % kept];
    return value >= 256 && s.serial == value / 256 ? s.text : std::string();
  }

 private:
  static constexpr int max_serial = 0x7fffff - 1;
  struct slot {
    int serial = 0;
    std::string text;
  };
  int serial_ = 0;
  slot slots_[kept];
};

inline STEPPROF_CONSTINIT std::atomic<error_texts*> the_texts{nullptr};
// Never destroyed: error codes may be read during exit.
inline error_texts& the_error_texts() {
  return immortal(the_texts);
}

class stepprof_error_category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "stepprof"; }
  [[nodiscard]] std::string message(int value) const override {
    std::string text = the_error_texts().find(value);
    return text.empty() ? general_text(value % 256) : text;
  }
  [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
    return {value % 256, *this};
  }

 private:
  static const char* general_text(int kind) {
    switch (static_cast<errc>(kind)) {
      case errc::invalid_argument:
        return "an argument has a value that is not allowed";
      case errc::already_running:
        return "a profile is already recording";
      case errc::not_running:
        return "the profile is not recording";
      case errc::no_results:
        return "nothing has been recorded";
      case errc::bad_trace:
        return "not a valid trace";
      case errc::out_of_memory:
        return "the event pool could not be reserved";
      case errc::unsupported:
        return "not supported by this build or machine";
      case errc::callback_failed:
        return "a callback failed";
    }
    return "unknown stepprof error";
  }
};

inline std::error_code make_error(errc code, const std::string& text) {
  return {the_error_texts().store(static_cast<int>(code), text), error_category()};
}

// Errors of the operating system, told with a path: they compare as the system's own do
// (`ec == std::errc::no_space_on_device`), and message() is the text with the system's words after it.
class io_error_category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "stepprof-io"; }
  [[nodiscard]] std::string message(int value) const override {
    const std::string text = the_error_texts().find(value);
    return text.empty() ? std::generic_category().message(value % 256) : text;
  }
  [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
    return {value % 256, std::generic_category()};
  }
};

inline STEPPROF_CONSTINIT std::atomic<io_error_category*> the_io_category{nullptr};
inline const std::error_category& io_category() noexcept {
  return immortal(the_io_category);
}

inline std::error_code make_io_error(const std::error_code& cause, const std::string& text) {
  const std::error_condition plain = cause.default_error_condition();
  const bool is_errno = plain.category() == std::generic_category() && plain.value() > 0 && plain.value() < 256;
  const int value = is_errno ? plain.value() : static_cast<int>(std::errc::io_error);
  return {the_error_texts().store(value, text + ": " + cause.message()), io_category()};
}

// What a function that can fail hands back inside the library: an error_code whose message() is the whole text.
[[noreturn]] inline void end_program(const std::string& text) {
  std::fprintf(stderr, "stepprof: %s\n", text.c_str());
  std::abort();
}

// The one place where a failure becomes an exception (or, without exceptions, the end of the program).
inline void throw_if(const std::error_code& ec, const char* doing) {
  if (!ec) return;
#if STEPPROF_EXCEPTIONS
  if (ec.category() == error_category()) throw error(static_cast<errc>(ec.value() % 256), ec.message());
  if (ec.category() == io_category()) throw std::system_error(ec);  // the text says what was being done
  throw std::system_error(ec, doing);
#else
  const bool is_ours = ec.category() == error_category() || ec.category() == io_category();
  end_program(is_ours ? ec.message() : std::string(doing) + ": " + ec.message());
#endif
}

// The one place where something that a user's callback throws is caught: true when the callback returned; otherwise
// `thrown` is the text of what it threw. Without exceptions it only calls.
template <class Callback>
bool call_guarded(Callback&& callback, std::string& thrown) {
#if STEPPROF_EXCEPTIONS
  try {
    callback();
    return true;
  } catch (const std::exception& e) {
    thrown = e.what();
  } catch (...) {
    thrown = "an exception that is no std::exception";
  }
  return false;
#else
  thrown.clear();
  callback();
  return true;
#endif
}

inline STEPPROF_CONSTINIT std::atomic<stepprof_error_category*> the_error_category{nullptr};

}  // namespace detail

inline const std::error_category& error_category() noexcept {
  return detail::immortal(detail::the_error_category);
}

STEPPROF_END_NAMESPACE

namespace std {
template <>
struct is_error_condition_enum<stepprof::errc> : true_type {};
}  // namespace std
