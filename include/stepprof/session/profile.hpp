// profile: records the steps that its schedule picks, and hands out what they came to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/analysis/step_times.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/output/folded_stacks.hpp>
#include <stepprof/output/json_scanner.hpp>
#include <stepprof/output/json_text.hpp>
#include <stepprof/output/memory_timeline_file.hpp>
#include <stepprof/output/row_export.hpp>
#include <stepprof/output/step_table.hpp>
#include <stepprof/output/speedscope.hpp>
#include <stepprof/output/table.hpp>
#include <stepprof/session/diagnostics.hpp>
#include <stepprof/session/large_trace.hpp>
#include <stepprof/session/other_recorders.hpp>
#include <stepprof/session/options.hpp>
#include <stepprof/session/window_control.hpp>
#include <stepprof/trace/trace_merge.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Says that a profile is not to start yet: `profile prof(options, stepprof::deferred);`
struct deferred_t {
  explicit deferred_t() = default;
};
inline constexpr deferred_t deferred{};

/// Records a loop step by step.
///
/// The constructor checks the options and starts; from then on the schedule decides what each step() records. One
/// profile records at a time in a process, and it records all threads. Each completed cycle goes to on_trace_ready,
/// inside step() or stop(); the methods that read a result read the last completed cycle (with `accumulate`: all of
/// them), or the partial one that stop() delivered if no cycle was completed.
///
/// A scope that began before the window is absent from it; one still open at the end is cut there, flagged and counted.
///
/// Control calls (start, step, stop, pause, resume) may come from any thread; they wait for each other. From inside
/// on_trace_ready, and from a schedule's callable, they are refused. Results may be read from any thread at any time.
///
/// In a forked child no profile is running and nothing is recorded yet; copies of profiles can be read, and started
/// anew. A handler given to pthread_atfork must not call a profile.
class profile {
 public:
  /// Checks the options and starts. Throws stepprof::error.
  STEPPROF_NODISCARD_CONSTRUCTOR explicit profile(profile_options options = {})
      : profile(std::move(options), deferred) {
    start();
  }
  /// Only checks the options. Throws stepprof::error.
  STEPPROF_NODISCARD_CONSTRUCTOR profile(profile_options options, deferred_t)
      : profile(std::move(options), unchecked_t()) {
    detail::throw_if(check(), "profile");
  }
  /// Checks the options and starts; on failure `ec` says why and the result is null.
  static std::unique_ptr<profile> create(profile_options options, std::error_code& ec) {
    std::unique_ptr<profile> made(new profile(std::move(options), unchecked_t()));
    ec = made->check();
    if (!ec) made->start(ec);
    if (ec) made.reset();
    return made;
  }
  /// Stops. Never throws: what a callback throws is kept in last_error() and reported.
  ~profile() { stop(); }
  profile(const profile&) = delete;
  profile& operator=(const profile&) = delete;

  /// Begins to follow the schedule, from step step_number(). errc::already_running when this or another profile records
  /// (the running one is untouched) or inside on_trace_ready.
  void start(std::error_code& ec);
  void start() {
    std::error_code ec;
    start(ec);
    detail::throw_if(ec, "profile::start");
  }

  /// Ends a step of the loop and begins the next one. Delivers the cycle that this completes. Never throws: a call that
  /// is refused (not running, inside on_trace_ready) is kept in last_error() and reported once.
  void step() noexcept {
    std::error_code ec;
    step(ec);
    if (ec) refuse(ec, "step_refused");
  }
  void step(std::error_code& ec) noexcept;

  /// Stops recording and delivers the cycle that was being recorded, as a partial one unless there is no schedule. Does
  /// nothing when not running. Never throws.
  void stop() noexcept {
    std::error_code ec;
    stop(ec);
    if (ec && ec != errc::not_running) refuse(ec, "stop_refused");
  }
  /// errc::not_running when there was nothing to stop.
  void stop(std::error_code& ec) noexcept;

