// Catches: curves that leave out a peak, do not add up, or grow with the recording.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

#include <stepprof/analysis/memory_timeline.hpp>

namespace memory_timeline_test {

using namespace stepprof;

namespace {

// Memory events at the times that are given, in ns.
class memory_log {
 public:
  explicit memory_log(const std::string& events = "t1: a[0..100] b[200..300]") : built(events) {
    built.builder.info().has_memory = true;
    built.builder.info().begin_ns = 1000;
    built.builder.info().end_ns = 2000;
  }
  std::uint32_t alloc(std::int64_t time_ns, std::int64_t bytes, std::uint32_t event = npos,
                      const std::string& pool = "", std::uint8_t flags = 0) {
    memory_event m;
    m.time_ns = 1000 + time_ns;
    m.bytes = bytes;
    m.event = event;
    m.pool = pool.empty() ? npos : built.builder.intern(pool);
    m.flags = flags;
    return add(m);
  }
  void free(std::int64_t time_ns, std::uint32_t allocation) {
    memory_event m = all[allocation];
    m.time_ns = 1000 + time_ns;
    m.bytes = -m.bytes;
    m.event = npos;
    m.allocation = allocation;
    add(m);
  }
  trace finish() { return built.builder.finish(); }

  test::event_builder built;
  std::vector<memory_event> all;
  std::int64_t live = 0;

