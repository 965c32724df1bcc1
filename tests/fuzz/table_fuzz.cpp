// The table on any rows with any options: columns stay aligned, what is refused is named; rows as CSV and JSON.
#include <fuzz/fuzz_input.hpp>
#include <fuzz/trace_rules.hpp>
#include <support/split_lines.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

using namespace stepprof;

namespace {

memory_sums any_memory(fuzz::input& in) {
  memory_sums sums;
  for (std::int64_t* field :
       {&sums.allocated_bytes, &sums.freed_bytes, &sums.allocations, &sums.frees, &sums.unmatched_frees})
    *field = in.number();
  return sums;
}

event_average any_row(fuzz::input& in) {
  event_average row;
  row.name = in.text(80);
  row.kind = static_cast<scope_kind>(in.below(3));
  for (bool* is : {&row.is_annotation, &row.is_memory, &row.is_step, &row.is_async, &row.is_top_level}) *is = in.flag();
  for (std::int64_t* field : {&row.calls, &row.unfinished, &row.self_ns, &row.total_ns, &row.async_ns,
                              &row.unfinished_ns, &row.top_level_ns, &row.min_ns, &row.max_ns, &row.inner_scopes,
                              &row.corrected_self_ns, &row.peak_bytes, &row.flops, &row.unknown_flops})
    *field = in.number();
  row.self_memory = any_memory(in);
  row.total_memory = any_memory(in);
  if (in.flag()) {
    duration_statistics& d = row.durations.emplace();
    for (std::int64_t* field : {&d.count, &d.p50_ns, &d.p95_ns, &d.p99_ns}) *field = in.number();
    d.stddev_ns = static_cast<double>(in.number());
  }
  if (in.flag()) row.shapes = in.text(100);
  for (std::size_t entries = in.below(4); entries > 0; --entries) row.stack.push_back(in.text(90));
  if (in.flag()) row.source = in.text(90);
  return row;
}

event_averages any_averages(fuzz::input& in) {
  event_averages averages;
  for (std::size_t rows = in.below(6); rows > 0; --rows) averages.rows.push_back(any_row(in));
  averages.has_memory = in.flag();
  averages.has_statistics = in.flag();
  averages.stack = in.flag() ? stack_source::native : stack_source::scopes;
  averages.thread_count = static_cast<std::uint32_t>(in.number());
  averages.info.partial = in.flag();
  averages.info.cycle = in.number();
  averages.info.first_step = in.number();
  averages.info.last_step = in.number();
  if (in.flag()) averages.info.scope_cost_ns = in.real();
  averages.info.profiler_bytes = in.bits();
  if (in.flag()) averages.losses.dropped = in.bits();
  if (in.flag()) averages.losses.unmatched_ends = in.bits();
  return averages;
}

std::string any_key(fuzz::input& in) {
  constexpr const char* others[] = {"cpu_time", "key", "input_shapes", "stack", "source", ""};
  const std::size_t which = in.below(64);
  if (which < std::size(detail::table_fields)) return detail::table_fields[which].key;
  return which < std::size(detail::table_fields) + 6 ? others[which - std::size(detail::table_fields)] : in.text(30);
}

std::size_t any_width(fuzz::input& in) {
  return in.below(8) == 0 ? table_options::unlimited : in.below(120);
}

table_options any_options(fuzz::input& in) {
  table_options options;
  options.sort_by = any_key(in);
  options.row_limit = in.flag() ? -1 : in.number();
  options.max_src_column_width = any_width(in);
  options.max_name_column_width = any_width(in);
  options.max_shapes_column_width = any_width(in);
  if (in.flag()) options.header = in.text(40);
  options.top_level_events_only = in.flag();
  constexpr const char* units[] = {"", "s", "ms", "us"};
  const std::size_t unit = in.below(9);
  options.time_unit = unit < 8 ? units[unit % 4] : in.text(4);
  for (std::size_t columns = in.below(6); columns > 0; --columns) options.columns.push_back(any_key(in));
  options.show_percent_base = in.flag();
  options.show_cycle = in.flag();
  return options;
}

bool is_unit(std::string_view unit) {
  return unit.empty() || unit == "s" || unit == "ms" || unit == "us";
}

// Which option must have been named.
void require_named(const table_options& options, const std::string& text) {
  const auto names = [&text](const std::string& what) { return text.find(what) != std::string::npos; };
  const bool named = (names("sort_by is '") && !options.sort_by.empty()) ||
                     (names("columns holds '") && !options.columns.empty()) ||
                     (names("row_limit is " + std::to_string(options.row_limit) + ",") && options.row_limit < -1) ||
                     (!is_unit(options.time_unit) && names("time"));
  fuzz::require(named && text.compare(0, 6, "table:") == 0, "a refused option is named", text);
}

// Between the first and the last separator every line is equally wide, has its two spaces between columns where the
// separator has them, and nothing that moves the terminal.
void require_aligned(const std::string& text) {
  const std::vector<std::string> lines = test::split_lines(text);
  const auto is_rule = [](const std::string& line) {
    return !line.empty() && line.find_first_not_of("- ") == std::string::npos && line[0] == '-' && line.back() == ' ';
  };
  const auto first = std::find_if(lines.begin(), lines.end(), is_rule);
  const auto last = std::find_if(lines.rbegin(), lines.rend(), is_rule).base() - 1;
  fuzz::require(first != lines.end() && last - first >= 3, "there is a grid", text);
  fuzz::require(*(first + 2) == *first && *last == *first, "separators are equal", text);
  for (auto line = first; line <= last; ++line) {
    fuzz::require(detail::display_text(*line) == *line, "valid, and nothing that moves the terminal", text);
    fuzz::require(detail::display_width(*line) == first->size(), "every line is equally wide", text);
    for (std::size_t at = 0; (at = first->find("  ", at)) != std::string::npos; at += 2)
      if (detail::is_plain(*line)) fuzz::require(line->compare(at, 2, "  ") == 0, "columns do not touch", text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const table_options options = any_options(in);
  event_averages averages = any_averages(in);
  std::error_code ec;
  const std::string text = table(averages, options, ec);
  if (ec) {
    fuzz::require(ec == errc::invalid_argument && text.empty(), "refused, and nothing else", ec.message());
    require_named(options, ec.message());
  } else {
    fuzz::require(options.row_limit >= -1 && is_unit(options.time_unit), "wrong options are refused", text);
    require_aligned(text);
  }
  fuzz::require_json(to_json(averages));
  fuzz::require(!to_csv(averages).empty(), "there is a CSV");
  averages.rows = merge_rows(averages.rows);
  averages.rows.push_back(averages.total_average());
  require_aligned(table(averages));
  return 0;
}
