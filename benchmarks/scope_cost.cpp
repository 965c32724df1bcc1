// What one scope costs: off, recording, eight inside each other, in the first window of a process, on several threads,
// with what can be attached, and where shapes, memory or stacks are recorded; in ns beside two bare clock reads
// interleaved in the same run, in instructions, in bytes of the log and of code, and in page faults.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <sys/resource.h>  // page faults of a thread

#include <fmt/format.h>

#if WITH_libunwind
#include <stepprof/adapters/libunwind.hpp>
#endif
#include <stepprof/stepprof.hpp>
#include <stepprof/timer/instruction_count.hpp>

#include "support/report.hpp"

namespace {

constexpr int block = 1000;  // iterations timed together: a preemption spoils one block only

// A clock that costs nothing: what is left is the recorder.
struct stub_clock {
  static STEPPROF_ALWAYS_INLINE stepprof::stamp begin() noexcept {
    stepprof::stamp t{1, 0};
    asm volatile("" : "+r"(t.low), "+r"(t.high));  // a value that the compiler does not know
    return t;
  }
  static STEPPROF_ALWAYS_INLINE stepprof::stamp end() noexcept { return begin(); }
};

#define STUB_SCOPE(number)                                                                                   \
  static STEPPROF_CONSTINIT stepprof::detail::call_site site_##number{"stub", __FILE__, __LINE__, {0}, {0}}; \
  stepprof::detail::site_scope<stub_clock> scope_##number(site_##number, "stub")

// The loops. The barrier keeps the compiler from merging iterations.
#define BARRIER() asm volatile("" ::: "memory")

[[gnu::noinline]] void bare_loop(int n) {
  for (int i = 0; i < n; ++i) BARRIER();
}
template <class Clock>
[[gnu::noinline]] void two_reads(int n) {
  for (int i = 0; i < n; ++i) {
    const stepprof::stamp begin = Clock::begin();
    BARRIER();
    const stepprof::stamp end = Clock::end();
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
[[gnu::noinline]] void stub_scope(int n) {
  for (int i = 0; i < n; ++i) {
    STUB_SCOPE(0);
    BARRIER();
  }
}
[[gnu::noinline]] void nested_stub_scopes(int n) {
  for (int i = 0; i < n; i += 8) {
    STUB_SCOPE(1);
    STUB_SCOPE(2);
    STUB_SCOPE(3);
    STUB_SCOPE(4);
    STUB_SCOPE(5);
    STUB_SCOPE(6);
    STUB_SCOPE(7);
    STUB_SCOPE(8);
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
[[gnu::noinline]] void one_argument(int n) {
  for (int i = 0; i < n; ++i) {
    STEPPROF_SCOPE("work", stepprof::arg("i", i));
    BARRIER();
  }
}
[[gnu::noinline]] void three_arguments(int n) {
  for (int i = 0; i < n; ++i) {
    STEPPROF_SCOPE("work", stepprof::arg("i", i), stepprof::arg("x", 0.5), stepprof::arg("what", "text"));
    BARRIER();
  }
}
[[gnu::noinline]] void sequence_numbers(int n) {
  for (int i = 0; i < n; ++i) {
    STEPPROF_SCOPE("work", stepprof::scope_kind::op, stepprof::sequence_number(i));
    BARRIER();
  }
}
[[gnu::noinline]] void report_loop(int n) {
  static char storage[64];
  for (int i = 0; i < n; ++i) {
    stepprof::report_alloc(storage, sizeof storage);
    BARRIER();
    stepprof::report_free(storage);
  }
}
// For the size of a call site: the difference between these two, by eight.
#define SITE()           \
  {                      \
    STEPPROF_SCOPE("s"); \
    BARRIER();           \
  }
[[gnu::noinline]] void one_site() {
  SITE()
}
[[gnu::noinline]] void nine_sites() {
  SITE() SITE() SITE() SITE() SITE() SITE() SITE() SITE() SITE()
}

struct loop {
  void (*run)(int);
  int scopes;  // in one turn of the loop: what the bare loop costs is shared by them
};
constexpr loop bare = {&bare_loop, 1};
constexpr loop clock_reads = {&two_reads<stepprof::product_clock>, 1};
constexpr loop one = {&one_scope, 1};
constexpr loop nested = {&nested_scopes, 8};
constexpr loop stub_reads = {&two_reads<stub_clock>, 1};
constexpr loop stub = {&stub_scope, 1};
constexpr loop nested_stub = {&nested_stub_scopes, 8};
constexpr loop named = {&run_time_name, 1};
constexpr loop with_argument = {&one_argument, 1};
constexpr loop with_arguments = {&three_arguments, 1};
constexpr loop with_sequence = {&sequence_numbers, 1};
constexpr loop with_memory = {&report_loop, 1};
double ns_of(void (*run)(int), int n = block) {
  const std::int64_t begin = stepprof::detail::steady_ns();
  run(n);
  return static_cast<double>(stepprof::detail::steady_ns() - begin) / n;
}

// Runs the loops in turn, A B A B ...; the least ns per scope of each, with the bare loop's, the first one, taken off.
std::vector<double> interleave(const std::vector<loop>& loops, int rounds) {
  std::vector<std::function<void()>> bodies;
  for (const loop& l : loops) bodies.emplace_back([run = l.run] { run(block); });
  std::vector<double> least = benchmark::interleaved_minima(rounds, bodies);
  for (std::size_t i = loops.size(); i-- > 0;) least[i] = (least[i] - least[0] / loops[i].scopes) / block;
  return least;
}

constexpr const char* two_reads_text = "two bare clock reads";

void report_off(benchmark::report& out, int rounds) {
  const std::vector<double> least = interleave({bare, one, nested}, rounds);
  const double empty = ns_of(&bare_loop);
  out.add({"scope_off", "off: one scope", (std::max)(0.0, least[1]), "ns", "a turn of an empty loop", empty,
           "value <= 0.1"});
  out.add({"scope_off_nested8", "off: eight inside each other", (std::max)(0.0, least[2]), "ns",
           "a turn of an empty loop", empty, ""});
}

// The first scopes of a process, one timing: nothing has been written yet but what start() prepares. Its baseline is
// timed directly before and after it.
void report_first_window(benchmark::report& out, stepprof::profile& prof) {
  const double empty = ns_of(&bare_loop);
  prof.start();
  const double before = ns_of(&two_reads<stepprof::product_clock>) - empty;
  const double scope = ns_of(&one_scope) - empty;
  const double after = ns_of(&two_reads<stepprof::product_clock>) - empty;
  prof.stop();
  out.add({"scope_first_window", "first window: one scope", scope, "ns", two_reads_text, (before + after) / 2, ""});
}

void report_on(benchmark::report& out, int rounds) {
  stepprof::profile_options options;
  options.profile_memory = true;
  stepprof::profile prof(options);
  const std::vector<double> t = interleave({bare, clock_reads, one, nested}, rounds);
  out.add({"scope_on", "one scope", t[2], "ns", two_reads_text, t[1], "ratio <= 1.05"});
  out.add({"scope_nested8", "eight inside each other", t[3], "ns", two_reads_text, t[1], "ratio <= 1.05"});
  prof.stop();
  prof.start();
  const std::vector<double> more =
      interleave({bare, clock_reads, named, with_sequence, with_argument, with_arguments, with_memory}, rounds / 4);
  const char* const names[] = {"scope_run_time_name", "scope_sequence_number", "scope_one_argument",
                               "scope_three_arguments", "memory_alloc_free"};
  const char* const texts[] = {"with a run-time name", "with a sequence number", "with one argument",
                               "with three arguments", "an allocation and its free reported"};
  for (std::size_t i = 0; i < 5; ++i) out.add({names[i], texts[i], more[i + 2], "ns", two_reads_text, more[1], ""});
  prof.stop();
  const stepprof::loss_counts& losses = prof.result().losses();
  if (losses.dropped != 0) fmt::print("{} scopes were dropped: the figures are not to be trusted\n", losses.dropped);
}

// Calls `run` through `frames` functions more.
[[gnu::noinline]] void at_depth(int frames, void (*run)(int), int n) {
  if (frames == 0)
    run(n);
  else
    at_depth(frames - 1, run, n);
  BARRIER();
}
template <int Frames>
void scope_at_depth(int n) {
  at_depth(Frames, &one_scope, n);
}

// What a flag alone costs: the plain scope again, with nothing for it that the flag would record. Stacks are recorded
// of every scope; what they cost goes by the number of frames, to which main and what called it are added.
void report_flags(benchmark::report& out, int rounds) {
  struct flagged {
    const char* name;
    const char* what;
    bool shapes, memory, stacks, by_libunwind;
    loop run;
  };
  constexpr loop deep = {scope_at_depth<10>, 1}, deeper = {scope_at_depth<30>, 1};
  const flagged all[] = {
      {"scope_flag_shapes", "one scope, record_shapes on", true, false, false, false, one},
      {"scope_flag_memory", "one scope, profile_memory on", false, true, false, false, one},
      {"scope_flag_stacks", "one scope, with_stack on", false, false, true, false, one},
      {"scope_flag_stacks_10", "with_stack, through 10 functions more", false, false, true, false, deep},
      {"scope_flag_stacks_30", "with_stack, through 30 functions more", false, false, true, false, deeper},
      {"scope_libunwind_stacks", "with_stack, by libunwind", false, false, true, true, one},
      {"scope_libunwind_stacks_10", "by libunwind, through 10 functions more", false, false, true, true, deep},
      {"scope_libunwind_stacks_30", "by libunwind, through 30 functions more", false, false, true, true, deeper},
  };
  const stepprof::detail::stack_walker* const libunwind = stepprof::detail::the_walker.load();
  stepprof::profile plain{stepprof::profile_options()};
  const double baseline = interleave({bare, one}, rounds)[1];
  plain.stop();
  for (const flagged& f : all) {
    stepprof::profile_options options;
    options.record_shapes = f.shapes;
    options.profile_memory = f.memory;
    options.with_stack = f.stacks;
    if (f.by_libunwind && libunwind == nullptr) continue;
    stepprof::detail::the_walker.store(f.by_libunwind ? libunwind : nullptr);
    stepprof::profile prof(options);
    const double cost = interleave({bare, f.run}, f.stacks ? rounds / 10 + 1 : rounds)[1];
    prof.stop();
    out.add({f.name, f.what, cost, "ns", "one scope without flags", baseline, ""});
  }
}

void report_stub(benchmark::report& out, int rounds) {
  stepprof::profile prof{stepprof::profile_options()};
  stub_scope(block);  // from here on the times in the log are the stub's
  const std::vector<double> t = interleave({bare, stub_reads, stub, nested_stub}, rounds);
  out.add({"scope_stub", "one scope, stub clock", t[2], "ns", "two stub clock reads", t[1], "value <= 2.5"});
  out.add({"scope_stub_nested8", "eight inside each other, stub clock", t[3], "ns", "two stub clock reads", t[1],
           "value <= 4"});
  stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});  // that the stub's times stand still
  prof.stop();
  stepprof::set_diagnostics_hook(nullptr);
}

long faults_of_this_thread() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

// The mean, with every change of chunk in it, and what the system was asked for meanwhile.
void report_mean(benchmark::report& out, int rounds) {
  constexpr int many = 1000000;
  double scope = 1e9, reads = 1e9;
  long faults = 0, read_faults = 0;
  stepprof::profile prof(stepprof::profile_options(), stepprof::deferred);
  for (int round = 0; round < rounds; ++round) {
    prof.start();
    one_scope(block);
    const long before = faults_of_this_thread();
    scope = (std::min)(scope, ns_of(&one_scope, many));
    const long between = faults_of_this_thread();
    reads = (std::min)(reads, ns_of(&two_reads<stepprof::product_clock>, many));
    faults += between - before;
    read_faults += faults_of_this_thread() - between;
    prof.stop();
  }
  out.add(
      {"scope_mean", "mean over 10^6 scopes", scope, "ns", "mean over 10^6 two clock reads", reads, "ratio <= 1.15"});
  out.add({"scope_faults", fmt::format("page faults in {} x 10^6 scopes", rounds), static_cast<double>(faults),
           "faults", "in as many clock reads", static_cast<double>(read_faults), "value <= 0"});
}

// Runs `run` on `threads` threads at once, in blocks that begin together; the least of the rounds' means.
double ns_on_threads(int threads, void (*run)(int), int rounds) {
  std::atomic<int> arrived{0};
  std::vector<std::vector<double>> times(static_cast<std::size_t>(threads));
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      for (int round = 0; round < rounds; ++round) {
        arrived.fetch_add(1);
        while (arrived.load() < (round + 1) * threads) std::this_thread::yield();
        times[static_cast<std::size_t>(t)].push_back(ns_of(run));
      }
    });
  for (std::thread& worker : workers) worker.join();
  double least = 1e9;
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round) {
    double sum = 0;
    for (const std::vector<double>& own : times) sum += own[round];
    least = (std::min)(least, sum / threads);
  }
  return least;
}

