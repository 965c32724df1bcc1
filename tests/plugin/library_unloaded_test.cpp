// Catches: a recorder that is gone with the library which brought it, or that reads names of one which is gone.
#include <support/catch.hpp>
#include <support/sanitized.hpp>

#include <fstream>
#include <future>
#include <thread>
#include <vector>

#include <stepprof/record.hpp>

#include "library.hpp"

namespace library_unloaded_test {

using test::count;
using test::is_loaded;
using test::library;
using test::start_profile;
using test::stop_profile;

namespace {

// A thread that records a scope, and ends when it is told to.
class marked_thread {
 public:
  marked_thread() {
    std::promise<void> recorded;
    thread_ = std::thread([this, &recorded] {
      { STEPPROF_SCOPE("of a thread"); }
      recorded.set_value();
      end_.get_future().wait();
    });
    recorded.get_future().wait();
  }
  ~marked_thread() {
    end_.set_value();
    thread_.join();
  }
  marked_thread(const marked_thread&) = delete;
  marked_thread& operator=(const marked_thread&) = delete;

 private:
  std::promise<void> end_;
  std::thread thread_;
};

long resident_pages() {
  long all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

}  // namespace

// Catches: a library that is unloaded although scopes, and threads that end, call the recorder in it.
TEST_CASE("the library with the recorder stays when it is unloaded", "[plugin]") {
  {
    marked_thread before;  // the recorder is not there yet
    start_profile();       // the library is opened and closed
    REQUIRE(is_loaded(profiling_library));
    const marked_thread outlives_the_profile;
    {
      STEPPROF_SCOPE("of the program");
      const marked_thread ends;
    }
    const nlohmann::json events = stop_profile();
    CHECK(count(events, "of the program") == 1);
    CHECK(count(events, "of a thread") == 2);
    const stepprof::record_function scope("recorded by nobody");
    CHECK_FALSE(scope.recorded());
  }
  start_profile();
  {
    STEPPROF_SCOPE("of the program");
    const marked_thread ends;
  }
  const nlohmann::json events = stop_profile();
  CHECK(count(events, "of the program") == 1);
  CHECK(count(events, "of a thread") == 1);
  CHECK(count(events, "recorded by nobody") == 0);
}

// Catches: names, keys and values of arguments that are kept by reference to the code that gave them.
// FC-65: https://github.com/wolfpld/tracy/issues/95. Native stacks of such libraries: tests/stacks.
TEST_CASE("what an unloaded library recorded can be read", "[plugin]") {
  start_profile();
  for (int i = 0; i < 2; ++i) {
    library(marking_library).find<void()>("mark_regions")();
    REQUIRE_FALSE(is_loaded(marking_library));
  }
  const nlohmann::json events = stop_profile();
  CHECK(count(events, "site of the library") == 2);
  CHECK(count(events, "name of the library") == 2);
  int values = 0;
  for (const nlohmann::json& event : events)
    values += event.at("name") == "site of the library" &&
              event.at("args").at("key of the library") == "value of the library";
  CHECK(values == 2);
}

// Catches: memory for each time that a library is loaded, rows of the loads that are not the same row, a registration
// that is left behind in memory of the library which the next load finds.
// FC-65: https://github.com/wolfpld/tracy/issues/95, https://github.com/wolfpld/tracy/issues/419
TEST_CASE("a library may be loaded and unloaded a hundred times while the program records", "[plugin]") {
  constexpr int loads = 100;
  constexpr int scopes = 100;
  std::vector<long> resident;
  start_profile();
  for (int i = 0; i < loads; ++i) {
    {
      const library marking(marking_library);
      marking.find<void()>("mark_regions")();
      std::thread(marking.find<void()>("mark_regions")).join();
    }
    REQUIRE_FALSE(is_loaded(marking_library));
    for (int k = 0; k < scopes; ++k) {
      STEPPROF_SCOPE("between loads");
    }
    resident.push_back(resident_pages());
  }
  const nlohmann::json events = stop_profile();
  CHECK(count(events, "site of the library") == 2 * loads);
  CHECK(count(events, "name of the library") == 2 * loads);
  CHECK(count(events, "between loads") == scopes * loads);
  CAPTURE(resident.front(), resident[loads / 4], resident[loads * 3 / 4], resident.back());
  // Sanitizers keep what was freed.
  if (!test::sanitized) CHECK(100 * (resident.back() - resident[loads * 3 / 4]) < resident.front());
}

}  // namespace library_unloaded_test
