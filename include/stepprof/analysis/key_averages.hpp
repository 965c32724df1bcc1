// Rows of a table: all events of one name together, or of one name and input shape, or of one name and caller.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stepprof/analysis/call_stack.hpp>
#include <stepprof/analysis/duration_statistics.hpp>
#include <stepprof/analysis/event_average.hpp>
#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/analysis/flops.hpp>
#include <stepprof/analysis/memory_use.hpp>
#include <stepprof/analysis/scope_path.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/large_pages.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/stable_sort.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

/// How events are put together into rows.
struct key_averages_options {
  /// Events of one name with different input shapes get rows of their own.
  bool group_by_input_shape = false;
  /// Events of one name get rows of their own when their n innermost stack entries differ; 0: stacks do not matter.
  std::size_t group_by_stack_n = 0;
  stack_source stack = stack_source::scopes;
  /// Also how the durations of each row's events are spread: `event_average::durations`. 12 bytes an event meanwhile.
  bool statistics = false;
  /// How floating-point operations are counted, beside torch's formulas, where the profile's with_flops was on.
  flop_formulas formulas = {};
  /// Which pool the memory columns show, and where frees count.
  memory_use_options memory = {};
};

/// The events of a trace put together by key. Linear in the number of events. Any thread.
[[nodiscard]] event_averages key_averages(const event_tree& tree, const key_averages_options& options = {});
[[nodiscard]] inline event_averages key_averages(const trace& source, const key_averages_options& options = {}) {
  const detail::own_work own;
  return key_averages(event_tree(source), options);
}

