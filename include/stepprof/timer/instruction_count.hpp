// How many instructions a run takes: a figure that neither neighbours nor clock frequency change.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/timer/callgrind.hpp>
#include <stepprof/timer/do_not_optimize.hpp>
#include <stepprof/timer/hardware_counter.hpp>
#include <stepprof/timer/rerun.hpp>
#include <stepprof/timer/timed_block.hpp>
#include <stepprof/timer/valgrind_request.hpp>
#include <stepprof/trace/error.hpp>

STEPPROF_BEGIN_NAMESPACE

enum class count_source : unsigned char { hardware, callgrind };

struct instruction_count {
  double per_run = 0;             ///< Of one run, what the loop around it takes taken off.
  double empty_loop_per_run = 0;  ///< What was taken off.
  std::int64_t number = 0;
  count_source source = count_source::hardware;

  /// `39.1 instructions a run (callgrind, 128 runs; the empty loop's 3.0 taken off)`.
  [[nodiscard]] std::string to_string() const {
    return fmt::format("{:.1f} instructions a run ({}, {}; the empty loop's {:.1f} taken off)", per_run,
                       source == count_source::hardware ? "hardware counter" : "callgrind",
                       detail::counted(number, "run"), empty_loop_per_run);
  }
};

struct count_options {
  /// Runs over which is averaged, from 1 to 1000000000. A power of two leaves no rest where a loop is unrolled.
  std::int64_t number = 128;
  /// Where this process cannot count: start the program again under Valgrind, with the same arguments, up to the same
  /// call, and take the count from there. The copy does all that the program does until then, about 5 times slower, its
  /// output goes nowhere, and it must come to the same calls in the same order. Count first, on the main thread; what
  /// the copy need not do, leave out where is_counting_rerun() is true.
  bool may_rerun = false;
};

/// Whether this process is a copy of the program that was started for a count.
[[nodiscard]] inline bool is_counting_rerun() noexcept {
  return std::getenv(detail::rerun_count_variable) != nullptr;
}

/// Counts the instructions of a callable without arguments outside the kernel. What it returns is kept.
///
/// Under `valgrind --tool=callgrind` it asks Callgrind (for all threads; its dump is expected where Callgrind puts it
/// by itself). Otherwise the processor's counter, where system and machine have one for this thread, as many virtual
/// machines have not. Otherwise, if it may, a copy of the program under Callgrind, which takes Linux and an installed
/// valgrind. (A Valgrind that is older than the compiler may not read its debug information, and says so: then
/// strip the program, or compile it with -gdwarf-4.)
///
/// Empty, with errc::unsupported and the reasons, when none of them can; never a zero in its place. An option that is
/// not allowed is errc::invalid_argument.
template <class Run>
std::optional<instruction_count> count_instructions(Run run, const count_options& options, std::error_code& ec);
/// The same, throwing stepprof::error.
template <class Run>
instruction_count count_instructions(Run run, const count_options& options = {}) {
  std::error_code ec;
  const std::optional<instruction_count> count = count_instructions(std::move(run), options, ec);
  detail::throw_if(ec, "count_instructions");
  return count.value_or(instruction_count{});
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

template <class Counter, class Run>
std::int64_t instructions_of_block(Counter& counter, Run& run, std::int64_t number) {
  counter.start();
  run_block(run, number);
  return counter.stop();
}

// From two blocks, so that whatever does not depend on the number of runs falls out. Below 0 when it cannot say.
template <class Counter, class Run>
double instructions_per_run(Counter& counter, Run& run, std::int64_t number) {
  const std::int64_t few = instructions_of_block(counter, run, number);
  const std::int64_t many = instructions_of_block(counter, run, 2 * number);
  return few < 0 || many < few ? -1 : static_cast<double>(many - few) / static_cast<double>(number);
}

// Two runs first, as a first one does what others need not. An empty loop takes at least one instruction a run: where
// it is said to take none, the counter did not count.
template <class Counter, class Run>
std::optional<two_counts> count_both(Counter& counter, Run& run, std::int64_t number) {
  empty_run nothing;
  run_block(run, 2);
  const two_counts counts{instructions_per_run(counter, run, number), instructions_per_run(counter, nothing, number)};
  if (counts.run < 0 || !(counts.empty >= 1)) return std::nullopt;
  return counts;
}

// The same in a copy of the program, which comes to its calls in the same order.
inline std::int64_t next_count_number() noexcept {
  static std::atomic<std::int64_t> counts{0};
  return counts.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: nothing else depends on it
}

template <class Run>
std::optional<two_counts> count_under_callgrind(Run& run, std::int64_t number, std::error_code& ec) {
  callgrind_counter counter;
  const std::optional<two_counts> counts = count_both(counter, run, number);
  if (!counts)
    ec = make_error(errc::unsupported,
                    fmt::format("callgrind gave no count in {}.1, ...: run it without --callgrind-out-file, "
                                "--collect-atstart=no and --toggle-collect, and stay in its folder",
                                callgrind_out_file()));
  return counts;
}

inline instruction_count counted_by(count_source source, const two_counts& counts, std::int64_t number) {
  return {counts.run - counts.empty, counts.empty, number, source};
}

inline std::error_code nothing_can_count(const std::string& why_not) {
  return make_error(errc::unsupported,
                    "instructions cannot be counted: the hardware counter is not available (" + why_not +
                        ") and may_rerun is false; set it, or run the program under valgrind --tool=callgrind");
}

}  // namespace detail

template <class Run>
std::optional<instruction_count> count_instructions(Run run, const count_options& options, std::error_code& ec) {
  ec.clear();
  const std::int64_t ours = detail::next_count_number();
  const std::int64_t number = options.number;
  if (number < 1 || number > 1000000000) {
    ec = detail::make_error(errc::invalid_argument, fmt::format("number is {}, must be from 1 to 1000000000", number));
    return std::nullopt;
  }
  if (detail::start_callgrind()) {
    const std::optional<detail::two_counts> counts = detail::count_under_callgrind(run, number, ec);
    if (!counts) return std::nullopt;
    if (ours == detail::count_wanted_of_rerun()) detail::end_rerun(*counts);
    return detail::counted_by(count_source::callgrind, *counts, number);
  }
  detail::hardware_counter counter;
  // Under another tool of Valgrind the processor would count that tool's instructions.
  if (counter.is_usable() && !detail::runs_under_valgrind()) {
    const std::optional<detail::two_counts> counts = detail::count_both(counter, run, number);
    if (counts) return detail::counted_by(count_source::hardware, *counts, number);
  }
  if (!options.may_rerun || is_counting_rerun()) {
    ec = detail::nothing_can_count(counter.is_usable() ? "it does not count all the time" : counter.why_not());
    return std::nullopt;
  }
  const detail::two_counts counts = detail::rerun_under_callgrind(ours, ec);
  if (ec) return std::nullopt;
  return detail::counted_by(count_source::callgrind, counts, number);
}

STEPPROF_END_NAMESPACE
