// Live bytes over time, by pool or by scope, in a number of points that a picture can show.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <stepprof/core/memory_device.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What one curve of a timeline stands for.
enum class memory_group : std::uint8_t {
  pool,  ///< A pool.
  key,   ///< The name of the innermost scope that was open when the memory was allocated.
};

struct memory_timeline_options {
  memory_group group_by = memory_group::pool;
  memory_device device = {};      ///< Whose memory is shown.
  std::size_t max_points = 2000;  ///< From 100 to 100000. More events are thinned out; every peak stays.
  std::size_t max_series = 12;    ///< From 1 to 100. The largest; what is left is one series more, `(other)`.
};

/// A curve: the live bytes at each of the timeline's times.
struct memory_series {
  std::string name;        ///< Of the pool or the scope; `(default pool)`, `(outside scopes)`, `(other)`.
  bool is_nested = false;  ///< Blocks that lie inside blocks of another pool: their bytes are in that one's, too.
  std::int64_t peak_bytes = 0;
  std::int64_t peak_time_ns = 0;
  std::vector<std::int64_t> bytes;
};

/// Times count from the begin of the recording; from each to the next nothing that is shown changes.
struct memory_timeline {
  std::vector<std::int64_t> times_ns;
  std::vector<std::int64_t> total_bytes;  ///< The sum of the series that are not nested.
  std::vector<memory_series> series;      ///< Those that are not nested first, each kind by its peak, `(other)` last.
  std::int64_t peak_bytes = 0;
  std::int64_t peak_time_ns = 0;
  std::int64_t duration_ns = 0;
  std::size_t event_count = 0;  ///< Allocations and frees of the device.
  bool is_thinned = false;      ///< There were more than the points show.
  [[nodiscard]] std::int64_t last_bytes() const noexcept { return total_bytes.empty() ? 0 : total_bytes.back(); }
};

/// The timeline of a recording. Numbers of the options that are out of range are moved into it. Linear in the number of
/// memory events. Any thread.
[[nodiscard]] memory_timeline memory_over_time(const trace& recording, const memory_timeline_options& options = {});

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

class timeline_maker {
 public:
  timeline_maker(const trace& recording, const memory_timeline_options& options)
      : trace_(recording), options_(options) {
    options_.max_points = (std::clamp)(options.max_points, std::size_t{100}, std::size_t{100000});
    options_.max_series = (std::clamp)(options.max_series, std::size_t{1}, std::size_t{100});
  }

  memory_timeline run() {
    sort_into_groups();
    find_peaks();
    choose_series();
    find_peaks();  // of what was put together
    sample(points());
    return std::move(result_);
  }

 private:
  struct point {
    std::int64_t time_ns;
    std::int64_t bytes;
    std::uint32_t group;
    bool begins_anew;  // a recording that was merged behind another one: nothing of that is live
  };
  struct group {
    std::string name;
    bool is_nested = false;
    std::int64_t live = 0, peak = 0;
    std::size_t peak_at = npos;  // point
  };

  [[nodiscard]] std::int64_t since_begin(std::int64_t time_ns) const noexcept {
    return saturating_sub(time_ns, trace_.info().begin_ns);
  }

  void sort_into_groups() {
    std::int64_t total = 0;
    for (const memory_event& m : trace_.memory()) {
      const bool is_nested = m.has(memory_event::nested);
      if (!(memory_device{m.device_type, m.device_id} == options_.device)) continue;
      if (is_nested && options_.group_by == memory_group::key) continue;
      if (m.is_free() && m.allocation == npos) continue;  // of a block that is not in this part of a recording
      const bool begins_anew = !is_nested && !m.is_free() && total != 0 && m.total_allocated == m.bytes;
      if (!is_nested) total = m.total_allocated;
      points_.push_back({since_begin(m.time_ns), m.bytes, group_of(m), begins_anew});
    }
  }
  // A free belongs to the group of its allocation.
  std::uint32_t group_of(const memory_event& m) {
    const memory_event& allocation = m.allocation == npos ? m : trace_.memory()[m.allocation];
    const bool is_nested = m.has(memory_event::nested);
    std::uint32_t text = allocation.pool;
    if (options_.group_by == memory_group::key)
      text = allocation.event == npos ? npos : trace_.events()[allocation.event].name;
    const std::uint64_t key = std::uint64_t{text} << 1 | (is_nested ? 1u : 0u);
    const auto [at, is_new] = group_by_key_.emplace(key, static_cast<std::uint32_t>(groups_.size()));
    if (is_new) {
      groups_.emplace_back();
      groups_.back().is_nested = is_nested;
      groups_.back().name = text != npos ? std::string(trace_.text(text)) : nameless();
    }
    return at->second;
  }
  [[nodiscard]] const char* nameless() const noexcept {
    return options_.group_by == memory_group::key ? "(outside scopes)" : "(default pool)";
  }

