// Catches: asynchronous scopes that take part in the nesting of a thread, lose their end on another one, or get the
// arguments of a neighbour.
#include <support/clocked_work.hpp>
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <cstdint>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

namespace async_scope_test {

using test::fake_clock;
using test::work;

// Catches: scopes inside that nest in the request, a request that ends with its block's scopes, self time taken away.
TEST_CASE("an asynchronous scope overlaps whatever it wants", "[async_scope]") {
  const test::heard heard;
  stepprof::profile prof;
  stepprof::async_scope request;
  {
    stepprof::record_function outer("outer");
    fake_clock::advance(10);
    request = stepprof::async_scope("request", stepprof::scope_kind::op, stepprof::arg("url", "/index"),
                                    stepprof::sequence_number(7));
    CHECK(request.recorded());
    work("inside", 5);
    stepprof::report_alloc(&prof, 64);
  }
  work("after", 20);
  request.end();
  CHECK_FALSE(request.recorded());
  request.end();
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) == "t: outer[0..15]{ inside[10..15] } after[15..35]; async: request[10..35]");
  const stepprof::trace_event* e = test::find_event(t, "request");
  REQUIRE(e != nullptr);
  CHECK(e->flags == stepprof::trace_event::async);
  CHECK(e->kind() == stepprof::scope_kind::op);
  CHECK(t.detail(*e).sequence_number == 7);
  REQUIRE(t.detail(*e).arg_count == 1);
  CHECK(t.text(t.arguments()[t.detail(*e).first_arg].key) == "url");
  const stepprof::event_averages rows = prof.key_averages();
  CHECK(rows.at("request").is_async);
  CHECK(rows.at("request").self_ns == 0);
  CHECK(rows.at("request").total_ns == 25);
  CHECK(rows.at("outer").self_ns == 10);
  CHECK(heard.all.empty());  // nothing odd about it
  CHECK(t.losses().unfinished == 0);
  CHECK(t.losses().unmatched_ends == 0);
  test::check_rules(t);
}

// Catches: an end on another thread called misplaced, lost, or put to another request of the same name; ends that
// arrive in windows after the begin's.
TEST_CASE("an asynchronous scope ends on any thread", "[async_scope]") {
  const test::heard heard;
  stepprof::profile prof;
  stepprof::async_scope first("request"), second("request");
  fake_clock::advance(10);
  std::thread([&] {
    stepprof::record_function worker("worker");
    stepprof::async_scope mine = std::move(first);
    CHECK_FALSE(first.recorded());
    fake_clock::advance(5);
  }).join();
  fake_clock::advance(7);
  second.end();
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) == "async: request[0..15] request[0..22]; t: worker[10..15]");
  for (const stepprof::trace_event& e : t.events())
    CHECK(e.flags == (t.name(e) == "request" ? stepprof::trace_event::async : 0u));
  CHECK(heard.all.empty());
  CHECK(t.losses().kept == 3);
  test::check_rules(t);
}

// Catches: a task whose parts end each other, memory booked to whoever ran last on the thread.
// FC-20: wolfpld/tracy#936, #106, #1360
TEST_CASE("a task that goes on on other threads", "[async_scope]") {
  const test::heard heard;
  stepprof::profile_options options;
  options.profile_memory = true;
  stepprof::profile prof(options);
  int block = 0;
  stepprof::async_scope task("task");
  const auto part = [&](const char* name, bool allocates) {
    stepprof::record_function here("task");  // while it runs here, what it allocates is its own
    fake_clock::advance(1);
    if (allocates) stepprof::report_alloc(&block, 512);
    work(name, 10);
  };
  {
    stepprof::record_function loop("loop");
    part("part 1", false);
  }
  fake_clock::advance(100);
  std::thread([&] {
    stepprof::record_function loop("other loop");
    part("part 2", true);
  }).join();
  part("part 3", false);
  task.end();
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(test::drawn(t) ==
        "t: loop[0..11]{ task[0..11]{ part 1[1..11] } } task[122..133]{ part 3[123..133] }; async: task[0..133]; "
        "t: other loop[111..122]{ task[111..122]{ part 2[112..122] } }");
  const stepprof::event_averages rows = prof.key_averages();
  CHECK(rows.at("task").calls == 4);
  CHECK(rows.at("task").self_ns == 3);
  CHECK(rows.at("task").async_ns == 133);
  CHECK(rows.at("task").self_memory.allocated_bytes == 512);
  CHECK(rows.at("other loop").self_memory.allocated_bytes == 0);
  CHECK(heard.all.empty());
  test::check_rules(t);
}

