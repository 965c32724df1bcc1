#include <support/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <stepprof/trace/event_placer.hpp>

namespace event_placer_test {

using namespace stepprof;
using namespace stepprof::detail;

namespace {

// A thread's replayed scopes in the array of a builder, with room in front.
struct replayed {
  explicit replayed(std::size_t room) : names(builder), placer(builder, names) {
    builder.raw_events().resize(room);
    events = event_list(builder.raw_events());
    builder.add_process({});
    builder.add_track({});
  }
  void add(std::int64_t begin, std::int64_t end, std::uint32_t parent, std::uint32_t flags = 0) {
    trace_event& e = events.add();
    e.begin_ns = begin;
    e.end_ns = end;
    e.name = overflow_name;
    e.parent = parent;
    e.flags = flags & 255u;
  }
  static step_span step(std::int64_t number, std::uint64_t begin, std::uint64_t end, std::uint32_t position,
                        std::uint32_t end_position, std::uint32_t parent = npos) {
    step_span s;
    s.number = number;
    s.begin_ticks = begin;
    s.end_ticks = end;
    s.nests = true;
    s.position = position;
    s.end_position = end_position;
    s.parent = parent;
    return s;
  }
  event_places place(const std::vector<step_span>& steps) {
    event_places places = placer.place(events, true, steps, step_places, apart);
    builder.add_track({});
    builder.track(1).kind = track_kind::async;
    for (const trace_event& e : apart) placer.add_apart(e);
    return places;
  }
  // "begin-end<parent" of each event of the trace, steps by their number.
  static std::string drawn(const trace& t) {
    std::string text;
    for (const trace_event& e : t.events()) {
      const bool is_step = e.has(trace_event::step);
      text += (is_step ? std::string(t.name(e).substr(13)) : std::to_string(e.begin_ns)) + "-" +
              std::to_string(e.end_ns) + (e.parent == npos ? "" : "<" + std::to_string(e.parent)) + " ";
    }
    return text;
  }

  trace_builder builder;
  name_resolver names;
  event_placer placer;
  event_list events;
  std::vector<std::uint32_t> step_places;
  std::vector<trace_event> apart;
};

}  // namespace

// Catches: parents and places that are off by the steps in front of them, when a parent lies in an earlier step's part.
TEST_CASE("steps come between the scopes of their thread", "[event_placer]") {
  replayed r(3);
  r.add(0, 100, npos);  // 0: around all steps
  r.add(1, 8, 0);       // 1: in step #0
  r.add(2, 5, 1);       // 2
  r.add(11, 15, 0);     // 3: in step #1
  r.add(31, 35, 0);     // 4: behind the last step
  const event_places places =
      r.place({r.step(0, 1, 10, 1, 3, 0), r.step(1, 10, 20, 3, 4, 0), r.step(2, 20, 30, 4, 4, 0)});
  CHECK(r.step_places == std::vector<std::uint32_t>{1, 4, 6});
  CHECK(places(0) == 0);
  CHECK(places(1) == 2);
  CHECK(places(2) == 3);
  CHECK(places(3) == 5);
  CHECK(places(4) == 7);
  CHECK(places(npos) == npos);
  CHECK(r.builder.losses().kept == 5);
  const trace t = r.builder.finish();
  CHECK(replayed::drawn(t) == "0-100 0-10<0 1-8<1 2-5<2 1-20<0 11-15<4 2-30<0 31-35<0 ");
}

// Catches: strays that leave a hole, or events behind them that lose their parent.
TEST_CASE("scopes that do not nest stand behind all others", "[event_placer]") {
  replayed r(1);
  r.add(0, 90, npos, trace_event::out_of_order);                            // 0
  r.add(1, 80, npos);                                                       // 1
  r.add(2, 95, npos, trace_event::other_thread);                            // 2
  r.add(3, 99, npos, trace_event::out_of_order | trace_event::unfinished);  // 3
  r.add(4, 70, 1);                                                          // 4
  r.add(5, 60, 4);                                                          // 5
  const event_places places = r.place({r.step(7, 4, 75, 4, 6, 1)});
  CHECK(places(0) == 4);
  CHECK(places(1) == 0);
  CHECK(places(2) == 5);
  CHECK(places(3) == 6);
  CHECK(places(4) == 2);
  CHECK(places(5) == 3);
  CHECK(r.builder.losses().kept == 5);
  CHECK(r.builder.losses().unfinished == 1);
  const trace t = r.builder.finish();
  CHECK(replayed::drawn(t) == "1-80 7-75<0 4-70<1 5-60<2 0-90 2-95 3-99 ");
  CHECK(t.tracks()[0].event_count == 4);
  CHECK(t.tracks()[1].event_count == 3);
}

// Catches: a step whose thread recorded nothing, or nothing any more, being lost; room for it that stays a gap.
TEST_CASE("steps without scopes", "[event_placer]") {
  replayed r(5);
  const event_places places = r.place({r.step(0, 0, 10, 0, 0), r.step(1, 10, 20, 0, 0)});
  CHECK(r.step_places == std::vector<std::uint32_t>{0, 1});
  CHECK(places(npos) == npos);
  CHECK(replayed::drawn(r.builder.finish()) == "0-10 1-20 ");
}

}  // namespace event_placer_test
