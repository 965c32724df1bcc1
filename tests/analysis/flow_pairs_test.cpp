#include <random>
#include <utility>
#include <vector>

#include <stepprof/analysis/flow_pairs.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

namespace flow_pairs_test {

using namespace stepprof;

namespace {

// Events by index, with the sequence number and, for backward scopes, the forward thread.
struct linked {
  std::uint32_t event;
  std::int64_t number;
  std::uint32_t forward_thread;
};
using pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

trace with_numbers(const std::string& text, const std::vector<linked>& numbers) {
  test::event_builder b(text);
  for (const linked& l : numbers) {
    b.builder.detail(l.event).sequence_number = l.number;
    b.builder.detail(l.event).forward_thread = l.forward_thread;
  }
  return b.builder.finish();
}
pairs found(const trace& t) {
  pairs result;
  for (const trace_link& link : flow_pairs(t)) result.emplace_back(link.from, link.to);
  return result;
}

}  // namespace

// FC-57: pytorch/pytorch PR57182
// Catches: negative numbers taken for a number, or the largest one lost.
TEST_CASE("negative sequence numbers mean none", "[flow_pairs]") {
  for (const std::int64_t number : {std::int64_t{-1}, INT64_MIN})
    CHECK(found(with_numbers("t1: f[0..1] b~[2..3]", {{0, number, 0}, {1, number, 1}})).empty());
  for (const std::int64_t number : {std::int64_t{0}, INT64_MAX})
    CHECK(found(with_numbers("t1: f[0..1] b~[2..3]", {{0, number, 0}, {1, number, 1}})) == pairs{{0, 1}});
}

// FC-58: pytorch/pytorch PR102424
// Catches: an arrow from the outer forward scope, to the wrapper, or one more for the second pass.
TEST_CASE("one arrow joins the innermost forward and the first backward op", "[flow_pairs]") {
  const trace t =
      with_numbers("t1: outer[0..10]{ inner[2..6] }; t2: wrap[20..30]{ b~[21..29] } wrap[40..50]{ b~[41..49] }",
                   {{0, 7, 0}, {1, 7, 0}, {2, 7, 1}, {3, 7, 1}, {4, 7, 1}, {5, 7, 1}});
  CHECK(found(t) == pairs{{1, 3}});
}

// FC-59: pytorch/pytorch#42564, pytorch/pytorch#57476
// Catches: numbers that come again in the next step, or on another thread, paired across.
TEST_CASE("reused numbers pair within their step and thread", "[flow_pairs]") {
  trace_builder b;
  b.add_process({});
  pairs expected;
  const auto name = b.intern("op");
  for (std::uint32_t thread = 1; thread <= 2; ++thread) {
    trace_track track;
    track.id = thread;
    b.add_track(track);
    for (std::int64_t step = 0; step < 2; ++step)
      for (std::int64_t i = 0; i < 20; ++i) {
        trace_event e;
        e.name = name;
        e.begin_ns = step * 1000 + i * 10;
        e.end_ns = e.begin_ns + 5;
        if (i >= 10) e.set_kind(scope_kind::backward_op);
        const std::uint32_t index = b.add_event(e);
        event_detail& d = b.detail(index);
        d.sequence_number = i < 10 ? i : 19 - i;
        d.forward_thread = i < 10 ? 0 : thread;
        // Forward i lies at place i of its step, its backward at place 19 - i.
        if (i < 10) expected.emplace_back(index, index + static_cast<std::uint32_t>(19 - 2 * i));
      }
  }
  const pairs result = found(b.finish());
  CHECK(result.size() == 40);
  CHECK(result == expected);
}

// FC-60: pytorch/pytorch#69443, pytorch/pytorch#72858, pytorch/pytorch#74139
// Catches: links held by pointers into storage that grows, or a quadratic search.
TEST_CASE("a hundred thousand pairs are found exactly", "[flow_pairs]") {
  constexpr std::uint32_t count = 100000;
  trace_builder b;
  b.add_process({});
  trace_track track;
  track.id = 1;
  b.add_track(track);
  const auto name = b.intern("op");
  for (std::uint32_t i = 0; i < 2 * count; ++i) {
    trace_event e;
    e.name = name;
    e.begin_ns = 10 * std::int64_t{i};
    e.end_ns = e.begin_ns + 5;
    const bool backward = i >= count;
    if (backward) e.set_kind(scope_kind::backward_op);
    const std::uint32_t index = b.add_event(e);
    b.detail(index).sequence_number = backward ? 2 * count - 1 - i : i;
    b.detail(index).forward_thread = backward ? 1 : 0;
  }
  const pairs result = found(b.finish());
  REQUIRE(result.size() == count);
  bool all = true;
  for (std::uint32_t i = 0; i < count; ++i) all = all && result[i].first == i && result[i].second == 2 * count - 1 - i;
  CHECK(all);
}

// FC-61: google/trace-viewer#1088
// Catches: an arrow invented for a scope whose partner is not in the trace.
TEST_CASE("a scope without its partner has no arrow", "[flow_pairs]") {
  CHECK(found(with_numbers("t1: b~[2..3]", {{0, 5, 1}})).empty());                     // forward not in the window
  CHECK(found(with_numbers("t1: b~[2..3]", {{0, 5, 0}})).empty());                     // forward not recorded at all
  CHECK(found(with_numbers("t1: b~[2..3]", {{0, 5, 9}})).empty());                     // its thread is not in the trace
  CHECK(found(with_numbers("t1: f[0..1]", {{0, 5, 0}})).empty());                      // backward dropped
  CHECK(found(with_numbers("t1: b~[0..1] f[2..3]", {{0, 5, 1}, {1, 5, 0}})).empty());  // forward comes later
  CHECK(found(with_numbers("t1: f[1..1] b~[1..1]", {{0, 5, 0}, {1, 5, 1}})) == pairs{{0, 1}});  // no length
}

// Catches: a backward scope whose forward was not recorded, taken for a forward scope of its own thread.
TEST_CASE("a backward scope is never a forward end", "[flow_pairs]") {
  CHECK(found(with_numbers("t1: b~[0..1] b~[2..3]", {{0, 5, 0}, {1, 5, 1}})).empty());
}

// Catches: threads of one id in two processes taken for one.
TEST_CASE("the forward thread is one of the same process", "[flow_pairs]") {
  trace_builder b;
  b.add_process({});
  b.add_process({});
  const auto name = b.intern("op");
  const auto add = [&](std::uint32_t process, std::int64_t begin, scope_kind kind, std::uint32_t forward_thread) {
    trace_track track;
    track.process = process;
    track.id = 1;
    b.add_track(track);
    trace_event e;
    e.name = name;
    e.begin_ns = begin;
    e.end_ns = begin + 1;
    e.set_kind(kind);
    b.detail(b.add_event(e)).forward_thread = forward_thread;
    b.detail(b.event_count() - 1).sequence_number = 3;
  };
  add(0, 0, scope_kind::op, 0);
  add(1, 5, scope_kind::backward_op, 1);
  CHECK(found(b.finish()).empty());
}

// Catches: arrows of a file derived a second time, or recorded ones lost or doubled.
TEST_CASE("recorded links are kept", "[flow_pairs]") {
  test::event_builder b("t1: f[0..1] g[1..2] b~[3..4]");
  b.builder.detail(0).sequence_number = 1;
  b.builder.detail(2).sequence_number = 1;
  b.builder.detail(2).forward_thread = 1;
  b.builder.add_link({1, 2, link_kind::custom});
  SECTION("with those that follow") {
    CHECK(found(b.builder.finish()) == pairs{{1, 2}, {0, 2}});
  }
  SECTION("once") {
    b.builder.add_link({0, 2, link_kind::forward_backward});
    CHECK(found(b.builder.finish()) == pairs{{1, 2}, {0, 2}});
  }
  SECTION("alone when they are complete") {
    b.builder.set_links_are_complete(true);
    CHECK(found(b.builder.finish()) == pairs{{1, 2}});
  }
}

// Catches: any pairing that differs from the rule, word by word: for each backward op in order of time the forward
// scope of that key which began last before it, unless that one has been joined already.
TEST_CASE("pairing agrees with a naive reference", "[flow_pairs]") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    trace_builder b;
    b.add_process({});
    const auto name = b.intern("op");
    for (std::uint32_t thread = 1; thread <= 3; ++thread) {
      trace_track track;
      track.id = thread;
      b.add_track(track);
      std::int64_t at = static_cast<std::int64_t>(random() % 3);
      for (int i = 0; i < 12; ++i) {
        trace_event e;
        e.name = name;
        e.begin_ns = at;
        e.end_ns = at + static_cast<std::int64_t>(random() % 3);
        at = e.end_ns + static_cast<std::int64_t>(random() % 2);
        if (random() % 2 != 0) e.set_kind(scope_kind::backward_op);
        const std::uint32_t index = b.add_event(e);
        b.detail(index).sequence_number = static_cast<std::int64_t>(random() % 4) - 1;
        b.detail(index).forward_thread = e.kind() == scope_kind::backward_op ? random() % 4 : 0;
      }
    }
    const trace t = b.finish();
    const auto before = [&](std::uint32_t f, std::uint32_t k) {
      const trace_event& x = t.events()[f];
      const trace_event& y = t.events()[k];
      return x.begin_ns < y.begin_ns || (x.begin_ns == y.begin_ns && (x.track != y.track || f < k));
    };
    std::vector<std::uint32_t> backward;
    for (std::uint32_t i = 0; i < t.events().size(); ++i)
      if (t.events()[i].kind() == scope_kind::backward_op) backward.push_back(i);
    // At one time, scopes of the forward's own thread come first.
    std::stable_sort(backward.begin(), backward.end(), [&](std::uint32_t x, std::uint32_t y) {
      const auto rank = [&](std::uint32_t i) {
        const trace_event& e = t.events()[i];
        return std::make_pair(e.begin_ns, t.tracks()[e.track].id != t.detail(e).forward_thread);
      };
      return rank(x) < rank(y);
    });
    pairs expected;
    std::vector<bool> joined(t.events().size());
    for (const std::uint32_t k : backward) {
      const event_detail& link = t.detail(t.events()[k]);
      std::uint32_t best = npos;
      for (std::uint32_t f = 0; f < t.events().size(); ++f) {
        const trace_event& e = t.events()[f];
        if (e.kind() == scope_kind::backward_op || t.detail(e).sequence_number != link.sequence_number ||
            link.sequence_number < 0 || t.tracks()[e.track].id != link.forward_thread || !before(f, k))
          continue;
        if (best == npos || e.begin_ns >= t.events()[best].begin_ns) best = f;
      }
      if (best == npos || joined[best]) continue;
      joined[best] = true;
      expected.emplace_back(best, k);
    }
    std::sort(expected.begin(), expected.end());
    REQUIRE(found(t) == expected);
  }
}

}  // namespace flow_pairs_test
