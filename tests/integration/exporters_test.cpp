#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <support/catch.hpp>
#include <support/random_trace.hpp>

#include <stepprof/stepprof.hpp>

namespace exporters_test {

using namespace stepprof;

namespace {

using exporter = std::function<std::string(const trace&)>;

// Everything that shows a trace as text.
std::vector<exporter> all_exporters() {
  std::vector<exporter> all;
  all.emplace_back([](const trace& t) {
    std::string text;
    write_chrome_trace(t, text);
    return text;
  });
  for (const char* metric : {"self_cpu_time_total", "self_allocated", "calls"})
    for (const stack_source source : {stack_source::scopes, stack_source::native})
      all.emplace_back([=](const trace& t) {
        std::error_code ec;
        return folded_stacks(t, metric, source, ec) + ec.message();
      });
  all.emplace_back([](const trace& t) {
    std::error_code ec;
    return speedscope_json(t, ec) + ec.message();
  });
  all.emplace_back([](const trace& t) { return memory_timeline_svg(t); });
  all.emplace_back([](const trace& t) { return memory_timeline_html(t); });
  all.emplace_back([](const trace& t) { return memory_timeline_json(t); });
  for (const std::size_t stack : {0u, 2u})
    all.emplace_back([=](const trace& t) {
      key_averages_options options;
      options.group_by_input_shape = options.statistics = true;
      options.group_by_stack_n = stack;
      const event_averages averages = key_averages(t, options);
      return averages.table("self_cpu_time_total", -1) + to_csv(averages) + to_json(averages);
    });
  all.emplace_back([](const trace& t) { return event_rows(t).table("", -1); });
  all.emplace_back([](const trace& t) {
    const step_times steps = steps_of(t);
    return table(steps) + to_csv(steps) + to_json(steps);
  });
  return all;
}

}  // namespace

// Catches: an exporter that changes the trace, keeps something between two calls, or depends on what another thread
// exports meanwhile.
TEST_CASE("exporters of two threads, in random order, write the same bytes each time", "[exporters]") {
  constexpr std::uint64_t seed = 20260802;
  constexpr int turns = 100;  // of both threads together
  const trace t = test::random_trace::make(seed, 60);
  const std::vector<exporter> exporters = all_exporters();
  std::vector<std::string> expected;
  for (const exporter& write : exporters) expected.push_back(write(t));
  std::atomic<int> wrong{0};
  const auto work = [&](std::uint64_t own_seed) {
    std::mt19937_64 random(own_seed);
    std::vector<std::size_t> order(exporters.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int turn = 0; turn < turns / 2; ++turn) {
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t which : order) wrong += exporters[which](t) != expected[which] ? 1 : 0;
    }
  };
  std::thread other(work, seed + 1);
  work(seed + 2);
  other.join();
  INFO("seed " << seed);
  CHECK(wrong == 0);
}

}  // namespace exporters_test
