// What the libtorch adapter keeps of each thread, and which thread of libtorch's numbering is which of ours.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <ATen/record_function.h>

#include <stepprof/core/thread_log.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

class torch_name_cache;

// Trivial, so that reading it needs no guard. What it owns is freed when the thread ends, see torch_scope.
struct torch_thread {
  void* spare;  // scopes to be used again
  std::uint32_t spare_count;
  bool is_freed_at_end;
  bool ended;
  bool wrapper_begins;         // the last thing that happened here was the begin of the engine's wrapper around a node
  std::uint64_t torch_thread;  // libtorch's number of this thread; 0: not asked yet
  torch_name_cache* names;     // null: none yet
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT thread_local torch_thread this_torch_thread = {};

// Which of our logical threads a thread of libtorch's numbering is. A graph's nodes keep libtorch's number of the
// forward thread, which may be gone when they run. Both numbers are dense and never used again in a process, so a fixed
// table does: a later thread takes the place of the one that began `places` threads before it, and links to that one
// are then without a thread. No lock, no allocation.
class torch_thread_table {
 public:
  static constexpr std::size_t places = 65536;

  void set(std::uint64_t torch_id, std::uint32_t logical_id) noexcept {
    std::atomic<std::uint64_t>& place = places_[torch_id % places];
    const std::uint64_t entry = torch_id << 32 | logical_id;
    // Relaxed: nothing else is read by it, and whoever asks for a thread has its number from that thread.
    if (place.load(std::memory_order_relaxed) != entry) place.store(entry, std::memory_order_relaxed);
  }
  // 0 when no op of the thread was recorded, or it was too long ago.
  [[nodiscard]] std::uint32_t find(std::uint64_t torch_id) const noexcept {
    const std::uint64_t entry = places_[torch_id % places].load(std::memory_order_relaxed);
    return entry >> 32 == (torch_id & 0xffffffffu) ? static_cast<std::uint32_t>(entry) : 0;
  }

 private:
  std::atomic<std::uint64_t> places_[places];
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT torch_thread_table torch_threads{};

inline std::uint64_t this_torch_thread_id() {
  torch_thread& mine = this_torch_thread;
  if (mine.torch_thread == 0) mine.torch_thread = at::RecordFunction::currentThreadId();
  return mine.torch_thread;
}

}  // namespace detail
STEPPROF_END_NAMESPACE
