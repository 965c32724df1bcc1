// Everything but adapters, tools and timer.
#pragma once

#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/analysis/flow_pairs.hpp>
#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/analysis/memory_timeline.hpp>
#include <stepprof/analysis/memory_use.hpp>
#include <stepprof/analysis/step_times.hpp>
#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/output/folded_stacks.hpp>
#include <stepprof/output/memory_timeline_file.hpp>
#include <stepprof/output/row_export.hpp>
#include <stepprof/output/step_table.hpp>
#include <stepprof/output/table.hpp>
#include <stepprof/record.hpp>
#include <stepprof/session/diagnostics.hpp>
#include <stepprof/session/options.hpp>
#include <stepprof/session/profile.hpp>
#include <stepprof/session/schedule.hpp>
#include <stepprof/session/trace_handler.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/trace.hpp>
