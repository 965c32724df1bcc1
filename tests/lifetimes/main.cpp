// Programs that record before main and after exit. STEPPROF_LIFE says which life one leads, STEPPROF_FIRST which of its
// sources is to have made its static objects first. Exits with 0 when all of it went right.
//
// Catches: what is used before it is made or after it is gone, set-up that waits for itself, a thread that records into
// memory which the exit gave back, scopes that are lost on the way.
// FC-64: https://github.com/wolfpld/tracy/issues/61, https://github.com/wolfpld/tracy/issues/775,
// https://github.com/google/perfetto/issues/2831
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "counted.hpp"
#include "exit_objects.hpp"
#include "sessions.hpp"

namespace lifetimes {

const char* made_first = nullptr;

namespace {

const char* setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}
bool life_is(const char* name) {
  return std::strcmp(setting("STEPPROF_LIFE"), name) == 0;
}

constexpr std::uint64_t detached_threads = 3;
std::atomic<std::uint64_t> at_work{0};

void record_for_ever() {
  touch_thread_local(first());
  ++at_work;
  for (;;) {
    record_one("detached");
    std::this_thread::yield();
  }
}
void detach_threads() {
  for (std::uint64_t i = 0; i < detached_threads; ++i) std::thread(record_for_ever).detach();
  while (at_work < detached_threads) std::this_thread::yield();
}

void require(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s: %s; %llu begun, %llu accepted, %llu recorded\n", setting("STEPPROF_LIFE"), what,
               static_cast<unsigned long long>(begun), static_cast<unsigned long long>(accepted),
               static_cast<unsigned long long>(recorded_so_far()));
  std::_Exit(1);
}

// Everything accepted is recorded, and nothing else. Threads may be at work: each has at most one scope that it has
// begun and not yet counted.
void require_all_recorded() {
  const std::uint64_t at_least = accepted;
  const std::uint64_t recorded = recorded_so_far();
  require(recorded >= at_least, "scopes are lost");
  require(recorded <= accepted + at_work, "more is recorded than was begun");
}

// The last code of the program: static objects are gone.
void end_life() {
  if (life_is("recorded_whole")) {
    require(calls("static") == 4, "scopes of static objects are missing");
    require(calls("function static") == 4, "scopes of static objects of functions are missing");
    require(calls("thread_local") == 8, "scopes of objects of threads are missing");
    require(calls("of a macro") == 16, "scopes of macros are missing");
    stop_session();
    require(calls("of a macro") == 16, "scopes of macros are missing when it has stopped");
    require_all_recorded();
    require(accepted == 32 && begun == 32, "not all is accepted");
  } else if (life_is("stopped_at_exit")) {
    require_all_recorded();
    require(accepted == 16, "objects of threads, and no others, live while it records");
  } else if (life_is("never_stopped")) {
    require(calls("thread_local") == 8, "scopes of objects of threads are missing");
    require(calls("static") == 2, "scopes of destructors of static objects are missing");
    require(calls("function static") == 2, "scopes of destructors of static objects of functions are missing");
  } else if (life_is("detached_threads")) {
    require_all_recorded();
    require(dropped_so_far() == 0, "something was dropped");
  } else if (life_is("quick_exit")) {
    stop_session();
    require_all_recorded();
    require(calls("main") == 1, "the scope of main is missing");
  }
}

// Before the constructors of static objects, so that it ends after their destructors.
__attribute__((constructor(101))) void begin_life() {
  std::atexit(&end_life);
  std::at_quick_exit(&end_life);
  if (life_is("recorded_whole")) start_session();
}

void touch_all() {
  touch_thread_local(first());
  touch_thread_local(second());
}

int live() {
  if (std::strcmp(setting("STEPPROF_FIRST"), made_first) != 0) {
    std::fprintf(stderr, "the static objects of '%s' were made first\n", made_first);
    return 1;
  }
  if (life_is("forks")) return fork_while_threads_record();
  if (life_is("callbacks")) return record_in_callbacks();
  if (life_is("stopped_at_exit") || life_is("detached_threads")) start_static_session();
  if (life_is("never_stopped") || life_is("quick_exit")) start_session();
  touch_all();
  std::thread(&touch_all).join();
  if (life_is("detached_threads") || life_is("quick_exit")) detach_threads();
  if (life_is("quick_exit")) {
    STEPPROF_SCOPE("main");
    count(true, true);
    std::quick_exit(0);
  }
  return 0;
}

}  // namespace

}  // namespace lifetimes

int main() {
  return lifetimes::live();
}
