// Libraries that a program loads, and the profile in one of them.
#pragma once

#include <dlfcn.h>

#include <string>

#include <nlohmann/json.hpp>
#include <support/catch.hpp>

namespace test {

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

inline bool is_loaded(const char* path) {
  void* const handle = ::dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

// Of the library at `path`, which is opened and closed.
inline void start_profile(const char* path = profiling_library) {
  library(path).find<void()>("start_profile")();
}
// The events of the trace.
inline nlohmann::json stop_profile(const char* path = profiling_library) {
  const library profiling(path);
  return nlohmann::json::parse(profiling.find<const char*()>("stop_profile")()).at("traceEvents");
}

// What the profile said since it was started, a line each.
inline std::string diagnostics(const char* path = profiling_library) {
  return library(path).find<const char*()>("diagnostics")();
}

inline int count(const nlohmann::json& events, const char* name) {
  int found = 0;
  for (const nlohmann::json& event : events) found += event.at("ph") == "X" && event.at("name") == name;
  return found;
}

}  // namespace test
