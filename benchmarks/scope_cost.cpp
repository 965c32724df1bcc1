// What one scope costs: off, recording, eight inside each other, and in the first window of a process, each in ns
// beside two bare clock reads interleaved in the same run; and, where valgrind is installed, in instructions.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <stepprof/stepprof.hpp>

namespace {

constexpr int block = 1000;  // iterations timed together: a preemption spoils one block only

// The loops. The barrier keeps the compiler from merging iterations.
#define BARRIER() asm volatile("" ::: "memory")

[[gnu::noinline]] void bare_loop(int n) {
  for (int i = 0; i < n; ++i) BARRIER();
}
[[gnu::noinline]] void two_clock_reads(int n) {
  for (int i = 0; i < n; ++i) {
    const stepprof::stamp begin = stepprof::product_clock::begin();
    BARRIER();
    const stepprof::stamp end = stepprof::product_clock::end();
    asm volatile("" : : "r"(begin.low), "r"(end.low));
  }
}
[[gnu::noinline]] void one_scope(int n) {
  for (int i = 0; i < n; ++i) {
    STEPPROF_SCOPE("work");
    BARRIER();
  }
}
[[gnu::noinline]] void nested_scopes(int n) {
  for (int i = 0; i < n; i += 8) {
    STEPPROF_SCOPE("1");
    STEPPROF_SCOPE("2");
    STEPPROF_SCOPE("3");
    STEPPROF_SCOPE("4");
    STEPPROF_SCOPE("5");
    STEPPROF_SCOPE("6");
    STEPPROF_SCOPE("7");
    STEPPROF_SCOPE("8");
    BARRIER();
  }
}
[[gnu::noinline]] void run_time_name(int n) {
  const char* const name = "a name given at run time";
  for (int i = 0; i < n; ++i) {
    const stepprof::record_function scope(name);
    BARRIER();
  }
}

struct loop {
  const char* name;
  void (*run)(int);
  int scopes;  // in one turn of the loop: what the bare loop costs is shared by them
};
constexpr loop loops[] = {{"bare", &bare_loop, 1},
                          {"clock", &two_clock_reads, 1},
                          {"one", &one_scope, 1},
                          {"nested", &nested_scopes, 8},
                          {"run_time_name", &run_time_name, 1}};

double ns_of(void (*run)(int)) {
  const std::int64_t begin = stepprof::detail::steady_ns();
  run(block);
  return static_cast<double>(stepprof::detail::steady_ns() - begin) / block;
}

struct timing {
  double least;
  double median;
};

// Runs the first `count` loops in turn, A B A B ...; ns per scope with the bare loop's taken off.
std::vector<timing> interleave(std::size_t count, int rounds) {
  std::vector<std::vector<double>> times(count);
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < count; ++i) times[i].push_back(ns_of(loops[i].run));
  std::vector<timing> result;
  for (std::vector<double>& t : times) {
    std::sort(t.begin(), t.end());
    result.push_back({t.front(), t[t.size() / 2]});
  }
  for (std::size_t i = result.size(); i-- > 0;) {
    result[i].least -= result[0].least / loops[i].scopes;
    result[i].median -= result[0].median / loops[i].scopes;
  }
  return result;
}

void print(const char* what, const timing& t, const timing& clock) {
  fmt::print("{:<28} {:>9.2f} {:>9.2f} {:>9.2f}\n", what, t.least, t.median, t.least / clock.least);
}

// The first scopes of a process, one timing: nothing has been written yet but what start() prepares. Its baseline is
// timed directly before and after it.
struct first_timing {
  double scope;
  double clock_before;
  double clock_after;
};
first_timing first_window(stepprof::profile& prof) {
  const double bare = ns_of(&bare_loop);
  prof.start();
  first_timing t{};
  t.clock_before = ns_of(&two_clock_reads) - bare;
  t.scope = ns_of(&one_scope) - bare;
  t.clock_after = ns_of(&two_clock_reads) - bare;
  prof.stop();
  return t;
}
void print(const first_timing& t) {
  const double clock = (t.clock_before + t.clock_after) / 2;
  fmt::print("{:<28} {:>9.2f} {:>9} {:>9.2f}\n", "first window: one scope", t.scope, "", t.scope / clock);
  fmt::print("{:<28} {:>9.2f} before, {:.2f} after it\n", "  two bare clock reads", t.clock_before, t.clock_after);
}

