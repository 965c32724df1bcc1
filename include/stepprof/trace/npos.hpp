// "No such index".
#pragma once

#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

/// "No such index", for every 32-bit index in a trace.
inline constexpr std::uint32_t npos = 0xffffffffu;

STEPPROF_END_NAMESPACE
