// The program's operator new and delete, which report to the profiler: include this in ONE source file of the program.
//
// With profile_memory, every block that the program gets from new is then in the tables and in the trace, those of the
// standard containers included, on all threads. In a second source the linker says that these operators are defined
// twice. Blocks come from malloc as they are: no byte is added, no alignment changed, and a sanitizer's malloc does its
// work. While nothing records memory, an operator is its malloc or free, one load and one branch.
//
// clang++'s ThreadSanitizer has such operators itself, and not weak ones: a program with it cannot have these; g++'s
// can.
//
// The size that is reported is the one that was asked for. What the profiler itself allocates, in step(), stop(),
// key_averages() and so on, is not the program's and is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <stepprof/record/memory.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// What aligned_alloc wants: sizes that are multiples. 0: there is no such size.
inline std::size_t round_up(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return bytes > SIZE_MAX - alignment ? 0 : rounded;
}
// Not of size 0, which may be null without having failed. `alignment` 0: what malloc gives.
inline void* take_from_heap(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t asked = bytes == 0 ? 1 : bytes;
  if (alignment == 0) return std::malloc(asked);
  if (alignment < sizeof(void*)) alignment = sizeof(void*);
  const std::size_t rounded = round_up(asked, alignment);
  return rounded == 0 ? nullptr : std::aligned_alloc(alignment, rounded);
}
// While the heap has nothing, what std::set_new_handler() was given may find some or throw.
STEPPROF_COLD inline void* take_with_handler(std::size_t bytes, std::size_t alignment) {
  for (;;) {
    if (void* const block = take_from_heap(bytes, alignment)) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) STEPPROF_THROW(std::bad_alloc());
    handler();
  }
}
inline void* allocate(std::size_t bytes, std::size_t alignment = 0) {
  void* block = take_from_heap(bytes, alignment);
  if (STEPPROF_UNLIKELY(block == nullptr)) block = take_with_handler(bytes, alignment);
  report_alloc(block, bytes);
  return block;
}
inline void* allocate_or_null(std::size_t bytes, std::size_t alignment = 0) noexcept {
  STEPPROF_TRY {
    return allocate(bytes, alignment);
  }
  STEPPROF_CATCH_ALL {
    return nullptr;
  }
}
inline void release(void* block) noexcept {
  report_free(block);
  std::free(block);
}
constexpr std::size_t bytes_of(std::align_val_t alignment) noexcept {
  return static_cast<std::size_t>(alignment);
}

}  // namespace detail

STEPPROF_END_NAMESPACE

void* operator new(std::size_t bytes) {
  return stepprof::detail::allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return stepprof::detail::allocate(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return stepprof::detail::allocate_or_null(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return stepprof::detail::allocate_or_null(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return stepprof::detail::allocate(bytes, stepprof::detail::bytes_of(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return stepprof::detail::allocate(bytes, stepprof::detail::bytes_of(alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return stepprof::detail::allocate_or_null(bytes, stepprof::detail::bytes_of(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return stepprof::detail::allocate_or_null(bytes, stepprof::detail::bytes_of(alignment));
}

void operator delete(void* block) noexcept {
  stepprof::detail::release(block);
}
void operator delete[](void* block) noexcept {
  stepprof::detail::release(block);
}
void operator delete(void* block, std::size_t) noexcept {
  stepprof::detail::release(block);
}
void operator delete[](void* block, std::size_t) noexcept {
  stepprof::detail::release(block);
}
void operator delete(void* block, const std::nothrow_t&) noexcept {
  stepprof::detail::release(block);
}
void operator delete[](void* block, const std::nothrow_t&) noexcept {
  stepprof::detail::release(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  stepprof::detail::release(block);
}
void operator delete[](void* block, std::align_val_t) noexcept {
  stepprof::detail::release(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  stepprof::detail::release(block);
}
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept {
  stepprof::detail::release(block);
}
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept {
  stepprof::detail::release(block);
}
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept {
  stepprof::detail::release(block);
}
