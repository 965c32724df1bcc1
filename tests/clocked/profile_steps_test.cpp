#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <stepprof/stepprof.hpp>

namespace profile_steps_test {

using test::fake_clock;

// Catches: steps that are shifted by one, are named by the wrong number or do not enclose their own scopes.
// FC-06: pytorch/pytorch PR121127, sgl-project/sglang PR30215
TEST_CASE("each step event encloses exactly the scope of its own loop index", "[profile]") {
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{2, 1, 2, 2, 3};
  options.on_trace_ready = [&cycles](const stepprof::trace& t) { cycles.push_back(t); };
  stepprof::profile prof(options);
  for (int i = 0; i < 15; ++i) {
    {
      stepprof::record_function scope("step " + std::to_string(i));
      fake_clock::advance(100);
    }
    fake_clock::advance(10);
    prof.step();
  }
  prof.stop();
  // Wait 2 after 3 skipped steps, warm up in 5: steps 6 and 7; the second cycle 5 steps later.
  REQUIRE(cycles.size() == 2);
  for (int cycle = 0; cycle < 2; ++cycle) {
    const stepprof::trace& t = cycles[static_cast<std::size_t>(cycle)];
    REQUIRE(t.events().size() == 4);
    test::check_rules(t);
    for (std::uint32_t k = 0; k < 2; ++k) {
      const std::string number = std::to_string(6 + 5 * cycle + static_cast<int>(k));
      const stepprof::trace_event& step = t.events()[2 * k];
      const stepprof::trace_event& scope = t.events()[2 * k + 1];
      CHECK(t.name(step) == "ProfilerStep#" + number);
      CHECK(t.name(scope) == "step " + number);
      CHECK(scope.parent == 2 * k);
      CHECK(step.duration_ns() == 110);
      CHECK(scope.duration_ns() == 100);
    }
  }
}

// Catches: a step() inside the scope of its iteration that tears this scope out of its step.
TEST_CASE("the border of a step moves to the end of the scope in which step() was called", "[profile]") {
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 3, 1};
  stepprof::profile prof(options);
  for (int i = 0; i < 5; ++i) {
    STEPPROF_SCOPE("iteration");
    fake_clock::advance(100);
    prof.step();
    fake_clock::advance(7);
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  // Step 1 begins inside the iteration that is step 0, which was warm-up: its first 7 ns have no scope.
  test::check_rules(t);
  REQUIRE(t.events().size() == 6);
  CHECK(t.name(t.events()[0]) == "ProfilerStep#1");
  CHECK(t.events()[0].duration_ns() == 7 + 107);
  CHECK(t.events()[1].parent == 0);
  CHECK(t.events()[1].duration_ns() == 107);
  CHECK(t.events()[2].duration_ns() == 107);
  CHECK(t.events()[3].duration_ns() == 107);
  // The window is cut inside the last iteration.
  CHECK(t.name(t.events()[5]) == "iteration");
  CHECK(t.events()[5].duration_ns() == 100);
  CHECK(t.events()[5].has(stepprof::trace_event::unfinished));
  CHECK(t.losses().unfinished == 1);
  CHECK(t.losses().kept == 2);
}

// Catches: reading after the loop finds an empty cycle because a new warm-up has begun.
TEST_CASE("the last completed cycle stays readable until the next one is completed", "[profile]") {
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 2, 0};
  stepprof::profile prof(options);
  for (int i = 0; i < 7; ++i) {  // cycles 1-2 and 4-5, then step 6 is warm-up and step 7 active
    { stepprof::record_function scope("s"); }
    prof.step();
  }
  CHECK(prof.key_averages().at("s").calls == 2);
  prof.stop();
  CHECK(prof.key_averages().at("s").calls == 2);
  CHECK(prof.result().info().cycle == 1);
  CHECK(prof.result().info().first_step == 4);
  CHECK(prof.result().info().last_step == 5);
}

}  // namespace profile_steps_test
