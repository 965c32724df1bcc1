// THE LIGHT HEADER: all that code needs which only marks regions. Costs little more to compile than <atomic>.
#pragma once

#include <stepprof/record/args.hpp>
#include <stepprof/record/async_scope.hpp>
#include <stepprof/record/inputs.hpp>
#include <stepprof/record/manual_scope.hpp>
#include <stepprof/record/mark.hpp>
#include <stepprof/record/memory.hpp>
#include <stepprof/record/names.hpp>
#include <stepprof/record/record_function.hpp>
