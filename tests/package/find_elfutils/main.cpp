#include <string>
#include <vector>

#include <stepprof/adapters/elfutils.hpp>
#include <stepprof/adapters/libunwind.hpp>
#include <stepprof/stepprof.hpp>

int main() {
  stepprof::profile_options options;
  options.with_stack = true;
  stepprof::profile prof(options);
  { STEPPROF_SCOPE("work"); }
  prof.stop();
  const stepprof::trace t = prof.result();
  const std::vector<std::string> frames = stepprof::call_stack(t, t.events().at(0), 1);
  return frames.size() == 1 && frames[0].find("main") != std::string::npos ? 0 : 1;
}
