// The words of a log, written by hand.
#pragma once

#include <cstdint>
#include <string>

#include <stepprof/core/word.hpp>

namespace test {

// Writes words as a recording thread does.
class log_writer {
  using tag = stepprof::detail::tag;

 public:
  void begin(std::uint32_t id, std::uint64_t ticks) { timed(tag::begin_user, id, ticks); }
  void end(std::uint32_t id, std::uint64_t ticks) { timed(tag::end, id, ticks); }
  void begin_manual(std::uint32_t id, std::uint64_t serial, std::uint64_t ticks) {
    timed(tag::begin_manual_user, id, ticks);
    number(serial);
  }
  void end_manual(std::uint32_t id, std::uint64_t serial, std::uint64_t ticks) {
    timed(tag::end_manual, id, ticks);
    number(serial);
  }
  void step(std::int64_t number_of_step, std::uint64_t ticks) {
    timed(tag::step, 0, ticks);
    number(static_cast<std::uint64_t>(number_of_step));
  }
  // Ends a scope of another thread.
  void end_of(std::uint32_t thread, std::uint32_t id, std::uint64_t ticks) {
    timed(tag::foreign_end, id, ticks);
    number(thread);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  using word = stepprof::detail::word;

  void timed(tag t, std::uint32_t id, std::uint64_t ticks) {
    if ((ticks >> 32) != high_) {
      high_ = ticks >> 32;
      put(static_cast<std::uint32_t>(ticks), stepprof::detail::make_what(tag::epoch, 0));
      number(ticks);
    }
    put(static_cast<std::uint32_t>(ticks), stepprof::detail::make_what(t, id));
  }
  void put(std::uint32_t low, std::uint32_t what) {
    const word w{low, what};
    bytes_.append(reinterpret_cast<const char*>(&w), 8);
  }
  void number(std::uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), 8); }

  std::uint64_t high_ = 0;
  std::string bytes_;
};

}  // namespace test
