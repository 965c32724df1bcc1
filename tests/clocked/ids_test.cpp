// Catches: ids of the system that are shown as they are, where viewers take small ones only.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>

#include <stepprof/stepprof.hpp>

namespace ids_test {

using test::fake_clock;

namespace {

// Ids as systems have them whose threads are pointers and whose processes are numbered through for ever.
class large_ids {
 public:
  large_ids()
      : thread_(stepprof::detail::the_id_sources.thread_id.exchange(&thread_id)),
        process_(stepprof::detail::the_id_sources.process_id.exchange(&process_id)) {}
  ~large_ids() {
    stepprof::detail::the_id_sources.thread_id = thread_;
    stepprof::detail::the_id_sources.process_id = process_;
  }
  large_ids(const large_ids&) = delete;
  large_ids& operator=(const large_ids&) = delete;

 private:
  static std::uint64_t thread_id() noexcept { return 140000000000000u; }
  static std::int64_t process_id() noexcept { return 7000000000; }

  std::uint64_t (*thread_)() noexcept;
  std::int64_t (*process_)() noexcept;
};

}  // namespace

// Catches: a pid or tid above 2^31-1, which Perfetto cuts, or the system's own ids lost on the way.
TEST_CASE("ids of the system may be of any size; those shown are small", "[ids]") {
  stepprof::trace t;
  {
    const large_ids ids;
    stepprof::profile prof;
    for (int i = 0; i < 2; ++i) std::thread([] { STEPPROF_SCOPE("s"); }).join();
    prof.stop();
    t = prof.result();
  }
  REQUIRE(t.processes().size() == 1);
  CHECK(t.processes()[0].pid >= 1);
  CHECK(t.processes()[0].pid <= 2147483647);
  CHECK(t.processes()[0].os_pid == 7000000000);
  REQUIRE(t.tracks().size() == 2);
  for (const stepprof::trace_track& track : t.tracks()) {
    CHECK(track.os_id == 140000000000000u);
    CHECK(track.id >= 1);
    CHECK(track.id <= 2147483647);
  }
  CHECK(t.tracks()[0].id != t.tracks()[1].id);  // although the system calls both the same
  const test::checked_trace checked = test::check_rules(t);
  CHECK(checked.slice_count("s") == 2);
  CHECK(checked.thread_names.size() >= 2);
}

// Catches: threads told apart by the system's id, which the next thread may be given: names on the wrong track, scopes
// of one inside those of the other.
// FC-47: https://github.com/wolfpld/tracy/issues/1110, https://github.com/firefox-devtools/profiler/issues/3351
TEST_CASE("threads to which the system gives the same id are two", "[ids]") {
  fake_clock::ticks_per_reading(1);
  const large_ids ids;
  stepprof::profile prof;
  const char* const names[] = {"a", "b"};
  for (const char* const name : names)
    std::thread([name] {
      stepprof::set_thread_name(name);
      const stepprof::record_function outer(std::string(name) + " outer");
      const stepprof::record_function inner(std::string(name) + " inner");
    }).join();
  prof.stop();
  fake_clock::ticks_per_reading(0);
  const stepprof::trace t = prof.result();
  REQUIRE(t.tracks().size() == 2);
  CHECK(t.tracks()[0].os_id == t.tracks()[1].os_id);
  CHECK(t.tracks()[0].id != t.tracks()[1].id);
  REQUIRE(t.events().size() == 4);
  const test::checked_trace checked = test::check_rules(t);
  for (const std::string name : names) {
    const stepprof::trace_event* const outer = test::find_event(t, name + " outer");
    const stepprof::trace_event* const inner = test::find_event(t, name + " inner");
    REQUIRE(outer != nullptr);
    REQUIRE(inner != nullptr);
    CHECK(t.tracks()[outer->track].name == name);
    CHECK(inner->track == outer->track);
    CHECK(outer->parent == stepprof::npos);
    REQUIRE(inner->parent != stepprof::npos);
    CHECK(&t.events()[inner->parent] == outer);
    CHECK(std::any_of(checked.thread_names.begin(), checked.thread_names.end(),
                      [&](const auto& id_and_name) { return id_and_name.second == name; }));
  }
}

}  // namespace ids_test