/// The events of a trace one by one, each a row of its own (calls = 1), in order of time. Any thread.
[[nodiscard]] event_averages event_rows(const event_tree& tree);
[[nodiscard]] inline event_averages event_rows(const trace& source) {
  const detail::own_work own;
  return event_rows(event_tree(source));
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

inline constexpr std::string_view step_prefix = "ProfilerStep#";

inline bool is_step_name(std::string_view name) noexcept {
  if (name.size() <= step_prefix.size() || name.substr(0, step_prefix.size()) != step_prefix) return false;
  const std::string_view number = name.substr(step_prefix.size());
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Shapes as rows show them. Events without inputs have none, however that was written.
inline bool says_shapes(std::string_view text) noexcept {
  return !text.empty() && text != "[]";
}

// Puts the events of one trace into groups and adds them up.
class averager {
 public:
  averager(const event_tree& tree, const key_averages_options& options, bool one_by_one)
      : tree_(tree),
        trace_(tree.source()),
        options_(options),
        one_by_one_(one_by_one),
        has_memory_(tree.has_memory()),
        flops_(trace_, options_.formulas),
        counts_flops_(flops_.is_needed()) {
    if (!options.memory.is_default()) memory_use_ = memory_use(trace_, options.memory);
  }

  event_averages run() {
    name_numbers();
    if (options_.group_by_stack_n != 0) stack_numbers();
    if (options_.statistics) group_of_event_.assign(trace_.events().size(), npos);
    reserve_large(groups_, one_by_one_ ? trace_.events().size() : (std::min)(trace_.events().size(), name_of_.size()));
    for (const trace_track& track : trace_.tracks())
      if (track.kind != track_kind::device) add_track(track);
    memory_group_ = static_cast<std::uint32_t>(groups_.size());
    add_memory_outside();
    make_rows();
    return finish();
  }

 private:
  struct key {
    std::uint32_t name, flags, shapes, stack;
    bool operator==(const key& o) const noexcept {
      return name == o.name && flags == o.flags && shapes == o.shapes && stack == o.stack;
    }
  };
  struct key_hash {
    std::size_t operator()(const key& k) const noexcept {
      std::uint64_t h = (std::uint64_t{k.name} << 32 | k.shapes) * 0x9e3779b97f4a7c15ull;
      h ^= (h >> 29) + ((std::uint64_t{k.stack} << 2 | k.flags) * 0xbf58476d1ce4e5b9ull);
      return static_cast<std::uint32_t>(h ^ (h >> 32));
    }
  };
  // What decides the place of a row: its first event in order of time, outer before inner, then in order of the log.
  struct first_seen {
    std::int64_t begin_ns = INT64_MAX;
    std::int64_t end_ns = INT64_MIN;
    std::uint32_t event = npos;
    bool operator<(const first_seen& o) const noexcept {
      if (begin_ns != o.begin_ns) return begin_ns < o.begin_ns;
      return end_ns != o.end_ns ? end_ns > o.end_ns : event < o.event;
    }
  };
  // What is added up for the events, or the memory reports, that form a row. Rows are larger, and not yet in order.
  struct group_sums {
    first_seen first;
    first_seen first_with_source;
    std::int64_t calls = 0, unfinished = 0;
    std::int64_t self_ns = 0, total_ns = 0, async_ns = 0, unfinished_ns = 0, top_level_ns = 0;
    std::int64_t min_ns = INT64_MAX, max_ns = INT64_MIN;
    std::int64_t inner_scopes = 0;
    std::int64_t flops = 0, unknown_flops = 0;
    std::int64_t recorded = 0;  // calls that are scopes of a thread: no steps, nothing async
    std::uint32_t open = 0;     // events of the group around the event that is looked at
    bool is_async = true;       // until an event on a thread shows otherwise
  };
  struct memory_of_group {
    memory_sums self, total;
    std::int64_t peak_bytes = 0;
  };
  [[nodiscard]] const memory_use& memory() const noexcept { return memory_use_ ? *memory_use_ : tree_.memory(); }

  // `name_of_[text]`: the text itself, or one number for all steps.
  void name_numbers() {
    name_of_.resize(trace_.text_count() + 1u);
    for (std::uint32_t i = 0; i < trace_.text_count(); ++i)
      name_of_[i] = is_step_name(trace_.text(i)) ? step_name() : i;
    by_name_.assign(name_of_.size() * 2, npos);
  }
  [[nodiscard]] std::uint32_t step_name() const noexcept { return trace_.text_count(); }
  [[nodiscard]] std::uint32_t name_of(const trace_event& e) const noexcept {
    return e.has(trace_event::step) ? step_name() : name_of_[e.name];
  }
  [[nodiscard]] std::string name_text(const trace_event& e) const {
    return name_of(e) == step_name() ? "ProfilerStep*" : std::string(trace_.name(e));
  }

  void stack_numbers() {
    const std::vector<trace_event>& events = trace_.events();
    if (options_.stack == stack_source::scopes) {
      std::vector<std::uint32_t> names(events.size());
      for (std::size_t i = 0; i < events.size(); ++i) names[i] = name_of(events[i]);
      stack_of_ = enclosing_path_numbers(events, names, options_.group_by_stack_n);
      return;
    }
    string_table cut;
    wide_key_map<std::uint32_t> known;  // equal stacks are one text or one stack of the trace
    stack_of_.resize(events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      const event_detail& d = trace_.detail(events[i]);
      const auto [found, is_new] = known.try_emplace(call_stack_key(d));
      if (is_new) found->second = cut.intern(first_frames(trace_.call_stack(d)));
      stack_of_[i] = found->second;
    }
  }
  [[nodiscard]] std::string first_frames(std::string_view text) const {
    std::string result;
    for (const std::string& frame : split_frames(text, options_.group_by_stack_n)) result += frame + ";";
    return result;
  }

  // --- which events form a row

  std::uint32_t group_of(std::uint32_t event) { return one_by_one_ ? new_group() : group(key_of(event)); }
  [[nodiscard]] key key_of(std::uint32_t index) const {
    const trace_event& e = trace_.events()[index];
    key k{name_of(e), e.kind() == scope_kind::user_annotation ? 1u : 0u, npos,
          stack_of_.empty() ? 0 : stack_of_[index]};
    if (!options_.group_by_input_shape) return k;
    k.shapes = trace_.detail(e).input_dims;
    if (!says_shapes(trace_.text(k.shapes))) k.shapes = npos;
    return k;
  }
  std::uint32_t group(const key& k) {
    // Nearly always names alone decide, and those are small numbers.
    if (k.shapes == npos && k.stack == 0) {
      std::uint32_t& known = by_name_[k.name * std::size_t{2} + k.flags];
      return known != npos ? known : known = new_group();
    }
    const auto [at, is_new] = by_key_.emplace(k, static_cast<std::uint32_t>(groups_.size()));
    return is_new ? new_group() : at->second;
  }
  std::uint32_t new_group() {
    groups_.emplace_back();
    if (has_memory_) memory_.emplace_back();
    return static_cast<std::uint32_t>(groups_.size() - 1);
  }

  // --- adding up

  // Walks the events of a track in preorder, with those that are open.
  void add_track(const trace_track& track) {
    const bool is_async = track.kind != track_kind::thread;
    const std::uint32_t end = track.first_event + track.event_count;
    for (std::uint32_t i = track.first_event; i < end; ++i) {
      const std::uint32_t outer = trace_.events()[i].parent;
      for (; !open_.empty() && open_.back().event != outer; open_.pop_back()) --groups_[open_.back().group].open;
      const std::uint32_t g = group_of(i);
      if (options_.statistics) group_of_event_[i] = g;
      add_event(g, i, is_async);
      if (!is_async && !trace_.events()[i].has(trace_event::step)) {
        ++groups_[g].recorded;
        if (!open_.empty()) ++groups_[open_.back().group].inner_scopes;
      }
      if (is_async) continue;
      ++groups_[g].open;
      open_event& opened = open_.emplace_back();  // field by field: a whole one would be written twice
      opened.event = i;
      opened.group = g;
    }
    for (const open_event& open : open_) --groups_[open.group].open;
    open_.clear();
    if (track.event_count != 0 && !is_async) ++thread_count_;
  }

  void add_event(std::uint32_t group, std::uint32_t index, bool is_async) {
    const trace_event& e = trace_.events()[index];
    group_sums& to = groups_[group];
    const std::int64_t duration_ns = e.duration_ns();
    const first_seen seen{e.begin_ns, e.end_ns, index};
    if (seen < to.first) to.first = seen;
    if (e.detail != npos && trace_.detail(e).source_file != npos && seen < to.first_with_source)
      to.first_with_source = seen;
    add_call(to, duration_ns);
    add_to(to.self_ns, tree_.self_ns(index));
    if (counts_flops_) add_flops(to, e);
    to.is_async = to.is_async && is_async;
    const bool is_unfinished = e.has(trace_event::unfinished);
    to.unfinished += is_unfinished ? 1 : 0;
    if (has_memory_) add_memory(memory_[group], index, to.open == 0);
    if (to.open != 0) return;
    add_to(to.total_ns, duration_ns);
    if (is_unfinished) add_to(to.unfinished_ns, duration_ns);
    if (is_async)
      add_to(to.async_ns, duration_ns);
    else if (e.parent == npos)
      add_to(to.top_level_ns, duration_ns);
  }
  void add_flops(group_sums& to, const trace_event& e) {
    const flop_counter::result flops = flops_(e);
    add_to(to.flops, flops.count);
    to.unknown_flops += flops.is_unknown ? 1 : 0;
  }
  void add_memory(memory_of_group& to, std::uint32_t index, bool is_outermost) const {
    to.self += memory().self(index);
    if (is_outermost) to.total += memory().total(index);
    to.peak_bytes = (std::max)(to.peak_bytes, memory().peak_bytes(index));
  }
  static void add_call(group_sums& to, std::int64_t duration_ns) noexcept {
    ++to.calls;
    to.min_ns = (std::min)(to.min_ns, duration_ns);
    to.max_ns = (std::max)(to.max_ns, duration_ns);
  }

  // Groups from `memory_group_` on have no event.
  void add_memory_outside() {
    for (const memory_event& m : trace_.memory()) {
      if (!memory().counts(m) || memory().booked_to(trace_, m) != npos) continue;
      if (one_by_one_ || groups_.size() == memory_group_) groups_[new_group()].first = {m.time_ns, m.time_ns, npos};
      const memory_sums sums = memory_use::sums_of(m);
      memory_.back().self += sums;
      memory_.back().total += sums;
      groups_.back().is_async = false;
      add_call(groups_.back(), 0);
    }
    if (one_by_one_ || groups_.size() == memory_group_) return;
    memory_.back().self.unmatched_frees = memory_.back().total.unmatched_frees = memory().outside().unmatched_frees;
  }

  // --- rows

  void make_rows() {
    std::vector<std::uint32_t> order(groups_.size());
    for (std::uint32_t g = 0; g < order.size(); ++g) order[g] = g;
    const auto earlier = [this](std::uint32_t a, std::uint32_t b) { return groups_[a].first < groups_[b].first; };
    sort_stably(order.begin(), order.end(), earlier);
    reserve_large(rows_, order.size());
    if (options_.statistics) gather_durations();
    for (const std::uint32_t g : order) {
      event_average& row = rows_.emplace_back();
      describe(row, g);
      add_sums(row, groups_[g]);
      if (options_.statistics && g < memory_group_) row.durations = statistics_of(g);
      if (!has_memory_) continue;
      row.self_memory = memory_[g].self;
      row.total_memory = memory_[g].total;
      row.peak_bytes = memory_[g].peak_bytes;
    }
  }
  // The durations of each group behind those of the one before. A step that was cut says nothing of steps.
  void gather_durations() {
    first_duration_.assign(groups_.size() + 1, 0);
    const auto for_each = [this](auto&& use) {
      for (std::uint32_t i = 0; i < group_of_event_.size(); ++i) {
        const trace_event& e = trace_.events()[i];
        const bool is_cut_step = e.has(trace_event::unfinished) && name_of(e) == step_name();
        if (group_of_event_[i] != npos && !is_cut_step) use(group_of_event_[i], e.duration_ns());
      }
    };
    for_each([this](std::uint32_t group, std::int64_t) { ++first_duration_[group + 1u]; });
    for (std::size_t g = 0; g < groups_.size(); ++g) first_duration_[g + 1] += first_duration_[g];
    reserve_large(durations_ns_, first_duration_.back());
    durations_ns_.resize(first_duration_.back());
    std::vector<std::size_t> next(first_duration_.begin(), first_duration_.end() - 1);
    for_each([&](std::uint32_t group, std::int64_t duration_ns) { durations_ns_[next[group]++] = duration_ns; });
  }
  [[nodiscard]] duration_statistics statistics_of(std::uint32_t group) {
    const std::size_t first = first_duration_[group];
    return detail::statistics_of(durations_ns_.data() + first, first_duration_[group + 1u] - first);
  }
  // Without what recording added to the self time of these events.
  [[nodiscard]] std::int64_t corrected_self_ns(const group_sums& sums) const noexcept {
    const double inside_ns = trace_.info().scope_cost_inside_ns;
    const double outside_ns = trace_.info().scope_cost_ns - inside_ns;
    const double added_ns =
        static_cast<double>(sums.recorded) * inside_ns + static_cast<double>(sums.inner_scopes) * outside_ns;
    if (!(added_ns > 0)) return sums.self_ns;
    return added_ns >= static_cast<double>(sums.self_ns)
               ? 0
               : sums.self_ns - static_cast<std::int64_t>(std::round(added_ns));
  }
  void add_sums(event_average& row, const group_sums& sums) const noexcept {
    row.is_async = sums.is_async;
    row.calls = sums.calls;
    row.unfinished = sums.unfinished;
    row.self_ns = sums.self_ns;
    row.total_ns = sums.total_ns;
    row.async_ns = sums.async_ns;
    row.unfinished_ns = sums.unfinished_ns;
    row.top_level_ns = sums.top_level_ns;
    row.min_ns = sums.min_ns;
    row.max_ns = sums.max_ns;
    row.inner_scopes = sums.inner_scopes;
    row.flops = sums.flops;
    row.unknown_flops = sums.unknown_flops;
    row.corrected_self_ns = corrected_self_ns(sums);
  }

  // The texts of a row come from its first event, but for the place in the source: from the first that has one.
  void describe(event_average& row, std::uint32_t group) const {
    if (group >= memory_group_) {
      row.name = "[memory]";
      row.is_memory = row.is_top_level = true;
      return;
    }
    const std::uint32_t index = groups_[group].first.event;
    const trace_event& e = trace_.events()[index];
    const event_detail& d = trace_.detail(e);
    row.name = name_text(e);
    row.kind = e.kind();
    row.is_annotation = e.kind() == scope_kind::user_annotation;
    row.is_step = name_of(e) == step_name();
    row.is_top_level = e.parent == npos;
    if ((options_.group_by_input_shape || one_by_one_) && says_shapes(trace_.text(d.input_dims)))
      row.shapes = std::string(trace_.text(d.input_dims));
    row.source = source_of(groups_[group].first_with_source.event);
    if (options_.group_by_stack_n == 0) return;
    if (options_.stack == stack_source::native) {
      row.stack = split_frames(trace_.call_stack(d), options_.group_by_stack_n);
      return;
    }
    for (const std::uint32_t outer : tree_.enclosing(index, options_.group_by_stack_n))
      row.stack.push_back(name_text(trace_.events()[outer]));
  }

  [[nodiscard]] std::string source_of(std::uint32_t event) const {
    if (event == npos) return {};
    const event_detail& d = trace_.detail(trace_.events()[event]);
    return std::string(trace_.text(d.source_file)) + ':' + std::to_string(d.source_line);
  }

  event_averages finish() {
    event_averages result;
    result.rows = std::move(rows_);
    result.info = trace_.info();
    result.losses = trace_.losses();
    result.thread_count = thread_count_;
    result.has_memory = trace_.info().has_memory || !trace_.memory().empty();
    result.has_statistics = options_.statistics;
    result.stack = options_.stack;
    return result;
  }

  const event_tree& tree_;
  const trace& trace_;
  key_averages_options options_;
  bool one_by_one_;
  bool has_memory_;
  std::optional<memory_use> memory_use_;  // as asked for; none: the tree's
  flop_counter flops_;
  bool counts_flops_;
  std::vector<std::uint32_t> name_of_, stack_of_;
  std::vector<std::uint32_t> by_name_;  // the group of each name, and of each name of annotations
  std::unordered_map<key, std::uint32_t, key_hash> by_key_;
  std::vector<group_sums> groups_;
  std::vector<memory_of_group> memory_;        // of each group, when there is any
  std::vector<std::uint32_t> group_of_event_;  // when durations are asked for
  std::vector<std::size_t> first_duration_;    // of each group
  std::vector<std::int64_t> durations_ns_;
  struct open_event {
    std::uint32_t event = npos, group = npos;
  };
  std::vector<open_event> open_;
  std::uint32_t memory_group_ = 0;
  std::vector<event_average> rows_;
  std::uint32_t thread_count_ = 0;
};

}  // namespace detail

inline event_averages key_averages(const event_tree& tree, const key_averages_options& options) {
  const detail::own_work own;
  return detail::averager(tree, options, false).run();
}

inline event_averages event_rows(const event_tree& tree) {
  const detail::own_work own;
  return detail::averager(tree, {}, true).run();
}

STEPPROF_END_NAMESPACE
