#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <locale>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <support/catch.hpp>
#include <support/comma_locale.hpp>
#include <support/event_builder.hpp>
#include <support/skip.hpp>
#include <support/strict_json.hpp>

#include <stepprof/output/table.hpp>

namespace table_test {

using namespace stepprof;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : text)
    if (c == '\n')
      lines.push_back(std::move(line)), line.clear();
    else
      line += c;
  if (!line.empty()) lines.push_back(line + " (without newline)");
  return lines;
}
// The lines from the first separator to the last one.
std::vector<std::string> grid_of(const std::string& text) {
  std::vector<std::string> all = lines_of(text), result;
  std::size_t last = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].compare(0, 4, "----") == 0) last = i;
  bool inside = false;
  for (std::size_t i = 0; i <= last; ++i) {
    inside = inside || all[i].compare(0, 4, "----") == 0;
    if (inside) result.push_back(all[i]);
  }
  return result;
}
// The first column of the rows, without the blanks in front.
std::vector<std::string> first_cells(const std::string& text, std::size_t width) {
  std::vector<std::string> cells;
  const std::vector<std::string> grid = grid_of(text);
  for (std::size_t i = 3; i + 1 < grid.size(); ++i) {
    std::string cell = grid[i].substr(0, width);
    cell.erase(0, cell.find_first_not_of(' '));
    cells.push_back(cell);
  }
  return cells;
}
// The text without any of these characters.
std::string without(std::string text, const std::string& characters) {
  text.erase(std::remove_if(text.begin(), text.end(), [&](char c) { return characters.find(c) != std::string::npos; }),
             text.end());
  return text;
}
event_averages one_row(const std::string& name) {
  event_average row;
  row.name = name;
  row.calls = 1;
  row.self_ns = row.total_ns = 1000;
  event_averages averages;
  averages.rows.push_back(row);
  return averages;
}
std::string footer_of(const event_averages& averages, const table_options& options = {}) {
  const std::string text = table(averages, options);
  return text.substr(text.find("Self CPU time total: "));
}
const char* const sort_keys[] = {"",
                                 "self_cpu_time_total",
                                 "cpu_time_total",
                                 "cpu_memory_usage",
                                 "self_cpu_memory_usage",
                                 "count",
                                 "allocated_bytes",
                                 "self_allocated_bytes",
                                 "freed_bytes",
                                 "self_freed_bytes",
                                 "allocation_count",
                                 "self_allocation_count",
                                 "free_count",
                                 "self_free_count",
                                 "unmatched_frees",
                                 "min_time",
                                 "max_time",
                                 "corrected_self_time",
                                 "flops",
                                 "flop_rate",
                                 "unknown_flops",
                                 "unfinished_count",
                                 "cpu_time",
                                 "key",
                                 "input_shapes",
                                 "stack",
                                 "source"};

}  // namespace

