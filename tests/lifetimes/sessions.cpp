#include "sessions.hpp"

#include <support/counts.hpp>
#include <support/forked.hpp>
#include <support/sanitized.hpp>
#include <support/temp_folder.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

#include "counted.hpp"

namespace lifetimes {

std::atomic<bool> operators_record{false};

namespace {

stepprof::profile_options small_budget(std::size_t mib) {
  stepprof::profile_options options;
  options.event_budget_bytes = mib << 20;
  return options;
}

stepprof::profile* running = nullptr;

bool holds(const char* what, bool right) {
  if (!right) std::fprintf(stderr, "not so: %s\n", what);
  return right;
}
#define STEPPROF_HOLDS(condition) holds(#condition, condition)

}  // namespace

void start_session() {
  running = new stepprof::profile(small_budget(8));
}
void stop_session() {
  running->stop();
}
void start_static_session() {
  static stepprof::profile prof(small_budget(8));
}

std::int64_t calls(const char* name) {
  return test::calls(running->running() ? running->snapshot() : running->result(), name);
}
std::uint64_t recorded_so_far() {
  const stepprof::recording_totals totals = stepprof::process_totals();
  return totals.kept + totals.unfinished + totals.late + totals.discarded;
}
std::uint64_t dropped_so_far() {
  return stepprof::process_totals().dropped;
}

// --- forks ----------------------------------------------------------------------------------------------------------

namespace {

constexpr int workers = 8;
constexpr int forks = test::thread_sanitized ? 50 : 200;  // ThreadSanitizer takes 80 ms for each
constexpr int scopes_of_child = 20;

// Records and names itself, as often as it is allowed to.
void work(int number, const std::atomic<int>& allowed, const std::atomic<bool>& done) {
  for (int i = 0; !done || i < allowed; ++i) {
    while (i >= allowed && !done) std::this_thread::yield();
    if (i >= allowed) return;
    stepprof::set_thread_name("worker " + std::to_string(number) + " at " + std::to_string(i));
    STEPPROF_SCOPE("of a worker");
    const stepprof::record_function named("round " + std::to_string(i), stepprof::arg("i", i));
  }
}

// A child of which only the forking thread is left: records, exports and exits as any program does.
[[noreturn]] void live_as_child(const test::temp_folder& folder, int number) {
  ::alarm(60);
  const std::string name = "child " + std::to_string(number);
  stepprof::set_thread_name(name);
  stepprof::profile prof(small_budget(1));
  for (int i = 0; i < scopes_of_child; ++i) {
    STEPPROF_SCOPE("of a child");
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  bool right = test::calls(t, "of a child") == scopes_of_child && t.events().size() == scopes_of_child &&
               t.losses().dropped == 0 && t.tracks().size() == 1 && t.tracks()[0].name == name;
  std::error_code ec;
  prof.export_chrome_trace(folder / (name + ".json"), ec);
  std::exit(right && !ec ? 0 : 1);
}

struct forking_parent {
  const test::temp_folder& folder;
  pid_t pid = ::getpid();
  int rounds = 0;

  // At exit, in the profile's destructor; of a child never.
  void check(const stepprof::trace& t) const {
    bool right = STEPPROF_HOLDS(::getpid() == pid);
    right &= STEPPROF_HOLDS(test::calls(t, "of a worker") == std::int64_t{workers} * rounds);
    right &= STEPPROF_HOLDS(test::calls(t, "of a child") == 0);
    right &= STEPPROF_HOLDS(t.losses().kept == std::uint64_t{2} * workers * static_cast<std::uint64_t>(rounds));
    right &= STEPPROF_HOLDS(t.losses().dropped == 0 && t.losses().unfinished == 0);
    int named = 0;
    for (const stepprof::trace_track& track : t.tracks())
      named += track.name.rfind("worker ", 0) == 0 &&
               track.name.find(" at " + std::to_string(rounds - 1)) != std::string::npos;
    right &= STEPPROF_HOLDS(named == workers);
    stepprof::export_chrome_trace(t, folder / ("parent " + std::to_string(::getpid()) + ".json"));
    if (!right) std::_Exit(1);
  }
};

// The life of the parent, from its own main thread to its exit.
[[noreturn]] void live_as_parent(const test::temp_folder& folder) {
  ::alarm(250);
  static forking_parent parent{folder};
  stepprof::profile_options options = small_budget(32);
  options.on_trace_ready = [](const stepprof::trace& t) { parent.check(t); };
  static stepprof::profile prof(options);
  std::atomic<int> allowed{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i) threads.emplace_back([&, i] { work(i, allowed, done); });
  int failed = 0;
  for (int i = 0; i < forks; ++i) {
    allowed = parent.rounds += 20;
    const pid_t child = ::fork();
    if (child == 0) live_as_child(folder, i);
    failed += test::status_of(child) == 0 ? 0 : 1;
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  std::exit(failed);
}

}  // namespace

// Catches: a child that waits for a lock or a thread which only its parent has, scopes of one in the trace of the
// other, and a window of the parent that is delivered again by each child that exits.
// FC-67: https://github.com/intel/torch-xpu-ops/issues/5287, https://github.com/DataDog/dd-trace-py/issues/11762,
// https://github.com/gperftools/gperftools/issues/1425
int fork_while_threads_record() {
  const test::temp_folder folder;
  const pid_t parent = ::fork();
  if (parent == 0) live_as_parent(folder);
  bool right = STEPPROF_HOLDS(test::status_of(parent) == 0);
  int of_children = 0, of_parent = 0, others = 0;
  for (const std::string& name : folder.names()) {
    const std::string text = test::contents_of(folder / name);
    const bool whole = text.size() > 2 && text.compare(text.size() - 2, 2, "\"}") == 0;
    const bool has_children = text.find("of a child") != std::string::npos;
    const bool has_workers = text.find("of a worker") != std::string::npos;
    if (name.rfind("child ", 0) == 0 && whole && has_children && !has_workers)
      ++of_children;
    else if (name == "parent " + std::to_string(parent) + ".json" && whole && has_workers && !has_children)
      ++of_parent;
    else
      ++others;
  }
  right &= STEPPROF_HOLDS(of_children == forks);
  right &= STEPPROF_HOLDS(of_parent == 1);
  right &= STEPPROF_HOLDS(others == 0);
  std::printf("%d files of children, %d of their parent, %d others\n", of_children, of_parent, others);
  return right ? 0 : 1;
}

// --- callbacks ------------------------------------------------------------------------------------------------------

namespace {

// What traces say of the scopes begun in their windows.
struct sums {
  stepprof::loss_counts lost;
  std::int64_t in_new = 0, in_delete = 0, in_hook = 0, in_callback = 0;

  void add(const stepprof::trace& t) {
    stepprof::detail::add_losses(lost, t.losses());
    in_new += test::calls(t, "operator new");
    in_delete += test::calls(t, "operator delete");
    in_hook += test::calls(t, "hook");
    in_callback += test::calls(t, "callback");
  }
};

bool record_in_callbacks(std::size_t budget_mib, int steps, bool fills_the_budget) {
  sums all;
  begun = accepted = 0;
  const std::uint64_t recorded_before = recorded_so_far(), dropped_before = dropped_so_far();
  stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) { record_two("hook"); });
  {
    stepprof::profile_options options = small_budget(budget_mib);
    options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
    options.on_trace_ready = [&](const stepprof::trace& t) {
      record_two("callback");
      all.add(t);
      stepprof::report_diagnostic({"seen", "a trace"});
    };
    stepprof::profile prof(options, stepprof::deferred);
    operators_record = true;
    prof.start();
    std::thread([] {
      for (int i = 0; i < 1000; ++i) ::operator delete(::operator new(24));
    }).join();
    for (int step = 0; step < steps; ++step) {
      record_two("step");
      if (fills_the_budget)
        for (int i = 0; i < 100000; ++i) record_one("fills");
      static_cast<void>(prof.snapshot());
      prof.step();
    }
    prof.stop();
    operators_record = false;
  }
  stepprof::set_diagnostics_hook({});
  std::printf("%d MiB: %llu begun, %llu kept, %llu unfinished, %llu dropped; %lld in operator new, %lld in the hook\n",
              static_cast<int>(budget_mib), static_cast<unsigned long long>(begun),
              static_cast<unsigned long long>(all.lost.kept), static_cast<unsigned long long>(all.lost.unfinished),
              static_cast<unsigned long long>(all.lost.dropped), static_cast<long long>(all.in_new),
              static_cast<long long>(all.in_hook));
  bool right = STEPPROF_HOLDS(test::begins(all.lost) == begun);
  right &= STEPPROF_HOLDS(all.lost.kept + all.lost.unfinished + all.lost.late == accepted);
  right &= STEPPROF_HOLDS(recorded_so_far() - recorded_before == accepted);
  right &= STEPPROF_HOLDS(dropped_so_far() - dropped_before == begun - accepted);
  right &= STEPPROF_HOLDS(all.lost.reentrant == 0);  // none of these is inside the recorder
  right &= STEPPROF_HOLDS((all.lost.dropped != 0) == fills_the_budget);
  right &= STEPPROF_HOLDS(test::sanitized || (all.in_new > 1000 && all.in_delete > 1000));
  right &= STEPPROF_HOLDS(fills_the_budget || (all.in_hook >= steps && all.in_callback == steps));
  return right;
}

}  // namespace

// Catches: a profiler that records the work of its own calls into what it is reading, that waits for itself when a
// callback of it records, or that loses count then.
// FC-68: https://github.com/gperftools/gperftools/issues/775
int record_in_callbacks() {
  bool right = record_in_callbacks(64, 20, false);
  right &= record_in_callbacks(1, 4, true);
  return right ? 0 : 1;
}

}  // namespace lifetimes
