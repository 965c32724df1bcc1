#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/random_trace.hpp>

#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/analysis/key_averages.hpp>

namespace properties_test {

using namespace stepprof;

namespace {

constexpr std::uint64_t first_seed = 20260801;
constexpr std::uint64_t seeds = 200;

bool is_paused(const trace& t, std::int64_t ns) {
  return std::any_of(t.pauses().begin(), t.pauses().end(),
                     [ns](const paused_interval& p) { return p.begin_ns <= ns && ns < p.end_ns; });
}

// The events of a thread that are open during one ns, from the outermost to the innermost.
std::vector<std::uint32_t> open_at(const trace& t, const trace_track& track, std::int64_t ns) {
  std::vector<std::uint32_t> open;
  for (std::uint32_t i = track.first_event; i < track.first_event + track.event_count; ++i)
    if (t.events()[i].begin_ns <= ns && ns < t.events()[i].end_ns) open.push_back(i);
  return open;
}

// An event and those around it, innermost first.
std::vector<std::uint32_t> path_of(const trace& t, std::uint32_t event) {
  std::vector<std::uint32_t> path;
  for (; event != npos; event = t.events()[event].parent) path.push_back(event);
  return path;
}

std::string shown_name(const trace& t, std::uint32_t event) {
  const std::string name(t.name(t.events()[event]));
  return name.compare(0, 13, "ProfilerStep#") == 0 ? "ProfilerStep*" : name;
}

// What tells rows apart, of an event and of a row. `stack` has each entry behind a '|'.
std::string key_text(const std::string& name, bool is_annotation, const std::string& shapes, const std::string& stack) {
  return name + (is_annotation ? "!" : "") + "/" + shapes + "/" + stack;
}
std::string key_of(const trace& t, std::uint32_t event, const key_averages_options& options) {
  const event_detail& d = t.detail(t.events()[event]);
  std::string shapes(t.text(d.input_dims)), stack;
  if (!options.group_by_input_shape || shapes == "[]") shapes.clear();
  std::vector<std::string> entries;
  if (options.stack == stack_source::native) {
    std::string frames(t.text(d.stack));
    for (std::size_t end; !frames.empty(); frames.erase(0, end == std::string::npos ? end : end + 1)) {
      end = frames.find(';');
      entries.push_back(frames.substr(0, end));
    }
  } else {
    for (const std::uint32_t outer : path_of(t, event))
      if (outer != event) entries.push_back(shown_name(t, outer));
  }
  for (std::size_t i = 0; i < entries.size() && i < options.group_by_stack_n; ++i) stack += "|" + entries[i];
  return key_text(shown_name(t, event), t.events()[event].kind() == scope_kind::user_annotation, shapes, stack);
}
std::string key_of(const event_average& row) {
  std::string stack;
  for (const std::string& entry : row.stack) stack += "|" + entry;
  return key_text(row.name, row.is_annotation, row.shapes, stack);
}

struct naive_row {
  std::int64_t calls = 0, unfinished = 0, self_ns = 0, total_ns = 0, peak_bytes = 0;
  memory_sums self, total;
};

std::string shown(const memory_sums& m) {
  return std::to_string(m.allocated_bytes) + "-" + std::to_string(m.freed_bytes) + " " + std::to_string(m.allocations) +
         "-" + std::to_string(m.frees) + " ?" + std::to_string(m.unmatched_frees);
}
template <class Row>
std::string shown(const Row& row, std::int64_t unfinished, const memory_sums& self, const memory_sums& total) {
  return std::to_string(row.calls) + " calls, " + std::to_string(unfinished) + " unfinished, self " +
         std::to_string(row.self_ns) + ", total " + std::to_string(row.total_ns) + ", memory " + shown(self) +
         ", in all " + shown(total) + ", peak " + std::to_string(row.peak_bytes);
}

// What a report adds to the sums of its scope.
memory_sums sums_of(const memory_event& m) {
  memory_sums s;
  (m.is_free() ? s.freed_bytes : s.allocated_bytes) = m.is_free() ? -m.bytes : m.bytes;
  (m.is_free() ? s.frees : s.allocations) = 1;
  return s;
}

// The rows, ns by ns and report by report.
std::map<std::string, naive_row> naive_rows(const trace& t, const key_averages_options& options) {
  std::map<std::string, naive_row> rows;
  const auto key = [&](std::uint32_t event) { return key_of(t, event, options); };
  std::int64_t last = 0;
  for (std::uint32_t i = 0; i < t.events().size(); ++i) {
    const trace_event& e = t.events()[i];
    naive_row& row = rows[key(i)];
    ++row.calls;
    row.unfinished += e.has(trace_event::unfinished);
    if (t.tracks()[e.track].kind == track_kind::async) row.total_ns += e.duration_ns();
    last = (std::max)(last, e.end_ns);
  }
  for (const trace_track& track : t.tracks()) {
    if (track.kind != track_kind::thread) continue;
    for (std::int64_t ns = 0; ns < last; ++ns) {
      const std::vector<std::uint32_t> open = open_at(t, track, ns);
      if (open.empty()) continue;
      if (!is_paused(t, ns)) ++rows[key(open.back())].self_ns;
      std::set<std::string> keys;
      for (const std::uint32_t event : open) keys.insert(key(event));
      for (const std::string& k : keys) ++rows[k].total_ns;
    }
  }
  const auto book = [&](std::uint32_t event, const memory_sums& sums) {
    if (event == npos) return;
    rows[key(event)].self += sums;
    std::set<std::string> keys;
    for (const std::uint32_t outer : path_of(t, event)) keys.insert(key(outer));
    for (const std::string& k : keys) rows[k].total += sums;
  };
  for (const memory_event& m : t.memory()) {
    const bool elsewhere = options.memory.booking == free_booking::allocating_scope && m.is_free();
    if (m.device_type == 0) book(elsewhere ? t.memory()[m.allocation].event : m.event, sums_of(m));
  }
  for (const unmatched_free& free : t.unmatched_frees()) {
    memory_sums sums;
    sums.unmatched_frees = free.count;
    book(free.event, sums);
  }
  for (std::uint32_t i = 0; i < t.events().size(); ++i) {
    std::int64_t held = 0;
    for (const memory_event& m : t.memory()) {
      if (m.device_type != 0 || m.event == npos) continue;
      const std::vector<std::uint32_t> path = path_of(t, m.event);
      if (std::find(path.begin(), path.end(), i) == path.end()) continue;
      held += m.bytes;
      naive_row& row = rows[key(i)];
      row.peak_bytes = (std::max)(row.peak_bytes, held);
    }
  }
  return rows;
}

// What must not depend on how rows are made.
std::string sums_of(const event_averages& averages, bool with_unmatched = true) {
  event_average sum = averages.total_average();
  if (!with_unmatched) sum.self_memory.unmatched_frees = sum.total_memory.unmatched_frees = 0;
  return shown(sum, sum.unfinished, sum.self_memory, sum.total_memory) + ", inner " + std::to_string(sum.inner_scopes) +
         ", longest " + std::to_string(sum.max_ns) + ", whole " + std::to_string(averages.self_cpu_time_total_ns());
}

// Every way to put events into rows.
std::vector<key_averages_options> all_groupings() {
  std::vector<key_averages_options> all;
  for (const bool by_shape : {false, true})
    for (const std::size_t stack : {0u, 1u, 2u, 100u})
      for (const stack_source source : {stack_source::scopes, stack_source::native})
        for (const free_booking booking : {free_booking::freeing_scope, free_booking::allocating_scope}) {
          key_averages_options options;
          options.group_by_input_shape = by_shape;
          options.group_by_stack_n = stack;
          options.stack = source;
          options.memory.booking = booking;
          all.push_back(options);
        }
  return all;
}

}  // namespace

// Catches: any difference of calls, self, total, memory or peak from what they mean, counted one ns and one report
// after the other, under any grouping: children subtracted wrongly, recursion, ties, pauses, frees in other scopes.
TEST_CASE("rows of random traces are those of a naive reference", "[properties]") {
  const std::vector<key_averages_options> groupings = all_groupings();
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    const trace t = test::random_trace::make(seed, 30);
    const key_averages_options& options = groupings[seed % groupings.size()];
    INFO("seed " << seed);
    std::map<std::string, naive_row> expected = naive_rows(t, options);
    for (const event_average& row : key_averages(t, options).rows) {
      if (row.is_memory) continue;
      const auto found = expected.find(key_of(row));
      INFO(key_of(row));
      REQUIRE(found != expected.end());
      const naive_row& want = found->second;
      REQUIRE(shown(row, row.unfinished, row.self_memory, row.total_memory) ==
              shown(want, want.unfinished, want.self, want.total));
      expected.erase(found);  // a second row of the key is one too many
    }
    REQUIRE(expected.empty());
  }
}

