#include <support/catch.hpp>

#include <cstdint>
#include <vector>

#include <stepprof/trace/foreign_ends.hpp>
#include <stepprof/trace/log_replay.hpp>
#include <support/log_writer.hpp>

namespace foreign_ends_test {

using namespace stepprof;
using namespace stepprof::detail;
using test::log_writer;

namespace {

// Two threads over several windows.
class two_threads {
 public:
  void window(const log_writer& one, const log_writer& two, std::uint64_t cut) {
    threads.clear();
    for (std::size_t i = 0; i < 2; ++i) {
      replays_[i].begin_window(static_cast<std::uint32_t>(i + 1));
      const std::string& bytes = (i == 0 ? one : two).bytes();
      REQUIRE(replays_[i].replay(bytes.data(), bytes.size()) == bytes.size());
      threads.push_back({replays_[i].end_window(cut), &replays_[i]});
    }
    unmatched += ends_.settle(threads).ends;
  }
  const event_list& events(std::size_t thread) const { return threads[thread - 1].record.events; }

  std::vector<replayed_thread> threads;
  std::uint64_t unmatched = 0;

 private:
  log_replay replays_[2];
  foreign_ends ends_;
};

}  // namespace

// Catches: ends that are searched for one by one, which 100 000 of them would not come back from; and scopes that are
// cut because there are many.
TEST_CASE("many scopes may end on another thread, in any order", "[foreign_ends]") {
  constexpr std::uint64_t count = 100000;
  const bool manual = GENERATE(true, false);
  log_writer one;
  log_writer two;
  one.begin(1, 0);
  for (std::uint64_t i = 0; i < count; ++i)
    manual ? one.begin_manual(2, i + 1, 10 + i) : one.begin(2 + static_cast<std::uint32_t>(i), 10 + i);
  one.end(1, 200000);  // all outlive the scope that they began in
  for (std::uint64_t i = 0; i < count; ++i)
    manual ? two.end_manual(2, i + 1, 300000 + i) : two.end_of(1, 2 + static_cast<std::uint32_t>(i), 300000 + i);
  two_threads all;
  all.window(one, two, 500000);
  REQUIRE(all.events(1).size() == count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const trace_event& e = all.events(1)[i + 1];
    REQUIRE(e.duration_ns() == 300000 - 10);
    REQUIRE(e.has(trace_event::other_thread));
    REQUIRE(!e.has(trace_event::unfinished));
  }
  CHECK(all.threads[0].record.unneeded_bytes == count * (manual ? 16 : 8));
  all.window({}, {}, 600000);
  CHECK(all.unmatched == 0);
}

// Catches: scopes that are cut, as if they never ended, because many outlive the scope that they began in.
TEST_CASE("many scopes may outlive their enclosing one on their own thread", "[foreign_ends]") {
  constexpr std::uint64_t count = 100000;
  log_writer log;
  log.begin(1, 0);
  for (std::uint64_t i = 0; i < count; ++i) log.begin_manual(2, i + 1, 10 + i);
  log.end(1, 200000);
  for (std::uint64_t i = 0; i < count; ++i) log.end_manual(2, i + 1, 300000 + i);
  two_threads all;
  all.window(log, {}, 500000);
  REQUIRE(all.events(1).size() == count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(all.events(1)[i + 1].duration_ns() == 300000 - 10);
    REQUIRE(!all.events(1)[i + 1].has(trace_event::unfinished));
  }
}

// Catches: an end that is given to a scope of the same name that had not begun, or ends taken thread by thread.
TEST_CASE("of several scopes with one name the last that had begun by then ends", "[foreign_ends]") {
  log_writer one;
  log_writer two;
  one.begin(5, 10);
  one.begin(5, 20);
  one.begin(5, 40);
  two.end_of(1, 5, 30);  // the one of 20
  two.end_of(1, 5, 35);  // the one of 10
  two.end_of(1, 5, 90);
  two_threads all;
  all.window(one, two, 100);
  CHECK(all.events(1)[0].end_ns == 35);
  CHECK(all.events(1)[1].end_ns == 30);
  CHECK(all.events(1)[2].end_ns == 90);
}

// Catches: a scope that stays open for ever because the log of its end was looked at before the log of its begin.
TEST_CASE("an end waits one window for its begin", "[foreign_ends]") {
  const bool manual = GENERATE(true, false);
  log_writer end;
  manual ? end.end_manual(5, 77, 95) : end.end_of(1, 5, 95);
  log_writer begin;
  manual ? begin.begin_manual(5, 77, 90) : begin.begin(5, 90);  // noted too late for the window that was cut at 100
  begin.begin(6, 120);
  two_threads all;
  all.window({}, end, 100);
  CHECK(all.unmatched == 0);
  all.window(begin, {}, 200);
  REQUIRE(all.events(1).size() == 2);
  CHECK(all.events(1)[0].begin_ns == 100);
  CHECK(all.events(1)[0].duration_ns() == 0);
  CHECK(!all.events(1)[0].has(trace_event::unfinished));
  CHECK(all.events(1)[1].has(trace_event::unfinished));
  CHECK(all.unmatched == 0);
}

// Catches: an old end that closes a scope which began after it, and one that is never given up.
TEST_CASE("an end without a begin is counted and closes nothing", "[foreign_ends]") {
  log_writer end;
  end.end_of(1, 5, 95);
  log_writer begin;
  begin.begin(5, 120);
  two_threads all;
  all.window({}, end, 100);
  all.window(begin, {}, 200);
  CHECK(all.events(1)[0].has(trace_event::unfinished));
  CHECK(all.unmatched == 1);
  all.window({}, {}, 300);
  CHECK(all.unmatched == 1);
}

// Catches: memory that grows by every scope that a longjmp left, window after window; and young scopes forgotten
// instead of old ones.
TEST_CASE("of old scopes without an end the last few thousand are kept", "[foreign_ends]") {
  log_replay replay;
  std::uint64_t now = 0;
  std::uint64_t serial = 0;
  for (int window = 0; window < 3; ++window) {
    log_writer log;
    log.begin(1, ++now);
    for (int i = 0; i < 5000; ++i) log.begin_manual(2, ++serial, ++now);
    log.end(1, ++now);
    replay.begin_window(1);
    replay.replay(log.bytes().data(), log.bytes().size());
    CHECK(replay.end_window(++now).events.size() == 5001);
  }
  replay.begin_window(1);
  std::size_t kept = 0;
  bool all_young = true;
  replay.visit_open([&](const log_replay::open_scope& scope) {
    ++kept;
    all_young = all_young && scope.serial > serial - 4096;
  });
  CHECK(kept == 4096);
  CHECK(all_young);
}

// Catches: times beyond 63 bits compared with a sign, so that a scope ends before it begins.
TEST_CASE("an end that came before its begin is moved there, whatever the times are", "[foreign_ends]") {
  log_writer one;
  log_writer two;
  one.begin(1, (std::uint64_t{1} << 63) + 10);
  two.end_of(1, 1, 20);  // the clock of another processor
  two_threads all;
  all.window(one, two, (std::uint64_t{1} << 63) + 50);
  REQUIRE(all.events(1).size() == 1);
  CHECK(all.events(1)[0].duration_ns() == 0);
}

}  // namespace foreign_ends_test
