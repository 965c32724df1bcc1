// Catches: reports that are lost or booked to another thread when many allocate at once, and an operator that the
// recorder calls itself.
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <support/catch.hpp>
#include <support/sanitized.hpp>

#include <stepprof/stepprof.hpp>

namespace threads_test {

namespace {

stepprof::profile_options with_memory(std::size_t budget_bytes) {
  stepprof::profile_options options;
  options.profile_memory = true;
  options.event_budget_bytes = budget_bytes;
  return options;
}

void check_nothing_lost(const stepprof::trace& t) {
  CHECK(t.losses().dropped_memory == 0);
  CHECK(t.losses().lost_frees == 0);
  CHECK(t.losses().late_frees == 0);
  CHECK(t.losses().unmatched_frees == 0);
}

constexpr int first_act_blocks = 1000;  // more than the first chunk of a thread holds

void* allocate_first(void* argument) {
  std::array<void*, first_act_blocks> blocks;
  for (void*& block : blocks) block = ::operator new(24);
  for (void* const block : blocks) ::operator delete(block);
  return argument;
}

// Blocks that threads pass to each other: who takes one out frees it.
constexpr int churn_threads = 8;
constexpr int churn_slots = 64;
std::array<std::atomic<char*>, churn_slots> slots;

struct churned {
  std::int64_t allocations = 0, allocated = 0, frees = 0, freed = 0;
};

// The size stands in the block.
std::size_t size_in(const char* block) {
  std::size_t size = 0;
  std::memcpy(&size, block, sizeof size);
  return size;
}

churned churn(int thread, int count) {
  const stepprof::record_function scope("churn " + std::to_string(thread));
  churned done;
  std::uint32_t random = 12345u + 977u * static_cast<std::uint32_t>(thread);
  for (int i = 0; i < count; ++i) {
    random = random * 1664525u + 1013904223u;
    const std::size_t size = 16 + (random >> 24);
    char* const block = static_cast<char*>(::operator new(size));
    std::memcpy(block, &size, sizeof size);
    done.allocated += static_cast<std::int64_t>(size);
    char* const other = slots[(random >> 8) % churn_slots].exchange(block, std::memory_order_acq_rel);
    if (other == nullptr) continue;
    ++done.frees;
    done.freed += static_cast<std::int64_t>(size_in(other));
    ::operator delete(other);
  }
  done.allocations = count;
  return done;
}

}  // namespace

// Catches: endless recursion, a thread-local set-up that allocates inside an allocation, blocks of the recorder in the
// numbers, reports that are lost before the thread has a log. FC-33: wolfpld/tracy#196, wolfpld/tracy PR197,
// gperftools/gperftools#1472, DataDog/ddprof PR289
TEST_CASE("a thread's first act may be an allocation", "[hook]") {
  constexpr int threads = 64;
  std::array<pthread_t, threads> all{};
  stepprof::profile prof(with_memory(64u << 20));
  for (pthread_t& thread : all) {
    if (::pthread_create(&thread, nullptr, &allocate_first, nullptr) != 0) std::abort();
  }
  for (pthread_t& thread : all) ::pthread_join(thread, nullptr);
  prof.stop();
  const stepprof::trace t = prof.result();
  check_nothing_lost(t);
  CHECK(t.memory().size() == 2u * threads * first_act_blocks);
  CHECK(t.memory().back().total_allocated == 0);
  CHECK(prof.key_averages().at("[memory]").self_memory.allocated_bytes == 24 * threads * first_act_blocks);
}

// Catches: a scope that is charged for another thread's bytes, running totals that drift or are negative, times that go
// back, reports that are lost. FC-39: pytorch/kineto#504
TEST_CASE("ten million blocks that threads pass to each other are all accounted for", "[hook]") {
  constexpr int count = test::sanitized ? 20000 : 1250000;
  std::array<churned, churn_threads> done;
  std::vector<std::thread> threads;
  threads.reserve(churn_threads);
  for (auto& slot : slots) slot = nullptr;
  stepprof::profile prof(with_memory(std::size_t{1} << 30));
  for (int i = 0; i < churn_threads; ++i)
    threads.emplace_back([&done, i] { done[static_cast<std::size_t>(i)] = churn(i, count); });
  for (std::thread& thread : threads) thread.join();
  prof.stop();
  const stepprof::trace t = prof.result();
  check_nothing_lost(t);

  std::int64_t left = 0;
  for (auto& slot : slots) {
    char* const block = slot.exchange(nullptr);
    if (block == nullptr) continue;
    left += static_cast<std::int64_t>(size_in(block));
    ::operator delete(block);
  }
  const stepprof::event_averages rows = prof.key_averages();
  std::int64_t net = 0;
  for (const stepprof::event_average& row : rows.rows) net += row.self_memory.net_bytes();
  std::int64_t allocations = 0;
  for (int i = 0; i < churn_threads; ++i) {
    const churned& thread = done[static_cast<std::size_t>(i)];
    const stepprof::memory_sums& sums = rows.at("churn " + std::to_string(i)).self_memory;
    CHECK(sums.allocations == thread.allocations);
    CHECK(sums.allocated_bytes == thread.allocated);
    CHECK(sums.frees == thread.frees);
    CHECK(sums.freed_bytes == thread.freed);
    allocations += sums.allocations;
  }
  CHECK(allocations == std::int64_t{churn_threads} * count);
  // What std::thread keeps until the thread has ended is freed by then.
  CHECK(net == left);
  CHECK(t.memory().back().total_allocated == left);

  std::size_t wrong = 0;
  std::int64_t last_ns = INT64_MIN, live = 0;
  for (const stepprof::memory_event& m : t.memory()) {
    live += m.bytes;
    wrong += m.time_ns < last_ns || m.total_allocated < 0 || m.total_allocated != live;
    last_ns = m.time_ns;
  }
  CHECK(wrong == 0);
}

}  // namespace threads_test