// Catches: events that one grouping loses or counts twice, and a total row that depends on how rows are made.
TEST_CASE("sums of rows are the same under every grouping", "[properties]") {
  const std::vector<key_averages_options> groupings = all_groupings();
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    const event_tree tree(test::random_trace::make(seed, 60));
    INFO("seed " << seed);
    for (const key_averages_options& options : groupings) {
      key_averages_options by_name;
      by_name.memory = options.memory;
      const event_averages names = key_averages(tree, by_name);
      const event_averages averages = key_averages(tree, options);
      REQUIRE(sums_of(averages) == sums_of(names));
      // Where frees are booked decides which are outside of every scope, in the row of memory. Unmatched frees there
      // are no events of their own.
      if (options.memory.is_default()) REQUIRE(sums_of(averages, false) == sums_of(event_rows(tree), false));
      // Rows that are put together afterwards are what one row would have been, but for what must not be counted twice.
      std::vector<event_average> rows = averages.rows;
      for (event_average& row : rows) row.stack.clear(), row.shapes.clear();
      const std::vector<event_average> merged = merge_rows(rows);
      REQUIRE(merged.size() == names.rows.size());
      for (std::size_t i = 0; i < merged.size(); ++i) {
        REQUIRE(merged[i].name == names.rows[i].name);
        REQUIRE(merged[i].calls == names.rows[i].calls);
        REQUIRE(merged[i].self_ns == names.rows[i].self_ns);
        REQUIRE(merged[i].total_ns >= names.rows[i].total_ns);
        REQUIRE(merged[i].peak_bytes == names.rows[i].peak_bytes);
        REQUIRE(shown(merged[i].self_memory) == shown(names.rows[i].self_memory));
      }
    }
  }
}

}  // namespace properties_test
