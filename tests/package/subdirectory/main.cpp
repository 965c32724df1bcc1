#include <stepprof/stepprof.hpp>

int main() {
  stepprof::profile prof;
  { STEPPROF_SCOPE("consumer"); }
  prof.stop();
  prof.export_chrome_trace("trace.json");
  return prof.key_averages().table().find("consumer") != std::string::npos ? 0 : 1;
}
