// What lies between recording and the table: log to trace, trace to tree, tree to rows, rows to text. In ns per scope,
// beside a copy or one pass over the same events in the same run, with the memory that it takes.
//
// Every repetition records anew and throws everything away afterwards; neither is timed. Collecting is timed as users
// meet it, as profile::stop(). A first repetition, in which the recorder's memory is taken from the system, does not
// count.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <malloc.h>

#include <fmt/format.h>

#include <stepprof/stepprof.hpp>

#include "support/report.hpp"

namespace {

using benchmark::line;
using benchmark::report;

// --- what is recorded ------------------------------------------------------------------------------------------------

constexpr const char* op_names[] = {"read",    "decode",  "crop",    "flip",      "normalize", "to_device", "im2col",
                                    "gemm",    "bias",    "relu",    "maxpool",   "avgpool",   "concat",    "split",
                                    "softmax", "log",     "gather",  "scatter",   "transpose", "reshape",   "cast",
                                    "clip",    "rescale", "moments", "layernorm", "dropout"};

void leaves(std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i)
    const stepprof::record_function op(op_names[i % std::size(op_names)], stepprof::scope_kind::op);
}

// 26 scopes, one to four inside each other.
constexpr std::size_t scopes_of_batch = 26;
void batch(std::size_t number) {
  STEPPROF_SCOPE("batch");
  {
    STEPPROF_SCOPE("load");
    leaves(number, 4);
  }
  {
    STEPPROF_SCOPE("forward");
    for (std::size_t i = 0; i < 4; ++i) {
      STEPPROF_SCOPE("layer");
      leaves(number + 5 * i, 3);
    }
  }
  STEPPROF_SCOPE("update");
  leaves(number + 9, 2);
}

void record_flat(std::size_t scopes) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([scopes] {
      for (std::size_t i = 0; i < (std::max)(scopes / 4 / scopes_of_batch, std::size_t{1}); ++i) batch(i);
    });
  for (std::thread& t : threads) t.join();
}

// By hand: a function that calls itself 10^5 times needs more stack than a thread has.
void record_chain(std::size_t scopes) {
  std::vector<std::optional<stepprof::record_function>> open(scopes);
  for (auto& scope : open) scope.emplace("nested");
  for (std::size_t i = scopes; i-- > 0;) open[i].reset();
}

void record_distinct(std::size_t scopes) {
  for (std::size_t i = 0; i < scopes; ++i) const stepprof::record_function scope(std::to_string(i));
}

// --- what is measured ------------------------------------------------------------------------------------------------

// The least time of several: what disturbs a run only makes it longer.
struct least {
  double ns = 0;
  void add(double other) { ns = ns == 0 ? other : (std::min)(ns, other); }
};

template <class Body>
double ns_of(Body&& body) {
  const std::int64_t begin = stepprof::detail::steady_ns();
  body();
  return static_cast<double>(stepprof::detail::steady_ns() - begin);
}

// Everything of one shape and size: the least times, and the memory of the last repetition.
struct outcome {
  double scopes = 0;
  least discard, collect, tree, averages, aggregate, table, stacks;
  least copy, pass, sort, text_copy, stacks_copy;  // baselines
  double log_bytes = 0, trace_bytes = 0, peak_bytes = 0;
};

// Of this process, in bytes; 0 where the system does not say.
double status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string text; std::getline(status, text);)
    if (std::string_view(text).substr(0, field.size()) == field)
      return std::strtod(text.c_str() + field.size() + 1, nullptr) * 1024;
  return 0;
}
void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << "5\n";
}
double heap_bytes() {
  const auto use = ::mallinfo2();
  return static_cast<double>(use.uordblks + use.hblkhd);
}

