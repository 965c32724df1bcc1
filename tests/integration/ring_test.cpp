#include <support/recorded.hpp>
#include <support/counts.hpp>
#include <support/sanitized.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace ring_test {

namespace {

stepprof::profile_options small_ring() {
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{1} << 20;
  options.when_full = stepprof::fill_policy::ring;
  return options;
}

// Each 16 bytes; so many are more than the budget holds.
constexpr std::uint64_t many = test::sanitized ? 120000 : 300000;

void record_many(std::uint64_t count = many) {
  for (std::uint64_t i = 0; i < count; ++i) {
    STEPPROF_SCOPE("one of many");
  }
}

std::uint64_t calls(const stepprof::trace& t, const char* name) {
  return static_cast<std::uint64_t>(test::calls(t, name));
}

}  // namespace

// Catches: newest events dropped, chunks overwritten twice, begins that are counted neither as kept nor as dropped.
TEST_CASE("a ring keeps the last events and counts all that it overwrote", "[ring]") {
  const stepprof::recording_totals before = stepprof::process_totals();
  stepprof::profile prof(small_ring());
  for (std::uint64_t i = 0; i < many; ++i) {
    stepprof::record_function scope("numbered", stepprof::scope_kind::op,
                                    stepprof::sequence_number(static_cast<std::int64_t>(i)));
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  const std::uint64_t kept = t.losses().kept;
  CHECK(kept == t.events().size());
  CHECK(kept > 20000);
  CHECK(kept + t.losses().dropped == many);
  CHECK(t.losses().overwritten == t.losses().dropped);
  CHECK(t.losses().dropped_arguments >= t.losses().dropped - 1);  // the number of each; one may lie behind its scope
  CHECK(t.losses().dropped_arguments <= t.losses().dropped + 1);
  CHECK(t.losses().unmatched_ends == 0);
  std::int64_t expected = static_cast<std::int64_t>(many - kept);
  bool in_order = true;
  for (std::size_t i = 0; i < t.events().size(); ++i) {
    in_order = in_order && t.detail(t.events()[i]).sequence_number == expected++;
  }
  CHECK(in_order);
  CHECK(test::begins(stepprof::process_totals()) - test::begins(before) == many);
  const std::string table = stepprof::key_averages(t).table();
  CHECK(table.find("of these overwritten by later ones of their threads") != std::string::npos);
}

// Catches: ends of scopes that are gone taken for faults of the program, or closing scopes that do not belong to them.
TEST_CASE("ends whose begin was overwritten are counted and end nothing", "[ring]") {
  stepprof::profile prof(small_ring());
  {
    STEPPROF_SCOPE("outer");
    stepprof::manual_scope manual;
    manual.begin("by hand");
    {
      STEPPROF_SCOPE("inner");
      record_many();
    }
    manual.end();
    STEPPROF_SCOPE("later");
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(calls(t, "outer") + calls(t, "inner") + calls(t, "by hand") == 0);
  CHECK(calls(t, "later") == 1);
  CHECK(t.losses().overwritten_ends == 3);
  CHECK(t.losses().unmatched_ends == 0);
  CHECK(t.losses().unfinished == 0);
  CHECK(t.losses().kept + t.losses().dropped == many + 4);
}

// Catches: room that was kept for the end of an overwritten scope and is kept for ever, or given away.
TEST_CASE("an end on another thread of a scope that was overwritten", "[ring]") {
  stepprof::profile_options options = small_ring();
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  options.accumulate = true;
  stepprof::profile prof(options);
  auto moved = std::make_unique<stepprof::record_function>("moved");
  record_many();
  std::thread([&moved] { moved.reset(); }).join();
  prof.step();
  prof.step();
  prof.stop();
  CHECK(prof.result().losses().overwritten_ends == 1);
  CHECK(prof.result().losses().unmatched_ends == 0);
}

// Catches: a reader that goes on where it was although that chunk is another one now; scopes of an earlier window that
// are taken to be open for ever.
TEST_CASE("cycles of a ring each hold their own end", "[ring]") {
  const stepprof::recording_totals before = stepprof::process_totals();
  stepprof::profile_options options = small_ring();
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  std::vector<stepprof::loss_counts> losses;
  std::vector<std::uint64_t> last;
  options.on_trace_ready = [&](const stepprof::trace& t) {
    losses.push_back(t.losses());
    last.push_back(calls(t, "last of the cycle"));
  };
  stepprof::profile prof(options);
  for (int cycle = 0; cycle < 4; ++cycle) {
    STEPPROF_SCOPE("cycle");
    record_many(cycle == 2 ? 10 : many);  // one that fits, too
    STEPPROF_SCOPE("last of the cycle");
    prof.step();
  }
  prof.stop();
  REQUIRE(losses.size() >= 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(last[i] == 1);
    CHECK((losses[i].overwritten > many / 4) == (i != 2));
    CHECK(losses[i].unmatched_ends == 0);
  }
  CHECK(test::begins(stepprof::process_totals()) - test::begins(before) == 3 * many + 10 + 8);
}

// Catches: a chunk that the reader and its owner both take, a position that is read after it was overwritten.
TEST_CASE("rings of several threads while windows are cut and looked at", "[ring]") {
  const stepprof::recording_totals before = stepprof::process_totals();
  stepprof::profile_options options = small_ring();
  options.event_budget_bytes = std::size_t{2} << 20;
  options.schedule = [](std::int64_t) { return stepprof::action::record_and_save; };
  std::uint64_t delivered = 0;
  std::uint64_t unmatched = 0;
  options.on_trace_ready = [&](const stepprof::trace& t) {
    delivered += t.losses().kept;
    unmatched += t.losses().unmatched_ends;
  };
  std::atomic<std::uint64_t> begun{0};
  std::atomic<bool> stop{false};
  {
    stepprof::profile prof(options);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        std::uint64_t mine = 0;
        for (; !stop.load(std::memory_order_relaxed); mine += 3) {
          STEPPROF_SCOPE("a");
          STEPPROF_SCOPE("b");
          stepprof::record_function named("c " + std::to_string(mine % 50));
        }
        begun += mine;
      });
    for (int i = 0; i < (test::sanitized ? 8 : 40); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (i % 3 == 0) unmatched += prof.snapshot().losses().unmatched_ends;
      static_cast<void>(stepprof::process_totals());
      prof.step();
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    prof.stop();
  }
  CHECK(delivered > 0);
  CHECK(unmatched == 0);
  const stepprof::recording_totals after = stepprof::process_totals();
  CHECK(after.dropped > before.dropped);
  CHECK(test::begins(after) - test::begins(before) == begun.load());
}

// Catches: run-time names that are looked up in the table of another session, when what says so was overwritten.
TEST_CASE("names of a later session are right behind a gap", "[ring]") {
  for (int session = 0; session < 3; ++session) {
    stepprof::profile prof(small_ring());
    const std::string name = "session " + std::to_string(session);
    for (std::uint64_t i = 0; i < many; ++i) stepprof::record_function scope(name);
    prof.stop();
    const stepprof::trace t = prof.result();
    CHECK(t.losses().overwritten > 0);
    CHECK(calls(t, name.c_str()) == t.losses().kept);
  }
}

// Catches: one thread that takes all memory, so that those who come later have none.
TEST_CASE("a thread that comes when a ring is full is recorded", "[ring]") {
  stepprof::profile prof(small_ring());
  record_many();
  std::thread([] { STEPPROF_SCOPE("newcomer"); }).join();
  prof.stop();
  CHECK(calls(prof.result(), "newcomer") == 1);
}

// Catches: memory reports that vanish with the chunk that they stood in.
TEST_CASE("memory reports that are overwritten are counted", "[ring]") {
  stepprof::profile_options options = small_ring();
  options.profile_memory = true;
  stepprof::profile prof(options);
  char block = 0;
  constexpr std::uint64_t pairs = many / 3;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    stepprof::report_alloc(&block, 8);
    stepprof::report_free(&block);
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.losses().dropped_memory > pairs / 4);
  CHECK(t.memory().size() + t.losses().dropped_memory + t.losses().unmatched_frees == 2 * pairs);
}

}  // namespace ring_test