void report_threads(benchmark::report& out, int rounds) {
  for (const int threads : {1, 2, 4, 8}) {
    double scope = 1e9, reads = 1e9;
    stepprof::profile prof{stepprof::profile_options()};
    for (int turn = 0; turn < 8; ++turn) {
      reads = (std::min)(reads, ns_on_threads(threads, &two_reads<stepprof::product_clock>, rounds / 16 + 1));
      scope = (std::min)(scope, ns_on_threads(threads, &one_scope, rounds / 16 + 1));
    }
    prof.stop();
    const bool two = threads == 2;
    out.add({two ? "scope_two_threads" : fmt::format("scope_threads_{}", threads),
             fmt::format("one scope on {} thread{}", threads, threads == 1 ? "" : "s at once"), scope, "ns",
             fmt::format("two clock reads on {}", threads), reads, two ? "ratio <= 1.05" : ""});
  }
}

void report_bytes(benchmark::report& out) {
  stepprof::profile prof{stepprof::profile_options()};
  one_scope(100);
  const std::uintptr_t before = stepprof::detail::this_thread.own->published.load();
  one_scope(100);
  const std::uintptr_t after = stepprof::detail::this_thread.own->published.load();
  const std::uint32_t blocks = stepprof::detail::the_pool.taken_blocks();
  one_scope(1000000);
  const double with_headers =
      (stepprof::detail::the_pool.taken_blocks() - blocks) * double(stepprof::detail::block_bytes) / 1000000;
  prof.stop();
  out.add({"scope_bytes", "bytes of the log per scope", static_cast<double>(after - before) / 100, "bytes",
           "two 64-bit time stamps", 16, "value <= 16"});
  out.add({"scope_bytes_with_headers", "with the headers of its chunks, over 10^6", with_headers, "bytes",
           "two 64-bit time stamps", 16, ""});
}

