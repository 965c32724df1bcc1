// A program whose time is in a few functions, each with a scope of its name. Runs long enough to be sampled, and writes
// the folded stacks of its scopes, by native stack, to the given file.
#include <cstdint>
#include <cstdlib>

#include <stepprof/adapters/elfutils.hpp>
#include <stepprof/stepprof.hpp>

namespace {

// About `units` times as long as one unit.
[[gnu::always_inline]] inline void spin(int units) {
  static volatile std::uint64_t sink = 1;
  std::uint64_t x = sink;
  for (int i = 0; i < units * 20000; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  sink = x;
}

}  // namespace

[[gnu::noinline]] void matmul() {
  STEPPROF_SCOPE("matmul");
  spin(45);
}
[[gnu::noinline]] void softmax() {
  STEPPROF_SCOPE("softmax");
  spin(15);
}
[[gnu::noinline]] void attention() {
  STEPPROF_SCOPE("attention");
  matmul();
  softmax();
  spin(10);
}
[[gnu::noinline]] void optimizer() {
  STEPPROF_SCOPE("optimizer");
  spin(20);
}
[[gnu::noinline]] void train() {
  STEPPROF_SCOPE("train");
  attention();
  optimizer();
  spin(10);
}

int main(int, char** argv) {
  const int rounds = argv[2] != nullptr ? std::atoi(argv[2]) : 1;
  stepprof::profile_options options;
  options.with_stack = true;
  stepprof::profile prof(options);
  for (int i = 0; i < rounds; ++i) train();
  prof.stop();
  prof.export_stacks(argv[1], "self_cpu_time_total", stepprof::stack_source::native);
}
