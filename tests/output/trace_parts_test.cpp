#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <stepprof/output/chrome_trace.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>
#include <support/temp_folder.hpp>
#include <support/trace_checker.hpp>

namespace trace_parts_test {
using namespace stepprof;

namespace {

// One scope around `count` ops on each of two threads, each with an allocation and a mark, each joined by an arrow to
// one of the other thread.
trace long_recording(std::uint32_t count) {
  test::event_builder b("t1:");
  std::vector<std::uint32_t> forward;
  for (std::uint32_t thread = 0; thread < 2; ++thread) {
    if (thread == 1) {
      trace_track track;
      track.id = 2;
      track.name = "worker";
      b.builder.add_track(track);
    }
    trace_event e;
    e.name = b.builder.intern("all");
    e.end_ns = std::int64_t{count} * 100 + 100;
    const std::uint32_t all = b.builder.add_event(e);
    for (std::uint32_t i = 0; i < count; ++i) {
      e.name = b.builder.intern("op " + std::to_string(i));
      e.parent = all;
      e.begin_ns = std::int64_t{i} * 100 + thread * 10;
      e.end_ns = e.begin_ns + 60;
      const std::uint32_t op = b.builder.add_event(e);
      if (thread == 0) {
        forward.push_back(op);
        memory_event m;
        m.time_ns = e.begin_ns + 5;
        m.bytes = 64;
        m.event = op;
        b.builder.add_memory(m);
      } else {
        b.builder.add_link({forward[i], op, link_kind::custom});
      }
    }
  }
  b.builder.info().end_ns = std::int64_t{count} * 100 + 100;
  b.builder.add_metadata("run", "\"one\"");
  return b.builder.finish();
}

std::map<std::string, int> counts_of(const test::checked_trace& checked) {
  std::map<std::string, int> counts;
  for (const test::checked_slice& s : checked.slices)
    if (!s.instant || s.name == "[memory]") ++counts[s.name];
  return counts;
}

}  // namespace

// Catches: parts above the limit, parts that no viewer opens, events lost or written twice at the borders, arrows with
// one end, metadata and names in the first part only. FC-50:
// https://github.com/jlfwong/speedscope/issues/478, https://github.com/pytorch/kineto/issues/595. Larger: bounded
TEST_CASE("a large recording becomes several complete files", "[trace_parts]") {
  const test::temp_folder folder;
  const trace whole = long_recording(3000);
  chrome_trace_options options;
  options.max_file_bytes = 200000;
  const chrome_trace_result result = export_chrome_trace(whole, folder / "trace.json", options);
  REQUIRE(result.files.size() > 5);
  CHECK(result.files.size() < 20);
  CHECK(folder.names().size() == result.files.size());
  CHECK(folder.names().front() == "trace.part01.json");
  std::map<std::string, int> counts;
  std::size_t arrows = 0;
  std::uint64_t bytes = 0, largest = 0;
  for (const std::filesystem::path& path : result.files) {
    INFO(path);
    const std::string text = test::contents_of(path.string());
    CHECK(text.size() <= options.max_file_bytes);
    bytes += text.size();
    largest = (std::max)(largest, std::uint64_t{text.size()});
    const test::checked_trace checked = test::check_trace(text);
    CHECK(checked.findings.empty());
    CHECK(checked.document.root.string("run") == "one");
    CHECK(text.find("\"worker\"") != std::string::npos);
    for (const auto& [name, count] : counts_of(checked)) counts[name] += count;
    arrows += checked.arrows.size();
  }
  CHECK(bytes == result.bytes);
  CHECK(largest == result.largest_file_bytes);
  CHECK(counts["[memory]"] == 3000);
  CHECK(counts["all"] == 2 * static_cast<int>(result.files.size()));  // around what is in each part
  int wrong = 0;
  for (int i = 0; i < 3000; ++i) wrong += counts["op " + std::to_string(i)] != 2;
  CHECK(wrong == 0);
  CHECK(arrows == result.flows);
  CHECK(arrows + result.files.size() > 3000);  // at most one between two parts
}

// Catches: a limit that cuts what fits, a file of the whole left beside the parts, the name of a compressed one.
TEST_CASE("what fits is one file", "[trace_parts]") {
  const test::temp_folder folder;
  const trace whole = long_recording(10);
  chrome_trace_options options;
  options.max_file_bytes = 1000000;
  const chrome_trace_result result = export_chrome_trace(whole, folder / "trace.json", options);
  CHECK(folder.names() == std::vector<std::string>{"trace.json"});
  CHECK(result.files == std::vector<std::filesystem::path>{folder / "trace.json"});
  options.max_file_bytes = 0;
  const std::string limited = test::contents_of(folder / "trace.json");
  export_chrome_trace(whole, folder / "trace.json", options);
  CHECK(test::contents_of(folder / "trace.json") == limited);
  CHECK(detail::part_path("a/trace.pt.trace.json.gz", 3, 12) == "a/trace.pt.trace.part03.json.gz");
  CHECK(detail::part_path("trace", 1, 1) == "trace.part1");
}

// Catches: an endless search where everything begins at once, thousands of files for a limit that nothing fits.
TEST_CASE("limits that cannot be kept", "[trace_parts]") {
  const test::temp_folder folder;
  test::event_builder b("t1:");
  for (int i = 0; i < 2000; ++i) {
    trace_event e;
    e.name = b.builder.intern("at once " + std::to_string(i));
    e.parent = i == 0 ? npos : static_cast<std::uint32_t>(i - 1);
    e.begin_ns = 5;
    e.end_ns = 5000 - i;
    b.builder.add_event(e);
  }
  const trace whole = b.builder.finish();
  chrome_trace_options options;
  options.max_file_bytes = 65536;
  CHECK(export_chrome_trace(whole, folder / "trace.json", options).files.size() == 1);
  options.max_file_bytes = 1000;
  std::error_code ec;
  CHECK(export_chrome_trace(whole, folder / "trace.json", options, ec).files.empty());
  CHECK(ec.message() == "export_chrome_trace: max_file_bytes is 1000, must be 0 (no limit) or at least 65536");
  CHECK_THROWS_AS(export_chrome_trace(whole, folder / "trace.json", options), error);
}

// Catches: a failure in the middle that is told as a success, or that leaves half a file.
TEST_CASE("parts that cannot be written", "[trace_parts]") {
  const test::temp_folder folder;
  std::filesystem::create_directory(folder / "trace.part02.json");
  chrome_trace_options options;
  options.max_file_bytes = 200000;
  std::error_code ec;
  const chrome_trace_result result = export_chrome_trace(long_recording(3000), folder / "trace.json", options, ec);
  CHECK(ec == std::errc::is_a_directory);
  CHECK(result.files.empty());
  CHECK(folder.names() == std::vector<std::string>{"trace.part01.json", "trace.part02.json"});
  CHECK(test::check_trace(test::contents_of(folder / "trace.part01.json")).findings.empty());
}

// Catches: the selection of an export ignored for one kind of output.
TEST_CASE("a selection is exported alike to all outputs", "[trace_parts]") {
  const test::temp_folder folder;
  const trace whole = test::events("t1: a[0..1000]{ b[0..10] c[10..900] }");
  chrome_trace_options options;
  options.selection.min_duration_ns = 100;
  options.trace_name = "name";
  std::string text;
  write_chrome_trace(whole, text, options);
  CHECK(text.find("\"c\"") != std::string::npos);
  CHECK(text.find("\"b\"") == std::string::npos);
  export_chrome_trace(whole, folder / "trace.json", options);
  CHECK(test::contents_of(folder / "trace.json") == text);
  options.max_file_bytes = 65536;
  export_chrome_trace(whole, folder / "trace.json", options);
  CHECK(test::contents_of(folder / "trace.json") == text);
}

// Catches: parts above the limit where a recording is denser than the rest, events in no part or in two, and a cut that
// leaves one half empty, again and again.
TEST_CASE("a part that is too large is halved until it fits or is one moment", "[trace_parts]") {
  // One event each ns to 100, of 50 bytes to 8 ns and of 1 byte then; 40 more of 50 bytes at 3 ns.
  std::string text = "t1:";
  for (int at = 0; at < 100; ++at) {
    text += " e[" + std::to_string(at) + ".." + std::to_string(at) + "]";
    for (int more = 0; at == 3 && more < 40; ++more) text += " e[3..3]";
  }
  const trace t = test::events(text);
  const auto size_of = [&t](const trace_selection& part) {
    std::uint64_t bytes = 0;
    for (const trace_event& e : t.events())
      if (e.begin_ns >= part.begin_ns && e.begin_ns < part.end_ns) bytes += e.begin_ns < 8 ? 50 : 1;
    return bytes;
  };
  for (const std::uint64_t most : {50u, 100u, 120u, 1000u, 2500u}) {
    CAPTURE(most);
    const std::vector<trace_selection> parts =
        detail::part_planner(t, {}, most, size_of).run(size_of(trace_selection()));
    REQUIRE(!parts.empty());
    CHECK(parts.front().begin_ns == INT64_MIN);
    CHECK(parts.back().end_ns == INT64_MAX);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i != 0) CHECK(parts[i].begin_ns == parts[i - 1].end_ns);
      CHECK(size_of(parts[i]) != 0);
      const bool is_one_moment = parts[i].begin_ns == 3 && parts[i].end_ns == 4;
      if (!is_one_moment) CHECK(size_of(parts[i]) <= most);
    }
  }
}

}  // namespace trace_parts_test
