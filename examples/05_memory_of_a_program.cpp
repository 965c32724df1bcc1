// Shows where a program's memory goes without a line of its own about it: prints what each scope allocated, held at
// most and left behind, and writes memory.html, live bytes over time, for any browser.
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <stepprof/record/operator_new.hpp>  // in one source file: new and delete report to the profiler
#include <stepprof/stepprof.hpp>

std::vector<std::string> read_lines(int count) {
  STEPPROF_FUNCTION();
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i)
    lines.push_back("a line that is too long to stand in the string itself: " + std::to_string(i));
  return lines;
}

std::map<std::string, int> count_words(const std::vector<std::string>& lines) {
  STEPPROF_FUNCTION();
  std::map<std::string, int> words;
  for (const std::string& line : lines) ++words[line.substr(line.size() / 2)];
  return words;
}

int main() {
  stepprof::profile_options options;
  options.profile_memory = true;
  options.schedule = stepprof::schedule{/*wait*/ 0, /*warmup*/ 1, /*active*/ 4, /*repeat*/ 1};

  stepprof::profile prof(options);
  std::map<std::string, int> cache;  // grows for ever
  for (int step = 0; step < 5; ++step) {
    {
      STEPPROF_SCOPE("step");
      cache.merge(count_words(read_lines(1000 * step)));
    }
    prof.step();
  }
  prof.stop();

  stepprof::key_averages_options by_origin;  // each free counts where its block was allocated: what stays is a leak
  by_origin.memory.booking = stepprof::free_booking::allocating_scope;
  stepprof::table_options table;
  table.columns = {"self_allocated_bytes", "self_allocation_count", "peak_bytes"};
  table.sort_by = "self_cpu_memory_usage";
  std::cout << prof.key_averages(by_origin).table(table);
  prof.export_memory_timeline("memory.html");
}
