// A long-running loop that records two steps out of every ten and writes each of these cycles to a file of its
// own in the folder `cycles`.
#include <filesystem>
#include <iostream>

#include <stepprof/stepprof.hpp>

void serve_requests() {
  STEPPROF_SCOPE("serve requests");
  volatile unsigned work = 0;
  for (unsigned i = 0; i < 100000; ++i) work = work + i;
}

int main() {
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{/*wait*/ 7, /*warmup*/ 1, /*active*/ 2};  // for ever
  options.on_trace_ready = stepprof::trace_handler("cycles");

  stepprof::profile prof(options);
  for (int i = 0; i < 35; ++i) {
    serve_requests();
    prof.step();
  }
  prof.stop();

  for (const auto& file : std::filesystem::directory_iterator("cycles"))
    std::cout << file.path().filename().string() << ": " << file.file_size() << " bytes\n";
}
