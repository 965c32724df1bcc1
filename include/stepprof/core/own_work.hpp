// Which allocations are the profiler's own: those that a thread makes inside a call of the profiler.
#pragma once

#include <cstdint>

#include <stepprof/core/thread_log.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// While it lives, what this thread allocates is the profiler's, not the program's: it is in no row of a table. A block
// of the program that is freed meanwhile counts as ever, and one of the profiler that the program frees later, with a
// result that it was given, does not.
class own_work {
 public:
  own_work() noexcept { ++this_thread.own_work; }
  ~own_work() { --this_thread.own_work; }
  own_work(const own_work&) = delete;
  own_work& operator=(const own_work&) = delete;
};

// While it lives this thread runs the program's code again: a callback.
class users_work {
 public:
  users_work() noexcept : outside_(this_thread.own_work) { this_thread.own_work = 0; }
  ~users_work() { this_thread.own_work = outside_; }
  users_work(const users_work&) = delete;
  users_work& operator=(const users_work&) = delete;

 private:
  std::uint32_t outside_;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
