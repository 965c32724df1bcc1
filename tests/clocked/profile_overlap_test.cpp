// Catches: scopes that do not nest, by manual ends, other threads, exceptions or longjmp, spoiling the ones that do.
#include <support/clocked_work.hpp>
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>

#include <stepprof/stepprof.hpp>

namespace profile_overlap_test {

using test::fake_clock;
using test::work;

// Catches: B lost, or the durations of A and B exchanged.
// FC-19: wolfpld/tracy#426, google/perfetto#4280, JuliaGPU/CUDA.jl#1485
TEST_CASE("two manual scopes that overlap keep their durations", "[overlap]") {
  const test::heard heard;
  stepprof::profile prof;
  {
    stepprof::record_function around("around");
    stepprof::manual_scope a;
    stepprof::manual_scope b;
    a.begin("A");
    fake_clock::advance(10);
    b.begin("B");
    fake_clock::advance(20);
    a.end();
    work("after A", 30);
    b.end();
    fake_clock::advance(5);
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) == "t: around[0..65]{ A[0..30] after A[30..60] }; async: B[10..60]");
  CHECK(test::find_event(t, "B")->has(stepprof::trace_event::out_of_order));
  const stepprof::event_averages rows = prof.key_averages();
  CHECK(rows.at("A").total_ns == 30);
  CHECK(rows.at("B").total_ns == 50);
  CHECK(rows.at("B").self_ns == 0);
  CHECK(rows.at("around").self_ns == 5);
  CHECK(heard.codes() == "scopes_apart");
  CHECK(test::contains(heard.all[0].text, "1 scope(s)"));
  test::check_rules(t);
}

// Catches: a recursive call inside which a manual scope ends giving its own end to the call around it.
TEST_CASE("recursion across the end of a manual scope keeps its durations", "[overlap]") {
  const test::heard heard;
  stepprof::profile prof;
  {
    stepprof::record_function outer("f");
    stepprof::manual_scope request;
    request.begin("request");
    fake_clock::advance(10);
    {
      stepprof::record_function inner("f");
      fake_clock::advance(20);
      request.end();
      fake_clock::advance(30);
    }
    fake_clock::advance(40);
  }
  prof.stop();
  CHECK(test::drawn(prof.result()) == "t: f[0..100]{ request[0..30] }; async: f[10..60]");
  test::check_rules(prof.result());
}

namespace {

// The naive reference: the moments, counted from 0, in which a scope began and ended, and whether it nests.
struct moment_range {
  int begin = -1;
  int end = -1;
  bool apart = false;
};

// A scope that ends after one in which it began is apart, unless that one is apart already at that moment.
void find_apart(std::vector<moment_range>& scopes) {
  std::vector<moment_range*> by_end;
  for (moment_range& s : scopes) by_end.push_back(&s);
  std::sort(by_end.begin(), by_end.end(), [](const auto* a, const auto* b) { return a->end < b->end; });
  for (const moment_range* ends : by_end) {
    if (ends->apart) continue;
    for (moment_range& s : scopes)
      if (ends->begin < s.begin && s.begin < ends->end && ends->end < s.end) s.apart = true;
  }
}

// The innermost scope around `of` that nests; -1 when there is none.
int parent_of(const std::vector<moment_range>& scopes, const moment_range& of) {
  int parent = -1;
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    const moment_range& s = scopes[i];
    if (s.apart || s.begin >= of.begin || s.end <= of.end) continue;
    if (parent < 0 || s.begin > scopes[static_cast<std::size_t>(parent)].begin) parent = static_cast<int>(i);
  }
  return parent;
}

}  // namespace

