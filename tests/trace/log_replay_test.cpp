#include <support/catch.hpp>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <stepprof/trace/log_replay.hpp>
#include <stepprof/trace/step_layout.hpp>
#include <support/log_writer.hpp>

namespace log_replay_test {

using namespace stepprof;
using namespace stepprof::detail;
using test::log_writer;

namespace {

struct naive_event {
  std::uint32_t id;
  std::uint64_t begin;
  std::uint64_t end;
  int parent;  // of those that nest; -1
  bool ended;
  bool stray;
};

// Tells, from the list of calls alone, what must come out: slow and plain.
class naive_replay {
 public:
  int begin(std::uint32_t id, std::uint64_t ticks) {
    events.push_back({id, ticks, 0, open_.empty() ? -1 : open_.back(), false, false});
    open_.push_back(static_cast<int>(events.size()) - 1);
    return open_.back();
  }
  void end(int event, std::uint64_t ticks) {
    events[static_cast<std::size_t>(event)].end = ticks;
    events[static_cast<std::size_t>(event)].ended = true;
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (open_[i] == event) {
        for (std::size_t k = i + 1; k < open_.size(); ++k) events[static_cast<std::size_t>(open_[k])].stray = true;
        open_.resize(i);
        return;
      }
  }
  // The nearest enclosing scope that nests.
  int parent_of(int event) const {
    int p = events[static_cast<std::size_t>(event)].parent;
    while (p >= 0 && events[static_cast<std::size_t>(p)].stray) p = events[static_cast<std::size_t>(p)].parent;
    return p;
  }
  std::vector<naive_event> events;

