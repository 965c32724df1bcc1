#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

#include <stepprof/analysis/event_tree.hpp>

namespace event_tree_test {

using namespace stepprof;

namespace {

// Makes random trees as text and knows the answer because it makes the gaps: self = sum of the gaps of an event.
class random_tree {
 public:
  explicit random_tree(std::uint32_t seed) : random_(seed) {
    text_ = "t1:";
    for (int i = 0; i < 2; ++i) {
      now_ += number(0, 5);
      const std::int64_t begin = now_;
      add_event(0);
      union_ns_ += now_ - begin;
    }
  }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<std::int64_t>& self_ns() const { return self_ns_; }
  [[nodiscard]] std::int64_t union_ns() const { return union_ns_; }

 private:
  std::int64_t number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  void add_event(int depth) {
    const std::size_t index = self_ns_.size();
    self_ns_.push_back(0);
    const std::int64_t begin = now_;
    const std::string before = std::move(text_);
    text_.clear();
    const std::int64_t children = depth == 5 ? 0 : number(0, 4);
    for (std::int64_t i = 0; i <= children; ++i) {
      const std::int64_t gap = number(0, 9);
      self_ns_[index] += gap;
      now_ += gap;
      if (i != children) add_event(depth + 1);
    }
    text_ = before + " e[" + std::to_string(begin) + ".." + std::to_string(now_) + "]{" + text_ + "}";
  }

  std::mt19937 random_;
  std::string text_;
  std::vector<std::int64_t> self_ns_;
  std::int64_t now_ = 0;
  std::int64_t union_ns_ = 0;
};

}  // namespace

// Catches: grandchildren subtracted from an event as if they were its children, so that self becomes negative.
// FC-24: pytorch/pytorch#128479
TEST_CASE("self times of 1000 random trees are the gaps between the children", "[event_tree]") {
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    const random_tree expected(seed);
    const event_tree tree(test::events(expected.text()));
    const auto count = static_cast<std::uint32_t>(tree.source().events().size());
    REQUIRE(count == expected.self_ns().size());
    std::int64_t sum = 0;
    bool all_equal = true;
    for (std::uint32_t i = 0; i < count; ++i) {
      all_equal = all_equal && tree.self_ns(i) == expected.self_ns()[i] && tree.self_ns(i) <= tree.total_ns(i);
      sum += tree.self_ns(i);
    }
    INFO("seed " << seed << ": " << expected.text());
    REQUIRE(all_equal);
    REQUIRE(sum == expected.union_ns());
  }
}

// Catches: async events subtracted from what happens to lie around them, or given self time of their own.
TEST_CASE("async events have no self time and take none away", "[event_tree]") {
  const event_tree tree(test::events("t1: a[0..10]{ b[2..5] }; async1: x[1..9] y[3..12]"));
  CHECK(tree.self_ns(0) == 7);
  CHECK(tree.self_ns(1) == 3);
  CHECK(tree.self_ns(2) == 0);
  CHECK(tree.self_ns(3) == 0);
  CHECK(tree.total_ns(3) == 9);
}

// Catches: paused time left in self, taken away twice from parent and child, or pauses assumed sorted and apart.
TEST_CASE("paused time leaves the innermost scope that is open across it", "[event_tree]") {
  test::event_builder b("t1: a[0..100]{ b[10..60] c[70..80] } d[100..120]; t2: e[0..120]");
  b.builder.add_pause({85, 105});  // ends of a (15) and beginning of d (5)
  b.builder.add_pause({20, 30});   // in b
  b.builder.add_pause({25, 40});   // overlaps: 20..40 together
  const event_tree tree(b.builder.finish());
  CHECK(tree.self_ns(0) == 100 - 50 - 10 - 15);
  CHECK(tree.self_ns(1) == 50 - 20);
  CHECK(tree.self_ns(2) == 10);
  CHECK(tree.self_ns(3) == 20 - 5);
  CHECK(tree.self_ns(4) == 120 - 40);
  CHECK(tree.total_ns(0) == 100);
}

// Catches: depth, outermost scope or extent of a subtree taken over from the event before.
TEST_CASE("depth, top level, extent and enclosing events", "[event_tree]") {
  const event_tree tree(test::events("t1: a[0..10]{ b[1..5]{ c[2..3] } d[6..7] } e[10..12]{ f[11..12] }"));
  const std::vector<std::uint32_t> depth = {0, 1, 2, 1, 0, 1}, top = {0, 0, 0, 0, 4, 4}, end = {4, 3, 3, 4, 6, 6};
  for (std::uint32_t i = 0; i < 6; ++i) {
    CHECK(tree.depth(i) == depth[i]);
    CHECK(tree.top_level(i) == top[i]);
    CHECK(tree.subtree_end(i) == end[i]);
  }
  CHECK(tree.enclosing(2) == std::vector<std::uint32_t>{1, 0});
  CHECK(tree.enclosing(2, 1) == std::vector<std::uint32_t>{1});
  CHECK(tree.enclosing(4).empty());
}

