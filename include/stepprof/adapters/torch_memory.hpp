// Memory reports of libtorch's CPU allocator: an allocator around it, which reports what passes through.
//
// libtorch's own reports go to an object that each thread has to be given, under a lock and through a table of all
// blocks; threads without one are lost. An allocator sees all threads, knows the bytes asked for, and costs two
// more calls where nothing is recorded.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <stepprof/record/memory.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// One place for an allocator of the program's. Deleters are plain functions, so each place has its own. Never
// destroyed: tensors keep the address of their allocator, and blocks their deleter, after the adapter is gone.
//
// allocate() has lost its const in libtorch 2.3, and copy_data() has come: one of each pair overrides.
template <int Place>
class torch_allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) { return reported(inner_->allocate(bytes), bytes); }
  c10::DataPtr allocate(std::size_t bytes) const { return reported(inner_->allocate(bytes), bytes); }
  c10::DeleterFnPtr raw_deleter() const { return inner_deleter_ == nullptr ? nullptr : &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }

  // Null: the place is free.
  [[nodiscard]] c10::Allocator* inner() const noexcept { return inner_; }
  void set_inner(c10::Allocator* inner) {
    inner_deleter_ = inner->raw_deleter();
    inner_ = inner;
  }
  static torch_allocator& get() {
    static auto* const allocator = new torch_allocator;
    return *allocator;
  }

 private:
  // Of an allocator whose blocks are freed by more than their address.
  struct held_block {
    c10::DataPtr block;
  };

  static void free_block(void* address) {
    report_free(address);
    inner_deleter_(address);
  }
  static void free_held(void* held) {
    const std::unique_ptr<held_block> owner(static_cast<held_block*>(held));
    report_free(owner->block.get());
  }
  static c10::DataPtr reported(c10::DataPtr block, std::size_t bytes) {
    void* const address = block.get();
    if (address == nullptr) return block;
    const bool is_plain = inner_deleter_ != nullptr && block.get_context() == address;
    if (!is_plain || !block.compare_exchange_deleter(inner_deleter_, &free_block)) {
      const c10::Device device = block.device();
      auto held = std::make_unique<held_block>(held_block{std::move(block)});
      block = c10::DataPtr(address, held.get(), &free_held, device);
      held.release();
    }
    report_alloc(address, bytes);
    return block;
  }

  static inline c10::Allocator* inner_ = nullptr;
  static inline c10::DeleterFnPtr inner_deleter_ = nullptr;
};

// Puts an allocator in place, at the lowest priority at which libtorch takes it: it is then replaced by whatever would
// have replaced the one before it. Priorities cannot be asked for.
inline void set_torch_allocator(c10::Allocator* allocator) {
  for (int priority = 0; priority < 256 && c10::GetCPUAllocator() != allocator; ++priority)
    c10::SetCPUAllocator(allocator, static_cast<std::uint8_t>(priority));
}

// The allocator in use, wrapped. Under the control lock.
class torch_memory {
 public:
  static constexpr int places = 4;

  // False: the program has used more allocators than there are places.
  bool install() { return install_at<0>(); }

  // Unless the program has set one of its own meanwhile, which may stand on ours.
  template <int Place = 0>
  void remove() {
    if constexpr (Place < places) {
      auto& ours = torch_allocator<Place>::get();
      if (c10::GetCPUAllocator() == &ours) return set_torch_allocator(ours.inner());
      remove<Place + 1>();
    }
  }

 private:
  template <int Place>
  bool install_at() {
    if constexpr (Place == places) {
      return false;
    } else {
      auto& ours = torch_allocator<Place>::get();
      c10::Allocator* const current = c10::GetCPUAllocator();
      if (current == &ours) return true;
      if (ours.inner() == nullptr) ours.set_inner(current);
      if (ours.inner() != current) return install_at<Place + 1>();
      set_torch_allocator(&ours);
      return true;
    }
  }
};

}  // namespace detail
STEPPROF_END_NAMESPACE
