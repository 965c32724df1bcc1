// Catches: text that is damaged, or damages the file, on the way from the recording call to the trace; exports of a
// profile that fail in silence.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>
#include <support/temp_folder.hpp>

#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <stepprof/stepprof.hpp>

namespace profile_export_test {

using test::fake_clock;

namespace {

const std::string replaced = "\xef\xbf\xbd";  // U+FFFD

stepprof::profile_options small() {
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{1} << 20;
  return options;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// The names of the events of one phase, in order.
std::string names_of(const test::checked_trace& file, const std::string& phase) {
  std::string names;
  for (const test::json_node& event : file.events())
    if (event.string("ph") == phase) names += event.string("name");
  return names;
}

}  // namespace

// FC-40: pytorch/kineto PR1459, pytorch/pytorch#98432, pytorch/pytorch#113001
// FC-41: google/perfetto#598, pytorch/pytorch#130622, pytorch/pytorch#136180, nlohmann/json#1195
// Catches: a call whose text is cut at a byte, mixed with that of another call, or written without escaping.
TEST_CASE("any text given to any call comes back from the file", "[profile]") {
  std::vector<std::pair<std::string, std::string>> texts;  // given, read back
  for (int c = 0; c < 256; ++c) {
    const std::string byte(1, static_cast<char>(c));
    const std::string shown = c < 0x80 ? byte : replaced;
    texts.emplace_back(byte, shown);
    texts.emplace_back("a" + byte + "z", "a" + shown + "z");
  }
  for (const char* text : {"\"}],{\"ph\":\"X", "]}", "}}]}", "\\", "\\u0000", "\xf0\x9f\x98\x80", "\xe2\x80\xa8"})
    texts.emplace_back(text, text);
  stepprof::profile_options options = small();
  options.record_shapes = true;
  stepprof::profile prof(options, stepprof::deferred);
  for (const auto& [text, shown] : texts) {
    INFO("read back: " << shown);
    stepprof::input_description input;
    input.dtype = text.c_str();
    prof.start();
    stepprof::set_thread_name(text);
    stepprof::set_process_name(text);
    {
      const stepprof::record_function scope(text, stepprof::arg(text, text), stepprof::inputs(1, input, 2));
      fake_clock::advance(100);
      stepprof::mark(text);
      stepprof::counter(text, 1);
      fake_clock::advance(100);
    }
    prof.stop();
    const stepprof::trace t = prof.result().with_metadata(text, "1");
    REQUIRE(t.events().size() == 1);
    CHECK(t.name(t.events()[0]) == text);  // in the process nothing is replaced

    prof.add_metadata("text", text);
    const test::checked_trace file = test::check_rules(prof.result());
    CHECK(file.root().string("text") == shown);
    CHECK(test::check_trace(test::chrome_text(t)).root().integer(shown) == 1);
    int scopes = 0;
    for (const test::checked_slice& slice : file.slices) {
      if (slice.cat != "user_annotation") continue;
      ++scopes;
      CHECK(slice.name == shown);
      CHECK(slice.args().string(shown) == shown);
      const std::vector<test::json_node>& types = slice.args().at("Input type").items;
      REQUIRE(types.size() == 3);
      CHECK(types[0].text == "Scalar");
      CHECK(types[1].text == shown.substr(0, shown.find('\0')));
      CHECK(types[2].text == "Scalar");
    }
    CHECK(scopes == 1);
    CHECK(names_of(file, "C") == shown);
    CHECK(test::contains(names_of(file, "i") + names_of(file, "I"), shown));
    // These two, and the type of an input, end at a zero byte.
    const std::string name = shown.substr(0, shown.find('\0'));
    if (name.empty()) continue;
    REQUIRE(file.process_names.size() == 1);
    CHECK(file.process_names.begin()->second == name);
    int threads = 0;
    for (const auto& [id, thread] : file.thread_names) threads += thread == name;
    CHECK(threads == 1);
  }
  stepprof::set_thread_name("test");
  stepprof::set_process_name("");
}

// FC-41: google/perfetto#598
// Catches: a long text cut inside a character, so that the file holds half of one.
TEST_CASE("texts that are too long are cut at a character", "[profile]") {
  const struct {
    std::string character;
    int in_thread_name, in_process_name, in_argument, in_type;  // how many fit into 46, 63, 8192, 255 bytes less one
  } cases[] = {
      {"\xc3\xa9", 22, 31, 4095, 127}, {"\xe2\x82\xac", 15, 20, 2730, 84}, {"\xf0\x9f\x98\x80", 11, 15, 2047, 63}};
  stepprof::profile_options options = small();
  options.record_shapes = true;
  stepprof::profile prof(options, stepprof::deferred);
  for (const auto& c : cases) {
    const std::string text = "a" + repeated(c.character, 5000);
    stepprof::input_description input;
    input.dtype = text.c_str();
    prof.start();
    stepprof::set_thread_name(text);
    stepprof::set_process_name(text);
    { const stepprof::record_function scope("s", stepprof::arg("key", text), stepprof::inputs(input)); }
    prof.stop();
    const test::checked_trace file = test::check_rules(prof.result());
    CHECK(file.process_names.begin()->second == "a" + repeated(c.character, c.in_process_name));
    int threads = 0;
    for (const auto& [id, thread] : file.thread_names)
      threads += thread == "a" + repeated(c.character, c.in_thread_name);
    CHECK(threads == 1);
    for (const test::checked_slice& slice : file.slices) {
      if (slice.name != "s") continue;
      CHECK(slice.args().string("key") == "a" + repeated(c.character, c.in_argument));
      CHECK(slice.args().at("Input type").items.at(0).text == "a" + repeated(c.character, c.in_type));
    }
  }
  stepprof::set_thread_name("test");
  stepprof::set_process_name("");
}

#define STEPPROF_TEST_TIMES_8(text) text text text text text text text text
#define STEPPROF_TEST_TIMES_4096(text) \
  STEPPROF_TEST_TIMES_8(STEPPROF_TEST_TIMES_8(STEPPROF_TEST_TIMES_8(STEPPROF_TEST_TIMES_8(text))))

// FC-41: google/perfetto#598
// Catches: a long name cut inside a character, whichever of its bytes comes last.
TEST_CASE("a name of any kind is cut at a character, wherever in one the limit falls", "[profile]") {
  const test::heard heard;
  const std::string character = "\xf0\x9f\x98\x80";
  for (const int before : {0, 1, 2, 3}) {
    const std::string begin(static_cast<std::size_t>(before), 'a');
    // 16384 bytes are 4096 such characters; with anything before them one less, and the rest of it does not count.
    const std::string cut = begin + repeated(character, before == 0 ? 4096 : 4095);
    const std::string text = begin + repeated(character, 5000);
    stepprof::profile prof(small());
    {
      stepprof::record_function scope(text, stepprof::arg(text, 1));
      fake_clock::advance(10);
      stepprof::manual_scope manual;
      manual.begin(text);
      fake_clock::advance(10);
      stepprof::mark(text);
      stepprof::counter(text, 1);
      fake_clock::advance(10);
    }
    prof.stop();
    const stepprof::trace t = prof.result();
    REQUIRE(t.events().size() == 2);
    CHECK((t.name(t.events()[0]) == cut && t.name(t.events()[1]) == cut));
    REQUIRE(t.arguments().size() == 1);
    CHECK(t.text(t.arguments()[0].key) == cut);
    const test::checked_trace file = test::check_rules(t);
    CHECK(file.slice_count(cut) == 2 + 1);  // with the mark
    CHECK(names_of(file, "C") == cut);
  }
  // At a call site the name is a literal.
  stepprof::profile prof(small());
  { STEPPROF_SCOPE("a" STEPPROF_TEST_TIMES_4096("\xf0\x9f\x98\x80")); }
  { STEPPROF_SCOPE("aaaa" STEPPROF_TEST_TIMES_4096("\xf0\x9f\x98\x80")); }
  prof.stop();
  CHECK(prof.key_averages().find("a" + repeated(character, 4095)) != nullptr);
  CHECK(prof.key_averages().find("aaaa" + repeated(character, 4095)) != nullptr);
  test::check_rules(prof.result());
}

// FC-52: aras-p/ClangBuildAnalyzer#2, soctrace-inria/framesoc#139, torognes/vsearch#243
// A device node of the test's own, so that nothing can happen to the machine's.
// Catches: a full disk reported as success, a device replaced by a file, or a failure that spoils the next export.
TEST_CASE("a profile that cannot write says where and why, and can write elsewhere", "[profile]") {
  const test::temp_folder folder;
  std::string full = folder / "full";
  if (::mknod(full.c_str(), S_IFCHR | 0666, ::makedev(1, 7)) != 0 || ::close(::open(full.c_str(), O_WRONLY)) != 0)
    full = "/dev/full";  // without the right to make nodes
  stepprof::profile prof(small());
  for (int i = 0; i < 1000; ++i) {
    const stepprof::record_function scope("s");
    fake_clock::advance(100);
  }
  prof.stop();
  std::error_code ec;
  prof.export_chrome_trace(full, ec);
  CHECK(ec == std::errc::no_space_on_device);
  CHECK_THROWS_WITH(prof.export_chrome_trace(full), "cannot write '" + full + "': No space left on device");
  prof.export_stacks(full, "self_cpu_time_total", ec);
  CHECK(ec == std::errc::no_space_on_device);
  struct stat facts {};
  REQUIRE(::stat(full.c_str(), &facts) == 0);
  CHECK(S_ISCHR(facts.st_mode));

  const std::string good = folder / "t.json";
  prof.export_chrome_trace(good, ec);
  CHECK_FALSE(ec);
  std::ostringstream stream;
  prof.export_chrome_trace(stream);
  const auto without_name = [](std::string text) {
    const std::size_t begin = text.find("\"traceName\"");
    REQUIRE(begin != std::string::npos);
    return text.erase(begin, text.find('\n', begin) - begin);
  };
  CHECK(without_name(test::contents_of(good)) == without_name(stream.str()));
  CHECK(test::check_trace(test::contents_of(good)).summary() == "");
}

// Catches: an export of the profile that writes something else than the function of that name, drops an option, or does
// not tell what failed.
TEST_CASE("a profile writes what the functions write, and fails as they do", "[profile]") {
  const test::temp_folder folder;
  stepprof::profile_options options = small();
  options.profile_memory = true;
  options.process_name = "as given";
  stepprof::profile prof(options);
  {
    const stepprof::record_function scope("s");
    int block = 0;
    stepprof::report_alloc(&block, 64);
    fake_clock::advance(1000);
    stepprof::report_free(&block);
  }
  prof.stop();
  CHECK(prof.options().process_name == "as given");
  const stepprof::trace t = prof.result();
  const std::string missing = folder / "missing/t", wrong = folder / "t.txt";
  std::error_code ec;
  const auto same = [&](const std::string& a, const std::string& b) {
    CHECK(!test::contents_of(folder / a).empty());
    CHECK(test::contents_of(folder / a) == test::contents_of(folder / b));
  };

  std::ostringstream one, other;
  prof.export_chrome_trace(one, ec);
  CHECK_FALSE(ec);
  stepprof::export_chrome_trace(t, other);
  CHECK(one.str() == other.str());
  one.setstate(std::ios::badbit);
  prof.export_chrome_trace(one, ec);
  CHECK(ec);

  prof.export_stacks(folder / "a", "self_cpu_time_total", stepprof::stack_source::scopes, ec);
  CHECK_FALSE(ec);
  stepprof::export_stacks(t, folder / "b", "self_cpu_time_total", stepprof::stack_source::scopes);
  same("a", "b");
  prof.export_stacks(folder / "c", "self_cpu_time_total", stepprof::stack_source::native, ec);
  CHECK(ec);  // none were recorded

  prof.export_speedscope(folder / "a.json");
  prof.export_speedscope(folder / "b.json", ec);
  CHECK_FALSE(ec);
  stepprof::export_speedscope(t, folder / "c.json");
  same("a.json", "b.json");
  same("a.json", "c.json");
  prof.export_speedscope(missing, ec);
  CHECK(ec == std::errc::no_such_file_or_directory);
  CHECK_THROWS(prof.export_speedscope(missing));

  stepprof::memory_timeline_options by_key;
  by_key.group_by = stepprof::memory_group::key;
  prof.export_memory_timeline(folder / "d.json", by_key);
  prof.export_memory_timeline(folder / "e.json", by_key, ec);
  CHECK_FALSE(ec);
  stepprof::export_memory_timeline(t, folder / "f.json", by_key);
  same("d.json", "e.json");
  same("d.json", "f.json");
  prof.export_memory_timeline(wrong, {}, ec);
  CHECK(ec == stepprof::errc::invalid_argument);
  CHECK_THROWS(prof.export_memory_timeline(wrong));
}

}  // namespace profile_export_test
