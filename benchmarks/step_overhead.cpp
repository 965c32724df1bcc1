// What profiling costs a whole step: the step of the training example with shapes and memory recorded, against the same
// step unrecorded, in alternating blocks of one run.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <stepprof/stepprof.hpp>
#include <stepprof/timer/measurement.hpp>

#include "support/report.hpp"
#include "training/data.hpp"
#include "training/engine.hpp"
#include "training/model.hpp"
#include "training/sgd.hpp"

namespace {

using namespace training;

constexpr std::int64_t features = 512;
constexpr std::int64_t classes = 10;
constexpr std::int64_t batch = 64;
constexpr std::int64_t block_steps = 5;  // the last of a block delivers the window, so it is not timed

bool is_recorded(std::int64_t step) {
  return step / block_steps % 2 != 0;
}

stepprof::profile_options blocks_in_turn() {
  stepprof::profile_options options;
  options.record_shapes = true;
  options.profile_memory = true;
  options.schedule = [](std::int64_t step) {
    if (!is_recorded(step)) return stepprof::action::none;
    return step % block_steps == block_steps - 1 ? stepprof::action::record_and_save : stepprof::action::record;
  };
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::report out(argc, argv);
  const std::int64_t blocks = out.quick() ? 20 : 400;
  std::mt19937 random(1);
  const dataset data = make_dataset(batch, features, classes, random);
  const mlp model(2, features, classes, random);
  const sgd optimizer(model.parameters(), 0.01);
  tape on;

  std::vector<double> times[2];
  stepprof::profile prof(blocks_in_turn());
  stepprof::set_diagnostics_hook(
      [](const stepprof::diagnostic&) {});  // that there is no warm-up: blocks warm each other
  for (std::int64_t step = 0; step < blocks * block_steps; ++step) {
    const std::int64_t begin = stepprof::detail::steady_ns();
    {
      STEPPROF_SCOPE("train_step");
      optimizer.zero_grad();
      backward(cross_entropy_loss(on, model(on, data.points), data.labels));
      optimizer.step();
    }
    const bool delivers = step % block_steps == block_steps - 1;
    if (!delivers) prof.step();
    const std::int64_t end = stepprof::detail::steady_ns();
    if (delivers) prof.step();
    if (!delivers && step >= 2 * block_steps)
      times[is_recorded(step) ? 1 : 0].push_back(static_cast<double>(end - begin) / 1000);
  }
  prof.stop();
  const auto scopes = static_cast<double>(prof.result().events().size()) / block_steps;
  out.add({"step_overhead", "a training step recorded, shapes and memory on", stepprof::detail::median_of(times[1]),
           "us", "the step unrecorded", stepprof::detail::median_of(times[0]), "ratio <= 1.03"});
  out.add({"step_overhead_fastest", "the fastest of them", *std::min_element(times[1].begin(), times[1].end()), "us",
           "the step unrecorded", *std::min_element(times[0].begin(), times[0].end()), ""});
  out.add({"step_scopes", "scopes in a step", scopes, "scopes", "", 0, ""});
}
