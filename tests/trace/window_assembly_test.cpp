#include <support/catch.hpp>

#include <cstdint>
#include <vector>

#include <stepprof/trace/window_assembly.hpp>
#include <support/log_writer.hpp>

namespace window_assembly_test {

using namespace stepprof;
using namespace stepprof::detail;

// Catches: ticks that are shown as ns, on every machine whose ticks are no ns.
TEST_CASE("what recording costs is told in ns", "[window_assembly]") {
  window_facts facts;
  facts.open_ticks = 1400;
  facts.cost = {50, 24};
  window_assembly assembly(facts);
  assembly.set_times(2000, 2000, tick_converter(1000, 0.375), clock_anchor(), clock_anchor());
  CHECK(assembly.builder().info().begin_ns == 150);
  CHECK(assembly.builder().info().scope_cost_ns == 18.75);
  CHECK(assembly.builder().info().scope_cost_inside_ns == 9);
}

// Catches: ids of no name looked up where there is no memory, numbers of steps whose difference overflows, times that
// wrap; all of them from a log that no thread has written.
TEST_CASE("a log of any ids, steps and times is a trace", "[window_assembly]") {
  window_facts facts;
  facts.borders.resize(2);
  facts.borders[0].thread = facts.borders[1].thread = 1;
  facts.borders[1].number = 1;
  window_assembly assembly(facts);
  std::vector<window_assembly::thread_part> threads;
  log_replay replay;
  replay.begin_window(1, 0, event_list(assembly.events_of(1)));
  test::log_writer log;
  log.begin(1, 10);
  log.begin(runtime_name_bit | 2, 20);                   // neither table has a block
  log.begin(4095, 30);                                   // the last place of the block that is none
  log.begin_manual(3, 7, (std::uint64_t{1} << 63) + 5);  // beyond 63 bits
  log.end_manual(3, 7, ~std::uint64_t{0});
  log.step(INT64_MIN, ~std::uint64_t{0});
  log.step(INT64_MAX, ~std::uint64_t{0});
  REQUIRE(replay.replay(log.bytes().data(), log.bytes().size()) == log.bytes().size());
  threads.push_back({replay.end_window(~std::uint64_t{0}), &replay, 0, ""});
  assembly.builder().add_process({});
  assembly.set_times(threads[0].record.cut_ticks, threads[0].record.cut_ticks, tick_converter(5, 1.0), clock_anchor(),
                     clock_anchor());
  assembly.assemble(threads);
  const trace t = assembly.builder().finish();
  CHECK(t.losses().kept == 1);
  CHECK(t.losses().unfinished == 3);
  for (const trace_event& e : t.events())
    if (!e.has(trace_event::step)) CHECK(t.name(e) == "(unknown name)");
}

}  // namespace window_assembly_test
