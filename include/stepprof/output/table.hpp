// Rows as text, in the layout of torch.profiler's table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/output/display_text.hpp>
#include <stepprof/output/table_fields.hpp>
#include <stepprof/output/text_grid.hpp>
#include <stepprof/output/units.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/stable_sort.hpp>

STEPPROF_BEGIN_NAMESPACE

/// How a table is printed. Names and defaults are those of torch's `table()`.
struct table_options {
  /// For the three column widths: as wide as the longest text.
  static constexpr std::size_t unlimited = (std::numeric_limits<std::size_t>::max)();

  /// Rows are sorted by this, largest first, equal ones in the order of the rows; empty: the order of the rows. One of
  /// `self_cpu_time_total cpu_time_total cpu_time` (the average) `cpu_memory_usage self_cpu_memory_usage count flops
  /// key input_shapes stack`, or the name of one of the further columns below.
  std::string sort_by = {};
  std::int64_t row_limit = 100;              ///< Rows to print; -1: all. Sums and shares are over all rows anyway.
  std::size_t max_src_column_width = 75;     ///< In columns of the terminal; longer texts keep their end.
  std::size_t max_name_column_width = 55;    ///< Longer names end in "...".
  std::size_t max_shapes_column_width = 80;  ///< Longer shapes are cut.
  std::optional<std::string> header = {};    ///< One line above the table.
  bool top_level_events_only = false;        ///< Only rows whose first event has no enclosing scope.
  std::string time_unit = {};                ///< `s`, `ms`, `us`; empty: each time in the unit that fits it.

  /// Further columns after `# of Calls`, from: `allocated_bytes self_allocated_bytes freed_bytes self_freed_bytes
  /// allocation_count self_allocation_count free_count self_free_count peak_bytes unmatched_frees min_time max_time
  /// stddev_time p50_time p95_time p99_time corrected_self_time flop_rate unknown_flops unfinished_count source`. The
  /// deviation and the percentiles need `key_averages_options::statistics`.
  std::vector<std::string> columns = {};

  // Lines after the total. Lost and unfinished scopes, and what percentages refer to when several threads were
  // recorded, are named without being asked for.
  bool show_percent_base = false;
  bool show_scope_cost = true;  ///< What recording cost: the time of a scope, its share of all, the memory for events.
  bool show_cycle = false;      ///< The cycle and its steps.
};

/// The rows as text: torch.profiler's table from the first separator to `Self CPU time total:`, but that names which
/// fit are not cut, rounding carries into the next unit, a share of nothing is `--`, columns are as wide as their
/// headers and cells, an annotation that shares its name with an operation says so, and without rows there still are
/// header and footer. All lines of the table are equally wide in a terminal; control characters are escaped and invalid
/// UTF-8 is shown as U+FFFD. Fails with errc::invalid_argument on an unknown sort key, column or unit. Any thread.
[[nodiscard]] std::string table(const event_averages& averages, const table_options& options, std::error_code& ec);
[[nodiscard]] inline std::string table(const event_averages& averages, const table_options& options = {}) {
  std::error_code ec;
  std::string text = table(averages, options, ec);
  detail::throw_if(ec, "table");
  return text;
}

