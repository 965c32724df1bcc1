// Everything that a profile can be told before it starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <stepprof/analysis/flops.hpp>
#include <stepprof/config.hpp>
#include <stepprof/core/stack_capture.hpp>
#include <stepprof/session/schedule.hpp>
#include <stepprof/session/trace_callback.hpp>
#include <stepprof/trace/error.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What can be recorded. An activity that this build cannot record is refused; it never shows up as zeros.
enum class activity : std::uint8_t {
  cpu,                ///< Scopes, marks and memory reports of all threads.
  cuda,               ///< Not in this build.
  hardware_counters,  ///< Not in this build.
};

/// `CPU`, `CUDA`, `HARDWARE_COUNTERS`; `UNKNOWN` for a value that is none of them.
[[nodiscard]] constexpr std::string_view to_string(activity a) noexcept;

/// What becomes of events when the memory for them is used up. Both count what is lost, exactly.
enum class fill_policy : std::uint8_t {
  drop_newest,  ///< What is kept is complete from the begin of the window; later events are dropped.
  /// Each thread overwrites its own oldest events: what is kept is the end of the window. Threads that come when all
  /// but an eighth of the memory is taken share that; what a thread has no memory for is dropped.
  ring,
};

/// `drop_newest`, `ring`; `unknown` for a value that is none of them.
[[nodiscard]] constexpr std::string_view to_string(fill_policy p) noexcept;

/// How a profile records, and what it does with the result. A plain value. (Every field has an initialiser, here and in
/// the other options: compilers warn about those that designated initialisers leave out and that have none.)
struct profile_options {
  /// Which steps are recorded. Empty: everything from start() to stop(), without step events.
  /// A cycle without warm-up steps records its first step while caches are cold and is reported once (`no_warmup`).
  step_schedule schedule = {};

  /// What is recorded; at least one, each at most once.
  std::vector<activity> activities = {activity::cpu};

  /// Keep the sizes and types of the inputs that scopes are given.
  bool record_shapes = false;
  /// Keep what report_alloc() and report_free() say.
  bool profile_memory = false;
  /// Keep the native stack of each scope: the addresses of the functions from which it was called. Takes 1 to 2 us and
  /// 0.1 us for each, or a tenth with <stepprof/adapters/libunwind.hpp>, before the scope's own time begins. Names are
  /// looked up when a result is shown; for names beside `[module+0xoffset]` include <stepprof/adapters/elfutils.hpp>.
  /// Refused where stacks cannot be walked. Signal handlers that open scopes then need a stack of 16 KiB. Takes the
  /// dynamic linker's lock for a moment.
  bool with_stack = false;
  /// With `with_stack`: frames kept of each stack, the innermost ones. 1 to 256. Scopes with more are counted
  /// (`stacks_cut`).
  std::size_t stack_depth = 64;
  /// Count floating-point operations: of ops with a formula from the shapes of their inputs, which are recorded then.
  bool with_flops = false;
  /// Formulas beside torch's, for the profile's own key_averages().
  flop_formulas formulas = {};

  /// Called with each completed cycle, inside step() or stop(), and with a partial one that stop() or the schedule cut.
  /// It may open scopes, read and export; it must not start, step or stop a profile. What it throws or returns as an
  /// error does not leave step() or stop(): it is kept in `profile::last_error()` and reported.
  trace_callback on_trace_ready = {};

  /// Methods of profile that read a result read all completed cycles together, not the last one only.
  /// on_trace_ready still gets each cycle alone.
  bool accumulate = false;
  /// With `accumulate`: memory for the cycles that are kept, in bytes. Cycles that would pass it are delivered as usual
  /// but not added; that is reported and noted in the result. From 1 MiB.
  std::uint64_t accumulate_limit_bytes = std::uint64_t{1} << 30;

  /// Memory for the events of all threads together, in bytes, reserved and filled as needed. From 1 MiB to 16 GiB.
  std::size_t event_budget_bytes = std::size_t{256} << 20;
  /// What happens when it is used up.
  fill_policy when_full = fill_policy::drop_newest;

  /// The name of the process in traces. Empty: what set_process_name() said.
  std::string process_name = {};
  /// The number of the process in a distributed run, for traces and the names of their files; -1: none.
  std::int64_t rank = -1;

  /// True when inputs have to be recorded.
  [[nodiscard]] bool needs_shapes() const noexcept { return record_shapes || with_flops; }
};