// Catches: any change of layout. Worked out by hand from torch's rules: name column = longest + 4, others 12, cells
// right-aligned and followed by two spaces, shares of the sum of self times.
TEST_CASE("a small table, character by character", "[table]") {
  const event_averages rows =
      key_averages(test::events("t1: step![0..2000000]{ mm[0..1500000] add[1500000..1600000] }"));
  CHECK(rows.table("self_cpu_time_total") ==
        "--------  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "    Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  \n"
        "--------  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "      mm        75.00%       1.500ms        75.00%       1.500ms       1.500ms             1  \n"
        "    step        20.00%     400.000us       100.00%       2.000ms       2.000ms             1  \n"
        "     add         5.00%     100.000us         5.00%     100.000us     100.000us             1  \n"
        "--------  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "Self CPU time total: 2.000ms\n");
}

// Catches: header lines missing, misplaced or of another width; torch's wording changed.
TEST_CASE("header and top level lines", "[table]") {
  const event_averages rows = key_averages(test::events("t1: a[0..1000]{ b[0..500] }"));
  table_options options;
  options.header = "Epoch 3";
  options.top_level_events_only = true;
  const std::vector<std::string> lines = lines_of(table(rows, options));
  const std::string rule(5 + 6 * 14 + 1 - 2 + 1, '=');  // name 5 wide, six columns of 12, two between them
  REQUIRE(lines.size() == 10);
  CHECK(lines[0] == rule);
  CHECK(lines[1] == "Epoch 3");
  CHECK(lines[2] == rule);
  CHECK(lines[3] == "This report only display top-level ops statistics");
  CHECK(lines[4].size() == rule.size() + 2);
  CHECK(first_cells(table(rows, options), 5) == std::vector<std::string>{"a"});
}

// Catches: names of 52 to 55 characters cut although they fit, which torch does.
TEST_CASE("names are cut only when they do not fit", "[table]") {
  for (const std::size_t length : {1u, 51u, 52u, 55u}) {
    INFO(length);
    CHECK(first_cells(one_row(std::string(length, 'n')).table(), 55)[0].substr(0, length) == std::string(length, 'n'));
  }
  CHECK(first_cells(one_row(std::string(56, 'n')).table(), 55)[0] == std::string(52, 'n') + "...");
  CHECK(first_cells(one_row(std::string(4096, 'n')).table(), 55)[0] == std::string(52, 'n') + "...");
  table_options options;
  options.max_name_column_width = 10;
  CHECK(first_cells(table(one_row("abcdefghij"), options), 10)[0] == "abcdefghij");
  CHECK(first_cells(table(one_row("abcdefghijk"), options), 10)[0] == "abcdefg...");
  options.max_name_column_width = table_options::unlimited;
  CHECK(first_cells(table(one_row(std::string(90, 'n')), options), 94)[0] == std::string(90, 'n'));
  options.max_name_column_width = 0;  // the header still needs four
  CHECK(first_cells(table(one_row("abcdefghijk"), options), 4)[0] == "a...");
}

// Catches: one odd name that destroys the layout, or control bytes in the output. FC-29: giginet/xcprofiler#9
TEST_CASE("every line is equally wide whatever the names are", "[table]") {
  event_averages averages = one_row("");
  for (const std::string& name :
       {std::string("x"), std::string(55, 'y'), std::string(4096, 'z'), std::string("tab\there\nnew line"),
        std::string("\x1b[31mred\x1b[0m"), std::string("\xe4\xb8\xad\xe6\x96\x87 wide"),
        std::string("e\xcc\x81 accent"), std::string("bad \xff\xc3 bytes"), std::string("nul\0nul", 7),
        std::string("\xf0\x9f\x98\x80 \xe2\x80\xae")}) {
    averages.rows.push_back(one_row(name).rows[0]);
    averages.rows.back().shapes = "[[" + name + "]]";
    averages.rows.back().stack = {name, "caller of " + name};
  }
  std::string wide;
  for (int i = 0; i < 40; ++i) wide += "\xe4\xb8\xad";  // 80 columns, cut in the middle of the 27th
  averages.rows.push_back(one_row(wide).rows[0]);
  const std::string text = averages.table("", -1);
  for (const char c : text) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n'));
  const std::vector<std::string> grid = grid_of(text);
  REQUIRE(grid.size() > 12);
  for (const std::string& line : grid) {
    INFO(line);
    CHECK(detail::display_width(line) == detail::display_width(grid[0]));
  }
  CHECK(text.find("tab\\there\\nnew line") != std::string::npos);
  CHECK(text.find("\\x1b[31mred") != std::string::npos);
  CHECK(text.find("bad \xef\xbf\xbd\xef\xbf\xbd bytes") != std::string::npos);
}

// Catches: one text position that is printed as it was given. FC-29: giginet/xcprofiler#9
TEST_CASE("no byte of any text controls the terminal", "[table]") {
  std::vector<std::string> texts = {"\"}],{\"ph\":\"X", "%s%n{}{0}"};
  for (int c = 0; c < 256; ++c) {
    texts.push_back(std::string(1, static_cast<char>(c)));
    texts.push_back("a" + texts.back() + "z");
  }
  for (int c = 0x80; c < 0xa0; ++c) texts.push_back("\xc2" + std::string(1, static_cast<char>(c)));  // U+0080 to U+009F
  for (const std::string& text : texts) {
    event_averages averages = one_row(text);
    averages.rows[0].shapes = averages.rows[0].source = text;
    averages.rows[0].stack = {text, text};
    averages.rows[0].unfinished = 1;
    averages.rows.push_back(averages.rows[0]);
    averages.rows[1].is_annotation = true;
    table_options options;
    options.header = text;
    options.columns = {"source"};
    const std::string printed = table(averages, options);
    int bad = 0;
    for (std::size_t i = 0; i < printed.size(); ++i) {
      const auto byte = static_cast<unsigned char>(printed[i]);
      const unsigned next = i + 1 < printed.size() ? static_cast<unsigned char>(printed[i + 1]) : 0u;
      bad += (byte < 0x20 && byte != '\n') || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0);
    }
    const test::json_document as_json = test::strict_json::parse('"' + without(printed, "\"\\\n<>&") + '"');
    INFO(printed);
    CHECK(bad == 0);
    CHECK(as_json.ok());                                       // valid UTF-8
    CHECK(lines_of(printed).size() == 2 + 3 + 2 * 3 + 1 + 2);  // header, head, two rows of three lines, rule, footer
  }
}

