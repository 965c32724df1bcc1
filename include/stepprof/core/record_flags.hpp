// The gate word: whether anything is recorded, and what.
#pragma once

#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// The gate word is the set of these. It is not zero exactly while scopes are recorded, so that "off" is one load and
// one branch and no feature costs a second load.
enum record_flag : std::uint32_t {
  flag_scopes = 1,                               // set whenever the gate is open
  flag_shapes = STEPPROF_WITHOUT_FLAGS ? 0 : 2,  // inputs(...) are looked at
  flag_memory = STEPPROF_WITHOUT_FLAGS ? 0 : 4,  // report_alloc and report_free write
  flag_flops = 16,  // FLOPs are to be counted from the shapes; nothing looks at it while recording
  // Native stacks are captured. Larger than every begin word that a call site may hold, and those are larger than all
  // other flags together: one comparison of the two says whether a site goes the slow way. See must_ask().
  flag_stacks = STEPPROF_WITHOUT_FLAGS ? 0 : 1u << 30,
};

}  // namespace detail

STEPPROF_END_NAMESPACE
