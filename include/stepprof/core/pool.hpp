// The pool: all memory of all logs and names, in blocks of 64 KiB under one byte budget, recycled.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <stepprof/core/chunk.hpp>
#include <stepprof/core/system.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

inline constexpr std::size_t block_bytes = 64u << 10;
inline constexpr std::size_t small_bytes = 4u << 10;
inline constexpr std::uint32_t blocks_per_segment = 4096;  // 256 MiB of address space at a time
inline constexpr std::uint32_t max_segments = 64;
inline constexpr std::size_t segment_bytes = block_bytes * blocks_per_segment;

// A stack of block numbers: lock-free, any thread pushes and pops. The links stand beside the blocks, not in them, so
// that looking at a block that somebody else has just taken reads no user data. The upper half of `head` counts
// changes: without it a pop could succeed on a head that was popped and pushed again in between.
class block_stack {
 public:
  template <class Next>
  block_ref pop(Next next) noexcept {
    std::uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const auto top = static_cast<std::uint32_t>(head);
      if (top == 0) return 0;
      const std::uint64_t rest = (((head >> 32) + 1) << 32) | next(top).load(std::memory_order_relaxed);
      // Acquire: whatever the thread that freed the block did to it comes before our use of it.
      if (head_.compare_exchange_weak(head, rest, std::memory_order_acquire, std::memory_order_acquire)) return top;
    }
  }
  template <class Next>
  void push(block_ref ref, Next next) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    std::uint64_t mine;
    do {
      next(ref).store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
      mine = (((head >> 32) + 1) << 32) | ref;
      // Release: pairs with the acquire in pop.
    } while (!head_.compare_exchange_weak(head, mine, std::memory_order_release, std::memory_order_relaxed));
  }

 private:
  std::atomic<std::uint64_t> head_{0};
};