// Catches: an unknown sort key that fails somewhere deep inside, or is ignored. FC-29
TEST_CASE("unknown options are refused with the valid ones", "[table]") {
  const event_averages averages = one_row("f");
  table_options options;
  std::error_code ec;
  options.sort_by = "self_cpu_time";
  CHECK(table(averages, options, ec).empty());
  CHECK(ec == errc::invalid_argument);
  const std::string keys =
      "self_cpu_time_total, cpu_time_total, cpu_memory_usage, self_cpu_memory_usage, count, allocated_bytes, "
      "self_allocated_bytes, freed_bytes, self_freed_bytes, allocation_count, self_allocation_count, free_count, "
      "self_free_count, peak_bytes, unmatched_frees, min_time, max_time, stddev_time, p50_time, p95_time, p99_time, "
      "corrected_self_time, flops, flop_rate, unknown_flops, unfinished_count, cpu_time, key, input_shapes, stack, "
      "source";
  CHECK(ec.message() == "table: sort_by is 'self_cpu_time', must be empty or one of " + keys);
  CHECK_THROWS_WITH(averages.table("self_cpu_time"), ec.message());
  options = {};
  options.time_unit = "min";
  CHECK_THROWS_WITH(table(averages, options),
                    "table: time_unit is 'min', must be 's', 'ms', 'us', or empty for automatic");
  options = {};
  options.row_limit = -2;
  CHECK_THROWS_WITH(table(averages, options), "table: row_limit is -2, must be -1 (all rows) or at least 0");
  options = {};
  options.columns = {"peak"};
  CHECK_THROWS_AS(table(averages, options), error);
  CHECK_FALSE(table(averages, {}, ec).empty());
  CHECK_FALSE(ec);
}

// Catches: the limit off by one, or sums and shares over the printed rows only.
TEST_CASE("row limits", "[table]") {
  const event_averages rows = key_averages(test::events("t1: a[0..1000] b[1000..3000] c[3000..4000]"));
  CHECK(first_cells(rows.table("", -1), 5) == std::vector<std::string>{"a", "b", "c"});
  CHECK(first_cells(rows.table("", 0), 5).empty());
  CHECK(first_cells(rows.table("cpu_time_total", 1), 5) == std::vector<std::string>{"b"});
  // A text of any kind, and nothing else, is a sort key.
  const std::string sorted = rows.table("cpu_time_total");
  CHECK(rows.table(std::string("cpu_time_total")) == sorted);
  CHECK(rows.table(std::string_view("cpu_time_total")) == sorted);
  CHECK(rows.table(static_cast<const char*>("cpu_time_total")) == sorted);
  CHECK(rows.table({}) == rows.table());
  CHECK(grid_of(rows.table("cpu_time_total", 1))[3].substr(5, 14) == "        50.00%");
  CHECK(rows.table("", 0).find("Self CPU time total: 4.000us\n") != std::string::npos);
}

