#include <cstdint>

#include <support/catch.hpp>

#include <stepprof/trace/saturating.hpp>

namespace saturating_test {

using namespace stepprof::detail;

// Catches: a sum that overflows, or that ends at the wrong side.
TEST_CASE("sums end at the largest and the smallest number", "[saturating]") {
  const std::int64_t most = INT64_MAX, least = INT64_MIN;
  CHECK(saturating_add(std::int64_t{2}, std::int64_t{-5}) == -3);
  CHECK(saturating_add(most, std::int64_t{0}) == most);
  CHECK(saturating_add(most - 1, std::int64_t{1}) == most);
  CHECK(saturating_add(most, std::int64_t{1}) == most);
  CHECK(saturating_add(most, most) == most);
  CHECK(saturating_add(least, std::int64_t{-1}) == least);
  CHECK(saturating_add(least, least) == least);
  CHECK(saturating_add(least, most) == -1);
  CHECK(saturating_sub(std::int64_t{2}, std::int64_t{-5}) == 7);
  CHECK(saturating_sub(std::int64_t{0}, least) == most);
  CHECK(saturating_sub(std::int64_t{-1}, least) == most);  // exactly
  CHECK(saturating_sub(least, std::int64_t{1}) == least);
  CHECK(saturating_sub(most, least) == most);
  CHECK(saturating_sub(least, most) == least);
  CHECK(saturating_add(std::uint64_t{3}, std::uint64_t{4}) == 7);
  CHECK(saturating_add(std::uint64_t{UINT64_MAX}, std::uint64_t{1}) == UINT64_MAX);
}

// Catches: a number that becomes another one in a smaller type, or that loses its sign.
TEST_CASE("what does not fit becomes the nearest that does", "[saturating]") {
  CHECK(saturating_cast<std::int16_t>(std::int64_t{65536}) == 32767);
  CHECK(saturating_cast<std::int16_t>(std::int64_t{-32769}) == -32768);
  CHECK(saturating_cast<std::int16_t>(std::int64_t{-3}) == -3);
  CHECK(saturating_cast<std::uint32_t>(std::int64_t{99999999999}) == 4294967295u);
  CHECK(saturating_cast<std::uint32_t>(std::int64_t{-1}) == 0);
  CHECK(saturating_cast<std::int64_t>(std::uint64_t{UINT64_MAX}) == INT64_MAX);
  CHECK(saturating_cast<std::int64_t>(std::int64_t{INT64_MIN}) == INT64_MIN);
  CHECK(saturating_cast<std::uint64_t>(std::int64_t{-1}) == 0);
  CHECK(saturating_cast<std::uint64_t>(std::uint64_t{UINT64_MAX}) == UINT64_MAX);
}

}  // namespace saturating_test
