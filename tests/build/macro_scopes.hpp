// What both files of macro_scopes have.
#pragma once

#include <stepprof/record.hpp>

inline void in_an_inline_function() {
  STEPPROF_SCOPE("in an inline function");
}
