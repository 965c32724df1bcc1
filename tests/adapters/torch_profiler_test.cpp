// Catches: figures that are not libtorch's own: the same steps, recorded in turns by its profiler and by us.
#include <support/torch_recording.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace torch_profiler_test {

namespace {

using namespace torch::profiler::impl;

using counts = std::map<std::string, std::int64_t>;

// What one recording says: calls by name, and the memory reports in order.
struct report {
  std::string scope;  // ours: the innermost scope
  std::int64_t bytes = 0, time_us = 0;
};
struct range {
  std::string name;
  std::int64_t begin_us = 0, end_us = 0;
};
struct figures {
  counts calls;
  std::vector<report> memory;
  std::vector<range> ranges;  // libtorch's
};

class training {
 public:
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      RECORD_USER_SCOPE("train_step");
      drop_gradients();
      loss().backward();
      const torch::NoGradGuard none;
      for (const torch::Tensor& p : parameters_) p.add_(p.grad(), -0.01);
    }
  }

 private:
  void drop_gradients() {
    RECORD_USER_SCOPE("zero_grad");
    for (const torch::Tensor& p : parameters_) p.mutable_grad().reset();
  }
  torch::Tensor loss() {
    const torch::Tensor activation = torch::relu(torch::linear(points_, parameters_[0], parameters_[1]));
    return torch::cross_entropy_loss(torch::linear(activation, parameters_[2], parameters_[3]), labels_);
  }

  std::vector<torch::Tensor> parameters_ = {test::parameter({64, 32}), test::parameter({64}), test::parameter({10, 64}),
                                            test::parameter({10})};
  torch::Tensor points_ = torch::rand({16, 32}), labels_ = torch::zeros({16}, torch::kLong);
};

template <class Body>
figures by_torch(Body body) {
  const ProfilerConfig config(ProfilerState::KINETO, /*report_input_shapes*/ true, /*profile_memory*/ true);
  torch::autograd::profiler::prepareProfiler(config, {ActivityType::CPU});
  torch::autograd::profiler::enableProfiler(config, {ActivityType::CPU});
  body();
  figures result;
  const auto recorded = torch::autograd::profiler::disableProfiler();
  for (const auto& event : recorded->events()) {
    const auto begin = static_cast<std::int64_t>(event.startUs());
    if (event.name() == "[memory]") {
      result.memory.push_back({"", event.nBytes(), begin});
      continue;
    }
    ++result.calls[event.name()];
    result.ranges.push_back({event.name(), begin, begin + static_cast<std::int64_t>(event.durationUs())});
  }
  std::stable_sort(result.memory.begin(), result.memory.end(),
                   [](const report& a, const report& b) { return a.time_us < b.time_us; });
  return result;
}

template <class Body>
figures by_us(Body body) {
  const stepprof::trace t = test::recorded_torch(body);
  figures result;
  for (const stepprof::trace_event& e : t.events()) ++result.calls[std::string(t.name(e))];
  for (const stepprof::memory_event& m : t.memory())
    result.memory.push_back({m.event == stepprof::npos ? "" : test::name_of(t, m.event), m.bytes, 0});
  return result;
}

std::vector<report> allocations(const std::vector<report>& reports) {
  std::vector<report> result;
  std::copy_if(reports.begin(), reports.end(), std::back_inserter(result), [](const report& r) { return r.bytes > 0; });
  return result;
}

// libtorch books a report to every range that holds its time, both ends included, and this version keeps begin and
// length of a range each in whole microseconds: an end may come out two of them too early, and near a border the report
// goes to others, too. So our scope is one of the ranges there, and where no border is near it is the innermost.
constexpr std::int64_t near_us = 2;
void check_scope(const report& ours, const report& torchs, const std::vector<range>& ranges) {
  bool is_among = false, is_near_border = false;
  const range* innermost = nullptr;
  for (const range& r : ranges) {
    const std::int64_t behind_begin = torchs.time_us - r.begin_us, before_end = r.end_us + near_us - torchs.time_us;
    if (behind_begin < 0 || before_end < 0) continue;
    is_among = is_among || r.name == ours.scope;
    is_near_border = is_near_border || behind_begin < near_us || before_end <= 2 * near_us;
    if (innermost == nullptr || r.begin_us >= innermost->begin_us) innermost = &r;
  }
  CHECK(is_among);
  if (!is_near_border && innermost != nullptr) CHECK(innermost->name == ours.scope);
}

void check_reports(const std::vector<report>& ours, const std::vector<report>& torchs,
                   const std::vector<range>& ranges) {
  REQUIRE(ours.size() == torchs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    CAPTURE(i, ours[i].scope);
    CHECK(ours[i].bytes == torchs[i].bytes);
    check_scope(ours[i], torchs[i], ranges);
  }
}

}  // namespace

TEST_CASE("calls and bytes of every op are libtorch's own, block by block", "[torch_profiler]") {
  training model;
  model.steps(2);
  figures ours = by_us([&] { model.steps(3); }), torchs = by_torch([&] { model.steps(3); });
  CHECK(ours.calls.at("aten::addmm") == 6);
  CHECK(ours.calls.size() > 30);
  CHECK(ours.calls == torchs.calls);
  CHECK(ours.memory.size() > 70);
  check_reports(ours.memory, torchs.memory, torchs.ranges);
  // libtorch's table of blocks outlives its windows (as its Total Allocated drifts): from the second window on it may
  // take a block for known that was allocated outside, at the address of one that it saw before. Only frees differ.
  for (int block = 0; block < 3; ++block) {
    ours = by_us([&] { model.steps(3); });
    torchs = by_torch([&] { model.steps(3); });
    CHECK(ours.calls == torchs.calls);
    check_reports(allocations(ours.memory), allocations(torchs.memory), torchs.ranges);
    CHECK(torchs.memory.size() >= ours.memory.size());
  }
}

// Catches: one profiler that takes the other's callbacks, its thread's state, or its reports.
TEST_CASE("both record at the same time, either may begin and end first", "[torch_profiler]") {
  training model;
  model.steps(2);
  const figures alone = by_us([&] { model.steps(2); });
  figures ours, torchs;
  ours = by_us([&] { torchs = by_torch([&] { model.steps(2); }); });
  CHECK(ours.calls == alone.calls);
  CHECK(torchs.calls == alone.calls);
  check_reports(allocations(alone.memory), allocations(torchs.memory), torchs.ranges);
  CHECK(allocations(ours.memory).size() == allocations(alone.memory).size());
  torchs = by_torch([&] { ours = by_us([&] { model.steps(2); }); });
  CHECK(ours.calls == alone.calls);
  CHECK(torchs.calls == alone.calls);
  CHECK(allocations(torchs.memory).size() == allocations(alone.memory).size());
  REQUIRE(ours.memory.size() == alone.memory.size());
  for (std::size_t i = 0; i < alone.memory.size(); ++i) {
    CHECK(ours.memory[i].scope == alone.memory[i].scope);
    CHECK(ours.memory[i].bytes == alone.memory[i].bytes);
  }
}

}  // namespace torch_profiler_test
