// Trains a small network for ten steps, of which five are recorded, and shows where the time and the memory went.
//
// The network, its autograd and its optimizer are in the headers beside this file. They mark their ops and report their
// memory through <stepprof/record.hpp>; none of them knows that there is a schedule, or whether anybody records.
#include <cstdint>
#include <exception>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <stepprof/stepprof.hpp>

#include "command_line.hpp"
#include "data.hpp"
#include "engine.hpp"
#include "model.hpp"
#include "sgd.hpp"
#include "trace_file.hpp"

namespace {

using namespace training;

constexpr std::int64_t features = 512;
constexpr std::int64_t classes = 10;
constexpr double learning_rate = 0.1;

// Forward, loss and backward. What the pass back needs lives as long as the loss: until this returns.
float compute_gradients(tape& on, const mlp& model, const dataset& data, bool on_another_thread) {
  const variable loss = cross_entropy_loss(on, model(on, data.points), data.labels);
  if (on_another_thread)
    std::thread([&] { backward(loss); }).join();
  else
    backward(loss);
  return loss.value().item();
}

void print_steps(const stepprof::schedule& phases, const std::vector<float>& losses) {
  std::cout << "step  loss    phase\n";
  for (std::size_t step = 0; step < losses.size(); ++step)
    std::cout << fmt::format("{:4}  {:.4f}  {}\n", step, losses[step],
                             to_string(phases(static_cast<std::int64_t>(step))));
}

}  // namespace

int main(int argc, char** argv) try {
  const settings chosen = parse_command_line(argc, argv);
  std::mt19937 random(1);
  const dataset data = make_dataset(chosen.batch, features, classes, random);
  const mlp model(chosen.layers, features, classes, random);
  const sgd optimizer(model.parameters(), learning_rate);
  tape on;

  const stepprof::schedule phases{/*wait*/ 2, /*warmup*/ 2, /*active*/ 5, /*repeat*/ 1};
  stepprof::profile_options options;
  options.schedule = phases;
  options.record_shapes = true;
  options.profile_memory = true;

  std::vector<float> losses;
  stepprof::profile prof(options);
  for (std::int64_t step = 0; step < chosen.steps; ++step) {
    {
      stepprof::record_function scope("train_step");
      optimizer.zero_grad();
      losses.push_back(compute_gradients(on, model, data, chosen.backward_thread));
      optimizer.step();
    }
    prof.step();
  }
  prof.stop();

  print_steps(phases, losses);
  std::cout << "\nWhere the time went:\n" << prof.key_averages().table("self_cpu_time_total", 10);

  stepprof::key_averages_options by_shape;
  by_shape.group_by_input_shape = true;
  std::cout << "\nWhere the memory went, by input shape:\n"
            << prof.key_averages(by_shape).table("self_cpu_memory_usage", 6) << "\n";

  prof.export_chrome_trace(chosen.out);
  print_trace_file(chosen.out);
  std::cout << "\nThe trace is in " << chosen.out << ": open it in https://ui.perfetto.dev or chrome://tracing\n";
} catch (const std::exception& problem) {
  std::cerr << "training: " << problem.what() << "\n";
  return 1;
}