  /// Records nothing until resume(). Scopes that are open go on; the time leaves their self time. Does nothing when not
  /// running or paused already.
  void pause() noexcept {
    const detail::own_work own;
    if (inside_callback()) return refuse(callback_error("pause"), "pause_refused");
    const std::lock_guard<detail::call_mutex> serial(control_);
    const detail::control_lock hold;
    if (is_running()) windows_.pause();
  }
  void resume() noexcept {
    const detail::own_work own;
    if (inside_callback()) return refuse(callback_error("resume"), "resume_refused");
    const std::lock_guard<detail::call_mutex> serial(control_);
    const detail::control_lock hold;
    if (is_running()) windows_.resume();
  }

  /// What the running window holds up to now, as a trace; recording goes on. An empty trace when no window is open.
  [[nodiscard]] trace snapshot() const {
    const detail::own_work own;
    std::optional<trace> taken;
    {
      const detail::control_lock hold;
      if (is_running() && windows_.is_open()) taken = windows_.snapshot();
    }
    return taken ? with_metadata(std::move(*taken)) : trace();
  }

  [[nodiscard]] bool running() const noexcept {
    const detail::control_lock hold;
    return is_running();
  }
  /// The current step, counted from 0. Goes on over stop() and start().
  [[nodiscard]] std::int64_t step_number() const noexcept {
    const detail::control_lock hold;
    return machine_.step_number();
  }
  /// What the current step does; action::none when not running, action::record without a schedule.
  [[nodiscard]] action current_action() const noexcept {
    const detail::control_lock hold;
    return is_running() ? machine_.current() : action::none;
  }

  /// The result that the methods below read. An empty trace, and one diagnostic, when there is none yet.
  [[nodiscard]] trace result() const;
  /// Averages by name (torch: key_averages). See analysis/key_averages.hpp. FLOPs by the formulas given here, or else
  /// in the options of the profile.
  [[nodiscard]] event_averages key_averages(const key_averages_options& options = {}) const {
    const detail::own_work own;
    if (!options.formulas.empty() || options_.formulas.empty()) return stepprof::key_averages(result(), options);
    key_averages_options with_formulas = options;
    with_formulas.formulas = options_.formulas;
    return stepprof::key_averages(result(), with_formulas);
  }
  /// One row per event.
  [[nodiscard]] event_averages events() const {
    const detail::own_work own;
    return stepprof::event_rows(result());
  }
  /// The steps one by one. See analysis/step_times.hpp.
  [[nodiscard]] step_times steps() const {
    const detail::own_work own;
    return stepprof::steps_of(result());
  }
  /// Writes the Chrome trace. See output/chrome_trace.hpp. More than viewers open well is reported once.
  chrome_trace_result export_chrome_trace(const std::filesystem::path& path) const {
    const detail::own_work own;
    return reported(stepprof::export_chrome_trace(result(), path));
  }
  chrome_trace_result export_chrome_trace(const std::filesystem::path& path, std::error_code& ec) const {
    const detail::own_work own;
    return reported(stepprof::export_chrome_trace(result(), path, ec));
  }
  chrome_trace_result export_chrome_trace(std::ostream& out) const {
    const detail::own_work own;
    return reported(stepprof::export_chrome_trace(result(), out));
  }
  chrome_trace_result export_chrome_trace(std::ostream& out, std::error_code& ec) const {
    const detail::own_work own;
    return reported(stepprof::export_chrome_trace(result(), out, ec));
  }
  /// Writes folded stacks for flame-graph tools. See output/folded_stacks.hpp. When there is nothing to write, as in a
  /// program whose scopes are compiled out, there is no file and one diagnostic, but no exception.
  void export_stacks(const std::filesystem::path& path, std::string_view metric = "self_cpu_time_total",
                     stack_source source = stack_source::scopes) const;
  /// The same; errc::no_results when there is nothing to write.
  void export_stacks(const std::filesystem::path& path, std::string_view metric, std::error_code& ec) const {
    const detail::own_work own;
    stepprof::export_stacks(result(), path, metric, ec);
  }
  void export_stacks(const std::filesystem::path& path, std::string_view metric, stack_source source,
                     std::error_code& ec) const {
    const detail::own_work own;
    stepprof::export_stacks(result(), path, metric, source, ec);
  }
  /// Writes a file for speedscope. See output/speedscope.hpp.
  void export_speedscope(const std::filesystem::path& path) const {
    const detail::own_work own;
    stepprof::export_speedscope(result(), path);
  }
  void export_speedscope(const std::filesystem::path& path, std::error_code& ec) const {
    const detail::own_work own;
    stepprof::export_speedscope(result(), path, ec);
  }

