// The steps of a loop one by one: how long each took, what it allocated, and what made the slow ones slow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stepprof/analysis/duration_statistics.hpp>
#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

struct step_table_options;  // output/step_table.hpp

/// One step. Times are in ns, memory in bytes of CPU memory.
struct step_time {
  std::int64_t number = 0;
  std::int64_t begin_ns = 0;  ///< Since the origin of the trace.
  std::int64_t duration_ns = 0;
  bool complete = true;  ///< false: cut by stop().
  /// Time of the thread that steps which lies in none of its scopes; not known where a step could not be drawn around
  /// them.
  std::optional<std::int64_t> self_ns;
  std::int64_t scopes = 0;  ///< Scopes that began in it, of all threads of the process.
  memory_sums memory;       ///< Reported while it lasted, by all threads of the process, inside and outside scopes.
  std::string longest;      ///< The name with the largest self time among those scopes; empty: there are none.
  std::int64_t longest_self_ns = 0;
  /// The name whose self time is furthest above its median over all steps, and by how much; empty: none is above.
  std::string most_above_median;
  std::int64_t above_median_ns = 0;
};

/// The steps of a recording, in order of time, with what can be said of all of them.
struct step_times {
  std::vector<step_time> rows;
  duration_statistics durations;  ///< Of the complete steps.
  trace_info info;
  loss_counts losses;
  bool has_memory = false;

  /// The complete steps that took longer than the median, the slowest first, at most `limit`.
  [[nodiscard]] std::vector<const step_time*> slowest(std::size_t limit) const;

  /// As text: a line per step, then the spread of their durations and the slowest ones with what made them slow; see
  /// output/step_table.hpp, which must be included. CSV and JSON: output/row_export.hpp.
  [[nodiscard]] inline std::string table(const step_table_options& options) const;
  [[nodiscard]] inline std::string table() const;
  [[nodiscard]] inline std::string to_csv() const;
  [[nodiscard]] inline std::string to_json() const;
};

