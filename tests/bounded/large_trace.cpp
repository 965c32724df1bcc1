// Takes two minutes of a processor, 2.3 GB of memory and 4.7 GB of disk, so it is run by hand: bounded_tests "[large]".
// STEPPROF_LARGE_EVENTS=3000000 is a tenth of it.
// FC-50: https://github.com/jlfwong/speedscope/issues/478, https://github.com/pytorch/kineto/issues/595
#include <support/event_builder.hpp>
#include <support/recorded.hpp>
#include <support/temp_folder.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <stepprof/stepprof.hpp>

namespace large_trace {

namespace {

std::uint32_t events_wanted() {
  const char* const text = std::getenv("STEPPROF_LARGE_EVENTS");
  return text == nullptr ? 30000000 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

// Four threads, each with a step every microsecond, of two layers with two ops.
stepprof::trace recording(std::uint32_t events) {
  test::event_builder b("t1:");
  stepprof::trace_builder& builder = b.builder;
  builder.raw_events().reserve(events);
  constexpr std::uint32_t of_step = 7;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    if (thread != 0) {
      stepprof::trace_track track;
      track.id = thread + 1;
      builder.add_track(track);
    }
    builder.track(thread).name = "thread " + std::to_string(thread + 1);
    for (std::uint32_t step = 0; step < events / 4 / of_step; ++step) {
      const std::int64_t at = std::int64_t{step} * 1000 + thread * 10;
      const auto add = [&](const char* name, std::uint32_t parent, std::int64_t begin, std::int64_t end) {
        stepprof::trace_event e;
        e.name = builder.intern(name);
        e.parent = parent;
        e.begin_ns = at + begin;
        e.end_ns = at + end;
        return builder.add_event(e);
      };
      const std::uint32_t whole = add("step", stepprof::npos, 0, 900);
      for (std::int64_t layer = 0; layer < 2; ++layer) {
        const std::uint32_t in = add("layer", whole, layer * 400 + 50, layer * 400 + 400);
        add("matmul", in, layer * 400 + 60, layer * 400 + 200);
        add("relu", in, layer * 400 + 210, layer * 400 + 390);
      }
    }
  }
  builder.info().end_ns = std::int64_t{events} * 1000;
  builder.add_metadata("run", "\"large\"");
  return builder.finish();
}

// How often each of the names stands in a file, and its last byte.
struct scanned {
  std::array<std::uint64_t, 4> counts{};
  char last = 0;
};
constexpr const char* names[] = {"\"name\":\"step\"", "\"name\":\"layer\"", "\"name\":\"matmul\"", "\"name\":\"relu\""};
scanned scan(const std::filesystem::path& path) {
  const std::string text = test::contents_of(path.string());
  scanned found;
  for (std::size_t i = 0; i < found.counts.size(); ++i) {
    const std::string_view name = names[i];
    const std::boyer_moore_horspool_searcher searcher(name.begin(), name.end());
    for (auto at = std::search(text.begin(), text.end(), searcher); at != text.end(); ++found.counts[i])
      at = std::search(at + 1, text.end(), searcher);
  }
  found.last = text.empty() ? '\0' : text.back();
  return found;
}

}  // namespace

// Catches: sizes in 32 bits, parts that are too large or not whole, scopes lost between them, time that grows with the
// square of the number of parts.
TEST_CASE("thirty million events are written as a whole and in parts", "[.][large]") {
  const test::temp_folder folder;
  const std::uint32_t events = events_wanted();
  const stepprof::trace whole = recording(events);
  stepprof::detail::counting_sink sink;
  std::int64_t begin = stepprof::detail::steady_ns();
  const auto told = [&begin](const std::string& what) {
    const std::int64_t now = stepprof::detail::steady_ns();
    fmt::print("{}: {:.1f} s\n", what, static_cast<double>(now - begin) / 1e9);
    std::fflush(stdout);
    begin = stepprof::detail::steady_ns();
  };
  const stepprof::chrome_trace_result as_one = stepprof::write_chrome_trace(whole, sink);
  told(fmt::format("{} events, {} bytes counted", whole.events().size(), sink.bytes()));
  CHECK(as_one.bytes == sink.bytes());
  if (events >= 30000000) CHECK(as_one.bytes > (std::uint64_t{1} << 32));

  stepprof::chrome_trace_options options;
  options.max_file_bytes = 100000000;
  const stepprof::chrome_trace_result parts = stepprof::export_chrome_trace(whole, folder / "large.json", options);
  told(fmt::format("{} parts of at most {} bytes, {} bytes together", parts.files.size(), parts.largest_file_bytes,
                   parts.bytes));
  CHECK(parts.largest_file_bytes <= options.max_file_bytes);
  CHECK(parts.files.size() < 2 * as_one.bytes / options.max_file_bytes);
  std::array<std::uint64_t, 4> counts{};
  int wrong = 0;
  for (const std::filesystem::path& path : parts.files) {
    const scanned found = scan(path);
    wrong += found.last != '}' || std::filesystem::file_size(path) > options.max_file_bytes;
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += found.counts[i];
  }
  told("parts read");
  CHECK(wrong == 0);
  const std::uint64_t steps = events / 4 / 7 * 4;
  const std::uint64_t borders = 4 * (parts.files.size() - 1);  // what encloses a part is in it, once per thread
  CHECK((counts[0] >= steps && counts[0] <= steps + borders));
  CHECK((counts[1] >= 2 * steps && counts[1] <= 2 * steps + borders));
  CHECK((counts[2] >= 2 * steps && counts[2] <= 2 * steps + borders));
  CHECK((counts[3] >= 2 * steps && counts[3] <= 2 * steps + borders));
  const test::checked_trace checked = test::check_trace(test::contents_of(parts.files[1].string()));
  CHECK(checked.summary() == "");
  CHECK(checked.document.root.string("run") == "large");
  told("a part looked at as viewers do");

  if (stepprof::detail::gzip() == nullptr) return;
  stepprof::detail::counting_sink compressed;
  const auto gzip = stepprof::detail::gzip()->make_sink(compressed);
  stepprof::write_chrome_trace(whole, *gzip);
  CHECK_FALSE(gzip->finish());
  CHECK(gzip->bytes() == as_one.bytes);
  told(fmt::format("{} bytes compressed", compressed.bytes()));
}

}  // namespace large_trace
