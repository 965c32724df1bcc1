// The program's malloc: the C library's, counted. operator new and every library call come through here, too.
#include "counted_malloc.hpp"

#include <cerrno>
#include <cstddef>

extern "C" {
void* __libc_malloc(std::size_t size) noexcept;
void* __libc_calloc(std::size_t count, std::size_t size) noexcept;
void* __libc_realloc(void* old, std::size_t size) noexcept;
void* __libc_memalign(std::size_t alignment, std::size_t size) noexcept;
void __libc_free(void* old) noexcept;
}

namespace {
thread_local std::uint64_t calls = 0;  // of an executable: needs no memory of its own
}

std::uint64_t test::heap_calls() noexcept {
  return calls;
}

extern "C" {
void* malloc(std::size_t size) noexcept {
  ++calls;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  ++calls;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) noexcept {
  ++calls;
  return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  ++calls;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  *out = memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
void free(void* old) noexcept {
  if (old != nullptr) ++calls;
  __libc_free(old);
}
}