// --- instructions ----------------------------------------------------------------------------------------------------

// For the run under valgrind: one loop of `n` iterations inside a window.
int count_mode(const char* name, int n) {
  for (const loop& l : loops) {
    if (std::strcmp(l.name, name) != 0) continue;
    stepprof::profile_options options;
    options.event_budget_bytes = std::size_t{32} << 20;
    stepprof::profile prof(options);
    l.run(block);  // names and caches
    l.run(n);
    return 0;
  }
  return 2;
}

// Instructions that callgrind counts inside `function` for `n` iterations; below 0 when it cannot say.
long long collected(const std::string& self, const loop& l, const std::string& function, int n) {
  const std::string command = "valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*" +
                              function + "*' '" + self + "' --count " + l.name + " " + std::to_string(n) + " 2>&1";
  FILE* const out = ::popen(command.c_str(), "r");
  if (out == nullptr) return -1;
  long long count = -1;
  for (char line[512]; std::fgets(line, sizeof line, out) != nullptr;)
    if (const char* const at = std::strstr(line, "Collected :")) count = std::atoll(at + 11);
  ::pclose(out);
  return count;
}

void print_instructions(const std::string& self) {
  if (std::system("command -v valgrind > /dev/null 2>&1") != 0) {
    fmt::print("instructions: valgrind is not installed\n");
    return;
  }
  const auto per_iteration = [&self](const loop& l, const char* function) {
    const long long many = collected(self, l, function, 12000);
    const long long few = collected(self, l, function, 2000);
    return many < 0 || few < 0 ? -1.0 : static_cast<double>(many - few) / 10000;
  };
  const double bare = per_iteration(loops[0], "bare_loop");
  const double clock = per_iteration(loops[1], "two_clock_reads") - bare;
  fmt::print("\n{:<28} {:>9}\n", "instructions per scope", "callgrind");
  fmt::print("{:<28} {:>9.1f}\n", "two bare clock reads", clock);
  fmt::print("{:<28} {:>9.1f}\n", "one scope", per_iteration(loops[2], "one_scope") - bare);
  fmt::print("{:<28} {:>9.1f}\n", "eight inside each other",
             per_iteration(loops[3], "nested_scopes") - bare / loops[3].scopes);
  fmt::print("{:<28} {:>9.1f}\n", "with a run-time name", per_iteration(loops[4], "run_time_name") - bare);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--count") return count_mode(argv[2], std::atoi(argv[3]));
  const int rounds = argc > 1 ? (std::max)(10, std::atoi(argv[1])) : 1000;

  const auto off = interleave(4, rounds);
  stepprof::profile_options options;
  stepprof::profile prof(options, stepprof::deferred);
  const first_timing first = first_window(prof);
  prof.start();
  const auto on = interleave(5, rounds);
  prof.stop();

  fmt::print("{:<28} {:>9} {:>9} {:>9}\n", "ns per scope", "min", "median", "x clock");
  print("two bare clock reads", on[1], on[1]);
  print("off: one scope", off[2], on[1]);
  print("off: eight inside each other", off[3], on[1]);
  print("one scope", on[2], on[1]);
  print("eight inside each other", on[3], on[1]);
  print("with a run-time name", on[4], on[1]);
  print(first);
  const stepprof::trace recorded = prof.result();
  const stepprof::loss_counts& losses = recorded.losses();
  fmt::print("scopes kept {}, dropped {}\n", losses.kept, losses.dropped);
  print_instructions(std::filesystem::canonical("/proc/self/exe").string());
}
