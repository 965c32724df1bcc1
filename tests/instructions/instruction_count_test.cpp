#include <cstdint>
#include <stdlib.h>  // setenv
#include <cstdlib>
#include <fstream>
#include <locale>
#include <optional>
#include <string>
#include <system_error>

#include <support/catch.hpp>
#include <support/temp_folder.hpp>

#include <stepprof/timer/do_not_optimize.hpp>
#include <stepprof/timer/instruction_count.hpp>

namespace instruction_count_test {

using stepprof::count_options;
using stepprof::instruction_count;

namespace {

bool valgrind_is_there() {
  return std::system("command -v valgrind > /dev/null 2>&1") == 0;
}

count_options by_rerun() {
  count_options options;
  options.may_rerun = true;
  return options;
}

void expect_refusal_without_valgrind() {
  std::error_code ec;
  stepprof::detail::rerun_under_callgrind(1, ec);
  CHECK(ec == stepprof::errc::unsupported);
  CHECK(ec.message() ==
        "instructions cannot be counted by running the program again: valgrind: No such file or directory");
}

}  // namespace

// Catches: work that is not run, runs that are counted twice, the loop's own part left in, and a value that the
// compiler did not have to compute.
TEST_CASE("instructions of a run are counted", "[instruction_count]") {
  if (!valgrind_is_there()) return expect_refusal_without_valgrind();
  const instruction_count nothing = stepprof::count_instructions([] {}, by_rerun());
  CHECK(nothing.per_run == Approx(0).margin(0.5));  // callgrind is exact, a hardware counter nearly
  CHECK(nothing.empty_loop_per_run >= 2);           // counting and jumping
  CHECK(nothing.number == 128);

  // A loop of at least two instructions a turn that the compiler can neither leave out nor compute beforehand.
  const auto turns = [](int n) {
    return [n] {
      for (int i = 0; i < n; ++i) stepprof::do_not_optimize(i);
    };
  };
  const instruction_count few = stepprof::count_instructions(turns(1000), by_rerun());
  const instruction_count many = stepprof::count_instructions(turns(3000), by_rerun());
  CHECK(few.per_run >= 2000);
  CHECK(few.per_run < 10000);
  CHECK(many.per_run - few.per_run >= 4000);
  // Instructions are exact: three times the turns are three times the loop, and a few for its begin and end.
  CHECK(many.per_run == Approx(3 * few.per_run).margin(50));
}

// Catches: a result that is not kept, so that what leads to it is left out.
TEST_CASE("what a counted run returns is computed", "[instruction_count]") {
  if (!valgrind_is_there()) return expect_refusal_without_valgrind();
  std::uint64_t x = 1;
  const auto hundred_steps = [&x] {
    stepprof::do_not_optimize(x);
    std::uint64_t y = x;
    for (int i = 0; i < 100; ++i) y = (y ^ (y >> 7)) * 0x9e3779b97f4a7c15u;
    return y;
  };
  CHECK(stepprof::count_instructions(hundred_steps, by_rerun()).per_run >= 300);
}

// Catches: zeros in place of a count, a program that is run again without being asked, a refusal without a remedy.
TEST_CASE("what cannot be counted is refused", "[instruction_count]") {
  std::error_code ec;
  count_options options;
  options.number = 0;
  CHECK_FALSE(stepprof::count_instructions([] {}, options, ec).has_value());
  CHECK(ec == stepprof::errc::invalid_argument);
  CHECK(ec.message() == "number is 0, must be from 1 to 1000000000");

  const std::optional<instruction_count> here = stepprof::count_instructions([] {}, {}, ec);
  CHECK(here.has_value() == !ec);
  if (here) {
    CHECK(here->empty_loop_per_run >= 1);
  } else {
    CHECK(ec == stepprof::errc::unsupported);
    CHECK(ec.message().find("the hardware counter is not available (") != std::string::npos);
    CHECK(ec.message().find("may_rerun") != std::string::npos);
  }
}

// Catches: a copy that does not come to its count, waited for or taken for a zero.
TEST_CASE("a copy that ends early is a refusal", "[instruction_count]") {
  if (!valgrind_is_there()) return expect_refusal_without_valgrind();
  if (stepprof::is_counting_rerun()) std::_Exit(3);
  std::error_code ec;
  stepprof::detail::rerun_under_callgrind(1000, ec);
  CHECK(ec == stepprof::errc::unsupported);
  CHECK(ec.message().find("it ended with status 3 before it came to the same count") != std::string::npos);
}

// Catches: a machine without valgrind that is not named as the reason.
TEST_CASE("no valgrind is a refusal", "[instruction_count]") {
  const char* const path = std::getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  ::setenv("PATH", "/nowhere", 1);
  expect_refusal_without_valgrind();
  ::setenv("PATH", before.c_str(), 1);
}

// Catches: a count read in the locale of the program, where 39.25 is 39 and then not a number.
TEST_CASE("counts are read in any locale", "[instruction_count]") {
  struct comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
  };
  const test::temp_folder folder;
  std::ofstream(folder.path() / "counts") << "39.25 3\n";
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new comma));
  stepprof::detail::two_counts counts;
  CHECK(stepprof::detail::read_counts(folder.path().string(), counts));
  std::locale::global(before);
  CHECK(counts.run == 39.25);
  CHECK(counts.empty == 3);
}

// Catches: another text.
TEST_CASE("a count is printed", "[instruction_count]") {
  CHECK(instruction_count{39.14, 3, 128, stepprof::count_source::callgrind}.to_string() ==
        "39.1 instructions a run (callgrind, 128 runs; the empty loop's 3.0 taken off)");
  CHECK(instruction_count{2, 2, 1, stepprof::count_source::hardware}.to_string() ==
        "2.0 instructions a run (hardware counter, 1 run; the empty loop's 2.0 taken off)");
}

}  // namespace instruction_count_test
