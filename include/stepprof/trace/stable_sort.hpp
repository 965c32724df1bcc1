// Sorting that leaves in their order what is equal. Instead of std::stable_sort and std::inplace_merge, as those of
// libstdc++ 12 call a function that is deprecated, and clang++ 18 and later warns of that in the program of a user to
// whom our headers are no system headers.
// https://github.com/llvm/llvm-project/issues/76515
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// The names are not those of std, which a call with iterators of std would find, too.

template <class Iterator>
using values_of = std::vector<typename std::iterator_traits<Iterator>::value_type>;

// `room` takes the first half for the time of merging.
template <class Iterator, class Less>
void merge_in_room(Iterator first, Iterator middle, Iterator last, const Less& less, values_of<Iterator>& room) {
  if (first == middle || middle == last || !less(*middle, *std::prev(middle))) return;
  room.assign(std::make_move_iterator(first), std::make_move_iterator(middle));
  for (auto left = room.begin(); left != room.end(); ++first) {
    if (middle != last && less(*middle, *left))
      *first = std::move(*middle++);
    else
      *first = std::move(*left++);
  }
}

template <class Iterator, class Less>
void sort_halves(Iterator first, Iterator last, const Less& less, values_of<Iterator>& room) {
  constexpr int few = 16;  // as they are sorted one by one no slower
  if (last - first <= few) {
    for (Iterator next = first; next != last; ++next)
      std::rotate(std::upper_bound(first, next, *next, less), next, std::next(next));
    return;
  }
  const Iterator middle = first + (last - first) / 2;
  sort_halves(first, middle, less, room);
  sort_halves(middle, last, less, room);
  merge_in_room(first, middle, last, less, room);
}

// Sorts [first, last), of which [first, middle) and [middle, last) are sorted.
template <class Iterator, class Less>
void merge_stably(Iterator first, Iterator middle, Iterator last, const Less& less) {
  values_of<Iterator> room;
  merge_in_room(first, middle, last, less, room);
}

template <class Iterator, class Less>
void sort_stably(Iterator first, Iterator last, const Less& less) {
  if (std::is_sorted(first, last, less)) return;
  values_of<Iterator> room;
  room.reserve(static_cast<typename values_of<Iterator>::size_type>((last - first) / 2));
  sort_halves(first, last, less, room);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
