// torch's own tables from torch's own trace: both were printed by one run of torch 2.14.1 (tests/golden).
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <support/catch.hpp>
#include <support/split_lines.hpp>

#include <stepprof/output/table.hpp>
#include <stepprof/tools/trace_reader.hpp>

namespace golden_test {

using namespace stepprof;

namespace {
const std::string folder = STEPPROF_TEST_DATA "/torch-2.14.1-seed-";

const trace& capture() {
  static const trace t = read_trace_file(folder + "capture.json");
  return t;
}
std::vector<std::string> torch_table(const std::string& name) {
  std::ifstream in(folder + "table-" + name + ".txt", std::ios::binary);
  REQUIRE(in.good());
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty() || text.back() != '\n') text += '\n';
  return test::split_lines(text);
}
// Both lines where two texts differ.
std::vector<std::pair<std::string, std::string>> differences(const std::vector<std::string>& torch,
                                                             const std::string& ours) {
  const std::vector<std::string> lines = test::split_lines(ours);
  REQUIRE(lines.size() == torch.size());
  std::vector<std::pair<std::string, std::string>> result;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i] != torch[i]) result.emplace_back(torch[i], lines[i]);
  return result;
}
struct row_fact {
  const char* name;
  std::int64_t calls, total_bytes, self_bytes;
};
}  // namespace

// Catches: any deviation of sums, order, units, widths or rounding from torch's text.
TEST_CASE("the capture sorted by self time is torch's table to the character", "[golden]") {
  CHECK(differences(torch_table("self-cpu"), key_averages(capture()).table("self_cpu_time_total", 10)).empty());
}

// Catches: the same for all rows. The one repair that shows in this capture: a name of 53 characters fits a column of
// 55, so it is not cut (torch cuts from 52 on).
TEST_CASE("all rows of the capture are torch's but for the name that fits", "[golden]") {
  const auto found = differences(torch_table("all"), key_averages(capture()).table("self_cpu_time_total", -1));
  const std::string numbers =
      "         0.21%      14.468us         0.77%      52.039us      10.408us      12.48 KB         -20 B             "
      "5  ";
  REQUIRE(found.size() == 1);
  CHECK(found[0].first == "autograd::engine::evaluate_function: NllLossBackward..." + numbers);
  CHECK(found[0].second == "  autograd::engine::evaluate_function: NllLossBackward0" + numbers);
}

// Catches: shapes not grouped, not printed as torch prints them, or rows of equal memory in another order.
TEST_CASE("the capture grouped by shape is torch's table to the character", "[golden]") {
  key_averages_options options;
  options.group_by_input_shape = true;
  const event_averages rows = key_averages(capture(), options);
  CHECK(differences(torch_table("shapes"), rows.table("self_cpu_memory_usage", 6)).empty());
}

// Catches: memory booked to the wrong scope, or calls counted wrongly. The values are torch's: the exact bytes follow
// from the allocations of one step (a 512x512 float is 1048576 bytes, and so on), the others are those of its table.
TEST_CASE("calls and bytes of the capture are exact", "[golden]") {
  const event_averages rows = key_averages(capture());
  const std::int64_t weights = 1048576 + 2048 + 20480 + 40;
  const row_fact facts[] = {
      {"aten::addmm", 10, 5 * (131072 + 2560), 5 * (131072 + 2560)},
      {"aten::mm", 15, 5 * (131072 + 20480 + 1048576), 5 * (131072 + 20480 + 1048576)},
      {"Optimizer.step#SGD.step", 5, 0, 0},
      {"aten::add_", 20, 0, 0},
      {"Optimizer.zero_grad#SGD.zero_grad", 5, -4 * weights, -4 * weights},
      {"ProfilerStep*", 5, weights, 0},
      {"aten::t", 45, 0, 0},
      {"aten::sum", 10, 5 * (40 + 2048), 5 * (40 + 2048)},
  };
  for (const row_fact& fact : facts) {
    INFO(fact.name);
    const event_average& row = rows.at(fact.name);
    CHECK(row.calls == fact.calls);
    CHECK(row.total_memory.net_bytes() == fact.total_bytes);
    CHECK(row.self_memory.net_bytes() == fact.self_bytes);
  }
  CHECK(rows.at("Optimizer.zero_grad#SGD.zero_grad").self_memory.freed_bytes == 4 * weights);
  CHECK(rows.at("aten::mm").self_memory.allocations == 15);
  CHECK(rows.find("[memory]") == nullptr);
  CHECK(rows.self_cpu_time_total_ns() == 6783192);  // torch printed 6783.192 us
  CHECK(rows.total_average().calls == 560);         // and 560 function events
  CHECK(rows.total_average().total_ns == 6783192);  // the steps are all that is at top level
}

