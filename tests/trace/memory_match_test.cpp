// Catches: reports that are paired with the wrong block, so that live bytes are wrong from there on.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <support/catch.hpp>

#include <stepprof/analysis/memory_use.hpp>
#include <stepprof/trace/memory_match.hpp>

namespace memory_match_test {

using namespace stepprof;
using detail::report_kind;

namespace {

// Reports of several threads, each of which has one scope, "t1", "t2", ...: track and event of thread k are k - 1.
// Ticks are ns.
class log_of_threads {
 public:
  explicit log_of_threads(std::uint32_t threads) : threads_(threads) {}

  void alloc(std::uint32_t thread, std::uint64_t ticks, std::uint64_t address, std::uint64_t bytes,
             const std::string& pool = "") {
    add(thread, ticks, address, bytes, report_kind::alloc, pool);
  }
  void free(std::uint32_t thread, std::uint64_t ticks, std::uint64_t address, const std::string& pool = "") {
    add(thread, ticks, address, 0, report_kind::free, pool);
  }
  void free_range(std::uint32_t thread, std::uint64_t ticks, std::uint64_t first, std::uint64_t bytes,
                  const std::string& pool = "") {
    add(thread, ticks, first, bytes, report_kind::free_range, pool);
  }
  void add(std::uint32_t thread, std::uint64_t ticks, std::uint64_t address, std::uint64_t bytes, report_kind kind,
           const std::string& pool = "", memory_device device = {}) {
    threads_[thread - 1].push_back({{ticks, address, bytes, 0, 0, device, kind}, pool});
  }

  trace finish() {
    trace_builder builder;
    builder.add_process({});
    detail::memory_reports reports;
    for (std::uint32_t t = 0; t < threads_.size(); ++t) {
      trace_track track;
      track.id = t + 1;
      builder.add_track(track);
      trace_event e;
      e.name = builder.intern("t" + std::to_string(t + 1));
      e.end_ns = 1000000000;
      builder.add_event(e);
      reports.begin_thread(t);
      for (const auto& [report, pool] : threads_[t]) reports.add(report, t, pool.empty() ? npos : builder.intern(pool));
    }
    detail::match_memory(builder, reports, detail::tick_converter(0, 1.0));
    return builder.finish();
  }

