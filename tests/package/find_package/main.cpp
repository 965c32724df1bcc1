#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

int main() {
  stepprof::profile prof;
  { STEPPROF_SCOPE("consumer"); }
  prof.stop();

  prof.export_chrome_trace("trace.json");
  const stepprof::trace read_back = stepprof::read_trace_file("trace.json");
  return stepprof::key_averages(read_back).table().find("consumer") != std::string::npos ? 0 : 1;
}
