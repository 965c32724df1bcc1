// Compiled optimised, and looked at by off_path.sh: what a scope costs while nothing records.
#include <stepprof/record.hpp>

extern "C" void marked() {
  STEPPROF_SCOPE("marked");
}
extern "C" void named() {
  const stepprof::record_function scope("named");
}
extern "C" void named_by_pointer(const char* name) {
  const stepprof::record_function scope(name);
}
