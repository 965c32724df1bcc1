// Catches: bytes that are not those asked for, reports that are lost or doubled, blocks that are freed by the wrong
// allocator.
#include <support/torch_recording.hpp>

#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace torch_memory_test {

namespace {

using test::recorded_torch;

// "name+allocated-freed" of every scope with memory.
std::map<std::string, std::pair<std::int64_t, std::int64_t>> booked(const stepprof::trace& t) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> sums;
  for (const stepprof::memory_event& m : t.memory()) {
    auto& sum = sums[m.event == stepprof::npos ? "" : test::name_of(t, m.event)];
    (m.is_free() ? sum.second : sum.first) += m.bytes;
  }
  return sums;
}

using bytes_by_name = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;

// An allocator of a program's own. With `handles`, its blocks are freed by more than their address.
class own_allocator : public c10::Allocator {
 public:
  explicit own_allocator(bool handles) : handles_(handles) {}
  c10::DataPtr allocate(std::size_t bytes) { return make(bytes); }
  c10::DataPtr allocate(std::size_t bytes) const { return make(bytes); }
  c10::DeleterFnPtr raw_deleter() const { return handles_ ? nullptr : &free_plain; }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }

  static inline int live = 0;
  static inline bool fails = false;

 private:
  c10::DataPtr make(std::size_t bytes) const {
    if (fails) throw std::bad_alloc();
    ++live;
    void* const block = std::malloc(bytes == 0 ? 1 : bytes);
    if (!handles_) return {block, block, &free_plain, c10::Device(c10::DeviceType::CPU)};
    return {block, new void*(block), &free_handle, c10::Device(c10::DeviceType::CPU)};
  }
  static void free_plain(void* block) {
    --live;
    std::free(block);
  }
  static void free_handle(void* handle) {
    const std::unique_ptr<void*> owner(static_cast<void**>(handle));
    free_plain(*owner);
  }
  bool handles_;
};

// Puts an allocator in place of the program's, for a block.
class allocator_in_use {
 public:
  explicit allocator_in_use(c10::Allocator* allocator) { c10::SetCPUAllocator(allocator); }
  ~allocator_in_use() { c10::SetCPUAllocator(before_); }
  allocator_in_use(const allocator_in_use&) = delete;
  allocator_in_use& operator=(const allocator_in_use&) = delete;

 private:
  c10::Allocator* before_ = c10::GetCPUAllocator();
};

}  // namespace

TEST_CASE("the bytes asked for are booked to the op, the free to the scope that drops the tensor", "[torch_memory]") {
  const stepprof::trace t = recorded_torch([] {
    torch::Tensor x = torch::empty({10});
    RECORD_USER_SCOPE("drop");
    x.reset();
    torch::empty({0});
  });
  CHECK(booked(t) == bytes_by_name{{"aten::empty", {40, 0}}, {"drop", {0, -40}}});
  CHECK(t.losses().unmatched_frees == 0);
}

// The example of the notes on torch's rules: outer { x = 4000 B; inner { y = 2000 B; free x }; z = 40 B }.
TEST_CASE("totals hold what is nested, self does not", "[torch_memory]") {
  torch::Tensor y, z;
  const stepprof::trace t = recorded_torch([&] {
    RECORD_USER_SCOPE("outer");
    torch::Tensor x = torch::empty({1000});
    {
      RECORD_USER_SCOPE("inner");
      y = torch::empty({500});
      x.reset();
    }
    z = torch::empty({10});
  });
  const stepprof::event_averages rows = stepprof::key_averages(t);
  CHECK(rows.at("outer").total_memory.net_bytes() == 2040);
  CHECK(rows.at("outer").self_memory.net_bytes() == 0);
  CHECK(rows.at("inner").total_memory.net_bytes() == -2000);
  CHECK(rows.at("inner").self_memory.net_bytes() == -4000);
}

TEST_CASE("frees of blocks of before attribute nothing", "[torch_memory]") {
  torch::Tensor without_observer = torch::empty({100});
  const stepprof::torch_observer observer;
  torch::Tensor before_the_window = torch::empty({100});
  const stepprof::trace t = recorded_torch([&] {
    RECORD_USER_SCOPE("drop");
    without_observer.reset();
    before_the_window.reset();
  });
  CHECK(booked(t).empty());
  CHECK(t.losses().unmatched_frees == 1);  // of the block that came from the observed allocator
}

