// Rows for other programs: CSV and JSON, every number exact, times in ns and memory in bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <stepprof/analysis/event_average.hpp>
#include <stepprof/analysis/step_times.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/csv.hpp>
#include <stepprof/output/json_writer.hpp>
#include <stepprof/output/output_file.hpp>
#include <stepprof/output/step_table.hpp>
#include <stepprof/output/table.hpp>
#include <stepprof/output/table_fields.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/loss_fields.hpp>

STEPPROF_BEGIN_NAMESPACE

/// All rows in their order as CSV (RFC 4180, UTF-8, lines end in CR LF), the first line naming the columns, which are
/// the same for every recording: `name`, `kind` (`op`, `user_annotation`, `backward_op`, `step`, `memory`), every key
/// that a table can be sorted by, times with `_ns` and memory with `_bytes` at the end, `input_shapes`, `stack`
/// (entries joined with ';'), `source`. A cell is empty where a row has no such value. Texts that begin with one of
/// `= + - @`, a tab or CR get an apostrophe in front: spreadsheets would run them. Any thread.
[[nodiscard]] std::string to_csv(const event_averages& averages);
/// One line per step: `step`, `complete` (1 or 0), `begin_ns`, `duration_ns`, `self_ns`, `scopes`, `allocated_bytes`,
/// `freed_bytes`, `net_bytes`, `longest`, `longest_self_ns`.
[[nodiscard]] std::string to_csv(const step_times& steps);

/// The same as a JSON object: `rows` is an array of objects with the keys that CSV has columns for (values that are not
/// there are left out, texts are as they were), beside it facts of the recording (`trace_id`, `cycle`, `first_step`,
/// `last_step`, `partial`) and its `losses`. Any thread.
[[nodiscard]] std::string to_json(const event_averages& averages);
[[nodiscard]] std::string to_json(const step_times& steps);

/// Writes rows to a file: `.csv` as CSV, `.json` as JSON, `.txt` as the table with all rows; with `.gz` behind it
/// compressed. The file appears under its name only when it is complete. Throws stepprof::error
/// (errc::invalid_argument) for another name, std::system_error when the file cannot be written. Any thread.
void export_rows(const event_averages& averages, const std::filesystem::path& path);
void export_rows(const step_times& steps, const std::filesystem::path& path);
/// The same, reporting through `ec`.
void export_rows(const event_averages& averages, const std::filesystem::path& path, std::error_code& ec);
void export_rows(const step_times& steps, const std::filesystem::path& path, std::error_code& ec);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// "self_cpu_time_total" -> "self_cpu_time_total_ns".
inline std::string column_name(const table_field& field) {
  constexpr std::string_view bytes = "_bytes";
  std::string name = field.key;
  if (field.kind == field_kind::time) name += "_ns";
  const bool says_bytes = name.size() > bytes.size() && name.substr(name.size() - bytes.size()) == bytes;
  if (field.kind == field_kind::bytes && !says_bytes) name += bytes;
  return name;
}

inline std::string_view kind_name(const event_average& row) noexcept {
  if (row.is_memory) return "memory";
  if (row.is_step) return "step";
  if (row.is_annotation) return "user_annotation";
  return row.kind == scope_kind::backward_op ? "backward_op" : "op";
}

inline std::string joined(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) text += (text.empty() ? "" : ";") + entry;
  return text;
}

template <class Record>
void put_text(Record& record, std::string_view key, std::string_view value) {
  value.empty() ? record.none(key) : record.text(key, value);
}
template <class Record>
void put_number(Record& record, std::string_view key, std::int64_t value) {
  value == no_value ? record.none(key) : record.integer(key, value);
}

// One row, to whatever takes a text, an integer or nothing under a key.
template <class Record>
void put_row(Record& record, const event_average& row) {
  record.text("name", row.name);
  record.text("kind", kind_name(row));
  for (const table_field& field : table_fields) put_number(record, column_name(field), field.value(row));
  put_number(record, "cpu_time_ns", rounded(row.average_ns()));
  put_text(record, "input_shapes", row.shapes);
  put_text(record, "stack", joined(row.stack));
  put_text(record, "source", row.source);
}
template <class Record>
void put_row(Record& record, const step_time& step) {
  record.integer("step", step.number);
  record.integer("complete", step.complete ? 1 : 0);
  record.integer("begin_ns", step.begin_ns);
  record.integer("duration_ns", step.duration_ns);
  put_number(record, "self_ns", step.self_ns ? *step.self_ns : no_value);
  record.integer("scopes", step.scopes);
  record.integer("allocated_bytes", step.memory.allocated_bytes);
  record.integer("freed_bytes", step.memory.freed_bytes);
  record.integer("net_bytes", step.memory.net_bytes());
  put_text(record, "longest", step.longest);
  put_number(record, "longest_self_ns", step.longest.empty() ? no_value : step.longest_self_ns);
}

