// By what a profile finds the modules of its process that record, each with the recorder that it writes to.
#pragma once

#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Stands in the data of each module, and nothing refers to it from outside: it is found by its first bytes, also in a
// program that shows none of its symbols. The same in all versions.
struct module_sign {
  char text[16];
  std::uint32_t version;
  std::uint32_t abi;
  const void* recorder;  // the registry that the module uses, its own or one that it shares
};

inline constexpr std::uint32_t module_version =
    STEPPROF_VERSION_MAJOR << 20 | STEPPROF_VERSION_MINOR << 10 | STEPPROF_VERSION_PATCH;

}  // namespace detail

STEPPROF_END_NAMESPACE
