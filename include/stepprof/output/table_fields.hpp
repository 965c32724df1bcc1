// The numbers of a row: what tables can be sorted by and show on request, and what CSV and JSON hold.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <stepprof/analysis/event_average.hpp>
#include <stepprof/output/units.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

enum class field_kind : std::uint8_t { time, bytes, count, rate };

// Stands for a number that a row does not have.
inline constexpr std::int64_t no_value = INT64_MIN;

inline std::int64_t rounded(double value) noexcept {
  return static_cast<std::int64_t>(std::llround(value));
}

// One of the statistics, where the row has them.
template <std::int64_t duration_statistics::*Member>
std::int64_t statistic(const event_average& row) noexcept {
  return row.durations && row.durations->count != 0 ? (*row.durations).*Member : no_value;
}
inline std::int64_t standard_deviation(const event_average& row) noexcept {
  return row.durations && row.durations->count > 1 ? rounded(row.durations->stddev_ns) : no_value;
}

// Operations a second, while scopes of the row were open.
inline std::int64_t flop_rate(const event_average& row) noexcept {
  if (row.flops == 0 || row.total_ns <= 0) return no_value;
  const double rate = static_cast<double>(row.flops) * 1e9 / static_cast<double>(row.total_ns);
  return rate < 9.2e18 ? rounded(rate) : INT64_MAX;
}

// A number of a row that tables can be sorted by and, where it has a header, show as a further column.
struct table_field {
  const char* key;
  const char* header;  // nullptr: one of the columns that are always there
  field_kind kind;
  std::int64_t (*value)(const event_average& row);  // no_value: the row has none
  bool is_statistic = false;                        // only there when statistics were asked for
};

inline constexpr table_field table_fields[] = {
    {"self_cpu_time_total", nullptr, field_kind::time, [](const event_average& r) { return r.self_ns; }},
    {"cpu_time_total", nullptr, field_kind::time, [](const event_average& r) { return r.total_ns; }},
    {"cpu_memory_usage", nullptr, field_kind::bytes, [](const event_average& r) { return r.total_memory.net_bytes(); }},
    {"self_cpu_memory_usage", nullptr, field_kind::bytes,
     [](const event_average& r) { return r.self_memory.net_bytes(); }},
    {"count", nullptr, field_kind::count, [](const event_average& r) { return r.calls; }},
    {"allocated_bytes", "Allocated", field_kind::bytes,
     [](const event_average& r) { return r.total_memory.allocated_bytes; }},
    {"self_allocated_bytes", "Self Allocated", field_kind::bytes,
     [](const event_average& r) { return r.self_memory.allocated_bytes; }},
    {"freed_bytes", "Freed", field_kind::bytes, [](const event_average& r) { return r.total_memory.freed_bytes; }},
    {"self_freed_bytes", "Self Freed", field_kind::bytes,
     [](const event_average& r) { return r.self_memory.freed_bytes; }},
    {"allocation_count", "# of Allocs", field_kind::count,
     [](const event_average& r) { return r.total_memory.allocations; }},
    {"self_allocation_count", "Self # of Allocs", field_kind::count,
     [](const event_average& r) { return r.self_memory.allocations; }},
    {"free_count", "# of Frees", field_kind::count, [](const event_average& r) { return r.total_memory.frees; }},
    {"self_free_count", "Self # of Frees", field_kind::count,
     [](const event_average& r) { return r.self_memory.frees; }},
    {"peak_bytes", "Peak Mem", field_kind::bytes, [](const event_average& r) { return r.peak_bytes; }},
    {"unmatched_frees", "Unmatched Frees", field_kind::count,
     [](const event_average& r) { return r.self_memory.unmatched_frees; }},
    {"min_time", "CPU time min", field_kind::time, [](const event_average& r) { return r.min_ns; }},
    {"max_time", "CPU time max", field_kind::time, [](const event_average& r) { return r.max_ns; }},
    {"stddev_time", "CPU time stddev", field_kind::time, standard_deviation, true},
    {"p50_time", "CPU time p50", field_kind::time, statistic<&duration_statistics::p50_ns>, true},
    {"p95_time", "CPU time p95", field_kind::time, statistic<&duration_statistics::p95_ns>, true},
    {"p99_time", "CPU time p99", field_kind::time, statistic<&duration_statistics::p99_ns>, true},
    {"corrected_self_time", "Corrected Self", field_kind::time,
     [](const event_average& r) { return r.corrected_self_ns; }},
    {"flops", nullptr, field_kind::count, [](const event_average& r) { return r.flops; }},
    {"flop_rate", "FLOP/s", field_kind::rate, flop_rate},
    {"unknown_flops", "# FLOPs Unknown", field_kind::count, [](const event_average& r) { return r.unknown_flops; }},
    {"unfinished_count", "# Unfinished", field_kind::count, [](const event_average& r) { return r.unfinished; }},
};

inline const table_field* find_field(std::string_view key) noexcept {
  for (const table_field& field : table_fields)
    if (key == field.key) return &field;
  return nullptr;
}

inline std::string format_field(std::int64_t value, field_kind kind, time_unit unit) {
  if (value == no_value) return "--";
  if (kind == field_kind::time) return format_time(value, unit);
  if (kind == field_kind::rate) return format_rate(value);
  return kind == field_kind::bytes ? format_bytes(value) : fmt::format("{}", value);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