// --- instructions, and bytes of code ---------------------------------------------------------------------------------

std::string output_of(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  for (char part[512]; std::fgets(part, sizeof part, pipe) != nullptr;) text += part;
  ::pclose(pipe);
  return text;
}

bool has_command(const char* name) {
  return std::system(fmt::format("command -v {} > /dev/null 2>&1", name).c_str()) == 0;
}

// Of one turn of the loop. A turn that is long enough makes the call of its function, and what is done once in it,
// vanish.
double instructions_of(const loop& l, std::error_code& ec) {
  if (ec) return 0;
  constexpr int turns = 1024;
  stepprof::count_options options;
  options.number = 16;
  options.may_rerun = true;
  const auto count = stepprof::count_instructions([&l] { l.run(turns); }, options, ec);
  return count ? count->per_run / turns : 0;
}

// Each count is taken in a copy of the program, which comes here again and ends with that count: nothing is reported
// before the last one.
void report_instructions(benchmark::report& out) {
  struct counted {
    loop of;
    const char* name;
    const char* what;
    const char* target;
  };
  constexpr counted all[] = {
      {one, "scope_instructions", "one scope", "value <= 40"},
      {nested, "scope_instructions_nested8", "eight inside each other", "value <= 40"},
      {named, "scope_instructions_run_time_name", "with a run-time name", ""},
      {with_sequence, "scope_instructions_sequence", "with a sequence number", ""},
      {with_argument, "scope_instructions_one_argument", "with one argument", ""},
      {with_arguments, "scope_instructions_three_arguments", "with three arguments", ""},
      {with_memory, "memory_instructions", "an allocation and its free reported", ""},
  };
  stepprof::profile_options options;
  options.profile_memory = true;
  options.event_budget_bytes = std::size_t{32} << 20;
  stepprof::profile prof(options);
  std::error_code ec;
  const double empty = instructions_of(bare, ec);
  const double reads = instructions_of(clock_reads, ec) - empty;
  std::vector<double> counts;
  for (const counted& c : all) counts.push_back(instructions_of(c.of, ec) - empty / c.of.scopes);
  if (ec) return fmt::print("{}\n", ec.message());
  for (std::size_t i = 0; i < counts.size(); ++i)
    out.add({all[i].name, all[i].what, counts[i], "instructions", two_reads_text, reads, all[i].target});
}

