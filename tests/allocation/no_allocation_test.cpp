// Catches: a recording thread that allocates, locks or meets page faults.
#include <support/catch.hpp>

#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <stepprof/stepprof.hpp>

#include "counted_malloc.hpp"

namespace no_allocation_test {

// What the hot path shares between threads needs no lock that a library would supply.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "stacks of blocks");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "the gate, names, ids, counters");
static_assert(std::atomic<std::uint16_t>::is_always_lock_free, "positions in a chunk");
static_assert(std::atomic<const stepprof::detail::cold_table*>::is_always_lock_free, "the table of cold paths");
static_assert(std::atomic<bool>::is_always_lock_free, "switches");

namespace {

long minor_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

// Everything that a program's own code may call while it records. `names` are looked up at run time.
void record_everything(const std::vector<std::string>& names, int scopes) {
  static const int blocks[8] = {};
  const std::int64_t sizes[] = {4, 5};
  stepprof::manual_scope manual;
  for (int i = 0; i < scopes; i += 4) {
    const std::string& name = names[static_cast<std::size_t>(i / 4) % names.size()];
    STEPPROF_SCOPE("outer", stepprof::arg("i", i), stepprof::arg("text", name));
    stepprof::record_function named(name, stepprof::scope_kind::op, stepprof::sequence_number(i),
                                    stepprof::inputs(i, 2.5, stepprof::scalar_list{sizes, 2}));
    stepprof::report_alloc(&blocks[i % 8], 16);
    {
      const stepprof::record_function node("node", stepprof::scope_kind::backward_op, named.link());
      named.add_arg("late", 0.5);
    }
    manual.begin(name, stepprof::arg("yes", true));
    stepprof::mark("mark");
    stepprof::counter("counter", i);
    stepprof::report_free(&blocks[i % 8]);
    manual.end();
  }
}

std::vector<std::string> many_names() {
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i)
    names.push_back("a name that fits no small string " + std::to_string(i) +
                    std::string(static_cast<std::size_t>(i % 40), 'x'));
  return names;
}

}  // namespace

// Catches: a counter of this test that counts nothing.
TEST_CASE("the heap of this program is counted", "[allocation]") {
  const std::uint64_t before = test::heap_calls();
  { const auto owned = std::make_unique<std::string>(std::string(100, 'x')); }
  CHECK(test::heap_calls() - before >= 4);
  const std::uint64_t between = test::heap_calls();
  CHECK(test::heap_calls() == between);
}

// Catches: a log, a name, an argument or a thread's entry that comes from the heap, where the program's allocator may
// be the very thing that is being profiled.
TEST_CASE("recording never touches the heap, from a thread's first scope on", "[allocation]") {
  const stepprof::diagnostics_hook hook = stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
  const std::vector<std::string> names = many_names();
  for (const std::size_t budget : {std::size_t{256} << 20, std::size_t{1} << 20}) {  // the second one gets full
    stepprof::profile_options options;
    options.record_shapes = options.profile_memory = true;
    options.event_budget_bytes = budget;
    stepprof::profile prof(options);
    std::uint64_t first = 0, later = 0;
    std::thread([&] {
      const std::uint64_t before = test::heap_calls();
      record_everything(names, 4);
      const std::uint64_t between = test::heap_calls();
      record_everything(names, 200000);
      first = between - before;
      later = test::heap_calls() - between;
    }).join();
    prof.stop();
    CHECK(first == 0);
    CHECK(later == 0);
    const stepprof::loss_counts lost = prof.result().losses();
    CHECK(lost.kept + lost.dropped == 200004);
    CHECK((lost.dropped != 0) == (budget == std::size_t{1} << 20));
    CHECK(prof.result().info().profiler_bytes > 15 * stepprof::detail::block_bytes);  // many chunks
  }
  stepprof::set_diagnostics_hook(hook);
}

// Catches: a stack, a module or an unwinder's own memory that comes from the heap.
TEST_CASE("walking stacks never touches the heap, from a thread's first scope on", "[allocation]") {
  if (!stepprof::detail::system_can_unwind) return;
  const std::vector<std::string> names = many_names();
  stepprof::profile_options options;
  options.with_stack = true;
  stepprof::profile prof(options);
  std::uint64_t calls = 0;
  std::thread([&] {
    const std::uint64_t before = test::heap_calls();
    record_everything(names, 4000);
    calls = test::heap_calls() - before;
  }).join();
  prof.stop();
  CHECK(calls == 0);
  CHECK(prof.result().native_stacks().size() == 4);
  CHECK(prof.result().losses().kept == 4000);
}

// Catches: chunks that are written for the first time by the thread that records. A million scopes are 245 chunks, or
// 3900 pages; a system may still move a page now and then.
TEST_CASE("a warm recording thread meets no page faults", "[allocation]") {
  stepprof::profile prof;
  long faults = 0;
  std::thread([&] {
    const auto record = [](int scopes) {
      for (int i = 0; i < scopes; ++i) {
        STEPPROF_SCOPE("s");
      }
    };
    record(1000);
    const long before = minor_faults();
    record(1000000);
    faults = minor_faults() - before;
  }).join();
  prof.stop();
  fmt::print("page faults of a thread over 1000000 scopes: {}\n", faults);
  CHECK(prof.result().losses().kept == 1001000);
  CHECK(faults < 100);
}

}  // namespace no_allocation_test
