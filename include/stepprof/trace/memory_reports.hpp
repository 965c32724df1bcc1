// The memory reports of all threads of one window, in the order of time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <stepprof/core/memory_device.hpp>
#include <stepprof/trace/large_pages.hpp>
#include <stepprof/trace/log_replay.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// A report of some thread, with the event it is booked to.
struct reported_memory {
  std::uint64_t ticks;
  std::uint64_t address;
  std::uint64_t bytes;  // of an allocation or a range
  std::uint32_t event;
  std::uint32_t track;
  std::uint32_t pool;  // index into memory_reports::pools()
  report_kind kind;
};

// Blocks of one pool on one device are told apart by their addresses.
struct reported_pool {
  std::uint32_t name = npos;  // npos: the default pool
  memory_device device;
};

class memory_reports {
 public:
  void reserve(std::size_t count) { reserve_large(reports_, count); }
  // What is added from here on comes from the thread with this track, in the order of its log.
  void begin_thread(std::uint32_t track) {
    track_ = track;
    runs_.push_back(reports_.size());
  }
  void add(const thread_record::memory_report& m, std::uint32_t event, std::uint32_t pool_name) {
    reports_.push_back({m.ticks, m.address, m.bytes, event, track_, pool_index({pool_name, m.device}), m.kind});
  }
  // In the order of time; those of one thread stay in their order.
  void sort() {
    merge(0, runs_.size());
    runs_.clear();
  }
  [[nodiscard]] std::vector<reported_memory>& all() noexcept { return reports_; }
  [[nodiscard]] const std::vector<reported_pool>& pools() const noexcept { return pools_; }

 private:
  // Pools are few.
  std::uint32_t pool_index(const reported_pool& pool) {
    const auto is_it = [&](const reported_pool& p) { return p.name == pool.name && p.device == pool.device; };
    if (last_ < pools_.size() && is_it(pools_[last_])) return last_;
    const auto found = std::find_if(pools_.begin(), pools_.end(), is_it);
    last_ = static_cast<std::uint32_t>(found - pools_.begin());
    if (found == pools_.end()) pools_.push_back(pool);
    return last_;
  }
  [[nodiscard]] auto run(std::size_t i) {
    return reports_.begin() + static_cast<std::ptrdiff_t>(i < runs_.size() ? runs_[i] : reports_.size());
  }
  void merge(std::size_t first, std::size_t last) {
    if (last - first < 2) return;
    const std::size_t middle = first + (last - first) / 2;
    merge(first, middle);
    merge(middle, last);
    merge_stably(run(first), run(middle), run(last),
                 [](const reported_memory& a, const reported_memory& b) { return a.ticks < b.ticks; });
  }

  std::vector<reported_memory> reports_;
  std::vector<std::size_t> runs_;  // where the reports of each thread begin
  std::vector<reported_pool> pools_;
  std::uint32_t track_ = 0;
  std::uint32_t last_ = 0;  // pool
};

}  // namespace detail

STEPPROF_END_NAMESPACE