// The size of a function's hot part, from the symbols of this program.
double code_bytes(const std::string& symbols, const std::string& function) {
  for (std::size_t at = 0; at < symbols.size();) {
    const std::size_t end = (std::min)(symbols.find('\n', at), symbols.size());
    const std::string line = symbols.substr(at, end - at);
    at = end + 1;
    if (line.find(function) == std::string::npos || line.find(".cold") != std::string::npos) continue;
    if (line.find("guard") != std::string::npos || line.find("site_") != line.rfind("site_")) continue;
    const std::size_t space = line.find(' ');
    return static_cast<double>(std::strtoul(line.c_str() + space, nullptr, 16));
  }
  return 0;
}

void report_code(benchmark::report& out, const std::string& self) {
  if (!has_command("nm")) return fmt::print("bytes of code: nm is not installed\n");
  one_site();
  nine_sites();
  const std::string symbols = output_of("nm -S --defined-only '" + self + "' | grep -i ' t '");
  const double nine = code_bytes(symbols, "nine_sitesE");
  const double single = code_bytes(symbols, "one_siteE");
  out.add({"site_bytes", "hot code of a call site", (nine - single) / 8, "bytes", "", 0, "value <= 120"});
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::report out(argc, argv);
  const int rounds = out.quick() ? 50 : 1000;
  const std::string self = std::filesystem::canonical("/proc/self/exe").string();

  if (!stepprof::is_counting_rerun()) {
    report_off(out, rounds);
    stepprof::profile prof(stepprof::profile_options(), stepprof::deferred);
    report_first_window(out, prof);
  }
  report_instructions(out);
  report_on(out, rounds);
  report_flags(out, rounds);
  report_mean(out, out.quick() ? 1 : 10);
  report_threads(out, rounds);
  report_bytes(out);
  report_code(out, self);
  report_stub(out, rounds);  // last: it leaves times in the log that no clock has shown
}