  /// Writes live bytes over time to a .json, .svg or .html file. See output/memory_timeline_file.hpp.
  void export_memory_timeline(const std::filesystem::path& path, const memory_timeline_options& options = {}) const {
    const detail::own_work own;
    stepprof::export_memory_timeline(result(), path, options);
  }
  void export_memory_timeline(const std::filesystem::path& path, const memory_timeline_options& options,
                              std::error_code& ec) const {
    const detail::own_work own;
    stepprof::export_memory_timeline(result(), path, options, ec);
  }

  /// Adds a text under a file-level key to every trace of this profile, also to those already recorded when they are
  /// read or exported from here. Before, during and after recording.
  void add_metadata(std::string_view key, std::string_view text) {
    const detail::own_work own;
    std::string json;
    detail::append_json_string(json, text);
    set_metadata(key, std::move(json));
  }
  /// Adds a JSON value. errc::invalid_argument when it is not one.
  void add_metadata_json(std::string_view key, std::string_view json, std::error_code& ec) {
    const detail::own_work own;
    ec.clear();
    if (!is_valid_json(json))
      ec = detail::make_error(errc::invalid_argument, "metadata '" + std::string(key) + "': the value '" +
                                                          std::string(json.substr(0, 80)) +
                                                          "' is not valid JSON; use add_metadata for plain text");
    else
      set_metadata(key, std::string(json));
  }
  void add_metadata_json(std::string_view key, std::string_view json) {
    std::error_code ec;
    add_metadata_json(key, json, ec);
    detail::throw_if(ec, "profile::add_metadata_json");
  }

  /// What went wrong last in a call that does not throw; empty when nothing did.
  [[nodiscard]] std::string last_error() const {
    const detail::own_work own;
    const detail::process_lock hold(&detail::fork_state::data);
    return last_error_;
  }
  [[nodiscard]] const profile_options& options() const noexcept { return options_; }

 private:
  struct unchecked_t {};
  // What a control call leaves to be done when the locks are released: users' code runs without them.
  struct aftermath {
    std::optional<detail::window_control::delivery> delivered;
    std::vector<diagnostic> diagnostics;
  };

  profile(profile_options options, unchecked_t)
      : options_(std::move(options)), windows_(options_.process_name, options_.rank) {}

  std::error_code check() {
    std::error_code ec;
    validate(options_, ec);
    return ec;
  }
  // Set while this thread is inside a callback of any profile.
  static bool& inside_callback() noexcept {
    static thread_local bool inside = false;
    return inside;
  }
  struct callback_scope {
    callback_scope() noexcept { inside_callback() = true; }
    ~callback_scope() { inside_callback() = false; }
    callback_scope(const callback_scope&) = delete;
    callback_scope& operator=(const callback_scope&) = delete;
  };
  static std::error_code callback_error(const char* call) {
    return detail::make_error(errc::already_running, std::string("profile: ") + call +
                                                         "() was called inside on_trace_ready (or a schedule); call it "
                                                         "after step() or stop() has returned");
  }
  [[nodiscard]] bool is_running() const noexcept { return detail::control().running == this; }
  [[nodiscard]] std::string description() const;
  std::uint32_t flags() const noexcept {
    return (options_.needs_shapes() ? detail::flag_shapes : 0u) | (options_.profile_memory ? detail::flag_memory : 0u) |
           (options_.with_stack ? detail::flag_stacks : 0u) | (options_.with_flops ? detail::flag_flops : 0u);
  }

