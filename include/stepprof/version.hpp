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

// What the modules of a process share has this number: one more with every change of it.
#define STEPPROF_ABI 6

// The ABI tag is part of every symbol: two header versions in one process never share a definition by accident.
#define STEPPROF_DETAIL_TAG2(major, minor, abi) v##major##_##minor##_##abi
#define STEPPROF_DETAIL_TAG(major, minor, abi) STEPPROF_DETAIL_TAG2(major, minor, abi)
#define STEPPROF_ABI_TAG STEPPROF_DETAIL_TAG(STEPPROF_VERSION_MAJOR, STEPPROF_VERSION_MINOR, STEPPROF_ABI)
#define STEPPROF_BEGIN_NAMESPACE \
  namespace stepprof {           \
  inline namespace STEPPROF_ABI_TAG {
#define STEPPROF_END_NAMESPACE \
  }                            \
  }
