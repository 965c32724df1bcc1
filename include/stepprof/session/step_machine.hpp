// The state machine of the steps: which windows open, are cut, thrown away and delivered, as one table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <stepprof/config.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/session/diagnostics.hpp>
#include <stepprof/session/schedule.hpp>
#include <stepprof/trace/error.hpp>

STEPPROF_BEGIN_NAMESPACE

// --------------------------------------------------------------------------------------------------------------------
// Serves profile: everything here decides, nothing here records.
namespace detail {

// What profile does when a step ends, in this order. A window is cut before anything else, the next one opens in the
// same instant, and only then is the cut one dealt with: what that costs lies in no gap between two windows.
enum class step_operation : std::uint8_t {
  cut,              // the open window ends here
  open,             // a recording window begins
  open_warmup,      // a window begins that will be thrown away
  discard,          // the cut window is thrown away
  deliver,          // the cut window is made a trace: the cycle is complete
  deliver_partial,  // the cut window is made a trace: the cycle was cut before its last step was complete
  report,           // the transition's diagnostic
};

// One cell of the table: up to four operations, and what its report says.
struct step_transition {
  step_operation operations[4] = {};
  std::uint8_t count = 0;
  const char* report_code = nullptr;

  constexpr step_transition() = default;
  template <class... Operations>
  constexpr explicit step_transition(const char* code, Operations... ops)
      : operations{ops...}, count(sizeof...(Operations)), report_code(code) {}

  [[nodiscard]] constexpr const step_operation* begin() const noexcept { return operations; }
  [[nodiscard]] constexpr const step_operation* end() const noexcept { return operations + count; }
  [[nodiscard]] constexpr bool has(step_operation wanted) const noexcept {
    for (const step_operation op : *this)
      if (op == wanted) return true;
    return false;
  }
};

inline constexpr const char* warmup_then_none = "warmup_then_none";
inline constexpr const char* record_then_none = "record_then_none";
inline constexpr const char* record_then_warmup = "record_then_warmup";

struct step_table {
  using op = step_operation;
  // clang-format off
  // Row: the action of the step that ends. Column: that of the step that begins, the last one being stop().
  static constexpr step_transition cells[4][5] = {
      // none
      {step_transition(nullptr),
       step_transition(nullptr, op::open_warmup),
       step_transition(nullptr, op::open),
       step_transition(nullptr, op::open),
       step_transition(nullptr)},
      // warmup
      {step_transition(warmup_then_none, op::cut, op::discard, op::report),
       step_transition(nullptr),
       step_transition(nullptr, op::cut, op::open, op::discard),
       step_transition(nullptr, op::cut, op::open, op::discard),
       step_transition(nullptr, op::cut, op::discard)},
      // record
      {step_transition(record_then_none, op::cut, op::deliver_partial, op::report),
       step_transition(record_then_warmup, op::cut, op::open_warmup, op::deliver_partial, op::report),
       step_transition(nullptr),
       step_transition(nullptr),
       step_transition(nullptr, op::cut, op::deliver_partial)},
      // record_and_save
      {step_transition(nullptr, op::cut, op::deliver),
       step_transition(nullptr, op::cut, op::open_warmup, op::deliver),
       step_transition(nullptr, op::cut, op::open, op::deliver),
       step_transition(nullptr, op::cut, op::open, op::deliver),
       step_transition(nullptr, op::cut, op::deliver_partial)},
  };
  // Without a schedule there is one window from start() to stop(), and it is complete.
  static constexpr step_transition nothing = step_transition(nullptr);
  static constexpr step_transition start_unscheduled = step_transition(nullptr, op::open);
  static constexpr step_transition stop_unscheduled = step_transition(nullptr, op::cut, op::deliver);
  // clang-format on
};

// Which window an operation is about.
struct window_steps {
  std::int64_t cycle = -1;       // recording windows of the profile, counted from 0 as they open; -1: none yet
  std::int64_t first_step = -1;  // -1: recorded without a schedule
  std::int64_t last_step = -1;
  bool partial = false;
};

// Follows the answers of a schedule. The number of the step belongs to the profile: it goes on over stop() and start().
// Calls that make no sense (start when running, step and stop when not) do nothing. One thread at a time.
class step_machine {
 public:
  /// `first` is the schedule's answer for step_number().
  const step_transition& start(action first);
  const step_transition& start_unscheduled();
  /// `next` is the schedule's answer for step_number() + 1; without a schedule it does not matter.
  const step_transition& step(action next);
  const step_transition& stop();

  [[nodiscard]] bool running() const noexcept { return running_; }
  [[nodiscard]] bool scheduled() const noexcept { return scheduled_; }
  /// The action of the current step; none when not running, record without a schedule.
  [[nodiscard]] action current() const noexcept { return current_; }
  /// The current step, counted from 0.
  [[nodiscard]] std::int64_t step_number() const noexcept { return step_number_; }
  /// Calls of step() since start().
  [[nodiscard]] std::int64_t steps_seen() const noexcept { return steps_seen_; }
  /// True once a recording window has opened since start().
  [[nodiscard]] bool reached_active_step() const noexcept { return reached_active_; }
  [[nodiscard]] std::int64_t completed_cycles() const noexcept { return completed_cycles_; }
  [[nodiscard]] std::int64_t partial_cycles() const noexcept { return partial_cycles_; }
  /// The recording window that is open, or was opened last; its last step so far.
  [[nodiscard]] window_steps recording_window() const noexcept {
    window_steps window = open_;
    if (running_ && scheduled_ && (current_ == action::record || current_ == action::record_and_save))
      window.last_step = step_number_;
    return window;
  }
  /// The recording window that was delivered last.
  [[nodiscard]] const window_steps& delivered_window() const noexcept { return delivered_; }

