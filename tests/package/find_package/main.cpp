#include <sstream>

#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

int main() {
  stepprof::profile prof;
  { STEPPROF_SCOPE("consumer"); }
  prof.stop();

  std::stringstream file;
  prof.export_chrome_trace(file);
  const stepprof::trace read_back = stepprof::read_trace(file);
  return stepprof::key_averages(read_back).table().find("consumer") != std::string::npos ? 0 : 1;
}