TEST_CASE("blocks outlive the window and the observer", "[torch_memory]") {
  torch::Tensor x, y;
  const stepprof::trace t = recorded_torch([&] { x = torch::ones({100}); });
  CHECK(booked(t) == bytes_by_name{{"aten::empty", {400, 0}}});
  CHECK(x.sum().item<float>() == 100);
  x.resize_({200});  // by the allocator that the tensor remembers
  x.reset();
  const stepprof::trace later = recorded_torch([&] { y = torch::ones({1}); });
  CHECK(booked(later) == bytes_by_name{{"aten::empty", {4, 0}}});
}

// Catches: an adapter that stays in the program's allocator, or shuts others out by its priority.
TEST_CASE("the allocator is the program's again when the observer is gone", "[torch_memory]") {
  c10::Allocator* const before = c10::GetCPUAllocator();
  {
    const stepprof::torch_observer observer;
    CHECK(c10::GetCPUAllocator() != before);
  }
  CHECK(c10::GetCPUAllocator() == before);
  own_allocator own(false);
  c10::SetCPUAllocator(&own);  // priority 0, as before
  CHECK(c10::GetCPUAllocator() == &own);
  c10::SetCPUAllocator(before);
  CHECK(c10::GetCPUAllocator() == before);
}

// oneDNN's tensors and others take and give back blocks by their address.
TEST_CASE("raw allocation is observed, also when block and deleter are of different times", "[torch_memory]") {
  void* const old = c10::GetCPUAllocator()->raw_allocate(64);
  void* left = nullptr;
  const stepprof::trace t = recorded_torch([&] {
    c10::Allocator* const ours = c10::GetCPUAllocator();
    CHECK(ours->raw_deleter() == ours->raw_deleter());
    void* const block = ours->raw_allocate(128);
    ours->raw_deallocate(block);
    ours->raw_deallocate(old);
    left = ours->raw_allocate(32);
  });
  c10::GetCPUAllocator()->raw_deallocate(left);
  CHECK(booked(t) == bytes_by_name{{"", {128 + 32, -128}}});
}

TEST_CASE("an allocator of the program's own is observed, of either kind", "[torch_memory]") {
  for (const bool handles : {false, true}) {
    static own_allocator plain(false), with_handles(true);
    const allocator_in_use use(handles ? &with_handles : &plain);
    const stepprof::trace t = recorded_torch([] {
      torch::Tensor x = torch::empty({25});
      RECORD_USER_SCOPE("drop");
      x.reset();
    });
    CHECK(booked(t) == bytes_by_name{{"aten::empty", {100, 0}}, {"drop", {0, -100}}});
    CHECK(own_allocator::live == 0);  // each block was freed once, by its own allocator
  }
}

TEST_CASE("an allocation that fails is not reported", "[torch_memory]") {
  static own_allocator plain(false);
  const allocator_in_use use(&plain);
  const stepprof::trace t = recorded_torch([] {
    own_allocator::fails = true;
    CHECK_THROWS(torch::empty({25}));
    own_allocator::fails = false;
  });
  CHECK(booked(t).empty());
}

// The last case of this file: it uses up all places.
TEST_CASE("one allocator too many is refused, and the old ones go on", "[torch_memory]") {
  std::error_code ec;
  static std::vector<std::unique_ptr<own_allocator>> many;  // never destroyed: their places are not given back
  for (int i = 0; i < 5 && !ec; ++i) {
    many.push_back(std::make_unique<own_allocator>(false));
    const allocator_in_use use(many.back().get());
    const stepprof::torch_observer observer(ec);
  }
  REQUIRE(ec == stepprof::errc::unsupported);
  CHECK(test::contains(ec.message(), "more than 4"));
  const stepprof::trace t = recorded_torch([] { torch::empty({10}); });
  CHECK(booked(t).at("aten::empty").first == 40);
}

}  // namespace torch_memory_test