// Catches: keys that sort by something else, ascending, or without keeping the order of equal rows.
TEST_CASE("sorting is descending and stable", "[table]") {
  test::event_builder b("t1: a[0..100]{ b[0..60]{ c[0..10] d[10..20] } e[60..99] } d[100..101]");
  memory_event m;
  m.event = 2;
  m.bytes = 50;
  b.builder.add_memory(m);
  m.event = 4;
  m.bytes = 70;
  b.builder.add_memory(m);
  const event_averages rows = key_averages(b.builder.finish());
  const auto sorted = [&rows](const char* key) {
    std::string names;
    for (const std::string& cell : first_cells(rows.table(key), 5)) names += cell;
    return names;
  };
  CHECK(sorted("") == "abcde");
  CHECK(sorted("self_cpu_time_total") == "bedca");    // 40 39 11 10 1
  CHECK(sorted("cpu_time_total") == "abedc");         // 100 60 39 11 10
  CHECK(sorted("cpu_time") == "abecd");               // 100 60 39 10 5.5
  CHECK(sorted("count") == "dabce");                  // 2, then all 1
  CHECK(sorted("cpu_memory_usage") == "aebcd");       // 120 70 50 50 0
  CHECK(sorted("self_cpu_memory_usage") == "ecabd");  // 70 50 0 0 0
  CHECK(sorted("key") == "edcba");
}

// Catches: two rows that look the same, also when the names are too long to be shown whole.
TEST_CASE("an annotation that shares its name with an operation says so", "[table]") {
  const event_averages rows = key_averages(test::events("t1: f![0..10]{ f[2..6] } g![10..12]"));
  CHECK(first_cells(rows.table(), 18) == std::vector<std::string>{"f (annotation)", "f", "g"});
  const std::string name(60, 'n');
  const event_averages long_rows = key_averages(test::events("t1: " + name + "![0..10]{ " + name + "[2..6] }"));
  const std::vector<std::string> cells = first_cells(long_rows.table(), 55);
  CHECK(cells[0] == std::string(39, 'n') + "... (annotation)");
  CHECK(cells[1] == std::string(52, 'n') + "...");
}

// Catches: an empty list that prints nothing, or fails. FC-28: facebookresearch/HolisticTraceAnalysis#107
TEST_CASE("a table without rows has header and footer", "[table]") {
  for (const char* key : sort_keys) {
    CHECK(key_averages(trace()).table(key) ==
          "----  ------------  ------------  ------------  ------------  ------------  ------------  \n"
          "Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  \n"
          "----  ------------  ------------  ------------  ------------  ------------  ------------  \n"
          "----  ------------  ------------  ------------  ------------  ------------  ------------  \n"
          "Self CPU time total: 0.000us\n");
  }
}

// Catches: NaN or a failure when all times are 0. FC-22: jlfwong/speedscope#230
TEST_CASE("a share of nothing is --", "[table]") {
  const std::string text = key_averages(test::events("t1: a[5..5]{ b[5..5] }")).table();
  CHECK(grid_of(text)[3] ==
        "    a            --       0.000us            --       0.000us       0.000us             1  ");
}

// Catches: a share of the whole for what overlaps it. (torch prints a bare 0.) FC-19
TEST_CASE("async rows have no share", "[table]") {
  const std::string text = key_averages(test::events("t1: a[0..1000]; async1: x[100..900]")).table();
  CHECK(grid_of(text)[4] ==
        "    x         0.00%       0.000us             0       0.800us       0.800us             1  ");
}

