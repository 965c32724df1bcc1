// Memory reports: what the program's own allocators tell the profiler.
#pragma once

#include <cstddef>
#include <cstdint>

#include <stepprof/core/registry.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

STEPPROF_COLD STEPPROF_ADDRESS_ONLY(1) inline void write_alloc(const void* address, std::size_t bytes) noexcept {
  const std::uint64_t values[2] = {reinterpret_cast<std::uintptr_t>(address), bytes};
  const record_part part{values, 16};
  cold_paths()->append(make_what(tag::alloc, 0), true, &part, 1, 0);
}
STEPPROF_COLD STEPPROF_ADDRESS_ONLY(1) inline void write_free(const void* address) noexcept {
  const std::uint64_t value = reinterpret_cast<std::uintptr_t>(address);
  const record_part part{&value, 8};
  cold_paths()->append(make_what(tag::free, 0), true, &part, 1, 0);
}
STEPPROF_ALWAYS_INLINE bool records_memory() noexcept {
  return (the_registry.gate.load(std::memory_order_relaxed) & flag_memory) != 0 && cold_paths() != nullptr;
}

}  // namespace detail

/// An allocation of `bytes` bytes at `address`, after it was made. Booked to the innermost scope open on the calling
/// thread. A null address, an allocation that failed, is not one. Does nothing while no profile with profile_memory
/// records. Any thread.
STEPPROF_ADDRESS_ONLY(1) inline void report_alloc(const void* address, std::size_t bytes) noexcept {
  if (STEPPROF_UNLIKELY(detail::records_memory()) && address != nullptr) detail::write_alloc(address, bytes);
}

/// A free of the block at `address`, before it is made, so that no other thread can have been given the block by then.
/// Its size is known from the allocation; when that was not recorded in the same window no bytes are booked and the
/// free is counted. A null address is ignored, as free() does. Any thread.
STEPPROF_ADDRESS_ONLY(1) inline void report_free(const void* address) noexcept {
  if (STEPPROF_UNLIKELY(detail::records_memory()) && address != nullptr) detail::write_free(address);
}

STEPPROF_END_NAMESPACE