// Catches: a reader that loses events, arrows or the numbers that join them.
TEST_CASE("the capture is read completely", "[golden]") {
  const trace& t = capture();
  CHECK(t.events().size() == 560);
  CHECK(std::count_if(t.events().begin(), t.events().end(),
                      [](const trace_event& e) { return e.kind() == scope_kind::user_annotation; }) == 20);
  CHECK(t.memory().size() == 146);
  CHECK(t.losses().unmatched_frees == 0);
  CHECK(t.losses().kept == 560);
  CHECK(t.notes().empty());
  REQUIRE(t.tracks().size() == 1);
  CHECK(t.tracks()[0].id == 31789);
  CHECK(t.tracks()[0].name == "thread 31789 (python3.14)");
  CHECK(t.processes()[0].name == "python3.14");
  CHECK(t.processes()[0].labels == "CPU");
  CHECK(t.info().has_memory);
  CHECK(t.info().has_shapes);
  CHECK(t.info().trace_id == "5B06EA57D79D4F6EA5E25717E1EC0C99");
  CHECK(t.info().base_time_ns == 1790857026000000000);
  CHECK(t.info().begin_ns == 5113619157973306);  // "Trace" span and "Record Window End" of the file, in ns
  CHECK(t.info().end_ns == 5113619166002510);
  REQUIRE(t.steps().size() == 5);
  CHECK(t.steps()[0].number == 4);
  CHECK(t.steps()[0].begin_ns == 5113619158178999);  // 5113619158178.999: a double would lose the last digit
  CHECK(t.steps()[0].end_ns == 5113619160456291);
  CHECK(t.info().first_step == 4);
  CHECK(t.info().last_step == 8);
}

// Catches: arrows bound to a child or a wrapper instead of the node, and nodes taken for plain operations.
TEST_CASE("the 35 arrows of the capture join the pairs that torch drew", "[golden]") {
  const trace& t = capture();
  std::vector<std::string> pairs;
  for (const trace_link& link : t.links()) {
    const trace_event& from = t.events()[link.from];
    const trace_event& to = t.events()[link.to];
    pairs.push_back(std::string(t.name(from)) + " -> " + std::string(t.name(to)));
    CHECK(link.kind == link_kind::forward_backward);
    CHECK(to.kind() == scope_kind::backward_op);
    CHECK(from.kind() == scope_kind::op);
    CHECK(t.detail(to).sequence_number == t.detail(from).sequence_number);
    CHECK(t.detail(to).forward_thread == t.tracks()[from.track].id);  // torch wrote 1, its own number of that thread
  }
  const auto count = [&pairs](const char* pair) { return std::count(pairs.begin(), pairs.end(), pair); };
  CHECK(pairs.size() == 35);
  CHECK(count("aten::t -> TBackward0") == 10);
  CHECK(count("aten::addmm -> AddmmBackward0") == 10);
  CHECK(count("aten::relu -> ReluBackward0") == 5);
  CHECK(count("aten::_log_softmax -> LogSoftmaxBackward0") == 5);
  CHECK(count("aten::nll_loss_forward -> NllLossBackward0") == 5);
  CHECK(t.links_are_complete());
  const auto backward = [](const trace_event& e) { return e.kind() == scope_kind::backward_op; };
  CHECK(std::count_if(t.events().begin(), t.events().end(), backward) == 35);
}

// Catches: shapes, types and values read in another form than that of recorded ones.
TEST_CASE("inputs of the capture are kept in the form that torch prints", "[golden]") {
  const trace& t = capture();
  const auto addmm = std::find_if(t.events().begin(), t.events().end(),
                                  [&t](const trace_event& e) { return t.name(e) == "aten::addmm"; });
  REQUIRE(addmm != t.events().end());
  const event_detail& d = t.detail(*addmm);
  CHECK(t.text(d.input_dims) == "[[512], [64, 512], [512, 512], [], []]");
  CHECK(t.text(d.input_strides) == "[[1], [512, 1], [1, 512], [], []]");
  CHECK(t.text(d.input_types) == R"(["float", "float", "float", "Scalar", "Scalar"])");
  CHECK(t.text(d.concrete_inputs) == R"(["", "", "", "1", "1"])");
  CHECK(d.sequence_number == 29);
}

}  // namespace golden_test