/// Checks every field. When some are not allowed, `ec` has a text that names each of them, its value and the remedy,
/// and is errc::invalid_argument, or errc::unsupported when the only fault is that something cannot be recorded here.
void validate(const profile_options& options, std::error_code& ec);
/// The same, throwing stepprof::error.
void validate(const profile_options& options);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

inline constexpr std::uint64_t least_event_budget = std::uint64_t{1} << 20;
inline constexpr std::uint64_t largest_event_budget = std::uint64_t{16} << 30;

// What this build can record; a back end that can do more changes its line here.
constexpr bool can_record(activity a) noexcept {
  return a == activity::cpu;
}
inline bool can_record_stacks() noexcept {
  return system_can_unwind || the_walker.load(std::memory_order_acquire) != nullptr;
}

// The faults found so far. Each is a sentence without a full stop.
class option_faults {
 public:
  void add(errc code, const std::string& text) {
    if (code == errc::invalid_argument || text_.empty()) code_ = code;
    text_ += (text_.empty() ? "" : "; ") + text;
  }
  [[nodiscard]] std::error_code result() const {
    return text_.empty() ? std::error_code() : make_error(code_, "profile_options: " + text_);
  }

 private:
  errc code_ = errc::invalid_argument;
  std::string text_;
};

inline void check_activities(const std::vector<activity>& activities, option_faults& faults) {
  if (activities.empty()) faults.add(errc::invalid_argument, "activities is empty, must hold at least activity::cpu");
  bool seen[256] = {};
  for (const activity a : activities) {
    const std::string name(to_string(a));
    bool& before = seen[static_cast<std::uint8_t>(a)];
    if (before) faults.add(errc::invalid_argument, "activities holds " + name + " twice, must hold it once");
    if (!before && !can_record(a))
      faults.add(errc::unsupported, "activities holds " + name + ", which this build cannot record; leave it out");
    before = true;
  }
}

inline void check_bytes(const char* field, std::uint64_t bytes, std::uint64_t least, std::uint64_t most,
                        const char* range, option_faults& faults) {
  if (bytes >= least && bytes <= most) return;
  faults.add(errc::invalid_argument, std::string(field) + " is " + std::to_string(bytes) + ", must be " + range);
}

inline void check_depth(std::size_t depth, option_faults& faults) {
  if (depth >= 1 && depth <= max_stack_frames) return;
  faults.add(errc::invalid_argument, "stack_depth is " + std::to_string(depth) + ", must be 1 to 256");
}

}  // namespace detail

constexpr std::string_view to_string(activity a) noexcept {
  switch (a) {
    case activity::cpu:
      return "CPU";
    case activity::cuda:
      return "CUDA";
    case activity::hardware_counters:
      return "HARDWARE_COUNTERS";
  }
  return "UNKNOWN";
}

constexpr std::string_view to_string(fill_policy p) noexcept {
  switch (p) {
    case fill_policy::drop_newest:
      return "drop_newest";
    case fill_policy::ring:
      return "ring";
  }
  return "unknown";
}

inline void validate(const profile_options& options, std::error_code& ec) {
  detail::option_faults faults;
  validate(options.schedule, ec);
  if (ec) faults.add(errc::invalid_argument, ec.message());
  detail::check_activities(options.activities, faults);
  if (options.with_stack && !detail::can_record_stacks())
    faults.add(errc::unsupported, "with_stack is true, but stacks cannot be walked on this platform; set it to false");
  if (options.with_stack) detail::check_depth(options.stack_depth, faults);
  if (options.rank < -1)
    faults.add(errc::invalid_argument, "rank is " + std::to_string(options.rank) + ", must be -1 (none) or at least 0");
  detail::check_bytes("event_budget_bytes", options.event_budget_bytes, detail::least_event_budget,
                      detail::largest_event_budget, "1048576 (1 MiB) to 17179869184 (16 GiB)", faults);
  if (to_string(options.when_full) == "unknown")
    faults.add(errc::invalid_argument, "when_full is " + std::to_string(static_cast<int>(options.when_full)) +
                                           ", must be fill_policy::drop_newest or fill_policy::ring");
  detail::check_bytes("accumulate_limit_bytes", options.accumulate_limit_bytes, detail::least_event_budget, UINT64_MAX,
                      "at least 1048576 (1 MiB)", faults);
  ec = faults.result();
}

inline void validate(const profile_options& options) {
  std::error_code ec;
  validate(options, ec);
  detail::throw_if(ec, "profile_options");
}

STEPPROF_END_NAMESPACE