 private:
  std::vector<int> open_;
};

}  // namespace

// Catches: any difference between the replay and what the calls mean, for scopes that end in any order over any clock.
TEST_CASE("the replay of random logs agrees with a naive reference", "[log_replay]") {
  std::mt19937_64 random(20260101);
  for (int round = 0; round < 500; ++round) {
    log_writer log;
    naive_replay expected;
    std::vector<int> open;
    std::uint64_t now = random() % 3 == 0 ? 0xfffffff0u : random() % 1000;
    const bool in_order = round % 2 == 0;
    const int calls = 2 + static_cast<int>(random() % 200);
    for (int i = 0; i < calls; ++i) {
      now += random() % 4 == 0 ? random() % (std::uint64_t{1} << 33) : random() % 3;
      const std::uint32_t id = 1 + static_cast<std::uint32_t>(random() % 5);
      if (open.empty() || random() % 5 < 3) {
        const int event = expected.begin(id, now);
        // In order: RAII scopes, told apart by their id alone. Else manual ones, with a serial number.
        in_order ? log.begin(id, now) : log.begin_manual(id, static_cast<std::uint64_t>(event) + 1, now);
        open.push_back(event);
      } else {
        const std::size_t at = in_order ? open.size() - 1 : random() % open.size();
        const int event = open[at];
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
        expected.end(event, now);
        const std::uint32_t ended = expected.events[static_cast<std::size_t>(event)].id;
        in_order ? log.end(ended, now) : log.end_manual(ended, static_cast<std::uint64_t>(event) + 1, now);
      }
    }
    log_replay replay;
    replay.begin_window(7);
    // In two pieces: a window may end up anywhere in a chunk.
    const std::string& bytes = log.bytes();
    const std::size_t used = replay.replay(bytes.data(), bytes.size() / 2);
    CHECK(replay.replay(bytes.data() + used, bytes.size() - used) == bytes.size() - used);
    const std::uint64_t cut = now + 5;
    thread_record record = replay.end_window(cut);
    skip_strays(record.events);
    REQUIRE(record.events.size() == expected.events.size());
    CHECK(record.begins == expected.events.size());
    CHECK(record.unmatched_ends == 0);
    CHECK(record.clamps == 0);
    for (std::size_t i = 0; i < record.events.size(); ++i) {
      const trace_event& got = record.events[i];
      const naive_event& want = expected.events[i];
      REQUIRE(got.name == want.id);
      REQUIRE(got.begin_ns == static_cast<std::int64_t>(want.begin));
      REQUIRE(got.end_ns == static_cast<std::int64_t>(want.ended ? want.end : cut));
      REQUIRE(got.has(trace_event::unfinished) == !want.ended);
      REQUIRE(got.has(trace_event::out_of_order) == want.stray);
      if (!want.stray) REQUIRE(static_cast<int>(got.parent) == expected.parent_of(static_cast<int>(i)));
    }
  }
}

// Catches: a scope of an earlier window that is counted again, or whose end closes a scope of this one.
TEST_CASE("a scope belongs to the window that holds its begin", "[log_replay]") {
  log_writer first;
  first.begin(1, 10);
  first.begin(2, 20);
  log_writer second;
  second.begin(2, 40);
  second.end(2, 50);
  second.end(2, 60);
  second.begin(3, 70);
  second.end(3, 80);
  second.end(1, 90);
  second.begin(4, 95);
  log_replay replay;
  replay.begin_window(1);
  replay.replay(first.bytes().data(), first.bytes().size());
  const thread_record a = replay.end_window(30);
  REQUIRE(a.events.size() == 2);
  CHECK(a.events[0].end_ns == 30);
  CHECK(a.events[1].end_ns == 30);
  CHECK(a.events[1].has(trace_event::unfinished));
  replay.begin_window(1);
  replay.replay(second.bytes().data(), second.bytes().size());
  const thread_record b = replay.end_window(100);
  REQUIRE(b.events.size() == 3);
  CHECK(b.events[0].duration_ns() == 10);
  CHECK(b.events[0].parent == npos);
  CHECK(b.events[1].duration_ns() == 10);
  CHECK(b.events[2].has(trace_event::unfinished));
  CHECK(b.unmatched_ends == 0);
}

// Catches: a window whose events are only counted leaving the log in another state than one that was kept, or being
// written beyond its one event.
TEST_CASE("a window may be counted without keeping its events", "[log_replay]") {
  log_writer first;
  first.begin(1, 10);
  first.begin_manual(2, 77, 20);
  first.begin(3, 30);
  first.end(1, 40);  // 2 and 3 outlive it
  first.begin(4, 50);
  log_writer second;
  second.begin(5, 110);
  second.end_manual(2, 77, 120);
  second.end(3, 130);
  second.end(5, 140);
  second.end(4, 150);
  log_replay kept;
  log_replay counted;
  kept.begin_window(1);
  counted.begin_window(1, 0, event_list(event_list::only_counted()));
  for (log_replay* const replay : {&kept, &counted}) {
    replay->replay(first.bytes().data(), first.bytes().size());
    const thread_record a = replay->end_window(100);
    CHECK(a.begins == 4);
    CHECK(a.events.size() == 4);
    replay->begin_window(1);
    replay->replay(second.bytes().data(), second.bytes().size());
    const thread_record b = replay->end_window(200);
    REQUIRE(b.events.size() == 1);
    CHECK(b.events[0].end_ns == 140);
    CHECK(b.events[0].flags == 0);
    CHECK(b.unmatched_ends == 0);
    CHECK(b.foreign_ends.empty());
  }
}

// Catches: time stamps that run backwards and become negative or huge durations.
TEST_CASE("times of a log never go backwards, and each move is counted", "[log_replay]") {
  log_writer log;
  log.begin(1, 100);
  log.begin(2, 95);  // 5 back: moved to 100
  log.end(2, 99);    // moved to 100
  log.end(1, 101);
  log.begin(3, 100);  // moved to 101
  log.end(3, 105);
  log_replay replay;
  replay.begin_window(1);
  replay.replay(log.bytes().data(), log.bytes().size());
  const thread_record r = replay.end_window(200);
  REQUIRE(r.events.size() == 3);
  CHECK(r.events[1].begin_ns == 100);
  CHECK(r.events[1].duration_ns() == 0);
  CHECK(r.events[0].duration_ns() == 1);
  CHECK(r.events[2].begin_ns == 101);
  CHECK(r.clamps == 3);
}

// Catches: a replayer that trusts sizes it reads: arbitrary bytes must neither crash it nor be read beyond their end.
TEST_CASE("arbitrary bytes are replayed without harm", "[log_replay]") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<char> bytes(random() % 400);
    for (char& b : bytes) b = static_cast<char>(random() % 4 == 0 ? random() % 40 : random());
    log_replay replay;
    replay.begin_window(1);
    const std::size_t used = replay.replay(bytes.data(), bytes.size());
    CHECK(used <= bytes.size());
    const thread_record r = replay.end_window(~std::uint64_t{0} >> 1);
    for (const trace_event& e : r.events) REQUIRE(e.end_ns >= e.begin_ns);
  }
}

