#include <cstdint>
#include <string>

#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/analysis/trace_selection.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

namespace trace_selection_test {
using namespace stepprof;

namespace {

// The events of all tracks, "name" or "parent>name".
std::string drawn(const trace& t) {
  std::string text;
  for (const trace_event& e : t.events()) {
    text += text.empty() ? "" : " ";
    if (e.parent != npos) text += std::string(t.name(t.events()[e.parent])) + ">";
    text += std::string(t.name(e));
  }
  return text;
}
std::string note_of(const trace& t) {
  for (const trace_note& note : t.notes())
    if (note.code == "selection") return note.text;
  return {};
}
memory_event allocation(std::int64_t time_ns, std::int64_t bytes, std::uint32_t event) {
  memory_event m;
  m.time_ns = time_ns;
  m.bytes = bytes;
  m.event = event;
  return m;
}

}  // namespace

// Catches: a scope of exactly the least duration left out, steps left out, memory of what is left out lost.
TEST_CASE("without short scopes", "[trace_selection]") {
  test::event_builder b("t1: step![0..5]{ a[0..4]{ b[0..3] } } c[10..20]{ d[10..15] e[16..20] }");
  b.builder.event(0).flags = trace_event::step;
  b.builder.add_step({3, 0, 5, 0, true});
  b.builder.add_memory(allocation(1, 64, 2));   // in b
  b.builder.add_memory(allocation(17, 32, 5));  // in e
  trace_selection selection;
  CHECK(selection.is_everything());
  selection.min_duration_ns = 5;
  CHECK_FALSE(selection.is_everything());
  const trace part = select(b.builder.finish(), selection);
  CHECK(drawn(part) == "step c c>d");
  CHECK(part.steps().size() == 1);
  CHECK(event_tree(part).self_memory(0).allocated_bytes == 64);
  CHECK(event_tree(part).self_memory(1).allocated_bytes == 32);
  CHECK(event_tree(part).self_ns(1) == 5);
  CHECK(note_of(part) == "3 scope(s) and 0 arrow(s) of the recording are not in this part of it");
}

// Catches: children lost with their parents, kinds mixed up.
TEST_CASE("some kinds", "[trace_selection]") {
  test::event_builder b("t1: user![0..10]{ op[0..9]{ back~[0..8]{ inner![0..7] } } }; t2: op[0..3]");
  const trace whole = b.builder.finish();
  trace_selection selection;
  selection.ops = false;
  CHECK(drawn(select(whole, selection)) == "user user>back back>inner");
  selection = {};
  selection.user_annotations = selection.backward_ops = false;
  CHECK(drawn(select(whole, selection)) == "op op");
}

// Catches: what begins at the end of the time taken, what began before it forgotten or cut, siblings before it taken.
TEST_CASE("some time", "[trace_selection]") {
  test::event_builder b("t1: a[0..100]{ b[0..10] c[10..60]{ d[20..30] e[30..40] f[50..55] } g[60..70] } h[100..110]");
  trace_mark mark;
  mark.name = b.builder.intern("now");
  for (const std::int64_t time_ns : {29, 30, 59, 60}) {
    mark.time_ns = time_ns;
    b.builder.add_mark(mark);
    b.builder.add_memory(allocation(time_ns, time_ns, 2));
  }
  trace_selection selection;
  selection.begin_ns = 30;
  selection.end_ns = 60;
  const trace part = select(b.builder.finish(), selection);
  CHECK(drawn(part) == "a a>c c>e c>f");
  CHECK(part.events()[0].end_ns == 100);
  REQUIRE(part.marks().size() == 2);
  CHECK(part.marks()[0].time_ns == 30);
  REQUIRE(part.memory().size() == 2);
  CHECK(part.memory()[1].bytes == 59);
  CHECK(part.memory()[0].event == 1);
}

// Catches: arrows between scopes of which one is not there; arrows made up anew from the sequence numbers of what is
// left, which would lead elsewhere.
TEST_CASE("arrows of a part", "[trace_selection]") {
  test::event_builder b("t1: f[0..9]{ g[1..2] } f[10..19]; t2: back~[20..30] back~[31..40]");
  const auto number = [&](std::uint32_t event, std::uint32_t thread) {
    b.builder.detail(event).sequence_number = 7;
    b.builder.detail(event).forward_thread = thread;
  };
  number(0, 0);
  number(1, 0);
  number(3, 1);
  const trace whole = b.builder.finish();
  REQUIRE(flow_pairs(whole).size() == 1);
  CHECK(flow_pairs(whole)[0].from == 1);  // g, the innermost
  trace_selection selection;
  selection.min_duration_ns = 5;
  const trace part = select(whole, selection);
  CHECK(drawn(part) == "f f back back");
  CHECK(flow_pairs(part).empty());
  CHECK(note_of(part) == "1 scope(s) and 1 arrow(s) of the recording are not in this part of it");
  selection.min_duration_ns = 1;
  REQUIRE(flow_pairs(select(whole, selection)).size() == 1);
  CHECK(flow_pairs(select(whole, selection))[0].from == 1);
}

// Catches: facts of the whole lost, frees that lose their allocation counted otherwise.
TEST_CASE("facts of the recording stay", "[trace_selection]") {
  test::event_builder b("t1: f[0..10]");
  b.builder.info().cycle = 4;
  b.builder.losses().dropped = 9;
  b.builder.add_metadata("key", "1");
  b.builder.add_memory(allocation(1, 64, 0));
  memory_event free = allocation(5, -64, 0);
  free.allocation = 0;
  b.builder.add_memory(free);
  trace_selection selection;
  selection.begin_ns = 5;
  const trace part = select(b.builder.finish(), selection);
  CHECK(part.info().cycle == 4);
  CHECK(part.losses().dropped == 9);
  CHECK(part.metadata().size() == 1);
  REQUIRE(part.memory().size() == 1);
  CHECK(part.memory()[0].is_free());
  CHECK(part.memory()[0].bytes == -64);
}

}  // namespace trace_selection_test
