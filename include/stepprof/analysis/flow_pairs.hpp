// Which forward scope belongs to which backward scope: the arrows of a trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Every arrow of a trace: the recorded ones, then those that follow from sequence numbers, in order of their forward
/// event. A trace whose links are complete (a file read back) has its own and no others.
///
/// A backward scope is one of kind `backward_op` with the link (thread, number) of a forward scope. It is joined to the
/// forward scope of that thread and number which began last before it, that is to the innermost one. Each forward scope
/// is joined once, to the first backward scope that finds it: wrappers of other kinds and later passes get nothing.
/// Negative numbers mean "none". A scope that is not in the trace is no end of an arrow. O(n log n). Any thread.
[[nodiscard]] std::vector<trace_link> flow_pairs(const trace& recording);

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// One possible end of an arrow, ordered so that one walk meets, for each key, forward and backward scopes in time.
struct flow_end {
  std::uint32_t forward_track = 0;  // with `number` the key
  std::int64_t number = 0;
  std::int64_t begin_ns = 0;
  bool on_other_track = false;  // at equal times: scopes of the forward's track in their order there, then the others
  std::uint32_t event = npos;
  bool is_backward = false;

  [[nodiscard]] auto order() const noexcept {
    return std::make_tuple(forward_track, number, begin_ns, on_other_track, event);
  }
};

// Finds the thread track with an id, within a process.
class thread_index {
 public:
  explicit thread_index(const trace& recording) {
    const std::vector<trace_track>& tracks = recording.tracks();
    for (std::uint32_t i = 0; i < tracks.size(); ++i)
      if (tracks[i].kind == track_kind::thread) tracks_.push_back({{tracks[i].process, tracks[i].id}, i});
    std::sort(tracks_.begin(), tracks_.end());
  }
  [[nodiscard]] std::uint32_t find(std::uint32_t process, std::uint32_t id) const noexcept {
    const entry key{{process, id}, 0};
    const auto at = std::lower_bound(tracks_.begin(), tracks_.end(), key);
    return at != tracks_.end() && at->first == key.first ? at->second : npos;
  }

 private:
  using entry = std::pair<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>;
  std::vector<entry> tracks_;
};

inline std::vector<flow_end> flow_ends(const trace& recording) {
  std::vector<flow_end> ends;
  const thread_index threads(recording);
  const auto count = static_cast<std::uint32_t>(recording.events().size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const trace_event& e = recording.events()[i];
    if (e.detail == npos) continue;
    const event_detail& d = recording.detail(e);
    if (d.sequence_number < 0) continue;
    const trace_track& track = recording.tracks()[e.track];
    flow_end end;
    end.is_backward = e.kind() == scope_kind::backward_op;
    // A wrapper carries the link but is no end; a backward scope without a link had its forward scope unrecorded.
    if (end.is_backward != (d.forward_thread != 0)) continue;
    end.forward_track = end.is_backward                    ? threads.find(track.process, d.forward_thread)
                        : track.kind == track_kind::thread ? e.track
                                                           : npos;
    if (end.forward_track == npos) continue;
    end.number = d.sequence_number;
    end.begin_ns = e.begin_ns;
    end.on_other_track = e.track != end.forward_track;
    end.event = i;
    ends.push_back(end);
  }
  std::sort(ends.begin(), ends.end(), [](const flow_end& a, const flow_end& b) { return a.order() < b.order(); });
  return ends;
}

inline bool link_less(const trace_link& a, const trace_link& b) noexcept {
  return std::tie(a.from, a.to) < std::tie(b.from, b.to);
}

inline std::vector<trace_link> derived_links(const trace& recording) {
  std::vector<trace_link> links;
  const flow_end* forward = nullptr;  // the latest one of the current key that has no partner yet
  std::uint32_t track = npos;
  std::int64_t number = -1;
  const std::vector<flow_end> ends = flow_ends(recording);
  for (const flow_end& end : ends) {
    if (end.forward_track != track || end.number != number) forward = nullptr;
    track = end.forward_track;
    number = end.number;
    if (!end.is_backward) {
      forward = &end;
    } else if (forward != nullptr) {
      links.push_back({forward->event, end.event, link_kind::forward_backward});
      forward = nullptr;
    }
  }
  std::sort(links.begin(), links.end(), link_less);
  return links;
}

}  // namespace detail

inline std::vector<trace_link> flow_pairs(const trace& recording) {
  std::vector<trace_link> links = recording.links();
  if (recording.links_are_complete()) return links;
  std::vector<trace_link> recorded = links;
  std::sort(recorded.begin(), recorded.end(), detail::link_less);
  for (const trace_link& link : detail::derived_links(recording))
    if (!std::binary_search(recorded.begin(), recorded.end(), link, detail::link_less)) links.push_back(link);
  return links;
}

STEPPROF_END_NAMESPACE
