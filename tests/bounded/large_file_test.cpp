// Catches: sizes that are kept in 32 bits, and files that nobody can open and nobody is warned of.
#include <support/event_builder.hpp>
#include <support/recorded.hpp>
#include <support/temp_folder.hpp>

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <streambuf>
#include <string>

#include <stepprof/stepprof.hpp>

namespace large_file_test {

namespace {

// As many events whose JSON is a little more than 16 KiB each.
stepprof::trace long_names(std::uint32_t count) {
  test::event_builder b("t1:");
  stepprof::trace_event e;
  e.name = b.builder.intern(std::string(16384, 'n'));
  for (std::uint32_t i = 0; i < count; ++i) {
    e.begin_ns = e.end_ns = i;
    b.builder.add_event(e);
  }
  b.builder.info().end_ns = count;
  return b.builder.finish();
}

// What comes in is only counted.
class counting_buffer : public std::streambuf {
 public:
  std::uint64_t bytes = 0;

 private:
  std::streamsize xsputn(const char*, std::streamsize size) override {
    bytes += static_cast<std::uint64_t>(size);
    return size;
  }
  int_type overflow(int_type) override {
    ++bytes;
    return 0;
  }
};

}  // namespace

// Catches: counts of bytes that begin anew at 2^31 or 2^32. FC-50: https://github.com/jlfwong/speedscope/issues/478
TEST_CASE("more than 2^32 bytes are written and counted", "[bounded]") {
  constexpr std::uint32_t events = 270000;
  counting_buffer counted;
  std::ostream out(&counted);
  const stepprof::chrome_trace_result written = stepprof::export_chrome_trace(long_names(events), out);
  CHECK(written.bytes > (std::uint64_t{1} << 32));
  CHECK(written.bytes == counted.bytes);
  CHECK(written.largest_file_bytes == written.bytes);
  // The same with a tenth of the events, for what one of them takes; times and numbers have a digit more or less.
  std::string text;
  stepprof::write_chrome_trace(long_names(events / 10), text);
  CHECK(written.bytes > 9 * std::uint64_t{text.size()});
  CHECK(written.bytes < 11 * std::uint64_t{text.size()});
}

// Catches: a warning that is not given, or at each cycle. FC-50: https://github.com/jlfwong/speedscope/issues/478
TEST_CASE("a profile and a trace handler each say once that their files are too large for viewers", "[bounded]") {
  const test::temp_folder folder;
  const test::heard heard;
  const std::string name(16384, 'n');
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{/*wait*/ 0, /*warmup*/ 1, /*active*/ 1, /*repeat*/ 2};
  options.on_trace_ready = stepprof::trace_handler(folder / "large");
  stepprof::profile prof(options);
  const std::uint64_t limit = stepprof::detail::large_trace_bytes;
  for (int cycle = 0; cycle < 2; ++cycle) {
    prof.step();
    for (std::uint64_t i = 0; i < limit / 16384; ++i) const stepprof::record_function scope(name);
    prof.step();
    CHECK(heard.codes() == "large_trace");
    for (const auto& entry : std::filesystem::directory_iterator(folder / "large")) {
      CHECK(entry.file_size() > limit);
      std::filesystem::remove(entry.path());
    }
  }
  counting_buffer counted;
  std::ostream out(&counted);
  for (int i = 0; i < 2; ++i) prof.export_chrome_trace(out);
  CHECK(counted.bytes > 2 * limit);
  CHECK(heard.codes() == "large_trace large_trace");
}

}  // namespace large_file_test
