// What a fuzz target asks its input for, and how it says that something is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace fuzz {

/// The bytes that decide what a target does, taken from the front. When they are used up, everything is 0.
class input {
 public:
  input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

  [[nodiscard]] bool empty() const noexcept { return at_ == end_; }
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  std::uint8_t byte() noexcept { return at_ == end_ ? std::uint8_t{0} : *at_++; }
  bool flag() noexcept { return (byte() & 1) != 0; }
  /// From 0 up to `count`, which is not 0 and at most 256, without it.
  std::size_t below(std::size_t count) noexcept { return byte() % count; }
  std::uint64_t bits() noexcept {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  /// Small ones, those around the ends of 32 and 64 bits, and any others.
  std::int64_t number() noexcept {
    constexpr std::int64_t odd[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX,         INT64_MAX - 1, INT64_MAX / 2,
                                    INT32_MIN, INT32_MAX,     INT64_MAX / 2 + 1, UINT32_MAX,    -1};
    const std::uint8_t what = byte();
    if (what < 160) return what;
    if (what < 160 + 10) return odd[what - 160];
    const std::uint64_t any = bits() >> what % 64;
    std::int64_t value = 0;
    std::memcpy(&value, &any, sizeof value);
    return value;
  }
  double real() noexcept {
    const std::uint64_t any = bits();
    double value = 0;
    std::memcpy(&value, &any, sizeof value);
    return value;
  }
  /// At most `limit` bytes, which may be 255.
  std::string text(std::size_t limit) {
    std::string result;
    for (std::size_t count = below(limit + 1); count > 0 && !empty(); --count) result += static_cast<char>(byte());
    return result;
  }
  std::string rest() {
    std::string result;
    while (!empty()) result += static_cast<char>(byte());
    return result;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

/// Ends the program where something that must hold does not: the driver keeps the input.
inline void require(bool holds, const char* what, const std::string& details = {}) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n%s\n", what, details.c_str());
  std::abort();
}
/// The same; the details are only made when it does not hold.
template <class Details, class = decltype(std::string(std::declval<Details&>()()))>
void require(bool holds, const char* what, Details details) {
  if (!holds) require(false, what, std::string(details()));
}

}  // namespace fuzz

/// What the driver calls, libFuzzer or our own: each target defines it. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
