// A 32-bit program: what it records, shows and reads off must be what a 64-bit one does.
// FC-73: https://github.com/tokio-rs/tracing/issues/1402
// Catches: sizes and times kept in a size_t or a long, words that are not atomic, counts that end at 2^32.
#include <cstdint>
#include <cstddef>
#include <cstdio>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

#include "checks.hpp"

static_assert(sizeof(void*) == 4, "compiled with -m32");

namespace {

void recurse(int depth) {
  STEPPROF_SCOPE("recurse");
  if (depth > 1) recurse(depth - 1);
}

// Threads, recursion, memory, arguments and steps.
void record() {
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{1, 1, 2, 1};
  options.profile_memory = options.record_shapes = true;
  options.event_budget_bytes = std::size_t{16} << 20;
  stepprof::profile prof(options);
  for (int step = 0; step < 4; ++step) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([] {
        for (int k = 0; k < 1000; ++k) {
          STEPPROF_SCOPE("on a thread");
        }
      });
    for (std::thread& thread : threads) thread.join();
    recurse(50);
    const stepprof::record_function scope("with all", stepprof::arg("bytes", std::uint64_t{1} << 40),
                                          stepprof::sequence_number(std::int64_t{1} << 41));
    stepprof::report_alloc(&prof, 3000000000u);
    stepprof::report_alloc(&options, 3000000000u);
    prof.step();
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  const stepprof::event_averages averages = stepprof::key_averages(t);
  check(averages.at("on a thread").calls == 6000, "calls of threads");
  check(averages.at("recurse").calls == 100, "calls of a recursion");
  check(averages.at("recurse").self_ns <= averages.at("recurse").total_ns, "self beyond total");
  check(averages.at("with all").self_memory.allocated_bytes == 12000000000, "bytes beyond 2^32");
  check(t.steps().size() == 2, "steps");
  std::int64_t sum = 0;
  std::int64_t top = 0;
  for (const stepprof::event_average& row : averages.rows) {
    sum += row.self_ns;
    top += row.top_level_ns;
  }
  check(sum == top && sum > 0, "self times that are the scopes' time");
  check(t.losses().dropped == 0, "nothing dropped");
  std::ostringstream json;
  stepprof::export_chrome_trace(t, json);
  check(json.str().find("1099511627776") != std::string::npos, "an argument beyond 2^32");
  check(json.str().find("2199023255552") != std::string::npos, "a sequence number beyond 2^32");
}

}  // namespace

int main() {
  record();
  return failures == 0 ? 0 : 1;
}