inline std::string event_averages::table(const table_options& options) const {
  return ::stepprof::table(*this, options);
}
inline std::string event_averages::table() const {
  return ::stepprof::table(*this);
}
template <class Text, class>
std::string event_averages::table(const Text& sort_by, std::int64_t row_limit) const {
  const detail::own_work own;
  table_options options;
  options.sort_by = std::string_view(sort_by);
  options.row_limit = row_limit;
  return ::stepprof::table(*this, options);
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// The order of rows for one sort key.
class row_order {
 public:
  // False when the key is unknown.
  bool set_key(std::string_view key) {
    field_ = find_field(key);
    if (field_ != nullptr || key.empty()) return true;
    if (key == "cpu_time") before_ = [](const row& a, const row& b) { return a.average_ns() > b.average_ns(); };
    if (key == "key") before_ = [](const row& a, const row& b) { return a.name > b.name; };
    if (key == "input_shapes") before_ = [](const row& a, const row& b) { return a.shapes > b.shapes; };
    if (key == "stack") before_ = [](const row& a, const row& b) { return a.stack > b.stack; };
    if (key == "source") before_ = [](const row& a, const row& b) { return a.source > b.source; };
    return before_ != nullptr;
  }
  static std::string valid_keys() {
    std::string keys;
    for (const table_field& field : table_fields) keys += field.key + std::string(", ");
    return keys + "cpu_time, key, input_shapes, stack, source";
  }
  [[nodiscard]] std::vector<const event_average*> operator()(const std::vector<event_average>& rows) const {
    std::vector<const event_average*> result;
    result.reserve(rows.size());
    for (const event_average& r : rows) result.push_back(&r);
    if (field_ != nullptr)
      sort_stably(result.begin(), result.end(),
                  [f = field_->value](const row* a, const row* b) { return f(*a) > f(*b); });
    else if (before_ != nullptr)
      sort_stably(result.begin(), result.end(), [this](const row* a, const row* b) { return before_(*a, *b); });
    return result;
  }

 private:
  using row = event_average;
  const table_field* field_ = nullptr;
  bool (*before_)(const event_average&, const event_average&) = nullptr;
};

// Builds one table; the checks come first, so that the rest cannot fail.
class table_maker {
 public:
  table_maker(const event_averages& averages, const table_options& options) : averages_(averages), options_(options) {}

  std::error_code check() {
    std::error_code ec;
    if (!order_.set_key(options_.sort_by))
      return refuse("sort_by is '" + display_text(options_.sort_by) + "', must be empty or one of " +
                    row_order::valid_keys());
    for (const std::string& column : options_.columns)
      if (!is_further_column(column))
        return refuse("columns holds '" + display_text(column) + "', must be of " + further_columns());
    for (const std::string& key : options_.columns)
      if (is_missing_statistic(key)) return refuse_statistic("columns holds", key);
    if (is_missing_statistic(options_.sort_by)) return refuse_statistic("sort_by is", options_.sort_by);
    if (options_.row_limit < -1)
      return refuse(fmt::format("row_limit is {}, must be -1 (all rows) or at least 0", options_.row_limit));
    unit_ = parse_time_unit(options_.time_unit, ec);
    return ec ? refuse(ec.message()) : ec;
  }

  std::string text() {
    base_ns_ = averages_.self_cpu_time_total_ns();
    for (const event_average& row : averages_.rows) {
      has_shapes_ = has_shapes_ || !row.shapes.empty();
      has_stack_ = has_stack_ || !row.stack.empty();
    }
    flops_unit_ = unit_of_least_flops();
    find_shared_names();
    add_columns();
    add_rows();
    std::string out;
    const std::string rule = std::string(grid_.line_width(), '=') + '\n';
    if (options_.header) out += rule + display_text(*options_.header) + '\n';
    if (options_.top_level_events_only) out += rule + "This report only display top-level ops statistics\n";
    grid_.print(out);
    out += "Self CPU time total: " + format_time(base_ns_, unit_) + '\n';
    add_footer(out);
    return out;
  }

 private:
  static std::error_code refuse(const std::string& text) {
    return make_error(errc::invalid_argument, "table: " + text);
  }
  [[nodiscard]] bool is_missing_statistic(std::string_view key) const noexcept {
    const table_field* const field = find_field(key);
    return field != nullptr && field->is_statistic && !averages_.has_statistics;
  }
  static std::error_code refuse_statistic(const char* what, const std::string& key) {
    return refuse(std::string(what) + " '" + key +
                  "', which these rows do not have; set key_averages_options::statistics to true");
  }
  static bool is_further_column(std::string_view key) noexcept {
    const table_field* field = find_field(key);
    return key == "source" || (field != nullptr && field->header != nullptr);
  }
  static std::string further_columns() {
    std::string keys;
    for (const table_field& field : table_fields)
      if (field.header != nullptr) keys += field.key + std::string(", ");
    return keys + "source";
  }

  // Annotations whose name an operation has too.
  void find_shared_names() {
    const auto is_annotation = [](const event_average& row) { return row.is_annotation; };
    if (std::all_of(averages_.rows.begin(), averages_.rows.end(), is_annotation)) return;
    for (const event_average& row : averages_.rows)
      if (row.is_annotation) is_shared_.emplace(row.name, false);
    if (is_shared_.empty()) return;
    for (const event_average& row : averages_.rows) {
      const auto annotation = row.is_annotation ? is_shared_.end() : is_shared_.find(row.name);
      if (annotation != is_shared_.end()) annotation->second = true;
    }
  }

  // As torch has it: one unit for all rows, in which the least count is not below 1.
  [[nodiscard]] std::optional<flops_unit> unit_of_least_flops() const {
    std::int64_t least = INT64_MAX;
    for (const event_average& row : averages_.rows)
      if (row.flops > 0) least = (std::min)(least, row.flops);
    return least == INT64_MAX ? std::nullopt : std::optional<flops_unit>(flops_unit_for(least));
  }

  // --- columns
  static constexpr std::size_t default_width = 12;

  template <class WidthOf>
  [[nodiscard]] std::size_t width_for(WidthOf width_of, std::size_t limit) const {
    std::size_t longest = 0;
    for (const event_average& row : averages_.rows) longest = (std::max)(longest, width_of(row));
    return (std::min)(longest + 4, limit);
  }
  void add_columns() {
    grid_.add_column("Name",
                     width_for([this](const event_average& row) { return shown_width(row.name) + suffix(row).size(); },
                               options_.max_name_column_width));
    for (const char* header : {"Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"})
      grid_.add_column(header, default_width);
    if (averages_.has_memory)
      for (const char* header : {"CPU Mem", "Self CPU Mem"}) grid_.add_column(header, default_width);
    grid_.add_column("# of Calls", default_width);
    for (const std::string& key : options_.columns) add_further_column(key);
    if (has_shapes_) {
      shapes_column_ = grid_.column_count();
      grid_.add_column("Input Shapes", width_for([](const event_average& row) { return display_width(shapes_of(row)); },
                                                 options_.max_shapes_column_width));
    }
    if (has_stack_) {
      stack_column_ = grid_.column_count();
      grid_.add_column(averages_.stack == stack_source::native ? "Source Location" : "Enclosing Scopes",
                       width_for(longest_stack_entry, options_.max_src_column_width), true);
    }
    if (flops_unit_) grid_.add_column("Total " + std::string(flops_unit_->header), default_width);
  }
  void add_further_column(const std::string& key) {
    if (key != "source") return grid_.add_column(find_field(key)->header, default_width);
    source_column_ = grid_.column_count();
    grid_.add_column("Defined At", width_for([](const event_average& row) { return shown_width(row.source); },
                                             options_.max_src_column_width));
  }
  static std::size_t longest_stack_entry(const event_average& row) {
    std::size_t longest = 0;
    for (const std::string& entry : row.stack) longest = (std::max)(longest, shown_width(entry));
    return longest;
  }

  // --- rows
  void add_rows() {
    std::int64_t printed = 0;
    for (const event_average* row : order_(averages_.rows)) {
      if (printed == options_.row_limit) break;
      if (options_.top_level_events_only && !row->is_top_level) continue;
      ++printed;
      add_row_lines(*row);
    }
  }
  void add_row_lines(const event_average& row) {
    grid_.add_line(cells_of(row));
    if (!has_stack_) return;
    for (std::size_t i = 1; i < row.stack.size(); ++i) {
      std::vector<std::string> cells(grid_.column_count());
      cells[stack_column_] = cut_begin(display_text(row.stack[i]), grid_.width(stack_column_));
      grid_.add_line(std::move(cells));
    }
    grid_.add_line({});
  }
  [[nodiscard]] std::vector<std::string> cells_of(const event_average& row) const {
    const auto percent = [this](std::int64_t ns) {
      return format_percent(static_cast<double>(ns), static_cast<double>(base_ns_));
    };
    std::vector<std::string> cells = {cut_end(display_text(row.name), grid_.width(0), suffix(row)),
                                      percent(row.self_ns),
                                      format_time(row.self_ns, unit_),
                                      row.is_async ? "0" : percent(saturating_sub(row.total_ns, row.async_ns)),
                                      format_time(row.total_ns, unit_),
                                      format_time(row.average_ns(), unit_)};
    if (averages_.has_memory) {
      cells.push_back(format_bytes(row.total_memory.net_bytes()));
      cells.push_back(format_bytes(row.self_memory.net_bytes()));
    }
    cells.push_back(fmt::format("{}", row.calls));
    for (const std::string& key : options_.columns)
      if (const table_field* field = find_field(key))
        cells.push_back(format_field(field->value(row), field->kind, unit_));
      else
        cells.push_back(cut_begin(display_text(row.source), grid_.width(source_column_)));
    if (has_shapes_) cells.emplace_back(first_columns(shapes_of(row), grid_.width(shapes_column_)));
    if (has_stack_)
      cells.push_back(row.stack.empty() ? "" : cut_begin(display_text(row.stack[0]), grid_.width(stack_column_)));
    if (flops_unit_) cells.push_back(format_flops(row.flops, *flops_unit_));
    return cells;
  }
  [[nodiscard]] static std::string shapes_of(const event_average& row) {
    return row.shapes.empty() ? "[]" : display_text(row.shapes);
  }
  // What keeps rows apart that would print the same name.
  [[nodiscard]] std::string_view suffix(const event_average& row) const {
    return row.is_annotation && !is_shared_.empty() && is_shared_.at(row.name) ? " (annotation)" : "";
  }

  // --- what follows the total
  void add_footer(std::string& out) const {
    const trace_info& info = averages_.info;
    if (options_.show_percent_base || averages_.thread_count > 1)
      out += fmt::format("Percentages are of the self time of {} together: {}\n",
                         counted(averages_.thread_count, "thread"), format_time(base_ns_, unit_));
    if (options_.show_cycle && info.first_step >= 0)
      out += fmt::format("Cycle {}, steps {} to {}\n", info.cycle, info.first_step, info.last_step);
    if (info.partial) out += "Partial: the window was cut before its last active step was complete\n";
    add_cost(out);
    add_unfinished(out);
    add_unknown_flops(out);
    add_losses(out);
  }
  // Of an unmeasured recording, as one that was read from a file of others, there is nothing to say.
  void add_cost(std::string& out) const {
    const trace_info& info = averages_.info;
    if (!options_.show_scope_cost || info.scope_cost_ns <= 0) return;
    std::int64_t scopes = 0;
    for (const event_average& row : averages_.rows)
      if (!row.is_memory && !row.is_step) add_to(scopes, row.calls);
    const double cost_ns = info.scope_cost_ns * static_cast<double>(scopes);
    const auto bytes = static_cast<std::int64_t>((std::min)(info.profiler_bytes, std::uint64_t{INT64_MAX}));
    out += fmt::format("Recording cost {:.1f}ns a scope, {} of the time above, and {} of memory\n", info.scope_cost_ns,
                       format_percent(cost_ns, static_cast<double>(base_ns_)), format_bytes(bytes));
  }
  void add_unfinished(std::string& out) const {
    constexpr std::size_t names_shown = 5;
    std::int64_t scopes = 0;
    std::size_t names = 0;
    std::string list;
    for (const event_average& row : averages_.rows) {
      add_to(scopes, row.unfinished);
      if (row.unfinished == 0 || ++names > names_shown) continue;
      list += (names == 1 ? "" : ", ") + cut_end(display_text(row.name), options_.max_name_column_width, suffix(row));
    }
    if (scopes == 0) return;
    if (names > names_shown) list += fmt::format(" and {} more", names - names_shown);
    out +=
        fmt::format("Unfinished: {} still open at the end, counted up to there: {}\n", counted(scopes, "scope"), list);
  }
  void add_unknown_flops(std::string& out) const {
    std::int64_t calls = 0;
    for (const event_average& row : averages_.rows) add_to(calls, row.unknown_flops);
    if (calls != 0)
      out += fmt::format("FLOPs unknown: {} of ops with a formula, whose inputs are not known or do not fit it\n",
                         counted(calls, "call"));
  }
  void add_losses(std::string& out) const {
    struct line {
      std::uint64_t loss_counts::*count;
      const char* what;
      const char* why;
    };
    constexpr line lines[] = {
        {&loss_counts::dropped, "scope", "not recorded, memory for events was full"},
        {&loss_counts::reentrant, "scope", "of these begun inside the recorder, by a signal handler"},
        {&loss_counts::overwritten, "scope", "of these overwritten by later ones of their threads"},
        {&loss_counts::late, "scope", "not recorded, begun while recording was being switched off"},
        {&loss_counts::dropped_arguments, "argument", "not recorded, memory for events was full"},
        {&loss_counts::dropped_memory, "memory report",
         "not recorded, memory for events was full or the recorder was interrupted"},
        {&loss_counts::overflow_names, "scope", "recorded without name, memory for names was full"},
        {&loss_counts::unmatched_ends, "end", "without a begin in this window, left out"},
        {&loss_counts::overwritten_ends, "end", "of overwritten scopes, left out"},
        {&loss_counts::unmatched_frees, "free", "of memory allocated before this window, counted without bytes"},
        {&loss_counts::lost_frees, "free", "never reported: the address was allocated again"},
        {&loss_counts::late_frees, "free", "reported after the address was allocated again, matched all the same"},
        {&loss_counts::clamps, "time stamp", "moved, the clock went backwards"},
    };
    for (const line& l : lines)
      if (const std::uint64_t count = averages_.losses.*l.count; count != 0)
        out += fmt::format("Lost: {} {}\n", counted(count, l.what), l.why);
  }

  const event_averages& averages_;
  const table_options& options_;
  row_order order_;
  time_unit unit_ = time_unit::automatic;
  text_grid grid_;
  std::int64_t base_ns_ = 0;
  std::unordered_map<std::string_view, bool> is_shared_;
  std::optional<flops_unit> flops_unit_;  // none: no row has any
  bool has_shapes_ = false;
  bool has_stack_ = false;
  std::size_t shapes_column_ = 0, stack_column_ = 0, source_column_ = 0;
};

}  // namespace detail

inline std::string table(const event_averages& averages, const table_options& options, std::error_code& ec) {
  const detail::own_work own;
  detail::table_maker maker(averages, options);
  ec = maker.check();
  return ec ? std::string() : maker.text();
}

STEPPROF_END_NAMESPACE
