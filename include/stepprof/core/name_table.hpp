// Names: an insert-only, lock-free set of texts in the pool, addressed by 22-bit numbers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <stepprof/core/cut_text.hpp>
#include <stepprof/core/pool.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// A name of the log's 24-bit ids: bit 23 tells run-time names from those of call sites, bit 22 which of the two
// run-time tables holds it (they take turns from session to session), the rest is the place in the table.
inline constexpr std::uint32_t runtime_name_bit = 1u << 23;
inline constexpr std::uint32_t runtime_table_bit = 1u << 22;
inline constexpr std::uint32_t place_mask = runtime_table_bit - 1;
// The name of every name for which there was no room. Place 0 of a table is never a name.
inline constexpr std::uint32_t overflow_name = runtime_name_bit;
// Stands for a name that is no longer known. No table has a place 0.
inline constexpr std::uint32_t lost_name = runtime_name_bit | runtime_table_bit;

// Longer names are cut here, at a character, and counted: names that agree so far are one name.
inline constexpr std::size_t max_name_bytes = 16384;

// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/), finished as in MurmurHash3 so that every two bits are good.
[[nodiscard]] inline std::uint64_t hash_text(const char* text, std::size_t size, std::uint64_t seed = 0) noexcept {
  std::uint64_t h = 14695981039346656037ull ^ seed;
  for (std::size_t i = 0; i < size; ++i) h = (h ^ static_cast<unsigned char>(text[i])) * 1099511628211ull;
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 33);
}

// The same for stacks, by words: a byte at a time would take as long as walking them.
[[nodiscard]] inline std::uint64_t hash_words(const std::uintptr_t* words, std::size_t count,
                                              std::uint64_t seed) noexcept {
  std::uint64_t h = 14695981039346656037ull ^ seed;
  for (std::size_t i = 0; i < count; ++i) {
    h = (h ^ words[i]) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
  }
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 33);
}

// A hash trie: each node has four children, chosen by two bits of the hash per level, set once by compare-and-swap. So
// there is no rehash, nothing moves, and a lookup may be interrupted and re-entered anywhere.
class name_table {
 public:
  struct node {
    std::atomic<std::uint32_t> child[4];  // places
    std::uint32_t hash;                   // low half: a filter before comparing texts
    std::uint32_t size;
    std::uint32_t line;       // of a call site
    std::uint32_t file_size;  // the file's name follows the text
    [[nodiscard]] const char* text() const noexcept { return reinterpret_cast<const char*>(this + 1); }
  };

  // The place of a text (with its source location), inserted when new. 0 when the table or the pool is full.
  // Lock-free, any thread, also in signal handlers.
  std::uint32_t insert(const char* text, std::size_t size, const char* file = nullptr,
                       std::uint32_t line = 0) noexcept {
    const std::size_t file_size = file == nullptr ? 0 : cut_text(file, std::strlen(file), 4096);
    return insert_hashed([&](std::uint64_t seed) { return hash_text(text, size, line + seed); },
                         [&](const node& n) { return same(n, text, size, file, file_size, line); },
                         [&](std::uint32_t hash) { return make(text, size, file, file_size, line, hash); });
  }

  // The same for a stack. `mark` is part of what it is; what find_modules() says of the frames, a word for each, is
  // asked for when the stack is new and kept behind them.
  template <class FindModules>
  std::uint32_t insert_stack(const std::uintptr_t* frames, std::uint32_t count, std::uint32_t mark,
                             FindModules find_modules) noexcept {
    const std::size_t size = count * sizeof *frames;
    const std::size_t modules_size = count * sizeof(std::uint32_t);
    return insert_hashed(
        [&](std::uint64_t seed) { return hash_words(frames, count, (std::uint64_t{mark} << 32) + seed); },
        [&](const node& n) {
          return n.size == size && n.line == mark && n.file_size == modules_size &&
                 std::memcmp(n.text(), frames, size) == 0;
        },
        [&](std::uint32_t hash) {
          return make(reinterpret_cast<const char*>(frames), size, reinterpret_cast<const char*>(find_modules()),
                      modules_size, mark, hash);
        });
  }

  // The node at a place that insert() returned; null for any other number.
  [[nodiscard]] const node* find(std::uint32_t place) const noexcept {
    const std::uint32_t used = used_.load(std::memory_order_acquire);
    if (place < slots || place % slots == 0 || place >= used) return nullptr;  // there is no block 0
    return at(place);
  }
  [[nodiscard]] std::uint32_t block_count() const noexcept {
    std::uint32_t count = 0;
    while (count + 1 < max_blocks && blocks_[count + 1].load(std::memory_order_relaxed) != 0) ++count;
    return count;
  }
  void set_limit(std::uint32_t blocks) noexcept { limit_.store(blocks, std::memory_order_relaxed); }

