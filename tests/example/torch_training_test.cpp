// Catches: an adapter for libtorch that loses, invents or renames an op, its inputs, its memory or its arrow.
//
// The program is run; what it wrote is read with a JSON library only, and compared with what torch 2.14.1 recorded of
// the same network in Python (golden/torch-2.14.1-seed-capture.json) and with the tables that it printed.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <support/catch.hpp>
#include <support/trace_checker.hpp>

#include "printed_table.hpp"
#include "written_trace.hpp"

namespace torch_training_test {

namespace {

using test::arrow;
using test::bytes_text;
using test::find_row;
using test::slice;
using test::table_below;
using test::totals;
using test::with_number;
using test::written_trace;

// Where libtorch's C++ side differs from Python's torch 2.14.1, and why. Nothing else may.
struct difference {
  const char* torch_2_14;
  const char* ours;
  const char* reason;
};
const std::vector<difference> differences = {
    {"aten::ones_like", "aten::ones_like",
     "the first gradient: C++ asks for no memory format and no pinned memory, Python names both; C++ makes it with "
     "gradients on, so that it sees the counter of sequence numbers"},
    {"aten::empty_like", "aten::empty_like", "is handed on what ones_like was given"},
    {"aten::empty_strided", "aten::empty",
     "what empty_like calls: 1.13 takes empty when no memory format is to be kept, Python asked to keep it"},
};

struct program_run {
  std::string out;
  written_trace trace;
};

const program_run& run() {
  static const program_run once = [] {
    namespace fs = std::filesystem;
    const fs::path directory = fs::path(STEPPROF_TEST_OUTPUT) / "torch_training";
    fs::remove_all(directory);
    fs::create_directories(directory);
    const std::string trace = (directory / "trace.json").string(), out = (directory / "out.txt").string();
    const std::string command = std::string("'" STEPPROF_TORCH_TRAINING "' '") + trace + "' > '" + out + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    CHECK(test::check_trace(test::contents_of(trace)).summary() == "");
    return program_run{test::contents_of(out), written_trace(trace)};
  }();
  return once;
}

const written_trace& torch() {
  static const written_trace trace(STEPPROF_TEST_DATA "/torch-2.14.1-seed-capture.json");
  return trace;
}

std::string our_name(const std::string& theirs) {
  for (const difference& d : differences)
    if (theirs == d.torch_2_14) return d.ours;
  return theirs;
}

std::string table_text(const char* which) {
  return test::contents_of(std::string(STEPPROF_TEST_DATA "/torch-2.14.1-seed-table-") + which + ".txt");
}

// Depth and name of a line of a story: "    aten::mm (cpu_op) ..."
std::string head_of(const std::string& line) {
  return line.substr(0, line.find(" ("));
}
bool is_listed(const std::string& expected, const std::string& actual) {
  for (const difference& d : differences) {
    const std::string head = head_of(expected);
    const std::size_t indent = head.find_first_not_of(' ');
    if (head.substr(indent) == d.torch_2_14 && head_of(actual) == std::string(indent, ' ') + d.ours) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("every row of torch's table is in ours, with its calls and its bytes", "[torch_training]") {
  const auto printed = table_below(table_text("all"), "");
  const std::map<std::string, totals> rows = run().trace.by_name();
  REQUIRE(printed.size() == 47);
  CHECK(rows.size() == printed.size());
  for (const std::vector<std::string>& cells : printed) {
    CAPTURE(cells);
    const totals& row = find_row(rows, our_name(cells.at(0)));
    CHECK(cells.at(6) == bytes_text(row.total_bytes));
    CHECK(cells.at(7) == bytes_text(row.self_bytes));
    CHECK(cells.at(8) == std::to_string(row.calls));
  }
}

TEST_CASE("our printed table by shape has torch's rows: names, bytes, calls, shapes", "[torch_training]") {
  const auto expected = table_below(table_text("shapes"), "");
  auto actual = table_below(run().out, "Where the memory went");
  REQUIRE(expected.size() == 6);
  REQUIRE(actual.size() == 6);
  CHECK(actual[0][0] == "aten::mm");
  CHECK(actual[0][7] == "5.00 MB");
  CHECK(actual[0][9] == "[[512, 64], [64, 512]]");
  for (std::size_t row = 0; row < 6; ++row)
    for (const std::size_t cell : {0u, 6u, 7u, 8u, 9u}) CHECK(actual[row].at(cell) == expected[row].at(cell));
}

// All rows by shape, not the printed six.
TEST_CASE("every shape group of torch's trace is in ours", "[torch_training]") {
  const std::map<std::string, totals> expected = torch().by_shape(), actual = run().trace.by_shape();
  CHECK(actual.size() == expected.size());
  for (const auto& [key, row] : expected) {
    const std::size_t name_end = key.find(" [[");
    const std::string name = key.substr(0, name_end);
    CAPTURE(key);
    const auto found = actual.find(name_end == std::string::npos ? key : our_name(name) + key.substr(name_end));
    REQUIRE(found != actual.end());
    CHECK(found->second.calls == row.calls);
    CHECK(found->second.self_bytes == row.self_bytes);
    CHECK(found->second.total_bytes == row.total_bytes);
  }
}

// The strongest of these tests: the five recorded steps, scope by scope with kinds, numbers, forward threads, sizes,
// types, strides and scalars, and report by report with bytes.
TEST_CASE("every step is what torch recorded", "[torch_training]") {
  for (int step = 4; step <= 8; ++step) {
    const std::string name = "ProfilerStep#" + std::to_string(step);
    CAPTURE(name);
    REQUIRE(run().trace.named(name).size() == 1);
    const auto expected = torch().story(*torch().named(name).at(0));
    const auto actual = run().trace.story(*run().trace.named(name).at(0));
    REQUIRE(expected.size() == (step == 4 ? 138u : 142u));
    REQUIRE(actual.size() == expected.size());
    std::size_t listed = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (actual[i] == expected[i]) continue;
      CAPTURE(actual[i], expected[i]);
      REQUIRE(is_listed(expected[i], actual[i]));
      ++listed;
    }
    CHECK(listed == differences.size());  // once each: none is listed in vain
  }
}

TEST_CASE("the trace holds what torch's holds", "[torch_training]") {
  for (const char* category : {"cpu_op", "user_annotation", "cpu_instant_event", "fwdbwd"})
    CHECK(run().trace.categories.at(category) == torch().categories.at(category));
}

TEST_CASE("zero_grad frees what was allocated in the window, and no more", "[torch_training]") {
  const totals row = run().trace.by_name().at("Optimizer.zero_grad#SGD.zero_grad");
  CHECK(row.self_bytes == -4 * (1048576 + 2048 + 20480 + 40));  // the gradients of steps 4 to 7, dropped in 5 to 8
  CHECK(bytes_text(row.self_bytes) == "-4.09 MB");
}

TEST_CASE("35 arrows join the ops and the nodes that torch's join", "[torch_training]") {
  std::map<std::pair<std::string, std::string>, int> pairs;
  for (const arrow& a : run().trace.arrows) {
    REQUIRE(a.from != nullptr);
    REQUIRE(a.to != nullptr);
    ++pairs[{a.from->name, a.to->name}];
    CHECK(a.from->sequence() == a.to->sequence());
    CHECK(a.to->forward_thread() == a.from->tid);
  }
  CHECK(run().trace.arrows.size() == 35);
  CHECK(pairs ==
        std::map<std::pair<std::string, std::string>, int>{{{"aten::t", "TBackward0"}, 10},
                                                           {{"aten::addmm", "AddmmBackward0"}, 10},
                                                           {{"aten::relu", "ReluBackward0"}, 5},
                                                           {{"aten::_log_softmax", "LogSoftmaxBackward0"}, 5},
                                                           {{"aten::nll_loss_forward", "NllLossBackward0"}, 5}});
}

TEST_CASE("the first three sequence numbers and their ops", "[torch_training]") {
  using numbered = std::vector<std::pair<std::string, std::int64_t>>;
  const std::string wrapper = "autograd::engine::evaluate_function: ";
  const written_trace& trace = run().trace;
  CHECK(with_number(trace, 28) ==
        numbered{{"aten::linear", 0}, {"aten::t", 0}, {wrapper + "TBackward0", 1}, {"TBackward0", 1}});
  CHECK(with_number(trace, 29) == numbered{{"aten::addmm", 0}, {wrapper + "AddmmBackward0", 1}, {"AddmmBackward0", 1}});
  CHECK(with_number(trace, 30) == numbered{{"aten::relu", 0}, {wrapper + "ReluBackward0", 1}, {"ReluBackward0", 1}});
  // Seven nodes a step, five steps. The first gradient, which makes no node, sees the number of the next one.
  for (std::int64_t number = 27; number <= 63; ++number) {
    CAPTURE(number);
    numbered ours = with_number(trace, number);
    const auto first_gradient = std::find(ours.begin(), ours.end(), numbered::value_type{"aten::ones_like", 0});
    CHECK((first_gradient != ours.end()) == (number > 28 && number % 7 == 0));
    if (first_gradient != ours.end()) ours.erase(first_gradient);
    CHECK(ours == with_number(torch(), number));
  }
}

}  // namespace torch_training_test