// Catches: any interleaving in which a duration, a parent, or the choice of what nests is not the true one.
// FC-19: wolfpld/tracy#426
TEST_CASE("1000 random interleavings of manual scopes are what a naive reference says", "[overlap]") {
  const test::heard heard;
  std::mt19937 random(7);
  int wrong = 0;
  for (int round = 0; round < 1000; ++round) {
    const int count = 1 + static_cast<int>(random() % 8);
    std::vector<moment_range> truth(static_cast<std::size_t>(count));
    std::vector<std::unique_ptr<stepprof::manual_scope>> scopes;
    stepprof::profile prof;
    int begun = 0, ended = 0;
    for (int moment = 0; ended < count; ++moment) {
      if (begun < count && (random() % 2 == 0 || begun == ended)) {
        truth[static_cast<std::size_t>(begun)].begin = moment;
        scopes.push_back(std::make_unique<stepprof::manual_scope>());
        // Names are shared: what ends is told by the scope, not by its name.
        scopes.back()->begin(begun % 2 == 0 ? "even" : "odd", stepprof::arg("index", begun));
        ++begun;
      } else {
        std::vector<std::size_t> open;
        for (std::size_t i = 0; i < scopes.size(); ++i)
          if (truth[i].end < 0) open.push_back(i);
        const std::size_t chosen = open[random() % open.size()];
        truth[chosen].end = moment;
        scopes[chosen]->end();
        ++ended;
      }
      fake_clock::advance(1);
    }
    prof.stop();
    find_apart(truth);
    const stepprof::trace t = prof.result();
    wrong += t.events().size() != truth.size();
    std::vector<int> index_of(t.events().size(), -1);
    for (std::size_t i = 0; i < t.events().size(); ++i)
      index_of[i] = static_cast<int>(t.arguments()[t.detail(t.events()[i]).first_arg].int64);
    for (std::size_t i = 0; i < t.events().size(); ++i) {
      const stepprof::trace_event& e = t.events()[i];
      const moment_range& expected = truth[static_cast<std::size_t>(index_of[i])];
      wrong += e.begin_ns - t.info().begin_ns != expected.begin || e.end_ns - t.info().begin_ns != expected.end;
      wrong += (t.tracks()[e.track].kind == stepprof::track_kind::async) != expected.apart;
      const int parent = e.parent == stepprof::npos ? -1 : index_of[e.parent];
      wrong += parent != (expected.apart ? -1 : parent_of(truth, expected));
    }
    if (round % 100 == 0) test::check_rules(t);
    test::check_self_times(t);
  }
  CHECK(wrong == 0);
}

namespace {

// Opens a scope in its destructor, where another exception comes and goes, while the one that ends the scopes around it
// is still on its way.
struct thrower_inside {
  ~thrower_inside() {
    stepprof::record_function scope("destructor");
    try {
      throw std::runtime_error("inside a destructor");
    } catch (const std::runtime_error&) {
      fake_clock::advance(1);
    }
  }
};

// Destroyed where an exception is being handled: opens a scope and throws that one once more.
struct rethrower {
  ~rethrower() noexcept(false) {
    stepprof::record_function scope("rethrowing");
    fake_clock::advance(1);
    throw;
  }
};

void throw_through_scopes() {
  stepprof::record_function one("1");
  {
    stepprof::record_function two("2");
    try {
      stepprof::record_function three("3");
      const thrower_inside clean;
      stepprof::record_function four("4");
      stepprof::record_function five("5");
      fake_clock::advance(1);
      throw std::runtime_error("through");
    } catch (const std::runtime_error&) {
      stepprof::record_function handler("handler");
      try {
        stepprof::record_function within("within");
        const rethrower again;
        fake_clock::advance(1);
      } catch (const std::runtime_error&) {
        fake_clock::advance(1);
      }
    }
    work("after", 1);
  }
  fake_clock::advance(1);
}

}  // namespace

// Catches: a thrown exception that leaves scopes open, or ends them too late, or ends also those around the handler.
// FC-21: wolfpld/tracy#44, yse/easy_profiler#135
TEST_CASE("exceptions through five scopes end those inside the handler, ten thousand times", "[overlap]") {
  const test::heard heard;
  for (const int rounds : {100, 10000}) {
    stepprof::profile prof;
    {
      stepprof::record_function outermost("outermost");
      for (int i = 0; i < rounds; ++i) throw_through_scopes();
    }
    prof.stop();
    const stepprof::trace t = prof.result();
    CHECK(t.losses().kept == 1u + 10u * static_cast<unsigned>(rounds));
    CHECK(t.losses().unfinished == 0);
    CHECK(t.losses().unmatched_ends == 0);
    const stepprof::event_averages rows = prof.key_averages();
    CHECK(rows.at("outermost").self_ns == 0);
    const stepprof::event_tree tree(t);
    const struct {
      const char* name;
      std::int64_t total_ns, self_ns;
      std::uint32_t depth;
    } expected[] = {{"1", 7, 1, 1},          {"2", 6, 0, 2},    {"3", 2, 0, 3},       {"destructor", 1, 1, 4},
                    {"4", 1, 0, 4},          {"5", 1, 1, 5},    {"handler", 3, 1, 3}, {"within", 2, 1, 4},
                    {"rethrowing", 1, 1, 5}, {"after", 1, 1, 3}};
    for (const auto& row : expected) {
      INFO(row.name);
      CHECK(rows.at(row.name).calls == rounds);
      CHECK(rows.at(row.name).total_ns == row.total_ns * rounds);
      CHECK(rows.at(row.name).self_ns == row.self_ns * rounds);
      // At its own depth, in every round.
      const std::uint32_t name = test::find_event(t, row.name)->name;
      int misplaced = 0;
      for (std::uint32_t i = 0; i < t.events().size(); ++i)
        misplaced += t.events()[i].name == name && tree.depth(i) != row.depth;
      CHECK(misplaced == 0);
    }
    if (rounds == 100) test::check_rules(t);  // a large file would take seconds
    test::check_self_times(t);
  }
  CHECK(heard.codes() == "");
}

