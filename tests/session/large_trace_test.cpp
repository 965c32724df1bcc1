#include <stepprof/session/large_trace.hpp>

#include <support/recorded.hpp>

namespace large_trace_test {

namespace {

stepprof::chrome_trace_result written(std::uint64_t bytes, std::uint64_t of_largest_file) {
  stepprof::chrome_trace_result result;
  result.bytes = bytes;
  result.largest_file_bytes = of_largest_file;
  return result;
}

}  // namespace

// Catches: a warning about many small files, about one that just fits, or one that does not say what to do. Files that
// really are so large: bounded/large_file. FC-50: https://github.com/jlfwong/speedscope/issues/478
TEST_CASE("a file of more than viewers open well is reported once, with its remedy", "[large_trace]") {
  const test::heard heard;
  stepprof::detail::diagnostics_once once;
  const std::uint64_t limit = stepprof::detail::large_trace_bytes;
  stepprof::detail::report_large_trace(written(0, 0), once);
  stepprof::detail::report_large_trace(written(100 * limit, limit), once);
  CHECK(heard.codes() == "");
  for (int i = 0; i < 2; ++i) stepprof::detail::report_large_trace(written(3 * limit, 2 * limit + 1), once);
  REQUIRE(heard.codes() == "large_trace");
  CHECK(test::contains(heard.all[0].text, "512 MiB of JSON"));
  CHECK(test::contains(heard.all[0].text, "max_file_bytes"));
}

}  // namespace large_trace_test
