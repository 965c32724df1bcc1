#include <support/catch.hpp>
#include <support/event_builder.hpp>

namespace trace_builder_test {

using namespace stepprof;

namespace {
std::string fault_of(const std::string& text) {
  test::event_builder b(text);
  std::error_code ec;
  const trace result = b.builder.finish(ec);
  CHECK(result.events().empty() == static_cast<bool>(ec));
  if (ec) CHECK(ec == errc::bad_trace);
  return ec ? ec.message() : "";
}
}  // namespace

// Catches: a builder that accepts what the rest of the library relies on never seeing.
TEST_CASE("the builder refuses broken nesting and names the event", "[trace_builder]") {
  CHECK(fault_of("t1: a[0..10]{ b[2..6] c[6..10] } d[10..12]; t2: a[3..5]").empty());
  CHECK(fault_of("t1: a[0..10]{ b[2..11] }") == "trace: event 1 ('b') lies outside its parent");
  CHECK(fault_of("t1: a[0..10] b[9..11]") == "trace: event 1 ('b') overlaps the event before it");
  CHECK(fault_of("t1: a[0..10]{ b[1..5] c[4..6] }") == "trace: event 2 ('c') overlaps the event before it");
  CHECK(fault_of("t1: a[0..10]{ b[1..5]{ c[1..3] } d[4..6] }") == "trace: event 3 ('d') overlaps the event before it");
  CHECK(fault_of("t1: a[0..4]{ b[1..2] } c[3..6]") == "trace: event 2 ('c') overlaps the event before it");
  CHECK(fault_of("t1: a[0..10]{ b[1..5]{ c[5..5] } d[5..5] }").empty());
  CHECK(fault_of("t1: a[5..4]") == "trace: event 0 ('a') ends before it begins");
  CHECK(fault_of("async1: a[0..10] b[5..15]").empty());
  // A duration is a number of 63 bits.
  CHECK(fault_of("async1: a[-1..9223372036854775805]").empty());
  CHECK(fault_of("async1: a[-1..9223372036854775806]") == "trace: event 0 ('a') lasts longer than 292 years");
  CHECK(fault_of("async1: a[-9223372036854775807..9223372036854775807]") ==
        "trace: event 0 ('a') lasts longer than 292 years");
}

// Catches: preorder not checked, so that a subtree is split in two.
TEST_CASE("the builder refuses events out of preorder", "[trace_builder]") {
  test::event_builder b("t1: a[0..10]{ b[1..2] } c[10..12]");
  trace_event e;
  e.name = b.builder.intern("late");
  e.parent = 0;
  e.begin_ns = 3;
  e.end_ns = 4;
  b.builder.add_event(e);
  CHECK_THROWS_WITH(b.builder.finish(), "trace: event 3 ('late') does not follow its parent or a sibling");

  test::event_builder alone("t1: a[0..10] c[10..12]");
  e.name = alone.builder.intern("late");
  alone.builder.add_event(e);
  CHECK_THROWS_WITH(alone.builder.finish(), "trace: event 2 ('late') does not follow its parent or a sibling");
}

// Catches: events that a maker left behind the added ones and that end up in the trace; added ones that are lost.
TEST_CASE("raw events are added or dropped", "[trace_builder]") {
  trace_builder b;
  b.raw_events().resize(5);
  for (std::uint32_t i = 0; i < 5; ++i) b.raw_events()[i].end_ns = i;
  b.add_process({});
  b.add_track({});
  trace_event e;
  e.end_ns = 9;
  CHECK(b.add_event(e) == 0);
  CHECK(b.event_count() == 1);
  trace_event* const next = b.add_raw(2);
  CHECK(next[1].end_ns == 2);
  b.add_track({});
  b.track(1).kind = track_kind::async;
  CHECK(b.track(1).first_event == 3);
  const std::uint32_t name = b.intern("n");
  for (std::uint32_t i = 0; i < 3; ++i) b.event(i).name = name;
  next[0].begin_ns = next[1].begin_ns = next[0].end_ns = next[1].end_ns = 9;
  const trace t = b.finish();
  CHECK(t.events().size() == 3);
  CHECK(t.tracks()[0].event_count == 3);
  CHECK(t.tracks()[1].event_count == 0);
  CHECK(b.event_count() == 0);
}

// Catches: an intern table that merges texts or loses embedded zero bytes.
TEST_CASE("texts are interned by content", "[trace_builder]") {
  trace_builder b;
  const std::string with_zero("a\0b", 3);
  const auto a = b.intern("a");
  CHECK(b.intern(with_zero) != a);
  CHECK(b.intern("a") == a);
  for (int i = 0; i < 1000; ++i) b.intern("name " + std::to_string(i));
  CHECK(b.intern(with_zero) == a + 1);
  const trace t = b.finish();
  CHECK(t.text(a + 1) == with_zero);
  CHECK(t.text(npos).empty());
  CHECK(t.find_text("name 999") != npos);
  CHECK(t.find_text("name 1000") == npos);
}

// Catches: an entry for each scope of one place in the source, or a fact of one scope that appears at all others.
TEST_CASE("events of one place share an entry until they need their own", "[trace_builder]") {
  test::event_builder built("t1: a[0..1] b[1..2] c[2..3] d[3..4]");
  trace_builder& b = built.builder;
  const std::uint32_t file = b.intern("x.cpp");
  const std::uint32_t place = b.source(file, 7);
  CHECK(b.source(file, 7) == place);
  CHECK(b.source(file, 8) != place);
  b.event(0).detail = b.event(1).detail = place;
  b.detail(1).sequence_number = 5;
  CHECK(b.detail(1).source_line == 7);
  event_detail given;
  given.source_file = file;
  given.source_line = 7;
  b.set_detail(2, given);
  CHECK(b.event(2).detail == place);
  given.sequence_number = 6;
  b.set_detail(3, given);
  b.detail(3).sequence_number = 9;
  const trace t = b.finish();
  CHECK(t.details().size() == 4);  // two places, b and d
  CHECK(t.detail(t.events()[0]).sequence_number == -1);
  CHECK(t.detail(t.events()[1]).sequence_number == 5);
  CHECK(t.detail(t.events()[2]).sequence_number == -1);
  CHECK(t.detail(t.events()[3]).sequence_number == 9);
}

// Catches: metadata added to one copy of a trace appearing in another.
TEST_CASE("with_metadata leaves the original alone and replaces equal keys", "[trace]") {
  const trace t = test::events("t1: a[0..1]");
  const trace u = t.with_metadata("k", "1").with_metadata("k", "2");
  CHECK(t.metadata().empty());
  REQUIRE(u.metadata().size() == 1);
  CHECK(u.metadata()[0].json == "2");
  CHECK(&u.events() == &t.events());
}

// Catches: an index out of range in a side table, which every reader would follow.
TEST_CASE("the builder refuses indices of events that do not exist, wherever they stand", "[trace_builder]") {
  const auto fault = [](auto add) {
    test::event_builder b("t1: a[0..1]");
    add(b.builder);
    std::error_code ec;
    static_cast<void>(b.builder.finish(ec));
    return ec.message();
  };
  CHECK(fault([](trace_builder& b) { b.add_link({0, 1}); }) == "trace: a link names an event that does not exist");
  CHECK(fault([](trace_builder& b) {
          b.add_unmatched_free({1, 1});
        }) == "trace: an unmatched free names an event that does not exist");
  CHECK(fault([](trace_builder& b) {
          trace_mark m;
          m.event = 7;
          b.add_mark(m);
        }) == "trace: a mark names an event or a track that does not exist");
  CHECK(fault([](trace_builder& b) {
          b.add_step({0, 0, 1, 1, true});
        }) == "trace: a step names an event that does not exist");
  CHECK(fault([](trace_builder& b) {
          memory_event m;
          m.track = 1;
          b.add_memory(m);
        }) == "trace: a memory event names an event or a track that does not exist");
  CHECK(fault([](trace_builder& b) {
          memory_event m;
          m.allocation = 0;
          b.add_memory(m);
        }) == "trace: a free stands before its allocation");
}

}  // namespace trace_builder_test