namespace {

std::jmp_buf out_of_scopes;

void jump_over_scopes() {
  // Never destroyed: what a longjmp over scopes leaves behind, without its undefined behaviour.
  alignas(stepprof::record_function) static unsigned char places[2][sizeof(stepprof::record_function)];
  new (places[0]) stepprof::record_function("lost");
  new (places[1]) stepprof::record_function("lost inside");
  fake_clock::advance(10);
  std::longjmp(out_of_scopes, 1);
}

// A function of its own: what is inlined into the one that calls setjmp may be held in registers, which g++ warns of.
void jump_and_come_back() {
  if (setjmp(out_of_scopes) == 0) jump_over_scopes();
}

void leave_by_longjmp() {
  stepprof::record_function outer("outer");
  jump_and_come_back();
  work("next", 5);
}

}  // namespace

// Catches: scopes left by longjmp that adopt everything after them.
// FC-21: wolfpld/tracy#44
TEST_CASE("the next outer end repairs the depth after a longjmp", "[overlap]") {
  const test::heard heard;
  stepprof::profile prof;
  for (int i = 0; i < 3; ++i) leave_by_longjmp();
  work("last");
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) ==
        "t: outer[0..15]{ next[10..15] } outer[15..30]{ next[25..30] } outer[30..45]{ next[40..45] } last[45..145]; "
        "async: lost[0..145]? lost inside[0..145]? lost[15..145]? lost inside[15..145]? lost[30..145]? "
        "lost inside[30..145]?");
  CHECK(t.losses().unfinished == 6);
  CHECK(heard.codes() == "scopes_apart");
  test::check_rules(t);
}

// Catches: a scope ended on another thread that breaks the stack of either, or is never ended.
// FC-18: pytorch/pytorch#32517, wolfpld/tracy#1184
TEST_CASE("a scope ended on another thread ends there, apart, and leaves both threads alone", "[overlap]") {
  const test::heard heard;
  stepprof::profile prof;
  {
    std::unique_ptr<stepprof::record_function> given_away;
    {
      stepprof::record_function outer("outer 1");
      given_away = std::make_unique<stepprof::record_function>("given away");
      fake_clock::advance(10);
      work("inside", 5);
      std::thread([&] {
        stepprof::record_function outer_2("outer 2");
        fake_clock::advance(20);
        given_away.reset();
        work("inside 2", 5);
      }).join();
      work("after", 7);
    }
    // The same name once more, open while the other one ends.
    auto first = std::make_unique<stepprof::record_function>("twice");
    std::thread([&] {
      fake_clock::advance(3);
      first.reset();
    }).join();
    fake_clock::advance(1);
    auto second = std::make_unique<stepprof::record_function>("twice");
    fake_clock::advance(50);
    CHECK(test::contains(test::drawn(prof.snapshot()), "twice[51..101]?"));
    second.reset();
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) ==
        "t: outer 1[0..47]{ inside[10..15] after[40..47] } twice[51..101]; "
        "async: given away[0..35] twice[47..50]; t: outer 2[15..40]{ inside 2[35..40] }");
  CHECK(test::find_event(t, "given away")->has(stepprof::trace_event::other_thread));
  CHECK_FALSE(test::find_event(t, "given away")->has(stepprof::trace_event::out_of_order));
  CHECK(t.losses().unfinished == 0);
  CHECK(t.losses().unmatched_ends == 0);
  CHECK(heard.codes() == "scopes_apart");
  CHECK(test::contains(heard.all[0].text, "ended on another thread"));
  test::check_rules(t);
}

// Catches: a manual scope ended on another thread that stays open for ever.
// FC-18: pytorch/pytorch#32517
TEST_CASE("a manual scope ended on another thread ends there, too", "[overlap]") {
  const test::heard heard;
  stepprof::profile prof;
  {
    stepprof::record_function outer("outer");
    stepprof::manual_scope scope;
    scope.begin("given away");
    fake_clock::advance(10);
    std::thread([&] {
      fake_clock::advance(10);
      scope.end();
    }).join();
    work("after");
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) == "t: outer[0..120]{ after[20..120] }; async: given away[0..20]");
  CHECK(t.losses().unmatched_ends == 0);
  test::check_rules(t);
}

