// What a scope stands for: the one type that the recorder and the trace share.
#pragma once

#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What a scope stands for. Written to Chrome traces as `cpu_op` (op and backward_op) or `user_annotation`.
enum class scope_kind : std::uint8_t {
  op = 0,               ///< An operation of a library.
  user_annotation = 1,  ///< A region named by the user, and the steps.
  backward_op = 2,      ///< The execution of one node of a tape: the only kind that receives an arrow.
};

STEPPROF_END_NAMESPACE