/// The steps of a trace; none when it was recorded without a schedule. Scopes and memory reports belong to the step in
/// which they begin. Linear in the number of events. Any thread.
[[nodiscard]] step_times steps_of(const event_tree& tree);
[[nodiscard]] inline step_times steps_of(const trace& source) {
  const detail::own_work own;
  return steps_of(event_tree(source));
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

class step_sums {
 public:
  explicit step_sums(const event_tree& tree) : tree_(tree), trace_(tree.source()) {}

  step_times run() {
    sort_steps();
    for (const trace_track& track : trace_.tracks())
      if (track.kind != track_kind::device) add_scopes(track);
    add_memory();
    name_longest();
    return finish();
  }

 private:
  struct place {
    std::uint32_t process;
    std::int64_t begin_ns;
    std::int64_t end_ns;
    std::uint32_t step;  // index into trace::steps()
  };

  // Steps of one process follow each other; those of several, in a merged recording, do not.
  void sort_steps() {
    const std::vector<trace_step>& steps = trace_.steps();
    for (std::uint32_t i = 0; i < steps.size(); ++i) {
      const trace_step& s = steps[i];
      places_.push_back({process_of(s.event), s.begin_ns, s.end_ns, i});
    }
    sort_stably(places_.begin(), places_.end(), [](const place& a, const place& b) {
      return a.process != b.process ? a.process < b.process : a.begin_ns < b.begin_ns;
    });
    for (const place& p : places_) {
      const trace_step& s = steps[p.step];
      step_time row;
      row.number = s.number;
      row.begin_ns = s.begin_ns;
      row.duration_ns = saturating_sub(s.end_ns, s.begin_ns);
      row.complete = s.complete;
      if (s.event != npos && track_of(s.event).kind == track_kind::thread) row.self_ns = tree_.self_ns(s.event);
      complete_ += row.complete ? 1u : 0u;
      rows_.push_back(std::move(row));
    }
  }
  [[nodiscard]] const trace_track& track_of(std::uint32_t event) const {
    return trace_.tracks()[trace_.events()[event].track];
  }
  [[nodiscard]] std::uint32_t process_of(std::uint32_t event) const {
    return event == npos ? 0 : track_of(event).process;
  }

  // The row of the step that holds this moment of a process; npos: none.
  [[nodiscard]] std::uint32_t row_at(std::uint32_t process, std::int64_t time_ns) const {
    const auto after =
        std::upper_bound(places_.begin(), places_.end(), std::make_pair(process, time_ns),
                         [](const std::pair<std::uint32_t, std::int64_t>& moment, const place& p) {
                           return moment.first != p.process ? moment.first < p.process : moment.second < p.begin_ns;
                         });
    if (after == places_.begin()) return npos;
    const place& p = *(after - 1);
    if (p.process != process) return npos;
    const bool is_last = after == places_.end() || after->process != process;
    // A moment on a border belongs to the step that begins; the end of the last one belongs to it.
    if (time_ns < p.end_ns || (is_last && time_ns == p.end_ns))
      return static_cast<std::uint32_t>(after - 1 - places_.begin());
    return npos;
  }

  void add_scopes(const trace_track& track) {
    const std::uint32_t end = track.first_event + track.event_count;
    for (std::uint32_t i = track.first_event; i < end; ++i) {
      const trace_event& e = trace_.events()[i];
      if (e.has(trace_event::step)) continue;
      const std::uint32_t row = row_at(track.process, e.begin_ns);
      if (row == npos) continue;
      ++rows_[row].scopes;
      std::int64_t& sum = self_of_name_[std::uint64_t{e.name} << 32 | row];
      sum = saturating_add(sum, tree_.self_ns(i));
    }
  }
  void add_memory() {
    for (const memory_event& m : trace_.memory()) {
      if (!tree_.memory().counts(m)) continue;
      const std::uint32_t row = row_at(trace_.tracks()[m.track].process, m.time_ns);
      if (row != npos) rows_[row].memory += memory_use::sums_of(m);
    }
  }

  // Of each name its self times in the steps, where it has any, in the order of the rows.
  void name_longest() {
    std::vector<std::pair<std::uint64_t, std::int64_t>> sums(self_of_name_.begin(), self_of_name_.end());
    std::sort(sums.begin(), sums.end());
    for (std::size_t i = 0; i < sums.size();) {
      std::size_t end = i;
      while (end < sums.size() && sums[end].first >> 32 == sums[i].first >> 32) ++end;
      const std::int64_t median_ns = median_of(&sums[i], end - i);
      for (; i < end; ++i)
        compare(rows_[sums[i].first & 0xffffffffu], static_cast<std::uint32_t>(sums[i].first >> 32), sums[i].second,
                median_ns);
    }
  }
  // Over all complete steps: where a name does not occur it took no time.
  [[nodiscard]] std::int64_t median_of(const std::pair<std::uint64_t, std::int64_t>* sums, std::size_t count) const {
    std::vector<std::int64_t> times_ns;
    for (std::size_t i = 0; i < count; ++i)
      if (rows_[sums[i].first & 0xffffffffu].complete) times_ns.push_back(sums[i].second);
    times_ns.resize(complete_, 0);
    std::sort(times_ns.begin(), times_ns.end());
    return complete_ == 0 ? 0 : nearest_rank(times_ns.data(), complete_, 50);
  }
  void compare(step_time& row, std::uint32_t name, std::int64_t self_ns, std::int64_t median_ns) const {
    if (self_ns > row.longest_self_ns || (row.longest.empty() && row.longest_self_ns == 0)) {
      row.longest = std::string(trace_.text(name));
      row.longest_self_ns = self_ns;
    }
    const std::int64_t above_ns = saturating_sub(self_ns, median_ns);
    if (above_ns <= row.above_median_ns) return;
    row.most_above_median = std::string(trace_.text(name));
    row.above_median_ns = above_ns;
  }

  step_times finish() {
    step_times result;
    std::vector<std::int64_t> durations_ns;
    for (const step_time& row : rows_)
      if (row.complete) durations_ns.push_back(row.duration_ns);
    result.durations = statistics_of(durations_ns.data(), durations_ns.size());
    result.rows = std::move(rows_);
    result.info = trace_.info();
    result.losses = trace_.losses();
    result.has_memory = trace_.info().has_memory || !trace_.memory().empty();
    return result;
  }

  const event_tree& tree_;
  const trace& trace_;
  std::vector<place> places_;
  std::vector<step_time> rows_;              // of each place
  std::size_t complete_ = 0;                 // of these
  wide_key_map<std::int64_t> self_of_name_;  // name << 32 | row
};

}  // namespace detail

inline std::vector<const step_time*> step_times::slowest(std::size_t limit) const {
  std::vector<const step_time*> result;
  for (const step_time& row : rows)
    if (row.complete && row.duration_ns > durations.p50_ns) result.push_back(&row);
  detail::sort_stably(result.begin(), result.end(),
                      [](const step_time* a, const step_time* b) { return a->duration_ns > b->duration_ns; });
  if (result.size() > limit) result.resize(limit);
  return result;
}

inline step_times steps_of(const event_tree& tree) {
  const detail::own_work own;
  return detail::step_sums(tree).run();
}

STEPPROF_END_NAMESPACE