 private:
  std::vector<std::vector<std::pair<detail::thread_record::memory_report, std::string>>> threads_;
};

// "t1+64=64 t2-64!=0": who allocated and freed what, and how much was live then. ! lost, ~ late, ' nested.
std::string shown(const trace& t) {
  std::string text;
  for (const memory_event& m : t.memory())
    text += (text.empty() ? "t" : " t") + std::to_string(m.track + 1) + (m.is_free() ? "-" : "+") +
            std::to_string(m.is_free() ? -m.bytes : m.bytes) + (m.has(memory_event::lost) ? "!" : "") +
            (m.has(memory_event::late) ? "~" : "") + (m.has(memory_event::nested) ? "'" : "") + "=" +
            std::to_string(m.total_allocated);
  return text;
}

// Whatever was reported: rows and live bytes come to the same, no running total is negative, and a free takes away what
// its allocation gave.
void check_sums(const trace& t) {
  const memory_use use(t);
  std::int64_t net = use.outside().net_bytes(), live = 0;
  for (std::uint32_t i = 0; i < t.events().size(); ++i) net += use.self(i).net_bytes();
  for (const memory_event& m : t.memory()) {
    if (!m.has(memory_event::nested)) live += m.bytes;
    REQUIRE(m.total_allocated == live);
    REQUIRE(live >= 0);
    if (m.is_free()) {
      REQUIRE(m.allocation != npos);
      REQUIRE(t.memory()[m.allocation].bytes == -m.bytes);
      REQUIRE(t.memory()[m.allocation].address == m.address);
      REQUIRE(t.memory()[m.allocation].pool == m.pool);
    }
  }
  CHECK(net == live);
}

}  // namespace

// Catches: an address that is allocated twice ends the profile, or stays live for ever. FC-32: wolfpld/tracy#739, #917
TEST_CASE("an allocation at a live address takes the block that was there back", "[memory_match]") {
  log_of_threads log(1);
  log.alloc(1, 1, 0x10, 64);
  log.alloc(1, 2, 0x10, 48);
  log.free(1, 3, 0x10);
  log.free(1, 4, 0x20);
  log.alloc(1, 5, 0x10, 8);
  const trace t = log.finish();
  CHECK(shown(t) == "t1+64=64 t1-64!=0 t1+48=48 t1-48=0 t1+8=8");
  CHECK(t.losses().lost_frees == 1);
  CHECK(t.losses().unmatched_frees == 1);
  check_sums(t);
}

// Catches: an arena that stays full when it is emptied at once, or that takes its neighbours with it. FC-32:
// wolfpld/tracy#739, #917
TEST_CASE("a range frees the blocks of its pool that lie in it", "[memory_match]") {
  log_of_threads log(2);
  for (std::uint64_t i = 0; i < 1000; ++i) log.alloc(1, 1 + i, 0x1000 + 16 * i, 16, "arena");
  log.alloc(1, 1001, 0x1000, 8);                   // of another pool
  log.alloc(1, 1002, 0x0ff0, 1, "arena");          // before
  log.alloc(1, 1003, 0x1000 + 16000, 2, "arena");  // behind
  log.free(2, 1004, 0x1010, "arena");
  log.free_range(2, 1005, 0x1000, 16000, "arena");
  log.free_range(2, 1006, 0x1000, 16000, "arena");  // nothing left: not an error
  log.free(2, 1007, 0x1010, "arena");
  log.alloc(1, 1008, 0x1010, 4, "arena");
  const trace t = log.finish();
  check_sums(t);
  CHECK(t.memory().size() == 1003 + 1000 + 1);
  CHECK(t.memory().back().total_allocated == 8 + 1 + 2 + 4);
  CHECK(memory_use(t).self(1).freed_bytes == 16000);
  CHECK(memory_use(t).self(1).frees == 1000);
  CHECK(t.losses().unmatched_frees == 1);
  CHECK(t.losses().lost_frees == 0);
}

// Catches: the block of an address's new owner freed by the free of the old one, which was reported too late; numbers
// that stay wrong once both are freed.
TEST_CASE("a free that is reported after its address was given away frees the old block", "[memory_match]") {
  log_of_threads log(3);
  SECTION("and the new one is freed later") {
    log.alloc(1, 1, 0x10, 64);
    log.alloc(2, 2, 0x10, 48);
    log.free(1, 3, 0x10);
    log.free(2, 4, 0x10);
    CHECK(shown(log.finish()) == "t1+64=64 t2+48=112 t1-64~=48 t2-48=0");
  }
  SECTION("whoever frees the new one") {
    log.alloc(1, 1, 0x10, 64);
    log.alloc(2, 2, 0x10, 48);
    log.free(3, 3, 0x10);
    log.free(3, 4, 0x10);
    CHECK(shown(log.finish()) == "t1+64=64 t2+48=112 t3-64~=48 t3-48=0");
  }
  SECTION("and the new one stays") {
    log.alloc(1, 1, 0x10, 64);
    log.alloc(2, 2, 0x10, 48);
    log.free(1, 3, 0x10);
    CHECK(shown(log.finish()) == "t1+64=64 t2+48=112 t1-64~=48");
  }
  SECTION("over and over") {
    for (std::uint64_t i = 0; i < 100; ++i) {
      log.alloc(1, 10 * i + 1, 0x10, 64);
      log.alloc(2, 10 * i + 2, 0x10, 48);
      log.free(1, 10 * i + 3, 0x10);
      log.free(2, 10 * i + 4, 0x10);
    }
    CHECK(log.finish().memory().back().total_allocated == 0);
  }
  const trace t = log.finish();
  check_sums(t);
  CHECK(t.losses().late_frees == (t.memory().size() == 400 ? 100 : 1));
  CHECK(t.losses().lost_frees + t.losses().unmatched_frees == 0);
}

// Catches: a block freed twice that takes the next block at its address, or bytes, with it.
TEST_CASE("a block that is freed twice is freed once", "[memory_match]") {
  log_of_threads log(2);
  log.alloc(1, 1, 0x10, 64);
  log.free(1, 2, 0x10);
  log.free(2, 3, 0x10);
  log.alloc(1, 4, 0x10, 32);
  log.alloc(1, 5, 0x20, 16);
  log.free(1, 6, 0x10);
  const trace t = log.finish();
  CHECK(shown(t) == "t1+64=64 t1-64=0 t1+32=32 t1+16=48 t1-32=16");
  CHECK(t.losses().unmatched_frees == 1);
  REQUIRE(t.unmatched_frees().size() == 1);
  CHECK(t.unmatched_frees()[0].event == 1);
  check_sums(t);
}

// Catches: bytes of an arena counted once more with the block that it lies in, or not at all when it lies in none.
TEST_CASE("what lies in a block of another pool is counted once", "[memory_match]") {
  log_of_threads log(1);
  log.alloc(1, 1, 0x1000, 256);
  log.alloc(1, 2, 0x1000, 64, "arena");  // the same address
  log.alloc(1, 3, 0x10f0, 16, "arena");  // up to the very end
  log.alloc(1, 4, 0x10f1, 16, "arena");  // one byte too far
  log.alloc(1, 5, 0x1010, 8, "inner");   // in the arena and in the heap
  log.free(1, 6, 0x10f0, "arena");
  log.free(1, 7, 0x1000);               // the memory around it goes first
  log.alloc(1, 8, 0x1020, 4, "inner");  // still in a block of the arena
  log.free(1, 9, 0x1000, "arena");
  log.alloc(1, 10, 0x1020, 2, "other");  // in "inner", but longer than what is left of it: not in it
  log.alloc(1, 11, 0x1023, 2, "other");
  const trace t = log.finish();
  CHECK(shown(t) ==
        "t1+256=256 t1+64'=256 t1+16'=256 t1+16=272 t1+8'=272 t1-16'=272 t1-256=16 t1+4'=16 t1-64'=16 t1+2'=16 "
        "t1+2=18");
  check_sums(t);
  memory_use_options only;
  only.pool = "arena";
  CHECK(memory_use(t, only).self(0).allocated_bytes == 96);
  CHECK(memory_use(t, only).self(0).net_bytes() == 16);
  only.pool = "";
  CHECK(memory_use(t, only).self(0).allocated_bytes == 256);
  only.pool = "unheard of";
  CHECK(memory_use(t, only).self(0).allocations == 0);
}

// Catches: live bytes of a device added to those of the CPU, addresses of one taken for the other's.
TEST_CASE("each device has its own live bytes and its own addresses", "[memory_match]") {
  log_of_threads log(1);
  log.alloc(1, 1, 0x1000, 256);
  log.add(1, 2, 0x1010, 8, report_kind::alloc, "cuda:0", {1, 0});
  log.add(1, 3, 0x1010, 4, report_kind::alloc, "cuda:1", {1, 1});
  log.add(1, 4, 0x1010, 0, report_kind::free, "cuda:0", {1, 0});
  log.free(1, 5, 0x1000);
  const trace t = log.finish();
  CHECK(shown(t) == "t1+256=256 t1+8=8 t1+4=4 t1-8=0 t1-256=0");
  CHECK(t.memory()[2].device_type == 1);
  CHECK(t.memory()[2].device_id == 1);
  CHECK(memory_use(t).self(0).allocated_bytes == 256);
}

// Catches: blocks of the profiler in the program's numbers, their frees among those that nobody knows, a block of the
// program that the profiler frees left live.
TEST_CASE("what the profiler allocates is left out, wherever it is freed", "[memory_match]") {
  log_of_threads log(2);
  log.alloc(1, 1, 0x10, 64);
  log.add(1, 2, 0x20, 32, report_kind::own_alloc);
  log.add(1, 3, 0x30, 16, report_kind::own_alloc);
  log.add(1, 4, 0x20, 0, report_kind::own_free);
  log.free(2, 5, 0x30);                            // a result that the program drops
  log.add(1, 6, 0x10, 0, report_kind::own_free);   // an option that the program handed over
  log.add(1, 7, 0x40, 0, report_kind::own_free);   // older than the window
  log.add(1, 8, 0x50, 8, report_kind::own_alloc);  // its free is not heard
  log.alloc(1, 9, 0x50, 4);
  const trace t = log.finish();
  CHECK(shown(t) == "t1+64=64 t1-64=0 t1+4=4");
  CHECK(t.losses().unmatched_frees + t.losses().lost_frees == 0);
  check_sums(t);
}

// Catches: reports of one moment in the order of the threads instead of that of cause and effect.
TEST_CASE("in one moment a block is allocated before it is freed", "[memory_match]") {
  log_of_threads log(2);
  log.free(1, 5, 0x10);
  log.alloc(2, 5, 0x10, 64);
  log.free(1, 6, 0x20);
  log.alloc(1, 6, 0x20, 8);
  const trace t = log.finish();
  CHECK(shown(t) == "t2+64=64 t1-64=0 t1+8=8");
  CHECK(t.losses().unmatched_frees == 1);
  check_sums(t);
}

// Catches: any mixture of double, late and missing reports after which sums do not agree, or a block that stays live
// although what its program then does is right.
TEST_CASE("random reports leave sums that agree", "[memory_match]") {
  std::mt19937 engine(11);
  const auto random = [&engine](std::uint32_t below) { return engine() % below; };
  for (int round = 0; round < 300; ++round) {
    log_of_threads log(3);
    for (std::uint64_t ticks = 1; ticks < 60; ++ticks) {
      const std::uint64_t address = 0x1000 + 16 * random(4);
      const bool in_arena = random(3) == 0;
      const std::uint32_t thread = 1 + static_cast<std::uint32_t>(random(3));
      const std::uint32_t what = static_cast<std::uint32_t>(random(9));
      if (what < 5)
        log.alloc(thread, ticks, address, 1 + random(40), in_arena ? "arena" : "");
      else if (what < 8)
        log.free(thread, ticks, address, in_arena ? "arena" : "");
      else
        log.free_range(thread, ticks, 0x1000, 64, in_arena ? "arena" : "");
    }
    // What a program does that is right again: from here on everything is exact.
    log.free_range(1, 100, 0x1000, 64);
    log.free_range(1, 100, 0x1000, 64, "arena");
    for (std::uint64_t i = 0; i < 4; ++i) log.alloc(1, 101 + i, 0x1000 + 16 * i, 10);
    const trace t = log.finish();
    INFO("round " << round);
    check_sums(t);
    CHECK(t.memory().back().total_allocated == 40);
  }
}

}  // namespace memory_match_test
