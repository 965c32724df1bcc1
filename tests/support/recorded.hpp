// What tests of recordings ask again and again: what was reported, what the trace looks like, whether it keeps the
// rules that hold for every trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <support/catch.hpp>
#include <support/trace_checker.hpp>

#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/session/diagnostics.hpp>
#include <stepprof/session/options.hpp>

namespace test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The diagnostics of the process while it lives. Tests that report from several threads look at it after joining them.
class heard {
 public:
  heard() {
    before_ = stepprof::set_diagnostics_hook([this](const stepprof::diagnostic& d) { all.push_back(d); });
  }
  ~heard() { stepprof::set_diagnostics_hook(before_); }
  heard(const heard&) = delete;
  heard& operator=(const heard&) = delete;

  std::string codes() const {
    std::string text;
    for (const stepprof::diagnostic& d : all) text += (text.empty() ? "" : " ") + d.code;
    return text;
  }
  std::vector<stepprof::diagnostic> all;

 private:
  stepprof::diagnostics_hook before_;
};

// The tracks of a trace in the notation of event_builder.hpp, without the numbers of the tracks: "t: a[0..10]{ b[2..6]
// } ; async: c[1..12]". Times count from the begin of the window. Unfinished scopes have a '?' behind them.
inline std::string drawn(const stepprof::trace& t) {
  std::string text;
  for (const stepprof::trace_track& track : t.tracks()) {
    if (track.event_count == 0) continue;
    text += text.empty() ? "" : "; ";
    text += track.kind == stepprof::track_kind::thread ? "t:" : "async:";
    struct scope {
      std::uint32_t event;
      bool has_children;
    };
    std::vector<scope> open;
    const auto close_until = [&](std::uint32_t parent) {
      for (; !open.empty() && open.back().event != parent; open.pop_back())
        if (open.back().has_children) text += " }";
    };
    for (std::uint32_t i = track.first_event; i < track.first_event + track.event_count; ++i) {
      const stepprof::trace_event& e = t.events()[i];
      close_until(e.parent);
      if (!open.empty() && !open.back().has_children) {
        text += "{";
        open.back().has_children = true;
      }
      text += ' ' + std::string(t.name(e)) + '[' + std::to_string(e.begin_ns - t.info().begin_ns) + ".." +
              std::to_string(e.end_ns - t.info().begin_ns) + ']';
      if (e.has(stepprof::trace_event::unfinished)) text += '?';
      open.push_back({i, false});
    }
    close_until(stepprof::npos);
  }
  return text;
}

inline std::string chrome_text(const stepprof::trace& t) {
  std::ostringstream out;
  stepprof::export_chrome_trace(t, out);
  return out.str();
}

// Σ self over a thread is the length of the union of its top-level scopes less the pauses in them, to the nanosecond,
// and no scope has less than none or more than its own time.
inline void check_self_times(const stepprof::trace& t) {
  const stepprof::event_tree tree(t);
  for (const stepprof::trace_track& track : t.tracks()) {
    if (track.kind != stepprof::track_kind::thread) continue;
    std::int64_t self = 0, top = 0, end = INT64_MIN;
    int wrong = 0;
    for (std::uint32_t i = track.first_event; i < track.first_event + track.event_count; ++i) {
      const stepprof::trace_event& e = t.events()[i];
      wrong += tree.self_ns(i) < 0 || tree.self_ns(i) > e.duration_ns();
      self += tree.self_ns(i);
      if (e.parent != stepprof::npos) continue;
      wrong += e.begin_ns < end;  // top-level scopes of a thread do not overlap, so their union is their sum
      end = e.end_ns;
      top += e.duration_ns();
      for (const stepprof::paused_interval& pause : t.pauses())
        top -= (std::max)(std::int64_t{0}, (std::min)(pause.end_ns, e.end_ns) - (std::max)(pause.begin_ns, e.begin_ns));
    }
    CHECK(wrong == 0);
    CHECK(self == top);
  }
}

// Everything that holds for every trace: its file is what viewers and strict readers want, and its self times add up.
inline checked_trace check_rules(const stepprof::trace& t) {
  checked_trace checked = check_trace(chrome_text(t));
  CHECK(checked.summary() == "");
  std::size_t slices = 0, async = 0;
  for (const stepprof::trace_event& e : t.events())
    ++(t.tracks()[e.track].kind == stepprof::track_kind::thread ? slices : async);
  std::size_t drawn_slices = 0;
  for (const checked_slice& slice : checked.slices)
    drawn_slices += !slice.instant && slice.cat != "Trace";  // that one shows the whole window
  CHECK(drawn_slices == slices);
  CHECK(checked.async_pairs == async);
  check_self_times(t);
  return checked;
}

// Options of a profile that records memory.
inline stepprof::profile_options with_memory() {
  stepprof::profile_options options;
  options.profile_memory = true;
  return options;
}

// The first event of this name, null when there is none.
inline const stepprof::trace_event* find_event(const stepprof::trace& t, const std::string& name) {
  for (const stepprof::trace_event& e : t.events())
    if (t.name(e) == name) return &e;
  return nullptr;
}

// Codes of the notes of a trace.
inline std::string note_codes(const stepprof::trace& t) {
  std::string text;
  for (const stepprof::trace_note& n : t.notes()) text += (text.empty() ? "" : " ") + n.code;
  return text;
}

}  // namespace test
