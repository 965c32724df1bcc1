// Catches: a recording, a collector or a writer that loses, invents, misplaces or renumbers anything on the way from
// the training example to its trace file and its tables.
//
// The example is run as a program; what it wrote is read with a JSON library only. The expected numbers are those of
// torch 2.14.1 running the same model (golden/torch-2.14.1-seed-capture.json), or worked out in comments.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <support/catch.hpp>
#include <support/trace_checker.hpp>

#include "printed_table.hpp"
#include "written_trace.hpp"

namespace training_test {

namespace {

using test::arrow;
using test::bytes_text;
using test::find_row;
using test::lines_of;
using test::slice;
using test::table_below;
using test::totals;
using test::with_number;
using test::words_of;
using test::written_trace;

struct program_run {
  std::string out;
  written_trace trace;
};

// Runs the example in a directory of its own. One run per set of options: all tests look at the same one.
const program_run& run(const char* options) {
  static std::map<std::string, program_run> runs;
  const auto known = runs.find(options);
  if (known != runs.end()) return known->second;

  namespace fs = std::filesystem;
  const fs::path directory = fs::path(STEPPROF_TEST_OUTPUT) / ("training" + std::to_string(runs.size()));
  fs::remove_all(directory);
  fs::create_directories(directory);
  const std::string trace = (directory / "trace.json").string(), out = (directory / "out.txt").string();
  const std::string command =
      std::string("'" STEPPROF_TRAINING "' ") + options + " --out '" + trace + "' > '" + out + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(test::check_trace(test::contents_of(trace)).summary() == "");
  return runs.emplace(options, program_run{test::contents_of(out), written_trace(trace)}).first->second;
}

std::map<std::string, std::int64_t> calls_of(const written_trace& trace) {
  std::map<std::string, std::int64_t> calls;
  for (const auto& [name, row] : trace.by_name()) calls[name] = row.calls;
  return calls;
}

std::map<std::pair<std::string, std::string>, int> arrow_pairs(const written_trace& trace) {
  std::map<std::pair<std::string, std::string>, int> pairs;
  for (const arrow& a : trace.arrows) {
    REQUIRE(a.from != nullptr);
    REQUIRE(a.to != nullptr);
    ++pairs[{a.from->name, a.to->name}];
  }
  return pairs;
}

// Every arrow joins an op to the node that the op made: same number, and the node names the op's own thread.
void check_arrows(const written_trace& trace) {
  std::set<const slice*> forward, backward;
  for (const arrow& a : trace.arrows) {
    REQUIRE(a.from != nullptr);
    REQUIRE(a.to != nullptr);
    CHECK(a.from->sequence() == a.to->sequence());
    CHECK(a.from->forward_thread() == 0);
    CHECK(a.to->forward_thread() == a.from->tid);
    CHECK(a.to->begin_ns >= a.from->end_ns);
    CHECK(forward.insert(a.from).second);
    CHECK(backward.insert(a.to).second);
  }
}

using numbered = std::vector<std::pair<std::string, std::int64_t>>;
const std::string wrapper = "autograd::engine::evaluate_function: ";

// The seven nodes of a step, and how often each arrow occurs in five steps.
const std::map<std::pair<std::string, std::string>, int> torch_arrows = {
    {{"aten::t", "TBackward0"}, 10},
    {{"aten::addmm", "AddmmBackward0"}, 10},
    {{"aten::relu", "ReluBackward0"}, 5},
    {{"aten::_log_softmax", "LogSoftmaxBackward0"}, 5},
    {{"aten::nll_loss_forward", "NllLossBackward0"}, 5}};

// The counts of torch's run, every one of them.
const std::map<std::string, std::int64_t> torch_calls = {{"AddmmBackward0", 10},
                                                         {"LogSoftmaxBackward0", 5},
                                                         {"NllLossBackward0", 5},
                                                         {"Optimizer.step#SGD.step", 5},
                                                         {"Optimizer.zero_grad#SGD.zero_grad", 5},
                                                         {"ProfilerStep*", 5},
                                                         {"ReluBackward0", 5},
                                                         {"TBackward0", 10},
                                                         {"aten::_log_softmax", 5},
                                                         {"aten::_log_softmax_backward_data", 5},
                                                         {"aten::add_", 20},
                                                         {"aten::addmm", 10},
                                                         {"aten::as_strided", 55},
                                                         {"aten::clamp_min", 5},
                                                         {"aten::copy_", 10},
                                                         {"aten::cross_entropy_loss", 5},
                                                         {"aten::detach", 20},
                                                         {"aten::empty_like", 5},
                                                         {"aten::empty_strided", 5},
                                                         {"aten::expand", 10},
                                                         {"aten::fill_", 15},
                                                         {"aten::linear", 10},
                                                         {"aten::log_softmax", 5},
                                                         {"aten::mm", 15},
                                                         {"aten::nll_loss", 5},
                                                         {"aten::nll_loss_backward", 5},
                                                         {"aten::nll_loss_forward", 5},
                                                         {"aten::nll_loss_nd", 5},
                                                         {"aten::ones_like", 5},
                                                         {"aten::relu", 5},
                                                         {"aten::resolve_conj", 55},
                                                         {"aten::sum", 10},
                                                         {"aten::t", 45},
                                                         {"aten::threshold_backward", 5},
                                                         {"aten::to", 5},
                                                         {"aten::transpose", 45},
                                                         {"aten::view", 10},
                                                         {"aten::zero_", 5},
                                                         {wrapper + "AddmmBackward0", 10},
                                                         {wrapper + "LogSoftmaxBackward0", 5},
                                                         {wrapper + "NllLossBackward0", 5},
                                                         {wrapper + "ReluBackward0", 5},
                                                         {wrapper + "TBackward0", 10},
                                                         {wrapper + "torch::autograd::AccumulateGrad", 20},
                                                         {"detach", 20},
                                                         {"torch::autograd::AccumulateGrad", 20},
                                                         {"train_step", 5}};

struct shape_row {
  const char* key;
  std::int64_t calls, self_bytes;
};
// Sorted by memory: the six rows that torch's table shows. In KB: 5 MB, 640, 640, 640, 640 and 100.
const std::vector<shape_row> torch_shape_rows = {{"aten::mm [[512,64],[64,512]]", 5, 5 * 1048576},
                                                 {"aten::addmm [[512],[64,512],[512,512],[],[]]", 5, 5 * 131072},
                                                 {"aten::clamp_min [[64,512],[]]", 5, 5 * 131072},
                                                 {"aten::mm [[64,10],[10,512]]", 5, 5 * 131072},
                                                 {"aten::threshold_backward [[64,512],[64,512],[]]", 5, 5 * 131072},
                                                 {"aten::mm [[10,64],[64,512]]", 5, 5 * 20480}};

void check_shape_rows(const written_trace& trace, const std::vector<shape_row>& expected) {
  const std::map<std::string, totals> rows = trace.by_shape();
  for (const shape_row& row : expected) {
    CAPTURE(row.key);
    REQUIRE(rows.count(row.key) == 1);
    CHECK(rows.at(row.key).calls == row.calls);
    CHECK(rows.at(row.key).self_bytes == row.self_bytes);
  }
  std::size_t larger = 0;  // nothing else belongs among them
  for (const auto& [key, row] : rows) larger += row.self_bytes >= expected.back().self_bytes;
  CHECK(larger == expected.size());
}

std::int64_t bytes_reported_in(const written_trace& trace, const slice& scope, int& reports) {
  std::int64_t sum = 0;
  reports = 0;
  for (const test::memory_report& m : trace.memory)
    if (m.scope == &scope) {
      sum += m.bytes;
      ++reports;
    }
  return sum;
}

// "1.871ms" in ns, and half of its last digit.
std::pair<double, double> parse_time(const std::string& text) {
  std::size_t used = 0;
  const double value = std::stod(text, &used);
  const std::string unit = text.substr(used);
  const double scale = unit == "us" ? 1e3 : unit == "ms" ? 1e6 : unit == "s" ? 1e9 : 0;
  REQUIRE(scale > 0);
  return {value * scale, 0.00051 * scale};
}

void check_time(const std::string& cell, double expected_ns) {
  const auto [value, half_digit] = parse_time(cell);
  CHECK(std::abs(value - expected_ns) <= half_digit);
}

void check_share(const std::string& cell, double part_ns, double whole_ns) {
  REQUIRE(cell.back() == '%');
  CHECK(std::abs(std::stod(cell) - 100 * part_ns / whole_ns) <= 0.0051);
}

// A printed row against the row that the file gives: self %, self, total %, total, average, memory, self memory, calls.
void check_printed_row(const std::vector<std::string>& cells, const totals& row, double whole_ns) {
  REQUIRE(cells.size() >= 9);
  check_share(cells[1], static_cast<double>(row.self_ns), whole_ns);
  check_time(cells[2], static_cast<double>(row.self_ns));
  check_share(cells[3], static_cast<double>(row.total_ns), whole_ns);
  check_time(cells[4], static_cast<double>(row.total_ns));
  check_time(cells[5], static_cast<double>(row.total_ns) / static_cast<double>(row.calls));
  CHECK(cells[6] == bytes_text(row.total_bytes));
  CHECK(cells[7] == bytes_text(row.self_bytes));
  CHECK(cells[8] == std::to_string(row.calls));
}

std::int64_t whole(const std::map<std::string, totals>& rows) {
  std::int64_t sum = 0;
  for (const auto& [name, row] : rows) sum += row.self_ns;
  return sum;
}

void check_tables(const program_run& program) {
  const std::map<std::string, totals> rows = program.trace.by_name();
  const auto whole_ns = static_cast<double>(whole(rows));
  const auto by_time = table_below(program.out, "Where the time went");
  REQUIRE(by_time.size() == 10);
  std::vector<std::int64_t> printed, all;
  for (const std::vector<std::string>& cells : by_time) {
    CAPTURE(cells);
    const totals& row = find_row(rows, cells[0]);
    check_printed_row(cells, row, whole_ns);
    printed.push_back(row.self_ns);
  }
  for (const auto& [name, row] : rows) all.push_back(row.self_ns);
  std::sort(all.rbegin(), all.rend());
  all.resize(10);
  CHECK(printed == all);

  const std::map<std::string, totals> shapes = program.trace.by_shape();
  const auto by_memory = table_below(program.out, "Where the memory went");
  REQUIRE(by_memory.size() == 6);
  for (const std::vector<std::string>& cells : by_memory) {
    CAPTURE(cells);
    REQUIRE(cells.size() == 10);
    std::string key = cells[0] + " ";
    for (const char c : cells[9])
      if (c != ' ') key += c;
    REQUIRE(shapes.count(key) == 1);
    check_printed_row(cells, shapes.at(key), whole_ns);
  }
}

// The lines about the ten steps.
std::vector<std::string> step_lines(const program_run& program) {
  std::vector<std::string> lines = lines_of(program.out);
  REQUIRE(lines.size() > 10);
  return {lines.begin() + 1, lines.begin() + 11};
}

void check_phases(const program_run& program) {
  const std::vector<std::string> phases = {"NONE",   "NONE",   "WARMUP", "WARMUP",          "RECORD",
                                           "RECORD", "RECORD", "RECORD", "RECORD_AND_SAVE", "NONE"};
  const std::vector<std::string> lines = step_lines(program);
  double previous = 1e9, first = 0;
  for (std::size_t step = 0; step < phases.size(); ++step) {
    const std::vector<std::string> words = words_of(lines[step]);
    REQUIRE(words.size() == 3);
    CHECK(words[0] == std::to_string(step));
    CHECK(words[2] == phases[step]);
    const double loss = std::stod(words[1]);
    CHECK(loss < previous);
    if (step == 0) first = loss;
    previous = loss;
  }
  CHECK(std::abs(first - 2.3026) < 0.5);  // ln 10: at first no class is preferred
  CHECK(previous < 0.5 * first);
}

}  // namespace

TEST_CASE("the example runs through the phases and learns", "[training]") {
  check_phases(run(""));
  check_phases(run("--backward-thread"));
  CHECK(step_lines(run("--backward-thread")) == step_lines(run("")));  // the same arithmetic
  check_phases(run("--layers 3 --batch 32"));
}

// Catches: a mistake in the naive reader itself: torch's file must give every row of the table that torch printed.
TEST_CASE("the reader of these tests gets torch's table from torch's trace", "[training]") {
  const written_trace torch(STEPPROF_TEST_DATA "/torch-2.14.1-seed-capture.json");
  const auto printed = table_below(test::contents_of(STEPPROF_TEST_DATA "/torch-2.14.1-seed-table-all.txt"), "");
  const std::map<std::string, totals> rows = torch.by_name();
  REQUIRE(printed.size() == rows.size());
  for (const std::vector<std::string>& cells : printed) {
    CAPTURE(cells);
    check_printed_row(cells, find_row(rows, cells[0]), static_cast<double>(whole(rows)));
  }
  CHECK(arrow_pairs(torch) == torch_arrows);
}

// The strongest of these tests: the five recorded steps, scope by scope and byte by byte, in torch's file and in ours.
TEST_CASE("every step is what torch recorded", "[training]") {
  const written_trace torch(STEPPROF_TEST_DATA "/torch-2.14.1-seed-capture.json");
  const written_trace& ours = run("").trace;
  for (int step = 4; step <= 8; ++step) {
    const std::string name = "ProfilerStep#" + std::to_string(step);
    CAPTURE(name);
    REQUIRE(torch.named(name).size() == 1);
    REQUIRE(ours.named(name).size() == 1);
    const auto expected = torch.story(*torch.named(name)[0]), actual = ours.story(*ours.named(name)[0]);
    // 112 scopes; 30 memory reports, of which 4 are missing in step 4, where older gradients are dropped.
    REQUIRE(expected.size() == (step == 4 ? 138u : 142u));
    for (std::size_t i = 0; i < expected.size() && i < actual.size(); ++i) REQUIRE(actual[i] == expected[i]);
    CHECK(actual.size() == expected.size());
  }
}

TEST_CASE("the trace holds what torch's holds", "[training]") {
  const written_trace& trace = run("").trace;
  CHECK(trace.categories.at("cpu_op") == 540);
  CHECK(trace.categories.at("user_annotation") == 20);
  CHECK(trace.categories.at("cpu_instant_event") == 146);
  CHECK(trace.categories.at("fwdbwd") == 70);
  CHECK(calls_of(trace) == torch_calls);
  check_shape_rows(trace, torch_shape_rows);
}

TEST_CASE("memory is booked where it was reported", "[training]") {
  const written_trace& trace = run("").trace;
  const std::map<std::string, totals> rows = trace.by_name();
  // A step's gradients: 512 * 512 * 4 + 512 * 4 + 10 * 512 * 4 + 10 * 4 bytes.
  constexpr std::int64_t gradients = 1048576 + 2048 + 20480 + 40;
  const auto check = [&](const std::string& name, std::int64_t total, std::int64_t self) {
    CAPTURE(name);
    CHECK(rows.at(name).total_bytes == total);
    CHECK(rows.at(name).self_bytes == self);
  };
  // What is left at the end are the gradients of the last step. Itself, a step gives back both results of linear layers
  // that no node saved, the first gradient and the loss.
  check("ProfilerStep*", gradients, 0);
  check("train_step", gradients, -5 * (131072 + 2560 + 4 + 4));
  check("Optimizer.zero_grad#SGD.zero_grad", -4 * gradients, -4 * gradients);
  check("Optimizer.step#SGD.step", 0, 0);
  check("aten::addmm", 5 * (131072 + 2560), 5 * (131072 + 2560));
  check("aten::mm", 5 * (131072 + 20480 + 1048576), 5 * (131072 + 20480 + 1048576));
  check("aten::add_", 0, 0);
  check("aten::t", 0, 0);
  check("aten::sum", 5 * (40 + 2048), 5 * (40 + 2048));
  check(wrapper + "AddmmBackward0", 5 * (131072 + 20480 + 40 - 2560 + 1048576 + 2048 - 131072), -5 * (2560 + 131072));
}

// The gradients dropped in step 4 were made before the window: their frees attribute nothing. Those of the other steps
// do.
TEST_CASE("a free counts only when its allocation was seen", "[training]") {
  const written_trace& trace = run("").trace;
  const std::vector<const slice*> drops = trace.named("Optimizer.zero_grad#SGD.zero_grad");
  REQUIRE(drops.size() == 5);
  for (std::size_t i = 0; i < drops.size(); ++i) {
    CAPTURE(i);
    int reports = 0;
    CHECK(bytes_reported_in(trace, *drops[i], reports) == (i == 0 ? 0 : -1071144));
    CHECK(reports == (i == 0 ? 0 : 4));
  }
  // The footer of each table says how many.
  CHECK(run("").out.find("4 frees of memory allocated before this window") != std::string::npos);
  CHECK(run("--backward-thread").out.find("4 frees of memory allocated before this window") != std::string::npos);
  CHECK(run("--layers 3 --batch 32").out.find("6 frees of memory allocated before this window") != std::string::npos);
}

TEST_CASE("sequence numbers and arrows join each op with its node", "[training]") {
  const written_trace& trace = run("").trace;
  const std::int64_t thread = trace.named("train_step").at(0)->tid;
  CHECK(with_number(trace, 27).empty());
  // Seven nodes in each of the four steps before.
  CHECK(with_number(trace, 28) ==
        numbered{{"aten::linear", 0}, {"aten::t", 0}, {wrapper + "TBackward0", thread}, {"TBackward0", thread}});
  CHECK(with_number(trace, 29) ==
        numbered{{"aten::addmm", 0}, {wrapper + "AddmmBackward0", thread}, {"AddmmBackward0", thread}});
  CHECK(with_number(trace, 30) ==
        numbered{{"aten::relu", 0}, {wrapper + "ReluBackward0", thread}, {"ReluBackward0", thread}});
  int with_a_number = 0;
  for (const slice& s : trace.slices) with_a_number += s.sequence() >= 0;
  CHECK(with_a_number == 140);
  CHECK(arrow_pairs(trace) == torch_arrows);
  check_arrows(trace);
}

TEST_CASE("the printed tables are those of the file", "[training]") {
  check_tables(run(""));
  check_tables(run("--backward-thread"));
  check_tables(run("--layers 3 --batch 32"));
}

// The text itself, where it depends on no clock: name, memory, self memory, calls and shapes.
TEST_CASE("the table by shape", "[training]") {
  const auto rows = table_below(run("").out, "Where the memory went");
  REQUIRE(rows.size() == 6);
  const auto is = [&](std::size_t i, const char* name, const char* bytes, const char* shapes) {
    CAPTURE(i);
    REQUIRE(rows[i].size() == 10);
    CHECK(rows[i][0] == name);
    CHECK(rows[i][6] == bytes);
    CHECK(rows[i][7] == bytes);
    CHECK(rows[i][8] == "5");
    CHECK(rows[i][9] == shapes);
  };
  is(0, "aten::mm", "5.00 MB", "[[512, 64], [64, 512]]");
  is(1, "aten::addmm", "640.00 KB", "[[512], [64, 512], [512, 512], [], []]");
  is(2, "aten::clamp_min", "640.00 KB", "[[64, 512], []]");
  is(3, "aten::mm", "640.00 KB", "[[64, 10], [10, 512]]");
  is(4, "aten::threshold_backward", "640.00 KB", "[[64, 512], [64, 512], []]");
  is(5, "aten::mm", "100.00 KB", "[[10, 64], [64, 512]]");
}

TEST_CASE("the example says what stands in its trace", "[training]") {
  const std::string& out = run("").out;
  for (const char* line :
       {"  cpu_op: 540\n", "  user_annotation: 20\n", "  cpu_instant_event: 146\n", "  fwdbwd: 70\n",
        "  28  0  aten::linear\n", "  28  0  aten::t\n", "  28  1  TBackward0\n", "  29  0  aten::addmm\n",
        "  29  1  AddmmBackward0\n", "  30  0  aten::relu\n", "  30  1  ReluBackward0\n"}) {
    CAPTURE(line);
    CHECK(out.find(line) != std::string::npos);
  }
}

// Catches: links and attribution that rely on one thread: arrows lost or drawn to the wrong thread, memory booked to
// the scope open on the thread that waits, frees not matched with allocations made elsewhere.
TEST_CASE("backward on another thread changes threads and nothing else", "[training]") {
  const written_trace& trace = run("--backward-thread").trace;
  CHECK(trace.categories.at("cpu_op") == 540);
  CHECK(trace.categories.at("user_annotation") == 20);
  CHECK(trace.categories.at("cpu_instant_event") == 146);
  CHECK(trace.categories.at("fwdbwd") == 70);
  CHECK(calls_of(trace) == torch_calls);
  check_shape_rows(trace, torch_shape_rows);
  CHECK(arrow_pairs(trace) == torch_arrows);
  check_arrows(trace);

  const std::int64_t main_thread = trace.named("train_step").at(0)->tid;
  CHECK(with_number(trace, 28) ==
        numbered{
            {"aten::linear", 0}, {"aten::t", 0}, {wrapper + "TBackward0", main_thread}, {"TBackward0", main_thread}});
  CHECK(with_number(trace, 29) ==
        numbered{{"aten::addmm", 0}, {wrapper + "AddmmBackward0", main_thread}, {"AddmmBackward0", main_thread}});
  CHECK(with_number(trace, 30) ==
        numbered{{"aten::relu", 0}, {wrapper + "ReluBackward0", main_thread}, {"ReluBackward0", main_thread}});
  std::set<std::int64_t> threads;
  for (const arrow& a : trace.arrows) {
    CHECK(a.from->tid == main_thread);
    threads.insert(a.to->tid);
  }
  CHECK(threads.count(main_thread) == 0);
  CHECK(threads.size() == 5);  // one thread per step, and numbers of threads are not reused

  // What backward allocates and frees is no longer part of train_step: it keeps the frees of both linear layers'
  // results and of the loss, but not that of the first gradient; with linear, relu, cross entropy and zero_grad inside
  // it.
  const std::map<std::string, totals> rows = trace.by_name();
  constexpr std::int64_t self = -5 * (131072 + 2560 + 4);
  CHECK(rows.at("train_step").self_bytes == self);
  CHECK(rows.at("train_step").total_bytes ==
        self + 5 * (131072 + 2560) + 5 * 131072 + 5 * (2560 + 4 + 4) - 4 * 1071144);
  CHECK(rows.at("Optimizer.zero_grad#SGD.zero_grad").self_bytes == -4 * 1071144);
}

// Three linear layers: 512 -> 512, 512 -> 512, 512 -> 10, 32 samples. Per step, in the order of the ops:
//   forward   3 linear { t, addmm { expand, copy_, 2 resolve_conj } }, 2 relu { clamp_min }, the loss as before
//   nodes     3 t, 3 addmm, 2 relu, _log_softmax, nll_loss_forward = 10
//   backward  addmm of layer 3 and 2: t, mm, t, mm, t; of layer 1, whose input needs no gradient: t, mm, t;
//             each followed by sum and view; 3 TBackward0 { t }, 2 ReluBackward0, 6 AccumulateGrad
//   memory    allocated: addmm 3, clamp_min 2, _log_softmax 1, nll_loss_forward 2, ones_like 1, nll_loss_backward 1,
//             _log_softmax_backward_data 1, mm 5, sum 3, threshold_backward 2 = 21, each freed once: 42 events;
//             the 6 gradients dropped in the first recorded step were made before it
TEST_CASE("three layers and a batch of 32", "[training]") {
  const program_run& program = run("--layers 3 --batch 32");
  const written_trace& trace = program.trace;
  const std::map<std::string, std::int64_t> calls = calls_of(trace);
  const auto per_step = [&](const std::string& name, std::int64_t expected) {
    CAPTURE(name);
    REQUIRE(calls.count(name) == 1);
    CHECK(calls.at(name) == 5 * expected);
  };
  per_step("train_step", 1);
  per_step("ProfilerStep*", 1);
  per_step("Optimizer.zero_grad#SGD.zero_grad", 1);
  per_step("Optimizer.step#SGD.step", 1);
  per_step("aten::linear", 3);
  per_step("aten::addmm", 3);
  per_step("aten::relu", 2);
  per_step("aten::clamp_min", 2);
  per_step("aten::t", 3 + (3 + 3 + 2) + 3);
  per_step("aten::transpose", 14);
  per_step("aten::as_strided", 14 + 3);  // one for each transpose and for each expand
  per_step("aten::expand", 3);
  per_step("aten::copy_", 3);
  per_step("aten::mm", 2 + 2 + 1);
  // addmm: result and input; mm for an input: result and both operands; mm for a weight: result and activation.
  per_step("aten::resolve_conj", 3 * 2 + 2 * 3 + 3 * 2);
  per_step("aten::sum", 3);
  per_step("aten::view", 3);
  per_step("aten::fill_", 1 + 3);  // ones_like and each sum
  per_step("aten::threshold_backward", 2);
  per_step("aten::add_", 6);
  per_step("aten::detach", 6);
  per_step("aten::cross_entropy_loss", 1);
  for (const std::string& prefix : {std::string(), wrapper}) {
    per_step(prefix + "AddmmBackward0", 3);
    per_step(prefix + "TBackward0", 3);
    per_step(prefix + "ReluBackward0", 2);
    per_step(prefix + "LogSoftmaxBackward0", 1);
    per_step(prefix + "NllLossBackward0", 1);
    per_step(prefix + "torch::autograd::AccumulateGrad", 6);
  }
  CHECK(trace.categories.at("user_annotation") == 20);
  CHECK(trace.categories.at("cpu_instant_event") == 5 * 42 - 6);

  // 32 * 512 * 4 = 65536, 32 * 10 * 4 = 1280, 512 * 512 * 4 = 1048576, 10 * 512 * 4 = 20480 bytes.
  check_shape_rows(trace, {{"aten::mm [[512,32],[32,512]]", 10, 10 * 1048576},
                           {"aten::addmm [[512],[32,512],[512,512],[],[]]", 10, 10 * 65536},
                           {"aten::clamp_min [[32,512],[]]", 10, 10 * 65536},
                           {"aten::threshold_backward [[32,512],[32,512],[]]", 10, 10 * 65536},
                           {"aten::mm [[32,10],[10,512]]", 5, 5 * 65536},
                           {"aten::mm [[32,512],[512,512]]", 5, 5 * 65536},
                           {"aten::mm [[10,32],[32,512]]", 5, 5 * 20480}});

  const std::map<std::string, totals> rows = trace.by_name();
  constexpr std::int64_t gradients = 2 * (1048576 + 2048) + 20480 + 40;
  CHECK(rows.at("ProfilerStep*").total_bytes == gradients);
  CHECK(rows.at("train_step").total_bytes == gradients);
  CHECK(rows.at("train_step").self_bytes == -5 * (2 * 65536 + 1280 + 4 + 4));
  CHECK(rows.at("Optimizer.zero_grad#SGD.zero_grad").self_bytes == -4 * gradients);
  CHECK(rows.at("aten::addmm").self_bytes == 5 * (2 * 65536 + 1280));
  CHECK(rows.at("aten::mm").self_bytes == 5 * (2 * 1048576 + 2 * 65536 + 20480));
  CHECK(rows.at("aten::sum").self_bytes == 5 * (2 * 2048 + 40));
  CHECK(rows.at(wrapper + "AddmmBackward0").self_bytes == -5 * (2 * 65536 + 1280));

  // Ten nodes in each of the four steps before: t, addmm, relu, t, addmm, relu, t, addmm, _log_softmax, nll.
  CHECK(with_number(trace, 39).empty());
  CHECK(with_number(trace, 40) ==
        numbered{{"aten::linear", 0}, {"aten::t", 0}, {wrapper + "TBackward0", 1}, {"TBackward0", 1}});
  CHECK(with_number(trace, 42) == numbered{{"aten::relu", 0}, {wrapper + "ReluBackward0", 1}, {"ReluBackward0", 1}});
  CHECK(with_number(trace, 49) == numbered{{"aten::nll_loss_nd", 0},
                                           {"aten::nll_loss", 0},
                                           {"aten::nll_loss_forward", 0},
                                           {wrapper + "NllLossBackward0", 1},
                                           {"NllLossBackward0", 1}});
  const std::map<std::pair<std::string, std::string>, int> arrows = {
      {{"aten::t", "TBackward0"}, 15},
      {{"aten::addmm", "AddmmBackward0"}, 15},
      {{"aten::relu", "ReluBackward0"}, 10},
      {{"aten::_log_softmax", "LogSoftmaxBackward0"}, 5},
      {{"aten::nll_loss_forward", "NllLossBackward0"}, 5}};
  CHECK(arrow_pairs(trace) == arrows);
  check_arrows(trace);

  // All of that on a thread for each step.
  const written_trace& apart = run("--backward-thread --layers 3 --batch 32").trace;
  CHECK(calls_of(apart) == calls);
  for (const char* category : {"cpu_op", "user_annotation", "cpu_instant_event", "fwdbwd"})
    CHECK(apart.categories.at(category) == trace.categories.at(category));
  CHECK(arrow_pairs(apart) == arrows);
  check_arrows(apart);
  const std::int64_t main_thread = apart.named("train_step").at(0)->tid;
  std::set<std::int64_t> threads;
  for (const arrow& a : apart.arrows) {
    CHECK(a.from->tid == main_thread);
    CHECK(a.to->tid != main_thread);
    threads.insert(a.to->tid);
  }
  CHECK(threads.size() == 5);
}

// Catches: an example that accepts a typing error and silently runs something else.
TEST_CASE("options that make no sense are refused", "[training]") {
  for (const char* options : {"--layers 0", "--layers", "--batch x", "--steps -1", "--bakward-thread"}) {
    CAPTURE(options);
    const std::string command = std::string("'" STEPPROF_TRAINING "' ") + options + " >/dev/null 2>&1";
    CHECK(std::system(command.c_str()) != 0);
  }
}

}  // namespace training_test
