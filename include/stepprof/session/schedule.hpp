// The step schedule: which steps of a loop are skipped, warmed up and recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <stepprof/config.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/saturating.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What the profiler does during one step.
enum class action : std::uint8_t {
  none,             ///< Nothing is recorded.
  warmup,           ///< Recorded and thrown away, so that buffers, caches and names are warm.
  record,           ///< Recorded.
  record_and_save,  ///< Recorded; the last step of a cycle, which is delivered when it ends.
};

/// torch's name of an action: `NONE`, `WARMUP`, `RECORD`, `RECORD_AND_SAVE`; `UNKNOWN` for a value that is none of
/// them.
[[nodiscard]] constexpr std::string_view to_string(action a) noexcept;

/// Repeats "wait, warm up, record" over the steps of a loop.
///
/// All counts are in steps, `repeat` is in cycles. A cycle is `wait` steps of none, `warmup` steps of warmup and
/// `active` recorded steps, of which the last is record_and_save. Before the first cycle stand `skip_first` steps of
/// none; after `repeat` cycles every step is none. `schedule{}` records every step, each as a cycle of its own.
///
/// A plain value: calling it has no side effect and cannot overflow, whatever the values are.
/// Any thread may share a const schedule.
struct schedule {
  std::int64_t wait = 0;             ///< At least 0.
  std::int64_t warmup = 0;           ///< At least 0. With 0 the first recorded steps pay for a cold start.
  std::int64_t active = 1;           ///< At least 1.
  std::int64_t repeat = 0;           ///< At least 0; 0 never ends.
  std::int64_t skip_first = 0;       ///< At least 0.
  std::int64_t skip_first_wait = 0;  ///< At least 0; any value but 0 leaves out the `wait` of the first cycle.

  /// The action of `step`, counted from 0. Negative steps are none, and so is every step of a schedule that validate()
  /// refuses.
  [[nodiscard]] constexpr action operator()(std::int64_t step) const noexcept;
  /// The first step that is record or record_and_save; nothing when no 64-bit step is, or validate() refuses it.
  [[nodiscard]] constexpr std::optional<std::int64_t> first_active_step() const noexcept;
  [[nodiscard]] constexpr bool is_valid() const noexcept;
};

/// Checks every field. When some are not allowed, `ec` is errc::invalid_argument with a text that names each of them,
/// its value and what it must be: `schedule: active is 0, must be at least 1`.
void validate(const schedule& s, std::error_code& ec);
/// The same, throwing stepprof::error.
void validate(const schedule& s);

/// What a profile follows: a schedule, any callable from step to action, or nothing.
///
/// A callable takes the number of the step, counted from 0, as any integer and returns an action. It is asked once per
/// step, before the step begins, and should be a pure function of the number: diagnostics ask a copy of it again.
/// Nothing, an empty std::function and a null function pointer all mean "no schedule": everything from start to stop is
/// recorded. Copyable; a const one may be called from any thread if its callable may.
class step_schedule {
 public:
  step_schedule() = default;
  step_schedule(const schedule& s) : fixed_(s) {}
  template <class Callable,
            class = std::enable_if_t<!std::is_same_v<std::decay_t<Callable>, step_schedule> &&
                                     !std::is_same_v<std::decay_t<Callable>, schedule> &&
                                     std::is_invocable_r_v<action, std::decay_t<Callable>&, std::int64_t>>>
  step_schedule(Callable&& callable) {
    // Through a std::function, as that one knows what "empty" means.
    callable_ = std::function<action(std::int64_t)>(std::forward<Callable>(callable));
  }

  /// True when there is no schedule.
  [[nodiscard]] bool empty() const noexcept { return !fixed_ && !callable_; }
  /// The schedule held, or nullptr when it is a callable or nothing.
  [[nodiscard]] const schedule* fixed() const noexcept { return fixed_ ? &*fixed_ : nullptr; }
  /// The action of `step`; record when there is no schedule. Throws what the callable throws.
  [[nodiscard]] action operator()(std::int64_t step) const;
  /// The first step that is recorded, if it can be found: of a callable only the first 1000 steps are tried, and none
  /// when it, or copying it, throws.
  [[nodiscard]] std::optional<std::int64_t> first_active_step() const;

 private:
  // One of them at most. No std::variant: the one of libstdc++ 12 takes a std::function for a type whose copy cannot
  // throw.
  std::optional<schedule> fixed_;
  std::function<action(std::int64_t)> callable_;
};