// What nothing that makes events can do without: writing as many bytes to memory that was just allocated.
double copy_events(const std::vector<stepprof::trace_event>& events) {
  return ns_of([&events] {
    const std::vector<stepprof::trace_event> copy(events);
    asm volatile("" : : "r"(copy.data()) : "memory");
  });
}
double pass_over(const std::vector<stepprof::trace_event>& events) {
  return ns_of([&events] {
    std::int64_t sum = 0;
    for (const stepprof::trace_event& e : events) sum += e.duration_ns();
    asm volatile("" : : "r"(sum));
  });
}
double copy_text(const std::string& text) {
  return ns_of([&text] {
    const std::string copy(text);
    asm volatile("" : : "r"(copy.data()) : "memory");
  });
}
double sort_rows(const std::vector<stepprof::event_average>& rows) {
  return ns_of([&rows] {
    std::vector<const stepprof::event_average*> order;
    for (const stepprof::event_average& row : rows) order.push_back(&row);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->self_ns > b->self_ns; });
    asm volatile("" : : "r"(order.data()) : "memory");
  });
}

struct shape {
  const char* name;
  void (*record)(std::size_t scopes);
  std::size_t scopes;
  const char* size;  // in names of lines
  int rounds;
  bool with_stacks;  // the stacks of a chain are as long as the chain, each
};

void measure_texts(const shape& s, const stepprof::trace& recording, const stepprof::event_averages& averages,
                   outcome& out) {
  std::string text;
  out.table.add(ns_of([&] { text = averages.table("self_cpu_time_total", 10); }));
  out.sort.add(sort_rows(averages.rows));
  if (!s.with_stacks) return;
  out.stacks.add(ns_of([&] {
    std::error_code ec;
    text = stepprof::folded_stacks(recording, "self_cpu_time_total", ec);
  }));
  out.stacks_copy.add(pass_over(recording.events()) + copy_text(text));
}

void measure_once(const shape& s, outcome& out) {
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{512} << 20;
  stepprof::profile prof(options);
  s.record(s.scopes);
  const double heap_before = heap_bytes();
  forget_peak();
  const double collect = ns_of([&] { prof.stop(); });
  out.peak_bytes = status_bytes("VmHWM:") - status_bytes("VmRSS:");
  const stepprof::trace recording = prof.result();
  out.trace_bytes = heap_bytes() - heap_before;
  out.log_bytes = static_cast<double>(recording.info().profiler_bytes);
  out.scopes = static_cast<double>(recording.events().size());

  std::optional<stepprof::event_tree> tree;
  const double tree_ns = ns_of([&] { tree.emplace(recording); });
  stepprof::event_averages averages;
  const double averages_ns = ns_of([&] { averages = stepprof::key_averages(*tree); });
  out.collect.add(collect);
  out.tree.add(tree_ns);
  out.averages.add(averages_ns);
  out.aggregate.add(collect + tree_ns + averages_ns);
  out.copy.add(copy_events(recording.events()));
  out.pass.add(pass_over(recording.events()));
  measure_texts(s, recording, averages, out);
  if (recording.losses().dropped + recording.losses().overflow_names != 0)
    fmt::print(stderr, "{} of {}: scopes were dropped, the figures are of fewer\n", s.name, s.size);
}

// A warm-up, which is recorded and thrown away.
void measure_discard(const shape& s, outcome& out) {
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{512} << 20;
  options.schedule = stepprof::schedule{/*wait*/ 0, /*warmup*/ 1, /*active*/ 1};
  stepprof::profile prof(options);
  s.record(s.scopes);
  out.discard.add(ns_of([&] { prof.stop(); }));
}

outcome measure(const shape& s, bool quick) {
  outcome unused, out;
  measure_once(s, unused);
  for (int i = 0; i < (quick ? 2 : (s.rounds + 2) / 3); ++i) measure_discard(s, out);
  for (int i = 0; i < (quick ? 2 : s.rounds); ++i) measure_once(s, out);
  return out;
}

// --- what is printed -------------------------------------------------------------------------------------------------

