// What all profiles of a process share: the one recorder, its reader, and who is using it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <string>

#include <stepprof/core/cold_paths.hpp>
#include <stepprof/trace/collector.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

struct control_state {
  std::mutex mutex;  // short: never held while a user's code runs
  collector reader;
  const void* running = nullptr;  // the profile that records
  std::string running_name;
  bool installed = false;
};

inline STEPPROF_SHARED STEPPROF_CONSTINIT std::atomic<control_state*> the_control{nullptr};
// Counts the forks that led to this process: a profile of another generation was copied from the parent.
inline STEPPROF_SHARED STEPPROF_CONSTINIT std::atomic<std::uint32_t> the_generation{0};

// Never destroyed: profiles may stop in static destructors.
inline control_state& control() {
  control_state* state = the_control.load(std::memory_order_acquire);
  if (state != nullptr) return *state;
  auto* const fresh = new control_state;
  if (the_control.compare_exchange_strong(state, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *state;
}

// A mutex that a forked child finds unlocked: its owner may have been a thread that does not exist there.
class fork_safe_mutex {
 public:
  fork_safe_mutex() : mutex_(new std::mutex) {}
  ~fork_safe_mutex() {
    if (generation_ == the_generation.load(std::memory_order_relaxed)) delete mutex_;
  }
  fork_safe_mutex(const fork_safe_mutex&) = delete;
  fork_safe_mutex& operator=(const fork_safe_mutex&) = delete;
  void lock() {
    const std::uint32_t now = the_generation.load(std::memory_order_relaxed);
    if (generation_ != now) {  // just forked, so there is one thread; the old mutex may be locked for ever
      mutex_ = new std::mutex;
      generation_ = now;
    }
    mutex_->lock();
  }
  void unlock() { mutex_->unlock(); }

 private:
  std::mutex* mutex_;
  std::uint32_t generation_ = the_generation.load(std::memory_order_relaxed);
};

inline void before_fork() {
  control().mutex.lock();
}
inline void after_fork_in_parent() {
  control().mutex.unlock();
}

// The child starts inactive, with empty logs and ids of its own.
inline void after_fork_in_child() {
  the_registry.gate.store(0, std::memory_order_relaxed);
  the_generation.fetch_add(1, std::memory_order_relaxed);
  the_cold.first_thread.store(the_registry.next_thread.load(std::memory_order_relaxed), std::memory_order_relaxed);
  thread_block& mine = this_thread;
  if (!mine.exited) mine.active = &the_writers.unregistered;
  mine.own.log = nullptr;
  mine.own.thread = 0;
  control_state& state = control();
  state.running = nullptr;
  state.reader.reset_after_fork();
  state.mutex.unlock();
}

// Whoever may install the cold paths keeps them loaded first, with no lock held.
inline void pin_recorder() noexcept {
  if (cold_paths() == nullptr) system_pin_this_module();
}

// Puts the cold paths in place. Under the control lock, before the gate opens for the first time.
inline void install_recorder(control_state& state) {
  if (state.installed) return;
  state.installed = true;
  exit_hook().install(&at_thread_exit);
  install_fork_hooks(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  state.reader.clock().begin();
  // Release: whoever sees the gate open sees the table.
  the_registry.cold.store(&the_cold_table(), std::memory_order_release);
}

}  // namespace detail

/// What became of every scope since the process began. While nothing is recording, scopes behind the last window are
/// counted as late first, so that the counts are complete. Any thread.
[[nodiscard]] inline recording_totals process_totals() {
  detail::control_state& state = detail::control();
  const std::lock_guard<std::mutex> hold(state.mutex);
  if (state.running == nullptr) state.reader.discard(state.reader.note(), false);
  return state.reader.totals();
}

STEPPROF_END_NAMESPACE