// Catches: sums of 32 bits, or counts printed through a double. FC-27: pytorch/kineto PR1156
TEST_CASE("64-bit counters are printed exactly", "[table]") {
  event_averages averages = one_row("f");
  averages.has_memory = true;
  event_average& row = averages.rows[0];
  row.calls = 3000000000;
  row.self_ns = row.total_ns = std::int64_t{1} << 40;
  row.self_memory.allocated_bytes = row.total_memory.allocated_bytes = std::int64_t{3} << 40;
  row.self_memory.allocations = row.total_memory.allocations = INT64_MAX;
  table_options options;
  options.columns = {"allocation_count"};
  CHECK(grid_of(table(averages, options))[3] ==
        "    f       100.00%     1099.512s       100.00%     1099.512s       0.367us       3.00 TB       3.00 TB    "
        "3000000000"
        "  9223372036854775807  ");
  CHECK(grid_of(table(averages, options))[0].size() == grid_of(table(averages, options))[3].size());
}

// Catches: percentiles of rows that have none printed as numbers, columns that need statistics accepted without them.
TEST_CASE("columns of statistics", "[table]") {
  key_averages_options with_statistics;
  with_statistics.statistics = true;
  const trace recorded = test::events("t1: f[0..1000] f[1000..4000] g[4000..4500]");
  table_options options;
  options.columns = {"stddev_time", "p50_time", "p95_time", "p99_time"};
  options.sort_by = "stddev_time";
  const std::vector<std::string> lines = lines_of(table(key_averages(recorded, with_statistics), options));
  CHECK(lines.at(1).substr(lines[1].size() - 71) ==
        "# of Calls  CPU time stddev  CPU time p50  CPU time p95  CPU time p99  ");
  CHECK(lines.at(3).substr(lines[3].size() - 62) == "2          1.414us       1.000us       3.000us       3.000us  ");
  CHECK(lines.at(4).substr(lines[4].size() - 62) == "1               --       0.500us       0.500us       0.500us  ");
  std::error_code ec;
  CHECK(table(key_averages(recorded), options, ec).empty());
  CHECK(
      ec.message() ==
      "table: columns holds 'stddev_time', which these rows do not have; set key_averages_options::statistics to true");
  CHECK_THROWS_WITH(key_averages(recorded).table("p99_time"),
                    "table: sort_by is 'p99_time', which these rows do not have; set key_averages_options::statistics "
                    "to true");
}

// Catches: torch's swapped cells of stack and FLOPs, a unit per row, a rate of nothing, unknown counts passed over.
TEST_CASE("columns of FLOPs", "[table]") {
  event_averages averages;
  for (const char* name : {"mm", "add", "relu"}) averages.rows.push_back(one_row(name).rows[0]);
  averages.rows[0].flops = 33554432;
  averages.rows[0].stack = {"train"};
  averages.rows[1].flops = 2048;
  averages.rows[2].unknown_flops = 3;
  table_options options;
  options.columns = {"flop_rate"};
  options.sort_by = "flops";
  const std::vector<std::string> lines = lines_of(table(averages, options));
  const auto end_of = [&](std::size_t line) { return lines.at(line).substr(lines[line].size() - 58); };
  CHECK(end_of(1) == "# of Calls        FLOP/s  Enclosing Scopes  Total KFLOPs  ");
  CHECK(end_of(3) == "         1        33.55T  train                33554.432  ");
  CHECK(end_of(5) == "         1         2.05G                           2.048  ");
  CHECK(end_of(7) == "         1            --                              --  ");
  CHECK(lines.back() == "FLOPs unknown: 3 calls of ops with a formula, whose inputs are not known or do not fit it");
  averages.rows.resize(1);
  averages.rows[0].flops = 0;
  CHECK(averages.table().find("FLOPs") == std::string::npos);
}

