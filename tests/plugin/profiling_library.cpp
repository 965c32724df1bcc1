// A library that profiles the program which loads it.
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>

#include <stepprof/stepprof.hpp>

namespace {

std::unique_ptr<stepprof::profile> running;
std::string written;
std::string said;  // in diagnostics, since the profile was started

}  // namespace

extern "C" void start_profile();
extern "C" void start_profile() {
  said.clear();
  stepprof::set_diagnostics_hook([](const stepprof::diagnostic& d) { said += d.code + ": " + d.text + "\n"; });
  running = std::make_unique<stepprof::profile>();
}

extern "C" const char* diagnostics();
extern "C" const char* diagnostics() {
  return said.c_str();
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
