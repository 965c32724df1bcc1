// Which frees belong to which allocations: by pool and address, in order of time, over all threads of one window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stepprof/trace/large_pages.hpp>
#include <stepprof/trace/memory_reports.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/time_base.hpp>
#include <stepprof/trace/trace_builder.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

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

// Pairs the reports of a window. A free counts only when its allocation was recorded in the same window.
//
// An allocation at a live address says that a free is missing. When it comes after all, it was late: the program
// reports frees after it has made them, and the block had a new owner by then. Two frees follow the new allocation
// then, and the first is the old block's; so is one by the thread that had the old block, and not the new one. When
// none comes, the free was lost, and the old block is taken back where the new one appears. So the live bytes are exact
// from the missing free on, and before it too high by that block alone.
class memory_pairs {
 public:
  // How an allocation, or a free of one, was found.
  struct result {
    std::uint32_t partner =
        npos;                // of a free its allocation, of an allocation the block whose free it shows to be lost
    std::uint8_t flags = 0;  // as in memory_event
  };

  explicit memory_pairs(memory_reports& reports) : reports_(reports.all()), states_(reports.pools().size()) {
    reserve_large(results_, reports_.size());
    results_.resize(reports_.size());
    for (std::size_t i = 0; i < states_.size(); ++i) {
      states_[i].device = reports.pools()[i].device;
      states_[i].is_named = reports.pools()[i].name != npos;
    }
    look_ahead();
    for (std::size_t i = 0; i < reports_.size();) {
      std::size_t end = i + 1;
      while (end < reports_.size() && reports_[end].ticks == reports_[i].ticks) ++end;
      if (end == i + 1)
        add(static_cast<std::uint32_t>(i));
      else
        add_moment(i, end);
      i = end;
    }
  }

  [[nodiscard]] const result& of(std::uint32_t report) const noexcept { return results_[report]; }
  // What each report of a range freed: (report, allocation), in order.
  [[nodiscard]] const std::vector<std::pair<std::uint32_t, std::uint32_t>>& range_frees() const noexcept {
    return range_frees_;
  }

 private:
  // What is known of one address of a pool.
  struct place {
    std::uint32_t live = npos;       // the allocation
    std::uint32_t displaced = npos;  // the block that seemed to be live when that was made
    std::uint32_t last = npos;       // of the last pair: the allocation ...
    std::uint32_t last_free = npos;  // ... and the free
  };
  struct pool_state {
    memory_device device;
    bool is_named = false;
    bool has_ranges = false;
    wide_key_map<place> places;                       // by address
    std::map<std::uint64_t, std::uint32_t> in_order;  // live blocks that a range, or another block, may lie in
  };

  // Which pools are freed by ranges, and where blocks of named pools will lie.
  void look_ahead() {
    for (const reported_memory& r : reports_) {
      if (r.kind == report_kind::free_range) states_[r.pool].has_ranges = true;
      if (is_allocation(r.kind) && states_[r.pool].is_named) inner_.push_back(r.address);
    }
    std::sort(inner_.begin(), inner_.end());
  }
  [[nodiscard]] bool may_enclose(const reported_memory& r) const noexcept {
    const auto at = std::lower_bound(inner_.begin(), inner_.end(), r.address);
    return at != inner_.end() && *at - r.address < r.bytes;
  }

  // Reports with one stamp. A free of a block that is not live waits for its allocation when another thread reports one
  // of that address in this moment; in a thread's own reports the order says what came first.
  void add_moment(std::size_t from, std::size_t to) {
    const std::vector<reported_memory> moment(reports_.begin() + static_cast<std::ptrdiff_t>(from),
                                              reports_.begin() + static_cast<std::ptrdiff_t>(to));
    std::vector<reported_memory> waiting;
    std::size_t at = from;
    for (std::size_t i = 0; i < moment.size(); ++i) {
      const reported_memory& r = moment[i];
      const auto is_partner = [&](const reported_memory& other) {
        return is_allocation(other.kind) && other.address == r.address && other.pool == r.pool;
      };
      const auto partner = std::find_if(moment.begin() + static_cast<std::ptrdiff_t>(i) + 1, moment.end(), is_partner);
      if (is_single_free(r.kind) && !is_live(r) && partner != moment.end() && partner->track != r.track) {
        waiting.push_back(r);
        continue;
      }
      reports_[at] = r;
      add(static_cast<std::uint32_t>(at++));
    }
    for (const reported_memory& r : waiting) {
      reports_[at] = r;
      add(static_cast<std::uint32_t>(at++));
    }
  }
  [[nodiscard]] bool is_live(const reported_memory& r) const {
    const auto& places = states_[r.pool].places;
    const auto found = places.find(r.address);
    return found != places.end() && found->second.live != npos;
  }

