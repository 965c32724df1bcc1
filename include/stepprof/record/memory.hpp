// Memory reports: what the program's own allocators tell the profiler.
#pragma once

#include <cstddef>
#include <cstdint>

#include <stepprof/core/memory_device.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/core/registry.hpp>
#include <stepprof/record/text_ref.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Where blocks come from: an arena, a cache, a device. Made once and kept; pools of one name and device are one pool.
///
///     static const stepprof::memory_pool frames("frames");
///     stepprof::report_alloc(block, bytes, frames);
///
/// Blocks of different pools may have the same addresses, as the first block of an arena and the memory around it. A
/// block of a named pool that lies inside a block of another pool of its device, the arena's own, is counted with its
/// pool and not once more in what all of memory comes to. Holds a copy of its name, cut at 55 bytes, at a character.
/// Any thread; usable in every session, before main and after exit.
class memory_pool {
 public:
  /// The default pool: the heap.
  constexpr memory_pool() noexcept = default;
  explicit memory_pool(text_ref name, memory_device device = {}) noexcept
      : device_(device), size_(static_cast<std::uint8_t>(detail::size_within(name, sizeof name_))) {
    for (std::size_t i = 0; i < size_; ++i) name_[i] = name.data()[i];
  }

  [[nodiscard]] text_ref name() const noexcept { return {name_, size_}; }
  [[nodiscard]] memory_device device() const noexcept { return device_; }
  [[nodiscard]] friend bool operator==(const memory_pool& a, const memory_pool& b) noexcept {
    bool equal = a.device_ == b.device_ && a.size_ == b.size_;
    for (std::size_t i = 0; equal && i < a.size_; ++i) equal = a.name_[i] == b.name_[i];
    return equal;
  }
  [[nodiscard]] friend bool operator!=(const memory_pool& a, const memory_pool& b) noexcept { return !(a == b); }

 private:
  memory_device device_;
  std::uint8_t size_ = 0;
  char name_[55] = {};
};

namespace detail {

// One report; `numbers` are the address, the bytes where there are any, and the device where it is another than the
// CPU.
inline void write_memory(const cold_table& cold, std::uint32_t what, const std::uint64_t* numbers,
                         std::uint32_t count) noexcept {
  if (STEPPROF_LIKELY(write_numbers<product_clock>(what, numbers, count))) return;
  const record_part part{numbers, 8 * count};
  cold.append(what, true, &part, 1, 0);
}
STEPPROF_COLD STEPPROF_ADDRESS_ONLY(1) inline void write_alloc(const void* address, std::size_t bytes) noexcept {
  const std::uint64_t numbers[2] = {reinterpret_cast<std::uintptr_t>(address), bytes};
  if (const cold_table* const cold = cold_paths())
    write_memory(*cold, make_what(this_thread.own_work != 0 ? tag::own_alloc : tag::alloc, 0), numbers, 2);
}
STEPPROF_COLD STEPPROF_ADDRESS_ONLY(1) inline void write_free(const void* address) noexcept {
  const std::uint64_t number = reinterpret_cast<std::uintptr_t>(address);
  if (const cold_table* const cold = cold_paths())
    write_memory(*cold, make_what(this_thread.own_work != 0 ? tag::own_free : tag::free, 0), &number, 1);
}
// The same of a pool: `what` is the tag for the CPU.
STEPPROF_COLD inline void write_pool_memory(tag what, const memory_pool& pool, std::uint64_t address,
                                            const std::uint64_t* bytes) noexcept {
  const cold_table* const cold = cold_paths();
  if (cold == nullptr) return;
  std::uint64_t numbers[3] = {address, bytes == nullptr ? 0 : *bytes, 0};
  std::uint32_t count = bytes == nullptr ? 1 : 2;
  const memory_device device = pool.device();
  if (!(device == memory_device())) {
    what = what == tag::alloc ? tag::device_alloc : what == tag::free ? tag::device_free : tag::device_free_range;
    numbers[count++] = static_cast<std::uint16_t>(device.type) | std::uint64_t{static_cast<std::uint16_t>(device.index)}
                                                                     << 32;
  }
  const text_ref name = pool.name();
  const std::uint32_t id = name.size() == 0 ? 0 : cold->intern(name.data(), name.size());
  write_memory(*cold, make_what(what, id), numbers, count);
}
STEPPROF_ALWAYS_INLINE bool records_memory() noexcept {
  return (the_registry.gate.load(std::memory_order_relaxed) & flag_memory) != 0;
}

}  // namespace detail

/// An allocation of `bytes` bytes at `address`, after it was made. Booked to the innermost scope open on the calling
/// thread. A null address, an allocation that failed, is not one. Does nothing while no profile with profile_memory
/// records. Any thread, also in a signal handler: a report that interrupts the recorder itself is refused and counted.
STEPPROF_ADDRESS_ONLY(1) inline void report_alloc(const void* address, std::size_t bytes) noexcept {
  if (STEPPROF_UNLIKELY(detail::records_memory()) && address != nullptr) detail::write_alloc(address, bytes);
}
/// The same of a block of a pool.
STEPPROF_ADDRESS_ONLY(1)
inline void report_alloc(const void* address, std::size_t bytes, const memory_pool& pool) noexcept {
  if (STEPPROF_LIKELY(!detail::records_memory()) || address == nullptr) return;
  const std::uint64_t size = bytes;
  detail::write_pool_memory(detail::tag::alloc, pool, reinterpret_cast<std::uintptr_t>(address), &size);
}

/// A free of the block at `address`, before it is made, so that no other thread can have been given the block by then.
/// Its size is known from the allocation; when that was not recorded in the same window no bytes are booked and the
/// free is counted. A null address is ignored, as free() does. Any thread.
STEPPROF_ADDRESS_ONLY(1) inline void report_free(const void* address) noexcept {
  if (STEPPROF_UNLIKELY(detail::records_memory()) && address != nullptr) detail::write_free(address);
}
/// The same of a block of a pool: the one that was given with its allocation.
STEPPROF_ADDRESS_ONLY(1) inline void report_free(const void* address, const memory_pool& pool) noexcept {
  if (STEPPROF_LIKELY(!detail::records_memory()) || address == nullptr) return;
  detail::write_pool_memory(detail::tag::free, pool, reinterpret_cast<std::uintptr_t>(address), nullptr);
}

/// A free of every recorded block of the pool that begins within `bytes` bytes from `first` on: an arena that is
/// emptied, before its memory is used again. Blocks that were not recorded are not counted. Any thread.
STEPPROF_ADDRESS_ONLY(1)
inline void report_free_range(const void* first, std::size_t bytes, const memory_pool& pool) noexcept {
  if (STEPPROF_LIKELY(!detail::records_memory())) return;
  const std::uint64_t size = bytes;
  detail::write_pool_memory(detail::tag::free_range, pool, reinterpret_cast<std::uintptr_t>(first), &size);
}

STEPPROF_END_NAMESPACE
