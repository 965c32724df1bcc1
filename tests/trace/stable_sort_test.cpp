#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include <support/catch.hpp>

#include <stepprof/trace/stable_sort.hpp>

namespace stable_sort_test {

using namespace stepprof::detail;

namespace {

// Its place is kept on the heap, so that one which was moved from, or lost, is seen.
struct item {
  int key;
  std::unique_ptr<int> place;
};

bool less(const item& a, const item& b) {
  return a.key < b.key;
}

std::vector<item> items(const std::vector<int>& keys) {
  std::vector<item> result;
  for (std::size_t i = 0; i < keys.size(); ++i) result.push_back({keys[i], std::make_unique<int>(static_cast<int>(i))});
  return result;
}

// Whether these are the items with those keys, in order of key and then of the place at which they were.
bool is_sorted_from(const std::vector<int>& keys, const std::vector<item>& sorted) {
  if (sorted.size() != keys.size()) return false;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i].place == nullptr || keys[static_cast<std::size_t>(*sorted[i].place)] != sorted[i].key) return false;
    if (i == 0) continue;
    const item& before = sorted[i - 1];
    if (less(sorted[i], before) || (!less(before, sorted[i]) && *before.place >= *sorted[i].place)) return false;
  }
  return true;
}

std::vector<int> random_keys(std::mt19937& random, std::size_t size, int different) {
  std::vector<int> keys(size);
  for (int& key : keys) key = std::uniform_int_distribution<int>(1, different)(random);
  return keys;
}

}  // namespace

// Catches: equal values that change places, a value lost where halves of unequal size meet or one of them ends first,
// and a wrong order around the size up to which values are sorted one by one.
TEST_CASE("what is equal keeps its order", "[stable_sort]") {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 140; ++size)
    for (const int different : {1, 2, 7, 1000}) {
      INFO(size << " values, " << different << " of them different");
      const std::vector<int> keys = random_keys(random, size, different);
      std::vector<item> sorted = items(keys);
      sort_stably(sorted.begin(), sorted.end(), less);
      CHECK(is_sorted_from(keys, sorted));
    }
}

// Catches: a half that is taken for sorted because the other one is, and a reversed order.
TEST_CASE("any order that is nearly sorted or reversed is sorted", "[stable_sort]") {
  std::vector<int> rising, falling, last_first;
  for (int i = 0; i < 100; ++i) {
    rising.push_back(i);
    falling.push_back(100 - i);
    last_first.push_back(i == 99 ? -1 : i);
  }
  for (const std::vector<int>& keys : {rising, falling, last_first}) {
    std::vector<item> sorted = items(keys);
    sort_stably(sorted.begin(), sorted.end(), less);
    CHECK(is_sorted_from(keys, sorted));
  }
}

// Catches: a merge that prefers the second of equal values, or forgets what is left of one side.
TEST_CASE("two sorted ranges become one", "[stable_sort]") {
  const std::vector<std::vector<int>> ranges[] = {
      {{}, {}},        {{1}, {}},        {{}, {1}},        {{2}, {1}},       {{1, 2}, {3}},
      {{3}, {1, 2}},   {{1, 1}, {1, 1}}, {{1, 4}, {2, 3}}, {{2, 3}, {1, 4}}, {{1, 2, 2}, {2, 2, 3}},
      {{5, 6, 7}, {1}}};
  for (const std::vector<std::vector<int>>& pair : ranges) {
    std::vector<int> keys = pair[0];
    keys.insert(keys.end(), pair[1].begin(), pair[1].end());
    std::vector<item> merged = items(keys);
    merge_stably(merged.begin(), merged.begin() + static_cast<std::ptrdiff_t>(pair[0].size()), merged.end(), less);
    CHECK(is_sorted_from(keys, merged));
  }
}

}  // namespace stable_sort_test
