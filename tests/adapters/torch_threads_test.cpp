// Catches: threads that are not recorded, arrows that cross, an adapter that cannot come and go while ops run.
#include <support/torch_recording.hpp>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace torch_threads_test {

namespace {

using test::arrow_counts;
using test::arrows_of;
using test::dims_of;
using test::event_named;
using test::events_named;
using test::number_of;
using test::parameter;
using test::parent_of;
using test::recorded_torch;
using test::thread_of;

// A node whose backward pass runs a backward pass, and so on: libtorch moves what is too deep to threads of the engine.
struct nested : torch::autograd::Function<nested> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x, std::int64_t depth) {
    context->saved_data["depth"] = depth;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const std::int64_t depth = context->saved_data["depth"].toInt();
    if (depth > 0) {
      const torch::AutoGradMode on(true);
      nested::apply(parameter({1}), depth - 1).exp().backward();
    }
    return {gradients[0], torch::Tensor()};
  }
};

}  // namespace

// The issue of every profiler that follows one thread: torch's own sees only threads that it starts itself.
TEST_CASE("a plain thread is recorded, its memory too, and its arrows cross threads when it is gone",
          "[torch_threads]") {
  torch::Tensor y, kept;
  const stepprof::trace t = recorded_torch([&] {
    std::thread([&] {
      y = parameter({2}).exp().sum();
      RECORD_USER_SCOPE("of the thread");
      kept = torch::empty({100});
    }).join();
    y.backward();
  });
  const std::uint32_t forward = event_named(t, "aten::exp"), backward = event_named(t, "ExpBackward0");
  CHECK(thread_of(t, forward) != thread_of(t, backward));
  CHECK(arrows_of(t) == arrow_counts{{"aten::exp -> ExpBackward0", 1}, {"aten::sum -> SumBackward0", 1}});
  std::int64_t bytes = 0;
  for (const stepprof::memory_event& m : t.memory())
    if (m.event != stepprof::npos && parent_of(t, m.event) == "of the thread") {
      CHECK(t.tracks()[m.track].id == thread_of(t, forward));
      bytes += m.bytes;
    }
  CHECK(bytes == 400);
  test::check_rules(t);
}

// Catches: sequence numbers taken for unique: both threads count from the same number.
TEST_CASE("two forward threads with equal numbers: no arrow crosses", "[torch_threads]") {
  torch::Tensor of_two, of_three;
  const stepprof::trace t = recorded_torch([&] {
    std::thread first([&] { of_two = parameter({2}).exp(); });
    std::thread second([&] { of_three = parameter({3}).exp(); });
    first.join();
    second.join();
    of_three.backward(torch::ones({3}));
    of_two.backward(torch::ones({2}));
  });
  CHECK(arrows_of(t) == arrow_counts{{"aten::exp -> ExpBackward0", 2}});
  std::set<std::int64_t> numbers;
  std::set<std::uint32_t> threads;
  for (const stepprof::trace_link& link : stepprof::flow_pairs(t)) {
    numbers.insert(number_of(t, link.from));
    threads.insert(thread_of(t, link.from));
    // The op's first input and the node's gradient have the same size.
    CHECK(dims_of(t, link.from).substr(0, 4) == dims_of(t, link.to).substr(0, 4));
  }
  CHECK(numbers.size() == 1);
  CHECK(threads.size() == 2);
}

TEST_CASE("a task of the interop pool is recorded", "[torch_threads]") {
  const stepprof::trace t = recorded_torch([] {
    std::promise<torch::Tensor> made;
    at::launch([&] { made.set_value(parameter({2}).exp()); });
    made.get_future().get().sum().backward();
  });
  const std::uint32_t forward = event_named(t, "aten::exp");
  CHECK(thread_of(t, forward) != thread_of(t, events_named(t, "aten::sum").at(0)));
  CHECK(arrows_of(t) == arrow_counts{{"aten::exp -> ExpBackward0", 1}, {"aten::sum -> SumBackward0", 1}});
}

