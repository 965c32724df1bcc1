#include <cstdint>
#include <string>
#include <vector>

#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/output/row_export.hpp>

#include <support/catch.hpp>
#include <support/comma_locale.hpp>
#include <support/event_builder.hpp>
#include <support/strict_json.hpp>
#include <support/temp_folder.hpp>

namespace row_export_test {
using namespace stepprof;

namespace {

// Splits as RFC 4180 says.
std::vector<std::vector<std::string>> cells_of(const std::string& csv) {
  std::vector<std::vector<std::string>> records(1, std::vector<std::string>(1));
  bool quoted = false;
  for (std::size_t i = 0; i < csv.size(); ++i) {
    if (csv[i] == '"') {
      if (quoted && i + 1 < csv.size() && csv[i + 1] == '"')
        records.back().back() += csv[i++];
      else
        quoted = !quoted;
    } else if (!quoted && csv[i] == ',') {
      records.back().emplace_back();
    } else if (!quoted && csv.compare(i, 2, "\r\n") == 0) {
      ++i;
      if (i + 1 < csv.size()) records.emplace_back(1);
    } else {
      records.back().back() += csv[i];
    }
  }
  return records;
}
std::string cell(const std::string& csv, std::size_t row, const std::string& column) {
  const auto records = cells_of(csv);
  for (std::size_t i = 0; i < records.at(0).size(); ++i)
    if (records[0][i] == column) return records.at(row + 1).at(i);
  return "(no column " + column + ")";
}

event_averages two_rows() {
  key_averages_options options;
  options.statistics = true;
  test::event_builder b("t1: step![0..100]{ aten::mm[10..40] }");
  event_detail& d = b.builder.detail(1);
  d.input_dims = b.builder.intern("[[64, 512], []]");
  d.source_file = b.builder.intern("src/a,b.cpp");
  d.source_line = 7;
  memory_event m;
  m.bytes = 4097;
  m.event = 1;
  b.builder.add_memory(m);
  b.builder.info().has_memory = true;
  b.builder.info().trace_id = "0123456789abcdef0123456789abcdef";
  b.builder.info().cycle = 3;
  b.builder.losses().dropped = 5;
  options.group_by_input_shape = true;
  options.group_by_stack_n = 2;
  return key_averages(b.builder.finish(), options);
}
step_times one_step() {
  test::event_builder b("t1: ProfilerStep#4![10..110]{ f[20..50] }");
  b.builder.event(0).flags = trace_event::step;
  b.builder.add_step({4, 10, 110, 0, true});
  return steps_of(b.builder.finish());
}

}  // namespace

// Catches: rounded times, missing columns, values under the header of another column.
TEST_CASE("rows as CSV", "[row_export]") {
  const std::string csv = two_rows().to_csv();
  REQUIRE(cells_of(csv).size() == 3);
  CHECK(cell(csv, 0, "name") == "step");
  CHECK(cell(csv, 0, "kind") == "user_annotation");
  CHECK(cell(csv, 0, "self_cpu_time_total_ns") == "70");
  CHECK(cell(csv, 0, "cpu_time_total_ns") == "100");
  CHECK(cell(csv, 0, "cpu_memory_usage_bytes") == "4097");
  CHECK(cell(csv, 0, "self_cpu_memory_usage_bytes") == "0");
  CHECK(cell(csv, 0, "allocated_bytes") == "4097");
  CHECK(cell(csv, 0, "stddev_time_ns") == "");  // of one call
  CHECK(cell(csv, 0, "input_shapes") == "");
  CHECK(cell(csv, 1, "name") == "aten::mm");
  CHECK(cell(csv, 1, "kind") == "op");
  CHECK(cell(csv, 1, "count") == "1");
  CHECK(cell(csv, 1, "p95_time_ns") == "30");
  CHECK(cell(csv, 1, "cpu_time_ns") == "30");
  CHECK(cell(csv, 1, "input_shapes") == "[[64, 512], []]");
  CHECK(cell(csv, 1, "stack") == "step");
  CHECK(cell(csv, 1, "source") == "src/a,b.cpp:7");
}

// Catches: columns that depend on what was recorded, a file without header where nothing was.
TEST_CASE("CSV always has the same columns", "[row_export]") {
  const auto header = cells_of(two_rows().to_csv()).at(0);
  CHECK(cells_of(event_averages().to_csv()) == std::vector<std::vector<std::string>>{header});
  CHECK(cell(key_averages(test::events("t1: f[0..10]")).to_csv(), 0, "p50_time_ns") == "");
}

// Catches: JSON that is none, numbers in quotes, keys for values that are not there, losses left out.
TEST_CASE("rows as JSON", "[row_export]") {
  const std::string text = two_rows().to_json();
  const test::json_document document = test::strict_json::parse(text);
  CHECK(document.ok());
  const test::json_node& json = document.root;
  CHECK(json.at("recording").string("trace_id") == "0123456789abcdef0123456789abcdef");
  CHECK(json.at("recording").integer("cycle") == 3);
  CHECK(json.at("recording").at("losses").integer("dropped") == 5);
  REQUIRE(json.at("rows").items.size() == 2);
  const test::json_node& mm = json.at("rows").items[1];
  CHECK(mm.string("name") == "aten::mm");
  CHECK(mm.integer("cpu_time_total_ns") == 30);
  CHECK(mm.integer("self_allocated_bytes") == 4097);
  CHECK(mm.string("source") == "src/a,b.cpp:7");
  CHECK(mm.find("stddev_time_ns") == nullptr);
  CHECK(mm.find("flop_rate") == nullptr);
  CHECK(json.at("rows").items[0].find("input_shapes") == nullptr);
}

// Catches: a name that breaks out of its cell or its string. FC-78: see OWASP, "CSV injection"
TEST_CASE("names stay names in CSV and JSON", "[row_export]") {
  event_averages averages;
  averages.rows.resize(1);
  averages.rows[0].name = "=HYPERLINK(\"x\"),</script><b>\n";
  averages.rows[0].stack = {"@a", "b"};
  const std::string csv = averages.to_csv();
  CHECK(cell(csv, 0, "name") == "'" + averages.rows[0].name);
  CHECK(cell(csv, 0, "stack") == "'@a;b");
  const std::string json = averages.to_json();
  CHECK(json.find('<') == std::string::npos);
  CHECK(test::strict_json::parse(json).root.at("rows").items.at(0).string("name") == averages.rows[0].name);
}

// Catches: digits grouped, or another decimal point, by a locale.
TEST_CASE("rows do not depend on the locale", "[row_export]") {
  const event_averages rows = two_rows();
  const std::string csv = rows.to_csv(), json = rows.to_json(), steps = one_step().table();
  const test::comma_locale other;
  CHECK(rows.to_csv() == csv);
  CHECK(rows.to_json() == json);
  CHECK(one_step().table() == steps);
}

// Catches: steps with the columns of rows, a self time of 0 where it is not known.
TEST_CASE("steps as CSV and JSON", "[row_export]") {
  step_times steps = one_step();
  CHECK(steps.to_csv() ==
        "step,complete,begin_ns,duration_ns,self_ns,scopes,allocated_bytes,freed_bytes,net_bytes,longest,"
        "longest_self_ns\r\n4,1,10,100,70,1,0,0,0,f,30\r\n");
  steps.rows[0].self_ns.reset();
  const test::json_node json = test::strict_json::parse(steps.to_json()).root;
  CHECK(json.at("rows").items.at(0).integer("duration_ns") == 100);
  CHECK(json.at("rows").items.at(0).find("self_ns") == nullptr);
}

// Catches: the wrong format for a name, an unknown one written as something, a file left behind by a failure.
TEST_CASE("rows as files", "[row_export]") {
  const test::temp_folder folder;
  const event_averages rows = two_rows();
  export_rows(rows, folder / "a.csv");
  export_rows(rows, folder / "a.json");
  export_rows(rows, folder / "a.txt");
  export_rows(one_step(), folder / "steps.csv");
  CHECK(test::contents_of(folder / "a.csv") == rows.to_csv());
  CHECK(test::contents_of(folder / "a.json") == rows.to_json());
  CHECK(test::contents_of(folder / "a.txt") == rows.table("", -1));
  CHECK(test::contents_of(folder / "steps.csv") == one_step().to_csv());
  std::error_code ec;
  export_rows(rows, folder / "a.xlsx", ec);
  CHECK(ec == errc::invalid_argument);
  CHECK(ec.message() ==
        "export_rows: the name is '" + (folder / "a.xlsx") + "', must end in .csv, .json or .txt (and .gz behind it)");
  CHECK_THROWS_AS(export_rows(rows, folder / "nowhere/a.csv"), std::system_error);
  CHECK(folder.names() == std::vector<std::string>{"a.csv", "a.json", "a.txt", "steps.csv"});
}

}  // namespace row_export_test