  void add(std::uint32_t i) {
    const reported_memory& r = reports_[i];
    pool_state& pool = states_[r.pool];
    if (r.kind == report_kind::free_range) return add_range(pool, i);
    place& at = pool.places[r.address];
    is_allocation(r.kind) ? add_allocation(pool, at, i) : add_free(pool, at, i);
  }

  void add_allocation(pool_state& pool, place& at, std::uint32_t i) {
    const reported_memory& r = reports_[i];
    at.displaced = results_[i].partner = at.live;
    at.live = i;
    at.last = at.last_free = npos;
    if (pool.is_named && lies_in_another(r)) results_[i].flags = memory_event::nested;
    // Assigned: the block that was displaced may stand there.
    if (pool.is_named || pool.has_ranges || may_enclose(r))
      pool.in_order[r.address] = i;
    else if (at.displaced != npos)
      pool.in_order.erase(r.address);
  }
  // Blocks of one pool do not overlap, so that only the last one that begins before can reach so far.
  [[nodiscard]] bool lies_in_another(const reported_memory& r) const {
    for (std::size_t p = 0; p < states_.size(); ++p) {
      const auto& blocks = states_[p].in_order;
      if (p == r.pool || blocks.empty() || !(states_[p].device == states_[r.pool].device)) continue;
      const auto behind = blocks.upper_bound(r.address);
      if (behind == blocks.begin()) continue;
      const reported_memory& outer = reports_[std::prev(behind)->second];
      const std::uint64_t offset = r.address - outer.address;
      if (offset < outer.bytes && r.bytes <= outer.bytes - offset) return true;
    }
    return false;
  }

  void add_free(pool_state& pool, place& at, std::uint32_t i) {
    if (at.live != npos && is_late(at, i)) {
      pair_late(at, i, at.live);
      return;
    }
    if (at.live != npos) {
      results_[i].partner = at.last = at.live;
      at.last_free = i;
      at.live = npos;
      if (!pool.in_order.empty()) pool.in_order.erase(reports_[i].address);
    } else if (at.displaced != npos && at.last_free != npos) {
      pair_late(at, at.last_free, at.last);
      results_[i].partner = at.last;
    }
  }
  // Whether the free is the displaced block's, as far as that can be told before another one comes.
  [[nodiscard]] bool is_late(const place& at, std::uint32_t i) const noexcept {
    if (at.displaced == npos) return false;
    const std::uint32_t by = reports_[i].track;
    return by == reports_[at.displaced].track && by != reports_[at.live].track;
  }
  void pair_late(place& at, std::uint32_t free, std::uint32_t displacing) noexcept {
    results_[free] = {at.displaced, memory_event::late};
    results_[displacing].partner = npos;
    at.displaced = npos;
  }

  void add_range(pool_state& pool, std::uint32_t i) {
    const reported_memory& r = reports_[i];
    auto& blocks = pool.in_order;
    for (auto at = blocks.lower_bound(r.address); at != blocks.end() && at->first - r.address < r.bytes;) {
      range_frees_.emplace_back(i, at->second);
      pool.places[at->first] = place();
      at = blocks.erase(at);
    }
  }

  std::vector<reported_memory>& reports_;
  std::vector<pool_state> states_;
  std::vector<result> results_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> range_frees_;
  std::vector<std::uint64_t> inner_;  // addresses of blocks of named pools, in order
};

