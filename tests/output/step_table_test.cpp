#include <cstdint>
#include <string>

#include <stepprof/output/step_table.hpp>

#include <support/catch.hpp>

namespace step_table_test {
using namespace stepprof;

namespace {

step_time step(std::int64_t number, std::int64_t duration_ns) {
  step_time s;
  s.number = number;
  s.duration_ns = duration_ns;
  s.self_ns = 1000;
  s.scopes = 2;
  s.longest = "mm";
  s.longest_self_ns = duration_ns - 1000;
  return s;
}
step_times three_steps() {
  step_times steps;
  steps.rows = {step(7, 2000000), step(8, 5000000), step(9, 1000000)};
  steps.rows[1].most_above_median = "gc";
  steps.rows[1].above_median_ns = 2500000;
  steps.rows[2].complete = false;
  steps.rows[2].self_ns.reset();
  steps.rows[2].scopes = 0;
  std::int64_t durations_ns[] = {2000000, 5000000};
  steps.durations = detail::statistics_of(durations_ns, 2);
  return steps;
}

}  // namespace

// Catches: any change of layout. The deviation: sqrt(2 * 1.5 ms squared).
TEST_CASE("the table of the steps, character by character", "[step_table]") {
  CHECK(three_steps().table() ==
        "------------  ------------  ------------  ------------  ------------  ------------  \n"
        "        Step      Duration      Self CPU   # of Scopes  Longest Self  Name          \n"
        "------------  ------------  ------------  ------------  ------------  ------------  \n"
        "           7       2.000ms       1.000us             2       1.999ms  mm            \n"
        "           8       5.000ms       1.000us             2       4.999ms  mm            \n"
        "     9 (cut)       1.000ms            --             0            --                \n"
        "------------  ------------  ------------  ------------  ------------  ------------  \n"
        "2 complete steps: mean 3.500ms, standard deviation 2.121ms, min 2.000ms, p50 2.000ms, p95 5.000ms, "
        "p99 5.000ms, max 5.000ms\n"
        "Slowest: step 8, 5.000ms, 2.50 x the median; gc is 2.500ms above its median\n");
}

// Catches: memory columns without memory, or in another order; bytes not added up.
TEST_CASE("memory of the steps", "[step_table]") {
  step_times steps = three_steps();
  steps.has_memory = true;
  steps.rows[0].memory.allocated_bytes = 4096;
  steps.rows[0].memory.freed_bytes = 5120;
  const std::string text = steps.table();
  CHECK(text.find("  # of Scopes     Allocated         Freed       CPU Mem  Longest Self") != std::string::npos);
  CHECK(text.find("       2       4.00 KB       5.00 KB      -1.00 KB  ") != std::string::npos);
}

// Catches: limits and orders that are ignored, or that change the lines below.
TEST_CASE("options of the table of the steps", "[step_table]") {
  step_table_options options;
  options.slowest_first = true;
  options.row_limit = 1;
  options.slowest_named = 0;
  options.time_unit = "us";
  const std::string text = three_steps().table(options);
  CHECK(text.find("           8    5000.000us") != std::string::npos);
  CHECK(text.find("2000.000us       1.000us") == std::string::npos);
  CHECK(text.find("2 complete steps: mean 3500.000us") != std::string::npos);
  CHECK(text.find("Slowest") == std::string::npos);
}

// Catches: wrong options taken silently.
TEST_CASE("refused options of the table of the steps", "[step_table]") {
  std::error_code ec;
  step_table_options options;
  options.row_limit = -2;
  CHECK(table(three_steps(), options, ec).empty());
  CHECK(ec.message() == "step table: row_limit is -2, must be -1 (all steps) or at least 0");
  options = {};
  options.time_unit = "h";
  CHECK(table(three_steps(), options, ec).empty());
  CHECK(ec.message() == "step table: time_unit is 'h', must be 's', 'ms', 'us', or empty for automatic");
}

// Catches: a division by the median of no steps, control bytes in names.
TEST_CASE("no steps, odd names", "[step_table]") {
  const std::string none = step_times().table();
  CHECK(none.substr(none.rfind('-') + 1) == "  \n0 complete steps\n");
  step_times steps = three_steps();
  steps.rows[0].longest = "\x1b[31m";
  CHECK(steps.table().find('\x1b') == std::string::npos);
}

}  // namespace step_table_test
