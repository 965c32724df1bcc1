// What an allocation and its free cost with the operators of <stepprof/record/operator_new.hpp> in the program: while
// nothing records, while a profile without profile_memory records, and recorded; in ns beside a plain malloc and free
// interleaved in the same run, in instructions, on eight threads at once, and in bytes of the log.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <dlfcn.h>  // the operators that the program would have without ours

#include <fmt/format.h>

#include <stepprof/record/operator_new.hpp>
#include <stepprof/stepprof.hpp>
#include <stepprof/timer/instruction_count.hpp>

#include "support/report.hpp"

namespace {

constexpr int block = 1000;  // pairs timed together
constexpr std::size_t size = 64;

using allocate_function = void* (*)(std::size_t);
using release_function = void (*)(void*);

// Those of the standard library itself.
struct library_operators {
  allocate_function allocate = nullptr;
  release_function release = nullptr;
};
library_operators find_library_operators() {
  library_operators found;
  void* const library = ::dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return found;
  found.allocate = reinterpret_cast<allocate_function>(::dlsym(library, "_Znwm"));
  found.release = reinterpret_cast<release_function>(::dlsym(library, "_ZdlPv"));
  return found;
}
const library_operators library = find_library_operators();

[[gnu::noinline]] void bare_loop(int n) {
  for (int i = 0; i < n; ++i) STEPPROF_CLOBBER_MEMORY();
}
[[gnu::noinline]] void malloc_and_free(int n) {
  for (int i = 0; i < n; ++i) {
    void* const p = std::malloc(size);
    STEPPROF_KEEP_IN_REGISTER(p);
    std::free(p);
  }
}
[[gnu::noinline]] void library_new_and_delete(int n) {
  for (int i = 0; i < n; ++i) {
    void* const p = library.allocate(size);
    STEPPROF_KEEP_IN_REGISTER(p);
    library.release(p);
  }
}
[[gnu::noinline]] void new_and_delete(int n) {
  for (int i = 0; i < n; ++i) {
    void* const p = ::operator new(size);
    STEPPROF_KEEP_IN_REGISTER(p);
    ::operator delete(p);
  }
}
[[gnu::noinline]] void pool_reports(int n) {
  static const stepprof::memory_pool pool("frames");
  static char storage[size];
  for (int i = 0; i < n; ++i) {
    stepprof::report_alloc(storage, size, pool);
    STEPPROF_CLOBBER_MEMORY();
    stepprof::report_free(storage, pool);
  }
}

using loop = void (*)(int);

// ns of one turn of each, with the bare loop's, the first one, taken off.
std::vector<double> interleave(const std::vector<loop>& loops, int rounds) {
  std::vector<std::function<void()>> bodies;
  for (const loop run : loops) bodies.emplace_back([run] { run(block); });
  std::vector<double> least = benchmark::interleaved_minima(rounds, bodies);
  for (std::size_t i = loops.size(); i-- > 0;) least[i] = (least[i] - least[0]) / block;
  return least;
}

constexpr const char* plain_text = "malloc and free";
constexpr const char* library_text = "new and delete of the library";

stepprof::profile_options options_for(bool memory) {
  stepprof::profile_options options;
  options.profile_memory = memory;
  return options;
}

void report_off(benchmark::report& out, int rounds) {
  const bool has_library = library.allocate != nullptr && library.release != nullptr;
  const std::vector<double> t = interleave(
      {&bare_loop, &malloc_and_free, &new_and_delete, has_library ? &library_new_and_delete : &bare_loop}, rounds);
  out.add({"new_off", "not recording: new and delete", t[2], "ns", plain_text, t[1], "ratio <= 1.2"});
  if (has_library) out.add({"new_off_library", "not recording: new and delete", t[2], "ns", library_text, t[3], ""});
  const stepprof::profile prof(options_for(false));
  const std::vector<double> without = interleave({&bare_loop, &malloc_and_free, &new_and_delete}, rounds);
  out.add({"new_without_memory", "recording without memory: new and delete", without[2], "ns", plain_text, without[1],
           "ratio <= 1.2"});
}

void report_on(benchmark::report& out, int rounds) {
  stepprof::profile prof(options_for(true));
  const std::vector<double> t = interleave({&bare_loop, &malloc_and_free, &new_and_delete, &pool_reports}, rounds);
  prof.stop();
  out.add({"new_on", "recorded: new and delete", t[2], "ns", plain_text, t[1], ""});
  out.add({"pool_reports", "a block of a pool and its free reported", t[3], "ns", plain_text, t[1], ""});
  const stepprof::loss_counts& losses = prof.result().losses();
  if (losses.dropped_memory != 0)
    fmt::print("{} reports were dropped: the figures are not to be trusted\n", losses.dropped_memory);
}

// Eight threads that pass blocks to each other; ns of the wall per pair, of all threads together.
double churn_ns(allocate_function allocate, release_function release, int pairs) {
  constexpr int threads = 8;
  static std::array<std::atomic<void*>, 64> slots;
  std::vector<std::thread> workers;
  const std::int64_t begin = stepprof::detail::steady_ns();
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([=] {
      std::uint32_t random = 99u + static_cast<std::uint32_t>(t);
      for (int i = 0; i < pairs / threads; ++i) {
        random = random * 1664525u + 1013904223u;
        release(slots[(random >> 8) % 64].exchange(allocate(16 + (random >> 24)), std::memory_order_acq_rel));
      }
    });
  for (std::thread& worker : workers) worker.join();
  const auto ns = static_cast<double>(stepprof::detail::steady_ns() - begin);
  for (auto& slot : slots) release(slot.exchange(nullptr));
  return ns / pairs;
}

void report_threads(benchmark::report& out, bool quick) {
  const int pairs = quick ? 100000 : 10000000;
  double plain = 1e9, recorded = 1e9;
  double collected_ns = 0;
  for (int round = 0; round < (quick ? 1 : 2); ++round) {
    plain = (std::min)(plain, churn_ns(&std::malloc, &std::free, pairs));
    stepprof::profile_options options = options_for(true);
    options.event_budget_bytes = std::size_t{1} << 30;
    stepprof::profile prof(options);
    recorded = (std::min)(recorded, churn_ns([](std::size_t n) { return ::operator new(n); },
                                             [](void* p) { ::operator delete(p); }, pairs));
    const std::int64_t begin = stepprof::detail::steady_ns();
    prof.stop();
    collected_ns = static_cast<double>(stepprof::detail::steady_ns() - begin);
    const stepprof::trace t = prof.result();
    const stepprof::loss_counts& losses = t.losses();
    if (losses.dropped_memory + losses.lost_frees + losses.late_frees != 0 || t.memory().back().total_allocated != 0)
      fmt::print("reports were lost: the figures are not to be trusted\n");
  }
  out.add({"churn_on", fmt::format("{:.0e} pairs on 8 threads, recorded", double(pairs)), recorded, "ns",
           "malloc and free on 8 threads", plain, ""});
  out.add({"churn_collected", "and collected by stop(), a pair", collected_ns / pairs, "ns",
           "malloc and free on 8 threads", plain, ""});
}

void report_bytes(benchmark::report& out) {
  const stepprof::profile prof(options_for(true));
  new_and_delete(10);
  const std::uintptr_t before = stepprof::detail::this_thread.own->published.load();
  new_and_delete(20);
  const std::uintptr_t after = stepprof::detail::this_thread.own->published.load();
  out.add({"pair_bytes", "bytes of the log per pair", static_cast<double>(after - before) / 20, "bytes",
           "two addresses, a size, two 64-bit time stamps", 40, "value <= 40"});
}

// Of one turn of the loop.
double instructions_of(loop run, std::error_code& ec) {
  if (ec) return 0;
  constexpr int turns = 1024;
  stepprof::count_options options;
  options.number = 16;
  options.may_rerun = true;
  const auto count = stepprof::count_instructions([run] { run(turns); }, options, ec);
  return count ? count->per_run / turns : 0;
}

// Each count is taken in a copy of the program, which comes here again and ends with that count: nothing is reported
// before the last one.
void report_instructions(benchmark::report& out) {
  std::error_code ec;
  const double empty = instructions_of(&bare_loop, ec);
  const double plain = instructions_of(&malloc_and_free, ec) - empty;
  const double off = instructions_of(&new_and_delete, ec) - empty;
  double without = 0, on = 0;
  {
    const stepprof::profile prof(options_for(false));
    without = instructions_of(&new_and_delete, ec) - empty;
  }
  {
    stepprof::profile_options options = options_for(true);
    options.event_budget_bytes = std::size_t{32} << 20;
    const stepprof::profile prof(options);
    on = instructions_of(&new_and_delete, ec) - empty;
  }
  if (ec) return fmt::print("{}\n", ec.message());
  out.add({"new_off_instructions", "not recording: new and delete", off, "instructions", plain_text, plain, ""});
  out.add({"new_without_memory_instructions", "recording without memory: new and delete", without, "instructions",
           plain_text, plain, ""});
  out.add({"new_on_instructions", "recorded: new and delete", on, "instructions", plain_text, plain, ""});
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::report out(argc, argv);
  const int rounds = out.quick() ? 50 : 1000;
  report_instructions(out);
  report_off(out, rounds);
  report_on(out, rounds);
  report_bytes(out);
  report_threads(out, out.quick());
}