// Catches: further columns that print something else than their header says.
TEST_CASE("columns on request", "[table]") {
  test::event_builder b("t1: a[0..1000]{ b[0..300] } b[1000..1500]");
  memory_event m;
  m.event = 1;
  m.bytes = 2048;
  b.builder.add_memory(m);
  m.event = 0;
  m.bytes = -1024;
  b.builder.add_memory(m);
  b.builder.add_unmatched_free({0, 7});
  b.builder.event(2).flags = trace_event::unfinished;
  b.builder.detail(1).source_file = b.builder.intern("src/b.cpp");
  b.builder.detail(1).source_line = 12;
  table_options options;
  options.columns = {"allocated_bytes", "freed_bytes", "self_freed_bytes", "allocation_count", "free_count",
                     "unmatched_frees", "min_time",    "max_time",         "unfinished_count", "source"};
  const std::vector<std::string> grid = grid_of(table(key_averages(b.builder.finish()), options));
  const std::size_t from = grid[1].find("# of Calls") + 10;
  CHECK(grid[1].substr(from) ==
        "     Allocated         Freed    Self Freed   # of Allocs    # of Frees  Unmatched Frees  CPU time min  CPU "
        "time max"
        "  # Unfinished        Defined At  ");
  CHECK(grid[3].substr(from) ==
        "       2.00 KB       1.00 KB       1.00 KB             1             1                7       1.000us       "
        "1.000us"
        "             0                    ");
  CHECK(grid[4].substr(from) ==
        "       2.00 KB           0 B           0 B             1             0                0       0.300us       "
        "0.500us"
        "             1      src/b.cpp:12  ");
}

// Catches: a shapes column narrower than its header or cut with dots, which torch does not do.
TEST_CASE("shapes are cut to the width of their column", "[table]") {
  test::event_builder b("t1: f[0..1] g[1..2]");
  b.builder.detail(0).input_dims = b.builder.intern("[[1]]");
  trace t = b.builder.finish();
  key_averages_options by_shape;
  by_shape.group_by_input_shape = true;
  std::vector<std::string> grid = grid_of(key_averages(t, by_shape).table());
  CHECK(grid[1].substr(grid[1].size() - 16) == "  Input Shapes  ");
  CHECK(grid[3].substr(grid[3].size() - 16) == "         [[1]]  ");
  CHECK(grid[4].substr(grid[4].size() - 16) == "            []  ");
  event_averages averages = one_row("f");
  averages.rows[0].shapes = "[[64, 512], [512, 512], []]";
  table_options options;
  options.max_shapes_column_width = 14;
  grid = grid_of(table(averages, options));
  CHECK(grid[3].substr(grid[3].size() - 18) == "  [[64, 512], [5  ");
}

// Catches: stack entries in the wrong column, cut at the wrong end, or without the blank row that ends them.
TEST_CASE("stacks stand below each other", "[table]") {
  event_averages averages = one_row("f");
  averages.rows.push_back(one_row("g").rows[0]);
  averages.rows[0].stack = {"inner", "a rather long outer scope"};
  table_options options;
  options.max_src_column_width = 20;
  std::vector<std::string> grid = grid_of(table(averages, options));
  REQUIRE(grid.size() == 9);
  const std::size_t column = 5 + 2 + 6 * 14;
  CHECK(grid[1].substr(column) == "Enclosing Scopes      ");
  CHECK(grid[3].substr(column) == "inner                 ");
  CHECK(grid[4] == std::string(column, ' ') + "... long outer scope  ");
  CHECK(grid[5] == std::string(column + 22, ' '));
  CHECK(grid[6].substr(column) == std::string(22, ' '));
  averages.stack = stack_source::native;
  CHECK(grid_of(table(averages))[1].find("  Source Location  ") != std::string::npos);
}

// Catches: shares of another whole than the one that is named. FC-25: pytorch/pytorch PR94972
TEST_CASE("shares of all threads add up to 100, and the whole is named", "[table]") {
  const event_averages rows = key_averages(test::events("t1: main[0..9]; t2: a[0..9]; t3: b[0..9]{ c[2..5] }"));
  const std::vector<std::string> grid = grid_of(rows.table());
  double sum = 0;
  for (std::size_t i = 3; i + 1 < grid.size(); ++i) sum += std::strtod(grid[i].c_str() + 8, nullptr);
  CHECK(std::fabs(sum - 100) < 0.03);
  CHECK(footer_of(rows) ==
        "Self CPU time total: 0.027us\n"
        "Percentages are of the self time of 3 threads together: 0.027us\n");
}