// Catches: an end on another thread, between the windows or in the warm-up, that is forgotten: its scope would stay
// open, in the reader's memory, for ever.
TEST_CASE("scopes ended on another thread while nothing is kept leave nothing behind", "[overlap]") {
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{1, 1, 1, 0};
  options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
  stepprof::profile prof(options);
  std::unique_ptr<stepprof::record_function> held;
  for (int i = 0; i < 10; ++i) {
    prof.step();  // warm-up
    held = std::make_unique<stepprof::record_function>("held");
    std::thread([&] { held.reset(); }).join();
    held = std::make_unique<stepprof::record_function>("held");
    prof.step();  // active
    work("s");
    prof.step();  // wait
    std::thread([&] { held.reset(); }).join();
  }
  prof.stop();
  REQUIRE(cycles.size() == 10);
  for (const stepprof::trace& t : cycles) {
    CHECK(test::contains(test::drawn(t), "{ s[0..100] }"));
    CHECK(test::find_event(t, "held") == nullptr);
    CHECK(t.losses().unmatched_ends == 0);
  }
}

// Catches: room for ends that is kept for ever when they come on other threads, until the budget is used up by it.
TEST_CASE("scopes ended on another thread take no room once they are read", "[overlap]") {
  const test::heard heard;
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{1} << 20;
  stepprof::profile prof(options, stepprof::deferred);
  int incomplete = 0;
  for (int session = 0; session < 60; ++session) {  // 3000 ends of 8 bytes in each: 1.4 MB
    prof.start();
    std::vector<std::unique_ptr<stepprof::record_function>> given_away;
    stepprof::manual_scope manual[100];
    for (int i = 0; i < 3000; ++i) given_away.push_back(std::make_unique<stepprof::record_function>("given away"));
    for (stepprof::manual_scope& scope : manual) scope.begin("manual");
    std::thread([&] {
      given_away.clear();
      for (stepprof::manual_scope& scope : manual) scope.end();
    }).join();
    work("s");
    prof.stop();
    const stepprof::loss_counts losses = prof.result().losses();
    incomplete += losses.kept != 3101 || losses.dropped + losses.unfinished + losses.unmatched_ends != 0;
  }
  CHECK(incomplete == 0);
  CHECK(heard.codes() == "scopes_apart");
}

// Catches: steps from several threads that are forced onto one thread's track, or counted in its self time, or a
// diagnostic for each of them.
TEST_CASE("steps that begin and end on different threads stand on a track of their own", "[overlap]") {
  const test::heard heard;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 4, 1};
  stepprof::profile prof(options);
  prof.step();  // step 1 begins here
  work("a");
  prof.step();  // and ends here
  work("b");
  std::thread([&] {
    prof.step();  // step 2 ends elsewhere; step 3 begins and ends there
    work("c");
    prof.step();
  }).join();
  work("d");
  prof.step();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) ==
        "t: ProfilerStep#1[0..100]{ a[0..100] } b[100..200] d[300..400]; t: ProfilerStep#3[200..300]{ c[200..300] }; "
        "async: ProfilerStep#2[100..200] ProfilerStep#4[300..400]");
  REQUIRE(t.steps().size() == 4);
  for (std::size_t k = 0; k < 4; ++k) {
    CHECK(t.steps()[k].number == static_cast<std::int64_t>(k) + 1);
    CHECK(t.steps()[k].complete);
    CHECK(t.name(t.events()[t.steps()[k].event]) == "ProfilerStep#" + std::to_string(k + 1));
  }
  CHECK(prof.key_averages().at("ProfilerStep*").calls == 4);
  CHECK(heard.codes() == "steps_apart");
  test::check_rules(t);
}

// Catches: a step that cannot nest because a scope lies across its border, which is then drawn over that scope.
TEST_CASE("a step whose border lies inside a longer scope stands apart", "[overlap]") {
  const test::heard heard;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 1, 3, 1};
  stepprof::profile prof(options);
  prof.step();
  work("a", 10);
  {
    stepprof::record_function across("across");
    fake_clock::advance(10);
    prof.step();
    fake_clock::advance(10);
    prof.step();
    fake_clock::advance(10);
  }
  prof.step();
  const stepprof::trace t = prof.result();
  // Step 2 lies inside the scope; steps 1 and 3 have one border inside and one outside of it.
  CHECK(test::drawn(t) ==
        "t: a[0..10] across[10..40]{ ProfilerStep#2[20..30] }; async: ProfilerStep#1[0..20] ProfilerStep#3[30..40]");
  CHECK(heard.codes() == "steps_apart");
  test::check_rules(t);
}

}  // namespace profile_overlap_test