class json_record {
 public:
  explicit json_record(json_writer& out) : out_(out) { out_.begin_object(); }
  ~json_record() { out_.end_object(); }
  json_record(const json_record&) = delete;
  json_record& operator=(const json_record&) = delete;
  void text(std::string_view key, std::string_view value) { out_.field(key, value); }
  void integer(std::string_view key, std::int64_t value) { out_.field(key, value); }
  void none(std::string_view) noexcept {}

 private:
  json_writer& out_;
};

template <class Row>
std::string csv_of(const std::vector<Row>& rows) {
  const own_work own;
  csv_lines lines;
  csv_header header(lines);
  put_row(header, Row());
  lines.end_record();
  for (const Row& row : rows) {
    put_row(lines, row);
    lines.end_record();
  }
  return std::move(lines.lines());
}

inline void write_recording(json_writer& out, const trace_info& info, const loss_counts& losses) {
  json_record record(out);
  record.text("trace_id", info.trace_id);
  record.integer("cycle", info.cycle);
  record.integer("first_step", info.first_step);
  record.integer("last_step", info.last_step);
  out.boolean_field("partial", info.partial);
  out.key("losses");
  out.begin_object();
  for (const auto& [key, field] : loss_fields) out.unsigned_field(key, losses.*field);
  out.end_object();
}

template <class Rows>
std::string json_of(const Rows& rows) {
  const own_work own;
  std::string text;
  string_sink sink(text);
  json_writer out(sink);
  out.begin_object();
  out.key("recording");
  write_recording(out, rows.info, rows.losses);
  out.key("rows");
  out.begin_array();
  for (const auto& row : rows.rows) {
    json_record record(out);
    put_row(record, row);
  }
  out.end_array();
  out.end_object();
  out.append("\n");
  out.flush();
  return text;
}

inline std::string whole_table(const event_averages& averages) {
  table_options options;
  options.row_limit = -1;
  return table(averages, options);
}
inline std::string whole_table(const step_times& steps) {
  return table(steps);
}

// What to write under this name; an error when it says nothing of that.
template <class Rows>
std::string rows_for(const Rows& rows, const std::filesystem::path& path, std::error_code& ec) {
  ec.clear();
  const std::string extension = ending_of(path);
  if (extension == ".csv") return to_csv(rows);
  if (extension == ".json") return to_json(rows);
  if (extension == ".txt") return whole_table(rows);
  ec = make_error(errc::invalid_argument, "export_rows: the name is '" + path.string() +
                                              "', must end in .csv, .json or .txt (and .gz behind it)");
  return {};
}

// Returns what failed for the message of the throwing form.
template <class Rows>
std::string export_rows_to(const Rows& rows, const std::filesystem::path& path, std::error_code& ec) {
  const own_work own;
  const std::string text = rows_for(rows, path, ec);
  if (ec) return {};
  return write_file(path, text, ec);
}
template <class Rows>
void export_rows_or_throw(const Rows& rows, const std::filesystem::path& path) {
  const own_work own;
  std::error_code ec;
  const std::string doing = export_rows_to(rows, path, ec);
  throw_if(ec, doing.c_str());
}

}  // namespace detail

inline std::string to_csv(const event_averages& averages) {
  return detail::csv_of(averages.rows);
}
inline std::string to_csv(const step_times& steps) {
  return detail::csv_of(steps.rows);
}
inline std::string to_json(const event_averages& averages) {
  return detail::json_of(averages);
}
inline std::string to_json(const step_times& steps) {
  return detail::json_of(steps);
}

inline void export_rows(const event_averages& averages, const std::filesystem::path& path) {
  detail::export_rows_or_throw(averages, path);
}
inline void export_rows(const step_times& steps, const std::filesystem::path& path) {
  detail::export_rows_or_throw(steps, path);
}
inline void export_rows(const event_averages& averages, const std::filesystem::path& path, std::error_code& ec) {
  detail::export_rows_to(averages, path, ec);
}
inline void export_rows(const step_times& steps, const std::filesystem::path& path, std::error_code& ec) {
  detail::export_rows_to(steps, path, ec);
}

inline std::string event_averages::to_csv() const {
  return ::stepprof::to_csv(*this);
}
inline std::string event_averages::to_json() const {
  return ::stepprof::to_json(*this);
}
inline std::string step_times::to_csv() const {
  return ::stepprof::to_csv(*this);
}
inline std::string step_times::to_json() const {
  return ::stepprof::to_json(*this);
}

STEPPROF_END_NAMESPACE
