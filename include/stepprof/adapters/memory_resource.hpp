// A std::pmr::memory_resource that reports what it hands out.
#pragma once

#include <cstddef>
#include <memory_resource>

#include <stepprof/record/memory.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Hands out the memory of another resource and reports it, as blocks of a pool:
///
///     std::pmr::monotonic_buffer_resource arena;
///     stepprof::profiled_memory_resource reported(&arena, stepprof::memory_pool("arena"));
///     std::pmr::vector<int> numbers(&reported);
///
/// An upstream that gives memory back all at once, as monotonic_buffer_resource::release() does, is followed by a
/// report_free_range(). Threads as the upstream allows.
class profiled_memory_resource : public std::pmr::memory_resource {
 public:
  /// `upstream` must outlive this. The default pool is what <stepprof/record/operator_new.hpp> reports to: an upstream
  /// that calls new would then be reported twice there.
  profiled_memory_resource(std::pmr::memory_resource* upstream, const memory_pool& pool) noexcept
      : upstream_(upstream), pool_(pool) {}

  [[nodiscard]] std::pmr::memory_resource* upstream_resource() const noexcept { return upstream_; }
  [[nodiscard]] const memory_pool& pool() const noexcept { return pool_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* const block = upstream_->allocate(bytes, alignment);
    report_alloc(block, bytes, pool_);
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    report_free(block, pool_);
    upstream_->deallocate(block, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;  // what another one handed out, it has to report as freed
  }

  std::pmr::memory_resource* upstream_;
  memory_pool pool_;
};

STEPPROF_END_NAMESPACE