  void refuse(const std::error_code& ec, const char* code) noexcept;
  void keep_error(const std::string& text) const noexcept {
    const detail::process_lock hold(&detail::fork_state::data);
    last_error_ = text;
  }
  [[nodiscard]] action ask_schedule(std::int64_t step, aftermath& after);
  void run(const detail::step_transition& transition, std::int64_t step, aftermath& after);
  void deliver(aftermath& after) noexcept;
  [[nodiscard]] static bool holds_nothing(const trace& result) noexcept;
  void keep_result(const trace& result, aftermath& after);
  void call_back(const trace& result, aftermath& after);
  static void add_notes(const trace& result, aftermath& after);
  void report(const aftermath& after) noexcept;
  chrome_trace_result reported(chrome_trace_result written) const {
    detail::report_large_trace(written, once_);
    return written;
  }
  [[nodiscard]] std::optional<trace> kept_result(std::string& problem) const;
  void set_metadata(std::string_view key, std::string json);
  [[nodiscard]] trace with_metadata(trace result) const;

  profile_options options_;
  detail::call_mutex control_;              // serialises control calls; held while they deliver
  mutable detail::window_control windows_;  // under control_lock
  detail::step_machine machine_;            // under control_lock
  mutable detail::diagnostics_once once_;

  // All below under fork_state::data.
  mutable std::vector<trace> completed_;  // more than one only with `accumulate`
  mutable std::uint64_t merges_ = 0;      // how often several became one
  std::optional<trace> partial_;
  std::uint64_t accumulated_bytes_ = 0;
  std::vector<trace_metadata> metadata_;
  mutable std::string last_error_;
};

// --------------------------------------------------------------------------------------------------------------------

inline std::string profile::description() const {
  return "the profile" + (options_.process_name.empty() ? std::string() : " '" + options_.process_name + "'") +
         " that is at step " + std::to_string(machine_.step_number());
}

inline void profile::refuse(const std::error_code& ec, const char* code) noexcept {
  const detail::own_work own;
  std::string thrown;
  detail::call_guarded(
      [&] {
        keep_error(ec.message());
        once_.report({code, ec.message()});
      },
      thrown);
}

inline void profile::start(std::error_code& ec) {
  const detail::own_work own;
  ec.clear();
  if (inside_callback()) {
    ec = callback_error("start");
    return;
  }
  detail::pin_recorder();
  if (options_.with_stack) detail::pin_walker();
  aftermath after;
  {
    const std::lock_guard<detail::call_mutex> serial(control_);
    const action first = ask_schedule(step_number(), after);
    const detail::control_lock hold;
    detail::control_state& state = detail::control();
    if (state.running != nullptr) {
      ec = detail::make_error(errc::already_running,
                              "profile: cannot start: " + state.running_name + " is recording; stop it first");
      return;
    }
    detail::install_recorder(state);
    if (!windows_.begin_session(flags(), options_.event_budget_bytes, options_.when_full == fill_policy::ring,
                                static_cast<std::uint32_t>(options_.stack_depth))) {
      ec = detail::make_error(errc::out_of_memory, "profile_options: event_budget_bytes is " +
                                                       std::to_string(options_.event_budget_bytes) +
                                                       ", which the system cannot reserve; use less");
      return;
    }
    state.running = this;
    state.running_name = description();
    machine_.stop();  // a profile that a fork copied while it was running
    if (options_.schedule.empty())
      run(machine_.start_unscheduled(), -1, after);
    else
      run(machine_.start(first), machine_.step_number(), after);
  }
  if (const auto cold = detail::no_warmup_diagnostic(options_.schedule)) after.diagnostics.push_back(*cold);
  report(after);
  detail::report_other_modules(once_);
}

