// Where viewers will draw the events of a trace: which slice an arrow can be tied to, and what ties of time do to
// nesting.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// Perfetto sorts the slices of a thread by (begin, longer first, place in the file) and takes them as open at the
// right. Three things follow for a trace that nests exactly in integer ns:
//
// - A slice of no length that lies at the very end of its parent would be drawn outside it: it is drawn 1 ns earlier.
// - Slices that begin in the same ns become a chain, each the child of the one before it. Where that is not the true
//   nesting, or where it holds slices of no length (about which readers disagree), the true parent is told.
// - An arrow is tied to the slice that began last, whether or not that has ended. Catapult takes the innermost slice,
//   as closed at both ends, and counts instants of the thread as slices. So only the last slice of a chain can be tied
//   to, at its begin or, where another slice ends in that ns, one ns later; and no instant may lie in between.

// An arrow that can be drawn.
struct drawn_arrow {
  trace_link link;
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
};

// An event that viewers would show elsewhere than it is.
struct drawing_remark {
  std::uint32_t event = npos;
  bool moved = false;        // drawn 1 ns earlier
  bool tell_parent = false;  // the parent cannot be found out from the times
};

struct chrome_layout {
  std::vector<drawn_arrow> arrows;
  std::vector<drawing_remark> remarks;  // by event
  std::uint64_t arrows_left_out = 0;
  std::uint64_t too_deep = 0;  // scopes that Perfetto drops

  static constexpr std::size_t max_depth = 512;
};

// Instants that will be drawn on threads, to be asked whether there is one in a range of time.
class thread_instants {
 public:
  explicit thread_instants(const trace& recording) {
    for (const memory_event& m : recording.memory()) instants_.emplace_back(m.track, m.time_ns);
    for (const trace_mark& m : recording.marks())
      if (m.kind == trace_mark::type::instant) instants_.emplace_back(m.track, m.time_ns);
    std::sort(instants_.begin(), instants_.end());
  }
  [[nodiscard]] bool any_within(std::uint32_t track, std::int64_t first_ns, std::int64_t last_ns) const noexcept {
    const auto at = std::lower_bound(instants_.begin(), instants_.end(), std::make_pair(track, first_ns));
    return at != instants_.end() && at->first == track && at->second <= last_ns;
  }

 private:
  std::vector<std::pair<std::uint32_t, std::int64_t>> instants_;
};

class chrome_layout_maker {
 public:
  chrome_layout_maker(const trace& recording, const std::vector<trace_link>& links)
      : trace_(recording), events_(recording.events()), links_(links) {}

  chrome_layout run() {
    find_arrow_ends();
    if (!ends_.empty()) instants_.push_back(thread_instants(trace_));
    for (const trace_track& track : trace_.tracks())
      if (track.kind == track_kind::thread) lay_out(track);
    std::sort(result_.remarks.begin(), result_.remarks.end(),
              [](const drawing_remark& a, const drawing_remark& b) { return a.event < b.event; });
    collect_arrows();
    return std::move(result_);
  }

 private:
  struct arrow_end {
    std::uint32_t event;
    bool tied = false;
    std::int64_t time_ns = 0;
  };
  // Events [first, last) of a track begin, as drawn, at begin_ns.
  struct group {
    std::uint32_t first, last;
    std::int64_t begin_ns;
    std::int64_t next_begin_ns;  // of what comes after it on the track
    bool touched;                // another slice ends at begin_ns
  };

  // Every event that is an end of some arrow, once, by event.
  void find_arrow_ends() {
    for (const trace_link& link : links_)
      for (const std::uint32_t event : {link.from, link.to}) ends_.push_back({event});
    std::sort(ends_.begin(), ends_.end(), [](const arrow_end& a, const arrow_end& b) { return a.event < b.event; });
    ends_.erase(std::unique(ends_.begin(), ends_.end(),
                            [](const arrow_end& a, const arrow_end& b) { return a.event == b.event; }),
                ends_.end());
  }
  arrow_end* end_at(std::uint32_t event) noexcept {
    const auto at = std::lower_bound(ends_.begin(), ends_.end(), event,
                                     [](const arrow_end& end, std::uint32_t e) { return end.event < e; });
    return at != ends_.end() && at->event == event ? &*at : nullptr;
  }