// Taking and giving back is lock-free and may be done by any thread, in signal handlers too. Budgets and pre-writing
// belong to the control side.
class block_pool {
 public:
  // Makes blocks up to `bytes` available. False when the system refuses the address space. Control side only.
  bool set_budget(std::uint64_t bytes) noexcept {
    const auto blocks = static_cast<std::uint32_t>(bytes / block_bytes);
    const std::uint32_t segments = (blocks + blocks_per_segment - 1) / blocks_per_segment;
    for (std::uint32_t i = 0; i < segments && i < max_segments; ++i) {
      if (segments_[i].load(std::memory_order_relaxed) != nullptr) continue;
      // Links may be there without their segment, which the system has refused before.
      auto* links = links_[i].load(std::memory_order_relaxed);
      if (links == nullptr)
        links = static_cast<std::atomic<std::uint32_t>*>(
            reserve_memory(sizeof(std::atomic<std::uint32_t>) * blocks_per_segment * 17, 64));
      links_[i].store(links, std::memory_order_relaxed);
      void* const memory = links == nullptr ? nullptr : reserve_memory(segment_bytes, block_bytes);
      if (memory == nullptr) return false;
      // Release: whoever sees the segment may use its memory and links.
      segments_[i].store(static_cast<char*>(memory), std::memory_order_release);
      // Release: whoever takes a block of the segment sees it.
      reserved_blocks_.fetch_add(blocks_per_segment, std::memory_order_release);
    }
    budget_blocks_.store(blocks, std::memory_order_release);
    return true;
  }
  [[nodiscard]] std::uint32_t budget_blocks() const noexcept { return budget_blocks_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t taken_blocks() const noexcept { return taken_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t high_water_blocks() const noexcept { return high_water_.load(std::memory_order_relaxed); }
  void reset_high_water() noexcept { high_water_.store(taken_blocks(), std::memory_order_relaxed); }
  // Blocks that a recording thread took before they had been written once.
  [[nodiscard]] std::uint64_t cold_blocks() const noexcept { return cold_blocks_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t written_blocks() const noexcept { return fresh_.load(std::memory_order_relaxed); }

  // A whole block, 0 when the budget is used up.
  block_ref take() noexcept {
    if (!count_one()) return 0;
    const auto links = [this](std::uint32_t n) -> std::atomic<std::uint32_t>& { return link(n); };
    if (const block_ref warm = warm_.pop(links)) return warm << 5;
    const block_ref fresh = take_fresh();
    if (fresh == 0) {
      taken_.fetch_sub(1, std::memory_order_relaxed);
      return 0;
    }
    cold_blocks_.fetch_add(1, std::memory_order_relaxed);
    return fresh << 5;
  }
  // A piece of 4 KiB, 0 when the budget is used up. Its block counts as taken until the control side finds all its
  // pieces free.
  block_ref take_small() noexcept {
    const auto links = [this](std::uint32_t n) -> std::atomic<std::uint32_t>& { return small_link(n); };
    if (const block_ref piece = small_.pop(links)) return piece;
    const block_ref whole = take();
    if (whole == 0) return 0;
    for (std::uint32_t i = 1; i < block_bytes / small_bytes; ++i) small_.push(whole | 16u | i, links);
    return whole | 16u;
  }
  void give_back(block_ref ref) noexcept {
    if ((ref & 16u) != 0) {
      small_.push(ref, [this](std::uint32_t n) -> std::atomic<std::uint32_t>& { return small_link(n); });
      return;
    }
    warm_.push(ref >> 5, [this](std::uint32_t n) -> std::atomic<std::uint32_t>& { return link(n); });
    taken_.fetch_sub(1, std::memory_order_relaxed);
  }

  // A piece that nobody uses, 0 when there is none: for the control side, which puts blocks together again.
  block_ref take_free_piece() noexcept {
    return small_.pop([this](std::uint32_t n) -> std::atomic<std::uint32_t>& { return small_link(n); });
  }

  [[nodiscard]] char* address(block_ref ref) const noexcept {
    const std::uint32_t number = (ref >> 5) - 1;
    char* const block = segments_[number / blocks_per_segment].load(std::memory_order_acquire) +
                        static_cast<std::size_t>(number % blocks_per_segment) * block_bytes;
    return (ref & 16u) != 0 ? block + (ref & 15u) * small_bytes : block;
  }
  [[nodiscard]] static std::uint32_t bytes_of(block_ref ref) noexcept {
    return static_cast<std::uint32_t>((ref & 16u) != 0 ? small_bytes : block_bytes);
  }

  // Writes to blocks that were never written until `blocks` of the budget are warm, so that no recording thread meets a
  // page fault. Control side only.
  void prewrite(std::uint32_t blocks) noexcept {
    if (blocks > budget_blocks()) blocks = budget_blocks();
    while (fresh_.load(std::memory_order_relaxed) < blocks) {
      const block_ref number = take_fresh();
      if (number == 0) return;
      // Each page is written; zero is as good as anything.
      char* const at = address(number << 5);
      for (std::size_t i = 0; i < block_bytes; i += 4096) *static_cast<volatile char*>(at + i) = 0;
      warm_.push(number, [this](std::uint32_t n) -> std::atomic<std::uint32_t>& { return link(n); });
    }
  }

 private:
  bool count_one() noexcept {
    const std::uint32_t taken = taken_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (taken > budget_blocks_.load(std::memory_order_acquire)) {
      taken_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    // A lost update only makes the next pre-writing a little smaller.
    if (taken > high_water_.load(std::memory_order_relaxed)) high_water_.store(taken, std::memory_order_relaxed);
    return true;
  }
  // The number, from 1, of a block that nobody has used yet.
  block_ref take_fresh() noexcept {
    std::uint32_t fresh = fresh_.load(std::memory_order_relaxed);
    while (fresh < reserved_blocks_.load(std::memory_order_acquire))
      if (fresh_.compare_exchange_weak(fresh, fresh + 1, std::memory_order_acq_rel, std::memory_order_relaxed))
        return fresh + 1;
    return 0;
  }
  [[nodiscard]] std::atomic<std::uint32_t>& link(std::uint32_t number) const noexcept {
    const std::uint32_t n = number - 1;
    return links_[n / blocks_per_segment].load(std::memory_order_relaxed)[n % blocks_per_segment];
  }
  [[nodiscard]] std::atomic<std::uint32_t>& small_link(block_ref ref) const noexcept {
    const std::uint32_t n = (ref >> 5) - 1;
    return links_[n / blocks_per_segment].load(
        std::memory_order_relaxed)[blocks_per_segment + (n % blocks_per_segment) * 16 + (ref & 15u)];
  }

  std::atomic<char*> segments_[max_segments] = {};
  std::atomic<std::atomic<std::uint32_t>*> links_[max_segments] = {};
  std::atomic<std::uint32_t> reserved_blocks_{0};
  std::atomic<std::uint32_t> budget_blocks_{0};
  std::atomic<std::uint32_t> fresh_{0};  // blocks handed out for the first time
  std::atomic<std::uint32_t> taken_{0};
  std::atomic<std::uint32_t> high_water_{0};
  std::atomic<std::uint64_t> cold_blocks_{0};
  block_stack warm_;
  block_stack small_;
};

inline STEPPROF_SHARED STEPPROF_CONSTINIT block_pool the_pool{};

}  // namespace detail

STEPPROF_END_NAMESPACE