// Catches: an end that closes the outer one of two scopes of a name, because the inner one no longer nests.
TEST_CASE("of two open scopes of a name the one that began last ends first", "[log_replay]") {
  log_writer log;
  log.begin(1, 10);
  log.begin_manual(2, 7, 20);
  log.begin(1, 30);
  log.begin_manual(3, 8, 35);
  log.begin(1, 40);
  log.end_manual(3, 8, 50);  // the scope of 40 outlives it ...
  log.end_manual(2, 7, 60);  // ... and that of 30 this one
  log.end(1, 70);
  log.begin(1, 72);
  log.end(1, 75);
  log.end(1, 80);
  log.end(1, 90);
  log_replay replay;
  replay.begin_window(1);
  replay.replay(log.bytes().data(), log.bytes().size());
  const thread_record r = replay.end_window(100);
  REQUIRE(r.events.size() == 6);
  const std::int64_t ends[] = {90, 60, 80, 50, 70, 75};
  for (std::size_t i = 0; i < 6; ++i) {
    INFO(i);
    CHECK(r.events[i].end_ns == ends[i]);
    CHECK(r.events[i].has(trace_event::out_of_order) == (i == 2 || i == 4));
  }
  CHECK(r.unmatched_ends == 0);
}

// Catches: thousands of scopes left open by longjmp that make every later end slow or lost.
TEST_CASE("the end of an outer scope repairs the depth", "[log_replay]") {
  log_writer log;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    log.begin(1, 10 * i);
    log.begin(2, 10 * i + 1);  // left without an end
    log.begin(3, 10 * i + 2);  // left without an end
    log.end(1, 10 * i + 5);
  }
  log_replay replay;
  replay.begin_window(1);
  replay.replay(log.bytes().data(), log.bytes().size());
  thread_record r = replay.end_window(200000);
  skip_strays(r.events);
  REQUIRE(r.events.size() == 30000);
  for (std::size_t i = 0; i < 30000; i += 3) {
    REQUIRE(r.events[i].parent == npos);
    REQUIRE(r.events[i].duration_ns() == 5);
    REQUIRE(r.events[i + 1].has(trace_event::out_of_order));
    REQUIRE(r.events[i + 1].has(trace_event::unfinished));
  }
}

// Catches: the end of another thread's scope taken for one whose begin was overwritten in this thread's log.
TEST_CASE("behind a gap only ends of the log's own scopes are taken for overwritten ones", "[log_replay]") {
  constexpr std::uint64_t own = std::uint64_t{1} << 32 | 5, foreign = std::uint64_t{2} << 32 | 6;
  log_writer log;
  log.end_manual(7, foreign, 10);
  log.end_manual(7, own, 20);
  log.end(1, 30);
  log.end(1, 40);  // no room was kept for it
  chunk_header chunk{};
  chunk.reserved_at_entry = 16 + 8;
  log_replay replay;
  replay.begin_window(1);
  replay.enter_behind_gap(chunk);
  replay.replay(log.bytes().data(), log.bytes().size());
  const thread_record r = replay.end_window(50);
  CHECK(r.overwritten_ends == 2);
  CHECK(r.unmatched_ends == 1);
  REQUIRE(r.foreign_ends.size() == 1);
  CHECK(r.foreign_ends[0].serial == foreign);
}

}  // namespace log_replay_test