inline void profile::step(std::error_code& ec) noexcept {
  const detail::own_work own;
  ec.clear();
  if (inside_callback()) {
    ec = callback_error("step");
    return;
  }
  aftermath after;
  {
    const std::lock_guard<detail::call_mutex> serial(control_);
    if (!running()) {
      ec = detail::make_error(errc::not_running,
                              "profile: step() was called while the profile is not running; call start() first");
      return;
    }
    const std::int64_t next = step_number() + 1;
    const action next_action = ask_schedule(next, after);
    bool took_time = false;
    {
      const detail::control_lock hold;
      if (!options_.schedule.empty()) windows_.mark_step(next);
      const detail::step_transition& transition = machine_.step(next_action);
      run(transition, options_.schedule.empty() ? -1 : next, after);
      if (transition.has(detail::step_operation::report))
        after.diagnostics.push_back(detail::transition_diagnostic(transition, next));
      detail::control().running_name = description();
      took_time = after.delivered.has_value() || transition.has(detail::step_operation::discard);
    }
    deliver(after);
    if (took_time) {
      const detail::control_lock hold;
      windows_.restart_step(next);
    }
  }
  report(after);
}

inline void profile::stop(std::error_code& ec) noexcept {
  const detail::own_work own;
  ec.clear();
  if (inside_callback() && running()) {
    ec = callback_error("stop");
    return;
  }
  const auto refuse_stop = [&ec] {
    ec = detail::make_error(errc::not_running, "profile: stop() was called while the profile is not running");
  };
  if (inside_callback()) return refuse_stop();  // this thread may hold the lock
  aftermath after;
  {
    const std::lock_guard<detail::call_mutex> serial(control_);
    if (!running()) return refuse_stop();
    if (machine_.scheduled() && !machine_.reached_active_step()) {
      const callback_scope inside;  // a schedule's callable is asked again
      after.diagnostics.push_back(
          detail::no_active_step_diagnostic(machine_.steps_seen(), options_.schedule.first_active_step()));
    }
    {
      const detail::control_lock hold;
      run(machine_.stop(), -1, after);
      detail::control().running = nullptr;
    }
    deliver(after);
  }
  report(after);
  detail::report_other_modules(once_);  // those that were loaded meanwhile
}

// The schedule's answer for a step. Users' code: the control lock of the process is not held.
inline action profile::ask_schedule(std::int64_t step, aftermath& after) {
  if (options_.schedule.empty()) return action::record;
  const callback_scope inside;
  const detail::schedule_answer answer = detail::ask(options_.schedule, step);
  if (answer.problem) after.diagnostics.push_back(*answer.problem);
  return answer.value;
}

// Under the control lock.
inline void profile::run(const detail::step_transition& transition, std::int64_t step, aftermath& after) {
  after.delivered = windows_.run(transition, step, machine_.delivered_window(), machine_.recording_window().cycle);
}

// Hands over what was collected. Without the control lock of the process: the callback may read and export.
inline void profile::deliver(aftermath& after) noexcept {
  if (!after.delivered) return;
  if (!after.delivered->failure.empty()) {
    keep_error(after.delivered->failure);
    after.diagnostics.push_back({"collect_failed", after.delivered->failure, diagnostic_severity::error});
    return;
  }
  std::string thrown;
  const bool worked = detail::call_guarded(
      [&] {
        const trace result = with_metadata(after.delivered->result);
        if (after.delivered->partial && holds_nothing(result)) return;
        keep_result(result, after);
        call_back(result, after);
        add_notes(result, after);
      },
      thrown);
  if (!worked) keep_error("profile: the cycle could not be kept: " + thrown);
}

// Nothing but its step. What was lost counts: the user is to hear of it.
inline bool profile::holds_nothing(const trace& result) noexcept {
  const loss_counts& counts = result.losses();
  return counts.kept + counts.unfinished + counts.dropped + counts.dropped_memory == 0 && result.memory().empty() &&
         result.unmatched_frees().empty() && result.marks().empty();
}

inline void profile::call_back(const trace& result, aftermath& after) {
  if (!options_.on_trace_ready) return;
  const std::error_code failed = [&] {
    const callback_scope inside;
    return options_.on_trace_ready(result);
  }();
  if (!failed) return;
  keep_error(failed.message());
  after.diagnostics.push_back({"callback_failed", failed.message(), diagnostic_severity::error});
}

