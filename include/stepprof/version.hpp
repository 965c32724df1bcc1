// The version, written once, and the namespace that carries it.
#pragma once

#define STEPPROF_VERSION_MAJOR 0
#define STEPPROF_VERSION_MINOR 1
#define STEPPROF_VERSION_PATCH 0

// The same as a text: "1.2.3".
#define STEPPROF_DETAIL_TEXT2(number) #number
#define STEPPROF_DETAIL_TEXT(number) STEPPROF_DETAIL_TEXT2(number)
#define STEPPROF_VERSION_TEXT                  \
  STEPPROF_DETAIL_TEXT(STEPPROF_VERSION_MAJOR) \
  "." STEPPROF_DETAIL_TEXT(STEPPROF_VERSION_MINOR) "." STEPPROF_DETAIL_TEXT(STEPPROF_VERSION_PATCH)

// The ABI tag is part of every symbol: two header versions in one process never share a definition by accident.
#define STEPPROF_BEGIN_NAMESPACE \
  namespace stepprof {           \
  inline namespace v0_1 {
#define STEPPROF_END_NAMESPACE \
  }                            \
  }
