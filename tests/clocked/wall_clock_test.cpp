// Catches: a system's clock that is set while a program records, and a trace whose time of day is wrong in silence.
#include <support/clocked_work.hpp>
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <atomic>
#include <ctime>
#include <sstream>

#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

namespace wall_clock_test {

// How far the system's clock is set ahead.
std::atomic<std::time_t> ahead_s{0};

}  // namespace wall_clock_test

// In place of the library's.
extern "C" int timespec_get(timespec* now, int base) noexcept {
  if (::clock_gettime(CLOCK_REALTIME, now) != 0) return 0;
  now->tv_sec += wall_clock_test::ahead_s.load();
  return base;
}

namespace wall_clock_test {

using test::work;

namespace {

constexpr std::int64_t hour_ns = 3600000000000;

stepprof::trace recorded() {
  stepprof::profile prof;
  work("a");
  prof.stop();
  return prof.result();
}

struct set_ahead {
  explicit set_ahead(std::time_t s) { ahead_s += s; }
  ~set_ahead() { ahead_s = 0; }
  set_ahead(const set_ahead&) = delete;
  set_ahead& operator=(const set_ahead&) = delete;
};

std::int64_t magnitude(std::int64_t ns) {
  return ns < 0 ? -ns : ns;
}

}  // namespace

// Catches: a step of the clock that nobody compares with the steady one; and a correction of its rate, or a reading
// that was interrupted, taken for a step. FC-75: https://github.com/hw-native-sys/simpler/pull/2099
TEST_CASE("a system's clock that is set while a program records is found out", "[profile]") {
  const stepprof::trace before = recorded();
  CHECK(magnitude(before.info().wall_shift_ns) < hour_ns / 2);
  for (const std::int64_t hours : {1, -1}) {
    const test::heard heard;
    stepprof::profile prof;
    work("a");
    const set_ahead clock(hours * 3600);
    work("b");
    prof.stop();
    const stepprof::trace t = prof.result();
    CHECK(magnitude(t.info().wall_shift_ns - hours * hour_ns) < hour_ns / 2);
    CHECK(heard.codes() == "wall_clock_set");
    CHECK(t.info().base_time_ns == before.info().base_time_ns);  // as it was when the process began to record
    CHECK(test::drawn(t) == "t: a[0..100] b[100..200]");
    std::stringstream file;
    stepprof::export_chrome_trace(t, file);
    const stepprof::trace read = stepprof::read_trace(file);
    CHECK(read.info().wall_shift_ns == t.info().wall_shift_ns);
    CHECK(read.info().base_time_error_ns == t.info().base_time_error_ns);
    const stepprof::trace merged = stepprof::merge_processes({before, t});
    CHECK(magnitude(merged.info().base_time_error_ns - hour_ns) < hour_ns / 2);
  }
  const test::heard heard;
  CHECK(magnitude(recorded().info().wall_shift_ns) < hour_ns / 2);
  CHECK(heard.codes() == "");
}

}  // namespace wall_clock_test
