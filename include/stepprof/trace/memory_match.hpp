// Which frees belong to which allocations: by address, in order of time, over all threads of one window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/time_base.hpp>
#include <stepprof/trace/trace_builder.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// A report of some thread, with the event it is booked to.
struct reported_memory {
  std::uint64_t ticks;
  std::uint64_t address;
  std::uint64_t bytes;  // of an allocation
  std::uint32_t event;
  std::uint32_t track;
  bool is_free;
};

// The bytes of all live blocks, exactly, so that what a free takes away again leaves what was there before.
class live_bytes {
 public:
  void add(std::int64_t bytes) noexcept {
    low_ += static_cast<std::uint64_t>(bytes);
    if (low_ < unit) return;
    low_ -= unit;
    ++high_;
  }
  void remove(std::int64_t bytes) noexcept {
    const auto less = static_cast<std::uint64_t>(bytes);
    if (low_ < less) {
      low_ += unit;
      --high_;
    }
    low_ -= less;
  }
  // As far as it fits.
  [[nodiscard]] std::int64_t shown() const noexcept { return high_ != 0 ? INT64_MAX : static_cast<std::int64_t>(low_); }

 private:
  static constexpr std::uint64_t unit = std::uint64_t{1} << 63;
  std::uint64_t low_ = 0;   // below the unit
  std::uint64_t high_ = 0;  // in units
};

// Adds the reports to the builder. A free counts only when its allocation was recorded in the same window; others are
// counted by the scope that made them. An allocation at a live address means that a free was lost: the block that was
// there is taken out of the live bytes and counted.
class memory_matcher {
 public:
  memory_matcher(trace_builder& builder, tick_converter convert) : builder_(builder), convert_(convert) {}

  void add(std::vector<reported_memory>& reports) {
    // Stable: reports of one thread stay in their order.
    std::stable_sort(reports.begin(), reports.end(),
                     [](const reported_memory& a, const reported_memory& b) { return a.ticks < b.ticks; });
    for (std::size_t i = 0; i < reports.size();) {
      std::size_t end = i + 1;
      while (end < reports.size() && reports[end].ticks == reports[i].ticks) ++end;
      if (end == i + 1)
        add_one(reports[i]);
      else
        add_moment(reports, i, end);
      i = end;
    }
    finish();
  }

 private:
  struct block {
    std::int64_t bytes;
    std::uint32_t allocation;
  };

  // Reports with one stamp. A free of a block that is not live waits for its allocation when another thread reports one
  // of that address in this moment; in a thread's own reports the order says what came first.
  void add_moment(const std::vector<reported_memory>& reports, std::size_t from, std::size_t to) {
    std::vector<const reported_memory*> waiting;
    for (std::size_t i = from; i < to; ++i) {
      const auto is_partner = [&](const reported_memory& r) { return !r.is_free && r.address == reports[i].address; };
      const auto end = reports.begin() + static_cast<std::ptrdiff_t>(to);
      const auto partner = std::find_if(reports.begin() + static_cast<std::ptrdiff_t>(i) + 1, end, is_partner);
      const bool waits = reports[i].is_free && live_.find(reports[i].address) == live_.end() && partner != end &&
                         partner->track != reports[i].track;
      if (waits)
        waiting.push_back(&reports[i]);
      else
        add_one(reports[i]);
    }
    for (const reported_memory* report : waiting) add_one(*report);
  }
  void add_one(const reported_memory& report) { report.is_free ? add_free(report) : add_allocation(report); }

  memory_event event_for(const reported_memory& report, std::int64_t bytes) {
    memory_event m;
    m.time_ns = convert_(report.ticks);
    m.address = report.address;
    m.bytes = bytes;
    m.total_allocated = total_.shown();
    m.event = report.event;
    m.track = report.track;
    return m;
  }
  void add_allocation(const reported_memory& report) {
    const auto found = live_.find(report.address);
    if (found != live_.end()) {
      ++builder_.losses().lost_frees;
      total_.remove(found->second.bytes);
      live_.erase(found);
    }
    const auto bytes = saturating_cast<std::int64_t>(report.bytes);
    total_.add(bytes);
    const std::uint32_t index = builder_.add_memory(event_for(report, bytes));
    live_.emplace(report.address, block{bytes, index});
  }
  void add_free(const reported_memory& report) {
    const auto found = live_.find(report.address);
    if (found == live_.end()) {
      ++unmatched_[report.event];
      return;
    }
    total_.remove(found->second.bytes);
    memory_event m = event_for(report, -found->second.bytes);
    m.allocation = found->second.allocation;
    builder_.add_memory(m);
    live_.erase(found);
  }
  void finish() {
    std::vector<unmatched_free> all;
    for (const auto& [event, count] : unmatched_) all.push_back({event, count});
    std::sort(all.begin(), all.end(),
              [](const unmatched_free& a, const unmatched_free& b) { return a.event < b.event; });
    for (const unmatched_free& free : all) {
      builder_.add_unmatched_free(free);
      builder_.losses().unmatched_frees += free.count;
    }
  }

  trace_builder& builder_;
  tick_converter convert_;
  std::unordered_map<std::uint64_t, block> live_;
  std::unordered_map<std::uint32_t, std::uint32_t> unmatched_;
  live_bytes total_;
};

inline void match_memory(trace_builder& builder, std::vector<reported_memory>& reports, tick_converter convert) {
  memory_matcher(builder, convert).add(reports);
}

}  // namespace detail

STEPPROF_END_NAMESPACE
