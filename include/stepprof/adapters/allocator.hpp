// An allocator for standard containers that reports what it hands out.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <stepprof/record/memory.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Allocates through another allocator and reports it, as blocks of a pool:
///
///     static const stepprof::memory_pool weights("weights");
///     std::vector<float, stepprof::profiled_allocator<float>> matrix(weights);
///
/// Holds the pool's address: the pool must outlive it, and every container that it is in. Two are equal when their
/// upstreams and their pools are. Threads as the upstream allows.
template <class T, class Upstream = std::allocator<T>>
class profiled_allocator {
  using traits = std::allocator_traits<Upstream>;
  static_assert(std::is_same_v<typename traits::value_type, T>, "the upstream must allocate the same type");

 public:
  using value_type = T;
  using pointer = typename traits::pointer;
  using const_pointer = typename traits::const_pointer;
  using void_pointer = typename traits::void_pointer;
  using const_void_pointer = typename traits::const_void_pointer;
  using size_type = typename traits::size_type;
  using difference_type = typename traits::difference_type;
  using propagate_on_container_copy_assignment = typename traits::propagate_on_container_copy_assignment;
  using propagate_on_container_move_assignment = std::true_type;  // a block goes with the pool that it belongs to
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;
  template <class U>
  struct rebind {
    using other = profiled_allocator<U, typename traits::template rebind_alloc<U>>;
  };

  /// Implicit, so that a container can be made of a pool.
  profiled_allocator(const memory_pool& pool, Upstream upstream = Upstream())  // NOLINT
      : upstream_(std::move(upstream)), pool_(&pool) {}
  profiled_allocator(const memory_pool&& temporary, Upstream upstream = Upstream()) = delete;
  template <class U, class OtherUpstream>
  profiled_allocator(const profiled_allocator<U, OtherUpstream>& other) noexcept  // NOLINT
      : upstream_(other.upstream()), pool_(&other.pool()) {}

  [[nodiscard]] pointer allocate(size_type count) {
    const pointer block = traits::allocate(upstream_, count);
    report_alloc(address_of(block), static_cast<std::size_t>(count) * sizeof(T), *pool_);
    return block;
  }
  void deallocate(pointer block, size_type count) noexcept {
    report_free(address_of(block), *pool_);
    traits::deallocate(upstream_, block, count);
  }
  template <class U, class... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    typename traits::template rebind_alloc<U> allocator(upstream_);
    std::allocator_traits<decltype(allocator)>::construct(allocator, at, std::forward<Arguments>(arguments)...);
  }
  template <class U>
  void destroy(U* at) {
    typename traits::template rebind_alloc<U> allocator(upstream_);
    std::allocator_traits<decltype(allocator)>::destroy(allocator, at);
  }
  [[nodiscard]] size_type max_size() const noexcept { return traits::max_size(upstream_); }
  [[nodiscard]] profiled_allocator select_on_container_copy_construction() const {
    return {*pool_, traits::select_on_container_copy_construction(upstream_)};
  }

  [[nodiscard]] const Upstream& upstream() const noexcept { return upstream_; }
  [[nodiscard]] const memory_pool& pool() const noexcept { return *pool_; }

 private:
  static const void* address_of(const pointer& block) noexcept {
    if constexpr (std::is_pointer_v<pointer>)
      return block;
    else
      return block == nullptr ? nullptr : std::addressof(*block);
  }

  Upstream upstream_;
  const memory_pool* pool_;
};

template <class T, class A, class U, class B>
[[nodiscard]] bool operator==(const profiled_allocator<T, A>& a, const profiled_allocator<U, B>& b) noexcept {
  const typename std::allocator_traits<B>::template rebind_alloc<T> other(b.upstream());
  return a.pool() == b.pool() && A(a.upstream()) == other;
}
template <class T, class A, class U, class B>
[[nodiscard]] bool operator!=(const profiled_allocator<T, A>& a, const profiled_allocator<U, B>& b) noexcept {
  return !(a == b);
}

STEPPROF_END_NAMESPACE
