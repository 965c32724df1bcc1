#include <support/catch.hpp>

#include <stepprof/trace/window_assembly.hpp>

namespace window_assembly_test {

using namespace stepprof;
using namespace stepprof::detail;

// Catches: ticks that are shown as ns, on every machine whose ticks are no ns.
TEST_CASE("what recording costs is told in ns", "[window_assembly]") {
  window_facts facts;
  facts.open_ticks = 1400;
  facts.cost = {50, 24};
  window_assembly assembly(facts);
  assembly.set_times(2000, tick_converter(1000, 0.375), time_base());
  CHECK(assembly.builder().info().begin_ns == 150);
  CHECK(assembly.builder().info().scope_cost_ns == 18.75);
  CHECK(assembly.builder().info().scope_cost_inside_ns == 9);
}

}  // namespace window_assembly_test
