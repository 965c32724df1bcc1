// What all profiles of a process share: the one recorder, its reader, and who is using it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <stepprof/core/cold_paths.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/collector.hpp>
#include <stepprof/trace/fork_safe_mutex.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Told what the gate holds: before it opens, and with 0 after it has closed. Under the control lock, so it must not
// call a profile.
using gate_listener = void (*)(std::uint32_t flags) noexcept;

// Under fork_state::control.
struct control_state {
  collector reader;
  const void* running = nullptr;  // the profile that records
  std::string running_name;
  std::vector<gate_listener> listeners;
  bool installed = false;
};

inline STEPPROF_SHARED STEPPROF_CONSTINIT std::atomic<control_state*> the_control{nullptr};
// Never destroyed: profiles may stop in static destructors.
inline control_state& control() {
  return immortal(the_control);
}
struct control_lock : process_lock {
  control_lock() : process_lock(&fork_state::control) {}
};

// A forked child starts inactive, with empty logs and ids of its own.
inline void reset_in_child() {
  the_cold.first_thread.store(the_registry.next_thread.load(std::memory_order_relaxed), std::memory_order_relaxed);
  thread_block& mine = this_thread;
  mine.own = &no_log;
  mine.registering = false;
  control_state& state = control();
  state.running = nullptr;
  state.reader.reset_after_fork();
}

// Under the control lock. Before the gate opens; when it has closed, with 0.
inline void tell_listeners(std::uint32_t flags) {
  for (const gate_listener listener : control().listeners) listener(flags);
}

// Whoever may install the cold paths keeps them loaded first, with no lock held.
inline void pin_recorder() noexcept {
  if (cold_paths() == nullptr) system_pin_this_module();
}

// The same for an adapter that walks stacks.
inline void pin_walker() noexcept {
  const stack_walker* const walker = the_walker.load(std::memory_order_acquire);
  if (walker != nullptr) walker->pin();
}

// Puts the cold paths in place. Under the control lock, before the gate opens for the first time.
inline void install_recorder(control_state& state) {
  if (state.installed) return;
  state.installed = true;
  exit_hook().install(&at_thread_exit);
  forks().reset_in_child.store(&reset_in_child, std::memory_order_release);
  state.reader.clock().begin();
  // Release: whoever sees the gate open sees the table.
  the_registry.cold.store(&the_cold_table(), std::memory_order_release);
}

}  // namespace detail

/// What became of every scope since the process began. While nothing is recording, scopes behind the last window are
/// counted as late first, so that the counts are complete. Any thread.
[[nodiscard]] inline recording_totals process_totals() {
  const detail::own_work own;
  detail::control_state& state = detail::control();
  const detail::control_lock hold;
  const detail::collector::cut now = state.reader.note();
  if (state.running == nullptr)
    state.reader.discard(now, false);
  else
    state.reader.let_go(now);
  return state.reader.totals(now);
}

STEPPROF_END_NAMESPACE
