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
// The difference between these two is eight call sites.
extern "C" void one_site() {
  STEPPROF_SCOPE("1");
}
extern "C" void nine_sites() {
  {
    STEPPROF_SCOPE("1");
  }
  { STEPPROF_SCOPE("2"); }
  { STEPPROF_SCOPE("3"); }
  { STEPPROF_SCOPE("4"); }
  { STEPPROF_SCOPE("5"); }
  { STEPPROF_SCOPE("6"); }
  { STEPPROF_SCOPE("7"); }
  { STEPPROF_SCOPE("8"); }
  { STEPPROF_SCOPE("9"); }
}