void add_parts(report& to, const shape& s, const outcome& out) {
  const auto add = [&](const char* part, double ns, const char* baseline, double baseline_ns) {
    to.add({fmt::format("{}_{}_{}", s.name, s.size, part), fmt::format("{}, {} scopes: {}", s.name, s.size, part),
            ns / out.scopes, "ns/scope", baseline, baseline_ns / out.scopes, ""});
  };
  add("discard", out.discard.ns, "one pass over the events", out.pass.ns);
  add("log_to_trace", out.collect.ns, "copying its events", out.copy.ns);
  add("tree", out.tree.ns, "one pass over the events", out.pass.ns);
  add("key_averages", out.averages.ns, "one pass over the events", out.pass.ns);
  add("table", out.table.ns, "sorting the rows", out.sort.ns);
  if (s.with_stacks) add("stacks", out.stacks.ns, "one pass and copying the text", out.stacks_copy.ns);
}

void add_memory(report& to, const shape& s, const outcome& out) {
  const auto add = [&](const char* what, const char* title, double bytes, const char* baseline, double baseline_bytes,
                       const char* target) {
    to.add({fmt::format("{}_{}_{}", s.name, s.size, what), fmt::format("{}, {} scopes: {}", s.name, s.size, title),
            bytes / out.scopes, "bytes/scope", baseline, baseline_bytes / out.scopes, target});
  };
  add("log_bytes", "the log", out.log_bytes, "two words", 16 * out.scopes, "");
  add("trace_bytes", "the trace", out.trace_bytes, "its events alone", sizeof(stepprof::trace_event) * out.scopes, "");
  if (out.peak_bytes > 0 || s.scopes >= 1000000)
    add("peak_bytes", "peak while collecting, beyond the trace", (std::max)(out.peak_bytes, 0.0), "the log",
        out.log_bytes, "ratio <= 1");
}

void add_aggregate(report& to, const shape& s, const outcome& out) {
  to.add({fmt::format("aggregate_{}", s.size), fmt::format("log to rows, {} scopes", s.size),
          out.aggregate.ns / out.scopes, "ns/scope", "copying its events", out.copy.ns / out.scopes, "value <= 60"});
}

// Per scope, so 1.2 is 12 times for ten times as many. In turn: the machine may be slower now than it was above.
void add_growth(report& to, const shape& small, const shape& large) {
  outcome of_small, of_large;
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 3; ++k) measure_once(small, of_small);
    measure_once(large, of_large);
  }
  to.add({"aggregate_growth", "log to rows, 1e7 scopes", of_large.aggregate.ns / of_large.scopes, "ns/scope",
          "1e6 scopes", of_small.aggregate.ns / of_small.scopes, "ratio <= 1.2"});
}

}  // namespace

int main(int argc, char** argv) {
  // Warm-ups that no step follows are what is measured, and no news.
  stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
  report to(argc, argv);
  constexpr shape flat[] = {{"flat", &record_flat, 10000, "1e4", 200, true},
                            {"flat", &record_flat, 100000, "1e5", 50, true},
                            {"flat", &record_flat, 1000000, "1e6", 15, true},
                            {"flat", &record_flat, 10000000, "1e7", 9, true}};
  constexpr shape others[] = {{"chain", &record_chain, 100000, "1e5", 20, false},
                              {"distinct", &record_distinct, 1000000, "1e6", 3, true}};
  for (const shape& s : flat) {
    if (to.quick() && s.scopes > 1000000) continue;
    const outcome out = measure(s, to.quick());
    add_parts(to, s, out);
    if (s.scopes < 1000000) continue;
    add_aggregate(to, s, out);
    add_memory(to, s, out);
  }
  if (!to.quick()) add_growth(to, flat[2], flat[3]);
  for (const shape& s : others) {
    const outcome out = measure(s, to.quick());
    add_parts(to, s, out);
    add_memory(to, s, out);
  }
}
