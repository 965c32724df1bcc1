// The numbers of a row: what tables can be sorted by and show on request, and what CSV and JSON hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <stepprof/analysis/event_average.hpp>
#include <stepprof/output/units.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

enum class field_kind : std::uint8_t { time, bytes, count };

// A number of a row that tables can be sorted by and, where it has a header, show as a further column.
struct table_field {
  const char* key;
  const char* header;  // nullptr: one of the columns that are always there
  field_kind kind;
  std::int64_t (*value)(const event_average& row);
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
    {"unmatched_frees", "Unmatched Frees", field_kind::count,
     [](const event_average& r) { return r.self_memory.unmatched_frees; }},
    {"min_time", "CPU time min", field_kind::time, [](const event_average& r) { return r.min_ns; }},
    {"max_time", "CPU time max", field_kind::time, [](const event_average& r) { return r.max_ns; }},
    {"corrected_self_time", "Corrected Self", field_kind::time,
     [](const event_average& r) { return r.corrected_self_ns; }},
    {"unfinished_count", "# Unfinished", field_kind::count, [](const event_average& r) { return r.unfinished; }},
};

inline const table_field* find_field(std::string_view key) noexcept {
  for (const table_field& field : table_fields)
    if (key == field.key) return &field;
  return nullptr;
}

inline std::string format_field(std::int64_t value, field_kind kind, time_unit unit) {
  if (kind == field_kind::time) return format_time(value, unit);
  return kind == field_kind::bytes ? format_bytes(value) : fmt::format("{}", value);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
