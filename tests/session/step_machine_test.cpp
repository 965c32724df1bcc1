// Catches: a transition that opens, cuts or delivers something else than the table of the design says.
#include <support/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <stepprof/session/step_machine.hpp>

namespace step_machine_test {

using namespace stepprof;
using namespace stepprof::detail;

namespace {

constexpr action actions[] = {action::none, action::warmup, action::record, action::record_and_save};

std::string text_of(const step_transition& transition) {
  static const char* const names[] = {"cut", "open", "open_warmup", "discard", "deliver", "partial", "report"};
  std::string text;
  for (const step_operation op : transition) {
    text += text.empty() ? "" : " ";
    text += names[static_cast<unsigned>(op)];
    if (op == step_operation::report) text += std::string("(") + transition.report_code + ")";
  }
  return text;
}

action action_of(char letter) {
  return actions[std::string(".wRS").find(letter)];
}

// Feeds the phases of a loop to a machine; every operation is noted with the step that begins.
struct loop {
  step_machine machine;
  std::string log;

  void note(const step_transition& transition) {
    const std::string text = text_of(transition);
    if (!text.empty()) log += "[" + std::to_string(machine.step_number()) + ": " + text + "]";
  }
  void run(const std::string& phases) {
    note(machine.start(action_of(phases[0])));
    for (std::size_t i = 1; i < phases.size(); ++i) note(machine.step(action_of(phases[i])));
  }
};

}  // namespace

// Catches: a cell that was changed, forgotten, or has its operations in another order. Written out by hand.
TEST_CASE("every cell of the table does what the design says", "[step_machine]") {
  const char* const expected[4][5] = {
      // none
      {"", "open_warmup", "open", "open", ""},
      // warmup
      {"cut discard report(warmup_then_none)", "", "cut open discard", "cut open discard", "cut discard"},
      // record
      {"cut partial report(record_then_none)", "cut open_warmup partial report(record_then_warmup)", "", "",
       "cut partial"},
      // record_and_save
      {"cut deliver", "cut open_warmup deliver", "cut open deliver", "cut open deliver", "cut partial"},
  };
  for (const action previous : actions) {
    for (int column = 0; column < 5; ++column) {
      INFO(to_string(previous) << " to column " << column);
      step_machine machine;
      machine.start(previous);
      REQUIRE(machine.current() == previous);
      const step_transition& taken = column == 4 ? machine.stop() : machine.step(actions[column]);
      CHECK(text_of(taken) == expected[static_cast<unsigned>(previous)][column]);
      CHECK(machine.current() == (column == 4 ? action::none : actions[column]));
      CHECK(machine.running() == (column != 4));
    }
    step_machine machine;
    CHECK(text_of(machine.start(previous)) == expected[0][static_cast<unsigned>(previous)]);
  }
}

// Catches: a table that is not data: it must be readable at compile time.
TEST_CASE("the table is a constant", "[step_machine]") {
  static_assert(step_table::cells[3][2].count == 3, "");
  static_assert(step_table::cells[0][4].count == 0, "");
  static_assert(step_table::cells[1][0].report_code == warmup_then_none, "");
  static_assert(step_table::cells[2][0].has(step_operation::deliver_partial), "");
  SUCCEED();
}

// Catches: windows of an ordinary loop that are late, early, or named after the wrong steps.
TEST_CASE("a loop of ten steps delivers steps 4 to 8", "[step_machine]") {
  loop l;
  l.run("..wwRRRRS.");
  CHECK(l.log == "[2: open_warmup][4: cut open discard][9: cut deliver]");
  CHECK(l.machine.delivered_window().cycle == 0);
  CHECK(l.machine.delivered_window().first_step == 4);
  CHECK(l.machine.delivered_window().last_step == 8);
  CHECK_FALSE(l.machine.delivered_window().partial);
  CHECK(l.machine.completed_cycles() == 1);
  CHECK(l.machine.partial_cycles() == 0);
  CHECK(l.machine.steps_seen() == 9);
  CHECK(text_of(l.machine.stop()).empty());
  CHECK(l.machine.completed_cycles() == 1);
}

// Catches: cycles that follow each other at once and lose the border, or share a cycle number.
TEST_CASE("cycles without wait and warm-up follow each other", "[step_machine]") {
  loop l;
  l.run("RSS");
  CHECK(l.log == "[0: open][2: cut open deliver]");
  CHECK(l.machine.delivered_window().last_step == 1);
  CHECK(l.machine.recording_window().cycle == 1);
  CHECK(l.machine.recording_window().first_step == 2);
  CHECK(l.machine.recording_window().last_step == 2);
  l.note(l.machine.stop());
  CHECK(l.log == "[0: open][2: cut open deliver][2: cut partial]");
  CHECK(l.machine.delivered_window().cycle == 1);
  CHECK(l.machine.delivered_window().partial);
  CHECK(l.machine.completed_cycles() == 1);
  CHECK(l.machine.partial_cycles() == 1);
}

// FC-03: facebookresearch/HolisticTraceAnalysis#76
// Catches: a window that is dropped, or counted as a complete cycle, when stop() cuts it.
TEST_CASE("stop inside a window delivers it once, as a partial one", "[step_machine]") {
  loop l;
  l.run("wRRRR");
  l.note(l.machine.stop());
  CHECK(l.log == "[0: open_warmup][1: cut open discard][4: cut partial]");
  CHECK(l.machine.delivered_window().first_step == 1);
  CHECK(l.machine.delivered_window().last_step == 4);
  CHECK(text_of(l.machine.stop()).empty());
}

// Catches: a warm-up that, thrown away at stop, is taken for the last delivered window.
TEST_CASE("a discarded warm-up changes no delivered window", "[step_machine]") {
  loop l;
  l.run("wS.w");
  l.note(l.machine.stop());
  CHECK(l.log == "[0: open_warmup][1: cut open discard][2: cut deliver][3: open_warmup][3: cut discard]");
  CHECK(l.machine.delivered_window().last_step == 1);
  CHECK_FALSE(l.machine.delivered_window().partial);
}

// Catches: steps that cut the window, or a stop that calls it partial, when there is no schedule.
TEST_CASE("without a schedule there is one complete window without steps", "[step_machine]") {
  step_machine machine;
  CHECK(text_of(machine.start_unscheduled()) == "open");
  for (int i = 0; i < 5; ++i) CHECK(text_of(machine.step(action::none)).empty());
  CHECK(machine.current() == action::record);
  CHECK(machine.step_number() == 5);
  CHECK(text_of(machine.stop()) == "cut deliver");
  CHECK(machine.delivered_window().cycle == 0);
  CHECK(machine.delivered_window().first_step == -1);
  CHECK(machine.delivered_window().last_step == -1);
  CHECK_FALSE(machine.delivered_window().partial);
  CHECK(machine.completed_cycles() == 1);
}

// FC-10: vllm-project/vllm#51676
// Catches: calls in an order that makes no sense and moves the machine, and a restart that keeps an old state.
TEST_CASE("start, step and stop out of order do nothing and a restart works", "[step_machine]") {
  step_machine machine;
  CHECK(text_of(machine.stop()).empty());
  CHECK(text_of(machine.step(action::record)).empty());
  CHECK(machine.step_number() == 0);
  machine.start(action::record);
  CHECK(text_of(machine.start(action::record_and_save)).empty());
  CHECK(text_of(machine.start_unscheduled()).empty());
  CHECK(machine.current() == action::record);
  machine.step(action::record);
  CHECK(text_of(machine.stop()) == "cut partial");
  CHECK(machine.reached_active_step());
  CHECK(text_of(machine.step(action::record)).empty());
  CHECK(machine.step_number() == 1);

  CHECK(text_of(machine.start(action::none)).empty());
  CHECK(machine.step_number() == 1);
  CHECK(machine.steps_seen() == 0);
  CHECK_FALSE(machine.reached_active_step());
  CHECK(text_of(machine.step(action::record)) == "open");
  CHECK(machine.recording_window().cycle == 1);
  CHECK(machine.recording_window().first_step == 2);
}

// Catches: operations that no recorder could carry out: two windows open, delivering what was not recorded, or a window
// left open.
TEST_CASE("random walks keep one window at most and deal with each", "[step_machine]") {
  std::mt19937 random(3);
  int violations = 0;
  for (int walk = 0; walk < 200; ++walk) {
    step_machine machine;
    enum { closed, warm, recording } window = closed;
    enum { nothing, cut_warm, cut_recording } pending = nothing;
    std::int64_t opened = 0;
    const auto carry_out = [&](const step_transition& transition) {
      for (const step_operation op : transition) {
        switch (op) {
          case step_operation::cut:
            violations += window == closed || pending != nothing;
            pending = window == warm ? cut_warm : cut_recording;
            window = closed;
            break;
          case step_operation::open:
          case step_operation::open_warmup:
            violations += window != closed;
            window = op == step_operation::open ? recording : warm;
            opened += window == recording;
            break;
          case step_operation::discard:
            violations += pending != cut_warm;
            pending = nothing;
            break;
          case step_operation::deliver:
          case step_operation::deliver_partial:
            violations += pending != cut_recording;
            pending = nothing;
            break;
          case step_operation::report:
            violations += transition.report_code == nullptr;
            break;
        }
      }
      violations += pending != nothing;
      const action now = machine.current();
      const bool is_recording = now == action::record || now == action::record_and_save;
      violations += (window == recording) != is_recording;
      violations += (window == warm) != (now == action::warmup);
    };
    for (int i = 0; i < 200; ++i) {
      const auto any = static_cast<action>(random() % 6);  // two of six are no action at all
      switch (random() % 8) {
        case 0:
          carry_out(machine.stop());
          break;
        case 1:
          carry_out(machine.start(any));
          break;
        case 2:
          carry_out(random() % 4 == 0 ? machine.start_unscheduled() : machine.step(any));
          break;
        default:
          carry_out(machine.step(any));
      }
      violations += machine.completed_cycles() + machine.partial_cycles() + (window == recording) != opened;
    }
    carry_out(machine.stop());
    violations += window != closed;
    violations += machine.completed_cycles() + machine.partial_cycles() != opened;
  }
  CHECK(violations == 0);
}

// FC-01: pytorch/pytorch#73828
// Catches: completed cycles and their steps that do not follow from schedule and number of steps.
TEST_CASE("the machine completes the cycles of the formula", "[step_machine]") {
  for (std::int64_t wait : {0, 1})
    for (std::int64_t warmup : {0, 1, 10})
      for (std::int64_t active : {1, 5, 10})
        for (std::int64_t repeat : {0, 1, 4, 10}) {
          const schedule s{wait, warmup, active, repeat};
          step_machine machine;
          machine.start(s(0));
          for (int i = 0; i < 100; ++i) machine.step(s(machine.step_number() + 1));
          const std::int64_t length = wait + warmup + active;
          const std::int64_t cycles = repeat == 0 ? 100 / length : (std::min)(100 / length, repeat);
          INFO(wait << ' ' << warmup << ' ' << active << ' ' << repeat);
          CHECK(machine.completed_cycles() == cycles);
          CHECK(machine.partial_cycles() == 0);
          CHECK(machine.delivered_window().cycle == cycles - 1);
          CHECK(machine.delivered_window().last_step == cycles * length - 1);
          CHECK(machine.delivered_window().first_step == cycles * length - active);
        }
}

// Catches: a callable's exception or nonsense that leaves step(), or that is taken for an action.
TEST_CASE("a schedule's answer is made safe", "[step_machine]") {
  const schedule_answer fine = ask(schedule{2, 2, 5, 1}, 4);
  CHECK(fine.value == action::record);
  CHECK_FALSE(fine.problem);

  const auto throwing = [](int) -> action { throw std::runtime_error("no file"); };
  const schedule_answer threw = ask(step_schedule(throwing), 12);
  CHECK(threw.value == action::none);
  REQUIRE(threw.problem);
  CHECK(threw.problem->code == "schedule_threw");
  CHECK(threw.problem->text == "schedule: at step 12 the callable threw (no file); the step is not recorded");

  const schedule_answer odd = ask(step_schedule([](int) { return static_cast<action>(4); }), 3);
  CHECK(odd.value == action::none);
  REQUIRE(odd.problem);
  CHECK(odd.problem->text ==
        "schedule: at step 3 the callable returned 4, which is no action; the step is not recorded");
}

// FC-02: pytorch/pytorch#91682
// Catches: a report without the numbers that tell what to change.
TEST_CASE("reports name their steps", "[step_machine]") {
  const std::string none = no_active_step_diagnostic(0, schedule{1, 1, 3}.first_active_step()).text;
  CHECK(none.find("steps seen: 0, first active step: 2;") != std::string::npos);
  CHECK(no_active_step_diagnostic(7, {}).text.find("steps seen: 7, first active step: none") != std::string::npos);

  step_machine machine;
  machine.start(action::record);
  const step_transition& taken = machine.step(action::warmup);
  const diagnostic report = transition_diagnostic(taken, machine.step_number());
  CHECK(report.code == "record_then_warmup");
  CHECK(report.text.find("RECORD is followed by WARMUP at step 1,") != std::string::npos);
  machine.stop();
  machine.start(action::warmup);
  CHECK(transition_diagnostic(machine.step(action::none), 2).text.find("WARMUP is followed by NONE at step 2,") !=
        std::string::npos);

  CHECK(no_warmup_diagnostic(schedule{1, 0, 3})->code == "no_warmup");
  CHECK_FALSE(no_warmup_diagnostic(schedule{1, 1, 3}));
  CHECK_FALSE(no_warmup_diagnostic(step_schedule()));
}

}  // namespace step_machine_test
