// A PyTorch C++ program under the profiler: ten training steps of which five are recorded, every op of libtorch in the
// tables and in the trace, without a line about the profiler in the model.
#include <exception>
#include <iostream>
#include <string>

#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <stepprof/adapters/torch.hpp>
#include <stepprof/stepprof.hpp>

namespace {

struct network : torch::nn::Module {
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(512, 512));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(512, 10));

  // torch::linear, as Python's Linear does it: the C++ one of libtorch 1.13 calls addmm itself.
  torch::Tensor forward(const torch::Tensor& points) {
    const torch::Tensor activation = torch::relu(torch::linear(points, hidden->weight, hidden->bias));
    return torch::linear(activation, last->weight, last->bias);
  }
};

torch::Tensor loss_of(network& model, const torch::Tensor& points, const torch::Tensor& labels) {
  return torch::cross_entropy_loss(model.forward(points), labels);
}

// Gradients are dropped, not zeroed, as PyTorch does by default.
void zero_grad(torch::optim::Optimizer& optimizer) {
  RECORD_USER_SCOPE("Optimizer.zero_grad#SGD.zero_grad");  // libtorch's own scopes are recorded ...
  for (const torch::Tensor& parameter : optimizer.param_groups()[0].params()) parameter.mutable_grad().reset();
}

void update(torch::optim::Optimizer& optimizer) {
  STEPPROF_SCOPE("Optimizer.step#SGD.step");  // ... and so are ours.
  optimizer.step();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string out = argc > 1 ? argv[1] : "trace.json";
  torch::manual_seed(1);
  network model;
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  const torch::Tensor points = torch::randn({64, 512});
  const torch::Tensor labels = torch::randint(10, {64}, torch::kLong);

  stepprof::profile_options options;
  options.schedule = stepprof::schedule{/*wait*/ 2, /*warmup*/ 2, /*active*/ 5, /*repeat*/ 1};
  options.record_shapes = true;
  options.profile_memory = true;

  // [torch]
  const stepprof::torch_observer torch_ops;  // from here on, profiles record what libtorch does
  stepprof::profile prof(options);
  for (int step = 0; step < 10; ++step) {
    {
      STEPPROF_SCOPE("train_step");
      zero_grad(optimizer);
      loss_of(model, points, labels).backward();
      update(optimizer);
    }
    prof.step();
  }
  prof.stop();
  // [/torch]

  std::cout << "Where the time went:\n" << prof.key_averages().table("self_cpu_time_total", 10);
  stepprof::key_averages_options by_shape;
  by_shape.group_by_input_shape = true;
  std::cout << "\nWhere the memory went, by input shape:\n"
            << prof.key_averages(by_shape).table("self_cpu_memory_usage", 6);
  prof.export_chrome_trace(out);
  std::cout << "\nThe trace is in " << out << ": open it in https://ui.perfetto.dev or chrome://tracing\n";
} catch (const std::exception& problem) {
  std::cerr << "torch_training: " << problem.what() << "\n";
  return 1;
}
