// A library that only marks regions.
#include <string>

#include <stepprof/record.hpp>

extern "C" void mark_regions();
extern "C" void mark_regions() {
  STEPPROF_SCOPE("site of the library", stepprof::arg("key of the library", "value of the library"));
  const stepprof::record_function scope("name of the library");
}