/// As validate() of the schedule that it holds; a callable, or nothing, is always valid.
void validate(const step_schedule& s, std::error_code& ec);
/// The same, throwing stepprof::error.
void validate(const step_schedule& s);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// Serves schedule: the sum of three counts, which may need 66 bits.
constexpr std::uint64_t saturated_sum(std::int64_t a, std::int64_t b, std::int64_t c) noexcept {
  const std::uint64_t two = static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b);  // at most 2^64 - 2
  return saturating_add(two, static_cast<std::uint64_t>(c));
}

inline void add_fault(std::string& faults, const char* field, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  faults += faults.empty() ? "" : "; ";
  faults += std::string(field) + " is " + std::to_string(value) + ", must be at least " + std::to_string(least);
}

}  // namespace detail

constexpr std::string_view to_string(action a) noexcept {
  switch (a) {
    case action::none:
      return "NONE";
    case action::warmup:
      return "WARMUP";
    case action::record:
      return "RECORD";
    case action::record_and_save:
      return "RECORD_AND_SAVE";
  }
  return "UNKNOWN";
}

constexpr bool schedule::is_valid() const noexcept {
  return wait >= 0 && warmup >= 0 && active >= 1 && repeat >= 0 && skip_first >= 0 && skip_first_wait >= 0;
}

constexpr action schedule::operator()(std::int64_t step) const noexcept {
  if (!is_valid() || step < skip_first) return action::none;
  std::uint64_t at = static_cast<std::uint64_t>(step - skip_first);
  if (skip_first_wait != 0) at += static_cast<std::uint64_t>(wait);
  // `at` is at most 2^64 - 2: when the length of a cycle had to be cut to 2^64 - 1, `at` is still in the first one.
  const std::uint64_t length = detail::saturated_sum(wait, warmup, active);
  if (repeat > 0 && at / length >= static_cast<std::uint64_t>(repeat)) return action::none;
  at %= length;
  if (at < static_cast<std::uint64_t>(wait)) return action::none;
  at -= static_cast<std::uint64_t>(wait);
  if (at < static_cast<std::uint64_t>(warmup)) return action::warmup;
  at -= static_cast<std::uint64_t>(warmup);
  return at == static_cast<std::uint64_t>(active - 1) ? action::record_and_save : action::record;
}

constexpr std::optional<std::int64_t> schedule::first_active_step() const noexcept {
  if (!is_valid()) return std::nullopt;
  const std::uint64_t first = detail::saturated_sum(skip_first, warmup, skip_first_wait != 0 ? 0 : wait);
  if (first > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<std::int64_t>(first);
}

inline void validate(const schedule& s, std::error_code& ec) {
  std::string faults;
  detail::add_fault(faults, "wait", s.wait, 0);
  detail::add_fault(faults, "warmup", s.warmup, 0);
  detail::add_fault(faults, "active", s.active, 1);
  detail::add_fault(faults, "repeat", s.repeat, 0);
  detail::add_fault(faults, "skip_first", s.skip_first, 0);
  detail::add_fault(faults, "skip_first_wait", s.skip_first_wait, 0);
  ec.clear();
  if (!faults.empty()) ec = detail::make_error(errc::invalid_argument, "schedule: " + faults);
}

inline void validate(const schedule& s) {
  std::error_code ec;
  validate(s, ec);
  detail::throw_if(ec, "schedule");
}

inline action step_schedule::operator()(std::int64_t step) const {
  if (const schedule* s = fixed()) return (*s)(step);
  return callable_ ? callable_(step) : action::record;
}

inline std::optional<std::int64_t> step_schedule::first_active_step() const {
  if (const schedule* s = fixed()) return s->first_active_step();
  std::optional<std::int64_t> found;
  std::string thrown;
  const auto search = [this, &found] {
    const step_schedule copy = *this;  // a callable with state of its own is not to notice that it was asked
    for (std::int64_t step = 0; step < 1000 && !found; ++step) {
      const action a = copy(step);
      if (a == action::record || a == action::record_and_save) found = step;
    }
  };
  detail::call_guarded(search, thrown);
  return found;
}

inline void validate(const step_schedule& s, std::error_code& ec) {
  ec.clear();
  if (const schedule* held = s.fixed()) validate(*held, ec);
}

inline void validate(const step_schedule& s) {
  std::error_code ec;
  validate(s, ec);
  detail::throw_if(ec, "schedule");
}

STEPPROF_END_NAMESPACE
