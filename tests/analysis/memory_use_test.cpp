// Catches: bytes in the wrong scope, under either booking, and peaks of other threads or other scopes.
#include <cstdint>
#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/analysis/memory_use.hpp>
#include <stepprof/output/table.hpp>

namespace memory_use_test {

using namespace stepprof;

namespace {

constexpr std::int64_t mib = 1 << 20;

// A trace in the notation of event_builder with memory events, in order of time, each of the thread of its scope.
class memory_builder {
 public:
  explicit memory_builder(const std::string& text) : built_(text) { built_.builder.info().has_memory = true; }

  // In the scope of a name, "" outside on the first track; returns the allocation's index.
  std::uint32_t alloc(const std::string& scope, std::int64_t bytes, const std::string& pool = "") {
    memory_event m = event_in(scope);
    m.bytes = bytes;
    if (!pool.empty()) m.pool = built_.builder.intern(pool);
    bytes_.push_back(bytes);
    pools_.push_back(m.pool);
    return add(m);
  }
  void free(const std::string& scope, std::uint32_t allocation) {
    memory_event m = event_in(scope);
    m.bytes = -bytes_[allocation];
    m.pool = pools_[allocation];
    m.allocation = allocation;
    bytes_.push_back(0);
    pools_.push_back(npos);
    add(m);
  }
  trace finish() { return built_.builder.finish(); }

 private:
  memory_event event_in(const std::string& scope) {
    memory_event m;
    m.time_ns = now_++;
    if (scope.empty()) return m;
    const trace_builder& b = built_.builder;
    m.event = 0;
    while (b.text(b.event(m.event).name) != scope) ++m.event;
    m.track = b.event(m.event).track;
    return m;
  }
  std::uint32_t add(memory_event m) {
    m.total_allocated = live_ += m.bytes;
    return built_.builder.add_memory(m);
  }