  // Empties the table and gives its blocks back. Only when no thread can be inside insert().
  void clear() noexcept {
    root_.store(0, std::memory_order_relaxed);
    for (std::uint32_t i = 1; i < max_blocks; ++i) {
      const block_ref block = blocks_[i].exchange(0, std::memory_order_relaxed);
      if (block == 0) break;
      the_pool.give_back(block);
    }
    used_.store(slots, std::memory_order_release);
  }

  [[nodiscard]] static std::size_t bytes_for(std::size_t size) noexcept { return sizeof(node) + size; }

 private:
  // `hash_with` gives other bits for another seed, `is_same` compares all of a node, `make_node` returns its place.
  template <class Hash, class Same, class Make>
  std::uint32_t insert_hashed(Hash hash_with, Same is_same, Make make_node) noexcept {
    std::uint64_t hash = hash_with(0);
    const auto filter = static_cast<std::uint32_t>(hash);
    std::atomic<std::uint32_t>* slot = &root_;
    std::uint32_t mine = 0;
    for (std::uint32_t level = 0;; ++level) {
      // Acquire: the node's text is visible with its place.
      std::uint32_t place = slot->load(std::memory_order_acquire);
      if (place == 0) {
        if (mine == 0) mine = make_node(filter);
        if (mine == 0) return 0;
        // Release: whoever finds the place sees the node. When another thread was first, look at what it put there.
        if (slot->compare_exchange_strong(place, mine, std::memory_order_acq_rel, std::memory_order_acquire))
          return mine;
      }
      node* const n = at(place);
      if (n->hash == filter && is_same(*n)) return place;
      if (level % 32 == 31) hash = hash_with(level);  // the bits are used up: take others
      slot = &n->child[(hash >> (2 * (level % 32))) & 3];
    }
  }

  static constexpr std::uint32_t slots = 4096;  // of 16 bytes in a block; place = block index * slots + slot
  static constexpr std::uint32_t max_blocks = (place_mask + 1) / slots;

  [[nodiscard]] node* at(std::uint32_t place) const noexcept {
    // Acquire: the block's number is visible to whoever learned the place from a slot.
    char* const block = the_pool.address(blocks_[place / slots].load(std::memory_order_acquire));
    return reinterpret_cast<node*>(block + (place % slots) * 16u);
  }
  static bool same(const node& n, const char* text, std::size_t size, const char* file, std::size_t file_size,
                   std::uint32_t line) noexcept {
    return n.size == size && n.line == line && n.file_size == file_size && std::memcmp(n.text(), text, size) == 0 &&
           (file_size == 0 || std::memcmp(n.text() + size, file, file_size) == 0);
  }
  std::uint32_t make(const char* text, std::size_t size, const char* file, std::size_t file_size, std::uint32_t line,
                     std::uint32_t hash) noexcept {
    const std::uint32_t place = reserve(static_cast<std::uint32_t>((bytes_for(size + file_size) + 15) / 16));
    if (place == 0) return 0;
    node* const n = at(place);
    for (auto& child : n->child) child.store(0, std::memory_order_relaxed);
    n->hash = hash;
    n->size = static_cast<std::uint32_t>(size);
    n->line = line;
    n->file_size = static_cast<std::uint32_t>(file_size);
    char* const out = reinterpret_cast<char*>(n + 1);
    std::memcpy(out, text, size);
    if (file_size != 0) std::memcpy(out + size, file, file_size);
    return place;
  }
  // Room for `count` slots in one block.
  std::uint32_t reserve(std::uint32_t count) noexcept {
    std::uint32_t used = used_.load(std::memory_order_acquire);
    for (;;) {
      // used_ starts at `slots` (block index 1 of a numbering in which index 0 is "no block yet") to keep place 0 free.
      const std::uint32_t slot = used % slots;
      if (slot != 0 && slot + count <= slots) {
        if (used_.compare_exchange_weak(used, used + count, std::memory_order_acq_rel, std::memory_order_acquire))
          return used;
        continue;
      }
      if (!add_block(used)) return 0;
      used = used_.load(std::memory_order_acquire);
    }
  }
  // Makes the block behind `used` and moves on to it. A thread that loses the race uses the winner's block.
  bool add_block(std::uint32_t used) noexcept {
    const std::uint32_t index = (used + slots - 1) / slots;  // of the new block
    if (index >= max_blocks || index > limit_.load(std::memory_order_relaxed)) return false;
    if (blocks_[index].load(std::memory_order_acquire) == 0) {
      const block_ref mine = the_pool.take();
      if (mine == 0) return false;
      block_ref none = 0;
      if (!blocks_[index].compare_exchange_strong(none, mine, std::memory_order_acq_rel, std::memory_order_acquire))
        the_pool.give_back(mine);
    }
    used_.compare_exchange_strong(used, index * slots + 1, std::memory_order_acq_rel, std::memory_order_relaxed);
    return true;
  }

  std::atomic<std::uint32_t> root_{0};
  std::atomic<std::uint32_t> used_{slots};
  std::atomic<std::uint32_t> limit_{max_blocks};
  std::atomic<block_ref> blocks_[max_blocks] = {};
};

}  // namespace detail

STEPPROF_END_NAMESPACE
