// Carries out what the step machine decides: opens, cuts, discards and collects windows of the one recorder.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <stepprof/session/control.hpp>
#include <stepprof/session/step_machine.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// The windows of one running profile. Under the control lock.
class window_control {
 public:
  struct delivery {
    trace result;
    bool partial = false;
    std::string failure;  // why there is no result
  };

  window_control(std::string process_name, std::int64_t rank) : process_name_(std::move(process_name)), rank_(rank) {}

  // `flags` is what the gate holds while a window is open. False: the system has no address space for the budget.
  bool begin_session(std::uint32_t flags, std::uint64_t budget_bytes, bool is_ring, std::uint32_t stack_depth) {
    the_cold.is_ring.store(is_ring, std::memory_order_relaxed);
    flags_ = flags | flag_scopes;
    the_stack_depth.store(stack_depth, std::memory_order_relaxed);
    choose_cold_table(flags_);
    if (!the_pool.set_budget(budget_bytes)) return false;
    const auto name_blocks = static_cast<std::uint32_t>(budget_bytes / block_bytes / 4);
    for (name_table& table : the_names.runtime) table.set_limit(name_blocks == 0 ? 1 : name_blocks);
    the_pool.prewrite((std::min)(the_pool.budget_blocks(), first_prewrite_blocks));
    cost_ = measure_recording_cost();
    if ((flags_ & flag_stacks) != 0 && cost_.ticks > 0) cost_.ticks += measure_stack_ticks();
    the_pool.reset_high_water();
    begin_name_session();
    open_ = false;
    paused_ = false;
    first_ = true;
    return true;
  }

  // Ends step number - 1 and begins step `number` on the calling thread, before any window is cut.
  void mark_step(std::int64_t number) {
    if (!open_) return;
    write_step_mark(number);
    step_border border;
    border.number = number;
    border.thread = this_thread_id();
    border.ticks = ticks_of(read_clock());
    window_.borders.push_back(border);
  }

  // Begins step `number` anew, after a window was delivered or thrown away: that took time which belongs to no step.
  void restart_step(std::int64_t number) {
    if (open_ && !window_.borders.empty() && window_.borders.back().number == number) write_step_mark(number);
  }

  // Carries out a transition. `step` is the step that begins, -1 without a schedule.
  std::optional<delivery> run(const step_transition& transition, std::int64_t step, const window_steps& delivered,
                              std::int64_t next_cycle) {
    std::optional<delivery> result;
    window_facts old;
    for (const step_operation op : transition) switch (op) {
        case step_operation::cut:
          old = cut(transition.has(step_operation::open) || transition.has(step_operation::open_warmup), step);
          break;
        case step_operation::open:
        case step_operation::open_warmup:
          open(step, next_cycle);
          break;
        case step_operation::discard:
          control().reader.discard(cut_, true);
          prewrite_more();
          break;
        case step_operation::deliver:
        case step_operation::deliver_partial:
          old.partial = op == step_operation::deliver_partial;
          old.cycle = delivered.cycle;
          old.trace_id = make_trace_id();
          old.process_name = process_name_;
          old.rank = rank_;
          result = collect(old);
          prewrite_more();
          break;
        case step_operation::report:
          break;
      }
    return result;
  }

  void pause() {
    if (paused_) return;
    if (open_) the_registry.gate.store(0, std::memory_order_release);
    paused_ = true;
    paused_since_ = ticks_of(read_clock());
    tell_listeners(0);
  }
  void resume() {
    if (!paused_) return;
    paused_ = false;
    if (!open_) return;
    window_.pauses.emplace_back(paused_since_, ticks_of(read_clock()));
    open_gate();
  }
  [[nodiscard]] bool is_open() const noexcept { return open_; }

  // The running window up to now; nothing is consumed.
  trace snapshot() {
    const collector::cut now = control().reader.note();
    window_facts facts = window_;
    facts.partial = true;
    if (paused_) facts.pauses.emplace_back(paused_since_, now.ticks);
    facts.trace_id = make_trace_id();
    facts.process_name = process_name_;
    facts.rank = rank_;
    std::error_code ec;
    return control().reader.collect(now, facts, ec, true);
  }