  test::event_builder built_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::uint32_t> pools_;
  std::int64_t now_ = 0, live_ = 0;
};

event_averages rows(const trace& t, free_booking booking) {
  key_averages_options options;
  options.memory.booking = booking;
  return key_averages(t, options);
}
std::int64_t net_of_all(const event_averages& averages) {
  std::int64_t sum = 0;
  for (const event_average& row : averages.rows) sum += row.self_memory.net_bytes();
  return sum;
}

}  // namespace

// Catches: negative memory that nobody can interpret, self above total, a free that leaves the scope that made it, or
// the one that allocated, though the other was asked for. FC-31: pytorch/pytorch#70028, awwong1/torchprof PR16
TEST_CASE("a free is booked where it was made, or where its block was allocated", "[memory_use]") {
  memory_builder b("t1: A[0..10] P[20..90]{ C[30..40] }; t2: B[12..50]");
  const std::uint32_t of_a = b.alloc("A", mib);
  b.free("B", of_a);
  const std::uint32_t of_p = b.alloc("P", 100);
  b.alloc("P", 11);
  b.free("C", of_p);
  const std::uint32_t outside = b.alloc("", 7);
  b.free("C", outside);
  const trace t = b.finish();

  const event_averages freeing = rows(t, free_booking::freeing_scope);
  CHECK(freeing.at("A").self_memory.allocated_bytes == mib);
  CHECK(freeing.at("A").self_memory.net_bytes() == mib);
  CHECK(freeing.at("B").self_memory.freed_bytes == mib);
  CHECK(freeing.at("B").self_memory.net_bytes() == -mib);
  CHECK(freeing.at("P").self_memory.net_bytes() == 111);
  CHECK(freeing.at("C").self_memory.net_bytes() == -107);
  CHECK(freeing.at("P").total_memory.net_bytes() == 4);
  CHECK(freeing.at("[memory]").self_memory.net_bytes() == 7);
  CHECK(net_of_all(freeing) == 11);

  const event_averages allocating = rows(t, free_booking::allocating_scope);
  CHECK(allocating.at("A").self_memory.net_bytes() == 0);
  CHECK(allocating.at("A").self_memory.frees == 1);
  CHECK(allocating.at("B").self_memory.frees == 0);
  CHECK(allocating.at("P").self_memory.net_bytes() == 11);
  CHECK(allocating.at("C").self_memory.frees == 0);
  CHECK(allocating.at("P").total_memory.net_bytes() == 11);
  CHECK(allocating.at("[memory]").self_memory.net_bytes() == 0);
  CHECK(net_of_all(allocating) == 11);
  CHECK(t.memory().back().total_allocated == 11);
}

// Catches: a peak that counts what was live before the scope, another thread's bytes, a child's peak on top of bytes
// that were free by then, or the sum of several instances.
TEST_CASE("the peak is what a scope's own thread held since it began", "[memory_use]") {
  memory_builder b("t1: A[0..50]{ C[10..20] D[30..40] } E[60..70] F[80..90]; t2: B[0..50]");
  const std::uint32_t before = b.alloc("", 1000);
  const std::uint32_t in_a = b.alloc("A", 10);
  b.alloc("B", 5000);
  const std::uint32_t in_c = b.alloc("C", 100);
  b.free("C", in_c);
  b.free("A", in_a);
  const std::uint32_t in_d = b.alloc("D", 60);
  b.free("D", before);
  b.alloc("D", 30);
  b.free("A", in_d);
  b.free("E", b.alloc("E", 3));
  b.free("E", b.alloc("E", 4));
  const event_averages all = key_averages(b.finish());
  CHECK(all.at("A").peak_bytes == 110);  // 10 + 100; later 60 of 60, and 30 - 940
  CHECK(all.at("C").peak_bytes == 100);
  CHECK(all.at("D").peak_bytes == 60);
  CHECK(all.at("B").peak_bytes == 5000);
  CHECK(all.at("E").peak_bytes == 4);
  CHECK(all.at("F").peak_bytes == 0);
  CHECK(all.total_average().peak_bytes == 5000);
  table_options options;
  options.columns = {"peak_bytes"};
  options.sort_by = "peak_bytes";
  CHECK(all.table(options).find("Peak Mem") != std::string::npos);
}

// Catches: peaks of the instances of a row added up, or only the last one's; recursion that counts twice.
TEST_CASE("the peak of a row is that of its worst instance", "[memory_use]") {
  memory_builder b("t1: f[0..50]{ g[10..20]{ f[12..18] } }; t2: h[0..9]{ f[1..8] }");
  b.alloc("f", 10);
  b.alloc("g", 20);
  b.alloc("h", 500);
  const trace t = b.finish();
  CHECK(key_averages(t).at("f").peak_bytes == 30);
  const event_averages each = event_rows(t);
  std::vector<std::int64_t> peaks;
  for (const event_average& row : each.rows)
    if (row.name == "f") peaks.push_back(row.peak_bytes);
  CHECK(peaks == std::vector<std::int64_t>{30, 0, 0});
}

// Catches: a pool's bytes in another pool's columns, frees of which the pool is not known among them.
TEST_CASE("memory columns can be those of one pool", "[memory_use]") {
  memory_builder b("t1: A[0..50]{ C[10..20] }");
  const std::uint32_t heap = b.alloc("A", 10);
  const std::uint32_t frames = b.alloc("C", 100, "frames");
  b.alloc("C", 200, "weights");
  b.free("A", heap);
  b.free("A", frames);
  const trace t = b.finish();
  const auto of = [&t](const std::string& pool) {
    key_averages_options options;
    options.memory.pool = pool;
    return key_averages(t, options);
  };
  CHECK(key_averages(t).at("C").self_memory.allocated_bytes == 300);
  CHECK(key_averages(t).at("A").total_memory.net_bytes() == 200);
  CHECK(of("frames").at("C").self_memory.allocated_bytes == 100);
  CHECK(of("frames").at("A").total_memory.net_bytes() == 0);
  CHECK(of("frames").at("A").peak_bytes == 100);
  CHECK(of("weights").at("A").total_memory.net_bytes() == 200);
  CHECK(of("").at("A").total_memory.allocated_bytes == 10);
  CHECK(of("").at("C").self_memory.allocations == 0);
  CHECK(of("nowhere").at("A").total_memory.allocations == 0);
}

// Catches: frees of older blocks that were made outside every scope and are then in no row at all.
TEST_CASE("unmatched frees outside every scope are in the row of memory outside", "[memory_use]") {
  test::event_builder built("t1: A[0..50]");
  built.builder.add_unmatched_free({0, 2});
  built.builder.add_unmatched_free({npos, 3});
  memory_event m;
  m.bytes = 8;
  built.builder.add_memory(m);
  const event_averages all = key_averages(built.builder.finish());
  CHECK(all.at("A").self_memory.unmatched_frees == 2);
  CHECK(all.at("[memory]").self_memory.unmatched_frees == 3);
  CHECK(all.at("[memory]").calls == 1);
}

}  // namespace memory_use_test
