// Everything but adapters, tools and timer.
#pragma once

#include <stepprof/record.hpp>
#include <stepprof/trace/collector.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/trace_builder.hpp>
