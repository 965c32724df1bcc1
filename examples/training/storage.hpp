// The memory of tensors: one block, reported when it comes and when it goes.
#pragma once

#include <cstddef>
#include <new>

#include <stepprof/record.hpp>

namespace training {

/// One uninitialised block of memory. This is the only place of the example that reports memory, and all that it knows
/// is its own address: which scope, which step, which thread is found by the profiler from where the report stands.
class storage {
 public:
  explicit storage(std::size_t bytes) : data_(::operator new(bytes, alignment)) {
    stepprof::report_alloc(data_, bytes);
  }
  ~storage() {
    // Reported first: once the block is given back, another thread may get the same address and report that.
    stepprof::report_free(data_);
    ::operator delete(data_, alignment);
  }
  storage(const storage&) = delete;
  storage& operator=(const storage&) = delete;

  [[nodiscard]] void* data() const noexcept { return data_; }

 private:
  static constexpr std::align_val_t alignment{64};  // a cache line, and enough for Eigen's widest vectors
  void* data_;
};

}  // namespace training
