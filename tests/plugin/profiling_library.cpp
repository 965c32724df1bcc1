// A library that profiles the program which loads it.
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>

#include <stepprof/stepprof.hpp>

namespace {

std::unique_ptr<stepprof::profile> running;
std::string written;

}  // namespace

extern "C" void start_profile();
extern "C" void start_profile() {
  running = std::make_unique<stepprof::profile>();
}

// Stops and returns the trace.
extern "C" const char* stop_profile();
extern "C" const char* stop_profile() {
  running->stop();
  std::ostringstream out;
  running->export_chrome_trace(out);
  running.reset();
  written = out.str();
  return written.c_str();
}
