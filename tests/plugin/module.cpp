// A library of which only two functions are visible. MODULE is its name.
#include <thread>

#include <stepprof/record.hpp>

#include "archive.hpp"

#define VISIBLE extern "C" __attribute__((visibility("default")))

// Calls `inside` inside its scopes.
VISIBLE void record_in_module(void (*inside)());
VISIBLE void record_in_module(void (*inside)()) {
  STEPPROF_SCOPE("site of " MODULE);
  const stepprof::record_function scope("name of " MODULE, stepprof::arg("key of " MODULE, MODULE));
  record_in_archive();
  if (inside != nullptr) inside();
}

VISIBLE void record_on_thread_of_module();
VISIBLE void record_on_thread_of_module() {
  std::thread([] {
    stepprof::set_thread_name("thread of " MODULE);
    STEPPROF_SCOPE("thread's site of " MODULE);
    record_in_archive();
  }).join();
}