 private:
  // 32 MiB: what is written before anything is recorded.
  static constexpr std::uint32_t first_prewrite_blocks = (32u << 20) / block_bytes;

  // Collecting takes memory for all events, and may find none. What then was not read is left out of the next window.
  delivery collect(const window_facts& facts) {
    delivery made;
    made.partial = facts.partial;
    std::string thrown;
    std::error_code ec;
    if (!call_guarded([&] { made.result = control().reader.collect(cut_, facts, ec); }, thrown))
      call_guarded([&] { control().reader.discard(cut_, false); }, made.failure);
    if (!thrown.empty() || ec)
      made.failure = "profile: the cycle could not be collected: " + (ec ? ec.message() : thrown);
    return made;
  }

  static void write_step_mark(std::int64_t number) {
    const record_part part{&number, 8};
    append_record(make_what(tag::step, 0), true, &part, 1, 0);
  }

  void open_gate() {
    tell_listeners(flags_);
    // Release: whoever sees the gate sees the table of cold paths.
    the_registry.gate.store(flags_, std::memory_order_release);
  }

  void open(std::int64_t step, std::int64_t cycle) {
    if (!open_) {
      collector::cut empty = collector::prepare();
      if (!paused_) open_gate();
      cut_ = control().reader.note(std::move(empty));
      control().reader.discard(cut_, false);
      if (first_) control().reader.forget_late();
    }
    first_ = false;
    open_ = true;
    window_ = window_facts();
    window_.flags = flags_;
    window_.cost = cost_;
    window_.open_ticks = cut_.ticks;
    if (paused_) paused_since_ = cut_.ticks;
    window_.cycle = cycle;
    if (step < 0) return;
    write_step_mark(step);  // gives the calling thread a log, so that its first step has a place
    step_border border;
    border.number = step;
    border.thread = this_thread_id();
    border.ticks = cut_.ticks;
    window_.borders.push_back(border);
  }

  // Ends the open window and returns its facts. When another one follows at once, the gate stays open.
  window_facts cut(bool another_follows, std::int64_t next_step) {
    if (!another_follows) {
      // Relaxed is enough: a begin that still passes is found behind the cut and counted as late.
      the_registry.gate.store(0, std::memory_order_relaxed);
      open_ = false;
    }
    cut_ = control().reader.note();
    if (!another_follows) tell_listeners(0);
    window_facts old = std::move(window_);
    if (!old.borders.empty() && old.borders.back().number == next_step) {
      old.end_border = old.borders.back();
      old.borders.pop_back();
    }
    if (paused_) {
      old.pauses.emplace_back(paused_since_, cut_.ticks);
      paused_since_ = cut_.ticks;
    }
    return old;
  }

  // As much again as the last cycle needed, before the next one needs it.
  static void prewrite_more() {
    the_pool.prewrite((std::min)(the_pool.budget_blocks(), 2 * the_pool.high_water_blocks()));
    the_pool.reset_high_water();
  }

  // 32 hex digits, different for every trace of every process (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
  static std::string make_trace_id() {
    static std::atomic<std::uint64_t> serial{0};
    std::uint64_t seed =
        static_cast<std::uint64_t>(wall_ns()) ^
        (static_cast<std::uint64_t>(the_id_sources.process_id.load(std::memory_order_relaxed)()) << 40) ^
        (serial.fetch_add(1, std::memory_order_relaxed) << 20);
    std::string id;
    for (int half = 0; half < 2; ++half) {
      seed += 0x9e3779b97f4a7c15ull;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      z ^= z >> 31;
      for (int digit = 60; digit >= 0; digit -= 4) id += "0123456789ABCDEF"[(z >> digit) & 15];
    }
    return id;
  }

  std::string process_name_;
  std::int64_t rank_;
  window_facts window_;
  collector::cut cut_;
  recording_cost cost_;
  std::uint64_t paused_since_ = 0;
  std::uint32_t flags_ = 0;
  bool open_ = false;
  bool first_ = true;  // no window of this session was opened yet
  bool paused_ = false;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
