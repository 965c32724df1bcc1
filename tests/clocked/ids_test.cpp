// Catches: ids of the system that are shown as they are, where viewers take small ones only.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <cstdint>
#include <thread>

#include <stepprof/stepprof.hpp>

namespace ids_test {

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

}  // namespace ids_test
