#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <support/catch.hpp>

#include <stepprof/trace/wide_key.hpp>

namespace wide_key_test {

using namespace stepprof::detail;

namespace {

constexpr std::uint32_t count = 10000;
constexpr std::uint32_t buckets = 10273;  // a prime, as libstdc++ has
constexpr std::uint32_t powers = 16384;   // as other libraries have
constexpr std::uint32_t few = 16;         // a random function puts about 8 of these keys into the fullest bucket

// How many of the keys are in the fullest bucket, where a hash has 32 bits.
template <class Key>
std::uint32_t fullest(Key key_of) {
  std::uint32_t most = 0;
  for (const std::uint32_t bucket_count : {buckets, powers}) {
    std::vector<std::uint32_t> keys_in(bucket_count, 0);
    for (std::uint32_t i = 0; i < count; ++i) ++keys_in[hash_of_wide_key<std::uint32_t>(key_of(i)) % bucket_count];
    most = (std::max)(most, *std::max_element(keys_in.begin(), keys_in.end()));
  }
  return most;
}

std::uint64_t pair(std::uint32_t first, std::uint32_t second) {
  return std::uint64_t{first} << 32 | second;
}

}  // namespace

// Catches: the upper half of a key left out where a hash has 32 bits, which puts all pairs with the same second number
// into one bucket (10^5 of them: minutes).
TEST_CASE("keys of two numbers are spread where a hash has 32 bits", "[wide_key]") {
  CHECK(fullest([](std::uint32_t i) { return pair(i, 7); }) <= few);
  CHECK(fullest([](std::uint32_t i) { return pair(7, i); }) <= few);
  CHECK(fullest([](std::uint32_t i) { return pair(i, UINT32_MAX); }) <= few);
  CHECK(fullest([](std::uint32_t i) { return pair(UINT32_MAX, i); }) <= few);
  CHECK(fullest([](std::uint32_t i) { return pair(i, i); }) <= few);
  CHECK(fullest([](std::uint32_t i) { return pair(i, count - i); }) <= few);
  CHECK(fullest([](std::uint32_t i) { return pair(i % 100, i / 100); }) <= few);
  CHECK(fullest([](std::uint32_t i) { return pair(i << 16, 1); }) <= few);
}

TEST_CASE("addresses are spread where a hash has 32 bits", "[wide_key]") {
  CHECK(fullest([](std::uint32_t i) { return 0x40000000u + std::uint64_t{i} * 16; }) <= few);
  CHECK(fullest([](std::uint32_t i) { return 0x7f0000000000u + std::uint64_t{i} * 4096; }) <= few);
}

TEST_CASE("a table by wide keys tells apart what differs in either half", "[wide_key]") {
  wide_key_map<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < 300; ++i)
    for (std::uint32_t k = 0; k < 300; ++k) numbers.emplace(pair(i, k), i * 300 + k);
  CHECK(numbers.size() == 90000);
  CHECK(numbers.at(pair(17, 299)) == 17 * 300 + 299);
  CHECK(numbers.at(pair(299, 17)) == 299 * 300 + 17);
}

}  // namespace wide_key_test