// 100 levels: libtorch runs 60 of them on one thread.
TEST_CASE("the engine's own threads are recorded", "[torch_threads]") {
  const stepprof::trace t = recorded_torch([] { nested::apply(parameter({1}), 100).exp().backward(); });
  std::set<std::uint32_t> threads;
  for (const std::uint32_t node : events_named(t, "ExpBackward0")) threads.insert(thread_of(t, node));
  CHECK(events_named(t, "ExpBackward0").size() == 101);
  CHECK(threads.size() == 2);
  CHECK(arrows_of(t).at("aten::exp -> ExpBackward0") == 101);
  test::check_rules(t);
}

TEST_CASE("an op that ends on another thread keeps its time and harms neither", "[torch_threads]") {
  const stepprof::trace t = recorded_torch([] {
    auto range = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
    range->before("moved");
    std::thread([&] {
      RECORD_USER_SCOPE("other");
      range.reset();
      torch::ones({1});
    }).join();
    torch::zeros({1});
  });
  const stepprof::trace_event& moved = t.events()[event_named(t, "moved")];
  CHECK(moved.has(stepprof::trace_event::other_thread));
  CHECK(moved.end_ns >= t.events()[event_named(t, "other")].begin_ns);
  CHECK(parent_of(t, event_named(t, "aten::ones")) == "other");
  CHECK(parent_of(t, event_named(t, "aten::zeros")) == "");
  CHECK(t.losses().unfinished == 0);
  test::check_rules(t);
}

// Catches: an end without its begin, a scope left open, a callback into what is gone.
TEST_CASE("observers come and go while four threads run ops and a profile records", "[torch_threads]") {
  std::atomic<bool> stop{false};
  std::atomic<int> running{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      ++running;
      while (!stop) {
        const torch::Tensor y = parameter({8}).exp().sum();
        y.backward();
      }
    });
  while (running < 4) std::this_thread::yield();
  stepprof::trace last;
  for (int session = 0; session < 5; ++session) {
    stepprof::profile prof(test::torch_options());
    for (int i = 0; i < 50; ++i) {
      const stepprof::torch_observer observer;
      torch::ones({8}).neg();
    }
    prof.stop();
    last = prof.result();
    CHECK(events_named(last, "aten::neg").size() == 50);
    CHECK(last.losses().unmatched_ends == 0);
    CHECK(last.losses().dropped == 0);
    arrows_of(last);  // checks each
    test::check_rules(last);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(at::hasGlobalCallbacks());
}

// Catches: a window that begins or ends between two callbacks of an op on another thread.
TEST_CASE("windows begin and end while four threads run ops", "[torch_threads]") {
  const stepprof::torch_observer observer;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      while (!stop) parameter({8}).exp().sum().backward();
    });
  stepprof::profile_options options = test::torch_options();
  options.schedule = stepprof::schedule{/*wait*/ 1, /*warmup*/ 1, /*active*/ 1, /*repeat*/ 20};
  int cycles = 0;
  options.on_trace_ready = [&](const stepprof::trace& t) {
    ++cycles;
    CHECK(t.losses().unmatched_ends == 0);
    arrows_of(t);
    test::check_rules(t);
  };
  stepprof::profile prof(options);
  for (int step = 0; step < 60; ++step) {
    torch::ones({8}).neg();
    prof.step();
  }
  prof.stop();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(cycles == 20);
  CHECK(prof.last_error() == "");
}

// Catches: a table that grows with every thread, or that gives a thread's place to another one's ops.
TEST_CASE("threads are found by libtorch's number until their place is taken by a later one", "[torch_threads]") {
  static stepprof::detail::torch_thread_table table;
  constexpr std::uint64_t places = stepprof::detail::torch_thread_table::places;
  CHECK(table.find(1) == 0);
  table.set(1, 17);
  CHECK(table.find(1) == 17);
  CHECK(table.find(1 + places) == 0);
  table.set(1 + places, 18);
  CHECK(table.find(1 + places) == 18);
  CHECK(table.find(1) == 0);
  CHECK(table.find(0) == 0);
}

}  // namespace torch_threads_test