// Catches: an open request at the cut that vanishes, that is not flagged, or is seen again in the next window.
TEST_CASE("an asynchronous scope over the border of windows", "[async_scope]") {
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{0, 0, 1, 2};
  std::vector<std::string> drawn;
  options.on_trace_ready = [&](const stepprof::trace& t) { drawn.push_back(test::drawn(t)); };
  const test::heard heard;
  stepprof::profile prof(options);
  stepprof::async_scope request("request");
  fake_clock::advance(10);
  prof.step();
  work("f", 5);
  std::thread([&] { request.end(); }).join();
  prof.step();
  REQUIRE(drawn.size() == 2);
  CHECK(test::contains(drawn[0], "request[0..10]?"));
  CHECK_FALSE(test::contains(drawn[1], "request"));
  CHECK(prof.result().losses().unmatched_ends == 0);
}

// Catches: the flag lost in a file, so that a request comes back as a scope that ended out of order.
TEST_CASE("asynchronous scopes come back from a file", "[async_scope]") {
  stepprof::profile prof;
  {
    stepprof::record_function outer("outer");
    stepprof::async_scope request("request", stepprof::arg("Async", true));
    fake_clock::advance(10);
  }
  prof.stop();
  std::ostringstream file;
  prof.export_chrome_trace(file);
  CHECK(test::contains(file.str(), "\"ph\":\"b\""));
  CHECK(test::contains(file.str(), "\"Async\":true,\"user.Async\":true"));
  std::istringstream in(file.str());
  const stepprof::trace back = stepprof::read_trace(in);
  CHECK(test::find_event(back, "request")->flags == stepprof::trace_event::async);
  CHECK(test::find_event(back, "outer")->flags == 0);
  std::ostringstream again;
  stepprof::export_chrome_trace(back, again);
  CHECK(again.str() == file.str());
}

// Catches: scopes of a signal handler between the begin and what is said of it, which take the arguments, or are left
// as children of a scope that is in no thread's nesting.
TEST_CASE("scopes begun while an asynchronous one begins", "[async_scope]") {
  stepprof::profile prof;
  {
    stepprof::record_function outer("outer");
    // Between the begin and the detaching, as a handler would: in the log between their words.
    stepprof::detail::scope_handle<true> handle;
    handle.begin("request");
    {
      stepprof::record_function handler("handler");
      fake_clock::advance(1);
    }
    stepprof::record_function later("later");
    handle.detach();
    fake_clock::advance(2);
    handle.end();
  }
  prof.stop();
  CHECK(test::drawn(prof.result()) == "t: outer[0..3]{ handler[0..1] later[1..3] }; async: request[0..3]");
}

// Catches: a scope that is open without anything recording, or ended twice by its move.
TEST_CASE("asynchronous scopes while nothing records", "[async_scope]") {
  stepprof::async_scope none;
  CHECK_FALSE(none.recorded());
  stepprof::async_scope off("off");
  CHECK_FALSE(off.recorded());
  none = std::move(off);
  stepprof::profile prof;
  none = stepprof::async_scope("replaced");
  fake_clock::advance(3);
  none = stepprof::async_scope("second");
  stepprof::async_scope& self = none;
  none = std::move(self);
  fake_clock::advance(4);
  none.end();
  prof.stop();
  CHECK(test::drawn(prof.result()) == "async: replaced[0..3] second[3..7]");
}

}  // namespace async_scope_test
