// What programs check that have no test framework.
#pragma once

#include <cstdio>

inline int failures = 0;

inline void check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}
