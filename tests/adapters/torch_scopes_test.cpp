// Catches: ops that are lost, misplaced, recorded twice, or joined to the wrong node of the backward pass.
#include <support/torch_recording.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/InferenceMode.h>

namespace torch_scopes_test {

namespace {

using stepprof::scope_kind;
using test::arrow_counts;
using test::arrows_of;
using test::detail_of;
using test::event_named;
using test::events_named;
using test::number_of;
using test::parameter;
using test::parent_of;
using test::recorded_torch;

const std::string wrapper = "autograd::engine::evaluate_function: ";

bool is_finished(const stepprof::trace& t, std::uint32_t event) {
  return !t.events()[event].has(stepprof::trace_event::unfinished);
}

}  // namespace

TEST_CASE("ops, nodes and user scopes of both kinds have their kinds", "[torch_scopes]") {
  const torch::Tensor x = parameter({2});
  const stepprof::trace t = recorded_torch([&] {
    RECORD_USER_SCOPE("libtorch's scope");
    STEPPROF_SCOPE("our scope");
    x.exp().sum().backward();
  });
  CHECK(t.events()[event_named(t, "libtorch's scope")].kind() == scope_kind::user_annotation);
  CHECK(t.events()[event_named(t, "our scope")].kind() == scope_kind::user_annotation);
  CHECK(parent_of(t, event_named(t, "our scope")) == "libtorch's scope");
  CHECK(t.events()[event_named(t, "aten::exp")].kind() == scope_kind::op);
  CHECK(parent_of(t, event_named(t, "aten::exp")) == "our scope");
  CHECK(t.events()[event_named(t, "ExpBackward0")].kind() == scope_kind::backward_op);
  CHECK(t.events()[event_named(t, wrapper + "ExpBackward0")].kind() == scope_kind::op);
  test::check_rules(t);
}

// Catches: a wrapper that keeps no number, takes that of another node, or receives the arrow; a number of -1 shown.
TEST_CASE("the engine's wrapper shows the number of its node and is no end of an arrow", "[torch_scopes]") {
  const torch::Tensor x = parameter({2});
  const stepprof::trace t = recorded_torch([&] { x.exp().sum().backward(); });
  for (const char* node : {"SumBackward0", "ExpBackward0"}) {
    const std::uint32_t inner = event_named(t, node), outer = event_named(t, wrapper + node);
    CHECK(parent_of(t, inner) == wrapper + node);
    CHECK(number_of(t, inner) >= 0);
    CHECK(number_of(t, outer) == number_of(t, inner));
    CHECK(detail_of(t, outer).forward_thread == detail_of(t, inner).forward_thread);
  }
  for (const std::string& node :
       {std::string("torch::autograd::AccumulateGrad"), wrapper + "torch::autograd::AccumulateGrad"})
    CHECK(number_of(t, event_named(t, node)) == -1);
  CHECK(arrows_of(t) == arrow_counts{{"aten::exp -> ExpBackward0", 1}, {"aten::sum -> SumBackward0", 1}});
}

// Catches: a callback that every op pays for although nothing is recorded; inputs asked for in vain.
TEST_CASE("libtorch has a callback only while something is recorded, and boxes inputs only for shapes",
          "[torch_scopes]") {
  const auto needs_inputs = [] { return at::getStepCallbacks(at::RecordScope::FUNCTION).needs_inputs_; };
  CHECK_FALSE(at::hasGlobalCallbacks());
  const stepprof::torch_observer observer;
  CHECK_FALSE(at::hasGlobalCallbacks());
  {
    stepprof::profile prof(test::torch_options(/*shapes*/ false));
    CHECK(at::hasGlobalCallbacks());
    CHECK_FALSE(needs_inputs());
    prof.pause();
    CHECK_FALSE(at::hasGlobalCallbacks());
    prof.resume();
    CHECK(at::hasGlobalCallbacks());
    prof.stop();
    CHECK_FALSE(at::hasGlobalCallbacks());
  }
  stepprof::profile_options options = test::torch_options();
  options.schedule = stepprof::schedule{/*wait*/ 1, /*warmup*/ 1, /*active*/ 2, /*repeat*/ 1};
  stepprof::profile prof(options);
  for (const bool recorded : {false, true, true, true, false}) {
    CHECK(at::hasGlobalCallbacks() == recorded);
    CHECK(needs_inputs() == recorded);
    prof.step();
  }
}

TEST_CASE("an observer that comes while a profile records, goes and comes again records what lies between",
          "[torch_scopes]") {
  const torch::Tensor x = torch::ones({2});
  stepprof::profile prof(test::torch_options());
  x.neg();
  for (int i = 0; i < 500; ++i) {
    {
      const stepprof::torch_observer observer;
      x.sin();
    }
    x.neg();
  }
  prof.stop();
  CHECK(events_named(prof.result(), "aten::sin").size() == 500);
  CHECK(events_named(prof.result(), "aten::neg").empty());
  CHECK_FALSE(at::hasGlobalCallbacks());
  test::check_rules(prof.result());
}

TEST_CASE("several observers are as one", "[torch_scopes]") {
  const torch::Tensor x = torch::ones({2});
  auto first = std::make_unique<stepprof::torch_observer>(), second = std::make_unique<stepprof::torch_observer>();
  stepprof::profile prof(test::torch_options());
  x.sin();
  first.reset();
  x.sin();
  second.reset();
  x.sin();
  prof.stop();
  CHECK(events_named(prof.result(), "aten::sin").size() == 2);
}

// Catches: ends that are lost with the callback, which would leave scopes open and nest all that follows into them.
TEST_CASE("an op that is open when the observer goes ends as it does", "[torch_scopes]") {
  auto observer = std::make_unique<stepprof::torch_observer>();
  stepprof::profile prof(test::torch_options());
  {
    RECORD_USER_SCOPE("open");
    observer.reset();
    STEPPROF_SCOPE("inside");
  }
  STEPPROF_SCOPE("behind");
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(is_finished(t, event_named(t, "open")));
  CHECK(parent_of(t, event_named(t, "inside")) == "open");
  CHECK(parent_of(t, event_named(t, "behind")) == "");
}

// Catches: names whose text is not copied, or looked up by address.
TEST_CASE("names that are gone after the op are kept", "[torch_scopes]") {
  const stepprof::trace t = recorded_torch([] {
    for (int i = 0; i < 300; ++i) {
      RECORD_FUNCTION("temporary " + std::to_string(i), c10::ArrayRef<const c10::IValue>{});
    }
  });
  for (int i = 0; i < 300; ++i) event_named(t, "temporary " + std::to_string(i));
}

TEST_CASE("an exception inside an op ends it and all around it", "[torch_scopes]") {
  const torch::Tensor a = torch::ones({2, 3});
  const stepprof::trace t = recorded_torch([&] {
    {
      RECORD_USER_SCOPE("around");
      CHECK_THROWS(torch::mm(a, a));
    }
    torch::neg(a);
  });
  const std::uint32_t failed = event_named(t, "aten::mm");
  CHECK(is_finished(t, failed));
  CHECK(parent_of(t, failed) == "around");
  CHECK(is_finished(t, event_named(t, "around")));
  CHECK(parent_of(t, event_named(t, "aten::neg")) == "");
  CHECK(t.losses().unfinished == 0);
  test::check_rules(t);
}

// Catches: numbers shown that no graph knows.
TEST_CASE("ops without gradients have no number", "[torch_scopes]") {
  const torch::Tensor x = parameter({2});
  const stepprof::trace t = recorded_torch([&] {
    {
      const torch::NoGradGuard none;
      x.sin();
    }
    {
      const c10::InferenceMode inference;
      x.neg();
    }
    x.cos();
  });
  CHECK(number_of(t, event_named(t, "aten::sin")) == -1);
  CHECK(number_of(t, event_named(t, "aten::neg")) == -1);
  CHECK(number_of(t, event_named(t, "aten::cos")) >= 0);
}

// Catches: a second pass over one graph that takes the arrows of the first, or gets some of its own.
TEST_CASE("retain_graph: the first pass gets the arrows, later ones only numbers", "[torch_scopes]") {
  const torch::Tensor x = parameter({2});
  const stepprof::trace t = recorded_torch([&] {
    const torch::Tensor y = x.exp().sum();
    y.backward({}, /*retain_graph*/ true);
    y.backward();
  });
  const std::vector<std::uint32_t> nodes = events_named(t, "ExpBackward0");
  REQUIRE(nodes.size() == 2);
  CHECK(number_of(t, nodes[0]) == number_of(t, nodes[1]));
  CHECK(arrows_of(t) == arrow_counts{{"aten::exp -> ExpBackward0", 1}, {"aten::sum -> SumBackward0", 1}});
  for (const stepprof::trace_link& link : stepprof::flow_pairs(t)) CHECK(link.to != nodes[1]);
}

// y = x^3: the gradient is made inside PowBackward0 of pow(x, 2), of a product with the number 3 (whose node is called
// MulBackward1) and of one with the gradient of y, and is a graph itself. Its pass runs the nodes of those three ops.
TEST_CASE("create_graph: arrows level by level", "[torch_scopes]") {
  const torch::Tensor x = parameter({1});
  const stepprof::trace t = recorded_torch([&] {
    const torch::Tensor y = x.pow(3);
    const torch::Tensor slope = torch::autograd::grad({y}, {x}, {}, /*retain_graph*/ true, /*create_graph*/ true)[0];
    {
      RECORD_USER_SCOPE("second pass");
      torch::autograd::grad({slope}, {x});
    }
  });
  const std::vector<std::uint32_t> powers = events_named(t, "PowBackward0");
  REQUIRE(powers.size() == 2);
  int first = 0, second = 0;
  for (const stepprof::trace_link& link : stepprof::flow_pairs(t)) {
    const bool from_inside = parent_of(t, link.from) == "PowBackward0" || parent_of(t, link.from) == "aten::mul";
    const bool of_second = t.events()[link.to].begin_ns > t.events()[event_named(t, "second pass")].begin_ns;
    CHECK(from_inside == of_second);
    (of_second ? second : first) += 1;
  }
  CHECK(first == 1);
  CHECK(second == 3);
  CHECK(arrows_of(t) == arrow_counts{{"aten::pow -> PowBackward0", 2},
                                     {"aten::mul -> MulBackward0", 1},
                                     {"aten::mul -> MulBackward1", 1}});
  test::check_rules(t);
}

// Catches: an arrow from whatever op happens to have that number in the window.
TEST_CASE("a backward pass whose forward ops lie before the window has numbers and no arrow", "[torch_scopes]") {
  const torch::Tensor x = parameter({2});
  torch::Tensor y = x.exp().sum();
  recorded_torch([&] { x.neg(); });  // now the thread is known
  const stepprof::trace t = recorded_torch([&] {
    y.backward();
    x.sin();
  });
  CHECK(number_of(t, event_named(t, "ExpBackward0")) >= 0);
  CHECK(arrows_of(t).empty());
}

// Catches: a name looked up past what captures the stack; inputs that the formulas of FLOPs cannot read.
TEST_CASE("ops of libtorch have stacks and FLOPs as ours have", "[torch_scopes]") {
  stepprof::profile_options options = test::torch_options(/*shapes*/ false, /*memory*/ false);
  options.with_stack = options.with_flops = true;
  const torch::Tensor a = torch::ones({4, 3}), b = torch::ones({3, 5});
  const stepprof::trace t = recorded_torch(
      [&] {
        torch::mm(a, b);
        torch::mm(a, b);
      },
      options);
  for (const std::uint32_t event : events_named(t, "aten::mm"))
    CHECK(stepprof::trace::has_call_stack(detail_of(t, event)));
  CHECK(stepprof::key_averages(t).at("aten::mm").flops == 2 * 2 * 4 * 3 * 5);
}

// Catches: nesting that breaks, or times that are cut, when ranges overlap.
TEST_CASE("ranges that end out of order keep their times and harm no other", "[torch_scopes]") {
  const stepprof::trace t = recorded_torch([] {
    auto first = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
    first->before("first");
    auto second = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
    second->before("second");
    first.reset();
    torch::ones({1});
    second.reset();
    torch::zeros({1});
  });
  const stepprof::trace_event& first = t.events()[event_named(t, "first")];
  const stepprof::trace_event& second = t.events()[event_named(t, "second")];
  CHECK(second.has(stepprof::trace_event::out_of_order));
  CHECK_FALSE(first.has(stepprof::trace_event::out_of_order));
  const stepprof::trace_event& ones = t.events()[event_named(t, "aten::ones")];
  CHECK(first.end_ns <= ones.begin_ns);
  CHECK(second.begin_ns <= first.end_ns);
  CHECK(second.end_ns >= ones.end_ns);
  CHECK(parent_of(t, event_named(t, "aten::ones")) == "");
  CHECK(parent_of(t, event_named(t, "aten::zeros")) == "");
  test::check_rules(t);
}

// Catches: scopes that are kept for the next op without bound, or not at all.
TEST_CASE("more ops open at once than are kept for use again", "[torch_scopes]") {
  const stepprof::trace t = recorded_torch([] {
    for (int round = 0; round < 2; ++round) {
      std::vector<std::unique_ptr<at::RecordFunction>> open;
      for (int i = 0; i < 200; ++i) {
        open.push_back(std::make_unique<at::RecordFunction>());
        open.back()->before("nested");
      }
      while (!open.empty()) open.pop_back();
    }
  });
  CHECK(events_named(t, "nested").size() == 400);
  CHECK(t.losses().unfinished == 0);
  test::check_rules(t);
}

}  // namespace torch_scopes_test