// Adds the paired reports to the builder, with the live bytes of each device; frees that belong to no allocation are
// counted by the scope that made them. What the profiler allocated itself is left out, and so are its frees.
class memory_writer {
 public:
  memory_writer(trace_builder& builder, memory_reports& reports, tick_converter convert)
      : builder_(builder), reports_(reports.all()), pools_(reports.pools()), convert_(convert), pairs_(reports) {
    reserve_large(index_of_, reports_.size());
    index_of_.assign(reports_.size(), npos);
    builder_.reserve_memory(reports_.size());
  }

  void run() {
    auto range_free = pairs_.range_frees().begin();
    for (std::uint32_t i = 0; i < reports_.size(); ++i) {
      const memory_pairs::result& found = pairs_.of(i);
      if (is_allocation(reports_[i].kind)) {
        if (found.partner != npos) add_lost_free(found.partner, i);
        if (reports_[i].kind == report_kind::alloc) add_allocation(i);
      } else if (reports_[i].kind == report_kind::free_range) {
        for (; range_free != pairs_.range_frees().end() && range_free->first == i; ++range_free)
          add_free(i, range_free->second, 0);
      } else if (found.partner != npos) {
        add_free(i, found.partner, found.flags);
      } else if (reports_[i].kind == report_kind::free) {
        ++unmatched_[reports_[i].event];
      }
    }
    add_unmatched();
  }

 private:
  [[nodiscard]] std::int64_t bytes_of(std::uint32_t allocation) const noexcept {
    return saturating_cast<std::int64_t>(reports_[allocation].bytes);
  }
  live_bytes& live_on(memory_device device) {
    for (auto& [where, bytes] : live_)
      if (where == device) return bytes;
    return live_.emplace_back(device, live_bytes()).second;
  }
  std::uint32_t add(std::uint32_t at, const reported_memory& from, std::int64_t bytes, std::uint32_t allocation,
                    std::uint8_t flags) {
    const reported_pool& pool = pools_[from.pool];
    live_bytes& live = live_on(pool.device);
    const bool is_free = allocation != npos;
    if ((flags & memory_event::nested) == 0) is_free ? live.remove(bytes) : live.add(bytes);
    memory_event m;
    m.time_ns = convert_(reports_[at].ticks);
    m.address = reports_[is_free ? allocation : at].address;
    m.bytes = is_free ? -bytes : bytes;
    m.total_allocated = live.shown();
    m.event = from.event;
    m.track = from.track;
    m.allocation = is_free ? index_of_[allocation] : npos;
    m.pool = pool.name;
    m.device_type = pool.device.type;
    m.device_id = pool.device.index;
    m.flags = flags;
    return builder_.add_memory(m);
  }
  void add_allocation(std::uint32_t i) { index_of_[i] = add(i, reports_[i], bytes_of(i), npos, pairs_.of(i).flags); }
  void add_free(std::uint32_t i, std::uint32_t allocation, std::uint8_t flags) {
    if (index_of_[allocation] == npos) return;  // the profiler's own
    const auto all = static_cast<std::uint8_t>(flags | (pairs_.of(allocation).flags & memory_event::nested));
    add(i, reports_[i], bytes_of(allocation), allocation, all);
    if ((flags & memory_event::late) != 0) ++builder_.losses().late_frees;
  }
  void add_lost_free(std::uint32_t allocation, std::uint32_t at) {
    if (index_of_[allocation] == npos) return;
    const auto flags = static_cast<std::uint8_t>(pairs_.of(allocation).flags | memory_event::lost);
    add(at, reports_[allocation], bytes_of(allocation), allocation, flags);
    ++builder_.losses().lost_frees;
  }
  void add_unmatched() {
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
  const std::vector<reported_memory>& reports_;
  const std::vector<reported_pool>& pools_;
  tick_converter convert_;
  const memory_pairs pairs_;
  std::vector<std::uint32_t> index_of_;  // of an allocation in trace::memory()
  std::vector<std::pair<memory_device, live_bytes>> live_;
  std::unordered_map<std::uint32_t, std::uint32_t> unmatched_;
};

// Orders the reports and adds them to the builder.
inline void match_memory(trace_builder& builder, memory_reports& reports, tick_converter convert) {
  reports.sort();
  memory_writer(builder, reports, convert).run();
}

}  // namespace detail

STEPPROF_END_NAMESPACE
