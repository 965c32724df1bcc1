// Trace files that viewers will not open: said where they are written, not found out where they are to be looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <stepprof/config.hpp>
#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/session/diagnostics.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// The least of the walls that users of viewers report: a text of 256 MiB
// (https://github.com/google/trace-viewer/issues/627, https://github.com/catapult-project/catapult/issues/3656), of 512
// (https://github.com/jlfwong/speedscope/pull/385).
inline constexpr std::uint64_t large_trace_bytes = std::uint64_t{256} << 20;

inline std::optional<diagnostic> large_trace_diagnostic(const chrome_trace_result& written) {
  if (written.largest_file_bytes <= large_trace_bytes) return std::nullopt;
  return diagnostic{"large_trace", "a trace with " + std::to_string(written.largest_file_bytes >> 20) +
                                       " MiB of JSON was written; viewers open up to " +
                                       std::to_string(large_trace_bytes >> 20) +
                                       " MiB well. Record fewer steps, or use the options of export_chrome_trace: "
                                       "max_file_bytes splits the trace, selection leaves out short scopes"};
}

inline void report_large_trace(const chrome_trace_result& written, diagnostics_once& once) {
  if (const auto found = large_trace_diagnostic(written)) once.report(*found);
}

}  // namespace detail
STEPPROF_END_NAMESPACE
