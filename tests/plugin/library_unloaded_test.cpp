// Catches: a recorder that is gone with the library which brought it, or that reads names of one which is gone.
#include <support/catch.hpp>

#include <dlfcn.h>

#include <future>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include <stepprof/record.hpp>

namespace library_unloaded_test {

namespace {

class library {
 public:
  explicit library(const char* path) : handle_(::dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) FAIL(::dlerror());
  }
  ~library() { ::dlclose(handle_); }
  library(const library&) = delete;
  library& operator=(const library&) = delete;

  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_;
};

bool is_loaded(const char* path) {
  void* const handle = ::dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

void start_profile() {
  library(profiling_library).find<void()>("start_profile")();
}
nlohmann::json stop_profile() {
  const library profiling(profiling_library);
  return nlohmann::json::parse(profiling.find<const char*()>("stop_profile")()).at("traceEvents");
}

int count(const nlohmann::json& events, const char* name) {
  int found = 0;
  for (const nlohmann::json& event : events) found += event.at("ph") == "X" && event.at("name") == name;
  return found;
}

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

}  // namespace library_unloaded_test
