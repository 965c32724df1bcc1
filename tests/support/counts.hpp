// What tests count again and again.
#pragma once

#include <cstdint>

#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/trace/collector.hpp>
#include <stepprof/trace/trace.hpp>

namespace test {

// Of the scopes with this name; 0 when there is none.
inline std::int64_t calls(const stepprof::trace& t, const char* name) {
  const stepprof::event_averages averages = stepprof::key_averages(t);
  const stepprof::event_average* row = averages.find(name);
  return row == nullptr ? 0 : row->calls;
}

// All begins that passed the gate.
inline std::uint64_t begins(const stepprof::recording_totals& t) {
  return t.kept + t.unfinished + t.late + t.discarded + t.dropped;
}
inline std::uint64_t begins(const stepprof::loss_counts& l) {
  return l.kept + l.unfinished + l.late + l.dropped;
}

}  // namespace test
