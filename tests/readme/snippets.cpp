// The pieces of code in README.md, compiled and run: check_readme.sh compares the two.
#include <iostream>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/adapters/allocator.hpp>
#include <stepprof/adapters/memory_resource.hpp>
#include <stepprof/stepprof.hpp>
#include <stepprof/timer/compare_pair.hpp>
#include <stepprof/tools/trace_reader.hpp>

// [hook]
#include <stepprof/record/operator_new.hpp>
// [/hook]

// [inputs]
struct matrix {
  std::int64_t sizes[2];
  std::vector<float> values;
};

template <>
struct stepprof::input_traits<matrix> {
  static input_description describe(const matrix& m) noexcept { return {m.sizes, 2, nullptr, "float"}; }
};

void multiply(const matrix& a, const matrix& b) {
  STEPPROF_SCOPE("multiply", stepprof::scope_kind::op, stepprof::inputs(a, b));
}
// [/inputs]

namespace {

void load_batch() {}
void train_one_step() {
  for (int op = 0; op < 20; ++op) {
    STEPPROF_SCOPE("op");
    for (int i = 0; i < 1000; ++i) stepprof::do_not_optimize(i);
  }
}

void library_code(int rows) {
  // [scopes]
  STEPPROF_SCOPE("decode");                                         // a region; the name is a literal
  STEPPROF_FUNCTION();                                              // named after the enclosing function
  stepprof::record_function scope("tile " + std::to_string(rows));  // a name made at run time
  STEPPROF_SCOPE("gemm", stepprof::scope_kind::op, stepprof::arg("rows", rows));
  // [/scopes]
}

void windows() {
  // [schedule]
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{/*wait*/ 10, /*warmup*/ 2, /*active*/ 3, /*repeat*/ 2, /*skip_first*/ 100};
  // or any callable from the number of the step to what is to be done with it:
  options.schedule = [](std::int64_t step) {
    return step % 1000 == 0 ? stepprof::action::record_and_save : stepprof::action::none;
  };
  // [/schedule]
  // [handler]
  options.on_trace_ready = stepprof::trace_handler("traces");  // a file per cycle, never overwritten
  options.on_trace_ready = [](const stepprof::trace& cycle) {  // or whatever you like
    std::cout << stepprof::key_averages(cycle).table("cpu_time_total", 5);
  };
  // [/handler]
  options.on_trace_ready = nullptr;
  stepprof::profile prof(options);
  for (int i = 0; i < 3; ++i) {
    load_batch();
    train_one_step();
    library_code(i);
    prof.step();
  }
}

void links() {
  // [links]
  stepprof::forward_link made_by;  // kept in the node of the tape
  {
    stepprof::record_function forward("relu", stepprof::scope_kind::op, stepprof::sequence_number(30));
    made_by = forward.link();
  }
  std::thread([made_by] {
    stepprof::record_function backward("ReluBackward", stepprof::scope_kind::backward_op, made_by);
  }).join();
  // [/links]
}

void memory(std::size_t bytes) {
  // [memory]
  void* block = std::malloc(bytes);
  stepprof::report_alloc(block, bytes);  // after the allocation
  stepprof::report_free(block);          // before the free
  std::free(block);
  // [/memory]
}

void asynchronous(const std::string& url) {
  // [async]
  stepprof::async_scope request("request", stepprof::arg("url", url));
  std::thread([request = std::move(request)]() mutable {
    STEPPROF_SCOPE("answer");  // the thread's own scopes nest as ever
    request.end();             // or by its destructor
  }).join();
  // [/async]
}

void pools(void* block, std::size_t bytes) {
  // [pools]
  static const stepprof::memory_pool frames("frames");
  stepprof::report_alloc(block, bytes, frames);
  stepprof::report_free_range(block, bytes, frames);  // an arena that is emptied at once

  std::pmr::monotonic_buffer_resource arena;
  stepprof::profiled_memory_resource reported(&arena, frames);
  std::pmr::vector<int> numbers(100, &reported);

  std::vector<float, stepprof::profiled_allocator<float>> pixels(100, frames);
  // [/pools]
}

void memory_tables(const stepprof::profile& prof) {
  // [memory_columns]
  stepprof::key_averages_options options;
  options.memory.booking = stepprof::free_booking::allocating_scope;  // what a row has left over is what it leaked
  options.memory.pool = "frames";                                     // without: all memory, each byte once
  stepprof::table_options columns;
  columns.columns = {"allocated_bytes", "freed_bytes", "peak_bytes"};
  std::cout << prof.key_averages(options).table(columns);

  prof.export_memory_timeline("memory.html");  // or .svg or .json: live bytes over time, by pool
  stepprof::memory_timeline_options by_scope;
  by_scope.group_by = stepprof::memory_group::key;
  prof.export_memory_timeline("memory_by_scope.svg", by_scope);
  // [/memory_columns]
}

void results(const stepprof::profile& prof) {
  // [results]
  stepprof::key_averages_options by_shape;
  by_shape.group_by_input_shape = true;
  std::cout << prof.key_averages(by_shape).table("self_cpu_memory_usage", 10);

  for (const stepprof::event_average& row : prof.key_averages().rows)  // rows are plain structs, in ns and bytes
    std::cout << row.name << " " << row.calls << " " << row.self_ns << "\n";
  // [/results]
}

void statistics(const stepprof::profile& prof) {
  // [statistics]
  stepprof::key_averages_options with_statistics;
  with_statistics.statistics = true;
  stepprof::table_options columns;
  columns.columns = {"stddev_time", "p50_time", "p95_time", "p99_time"};
  std::cout << prof.key_averages(with_statistics).table(columns);

  std::cout << prof.steps().table();                           // a line per step, and what made the slow ones slow
  stepprof::export_rows(prof.key_averages(), "averages.csv");  // or .json, .txt; exact ns and bytes
  // [/statistics]
}

void stacks() {
  // [stacks]
  stepprof::profile_options options;
  options.with_stack = true;  // keep the functions from which each scope was called
  stepprof::profile prof(options);
  train_one_step();
  prof.stop();
  prof.export_speedscope("train.speedscope.json");  // for https://www.speedscope.app
  prof.export_stacks("scopes.txt");                 // for flamegraph.pl and all that read its lines: by scopes
  prof.export_stacks("functions.txt", "calls", stepprof::stack_source::native);  // by functions

  stepprof::key_averages_options by_caller;
  by_caller.group_by_stack_n = 3;
  by_caller.stack = stepprof::stack_source::native;
  std::cout << prof.key_averages(by_caller).table("self_cpu_time_total", 10);
  // [/stacks]
}

void multiply_and_count(std::int64_t m, std::int64_t k, std::int64_t n) {
  // [flops]
  stepprof::profile_options options;
  options.with_flops = true;
  options.formulas.set("axpy", [](const std::vector<stepprof::op_input>& in) {  // from the shapes of the inputs
    return stepprof::checked_product(2, in.at(0).elements());
  });
  STEPPROF_SCOPE("multiply", stepprof::flops(2 * m * k * n));  // or on the scope itself
  // [/flops]
}

void compare() {
  // [comparing]
  const auto step = [] {
    STEPPROF_SCOPE("train_step");
    train_one_step();
  };
  stepprof::profile prof(stepprof::profile_options{}, stepprof::deferred);
  const stepprof::pair_comparison cost =
      stepprof::compare_pair(stepprof::candidate{"outside", step},
                             stepprof::candidate{"inside", step, [&] { prof.start(); }, [&] { prof.stop(); }});
  std::cout << cost.to_string() << "\n";
  // [/comparing]
}

void read_back(const std::string& file) {
  // [reader]
  const stepprof::trace recorded = stepprof::read_trace_file(file);
  std::cout << stepprof::key_averages(recorded).table("self_cpu_time_total");
  // [/reader]
}

}  // namespace

int main() {
  windows();
  stacks();
  stepprof::profile_options options;
  options.record_shapes = options.profile_memory = true;
  stepprof::profile prof(options);
  links();
  asynchronous("/index");
  memory(100);
  char block[100];
  pools(block, sizeof block);
  multiply({{2, 3}, {}}, {{3, 4}, {}});
  prof.stop();
  compare();
  results(prof);
  memory_tables(prof);
  statistics(prof);
  multiply_and_count(2, 3, 4);
  const std::string file = "readme_trace.json";
  prof.export_chrome_trace(file);
  read_back(file);
}