inline void profile::add_notes(const trace& result, aftermath& after) {
  for (const trace_note& note : result.notes()) {
    // Open scopes at a cut and frees of older blocks are everyday; the trace and the table say so.
    if (note.code == "unfinished_scopes" || note.code == "unmatched_frees") continue;
    after.diagnostics.push_back({note.code, note.text});
  }
}

// Without any lock: the hook may make a control call or read a result.
inline void profile::report(const aftermath& after) noexcept {
  for (const diagnostic& d : after.diagnostics) once_.report(d);
}

inline void profile::keep_result(const trace& result, aftermath& after) {
  const detail::process_lock hold(&detail::fork_state::data);
  if (result.info().partial) {
    partial_ = result;
    return;
  }
  if (!options_.accumulate) completed_.clear();
  const std::uint64_t bytes = options_.accumulate ? memory_bytes(result) : 0;
  if (accumulated_bytes_ + bytes > options_.accumulate_limit_bytes) {
    last_error_ = "profile: accumulate_limit_bytes is " + std::to_string(options_.accumulate_limit_bytes) +
                  ", so cycle " + std::to_string(result.info().cycle) +
                  " is not in the accumulated result; raise it or record fewer steps";
    after.diagnostics.push_back({"accumulate_limit", last_error_});
    return;
  }
  accumulated_bytes_ += bytes;
  completed_.push_back(result);
}

// The completed cycles, or the partial one. Several are merged when they are first read, not at each cycle; without the
// lock, as that takes long.
inline std::optional<trace> profile::kept_result(std::string& problem) const {
  std::vector<trace> cycles;
  std::uint64_t merges = 0;
  {
    const detail::process_lock hold(&detail::fork_state::data);
    if (completed_.empty()) return partial_;
    if (completed_.size() == 1) return completed_.front();
    cycles = completed_;
    merges = merges_;
  }
  std::error_code ec;
  trace merged = merge(cycles, ec);
  if (ec) {
    problem = "profile: the cycles could not be put together, this is the last one: " + ec.message();
    keep_error(problem);
    return cycles.back();
  }
  const detail::process_lock hold(&detail::fork_state::data);
  if (merges_ == merges) {  // nobody was faster; cycles completed meanwhile stand behind
    ++merges_;
    completed_.erase(completed_.begin() + 1, completed_.begin() + static_cast<std::ptrdiff_t>(cycles.size()));
    completed_.front() = merged;
  }
  return merged;
}

inline void profile::export_stacks(const std::filesystem::path& path, std::string_view metric,
                                   stack_source source) const {
  const detail::own_work own;
  std::error_code ec;
  const std::string doing = detail::export_stacks_to(result(), path, metric, source, ec);
  if (ec == errc::no_results)
    once_.report({"no_stacks", ec.message() + " No file was written"});
  else
    detail::throw_if(ec, doing.c_str());
}

inline void profile::set_metadata(std::string_view key, std::string json) {
  const detail::process_lock hold(&detail::fork_state::data);
  for (trace_metadata& pair : metadata_)
    if (pair.key == key) {
      pair.json = std::move(json);
      return;
    }
  metadata_.push_back({std::string(key), std::move(json)});
}

inline trace profile::with_metadata(trace result) const {
  std::vector<trace_metadata> pairs;
  {
    const detail::process_lock hold(&detail::fork_state::data);
    pairs = metadata_;
  }
  for (trace_metadata& pair : pairs) result = result.with_metadata(std::move(pair.key), std::move(pair.json));
  return result;
}

inline trace profile::result() const {
  const detail::own_work own;
  std::string problem;
  std::optional<trace> found = kept_result(problem);
  if (!problem.empty()) once_.report({"accumulate_failed", problem, diagnostic_severity::error});
  if (found) return with_metadata(std::move(*found));
  if (once_.has_reported("no_active_step")) return trace();  // that said why
  once_.report({"no_results",
                "profile: a result was read before a cycle was completed; it is empty. Read it after "
                "stop(), or use snapshot()"});
  return trace();
}

STEPPROF_END_NAMESPACE
