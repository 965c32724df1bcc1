// Catches: bytes booked to the wrong scope or window, frees of older blocks that falsify sums or are shouted about.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <thread>

#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

namespace profile_memory_test {

using test::fake_clock;

namespace {

// Addresses stand for blocks; nothing is allocated.
const void* block(int i) {
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(0x1000 + 16 * i));
}

void alloc(int i, std::size_t bytes) {
  fake_clock::advance(1);
  stepprof::report_alloc(block(i), bytes);
}
void free(int i) {
  fake_clock::advance(1);
  stepprof::report_free(block(i));
}

// "name+100-40?2": what was allocated and freed in the scopes of a name, and how many frees had no allocation.
std::string booked(const stepprof::trace& t) {
  std::string text;
  const auto add = [&](const std::string& name, const stepprof::memory_sums& sums) {
    if (sums.allocations + sums.frees + sums.unmatched_frees == 0) return;
    text += (text.empty() ? "" : " ") + name;
    if (sums.allocations != 0) text += "+" + std::to_string(sums.allocated_bytes);
    if (sums.frees != 0) text += "-" + std::to_string(sums.freed_bytes);
    if (sums.unmatched_frees != 0) text += "?" + std::to_string(sums.unmatched_frees);
  };
  const stepprof::event_tree tree(t);
  for (std::uint32_t i = 0; i < t.events().size(); ++i) add(std::string(t.name(t.events()[i])), tree.self_memory(i));
  add("outside", tree.memory_outside());
  return text;
}

}  // namespace

// Catches: a profiler that warns for ever about frees of older blocks, ends the session, or books bytes for them.
// FC-30: pytorch/pytorch#107955, wolfpld/tracy#572, wolfpld/tracy#1019
TEST_CASE("frees of blocks older than the window are counted with their scope", "[memory]") {
  const test::heard heard;
  for (int i = 0; i < 100; ++i) alloc(i, 64);
  stepprof::profile prof(test::with_memory());
  {
    stepprof::record_function scope("F");
    for (int i = 0; i < 100; ++i) free(i);
  }
  {
    stepprof::record_function scope("G");
    for (int i = 0; i < 10; ++i) alloc(i, 100);
    for (int i = 0; i < 4; ++i) free(i);
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.losses().unmatched_frees == 100);
  CHECK(booked(t) == "F?100 G+1000-400");
  REQUIRE(t.unmatched_frees().size() == 1);
  CHECK(t.name(t.events()[t.unmatched_frees()[0].event]) == "F");
  CHECK(t.memory().size() == 14);
  CHECK(t.memory().back().total_allocated == 600);
  CHECK(prof.key_averages().at("F").self_memory.net_bytes() == 0);
  CHECK(prof.key_averages().at("G").self_memory.net_bytes() == 600);
  CHECK(heard.codes() == "");
  test::check_rules(t);
}

// Catches: an allocation that is remembered from one window to the next, or from a warm-up, a wait or a pause.
TEST_CASE("a free counts only when its allocation is in the same window", "[memory]") {
  const test::heard heard;
  std::vector<stepprof::trace> cycles;
  stepprof::profile_options options = test::with_memory();
  options.schedule = stepprof::schedule{1, 1, 1, 0};
  options.on_trace_ready = [&](const stepprof::trace& t) { cycles.push_back(t); };
  stepprof::profile prof(options);
  alloc(0, 1);  // wait
  prof.step();
  alloc(1, 2);  // warm-up
  alloc(2, 4);
  free(2);
  prof.step();
  {
    stepprof::record_function scope("s");
    free(0);
    free(1);
    free(2);
    alloc(3, 8);
    alloc(4, 16);
    free(3);
    prof.pause();
    alloc(5, 32);
    free(4);  // not heard
    prof.resume();
    free(5);
    alloc(4, 64);  // at an address that seems to be live
    CHECK(booked(prof.snapshot()) == "s+88-24?4");
  }
  prof.step();
  prof.step();
  prof.step();
  {
    stepprof::record_function scope("s");
    free(4);
    alloc(3, 128);
  }
  prof.step();
  prof.stop();
  REQUIRE(cycles.size() == 2);
  CHECK(booked(cycles[0]) == "s+88-24?4");  // the block of 16 whose free was not heard was taken back
  CHECK(cycles[0].losses().lost_frees == 1);
  CHECK(cycles[0].memory().back().total_allocated == 64);
  CHECK(booked(cycles[1]) == "s+128?1");
  CHECK(cycles[1].losses().lost_frees == 0);
  CHECK(cycles[1].memory().back().total_allocated == 128);
  for (const stepprof::trace& t : cycles) test::check_rules(t);
}

