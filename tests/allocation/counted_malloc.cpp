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
// Of an executable: need no memory of their own.
thread_local std::uint64_t call_count = 0;
thread_local std::uint64_t awaited_call = 0;
thread_local void (*at_awaited_call)() = nullptr;

void count_call() noexcept {
  if (++call_count == awaited_call) at_awaited_call();
}
}  // namespace

std::uint64_t test::heap_calls() noexcept {
  return call_count;
}

void test::at_heap_call(std::uint64_t n, void (*once)()) noexcept {
  at_awaited_call = once;
  awaited_call = n == 0 ? 0 : call_count + n;
}

extern "C" {
void* malloc(std::size_t size) noexcept {
  count_call();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  count_call();
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) noexcept {
  count_call();
  return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  count_call();
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
  if (old != nullptr) count_call();
  __libc_free(old);
}
}
