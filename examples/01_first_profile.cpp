// Profiles five steps of a loop, prints where the time went and writes trace.json for https://ui.perfetto.dev.
#include <cmath>
#include <iostream>
#include <vector>

#include <stepprof/stepprof.hpp>

double simulate(std::vector<double>& positions) {
  STEPPROF_FUNCTION();
  double energy = 0;
  for (double& x : positions) energy += (x = std::cos(x));
  return energy;
}

void render(const std::vector<double>& positions) {
  STEPPROF_SCOPE("render");
  volatile double picture = 0;
  for (const double x : positions) picture = picture + x * x;
}

int main() {
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{/*wait*/ 2, /*warmup*/ 2, /*active*/ 5, /*repeat*/ 1};

  stepprof::profile prof(options);  // checks the options and starts; the schedule decides from here
  std::vector<double> positions(100000, 0.5);
  for (int frame = 0; frame < 10; ++frame) {
    {
      STEPPROF_SCOPE("frame");
      simulate(positions);
      render(positions);
    }
    prof.step();
  }
  prof.stop();

  std::cout << prof.key_averages().table("self_cpu_time_total", 10);
  prof.export_chrome_trace("trace.json");
}
