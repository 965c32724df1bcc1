// What recording costs a PyTorch C++ program: a training step recorded by us and by libtorch's own profiler, shapes and
// memory on, each against the same step unrecorded, in turns.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <ATen/Context.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <stepprof/adapters/torch.hpp>
#include <stepprof/stepprof.hpp>
#include <stepprof/timer/compare_pair.hpp>

#include "support/report.hpp"

namespace {

// The program of examples/torch_training.
class training {
 public:
  void step() {
    RECORD_USER_SCOPE("train_step");
    for (const torch::Tensor& p : optimizer_.param_groups()[0].params()) p.mutable_grad().reset();
    loss().backward();
    optimizer_.step();
  }

 private:
  torch::Tensor loss() {
    const torch::Tensor activation = torch::relu(torch::linear(points_, hidden_->weight, hidden_->bias));
    return torch::cross_entropy_loss(torch::linear(activation, last_->weight, last_->bias), labels_);
  }
  std::vector<torch::Tensor> parameters() const { return {hidden_->weight, hidden_->bias, last_->weight, last_->bias}; }

  torch::nn::Linear hidden_{512, 512};
  torch::nn::Linear last_{512, 10};
  torch::optim::SGD optimizer_{parameters(), torch::optim::SGDOptions(0.01)};
  torch::Tensor points_ = torch::randn({64, 512});
  torch::Tensor labels_ = torch::randint(10, {64}, torch::kLong);
};

// Which library multiplies the matrices: without an optimised one, all that is measured is how slow the other is.
std::string blas() {
  using get_text = char* (*)();
  const auto config = reinterpret_cast<get_text>(dlsym(RTLD_DEFAULT, "openblas_get_config"));
  if (config != nullptr) return config();
  return at::hasMKL() ? "MKL" : "not known, maybe the reference BLAS";
}

stepprof::profile_options everything() {
  stepprof::profile_options options;
  options.record_shapes = options.profile_memory = true;
  options.schedule = [](std::int64_t step) { return step == 0 ? stepprof::action::warmup : stepprof::action::record; };
  return options;
}

// Ours around a block. Its first step, which is not timed, is the warm-up.
class our_recording {
 public:
  void begin(const std::function<void()>& step) {
    prof_ = std::make_unique<stepprof::profile>(everything());
    step();
    prof_->step();
  }
  void end() {
    prof_->stop();
    events = prof_->result().events().size();
    prof_.reset();
  }
  std::size_t events = 0;

 private:
  std::unique_ptr<stepprof::profile> prof_;
};

// libtorch's own.
struct torch_recording {
  static void begin(const std::function<void()>& step) {
    using namespace torch::profiler::impl;
    const ProfilerConfig config(ProfilerState::KINETO, /*report_input_shapes*/ true, /*profile_memory*/ true);
    torch::autograd::profiler::prepareProfiler(config, {ActivityType::CPU});
    torch::autograd::profiler::enableProfiler(config, {ActivityType::CPU});
    step();
  }
  static void end() { torch::autograd::profiler::disableProfiler(); }
};

// What libtorch itself takes to call somebody before and after each op, and to show him its inputs: nobody who looks on
// from there costs less.
class looking_on {
 public:
  void begin(const std::function<void()>& step) {
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction&) { return std::unique_ptr<at::ObserverContext>(); },
                                   [](const at::RecordFunction&, at::ObserverContext*) {})
            .needsInputs(true));
    step();
  }
  void end() { at::removeCallback(handle_); }

 private:
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
};

struct work {
  std::string name;
  std::string what;
  std::function<void()> run;
  std::int64_t number;  // runs in a block
};

stepprof::pair_comparison compare(const work& w, const std::function<void()>& begin, const std::function<void()>& end,
                                  bool quick) {
  stepprof::pair_options options;
  options.number = w.number;
  options.pairs = quick ? 12 : 400;
  return stepprof::compare_pair(stepprof::candidate{"unrecorded", w.run},
                                stepprof::candidate{"recorded", w.run, begin, end}, options);
}

void measure(benchmark::report& out, const work& w, const char* target) {
  our_recording ours;
  const auto by_us = compare(
      w, [&] { ours.begin(w.run); }, [&] { ours.end(); }, out.quick());
  const auto by_torch = compare(
      w, [&] { torch_recording::begin(w.run); }, &torch_recording::end, out.quick());
  looking_on nothing;
  const auto by_nobody = compare(
      w, [&] { nothing.begin(w.run); }, [&] { nothing.end(); }, out.quick());
  const auto scopes = static_cast<double>(ours.events) / static_cast<double>(w.number + 1);
  out.add({w.name + "_ours", w.what + ", recorded by us", by_us.ratio.value * by_us.a.median_ns() / 1000, "us",
           "unrecorded", by_us.a.median_ns() / 1000, target});
  out.add({w.name + "_torch", w.what + ", recorded by libtorch", by_torch.ratio.value * by_torch.a.median_ns() / 1000,
           "us", "unrecorded", by_torch.a.median_ns() / 1000, ""});
  out.add({w.name + "_called", w.what + ", callbacks that do nothing",
           by_nobody.ratio.value * by_nobody.a.median_ns() / 1000, "us", "unrecorded", by_nobody.a.median_ns() / 1000,
           ""});
  out.add({w.name + "_ns_per_op", w.what + ": cost of an op", by_us.difference_ns.value / scopes, "ns",
           "libtorch's own", by_torch.difference_ns.value / scopes, ""});
  out.add({w.name + "_called_per_op", w.what + ": of that, libtorch's calling us",
           by_nobody.difference_ns.value / scopes, "ns", "ours in all", by_us.difference_ns.value / scopes, ""});
  out.add({w.name + "_ops", w.what + ": scopes", scopes, "scopes", "", 0, ""});
}

// With the adapter in place and no profile, against without it.
void measure_off(benchmark::report& out, const work& w, const char* target) {
  std::unique_ptr<stepprof::torch_observer> observer;
  const auto off = compare(
      w, [&] { observer = std::make_unique<stepprof::torch_observer>(); }, [&] { observer.reset(); }, out.quick());
  out.add({w.name + "_off", w.what + ", adapter there, no profile", off.ratio.value * off.a.median_ns() / 1000, "us",
           "without the adapter", off.a.median_ns() / 1000, target});
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::report out(argc, argv);
  stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
  training model;
  const torch::Tensor matrix = torch::randn({4, 4});
  const work step{"torch_step", "a training step of libtorch", [&] { model.step(); }, 10};
  const work view{"torch_view", "a transposed view", [&] { matrix.t(); }, 500};
  const work fresh{"torch_empty", "an empty tensor", [] { torch::empty({16}); }, 500};
  measure_off(out, step, "ratio <= 1.01");
  measure_off(out, view, "");
  measure_off(out, fresh, "");
  const stepprof::torch_observer observer;
  measure(out, step, "ratio <= 1.05");
  measure(out, view, "");
  measure(out, fresh, "");
  fmt::print("  BLAS: {}; {} threads\n", blas(), at::get_num_threads());
}