 private:
  std::uint32_t add(memory_event m) {
    if (!m.has(memory_event::nested)) live += m.bytes;
    m.total_allocated = live;
    all.push_back(m);
    return built.builder.add_memory(m);
  }
};

using numbers = std::vector<std::int64_t>;

// The highest sum and the highest value of each series in what is shown are those that were recorded.
void check_peaks(const memory_timeline& line) {
  std::int64_t most = 0;
  std::vector<std::int64_t> of_series(line.series.size());
  for (std::size_t i = 0; i < line.times_ns.size(); ++i) {
    std::int64_t sum = 0;
    for (std::size_t s = 0; s < line.series.size(); ++s) {
      if (!line.series[s].is_nested) sum += line.series[s].bytes[i];
      of_series[s] = (std::max)(of_series[s], line.series[s].bytes[i]);
    }
    REQUIRE(sum == line.total_bytes[i]);
    if (i != 0) REQUIRE(line.times_ns[i - 1] <= line.times_ns[i]);
    most = (std::max)(most, sum);
  }
  CHECK(most == line.peak_bytes);
  for (std::size_t s = 0; s < line.series.size(); ++s) CHECK(of_series[s] == line.series[s].peak_bytes);
}

}  // namespace

// Catches: a free that leaves another curve than its allocation's, times from another origin, a series for each name of
// a pool in another order than that of their peaks.
TEST_CASE("a timeline shows the live bytes of each pool", "[memory_timeline]") {
  memory_log log;
  const std::uint32_t heap = log.alloc(10, 100);
  const std::uint32_t frames = log.alloc(20, 300, npos, "frames");
  log.alloc(30, 50);
  log.free(40, heap);
  log.free(60, frames);
  const memory_timeline line = memory_over_time(log.finish());
  CHECK(line.times_ns == numbers{0, 10, 20, 30, 40, 60, 1000});
  CHECK(line.total_bytes == numbers{0, 100, 400, 450, 350, 50, 50});
  REQUIRE(line.series.size() == 2);
  CHECK(line.series[0].name == "frames");
  CHECK(line.series[0].bytes == numbers{0, 0, 300, 300, 300, 0, 0});
  CHECK(line.series[1].name == "(default pool)");
  CHECK(line.series[1].bytes == numbers{0, 100, 100, 150, 50, 50, 50});
  CHECK(line.series[1].peak_bytes == 150);
  CHECK(line.series[1].peak_time_ns == 30);
  CHECK(line.peak_bytes == 450);
  CHECK(line.peak_time_ns == 30);
  CHECK(line.last_bytes() == 50);
  CHECK(line.event_count == 5);
  CHECK_FALSE(line.is_thinned);
  check_peaks(line);
}

// Catches: memory that changes its key when another scope frees it, memory outside scopes that is left out.
TEST_CASE("a timeline by key follows memory from the scope that allocated it", "[memory_timeline]") {
  memory_log log;
  const std::uint32_t in_a = log.alloc(10, 100, 0);
  log.alloc(20, 30, 1);
  log.alloc(25, 5);
  log.free(30, in_a);
  memory_timeline_options options;
  options.group_by = memory_group::key;
  const memory_timeline line = memory_over_time(log.finish(), options);
  REQUIRE(line.series.size() == 3);
  CHECK(line.series[0].name == "a");
  CHECK(line.series[0].bytes == numbers{0, 100, 100, 100, 0, 0});
  CHECK(line.series[1].name == "b");
  CHECK(line.series[2].name == "(outside scopes)");
  CHECK(line.last_bytes() == 35);
  check_peaks(line);
}

// Catches: bytes of an arena stacked on top of the block that they lie in; memory of another device.
TEST_CASE("nested blocks are curves of their own and no part of the sum", "[memory_timeline]") {
  memory_log log;
  log.alloc(10, 100);
  log.alloc(20, 60, npos, "arena", memory_event::nested);
  log.alloc(30, 7, npos, "arena");
  const trace t = log.finish();
  const memory_timeline line = memory_over_time(t);
  REQUIRE(line.series.size() == 3);
  CHECK(line.series[0].name == "(default pool)");
  CHECK(line.series[1].name == "arena");
  CHECK_FALSE(line.series[1].is_nested);
  CHECK(line.series[2].name == "arena");
  CHECK(line.series[2].is_nested);
  CHECK(line.series[2].peak_bytes == 60);
  CHECK(line.peak_bytes == 107);
  check_peaks(line);
  memory_timeline_options other;
  other.device = {1, 0};
  CHECK(memory_over_time(t, other).times_ns.empty());
}

// Catches: a file that grows with the recording, peaks that fall between the points, a last point that is left out.
TEST_CASE("a million events are a few thousand points, with every peak", "[memory_timeline]") {
  memory_log log;
  const auto name = [](int i) { return "pool " + std::to_string(i % 5); };
  std::uint32_t random = 7;
  std::vector<std::uint32_t> live;
  for (int i = 0; i < 1000000; ++i) {
    random = random * 1664525u + 1013904223u;
    const bool spike = i == 333333;  // live for one event
    if (live.size() < 100 || (random >> 31) != 0 || spike) {
      live.push_back(log.alloc(i, spike ? 1 << 20 : 1 + (random >> 20) % 100, npos, spike ? "pool 3" : name(i)));
      if (!spike) continue;
    }
    const std::size_t at = spike ? live.size() - 1 : (random >> 8) % live.size();
    log.free(i, live[at]);
    live[at] = live.back();
    live.pop_back();
  }
  const std::int64_t left = log.live;
  const trace t = log.finish();
  memory_timeline_options options;
  options.max_points = 1000;
  const memory_timeline line = memory_over_time(t, options);
  CHECK(line.is_thinned);
  CHECK(line.event_count >= 1000000);
  CHECK(line.times_ns.size() <= 1002);
  CHECK(line.times_ns.size() > 500);
  CHECK(line.last_bytes() == left);
  CHECK(line.peak_time_ns == 333333);
  check_peaks(line);
}

// Catches: a legend of a thousand lines, a rest that is lost, one series called "other".
TEST_CASE("what is left of many series is one series", "[memory_timeline]") {
  memory_log log;
  for (int i = 0; i < 30; ++i) log.alloc(i, 1000 - i, npos, "p" + std::to_string(i));
  const trace t = log.finish();
  memory_timeline_options options;
  options.max_series = 3;
  const memory_timeline few = memory_over_time(t, options);
  REQUIRE(few.series.size() == 4);
  CHECK(few.series[2].name == "p2");
  CHECK(few.series[3].name == "(other)");
  CHECK(few.last_bytes() == 30 * 1000 - 435);
  check_peaks(few);
  options.max_series = 29;
  CHECK(memory_over_time(t, options).series.back().name == "p29");
}

// Catches: live bytes of one cycle that are carried into the next one's when cycles are put together.
TEST_CASE("a merged recording begins anew", "[memory_timeline]") {
  memory_log log;
  log.alloc(10, 100);
  log.live = 0;  // the next cycle
  log.alloc(500, 7);
  const memory_timeline line = memory_over_time(log.finish());
  CHECK(line.total_bytes == numbers{0, 100, 7, 7});
  check_peaks(line);
}

}  // namespace memory_timeline_test
