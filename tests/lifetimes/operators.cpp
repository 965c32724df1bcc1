// Operators new and delete that record while they allocate and free.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "counted.hpp"
#include "sessions.hpp"

namespace lifetimes {

namespace {

void* allocate(std::size_t bytes, std::size_t alignment = 16) noexcept {
  if (operators_record.load(std::memory_order_relaxed)) record_two("operator new");
  return std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}
void* allocate(std::size_t bytes, std::align_val_t alignment) noexcept {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* or_throw(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block) noexcept {
  if (operators_record.load(std::memory_order_relaxed)) record_one("operator delete");
  std::free(block);
}

}  // namespace

}  // namespace lifetimes

using lifetimes::allocate;
using lifetimes::or_throw;
using lifetimes::release;

// clang-format off
void* operator new(std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new[](std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new(std::size_t bytes, std::align_val_t a) { return or_throw(allocate(bytes, a)); }
void* operator new[](std::size_t bytes, std::align_val_t a) { return or_throw(allocate(bytes, a)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(bytes, a); }
void* operator new[](std::size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(bytes, a); }
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept { release(block); }
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept { release(block); }
// clang-format on
