// Mutexes that a forked child can use, although the threads that held them when it was forked do not exist there.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <stepprof/core/registry.hpp>
#include <stepprof/core/system.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// The object of the process behind `place`: made when it is first asked for, never destroyed. The guard of a static
// would stay locked in a child that is forked while another thread makes the object.
template <class T>
T& immortal(std::atomic<T*>& place) {
  // Acquire and release: whoever sees the object sees it whole.
  T* found = place.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto* const fresh = new T;
  if (place.compare_exchange_strong(found, fresh, std::memory_order_acq_rel, std::memory_order_acquire)) return *fresh;
  delete fresh;
  return *found;
}

// What a call_mutex is in one process; the child of a fork makes another one.
struct call_turn {
  std::mutex mutex;
  std::uint32_t generation;
};

struct fork_state {
  // Of the process, for moments: never held while a user's code runs, which may fork. A fork waits for them, so the
  // child finds them free, and whole what they guard. `data` may be taken under `control`, nothing else under `data`.
  std::mutex control;  // the recorder, and who uses it
  std::mutex data;     // results, texts and hooks
  std::atomic<bool> sees_forks{false};
  std::atomic<std::uint32_t> generation{0};         // counts the forks that led to this process
  std::atomic<void (*)()> reset_in_child{nullptr};  // what else is to be done in a child, under both mutexes
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT std::atomic<fork_state*> the_fork_state{nullptr};

// What this thread holds of them.
struct held_mutexes {
  std::uint32_t of_process;  // how many it has, or is about to take
  call_turn* turn;
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT thread_local held_mutexes this_thread_holds{0, nullptr};

inline fork_state& forks() {
  return immortal(the_fork_state);
}

// The count makes it harmless that the three are installed twice, and that a signal handler forks which interrupted a
// thread inside the library: then the parent does not wait for itself, and the child must leave the library alone.
inline void before_fork() {
  if (this_thread_holds.of_process++ != 0) return;
  forks().control.lock();
  forks().data.lock();
}
inline void after_fork_in_parent() {
  if (--this_thread_holds.of_process != 0) return;
  forks().data.unlock();
  forks().control.unlock();
}
inline void after_fork_in_child() {
  fork_state& state = forks();
  the_registry.gate.store(0, std::memory_order_relaxed);
  const std::uint32_t now = state.generation.fetch_add(1, std::memory_order_relaxed) + 1;
  if (this_thread_holds.turn != nullptr) this_thread_holds.turn->generation = now;  // forked by a callback: still held
  if (--this_thread_holds.of_process != 0) return;
  if (void (*const reset)() = state.reset_in_child.load(std::memory_order_acquire)) reset();
  state.data.unlock();
  state.control.unlock();
}

// With no lock held, and before the first one is taken. Two threads at once both install the handlers, rather than one
// waiting for the other: a child may be forked in between.
inline void see_forks() {
  std::atomic<bool>& seen = forks().sees_forks;
  if (seen.load(std::memory_order_acquire)) return;
  system_pin_this_module();
  install_fork_hooks(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  seen.store(true, std::memory_order_release);
}

// Holds one of the mutexes of the process while it lives.
class process_lock {
 public:
  explicit process_lock(std::mutex fork_state::*which) : mutex_(forks().*which) {
    see_forks();
    ++this_thread_holds.of_process;
    signal_fence();
    mutex_.lock();
  }
  ~process_lock() {
    mutex_.unlock();
    signal_fence();
    --this_thread_holds.of_process;
  }
  process_lock(const process_lock&) = delete;
  process_lock& operator=(const process_lock&) = delete;

 private:
  std::mutex& mutex_;
};

// A mutex that is held while a user's code runs: for long perhaps, so that a fork does not wait for it. The child finds
// it free, unless it was the thread that holds it which forked. A thread can hold one at a time.
class call_mutex {
 public:
  call_mutex() {
    see_forks();
    turn_.store(fresh_turn(), std::memory_order_relaxed);
  }
  ~call_mutex() {
    call_turn* const turn = turn_.load(std::memory_order_relaxed);
    if (turn->generation == generation()) delete turn;  // one of the parent may be locked for ever
  }
  call_mutex(const call_mutex&) = delete;
  call_mutex& operator=(const call_mutex&) = delete;

  void lock() {
    call_turn* const turn = current_turn();
    turn->mutex.lock();
    this_thread_holds.turn = turn;
  }
  void unlock() {
    call_turn* const turn = this_thread_holds.turn;
    this_thread_holds.turn = nullptr;
    turn->mutex.unlock();
  }

 private:
  static std::uint32_t generation() { return forks().generation.load(std::memory_order_relaxed); }
  static call_turn* fresh_turn() {
    auto* const turn = new call_turn;
    turn->generation = generation();
    return turn;
  }
  // Of the threads of a child that come first at once, one makes the new mutex, and all take that.
  call_turn* current_turn() {
    call_turn* turn = turn_.load(std::memory_order_acquire);
    if (turn->generation == generation()) return turn;
    call_turn* const fresh = fresh_turn();
    // Release: whoever sees the new one sees it whole.
    if (turn_.compare_exchange_strong(turn, fresh, std::memory_order_acq_rel, std::memory_order_acquire)) return fresh;
    delete fresh;
    return turn;
  }

  std::atomic<call_turn*> turn_{nullptr};
};

}  // namespace detail

STEPPROF_END_NAMESPACE
