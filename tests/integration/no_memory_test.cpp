// Catches: a profile that ends the program, or gives wrong numbers from then on, where the system has no memory for it.
#include <support/catch.hpp>
#include <support/forked.hpp>
#include <support/recorded.hpp>
#include <support/sanitized.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include <stepprof/stepprof.hpp>

namespace no_memory_test {

namespace {

// Of this process; sanitizers reserve more than any limit leaves.
constexpr bool can_limit = !test::sanitized;

bool limit_address_space(rlim_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0) return false;
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  return ::setrlimit(RLIMIT_AS, &limit) == 0;
}
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void record(int count) {
  for (int i = 0; i < count; ++i) {
    STEPPROF_SCOPE("scope");
  }
}

// Whether it holds; in a child, where no check of Catch2 is seen.
bool holds(bool condition, const char* what) {
  if (!condition) std::fprintf(stderr, "does not hold: %s\n", what);
  return condition;
}

stepprof::profile_options with_budget(std::size_t bytes) {
  stepprof::profile_options options;
  options.event_budget_bytes = bytes;
  return options;
}

// A budget that the system refuses, asked for again and again, then one that it has.
bool budget_is_refused() {
  bool right = limit_address_space(address_space() + (rlim_t{1} << 30));
  std::error_code ec;
  rlim_t after_first = 0;
  for (int i = 0; i < 20; ++i) {
    right = holds(!stepprof::profile::create(with_budget(std::size_t{16} << 30), ec), "no profile") && right;
    right = holds(ec == stepprof::errc::out_of_memory, "the kind of error") && right;
    right = holds(ec.message() ==
                      "profile_options: event_budget_bytes is 17179869184, which the system cannot reserve; use less",
                  "the text") &&
            right;
    if (i == 0) after_first = address_space();
  }
  right = holds(address_space() < after_first + (rlim_t{1} << 20), "a budget refused takes nothing more") && right;
  stepprof::profile prof(with_budget(std::size_t{1} << 20));
  record(1000);
  prof.stop();
  return holds(test::calls(prof.result(), "scope") == 1000, "a smaller budget works") && right;
}

// A cycle whose trace does not fit into memory, then one that does.
bool cycle_is_lost() {
  const test::heard heard;
  std::int64_t recorded = -1;
  int delivered = 0;
  stepprof::profile_options options = with_budget(std::size_t{64} << 20);
  options.schedule = stepprof::schedule{0, 0, 1, 0};
  options.on_trace_ready = [&](const stepprof::trace& t) {
    ++delivered;
    recorded = test::calls(t, "scope");
  };
  stepprof::profile prof(options);
  record(2000000);  // 32 MB of records, 64 MB of events
  bool right = limit_address_space(address_space() + (rlim_t{1} << 20));
  prof.step();
  right = limit_address_space(RLIM_INFINITY) && right;
  right = holds(delivered == 0, "nothing is delivered") && right;
  right = holds(test::contains(heard.codes(), "collect_failed"), heard.codes().c_str()) && right;
  right =
      holds(prof.last_error().find("profile: the cycle could not be collected: ") == 0, "the error is kept") && right;
  right = holds(prof.running(), "the profile goes on") && right;
  record(1000);
  prof.step();
  right = holds(delivered == 1 && recorded == 1000, "the next cycle has its own scopes and no other") && right;
  record(10);
  prof.stop();
  return holds(recorded == 10, "the last one, too") && right;
}

}  // namespace

// Catches: a crash, or a profile that says nothing, where the system refuses the address space; address space that each
// try loses.
TEST_CASE("a budget that the system cannot reserve is an error", "[no_memory]") {
  if (can_limit) CHECK(test::run_in_child(budget_is_refused) == 0);
}

// Catches: an exception that leaves step(), a cycle that is lost in silence, and one that is counted with the next.
TEST_CASE("a cycle that does not fit into memory is reported, and the next one is right", "[no_memory]") {
  if (can_limit) CHECK(test::run_in_child(cycle_is_lost) == 0);
}

}  // namespace no_memory_test
