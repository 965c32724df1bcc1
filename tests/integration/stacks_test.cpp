// Catches: stacks that are missing, shared or torn where threads, sessions and signal handlers meet. Without an
// adapter, so frames are modules and offsets.
#include <support/recorded.hpp>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/time.h>

#include <stepprof/stepprof.hpp>

#include <support/catch.hpp>

namespace stacks_test {

namespace {

constexpr bool can_walk = stepprof::detail::system_can_unwind;

stepprof::profile_options with_stacks() {
  stepprof::profile_options options;
  options.with_stack = true;
  return options;
}

[[gnu::noinline]] void leaf() {
  STEPPROF_SCOPE("leaf");
  STEPPROF_CLOBBER_MEMORY();
}
[[gnu::noinline]] void descend(int levels) {
  if (levels == 0)
    leaf();
  else
    descend(levels - 1);
  STEPPROF_CLOBBER_MEMORY();
}
[[gnu::noinline]] void all_kinds() {
  leaf();
  const stepprof::record_function named("named");
  stepprof::manual_scope manual;
  manual.begin("manual");
  STEPPROF_CLOBBER_MEMORY();
}

std::size_t frames_in(std::string_view stack) {
  return stack.empty() ? 0 : 1 + static_cast<std::size_t>(std::count(stack.begin(), stack.end(), ';'));
}
std::size_t depth_of(const stepprof::trace& t, const stepprof::trace_event& e) {
  return frames_in(t.call_stack(t.detail(e)));
}

std::atomic<std::uint64_t> handled{0};
std::atomic<std::uint64_t> accepted{0};
void on_timer(int) {
  handled.fetch_add(1, std::memory_order_relaxed);
  const stepprof::record_function scope("of a handler");
  if (scope.recorded()) accepted.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// Catches: a thread whose first scope has no stack, a session whose scopes get those of the session before, and scopes
// that still get stacks when nobody wants them.
TEST_CASE("threads and sessions each begin with or without stacks", "[stacks]") {
  if (!can_walk) return;
  for (int round = 0; round < 3; ++round) {
    {
      stepprof::profile prof(with_stacks());
      std::thread([] { all_kinds(); }).join();
      leaf();
      prof.stop();
      const stepprof::trace t = prof.result();
      CHECK(t.events().size() == 4);
      for (const stepprof::trace_event& e : t.events()) CHECK(depth_of(t, e) > 1);
      CHECK(t.notes().empty());
      CHECK(t.info().scope_cost_ns > 3 * t.info().scope_cost_inside_ns);  // walking the stack is told, too
    }
    {
      stepprof::profile prof{stepprof::profile_options()};
      std::thread([] { all_kinds(); }).join();
      all_kinds();
      prof.stop();
      const stepprof::trace t = prof.result();
      CHECK(t.events().size() == 6);
      CHECK(t.native_stacks().empty());
      CHECK_FALSE(t.info().has_stacks);
      for (const stepprof::trace_event& e : t.events()) CHECK_FALSE(stepprof::trace::has_call_stack(t.detail(e)));
    }
  }
}

// Catches: stacks of one thread given to another's scopes, and equal ones that are kept twice because two threads
// inserted them at once; texts that are made twice and torn.
TEST_CASE("threads record the same stacks at once", "[stacks]") {
  if (!can_walk) return;
  constexpr int threads = 4, rounds = 200, depths = 8;
  stepprof::profile prof(with_stacks());
  std::vector<std::thread> workers;
  std::atomic<int> arrived{0};
  for (int i = 0; i < threads; ++i)
    workers.emplace_back([&arrived] {
      arrived.fetch_add(1);
      while (arrived.load() < threads) std::this_thread::yield();
      for (int round = 0; round < rounds; ++round) descend(round % depths);
    });
  for (std::thread& worker : workers) worker.join();
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.events().size() == threads * rounds);
  CHECK(t.losses().dropped == 0);
  CHECK(t.native_stacks().size() == depths);
  // The number of a thread's scope tells how deep it was.
  std::vector<std::size_t> base(t.tracks().size());
  std::vector<std::thread> readers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < threads; ++i)
    readers.emplace_back([&t, &wrong] {
      for (const stepprof::trace_track& track : t.tracks()) {
        const std::size_t shallow = depth_of(t, t.events()[track.first_event]);
        for (std::uint32_t k = 0; k < track.event_count; ++k)
          wrong += depth_of(t, t.events()[track.first_event + k]) != shallow + k % depths;
      }
    });
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

// Catches: cycles whose stacks are those of a cycle before, and stacks that are gone after a merge or a new session.
TEST_CASE("each cycle has its stacks, and keeps them", "[stacks]") {
  if (!can_walk) return;
  stepprof::profile_options options = with_stacks();
  options.schedule = stepprof::schedule{/*wait*/ 1, /*warmup*/ 1, /*active*/ 2, /*repeat*/ 2};
  options.accumulate = true;
  stepprof::profile prof(options);
  for (int step = 0; step < 8; ++step) {
    descend(step);
    prof.step();
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  stepprof::profile(with_stacks()).stop();
  stepprof::profile(with_stacks()).stop();  // the names of the first session are gone now
  std::vector<std::size_t> depths;
  for (const stepprof::trace_event& e : t.events())
    if (t.name(e) == "leaf") depths.push_back(depth_of(t, e));
  REQUIRE(depths.size() == 4);  // steps 2, 3, 6 and 7
  CHECK(depths[1] == depths[0] + 1);
  CHECK(depths[2] == depths[0] + 4);
  CHECK(depths[3] == depths[0] + 5);
}

// Catches: more distinct stacks than there is room for: an end of the program, or scopes that are lost with their
// stacks, or stacks that are missing and nobody hears of it.
TEST_CASE("stacks that find no room are counted, their scopes are kept", "[stacks]") {
  if (!can_walk) return;
  stepprof::profile_options options = with_stacks();
  options.stack_depth = 256;
  options.event_budget_bytes = std::size_t{1} << 20;  // of which a quarter is for names: some hundred such stacks
  const test::heard heard;
  stepprof::profile prof(options);
  for (int i = 0; i < 1000; ++i) descend(i % 250);
  std::uint64_t scopes = 1000;
  for (int round = 0; round < 4; ++round)
    for (int i = 0; i < 250; ++i, ++scopes) std::thread([i] { descend(i); }).join();  // of other outermost frames
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.losses().kept + t.losses().dropped == scopes);
  std::uint64_t missing = 0;
  for (const stepprof::trace_event& e : t.events()) missing += stepprof::trace::has_call_stack(t.detail(e)) ? 0u : 1u;
  REQUIRE(missing > 0);
  std::string found;
  for (const stepprof::trace_note& note : t.notes())
    if (note.code == "stacks_missing") found = note.text;
  CHECK(found.substr(0, found.find(' ')) == std::to_string(missing));
}

// Catches: a walk that a signal interrupts and that ends the program, tears the log, or gives a scope the stack of the
// handler.
TEST_CASE("handlers interrupt the walk along a stack", "[stacks]") {
  if (!can_walk) return;
  const test::heard heard;
  stepprof::profile prof(with_stacks());
  handled = accepted = 0;
  struct sigaction action = {}, before = {};
  action.sa_handler = &on_timer;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, &before);
  itimerval every = {};
  every.it_interval.tv_usec = every.it_value.tv_usec = 97;
  ::setitimer(ITIMER_REAL, &every, nullptr);
  std::uint64_t begins = 0;
  for (int i = 0; i < 100000 && handled < 1000; ++i) {
    descend(i % 4);
    ++begins;
  }
  every = {};
  ::setitimer(ITIMER_REAL, &every, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(handled > 0);
  CHECK(t.losses().kept == begins + accepted);
  CHECK(t.losses().dropped == handled - accepted);
  CHECK(t.losses().reentrant == t.losses().dropped);
  std::set<std::size_t> depths;
  for (const stepprof::trace_event& e : t.events()) {
    if (t.name(e) == "leaf") depths.insert(depth_of(t, e));
    if (t.name(e) == "of a handler") CHECK(depth_of(t, e) > 2);
  }
  CHECK(depths.size() == 4);
}

}  // namespace stacks_test
