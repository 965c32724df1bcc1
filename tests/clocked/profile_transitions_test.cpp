// Catches: a profile that records, delivers or reports something else than the table of transitions says.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <stepprof/stepprof.hpp>

namespace profile_transitions_test {

using stepprof::action;
using test::fake_clock;

namespace {

constexpr action actions[] = {action::none, action::warmup, action::record, action::record_and_save};

bool records(action a) {
  return a == action::record || a == action::record_and_save;
}

// The user's scopes of a delivered cycle, the partial ones with a '~'.
std::string contents(const stepprof::trace& t) {
  std::string text = t.info().partial ? "~" : "";
  for (const stepprof::trace_event& e : t.events())
    if (!e.has(stepprof::trace_event::step)) text += t.name(e);
  return text;
}

struct run {
  test::heard heard;
  std::string delivered;  // contents of all cycles, in order
  stepprof::profile_options options;

  explicit run(std::vector<action> steps) {
    options.schedule = [steps](std::int64_t step) {
      return step < static_cast<std::int64_t>(steps.size()) ? steps[static_cast<std::size_t>(step)] : action::none;
    };
    options.on_trace_ready = [this](const stepprof::trace& t) {
      test::check_rules(t);
      delivered += "(" + contents(t) + ")";
    };
  }
};

// One step of the loop; whether its scope was recorded.
bool do_step(const char* name) {
  const stepprof::record_function scope(name);
  fake_clock::advance(10);
  return scope.recorded();
}

}  // namespace

// Catches: a cell whose effect seen from outside differs from the table: what is delivered, whether it is complete,
// what is reported, and what goes on being recorded. Written out by hand.
TEST_CASE("every transition from a step to the next has its effect", "[profile]") {
  struct cell {
    const char* delivered;  // by step()
    const char* reported;
  };
  // Row: the action of step 0, which holds scope "a". Column: that of step 1.
  const cell by_step[4][4] = {
      {{"", ""}, {"", ""}, {"", ""}, {"", ""}},
      {{"", "warmup_then_none"}, {"", ""}, {"", ""}, {"", ""}},
      {{"(~a)", "record_then_none"}, {"(~a)", "record_then_warmup"}, {"", ""}, {"", ""}},
      {{"(a)", ""}, {"(a)", ""}, {"(a)", ""}, {"(a)", ""}},
  };
  // What stop() delivers after step 1, which holds scope "b".
  const char* const by_stop[4][4] = {
      {"", "", "(~b)", "(~b)"},
      {"", "", "(~b)", "(~b)"},
      {"", "", "(~ab)", "(~ab)"},
      {"", "", "(~b)", "(~b)"},
  };
  for (int p = 0; p < 4; ++p)
    for (int n = 0; n < 4; ++n) {
      INFO(to_string(actions[p]) << " -> " << to_string(actions[n]));
      run r({actions[p], actions[n]});
      stepprof::profile prof(r.options);
      CHECK(do_step("a") == (actions[p] != action::none));
      CHECK(prof.current_action() == actions[p]);
      prof.step();
      CHECK(prof.current_action() == actions[n]);
      CHECK(r.delivered == by_step[p][n].delivered);
      CHECK(r.heard.codes() == by_step[p][n].reported);
      CHECK(do_step("b") == (actions[n] != action::none));
      r.delivered.clear();
      r.heard.all.clear();
      prof.stop();
      CHECK(r.delivered == by_stop[p][n]);
      CHECK(r.heard.codes() == (records(actions[p]) || records(actions[n]) ? "" : "no_active_step"));
      CHECK_FALSE(do_step("c"));
    }
}

// Catches: a stop() in the first step that loses its window, or takes it for complete.
TEST_CASE("every transition from a step to stop has its effect", "[profile]") {
  const char* const delivered[4] = {"", "", "(~a)", "(~a)"};
  for (int p = 0; p < 4; ++p) {
    INFO(to_string(actions[p]) << " -> stop");
    run r({actions[p]});
    stepprof::profile prof(r.options);
    do_step("a");
    prof.stop();
    CHECK(r.delivered == delivered[p]);
    CHECK(r.heard.codes() == (records(actions[p]) ? "" : "no_active_step"));
    CHECK_FALSE(prof.running());
  }
}

// Catches: a cycle whose borders are shifted: the warm-up's scopes in it, or the first scopes of the next one.
TEST_CASE("a cycle holds its own steps and no other", "[profile]") {
  run r({action::none, action::warmup, action::record, action::record_and_save, action::record_and_save, action::warmup,
         action::record_and_save, action::none});
  stepprof::profile prof(r.options);
  const char* const names[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
  for (const char* name : names) {
    do_step(name);
    prof.step();
  }
  prof.stop();
  CHECK(r.delivered == "(23)(4)(6)");
  CHECK(r.heard.codes() == "");
}

// Catches: a schedule's callable that throws, or answers nonsense, and takes the training loop down.
TEST_CASE("a callable that throws or answers nonsense means none and is reported once", "[profile]") {
  run r({});
  r.options.schedule = [](std::int64_t step) {
    if (step == 1 || step == 2) throw std::runtime_error("no idea");
    if (step == 3 || step == 4) return static_cast<action>(7);
    return step == 5 ? action::record_and_save : action::none;
  };
  stepprof::profile prof(r.options);
  for (int i = 0; i < 7; ++i) {
    CHECK(do_step("a") == (i == 5));
    prof.step();
  }
  prof.stop();
  CHECK(r.delivered == "(a)");
  CHECK(r.heard.codes() == "schedule_threw unknown_action");
  CHECK(test::contains(r.heard.all.at(0).text, "step 1 "));
  CHECK(test::contains(r.heard.all.at(0).text, "no idea"));
  CHECK(test::contains(r.heard.all.at(1).text, "step 3 "));
  CHECK(test::contains(r.heard.all.at(1).text, "returned 7"));
}

}  // namespace profile_transitions_test