// Catches: losses or cut scopes that nobody is told of, and lines about nothing.
TEST_CASE("what is missing is named below the table", "[table]") {
  test::event_builder b("t1: a[0..10] b[10..20] c![20..30]{ b[22..30] }");
  for (const std::uint32_t i : {1u, 2u, 3u}) b.builder.event(i).flags = trace_event::unfinished;
  b.builder.losses().dropped = 12;
  b.builder.losses().unmatched_frees = 1;
  b.builder.info().cycle = 2;
  b.builder.info().first_step = 4;
  b.builder.info().last_step = 8;
  b.builder.info().scope_cost_ns = 0.25;
  b.builder.info().profiler_bytes = 3 << 20;
  b.builder.info().partial = true;
  const event_averages rows = key_averages(b.builder.finish());
  CHECK(footer_of(rows) ==
        "Self CPU time total: 0.030us\n"
        "Partial: the window was cut before its last active step was complete\n"
        "Recording cost 0.2ns a scope, 3.33% of the time above, and 3.00 MB of memory\n"  // 4 scopes, 1 ns of 30
        "Unfinished: 3 scopes still open at the end, counted up to there: b, c\n"
        "Lost: 12 scopes not recorded, memory for events was full\n"
        "Lost: 1 free of memory allocated before this window, counted without bytes\n");
  table_options options;
  options.show_percent_base = options.show_cycle = true;
  options.show_scope_cost = false;
  CHECK(footer_of(rows, options).substr(0, 157) ==
        "Self CPU time total: 0.030us\n"
        "Percentages are of the self time of 1 thread together: 0.030us\n"
        "Cycle 2, steps 4 to 8\n"
        "Partial: the window was cut before its last");
  CHECK(footer_of(rows, options).find("Recording cost") == std::string::npos);
}

// Catches: a list of cut scopes without end.
TEST_CASE("at most five cut scopes are named", "[table]") {
  event_averages averages;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) {
    averages.rows.push_back(one_row(name).rows[0]);
    averages.rows.back().unfinished = 1;
  }
  CHECK(footer_of(averages).find(": a, b, c, d, e and 2 more\n") != std::string::npos);
}

// Catches: times of a fixed unit in the rows but not in the total.
TEST_CASE("a forced time unit is used everywhere", "[table]") {
  table_options options;
  options.time_unit = "ms";
  const std::string text = table(key_averages(test::events("t1: a[0..1500] b[1500..2000000000]")), options);
  CHECK(grid_of(text)[3] ==
        "    a         0.00%       0.002ms         0.00%       0.002ms       0.002ms             1  ");
  CHECK(text.find("Self CPU time total: 2000.000ms\n") != std::string::npos);
}

// Catches: 3,14 or 1.234.567 under another locale. FC-45: sysstat/sysstat#128
TEST_CASE("the locale changes nothing", "[table]") {
  struct grouping : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  event_averages averages = one_row("f");
  averages.rows[0].calls = 1234567;
  averages.rows[0].self_ns = averages.rows[0].total_ns = 1234567890;
  averages.has_memory = true;
  averages.rows[0].total_memory.allocated_bytes = 123456789;
  const std::string expected = averages.table();
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new grouping));
  std::optional<test::comma_locale> comma(std::in_place);
  const bool has_comma = test::comma_locale::active();
  const std::string text = averages.table();
  comma.reset();
  std::locale::global(before);
  CHECK(text == expected);
  CHECK(text.find("1.235s") != std::string::npos);
  if (!has_comma) test::skip("needs a C locale with a comma");
}

// Catches: a table of single events that needs rows of another kind.
TEST_CASE("events one by one print as torch prints its raw list", "[table]") {
  const event_averages rows = event_rows(test::events("t1: a[0..1000]{ b[0..300] } b[1000..1500]"));
  CHECK(first_cells(rows.table(), 5) == std::vector<std::string>{"a", "b", "b"});
  CHECK(first_cells(rows.table("cpu_time_total"), 5) == std::vector<std::string>{"a", "b", "b"});
  CHECK(grid_of(rows.table("cpu_time_total"))[4].substr(0, 35) == "    b        33.33%       0.500us  ");
}

}  // namespace table_test
