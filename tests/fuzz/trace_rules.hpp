// What holds for every trace, wherever it comes from; everything that shows a trace is called once.
#pragma once

#include <fuzz/fuzz_input.hpp>

#include <cstdint>
#include <string>
#include <system_error>

#include <support/strict_json.hpp>

#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/analysis/key_averages.hpp>
#include <stepprof/analysis/step_times.hpp>
#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/output/folded_stacks.hpp>
#include <stepprof/output/memory_timeline_file.hpp>
#include <stepprof/output/row_export.hpp>
#include <stepprof/output/speedscope.hpp>
#include <stepprof/output/step_table.hpp>
#include <stepprof/output/table.hpp>

namespace fuzz {

/// One value, strict, and at most the end of its line behind it.
inline void require_json(const std::string& text) {
  const test::json_document document = test::strict_json::parse(text);
  require(document.ok(), "strict JSON",
          [&] { return document.faults[0].first + ' ' + document.faults[0].second + "\n" + text; });
  require(document.end == text.size() || text.compare(document.end, 2, "\n") == 0, "nothing behind it", text);
}

/// Self times are the length of the top-level scopes without the pauses, and no scope has more than its own time. Sums
/// are modulo 2^64, in which they are exact.
inline void require_self_times(const stepprof::event_tree& tree) {
  const stepprof::trace& t = tree.source();
  const stepprof::detail::pause_sums pauses(t.pauses());
  for (const stepprof::trace_track& track : t.tracks()) {
    if (track.kind != stepprof::track_kind::thread) continue;
    std::uint64_t self = 0, top = 0;
    for (std::uint32_t i = track.first_event; i < track.first_event + track.event_count; ++i) {
      const stepprof::trace_event& e = t.events()[i];
      require(tree.self_ns(i) >= 0 && tree.self_ns(i) <= e.duration_ns(), "0 <= self <= duration");
      self += static_cast<std::uint64_t>(tree.self_ns(i));
      if (e.parent == stepprof::npos)
        top += static_cast<std::uint64_t>(e.duration_ns() - pauses.between(e.begin_ns, e.end_ns));
    }
    require(self == top, "the self times of a thread are its time");
  }
}

/// Every event is a call of one row, however rows are made.
inline void require_rows(const stepprof::event_tree& tree, const stepprof::event_averages& averages) {
  std::int64_t calls = 0, expected = 0;
  for (const stepprof::event_average& row : averages.rows) {
    if (!row.is_memory) calls += row.calls;
    require(row.self_ns <= row.total_ns, "self <= total", row.name);
  }
  for (const stepprof::trace_track& track : tree.source().tracks())
    if (track.kind != stepprof::track_kind::device) expected += track.event_count;
  require(calls == expected, "every event is a call");
  stepprof::table_options all;
  all.row_limit = -1;
  all.show_percent_base = all.show_cycle = true;
  all.columns = {"allocated_bytes", "peak_bytes", "corrected_self_time", "flop_rate", "unfinished_count", "source"};
  require(!stepprof::table(averages, all).empty(), "there is a table");
  require_json(stepprof::to_json(averages));
  require(!stepprof::to_csv(averages).empty(), "there is a CSV");
}

inline std::string chrome_text(const stepprof::trace& t) {
  std::string text;
  stepprof::write_chrome_trace(t, text);
  return text;
}

/// Calls whatever shows a trace. Returns the text of its Chrome trace.
inline std::string require_rules(const stepprof::trace& t) {
  const stepprof::event_tree tree(t);
  require_self_times(tree);
  stepprof::key_averages_options plain, fine;
  plain.memory.booking = stepprof::free_booking::allocating_scope;
  fine.group_by_input_shape = fine.statistics = true;
  fine.group_by_stack_n = 3;
  for (const stepprof::key_averages_options& options : {plain, fine})
    require_rows(tree, stepprof::key_averages(tree, options));
  require_rows(tree, stepprof::event_rows(tree));
  const stepprof::step_times steps = stepprof::steps_of(tree);
  require_json(stepprof::to_json(steps));
  require(!stepprof::table(steps).empty() && !stepprof::to_csv(steps).empty(), "there is a table of steps");
  require_json(stepprof::memory_timeline_json(t));
  require(!stepprof::memory_timeline_svg(t).empty() && !stepprof::memory_timeline_html(t).empty(),
          "there are pictures");
  std::error_code ec;
  for (const char* metric : {"self_cpu_time_total", "self_allocated", "calls"})
    require(stepprof::folded_stacks(t, metric, ec).empty() == bool(ec), "stacks or a reason");
  const std::string speedscope = stepprof::speedscope_json(t, ec);
  require(speedscope.empty() == bool(ec), "a file or a reason");
  if (!ec) require_json(speedscope);
  const std::string chrome = chrome_text(t);
  require_json(chrome);
  require(chrome == chrome_text(t), "written twice, the same bytes");
  return chrome;
}

}  // namespace fuzz
