// The version, written once, and the namespace that carries it.
#pragma once

#define STEPPROF_VERSION_MAJOR 0
#define STEPPROF_VERSION_MINOR 1
#define STEPPROF_VERSION_PATCH 0

// The ABI tag is part of every symbol: two header versions in one process never share a definition by accident.
#define STEPPROF_BEGIN_NAMESPACE \
  namespace stepprof {           \
  inline namespace v0_1 {
#define STEPPROF_END_NAMESPACE \
  }                            \
  }