// Catches: memory booked to the last scope of the process, or matched by thread, or in the order of threads instead of
// time.
TEST_CASE("memory goes to the scope open on its thread, and is matched over threads in order of time", "[memory]") {
  stepprof::profile prof(test::with_memory());
  alloc(0, 1);
  {
    stepprof::record_function outer("outer");
    alloc(1, 2);
    {
      stepprof::record_function inner("inner");
      alloc(2, 4);
      std::thread([] {
        free(2);
        stepprof::record_function scope("other");
        free(1);
        alloc(1, 8);  // the same address again
        alloc(3, 16);
      }).join();
      free(1);
    }
    free(3);
    free(0);
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(booked(t) == "outer+2-17 inner+4-8 other+24-2 outside+1-4");
  CHECK(t.losses().unmatched_frees == 0);
  REQUIRE(t.memory().size() == 10);
  const std::int64_t live[] = {1, 3, 7, 3, 1, 9, 25, 17, 1, 0};
  for (std::size_t i = 0; i < 10; ++i) CHECK(t.memory()[i].total_allocated == live[i]);
  CHECK(t.memory()[7].bytes == -8);
  CHECK(t.memory()[t.memory()[7].allocation].bytes == 8);
  test::check_rules(t);
}

// Catches: a free of a block of no bytes counted as an allocation, in the recording or once it is written and read.
TEST_CASE("blocks of no bytes are allocated and freed", "[memory]") {
  stepprof::profile prof(test::with_memory());
  for (int i = 0; i < 3; ++i) {
    stepprof::record_function scope("empty matrix");
    alloc(i, 0);
    free(i);
  }
  alloc(0, 0);
  free(0);
  prof.stop();
  for (const stepprof::trace& t : {prof.result(), stepprof::parse_trace(test::chrome_text(prof.result()))}) {
    const stepprof::event_averages rows = stepprof::key_averages(t);
    CHECK(rows.at("empty matrix").self_memory.allocations == 3);
    CHECK(rows.at("empty matrix").self_memory.frees == 3);
    CHECK(rows.at("[memory]").self_memory.frees == 1);
    CHECK(t.losses().lost_frees == 0);
    test::check_rules(t);
  }
}

#if SIZE_MAX > UINT32_MAX  // with 32 bits no size is that large
// Catches: sizes beyond 63 bits booked with the other sign, sums of them that overflow, and live bytes that are
// negative once what did not fit is freed.
TEST_CASE("sizes and sums of sizes end at the largest number", "[memory]") {
  stepprof::profile prof(test::with_memory());
  {
    stepprof::record_function scope("huge");
    alloc(0, SIZE_MAX);
    free(0);
  }
  {
    stepprof::record_function scope("two");
    alloc(1, std::size_t{1} << 62);
    alloc(2, std::size_t{1} << 62);
    alloc(1, std::size_t{1} << 63);  // its free was lost
    free(1);
    free(2);
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(booked(t) == "huge+9223372036854775807-9223372036854775807 two+9223372036854775807-9223372036854775807");
  REQUIRE(t.memory().size() == 8);
  const std::int64_t most = INT64_MAX, half = std::int64_t{1} << 62;
  CHECK(t.memory()[0].total_allocated == most);
  CHECK(t.memory()[1].total_allocated == 0);
  CHECK(t.memory()[2].total_allocated == half);
  CHECK(t.memory()[3].total_allocated == most);  // 2^63 is one too many
  CHECK(t.memory()[4].has(stepprof::memory_event::lost));
  CHECK(t.memory()[4].total_allocated == half);
  CHECK(t.memory()[5].total_allocated == most);
  CHECK(t.memory()[6].total_allocated == half);  // exact again
  CHECK(t.memory()[7].total_allocated == 0);
  test::check_rules(t);
}
#endif

// Catches: free(nullptr), which does nothing, counted as a free of an older block; failed allocations that seem to
// lie at one address.
TEST_CASE("a null address is no block", "[memory]") {
  stepprof::profile prof(test::with_memory());
  {
    stepprof::record_function scope("s");
    stepprof::report_alloc(nullptr, 8);
    stepprof::report_alloc(nullptr, 8);
    stepprof::report_free(nullptr);
  }
  prof.stop();
  CHECK(prof.result().memory().empty());
  CHECK(prof.result().unmatched_frees().empty());
  CHECK(prof.result().losses().lost_frees == 0);
}

// Catches: memory recorded without being asked for.
TEST_CASE("without profile_memory no report is recorded", "[memory]") {
  stepprof::profile prof;
  {
    stepprof::record_function scope("s");
    alloc(0, 8);
    free(1);
  }
  prof.stop();
  CHECK(prof.result().memory().empty());
  CHECK(prof.result().losses().unmatched_frees == 0);
  CHECK_FALSE(prof.result().info().has_memory);
}

// Catches: bytes lost or booked twice when their scope does not nest, or is a step's only content.
TEST_CASE("memory of a scope that ends out of order stays with it", "[memory]") {
  const test::heard heard;
  stepprof::profile prof(test::with_memory());
  stepprof::manual_scope a;
  stepprof::manual_scope b;
  a.begin("a");
  alloc(0, 1);
  b.begin("b");
  alloc(1, 2);
  a.end();
  alloc(2, 4);  // b does not nest: it is no longer the innermost scope of the thread
  b.end();
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(booked(t) == "a+1 b+2 outside+4");
  test::check_rules(t);
}

// Catches: a pool that is forgotten with the session that it was first used in, blocks of pools that take each other's
// addresses, a device whose bytes are the CPU's, a range that is not heard.
TEST_CASE("pools are reported in every session", "[memory]") {
  const test::heard heard;
  static const stepprof::memory_pool frames("frames");
  const stepprof::memory_pool cuda("cuda:0", {1, 0}), same_name(std::string("frames"));
  CHECK(frames == same_name);
  CHECK(frames != cuda);
  for (int session = 0; session < 3; ++session) {
    stepprof::profile prof(test::with_memory());
    {
      stepprof::record_function scope("s" + std::to_string(session));
      alloc(0, 1000);
      stepprof::report_alloc(block(0), 10, frames);
      stepprof::report_alloc(block(1), 20, same_name);
      stepprof::report_alloc(block(1000), 40, frames);  // not in the block of the heap
      stepprof::report_alloc(block(0), 500, cuda);
      stepprof::report_alloc(nullptr, 7, frames);
      fake_clock::advance(1);
      stepprof::report_free(block(0), frames);
      stepprof::report_free(block(0));
      stepprof::report_free(block(0), cuda);
      stepprof::report_free_range(block(0), 16 * 1001, frames);
      stepprof::report_free(block(1), frames);
    }
    prof.stop();
    const stepprof::trace t = prof.result();
    CHECK(booked(t) == "s" + std::to_string(session) + "+1040-1040?1");
    REQUIRE(t.memory().size() == 10);
    CHECK(t.text(t.memory()[1].pool) == "frames");
    CHECK(t.memory()[1].has(stepprof::memory_event::nested));
    CHECK_FALSE(t.memory()[3].has(stepprof::memory_event::nested));
    CHECK(t.memory()[3].total_allocated == 1040);
    CHECK(t.memory()[4].total_allocated == 500);
    CHECK((t.memory()[4].device_type == 1 && t.memory()[4].device_id == 0));
    CHECK(t.memory().back().total_allocated == 0);
    test::check_rules(t);
  }
  CHECK(heard.codes() == "");
}

// Catches: a name that is cut within a character, or that runs on behind its end.
TEST_CASE("the name of a pool may have any length", "[memory]") {
  const std::string euro = "\xe2\x82\xac";
  const stepprof::memory_pool longest(std::string(53, 'x') + euro), unnamed("");
  CHECK(std::string(longest.name().data(), longest.name().size()) == std::string(53, 'x'));
  CHECK(unnamed == stepprof::memory_pool());
  stepprof::profile prof(test::with_memory());
  stepprof::report_alloc(block(0), 1, longest);
  stepprof::report_alloc(block(1), 2, unnamed);
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.text(t.memory()[0].pool) == std::string(53, 'x'));
  CHECK(t.memory()[1].pool == stepprof::npos);
}

}  // namespace profile_memory_test
