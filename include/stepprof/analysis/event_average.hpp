// A row of a table, and rows with the facts of their recording.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stepprof/analysis/duration_statistics.hpp>
#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

struct table_options;  // output/table.hpp

/// What `group_by_stack_n` groups by.
enum class stack_source : std::uint8_t {
  scopes,  ///< The enclosing scopes. Always there.
  native,  ///< The frames captured with each event (with_stack).
};

/// One row: all events of one key, or one event. A plain struct, so that a program can make and change rows itself.
///
/// An annotation and an operation of the same name are two rows. Times are in ns, memory in bytes of CPU memory. Sums
/// end at 2^63 - 1 (292 years, 8 EiB) instead of overflowing.
struct event_average {
  std::string name;                  ///< The bytes given by the program; every `ProfilerStep#k` is `ProfilerStep*`.
  scope_kind kind = scope_kind::op;  ///< Of the first event.
  bool is_annotation = false;
  bool is_memory = false;  ///< Memory reported outside every scope: `[memory]`.
  bool is_step = false;
  bool is_async = false;      ///< Every event stands on an async track: no self time, no share of the whole.
  bool is_top_level = false;  ///< The first event has no enclosing scope.

  std::int64_t calls = 0;       ///< Every instance counts, also recursive and unfinished ones.
  std::int64_t unfinished = 0;  ///< Of these, still open when the window was cut; their time ends there.
  std::int64_t self_ns = 0;
  /// Time with at least one event of this row open, added over threads: of nested events of one row on one thread only
  /// the outermost counts, so recursion never passes 100 %. Async events count with their whole duration.
  std::int64_t total_ns = 0;
  std::int64_t async_ns = 0;       ///< Part of total_ns that stands on async tracks.
  std::int64_t unfinished_ns = 0;  ///< Part of total_ns that belongs to unfinished events.
  std::int64_t top_level_ns = 0;   ///< Part of total_ns that no other scope of the thread encloses.
  std::int64_t min_ns = 0;         ///< Shortest and longest event.
  std::int64_t max_ns = 0;
  std::int64_t inner_scopes = 0;  ///< Scopes directly inside these.
  /// self_ns without what recording cost: of each call the part that lies inside its own time, and of each scope
  /// directly inside it the rest (trace_info::scope_cost_ns, an estimate: an empty scope's, measured at the start of
  /// the session). Not below 0; self_ns itself where the cost was not measured. Arguments and memory reports cost more.
  std::int64_t corrected_self_ns = 0;
  memory_sums self_memory;   ///< Reported while an event of this row was the innermost open one.
  memory_sums total_memory;  ///< With all that is nested in it; the outermost event counts, as for total_ns.
  std::int64_t peak_bytes =
      0;  ///< The most that one event's thread held of what it had allocated since the event began.
  /// How the durations of the calls are spread, where key_averages_options::statistics asked for it: of all calls, of
  /// steps the complete ones. Lost when rows are merged.
  std::optional<duration_statistics> durations;

  /// Floating-point operations of these scopes themselves: what the program gave as flops(...), else by the formula of
  /// the name. Not those of scopes inside, which count for themselves.
  std::int64_t flops = 0;
  std::int64_t unknown_flops = 0;  ///< Calls whose name has a formula that does not fit their inputs.

  std::string shapes;              ///< `[[64, 512], []]`; empty when not grouped by shape, or without inputs.
  std::vector<std::string> stack;  ///< Innermost first: enclosing scopes or native frames, as grouped.
  std::string source;              ///< `file:line` of the first event that knows it.

  /// Total time per call, in ns. A step that stop() cut would make the average of the steps meaningless, so steps are
  /// averaged over the complete ones (over all of them when none is complete).
  [[nodiscard]] double average_ns() const noexcept {
    if (calls == 0) return 0;
    if (is_step && unfinished < calls)
      return static_cast<double>(detail::saturating_sub(total_ns, unfinished_ns)) /
             static_cast<double>(detail::saturating_sub(calls, unfinished));
    return static_cast<double>(total_ns) / static_cast<double>(calls);
  }
};

/// Rows, in the order in which their first events began, with the facts of the recording that a table's footer shows.
struct event_averages {
  std::vector<event_average> rows;
  trace_info info;                 ///< Of the recording: cycle, steps, cost of a scope.
  loss_counts losses;              ///< What is missing, exactly.
  std::uint32_t thread_count = 0;  ///< Threads that recorded at least one event.
  bool has_memory = false;         ///< Memory was recorded: the table has memory columns.
  bool has_statistics = false;     ///< Rows have `durations`.
  stack_source stack = stack_source::scopes;