  void lay_out(const trace_track& track) {
    const std::uint32_t end = track.first_event + track.event_count;
    open_ends_.clear();
    moved_.clear();
    std::int64_t begin_ns = track.event_count != 0 ? visit(track.first_event) : 0;
    for (std::uint32_t first = track.first_event; first < end;) {
      group g{first, first + 1, begin_ns, INT64_MAX, close_until(begin_ns)};
      while (g.last < end && (g.next_begin_ns = visit(g.last)) == begin_ns) ++g.last;
      if (g.last == end) g.next_begin_ns = INT64_MAX;
      lay_out(g);
      first = g.last;
      begin_ns = g.next_begin_ns;
    }
  }
  void lay_out(const group& g) {
    if (g.last - g.first == 1) {
      open(g.first);
      if (moved(g.first)) result_.remarks.push_back({g.first, true, true});
    } else {
      sort(g);
      for (const std::uint32_t event : order_) open(event);
      remark_on_group();
    }
    tie(g);
  }
  void sort(const group& g) {
    order_.clear();
    for (std::uint32_t event = g.first; event < g.last; ++event) order_.push_back(event);
    sort_stably(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return events_[a].duration_ns() > events_[b].duration_ns();
    });
  }

  // When the event begins as drawn. To be called once for each event of a track, in order, as a moved parent moves what
  // is in it.
  std::int64_t visit(std::uint32_t event) {
    const trace_event& e = events_[event];
    if (e.duration_ns() != 0 || e.parent == npos) return e.begin_ns;
    const trace_event& p = events_[e.parent];
    if (p.duration_ns() == 0 ? !moved(e.parent) : p.end_ns != e.begin_ns) return e.begin_ns;
    moved_.push_back(event);
    return e.begin_ns - 1;
  }
  [[nodiscard]] bool moved(std::uint32_t event) const noexcept {
    return events_[event].duration_ns() == 0 && std::binary_search(moved_.begin(), moved_.end(), event);
  }

  void open(std::uint32_t event) {
    open_ends_.push_back(events_[event].end_ns - (moved(event) ? 1 : 0));
    if (open_ends_.size() > chrome_layout::max_depth) ++result_.too_deep;
  }
  // Whether a slice ended exactly then.
  bool close_until(std::int64_t time_ns) noexcept {
    bool exactly = false;
    for (; !open_ends_.empty() && open_ends_.back() <= time_ns; open_ends_.pop_back())
      exactly = exactly || open_ends_.back() == time_ns;
    return exactly;
  }

  void remark_on_group() {
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const trace_event& e = events_[order_[k]];
      const bool as_drawn = k == 0 || e.parent == order_[k - 1];
      drawing_remark remark;
      remark.event = order_[k];
      remark.moved = moved(remark.event);
      remark.tell_parent = !as_drawn || (e.duration_ns() == 0 && k != 0) || remark.moved;
      if (remark.tell_parent) result_.remarks.push_back(remark);
    }
  }

  // Only the last slice of a group can be an end of an arrow.
  void tie(const group& g) {
    while (next_end_ < ends_.size() && ends_[next_end_].event < g.first) ++next_end_;
    if (next_end_ == ends_.size() || ends_[next_end_].event >= g.last) return;
    const std::uint32_t last = g.last - g.first == 1 ? g.first : order_.back();
    arrow_end* end = end_at(last);
    if (end == nullptr || open_ends_.size() > chrome_layout::max_depth || !alone_without_length(g, last)) return;
    const std::int64_t time_ns = g.touched ? saturating_add(g.begin_ns, 1) : g.begin_ns;
    const bool inside = !g.touched || (time_ns < open_ends_.back() && time_ns < g.next_begin_ns);
    end->tied = inside && !instants_[0].any_within(events_[last].track, g.begin_ns, time_ns);
    end->time_ns = time_ns;
  }
  // Beside a slice of no length only those around it may have none, or catapult nests them differently.
  [[nodiscard]] bool alone_without_length(const group& g, std::uint32_t event) const noexcept {
    if (events_[event].duration_ns() != 0) return true;
    std::size_t around = 0;
    for (std::uint32_t i = event; i != npos && events_[i].duration_ns() == 0; i = events_[i].parent) ++around;
    std::size_t all = 0;
    for (std::uint32_t i = g.first; i < g.last; ++i) all += events_[i].duration_ns() == 0 ? 1u : 0u;
    return all == around;
  }

  void collect_arrows() {
    for (const trace_link& link : links_) {
      const arrow_end* from = end_at(link.from);
      const arrow_end* to = end_at(link.to);
      // An arrow drawn against time would be turned round, one from a slice to itself says nothing.
      const bool are_tied = from != nullptr && to != nullptr && from->tied && to->tied;
      if (!are_tied || from->time_ns > to->time_ns || link.from == link.to)
        ++result_.arrows_left_out;
      else
        result_.arrows.push_back({link, from->time_ns, to->time_ns});
    }
  }

  const trace& trace_;
  const std::vector<trace_event>& events_;
  const std::vector<trace_link>& links_;
  std::vector<arrow_end> ends_;
  std::vector<thread_instants> instants_;  // none or one: made only when there are arrows
  std::size_t next_end_ = 0;               // ends_ before it lie before the group at hand
  std::vector<std::uint32_t> moved_;       // of the track at hand
  std::vector<std::int64_t> open_ends_;    // of the slices that are open in Perfetto
  std::vector<std::uint32_t> order_;       // the group at hand, as Perfetto sorts it
  chrome_layout result_;
};

}  // namespace detail
STEPPROF_END_NAMESPACE
