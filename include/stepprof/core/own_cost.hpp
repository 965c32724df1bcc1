// What recording costs on this machine, measured: on a log of its own, so that nothing of it is in any trace.
#pragma once

#include <cstddef>
#include <cstdint>

#include <stepprof/core/cold_paths.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Of one empty scope, in ticks of the log's clock.
struct recording_cost {
  double ticks = 0;         // its begin and its end together; 0: could not be measured
  double inside_ticks = 0;  // of them, what lies between its two stamps; the rest is charged to what is around it
};

class cost_measurement {
 public:
  static recording_cost run() noexcept {
    cost_measurement measure;
    if (measure.ref_ == 0) return {};
    for (int batch = 0; batch < batches; ++batch) measure.run_batch();
    return measure.best_;
  }
  cost_measurement(const cost_measurement&) = delete;
  cost_measurement& operator=(const cost_measurement&) = delete;

 private:
  // Few enough for the log's first chunk; together some 40 us. The fastest batch counts: whatever disturbs one makes it
  // longer.
  static constexpr std::uint32_t scopes = 128;
  static constexpr int batches = 16;

  cost_measurement() noexcept : ref_(make_log()), own_(this_thread.own) {
    if (ref_ == 0) return;
    log_block& log = *log_at(ref_);
    log.thread = 0xffffffffu;  // of no thread
    open_log(log, read_clock());
    this_thread.own = &log;
  }
  ~cost_measurement() {
    if (ref_ == 0) return;
    this_thread.own = own_;
    give_back_log(log_at(ref_), oldest_chunk(*log_at(ref_)));
  }

  void run_batch() noexcept {
    log_block& log = *log_at(ref_);
    const char* const first = cursor(log);
    const std::int32_t room = log.room;
    const std::uint64_t begin = ticks_of(read_clock());
    for (std::uint32_t i = 0; i < scopes; ++i) {
      const std::uint64_t thread = begin_scope<product_clock>(what_of(tag::begin_user, 0));
      signal_fence();
      if (thread != 0) end_scope<product_clock>(thread, what_of(tag::end, 0));
    }
    const std::uint64_t end = ticks_of(read_clock());
    const char* const last = cursor(log);
    // Not when anything else was written, as when the high half of the time has changed.
    if (last == first + std::size_t{16} * scopes) keep({per_scope(end - begin), per_scope(inside(first))});
    if (last - first > 0 && last - first <= static_cast<std::ptrdiff_t>(small_bytes)) {
      log.room = room;
      publish(log, first);
    }
  }
  void keep(recording_cost found) noexcept {
    if (found.ticks > 0 && (best_.ticks == 0 || found.ticks < best_.ticks)) best_ = found;
  }
  static double per_scope(std::uint64_t ticks) noexcept { return static_cast<double>(ticks) / scopes; }
  static std::uint64_t inside(const char* first) noexcept {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < scopes; ++i) {
      const word* const pair = reinterpret_cast<const word*>(first) + std::size_t{2} * i;
      sum += pair[1].low - pair[0].low;
    }
    return sum;
  }

  signals_blocked no_handlers_;  // what a handler recorded meanwhile would be lost
  block_ref ref_;
  writer* own_;
  recording_cost best_;
};

// For the calling thread, which may be about to record. Under the control lock, while the pool has its budget.
inline recording_cost measure_recording_cost() noexcept {
  return cost_measurement::run();
}

// What each scope costs in addition where stacks are recorded: at least as much as the stack of whoever starts, most of
// which is walking it. All of it lies before the scope's begin.
inline double measure_stack_ticks() noexcept {
  double best = 0;
  for (int i = 0; i < 16; ++i) {
    const std::uint64_t begin = ticks_of(read_clock());
    const captured_frames frames(nullptr, false, the_stack_depth.load(std::memory_order_relaxed));
    static_cast<void>(system_unload_count());
    const auto ticks = static_cast<double>(ticks_of(read_clock()) - begin);
    if (frames.count() != 0 && (best == 0 || ticks < best)) best = ticks;
  }
  return best;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