  /// The first row of this name, nullptr when there is none.
  [[nodiscard]] const event_average* find(std::string_view name) const noexcept {
    for (const event_average& row : rows)
      if (row.name == name) return &row;
    return nullptr;
  }
  /// The first row of this name. Fails with errc::invalid_argument when there is none.
  [[nodiscard]] const event_average& at(std::string_view name) const&;
  /// Of a temporary, as in `prof.key_averages().at("name")`: a copy, which outlives it.
  [[nodiscard]] event_average at(std::string_view name) const&& {
    const event_averages& rows_of_temporary = *this;
    return rows_of_temporary.at(name);
  }

  /// Σ self over all rows: the whole that percentages refer to, and the last line of the table.
  [[nodiscard]] std::int64_t self_cpu_time_total_ns() const noexcept {
    std::int64_t sum = 0;
    for (const event_average& row : rows) sum = detail::saturating_add(sum, row.self_ns);
    return sum;
  }
  /// One row `Total`: calls and self values of all rows; as total the time of the top-level scopes of all threads and
  /// all memory, so nothing is counted twice.
  [[nodiscard]] event_average total_average() const;

  /// The rows as text; see table() in output/table.hpp, which must be included.
  [[nodiscard]] inline std::string table(const table_options& options) const;
  [[nodiscard]] inline std::string table() const;
  /// `sort_by` is a text of any kind. A template, so that `table({.sort_by = "count"})` and `table({})` can only mean
  /// options: compilers disagree on whether such a list might be a string.
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>>>
  [[nodiscard]] std::string table(const Text& sort_by, std::int64_t row_limit = 100) const;
  /// The rows as CSV and as JSON, times in ns and memory in bytes; see output/row_export.hpp, which must be included.
  [[nodiscard]] inline std::string to_csv() const;
  [[nodiscard]] inline std::string to_json() const;
};

/// Adds up rows of the same key (name, annotation or not, shapes, stack), which stay where the first of them was. This
/// joins the averages of several traces (append their rows), and takes rows that no trace was needed for.
[[nodiscard]] std::vector<event_average> merge_rows(const std::vector<event_average>& rows);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// Rows may be a program's own, and times those of a file.
inline void add_to(std::int64_t& sum, std::int64_t value) noexcept {
  sum = saturating_add(sum, value);
}

inline void add_row(event_average& row, const event_average& other) {
  if (row.calls == 0)
    row.durations = other.durations;
  else if (other.calls != 0)
    row.durations.reset();
  row.min_ns = row.calls == 0 ? other.min_ns : other.calls == 0 ? row.min_ns : (std::min)(row.min_ns, other.min_ns);
  row.max_ns = (std::max)(row.max_ns, other.max_ns);
  add_to(row.calls, other.calls);
  add_to(row.unfinished, other.unfinished);
  add_to(row.self_ns, other.self_ns);
  add_to(row.total_ns, other.total_ns);
  add_to(row.async_ns, other.async_ns);
  add_to(row.unfinished_ns, other.unfinished_ns);
  add_to(row.top_level_ns, other.top_level_ns);
  add_to(row.inner_scopes, other.inner_scopes);
  add_to(row.corrected_self_ns, other.corrected_self_ns);
  add_to(row.flops, other.flops);
  add_to(row.unknown_flops, other.unknown_flops);
  row.self_memory += other.self_memory;
  row.total_memory += other.total_memory;
  row.peak_bytes = (std::max)(row.peak_bytes, other.peak_bytes);
  row.is_step = row.is_step || other.is_step;
  row.is_async = row.is_async && other.is_async;
  if (row.source.empty()) row.source = other.source;
}

}  // namespace detail

inline const event_average& event_averages::at(std::string_view name) const& {
  if (const event_average* row = find(name)) return *row;
  detail::throw_if(
      detail::make_error(errc::invalid_argument, "event_averages::at: there is no row named '" + std::string(name) +
                                                     "'; find() returns nullptr instead"),
      "event_averages::at");
  static const event_average none;
  return none;
}

inline event_average event_averages::total_average() const {
  event_average total;
  for (const event_average& row : rows) detail::add_row(total, row);
  total.total_ns = total.top_level_ns;
  total.name = "Total";
  total.is_step = total.is_async = false;
  total.async_ns = total.unfinished_ns = 0;
  total.total_memory = total.self_memory;
  total.source.clear();
  return total;
}

inline std::vector<event_average> merge_rows(const std::vector<event_average>& rows) {
  std::vector<event_average> result;
  std::unordered_map<std::string, std::size_t> places;
  for (const event_average& row : rows) {
    // Lengths keep texts apart that would be equal when only put behind each other.
    std::string key;
    const auto add = [&key](const std::string& text) { key += std::to_string(text.size()) + ":" + text; };
    add(row.name);
    key += row.is_annotation ? 'a' : row.is_memory ? 'm' : 'o';
    add(row.shapes);
    for (const std::string& entry : row.stack) add(entry);
    const auto [at, is_new] = places.emplace(std::move(key), result.size());
    if (is_new)
      result.push_back(row);
    else
      detail::add_row(result[at->second], row);
  }
  return result;
}

STEPPROF_END_NAMESPACE
