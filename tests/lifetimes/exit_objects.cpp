// Compiled twice, as OWN=first OTHER=second and the other way round: before main each uses an object of the other.
#include "exit_objects.hpp"

#include "counted.hpp"

namespace lifetimes {

namespace {

struct recording_object {
  explicit recording_object(const char* given) : name(given) { record_two(name); }
  ~recording_object() { record_two(name); }
  recording_object(const recording_object&) = delete;
  recording_object& operator=(const recording_object&) = delete;
  const char* name;
};

struct static_object : recording_object {
  static_object() : recording_object("static") {
    if (made_first == nullptr) made_first = STEPPROF_DETAIL_TEXT(OWN);
    touch_function_static(OTHER());
  }
};
const static_object of_program;

}  // namespace

void touch_function_static(OWN) {
  static const recording_object of_function("function static");
}

void touch_thread_local(OWN) {
  thread_local const recording_object of_thread("thread_local");
  static_cast<void>(of_thread.name);
}

}  // namespace lifetimes