 private:
  const step_transition& apply(const step_transition& transition, action next, std::int64_t next_step);
  void open_window(std::int64_t first_step);
  void note_delivery(const window_steps& window, bool partial);

  window_steps open_;
  window_steps delivered_;
  std::int64_t step_number_ = 0;
  std::int64_t steps_seen_ = 0;
  std::int64_t completed_cycles_ = 0;
  std::int64_t partial_cycles_ = 0;
  action current_ = action::none;
  bool running_ = false;
  bool scheduled_ = false;
  bool reached_active_ = false;
};

// A schedule's answer, made safe: a callable that throws, or returns something that is no action, means none and is
// told.
struct schedule_answer {
  action value = action::none;
  std::optional<diagnostic> problem;
};

inline bool is_action(action a) noexcept {
  return static_cast<unsigned>(a) <= 3u;
}

inline schedule_answer ask(const step_schedule& steps, std::int64_t step) {
  schedule_answer answer;
  std::string thrown;
  const std::string at = "schedule: at step " + std::to_string(step) + " the callable ";
  const auto call = [&] {
    const users_work users;
    answer.value = steps(step);
  };
  if (!call_guarded(call, thrown)) {
    answer.problem = diagnostic{"schedule_threw", at + "threw (" + thrown + "); the step is not recorded",
                                diagnostic_severity::error};
  } else if (!is_action(answer.value)) {
    answer.problem = diagnostic{"unknown_action",
                                at + "returned " + std::to_string(static_cast<unsigned>(answer.value)) +
                                    ", which is no action; the step is not recorded",
                                diagnostic_severity::error};
    answer.value = action::none;
  }
  return answer;
}

// What the report of a transition says; `step` is the step that begins.
inline diagnostic transition_diagnostic(const step_transition& transition, std::int64_t step) {
  const std::string code = transition.report_code == nullptr ? "" : transition.report_code;
  const std::string at = " at step " + std::to_string(step);
  if (code == warmup_then_none)
    return {code, "schedule: WARMUP is followed by NONE" + at + ", so the warm-up was for nothing; end it in RECORD"};
  return {code, std::string("schedule: RECORD is followed by ") + (code == record_then_none ? "NONE" : "WARMUP") + at +
                    ", so the cycle is delivered as a partial one; end it in RECORD_AND_SAVE"};
}

// For stop(), when no recording window has opened since start().
inline diagnostic no_active_step_diagnostic(std::int64_t steps_seen, std::optional<std::int64_t> first_active) {
  return {"no_active_step",
          "profile: nothing was recorded: steps seen: " + std::to_string(steps_seen) + ", first active step: " +
              (first_active ? std::to_string(*first_active) : std::string("none that could be found")) +
              "; call step() at the end of each iteration, run more steps or use a shorter schedule"};
}

// For the construction of a profile: nothing when the schedule warms up, or is not known to leave it out.
inline std::optional<diagnostic> no_warmup_diagnostic(const step_schedule& steps) {
  const schedule* fixed = steps.fixed();
  if (fixed == nullptr || fixed->warmup != 0) return std::nullopt;
  return diagnostic{"no_warmup",
                    "schedule: warmup is 0, so the first recorded steps may pay for a cold start; use at least 1"};
}

inline void step_machine::open_window(std::int64_t first_step) {
  const std::int64_t step = scheduled_ ? first_step : -1;
  open_ = {open_.cycle + 1, step, step, false};
  reached_active_ = true;
}

inline void step_machine::note_delivery(const window_steps& window, bool partial) {
  delivered_ = window;
  delivered_.partial = partial;
  if (scheduled_) delivered_.last_step = step_number_;
  ++(partial ? partial_cycles_ : completed_cycles_);
}

inline const step_transition& step_machine::apply(const step_transition& transition, action next,
                                                  std::int64_t next_step) {
  const window_steps before = open_;
  for (const step_operation op : transition) {
    if (op == step_operation::open) open_window(next_step);
    if (op == step_operation::deliver || op == step_operation::deliver_partial)
      note_delivery(before, op == step_operation::deliver_partial);
  }
  current_ = next;
  step_number_ = next_step;
  return transition;
}

inline const step_transition& step_machine::start(action first) {
  if (running_) return step_table::nothing;
  running_ = scheduled_ = true;
  reached_active_ = false;
  steps_seen_ = 0;
  first = is_action(first) ? first : action::none;
  return apply(step_table::cells[0][static_cast<unsigned>(first)], first, step_number_);
}

inline const step_transition& step_machine::start_unscheduled() {
  if (running_) return step_table::nothing;
  running_ = true;
  scheduled_ = reached_active_ = false;
  steps_seen_ = 0;
  return apply(step_table::start_unscheduled, action::record, step_number_);
}

inline const step_transition& step_machine::step(action next) {
  if (!running_) return step_table::nothing;
  ++steps_seen_;
  if (!scheduled_) return apply(step_table::nothing, action::record, step_number_ + 1);
  next = is_action(next) ? next : action::none;
  const step_transition& cell = step_table::cells[static_cast<unsigned>(current_)][static_cast<unsigned>(next)];
  return apply(cell, next, step_number_ + 1);
}

inline const step_transition& step_machine::stop() {
  if (!running_) return step_table::nothing;
  running_ = false;
  const step_transition& cell =
      scheduled_ ? step_table::cells[static_cast<unsigned>(current_)][4] : step_table::stop_unscheduled;
  return apply(cell, action::none, step_number_);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
