// Catches: time stamps of the size of Unix time that lose their nanoseconds on the way to a viewer.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <cmath>

#include <nlohmann/json.hpp>

#include <stepprof/stepprof.hpp>

namespace clock_epoch_test {

using test::fake_clock;

// Catches: differences that are rounded to microseconds because a viewer reads `ts` as a double.
// FC-15: google/perfetto#426, pytorch/kineto#853, Ascend/pytorch#133
TEST_CASE("nanoseconds survive a clock that counts from 1970", "[profile]") {
  constexpr std::int64_t start = 1767225600LL * 1000000000LL;
  fake_clock::set(static_cast<std::uint64_t>(start));
  const std::int64_t lengths[] = {1, 7, 120, 999};
  stepprof::profile prof;
  fake_clock::advance(3);
  {
    stepprof::record_function parent("parent");
    for (const std::int64_t ns : lengths) {
      stepprof::record_function scope("s" + std::to_string(ns));
      fake_clock::advance(ns);
    }
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  test::check_rules(t);
  const nlohmann::json file = nlohmann::json::parse(test::chrome_text(t));
  // As a viewer has them: `ts` and `dur` in microseconds, as doubles.
  const auto ns_of = [](const nlohmann::json& us) { return std::llround(us.get<double>() * 1000); };
  std::int64_t at = 3;
  int found = 0;
  for (const nlohmann::json& e : file.at("traceEvents")) {
    if (e.value("ph", "") != "X" || e.value("name", "").substr(0, 1) != "s") continue;
    REQUIRE(found < 4);
    CHECK(ns_of(e.at("ts")) == at);
    CHECK(ns_of(e.at("dur")) == lengths[found]);
    at += lengths[found++];
  }
  CHECK(found == 4);
  CHECK(at == 3 + 1127);
  // Where ts 0 lies in Unix time. The clock of this test is not the system's: only the sum is known.
  CHECK(file.at("baseTimeNanoseconds").get<std::int64_t>() == t.info().base_time_ns + t.info().begin_ns);
}

}  // namespace clock_epoch_test
