#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <support/catch.hpp>

#include <stepprof/analysis/scope_path.hpp>

namespace scope_path_test {

using namespace stepprof;

namespace {
std::vector<trace_event> tree_of(const std::vector<std::uint32_t>& parents) {
  std::vector<trace_event> events(parents.size());
  for (std::size_t i = 0; i < parents.size(); ++i) events[i].parent = parents[i];
  return events;
}
// The chain as text, found by walking.
std::string walked(const std::vector<trace_event>& events, const std::vector<std::uint32_t>& names, std::size_t event,
                   std::size_t n) {
  std::string text;
  std::uint32_t at = events[event].parent;
  for (std::size_t k = 0; k < n && at != npos; ++k, at = events[at].parent) text += std::to_string(names[at]) + ";";
  return text;
}
}  // namespace

// Catches: chains of different length or content that get one number, or equal chains that get two.
TEST_CASE("numbers of enclosing paths are equal exactly where the chains are", "[scope_path]") {
  std::mt19937 engine(1);
  const auto random = [&engine](std::uint32_t below) { return static_cast<std::uint32_t>(engine() % below); };
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint32_t> parents, names;
    for (std::uint32_t i = 0; i < 60; ++i) {
      // Mostly deep, so that long chains meet; three names, so that they often agree.
      const std::uint32_t parent = i == 0 || random(12) == 0 ? npos : i - 1 - random((std::min)(i, 3u));
      parents.push_back(parent);
      names.push_back(random(3));
    }
    const std::vector<trace_event> events = tree_of(parents);
    for (const std::size_t n : {1u, 2u, 3u, 5u, 8u, 13u, 1000u}) {
      const std::vector<std::uint32_t> numbers = detail::enclosing_path_numbers(events, names, n);
      std::map<std::string, std::uint32_t> by_chain;
      std::map<std::uint32_t, std::string> by_number;
      bool all_agree = true;
      for (std::size_t i = 0; i < events.size(); ++i) {
        const std::string chain = walked(events, names, i, n);
        all_agree = all_agree && by_chain.emplace(chain, numbers[i]).first->second == numbers[i] &&
                    by_number.emplace(numbers[i], chain).first->second == chain;
      }
      INFO("round " << round << ", n " << n);
      REQUIRE(all_agree);
    }
  }
}

// Catches: work that grows with depth times n (here 10^10 steps).
TEST_CASE("paths of a chain of 100000 are numbered in little time", "[scope_path]") {
  std::vector<std::uint32_t> parents(100000), names(100000, 7);
  for (std::uint32_t i = 0; i < parents.size(); ++i) parents[i] = i == 0 ? npos : i - 1;
  const std::vector<std::uint32_t> numbers = detail::enclosing_path_numbers(tree_of(parents), names, 100000);
  CHECK(numbers[0] != numbers[1]);
  CHECK(numbers[99998] != numbers[99999]);
  const std::vector<std::uint32_t> short_ones = detail::enclosing_path_numbers(tree_of(parents), names, 99990);
  CHECK(short_ones[99998] == short_ones[99999]);
}

}  // namespace scope_path_test
