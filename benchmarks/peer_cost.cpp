// What one scope costs with others that Debian packages: LTTng-UST, RECORD_FUNCTION of libtorch, and a line printed by
// fprintf; each in turn with one of ours and two bare clock reads, recording and off. A peer that is not installed is
// named and left out.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include <stepprof/stepprof.hpp>

#if WITH_lttng
#include "support/lttng_events.hpp"
#include "support/lttng_session.hpp"
#endif
#if WITH_torch
#include <dlfcn.h>
#endif

#include "support/report.hpp"

namespace {

constexpr int block = 1000;  // scopes timed together: a preemption spoils one block only

// --- the loops -------------------------------------------------------------------------------------------------------

// The barrier keeps the compiler from merging iterations.
#define BARRIER() asm volatile("" ::: "memory")

[[gnu::noinline]] void bare_loop() {
  for (int i = 0; i < block; ++i) BARRIER();
}
[[gnu::noinline]] void two_clock_reads() {
  for (int i = 0; i < block; ++i) {
    const stepprof::stamp begin = stepprof::product_clock::begin();
    BARRIER();
    const stepprof::stamp end = stepprof::product_clock::end();
    asm volatile("" : : "r"(begin.low), "r"(end.low));
  }
}
[[gnu::noinline]] void one_scope() {
  for (int i = 0; i < block; ++i) {
    STEPPROF_SCOPE("work");
    BARRIER();
  }
}

// Into /dev/null: what a disk takes is not its fault.
std::FILE* printed = nullptr;
[[gnu::noinline]] void one_line() {
  for (int i = 0; i < block; ++i) {
    const stepprof::stamp begin = stepprof::product_clock::begin();
    BARRIER();
    const stepprof::stamp end = stepprof::product_clock::end();
    std::fprintf(printed, "work %llu %llu\n", static_cast<unsigned long long>(stepprof::ticks_of(begin)),
                 static_cast<unsigned long long>(stepprof::ticks_of(end)));
  }
}

#if WITH_lttng
std::uintmax_t tracepoint_pairs = 0;
[[gnu::noinline]] void one_tracepoint_pair() {
  for (int i = 0; i < block; ++i) {
    lttng_ust_tracepoint(stepprof_peer, begin);
    BARRIER();
    lttng_ust_tracepoint(stepprof_peer, end);
  }
  tracepoint_pairs += block;
}
#endif

#if WITH_torch
// support/torch_peer.cpp: see there why it is opened, not linked.
struct {
  void (*run)(int) = nullptr;
  void (*start)() = nullptr;
  std::size_t (*stop)() = nullptr;
} torch_peer;

void open_torch() {
  void* const library = ::dlopen(TORCH_PEER, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const auto find = [library](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(::dlerror());
  };
  find(torch_peer.run, "torch_peer_run");
  find(torch_peer.start, "torch_peer_start");
  find(torch_peer.stop, "torch_peer_stop");
}

std::size_t torch_functions = 0;
void one_torch_function() {
  torch_peer.run(block);
  torch_functions += block;
}
#endif

// --- the lines -------------------------------------------------------------------------------------------------------

struct peer {
  const char* name;
  const char* what;
  void (*run)();
};
constexpr peer bare = {"", "", &bare_loop};
constexpr peer clock_reads = {"", "two bare clock reads", &two_clock_reads};

// Runs the loops in turn, A B A B ...; the least ns per scope of each, with the bare loop's, the first one, taken off.
std::vector<double> interleave(const std::vector<peer>& loops, int rounds) {
  std::vector<std::function<void()>> bodies;
  for (const peer& l : loops) bodies.emplace_back(l.run);
  std::vector<double> least = benchmark::interleaved_minima(rounds, bodies);
  for (std::size_t i = least.size(); i-- > 0;) least[i] = (std::max)(0.0, least[i] - least[0]) / block;
  return least;
}

// loops: bare, two clock reads, ours, peers.
void add_lines(benchmark::report& out, const std::vector<peer>& loops, const std::vector<double>& ns) {
  out.add({loops[2].name, loops[2].what, ns[2], "ns", loops[1].what, ns[1], ""});
  for (std::size_t i = 3; i < loops.size(); ++i)
    out.add({loops[i].name, loops[i].what, ns[i], "ns", loops[2].what, ns[2], ""});
}

void report_off(benchmark::report& out, int rounds) {
  std::vector<peer> loops = {bare, clock_reads, {"peer_stepprof_off", "stepprof, off", &one_scope}};
#if WITH_lttng
  if (lttng_ust_tracepoint_enabled(stepprof_peer, begin) != 0)
    fmt::print("peer_lttng_off: a session of somebody else records this program\n");
  else
    loops.push_back({"peer_lttng_off", "LTTng-UST, no session: a tracepoint pair", &one_tracepoint_pair});
#endif
  add_lines(out, loops, interleave(loops, rounds));
}

void check_ours(stepprof::profile& prof) {
  prof.stop();
  const std::uint64_t dropped = prof.result().losses().dropped;
  if (dropped != 0) fmt::print("{} scopes were dropped: the figures are not to be trusted\n", dropped);
}

#if WITH_lttng
// Nothing where it cannot be had.
std::unique_ptr<benchmark::lttng_session> start_lttng() {
  auto session = std::make_unique<benchmark::lttng_session>("stepprof_peer");
  if (!session->started()) {
    fmt::print("peer_lttng: no session (are lttng-tools installed?): {}\n", session->output());
    return nullptr;
  }
  if (benchmark::wait_until([] { return lttng_ust_tracepoint_enabled(stepprof_peer, end) != 0; })) return session;
  fmt::print("peer_lttng: this program's tracepoints did not come on\n");
  return nullptr;
}

void check_lttng(benchmark::lttng_session& session) {
  const benchmark::lttng_session::totals totals = session.stop();
  if (totals.discarded_events != 0)
    fmt::print("peer_lttng: {} of {} events were discarded: the figure is not to be trusted\n", totals.discarded_events,
               2 * tracepoint_pairs);
  if (totals.file_bytes < 8 * tracepoint_pairs)  // an event has a header of four bytes at least
    fmt::print("peer_lttng: {} bytes for {} pairs: the figure is not to be trusted\n", totals.file_bytes,
               tracepoint_pairs);
}
#endif

void report_on(benchmark::report& out, int rounds) {
  std::vector<peer> loops = {bare, clock_reads, {"peer_stepprof", "stepprof, one scope", &one_scope}};
  loops.push_back({"peer_fprintf", "two clock reads and fprintf of a line", &one_line});
#if WITH_lttng
  const std::unique_ptr<benchmark::lttng_session> session = start_lttng();
  tracepoint_pairs = 0;
  if (session) loops.push_back({"peer_lttng", "LTTng-UST, recording: a tracepoint pair", &one_tracepoint_pair});
#endif
  stepprof::profile prof{stepprof::profile_options()};
  add_lines(out, loops, interleave(loops, rounds));
  check_ours(prof);
#if WITH_lttng
  if (session) check_lttng(*session);
#endif
}

#if WITH_torch
void report_torch_off(benchmark::report& out, int rounds) {
  const std::vector<peer> loops = {bare,
                                   clock_reads,
                                   {"peer_stepprof_off_torch", "stepprof, off", &one_scope},
                                   {"peer_torch_off", "libtorch, no profiler: RECORD_FUNCTION", &one_torch_function}};
  add_lines(out, loops, interleave(loops, rounds));
}

void keep_least(std::vector<double>& least, const std::vector<double>& more) {
  if (least.empty()) least = more;
  for (std::size_t i = 0; i < least.size(); ++i) least[i] = (std::min)(least[i], more[i]);
}

// Torch's profiler is started anew every 50 rounds: it takes some hundred bytes for each scope. What it does at its
// end, several times as long as recording, is not part of what is timed.
void report_torch_on(benchmark::report& out, int rounds) {
  const std::vector<peer> loops = {bare,
                                   clock_reads,
                                   {"peer_stepprof_torch", "stepprof, one scope", &one_scope},
                                   {"peer_torch", "libtorch, profiling: RECORD_FUNCTION", &one_torch_function}};
  stepprof::profile prof{stepprof::profile_options()};
  std::vector<double> ns;
  std::size_t recorded = 0;
  torch_functions = 0;
  for (int done = 0; done < rounds; done += 50) {
    torch_peer.start();
    keep_least(ns, interleave(loops, 50));
    recorded += torch_peer.stop();
  }
  add_lines(out, loops, ns);
  check_ours(prof);
  if (recorded != torch_functions)
    fmt::print("peer_torch: {} of {} scopes were recorded: the figure is not to be trusted\n", recorded,
               torch_functions);
}
#endif

void name_missing() {
#if !WITH_lttng
  fmt::print("peer_lttng: LTTng-UST is not installed (liblttng-ust-dev, lttng-tools)\n");
#endif
#if !WITH_torch
  fmt::print("peer_torch: libtorch is not installed (libtorch-dev)\n");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  try {
    benchmark::report out(argc, argv);
    const int rounds = out.quick() ? 50 : 1000;
    printed = std::fopen("/dev/null", "w");
    if (printed == nullptr) return 1;
    std::setvbuf(printed, nullptr, _IOFBF, std::size_t{256} << 10);
    name_missing();
    report_off(out, rounds);
    report_on(out, rounds);
#if WITH_torch
    open_torch();
    report_torch_off(out, rounds);
    report_torch_on(out, rounds);
#endif
    std::fclose(printed);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "peer_cost: %s\n", e.what());
    return 1;
  }
}