  // Calls `at` with the index of each point after the point has been added to its group and to the total.
  template <class At>
  void replay(At at) {
    for (group& g : groups_) g.live = 0;
    total_ = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const point& p = points_[i];
      if (p.begins_anew) {
        for (group& g : groups_) g.live = 0;
        total_ = 0;
      }
      group& g = groups_[p.group];
      g.live = saturating_add(g.live, p.bytes);
      if (!g.is_nested) total_ = saturating_add(total_, p.bytes);
      at(i);
    }
  }
  void find_peaks() {
    for (group& g : groups_) g.peak = 0, g.peak_at = npos;
    result_.peak_bytes = 0;
    peak_at_ = npos;
    replay([this](std::size_t i) {
      group& g = groups_[points_[i].group];
      if (g.live > g.peak) g.peak = g.live, g.peak_at = i;
      if (total_ > result_.peak_bytes) result_.peak_bytes = total_, peak_at_ = i;
    });
  }

  // The largest of each kind, and what is left put together.
  void choose_series() {
    std::vector<std::uint32_t> order(groups_.size());
    for (std::uint32_t g = 0; g < order.size(); ++g) order[g] = g;
    sort_stably(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
      if (groups_[a].is_nested != groups_[b].is_nested) return groups_[b].is_nested;
      return groups_[a].peak > groups_[b].peak;
    });
    std::vector<group> chosen;
    std::vector<std::uint32_t> place(groups_.size());
    std::vector<std::size_t> members;
    std::size_t of_kind = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const group& g = groups_[order[i]];
      of_kind = i != 0 && groups_[order[i - 1]].is_nested == g.is_nested ? of_kind + 1 : 0;
      if (of_kind <= options_.max_series) {
        chosen.push_back(g);
        members.push_back(0);
      }
      if (++members.back() == 2) chosen.back().name = "(other)";
      place[order[i]] = static_cast<std::uint32_t>(chosen.size() - 1);
    }
    for (point& p : points_) p.group = place[p.group];
    groups_ = std::move(chosen);
  }

  // Which points are shown: of each stretch of time the highest and the last one, and all peaks.
  [[nodiscard]] std::vector<bool> points() {
    std::vector<bool> shown(points_.size(), points_.size() <= options_.max_points);
    result_.is_thinned = points_.size() > options_.max_points;
    if (!result_.is_thinned) return shown;
    if (peak_at_ != npos) shown[peak_at_] = true;
    for (const group& g : groups_)
      if (g.peak_at != npos) shown[g.peak_at] = true;
    const std::size_t stretches = (options_.max_points - (std::min)(groups_.size() + 1, options_.max_points / 2)) / 2;
    const std::int64_t first = points_.front().time_ns;
    const double length = static_cast<double>(saturating_sub(points_.back().time_ns, first)) + 1;
    std::size_t stretch = 0, highest = 0;
    std::int64_t most = -1;
    replay([&](std::size_t i) {
      const double at = static_cast<double>(saturating_sub(points_[i].time_ns, first)) / length;
      const auto now = static_cast<std::size_t>(at * static_cast<double>(stretches));
      if (now != stretch) shown[highest] = shown[i - 1] = true;
      if (now != stretch || total_ > most) highest = i, most = total_;
      stretch = now;
    });
    shown[highest] = shown[points_.size() - 1] = true;
    return shown;
  }

  void sample(const std::vector<bool>& shown) {
    result_.event_count = points_.size();
    result_.duration_ns = (std::max)(since_begin(trace_.info().end_ns), points_.empty() ? 0 : points_.back().time_ns);
    result_.peak_time_ns = time_of(peak_at_);
    for (const group& g : groups_) {
      memory_series& s = result_.series.emplace_back();
      s.name = g.name;
      s.is_nested = g.is_nested;
      s.peak_bytes = g.peak;
      s.peak_time_ns = time_of(g.peak_at);
    }
    if (points_.empty()) return;
    for (group& g : groups_) g.live = 0;
    total_ = 0;
    add_sample(0);
    replay([&](std::size_t i) {
      if (shown[i]) add_sample(points_[i].time_ns);
    });
    add_sample(result_.duration_ns);
  }
  [[nodiscard]] std::int64_t time_of(std::size_t at) const noexcept { return at == npos ? 0 : points_[at].time_ns; }
  void add_sample(std::int64_t time_ns) {
    result_.times_ns.push_back(time_ns);
    result_.total_bytes.push_back(total_);
    for (std::size_t g = 0; g < groups_.size(); ++g) result_.series[g].bytes.push_back(groups_[g].live);
  }

  const trace& trace_;
  memory_timeline_options options_;
  std::vector<point> points_;
  std::vector<group> groups_;
  wide_key_map<std::uint32_t> group_by_key_;
  std::int64_t total_ = 0;
  std::size_t peak_at_ = npos;
  memory_timeline result_;
};

}  // namespace detail

inline memory_timeline memory_over_time(const trace& recording, const memory_timeline_options& options) {
  const detail::own_work own;
  return detail::timeline_maker(recording, options).run();
}

STEPPROF_END_NAMESPACE