// Catches: bytes counted at every level, taken from other threads, or of a device that is not the CPU.
TEST_CASE("memory belongs to the scope that it was reported in and to those around it", "[event_tree]") {
  test::event_builder b("t1: outer[0..10]{ inner[2..6] }; t2: other[0..10]; async1: x[1..9]");
  const auto report = [&b](std::uint32_t event, std::int64_t bytes, std::int16_t device = 0) {
    memory_event m;
    m.event = event;
    m.bytes = bytes;
    m.device_type = device;
    b.builder.add_memory(m);
  };
  report(0, 4000);
  report(1, 2000);
  report(1, -4000);
  report(2, 7);
  report(3, 100);
  report(npos, 5);
  report(1, 1 << 20, 1);  // of a GPU
  b.builder.add_unmatched_free({1, 3});
  const event_tree tree(b.builder.finish());
  CHECK(tree.self_memory(0).net_bytes() == 4000);
  CHECK(tree.self_memory(1).net_bytes() == -2000);
  CHECK(tree.self_memory(1).allocated_bytes == 2000);
  CHECK(tree.self_memory(1).freed_bytes == 4000);
  CHECK(tree.total_memory(0).net_bytes() == 2000);
  CHECK(tree.total_memory(0).allocations == 2);
  CHECK(tree.total_memory(0).frees == 1);
  CHECK(tree.total_memory(0).unmatched_frees == 3);
  CHECK(tree.self_memory(0).unmatched_frees == 0);
  CHECK(tree.total_memory(2).net_bytes() == 7);
  CHECK(tree.self_memory(3).net_bytes() == 100);
  CHECK(tree.memory_outside().allocated_bytes == 5);
}

// Catches: a free told by the sign of its bytes, so that freeing a block of no bytes counts as an allocation.
TEST_CASE("a free is told by its allocation, not by its size", "[event_tree]") {
  test::event_builder b("t1: a[0..10]");
  memory_event m;
  m.event = 0;
  b.builder.add_memory(m);
  m.allocation = 0;
  b.builder.add_memory(m);
  const event_tree tree(b.builder.finish());
  CHECK(tree.self_memory(0).allocations == 1);
  CHECK(tree.self_memory(0).frees == 1);
}

// Catches: sums of bytes that overflow and change their sign.
TEST_CASE("sums of bytes end at the largest number", "[event_tree]") {
  test::event_builder b("t1: outer[0..10]{ inner[2..6] }");
  for (const std::int64_t bytes : {INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN})
    for (const std::uint32_t event : {0u, 1u}) {
      memory_event m;
      m.event = event;
      m.bytes = bytes;
      b.builder.add_memory(m);
    }
  b.builder.add_unmatched_free({0, UINT32_MAX});
  b.builder.add_unmatched_free({0, UINT32_MAX});
  const event_tree tree(b.builder.finish());
  CHECK(tree.total_memory(0).allocated_bytes == INT64_MAX);
  CHECK(tree.total_memory(0).freed_bytes == INT64_MAX);
  CHECK(tree.total_memory(0).net_bytes() == 0);
  CHECK(tree.total_memory(0).allocations == 4);
  CHECK(tree.total_memory(0).unmatched_frees == 2 * std::int64_t{UINT32_MAX});
}

// Catches: pauses of a file that overflow, or that take more from a scope than lies in it.
TEST_CASE("pauses of any length take from a scope what lies in it", "[event_tree]") {
  test::event_builder b("t1: a[0..10]{ b[4..6] }");
  b.builder.add_pause({INT64_MIN, -5});
  b.builder.add_pause({8, INT64_MAX});
  b.builder.add_pause({9, INT64_MAX});
  b.builder.add_pause({-3, 5});
  b.builder.add_pause({7, INT64_MIN});  // turned round: none
  const event_tree tree(b.builder.finish());
  CHECK(tree.self_ns(0) == 2);  // of 0..4 and 6..10, the part 6..8
  CHECK(tree.self_ns(1) == 1);  // 5..6
}

// Catches: recursion over the depth of the tree, which ends in a stack overflow.
TEST_CASE("a chain of 100000 nested scopes is no problem", "[event_tree]") {
  constexpr std::uint32_t depth = 100000;
  trace_builder b;
  b.add_process({});
  b.add_track({});
  for (std::uint32_t i = 0; i < depth; ++i) {
    trace_event e;
    e.name = b.intern("f");
    e.parent = i == 0 ? npos : i - 1;
    e.begin_ns = i;
    e.end_ns = 3 * std::int64_t{depth} - 2 * std::int64_t{i};
    b.add_event(e);
  }
  const event_tree tree(b.finish());
  CHECK(tree.self_ns(0) == 3);  // 1 before and 2 after its child
  CHECK(tree.self_ns(depth - 1) == 3 * std::int64_t{depth} - 3 * std::int64_t{depth - 1});
  CHECK(tree.depth(depth - 1) == depth - 1);
  CHECK(tree.top_level(depth - 1) == 0);
  CHECK(tree.enclosing(depth - 1).size() == depth - 1);
}

}  // namespace event_tree_test
