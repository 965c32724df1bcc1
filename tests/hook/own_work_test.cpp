// Catches: the profiler's own memory in the program's numbers, and the program's left out of them.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/recorded.hpp>
#include <support/temp_folder.hpp>

#include <stepprof/stepprof.hpp>

namespace own_work_test {

namespace {

// Every number of the rows that a window's reports make.
std::string numbers(const stepprof::event_averages& rows) {
  std::string text;
  for (const stepprof::event_average& row : rows.rows)
    for (const stepprof::memory_sums& sums : {row.self_memory, row.total_memory})
      text += row.name + " " + std::to_string(row.calls) + " " + std::to_string(sums.allocations) + "/" +
              std::to_string(sums.allocated_bytes) + " " + std::to_string(sums.frees) + "/" +
              std::to_string(sums.freed_bytes) + " " + std::to_string(sums.unmatched_frees) + " " +
              std::to_string(row.peak_bytes) + "\n";
  return text + std::to_string(rows.losses.unmatched_frees) + " " + std::to_string(rows.losses.lost_frees);
}

// So many bytes of the heap, which no compiler leaves out.
class block {
 public:
  explicit block(std::size_t bytes) : bytes_(bytes) {
    char* first = bytes_.data();
    STEPPROF_KEEP_IN_REGISTER(first);
  }

 private:
  std::vector<char> bytes_;
};

// Work of a program that looks at its profile in between, or does not.
std::string profiled(bool looks) {
  const test::heard heard;
  const test::temp_folder folder;
  const std::filesystem::path file = folder / "t.json", stacks = folder / "t.stacks";
  stepprof::profile_options options = test::with_memory();
  options.schedule = stepprof::schedule{0, 0, 2, 1};
  stepprof::profile prof(options);
  const auto look = [&] {
    if (!looks) return;
    const stepprof::trace now = prof.snapshot();
    stepprof::export_chrome_trace(now, file);
    stepprof::export_stacks(now, stacks, "self_allocated");
    const stepprof::event_averages rows = stepprof::key_averages(now);
    const std::string table = rows.table("self_cpu_memory_usage");
    const stepprof::event_averages events = stepprof::event_rows(now);
    const stepprof::event_tree tree(now);
    prof.add_metadata("a key that is long enough for the heap", table);
    static_cast<void>(prof.last_error());
  };
  {
    const stepprof::record_function scope("work");
    const block kept(400);
    look();
    const block more(800);
    look();
  }
  prof.step();
  look();
  {
    const stepprof::record_function scope("more work");
    const block kept(1200);
    look();
  }
  prof.step();
  prof.stop();
  return numbers(prof.key_averages());
}

}  // namespace

// Catches: a table that is different when it was looked at before.
TEST_CASE("looking at a profile does not change it", "[hook]") {
  const std::string plain = profiled(false);
  CHECK(profiled(true) == plain);
  CHECK(test::contains(plain, "work 1 2/1200 2/1200 0 1200"));
}

// Catches: cycles that are collected and delivered inside step() in the numbers of the next one; memory of the
// callback, which is the program's, left out.
TEST_CASE("delivering a cycle is no part of the next one, but the callback's own memory is", "[hook]") {
  std::vector<std::string> cycles;
  cycles.reserve(16);
  stepprof::profile_options options = test::with_memory();
  options.schedule = stepprof::schedule{0, 0, 1, 0};
  options.on_trace_ready = [&cycles](const stepprof::trace& t) {
    const stepprof::record_function scope("callback");
    const block kept(1000);
    const stepprof::detail::own_work for_the_text;
    cycles.push_back(numbers(stepprof::key_averages(t)));
  };
  const test::heard heard;
  stepprof::profile prof(options);
  for (int i = 0; i < 6; ++i) {
    {
      const stepprof::record_function scope("work");
      const block kept(10);
    }
    prof.step();
  }
  prof.stop();
  REQUIRE(cycles.size() >= 6);
  CHECK(cycles[0].find("callback") == std::string::npos);
  for (std::size_t i = 2; i < 6; ++i) CHECK(cycles[i] == cycles[1]);
  CHECK(test::contains(cycles[1], "callback 1 1/1000 1/1000 0 1000\n"));
  CHECK(test::contains(cycles[1], "work 1 1/10 1/10 0 10\n"));
  CHECK_FALSE(test::contains(cycles[1], "[memory]"));
}

// Catches: live bytes that begin where the last window's ended, or that count what is freed later.
// Total Allocated drifts: torch 2.14 keeps what was allocated in a window and freed outside of it for ever.
TEST_CASE("live bytes begin anew with each window", "[hook]") {
  std::vector<std::int64_t> last;
  last.reserve(16);
  std::vector<char*> kept;
  kept.reserve(16);
  stepprof::profile_options options = test::with_memory();
  options.schedule = stepprof::schedule{1, 0, 1, 0};
  options.on_trace_ready = [&](const stepprof::trace& t) {
    last.push_back(t.memory().empty() ? -1 : t.memory().back().total_allocated);
    CHECK(t.losses().lost_frees == 0);
  };
  const test::heard heard;
  stepprof::profile prof(options);
  for (int i = 0; i < 10; ++i) {
    if (i % 2 == 1) {
      kept.push_back(new char[4000]);
    } else if (!kept.empty()) {
      delete[] kept.back();  // outside the window
      kept.pop_back();
    }
    prof.step();
  }
  prof.stop();
  for (char* const block : kept) delete[] block;
  CHECK(last == std::vector<std::int64_t>(5, 4000));
}

}  // namespace own_work_test
