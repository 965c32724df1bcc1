// An operator new that records while it allocates.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "counted.hpp"
#include "sessions.hpp"

namespace lifetimes {

std::atomic<bool> operators_record{false};

}  // namespace lifetimes

void* operator new(std::size_t bytes) {
  const bool records = lifetimes::operators_record.load(std::memory_order_relaxed);
  if (records) lifetimes::record_two("operator new");
  void* const block = std::malloc(bytes == 0 ? 1 : bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void operator delete(void* block) noexcept {
  if (lifetimes::operators_record.load(std::memory_order_relaxed)) lifetimes::record_one("operator delete");
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  ::operator delete(block);
}
