// Reads a trace file, ours or PyTorch's, and prints its table: 04_read_a_trace FILE [sort key].
#include <exception>
#include <iostream>

#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cout << "usage: 04_read_a_trace FILE [sort key]\n";
    return 0;
  }
  try {
    const stepprof::trace recording = stepprof::read_trace_file(argv[1]);
    std::cout << stepprof::key_averages(recording).table(argc > 2 ? argv[2] : "self_cpu_time_total", 20);
  } catch (const std::exception& problem) {
    std::cerr << problem.what() << "\n";
    return 1;
  }
}
