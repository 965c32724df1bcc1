// Catches: a form of new or delete that is not reported, or does not do what the standard says.
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <list>
#include <memory_resource>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <support/catch.hpp>
#include <support/recorded.hpp>

#include <stepprof/adapters/allocator.hpp>
#include <stepprof/adapters/memory_resource.hpp>
#include <stepprof/stepprof.hpp>

// clang++ declares these only with -fsized-deallocation; defined they are all the same.
void operator delete(void* block, std::size_t) noexcept;
void operator delete[](void* block, std::size_t) noexcept;
void operator delete(void* block, std::size_t, std::align_val_t) noexcept;
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept;

namespace operators_test {

namespace {

// What happens in a scope "s", with live bytes of the pool at the end.
struct seen {
  stepprof::memory_sums sums;
  std::int64_t live = 0;
};
template <class Body>
seen in_scope(Body body, const std::optional<std::string>& pool = {}) {
  stepprof::profile prof(test::with_memory());
  {
    STEPPROF_SCOPE("s");
    body();
  }
  prof.stop();
  stepprof::key_averages_options options;
  options.memory.pool = pool;
  const stepprof::memory_sums sums = prof.key_averages(options).at("s").self_memory;
  return {sums, sums.net_bytes()};
}

[[gnu::noinline]] bool is_aligned(const void* block, std::size_t alignment) {
  STEPPROF_CLOBBER_MEMORY();  // or g++ would do it after the block is freed, and warn
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

int handler_calls = 0;
void give_up_at_third_call() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

constexpr std::size_t too_much = std::numeric_limits<std::size_t>::max() / 4;

}  // namespace

// Catches: a form that is forgotten, a size that is rounded, a block that is reported by two operators.
TEST_CASE("every form of new and delete reports its block once", "[hook]") {
  constexpr auto wide = std::align_val_t(256);
  bool aligned = true;
  const seen s = in_scope([&] {
    ::operator delete(::operator new(1));
    ::operator delete[](::operator new[](2));
    ::operator delete(::operator new(4, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](8, std::nothrow), std::nothrow);
    ::operator delete (::operator new(16), std::size_t{16});
    ::operator delete[](::operator new[](32), std::size_t{32});
    void* block = ::operator new(64, wide);
    aligned = aligned && is_aligned(block, 256);
    ::operator delete(block, wide);
    block = ::operator new[](129, wide);  // no multiple of the alignment
    aligned = aligned && is_aligned(block, 256);
    ::operator delete[](block, wide);
    block = ::operator new(256, wide, std::nothrow);
    aligned = aligned && is_aligned(block, 256);
    ::operator delete(block, wide, std::nothrow);
    block = ::operator new[](512, wide, std::nothrow);
    aligned = aligned && is_aligned(block, 256);
    ::operator delete[](block, wide, std::nothrow);
    ::operator delete (::operator new(1024, wide), std::size_t{1024}, wide);
    ::operator delete[](::operator new[](2048, std::align_val_t(1)), std::size_t{2048}, std::align_val_t(1));
    ::operator delete(nullptr);
    ::operator delete[](nullptr, std::size_t{8});
  });
  CHECK(aligned);
  CHECK(s.sums.allocations == 12);
  CHECK(s.sums.frees == 12);
  CHECK(s.sums.unmatched_frees == 0);
  CHECK(s.sums.allocated_bytes == 4095 + 1);  // 129 for 128
  CHECK(s.sums.freed_bytes == 4096);
}

// Catches: a null for a block of no bytes, two blocks at one address, a byte reported that was not asked for.
TEST_CASE("blocks of no bytes are blocks", "[hook]") {
  bool are_two = false;
  const seen s = in_scope([&are_two] {
    void* const a = ::operator new(0);
    void* const b = ::operator new(0, std::align_val_t(64));
    are_two = a != nullptr && b != nullptr && a != b;
    ::operator delete(a);
    ::operator delete(b, std::align_val_t(64));
  });
  CHECK(are_two);
  CHECK(s.sums.allocated_bytes == 0);
  CHECK(s.sums.frees == 2);
}

// Catches: a null pointer from a throwing new, an exception from a nothrow one, a new_handler that is not asked until
// it is gone, a failed allocation that is reported.
TEST_CASE("memory that cannot be had is refused as the standard says", "[hook]") {
  volatile std::size_t bytes = too_much;
  volatile std::size_t most = std::numeric_limits<std::size_t>::max() - 7;
  int thrown = 0;
  bool null = true;
  const seen s = in_scope([&] {
    const auto expect = [&](auto allocate) {
      handler_calls = 0;
      std::set_new_handler(&give_up_at_third_call);
      try {
        null = null && allocate() == nullptr;
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
      null = null && handler_calls == 3;
    };
    expect([&] { return ::operator new(bytes); });
    expect([&] { return ::operator new[](bytes, std::align_val_t(64)); });
    expect([&] { return ::operator new(most, std::align_val_t(64)); });
    expect([&] { return ::operator new(bytes, std::nothrow); });
    expect([&] { return ::operator new[](bytes, std::align_val_t(64), std::nothrow); });
  });
  CHECK(thrown == 3);
  CHECK(null);
  // The exceptions themselves come from elsewhere.
  CHECK(s.sums.allocations == 0);
}

// Catches: memory of standard containers that is not seen, or seen twice.
TEST_CASE("what containers allocate is seen", "[hook]") {
  const seen s = in_scope([] {
    std::vector<int> numbers(1000);
    std::vector<std::string> texts(3, std::string(100, 'x'));  // and the one that is copied
    // A compiler may leave out what nobody sees.
    int* first_number = numbers.data();
    std::string* first_text = texts.data();
    STEPPROF_KEEP_IN_REGISTER(first_number);
    STEPPROF_KEEP_IN_REGISTER(first_text);
    STEPPROF_CLOBBER_MEMORY();
  });
  CHECK(s.sums.allocations == 1 + 1 + 4);
  CHECK(s.sums.allocated_bytes >= static_cast<std::int64_t>(4000 + 3 * sizeof(std::string) + 400));
  CHECK(s.live == 0);
}

// Catches: an arena counted twice, with its own memory and with what lies in it.
TEST_CASE("an arena whose memory comes from new is counted once", "[hook]") {
  const stepprof::memory_pool pool("arena");
  const auto body = [&] {
    std::pmr::monotonic_buffer_resource arena(1 << 16, std::pmr::new_delete_resource());
    stepprof::profiled_memory_resource reported(&arena, pool);
    std::pmr::vector<std::uint64_t> numbers(1000, &reported);
    numbers = std::pmr::vector<std::uint64_t>(10, &reported);
  };
  const seen all = in_scope(body);
  CHECK(all.sums.allocations == 1);  // the arena's block
  CHECK(all.sums.allocated_bytes >= 1 << 16);
  CHECK(all.live == 0);
  const seen inside = in_scope(body, "arena");
  CHECK(inside.sums.allocations == 2);
  CHECK(inside.sums.allocated_bytes == 8080);
  CHECK(inside.live == 0);
}

// Catches: a container that gives a block back to another pool than it came from, an allocator that drops its pool when
// a container makes nodes.
TEST_CASE("containers report to the pool that they were given", "[hook]") {
  static const stepprof::memory_pool weights("weights");
  static const stepprof::memory_pool other("other");
  using allocator = stepprof::profiled_allocator<double>;
  const auto body = [] {
    std::vector<double, allocator> a(100, allocator(weights));
    std::vector<double, allocator> b(7, allocator(other));
    b = std::move(a);
    std::list<double, allocator> nodes{{1.0, 2.0, 3.0}, allocator(weights)};
    b.resize(200);
    swap(a, b);
  };
  const seen of_weights = in_scope(body, "weights");
  CHECK(of_weights.sums.allocations == 1 + 3 + 1);
  CHECK(of_weights.live == 0);
  const seen of_other = in_scope(body, "other");
  CHECK(of_other.sums.allocated_bytes == 56);
  CHECK(of_other.live == 0);
}

}  // namespace operators_test
