#include <string>
#include <utility>
#include <vector>

#include <support/catch.hpp>

#include <stepprof/timer/compare.hpp>

namespace compare_test {

using stepprof::compare;
using stepprof::measurement;

namespace {

// In blocks of a million, so that the clock leaves four digits.
measurement result(const char* label, const char* row, const char* column, std::vector<double> times_ns,
                   std::int64_t threads = 1) {
  measurement m;
  m.number_per_run = 1000000;
  for (double& t : times_ns) t *= 1e6;
  m.raw_times_ns = std::move(times_ns);
  m.task.label = label;
  m.task.sub_label = row;
  m.task.description = column;
  m.task.num_threads = threads;
  return m;
}

std::vector<measurement> relu() {
  return {result("ReLU", "float", "n=1", {1035}),
          result("ReLU", "float", "n=4", {4140}),
          result("ReLU", "int", "n=1", {2070}),
          result("ReLU", "int", "n=4", {8280}),
          result("ReLU", "noisy", "n=1", {1400, 1700, 1700, 2500}),
          result("ReLU", "float", "n=1", {517.5}, 2),
          result("ReLU", "float", "n=4", {2070}, 2)};
}

}  // namespace

// Catches: another layout than torch's (this is its own output, but for "1 threads:" and blanks at the ends of lines).
TEST_CASE("the table is torch's", "[compare]") {
  CHECK(compare(relu()).to_string() ==
        "[------------- ReLU ------------]\n"
        "             |   n=1    |   n=4\n"
        "1 thread: -----------------------\n"
        "      float  |  1035.0  |  4140.0\n"
        "      int    |  2070.0  |  8280.0\n"
        "      noisy  |  1700.0  |\n"
        "2 threads: ----------------------\n"
        "      float  |   517.5  |  2070.0\n"
        "\n"
        "Times are in nanoseconds (ns).\n");
}

// Catches: a cell overwritten by its replicate, or shown twice; tables of several labels in one.
TEST_CASE("replicates are merged, labels apart", "[compare]") {
  compare c({result("a", "f", "x", {1000})});
  c.extend_results({result("b", "f", "x", {5000000}), result("a", "f", "x", {3000})});
  CHECK(c.to_string() ==
        "[----- a -----]\n"
        "         |   x\n"
        "1 thread: -----\n"
        "      f  |  2.0\n"
        "\n"
        "Times are in microseconds (us).\n"
        "\n"
        "[----- b -----]\n"
        "         |   x\n"
        "1 thread: -----\n"
        "      f  |  5.0\n"
        "\n"
        "Times are in milliseconds (ms).\n");
}

// Catches: cells of noisy measurements that are not marked, or that push the others out of their columns.
TEST_CASE("noisy cells are marked", "[compare]") {
  compare c(relu());
  c.highlight_warnings();
  // Of 1400 1700 1700 2500: p25 is 1625, p75 is 1900; 275 / 1700 is 16 %.
  CHECK(c.to_string() ==
        "[----------------- ReLU ----------------]\n"
        "             |       n=1        |   n=4\n"
        "1 thread: -------------------------------\n"
        "      float  |  1035.0          |  4140.0\n"
        "      int    |  2070.0          |  8280.0\n"
        "      noisy  |  1700.0 (! 16%)  |\n"
        "2 threads: ------------------------------\n"
        "      float  |   517.5          |  2070.0\n"
        "\n"
        "Times are in nanoseconds (ns).\n"
        "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n");
  compare quiet({result("a", "f", "x", {1})});
  quiet.highlight_warnings();
  CHECK(quiet.to_string().find('!') == std::string::npos);
}

// Catches: digits that mean nothing; a column that is cut to the digits of its worst known cell only in that cell.
TEST_CASE("digits that mean nothing are cut", "[compare]") {
  // 3.12 and 3.16 us: standard error 10 ns, times 1.645: 3140 / 16.45 = 191, two digits. 12.31 us has four.
  compare c({result("a", "known", "x", {12310}),
             result("a", "vague", "x", {3120, 3160, 3120, 3160, 3120, 3160, 3120, 3160})});
  CHECK(c.to_string().find("known  |  12.3\n") != std::string::npos);
  c.trim_significant_figures();
  CHECK(c.to_string().find("known  |  12.3\n      vague  |   3.1\n") != std::string::npos);
  compare exact({result("a", "f", "x", {12310})});
  exact.trim_significant_figures();
  CHECK(exact.to_string().find("f  |  12.31\n") != std::string::npos);
  // 900 and 1100: standard error 50, times 1.645: 82; 1000 / 82 = 12, one digit, and no decimals.
  compare vague({result("a", "f", "x", {900, 1100, 900, 1100, 900, 1100, 900, 1100})});
  vague.trim_significant_figures();
  CHECK(vague.to_string().find("f  |  1\n") != std::string::npos);  // us
}

// Catches: the best of all threads taken for the best of a column, colours that start or end in the wrong cell, torch's
// 100 ns within which everything is best.
TEST_CASE("colours compare within a column or a row", "[compare]") {
  compare c(relu());
  c.colorize();
  const std::string by_column = c.to_string();
  CHECK(by_column.find("float  |  \033[92m\033[1m1035.0\033[0m  |  \033[92m\033[1m4140.0\033[0m\n") !=
        std::string::npos);
  CHECK(by_column.find("int    |  \033[2m\033[91m2070.0\033[0m  |  \033[2m\033[91m8280.0\033[0m\n") !=
        std::string::npos);
  CHECK(by_column.find("noisy  |  1700.0  |\n") != std::string::npos);
  CHECK(by_column.find("|  \033[92m\033[1m 517.5\033[0m  |") != std::string::npos);
  c.colorize(true);
  CHECK(c.to_string().find("int    |  \033[92m\033[1m2070.0\033[0m  |  \033[2m\033[91m8280.0\033[0m\n") !=
        std::string::npos);
  compare small({result("a", "f", "x", {10}), result("a", "f", "y", {50}), result("a", "f", "z", {10.9})});
  small.colorize(true);
  CHECK(small.to_string().find("|  \033[31m\033[1m50.0\033[0m  |  \033[34m\033[1m10.9\033[0m\n") != std::string::npos);
}

// Catches: a TypeError for rows with and without an env (torch); an env repeated in each of its rows.
TEST_CASE("an env is shown where there are several", "[compare]") {
  std::vector<measurement> results = {result("a", "f", "x", {2}), result("a", "g", "x", {3}),
                                      result("a", "f", "x", {1})};
  results[0].task.env = results[1].task.env = "branch";
  CHECK(compare(results).to_string() ==
        "[-------- a --------]\n"
        "               |   x\n"
        "1 thread: -----------\n"
        "            f  |  1.0\n"
        "  (branch)  f  |  2.0\n"
        "            g  |  3.0\n"
        "\n"
        "Times are in nanoseconds (ns).\n");
  results.pop_back();
  CHECK(compare(results).to_string().find("branch") == std::string::npos);
}

// Catches: measurements of different statements that overwrite each other in one cell.
TEST_CASE("rows of the same name are told apart by their statements", "[compare]") {
  std::vector<measurement> results = {result("a", "f", "x", {1}), result("a", "f", "x", {2})};
  results[0].task.stmt = "f(1)";
  results[1].task.stmt = "f(2)";
  const std::string text = compare(results).to_string();
  CHECK(text.find("      f: f(1)  |  1.0\n      f: f(2)  |  2.0\n") != std::string::npos);
  results[0].task.sub_label = results[1].task.sub_label = "";
  CHECK(compare(results).to_string().find("      f(1)  |  1.0\n      f(2)  |  2.0\n") != std::string::npos);
}

// Catches: 0.0 for what takes less than a nanosecond; a logarithm of nothing.
TEST_CASE("the unit suits the smallest time", "[compare]") {
  const std::string text = compare({result("", "f", "x", {0.25}), result("", "g", "x", {18.5})}).to_string();
  CHECK(text ==
        "[-----------------]\n"
        "         |     x\n"
        "1 thread: ---------\n"
        "      f  |    250.0\n"
        "      g  |  18500.0\n"
        "\n"
        "Times are in picoseconds (ps).\n");
  compare nothing({result("a", "f", "x", {0, 0})});
  nothing.trim_significant_figures();
  nothing.highlight_warnings();
  CHECK(nothing.to_string().find("f  |  0 (! --%)\n") != std::string::npos);
}

// Catches: columns counted in bytes, and texts that break the lines of the table.
TEST_CASE("names may be any text", "[compare]") {
  const std::string text =
      compare({result("a", "\xe6\x97\xa5\xe6\x9c\xac", "x", {1}), result("a", "a\nb", "x", {2})}).to_string();
  CHECK(text.find("      \xe6\x97\xa5\xe6\x9c\xac  |  1.0\n      a\\nb  |  2.0\n") != std::string::npos);
}

// Catches: headers that are one column to the left of torch's where they cannot be in the middle.
TEST_CASE("headers are centred as torch does", "[compare]") {
  CHECK(compare({result("a", "f", "ab", {250})}).to_string().find("\n         |    ab\n") != std::string::npos);
  CHECK(compare({result("a", "f", "abc", {25})}).to_string().find("\n         |  abc\n") != std::string::npos);
}

// Catches: nothing printed as something, or an index into it.
TEST_CASE("no results, no table", "[compare]") {
  CHECK(compare({}).to_string().empty());
}

}  // namespace compare_test
