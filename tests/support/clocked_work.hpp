// Work on the clock that tests set.
#pragma once

#include <cstdint>

#include <support/fake_clock.hpp>

#include <stepprof/record.hpp>

namespace test {

// A scope of this name that takes so long.
inline void work(const char* name, std::int64_t ns = 100) {
  const stepprof::record_function scope(name);
  fake_clock::advance(ns);
}

}  // namespace test
