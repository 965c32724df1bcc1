// Hash tables with keys of 64 bits, most of which are two numbers of 32 bits side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Where std::size_t has 32 bits, std::hash of libstdc++ keeps the lower half of a key: all pairs that have the second
// number in common would be in one bucket. So both halves are joined, multiplied by 2^64 / the golden ratio (Knuth,
// The Art of Computer Programming, volume 3, section 6.4) and joined again. Nothing is to be done for a std::size_t
// that is as wide as a key.
template <class Size>
Size hash_of_wide_key(std::uint64_t key) noexcept {
  if constexpr (sizeof(Size) < sizeof(key)) {
    const std::uint64_t product = (key ^ (key >> 32)) * 0x9e3779b97f4a7c15u;
    return static_cast<Size>((product ^ (product >> 32)) & 0xffffffffu);
  } else {
    return std::hash<std::uint64_t>()(key);
  }
}

struct wide_key_hash {
  std::size_t operator()(std::uint64_t key) const noexcept { return hash_of_wide_key<std::size_t>(key); }
};

template <class Value>
using wide_key_map = std::unordered_map<std::uint64_t, Value, wide_key_hash>;

}  // namespace detail

STEPPROF_END_NAMESPACE
