// Who is told when recording begins and ends: sources of events that cost something even while nothing is recorded.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include <stepprof/session/control.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Adds a listener, or takes it back; it is told at once what holds for it. Under the control lock.
inline void add_gate_listener(gate_listener listener) {
  control().listeners.push_back(listener);
  listener(the_registry.gate.load(std::memory_order_relaxed));
}
inline void remove_gate_listener(gate_listener listener) {
  std::vector<gate_listener>& listeners = control().listeners;
  const auto at = std::find(listeners.begin(), listeners.end(), listener);
  if (at != listeners.end()) listeners.erase(at);
  listener(0);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
