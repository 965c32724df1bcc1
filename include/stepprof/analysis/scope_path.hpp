// Which events have the same chain of n enclosing scopes, without building a text for any of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Gives equal pairs equal numbers, counted from 1 (0 means "nothing there").
class pair_numbers {
 public:
  std::uint32_t operator()(std::uint32_t first, std::uint32_t second) {
    const std::uint64_t pair = (std::uint64_t{first} << 32) | second;
    return numbers_.emplace(pair, static_cast<std::uint32_t>(numbers_.size() + 1)).first->second;
  }

 private:
  wide_key_map<std::uint32_t> numbers_;
};

// For every event a number of the names of its `n` innermost enclosing events: equal chains, equal numbers.
//
// Names of 2^k ancestors are numbered by joining two runs of 2^(k-1), and n is put together from its binary digits, so
// the cost is events * log(n) however deep the chain is (n = 10^5 levels of 10^5 events would otherwise be 10^10
// steps). `names` holds a number per event that is equal where names are equal.
inline std::vector<std::uint32_t> enclosing_path_numbers(const std::vector<trace_event>& events,
                                                         const std::vector<std::uint32_t>& names, std::size_t n) {
  const std::size_t count = events.size();
  std::vector<std::uint32_t> result(count, 0), at(count), run(count), jump(count);
  std::size_t deepest = 0;
  std::vector<std::uint32_t> depth(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    at[i] = jump[i] = events[i].parent;
    run[i] = names[i] + 1;
    if (at[i] == npos) continue;
    depth[i] = depth[at[i]] + 1;
    deepest = (std::max)(deepest, std::size_t{depth[i]});
  }
  for (std::size_t rest = (std::min)(n, deepest); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) {
      pair_numbers number;
      for (std::size_t i = 0; i < count; ++i) {
        result[i] = number(result[i], at[i] == npos ? 0 : run[at[i]]);
        if (at[i] != npos) at[i] = jump[at[i]];
      }
    }
    pair_numbers number;
    std::vector<std::uint32_t> longer(count), farther(count);
    for (std::size_t i = 0; i < count; ++i) {
      longer[i] = number(run[i], jump[i] == npos ? 0 : run[jump[i]]);
      farther[i] = jump[i] == npos ? npos : jump[jump[i]];
    }
    run.swap(longer);
    jump.swap(farther);
  }
  return result;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
