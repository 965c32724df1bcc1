// Catches: cycles that overwrite each other's files, or a failure that does not say where it wanted to write.
#include <support/catch.hpp>
#include <support/event_builder.hpp>
#include <support/trace_checker.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <stepprof/session/trace_callback.hpp>
#include <stepprof/session/trace_handler.hpp>

namespace trace_handler_test {

using namespace stepprof;
namespace fs = std::filesystem;

namespace {

// A directory of the test's own, gone with the test.
struct scratch {
  scratch() {
    std::string name = (fs::temp_directory_path() / "stepprof_handler_XXXXXX").string();
    REQUIRE(::mkdtemp(&name[0]) != nullptr);
    path = name;
  }
  ~scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  // Name and content of every file, hidden ones too; a directory has none.
  [[nodiscard]] std::map<std::string, std::string> files(const std::string& below = "") const {
    std::map<std::string, std::string> all;
    for (const fs::directory_entry& entry : fs::directory_iterator(path / below)) {
      std::string& content = all[entry.path().filename().string()];
      if (entry.is_directory()) continue;
      std::ifstream in(entry.path());
      content.assign(std::istreambuf_iterator<char>(in), {});
    }
    return all;
  }
  fs::path path;
};

trace cycle_trace(std::int64_t cycle, const std::string& host = "node7") {
  test::event_builder b("t1: a[0..1]");
  b.builder.info().cycle = cycle;
  b.builder.process(0).host = host;
  b.builder.process(0).os_pid = 4321;
  return b.builder.finish();
}

// A writer and a clock that the tests can follow: the content is the cycle.
trace_handler_options injected(std::int64_t time) {
  trace_handler_options options;
  options.unix_time_ns = [time] { return time; };
  options.write = [](const trace& t, const std::string& path, std::error_code& ec) {
    std::ofstream out(path);
    out << t.info().cycle;
    ec.clear();
  };
  return options;
}

}  // namespace

// Catches: a name that viewers of such directories do not take apart. Form of the name: torch 2.14.1.
TEST_CASE("a file is named after worker and time", "[trace_handler]") {
  const scratch dir;
  const trace_handler handler(dir.path.string(), injected(1767225600000000123));
  CHECK(handler.write(cycle_trace(0)) == (dir.path / "node7_4321_cycle0.1767225600000000123.pt.trace.json").string());
  trace_handler_options options = injected(5);
  options.worker_name = "rank0";
  trace_handler(dir.path.string() + "/", options)(cycle_trace(1));
  CHECK(dir.files() == std::map<std::string, std::string>{{"node7_4321_cycle0.1767225600000000123.pt.trace.json", "0"},
                                                          {"rank0.5.pt.trace.json", "1"}});
}

// Catches: a directory or a worker beyond ASCII that becomes another one on its way to the system.
// FC-56: https://github.com/unum-cloud/USearch/issues/745
TEST_CASE("a file stands in exactly the directory that was asked for", "[trace_handler]") {
  const scratch dir;
  const std::string name = "\xed\x95\x9c\xea\xb8\x80 \xf0\x9f\x93\x88";  // Hangul and an emoji
  std::string deep = (dir.path / name).string();
  while (deep.size() < 300) deep += "/" + std::string(60, 'd');
  trace_handler_options options;
  options.unix_time_ns = [] { return std::int64_t{5}; };
  options.worker_name = name;
  const std::string path = trace_handler(deep, options).write(cycle_trace(1));
  CHECK(path == deep + "/" + name + ".5.pt.trace.json");
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  CHECK(test::check_trace(text).findings.empty());
  CHECK(text.find(name + ".5.pt.trace.json\"") != std::string::npos);  // the name that the file says it has
}

// Catches: ranks of a distributed run whose files cannot be told apart.
TEST_CASE("the rank of a process is in the name", "[trace_handler]") {
  const scratch dir;
  trace_builder b;
  b.add_process({});
  b.process(0).host = "node7";
  b.process(0).pid = 4321;
  b.process(0).rank = 3;
  b.info().cycle = 12;
  const trace_handler handler(dir.path.string(), injected(5));
  CHECK(handler.write(b.finish()) == (dir.path / "node7_4321_rank3_cycle12.5.pt.trace.json").string());
}

// Catches: files that others may read although that was forbidden; a selection that is not passed on.
TEST_CASE("files of the user alone, and of a part", "[trace_handler]") {
  const scratch dir;
  trace_handler_options options;
  options.owner_only = true;
  options.selection.min_duration_ns = 10;
  const std::string path =
      trace_handler(dir.path.string(), options).write(test::events("t1: long[0..20]{ short[0..9] }"));
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  const std::string content = dir.files().begin()->second;
  CHECK(content.find("\"long\"") != std::string::npos);
  CHECK(content.find("\"short\"") == std::string::npos);
}

// FC-07: ooples/AiDotNet.Tensors PR264
// Catches: two cycles at one time that share a file.
TEST_CASE("fifty cycles with a frozen clock are fifty files", "[trace_handler]") {
  const scratch dir;
  const trace_handler handler(dir.path.string(), injected(100));
  const trace_callback callback = handler;  // as a profile holds it
  // The first cycles of fifty profiles, and then the next cycles of one.
  for (int i = 0; i < 50; ++i) REQUIRE_FALSE(callback(cycle_trace(0)));
  for (std::int64_t cycle = 1; cycle < 50; ++cycle) REQUIRE_FALSE(callback(cycle_trace(cycle)));
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 50; ++i) expected["node7_4321_cycle0." + std::to_string(100 + i) + ".pt.trace.json"] = "0";
  for (int i = 1; i < 50; ++i)
    expected["node7_4321_cycle" + std::to_string(i) + ".100.pt.trace.json"] = std::to_string(i);
  CHECK(dir.files() == expected);
}

// FC-07: ooples/AiDotNet.Tensors PR264
// Catches: a default that writes something else than a Chrome trace, or gives it the name of an unfinished file.
TEST_CASE("without a writer the files are Chrome traces", "[trace_handler]") {
  const scratch dir;
  trace_handler_options options;
  options.unix_time_ns = [] { return std::int64_t{100}; };
  std::ofstream(dir.path / "node7_4321_cycle2.100.pt.trace.json") << "{}";
  const trace_handler handler(dir.path.string(), options);
  for (std::int64_t cycle = 0; cycle < 50; ++cycle) handler(cycle_trace(cycle));
  const auto files = dir.files();
  REQUIRE(files.size() == 51);
  std::vector<std::int64_t> cycles;
  for (const auto& [name, content] : files) {
    const nlohmann::json json = nlohmann::json::parse(content);
    if (json.empty()) continue;
    CHECK(test::check_trace(content).summary() == "");
    CHECK(json["traceName"] == (dir.path / name).string());
    cycles.push_back(json["stepprof"]["cycle"].get<std::int64_t>());
  }
  std::sort(cycles.begin(), cycles.end());
  REQUIRE(cycles.size() == 50);
  CHECK(cycles.front() == 0);
  CHECK(cycles.back() == 49);
  CHECK(std::adjacent_find(cycles.begin(), cycles.end()) == cycles.end());

  trace_handler(dir.path.string())(cycle_trace(50));  // with the system's clock
  CHECK(dir.files().size() == 52);
}

// FC-07: gradle/gradle-profiler PR53; FC-74: NVIDIA/TensorRT-LLM PR13536
// Catches: an existing file, or that of another process with the same name, that is overwritten.
TEST_CASE("what exists is never overwritten", "[trace_handler]") {
  const scratch dir;
  std::ofstream(dir.path / "node7_4321_cycle1.100.pt.trace.json") << "precious";
  fs::create_directory(dir.path / "node7_4321_cycle1.101.pt.trace.json");
  fs::create_symlink("nowhere", dir.path / "node7_4321_cycle1.102.pt.trace.json");
  std::ofstream(dir.path / ".node7_4321_cycle1.103.pt.trace.json.part") << "of a process that is still writing";
  const trace_handler one(dir.path.string(), injected(100));
  const trace_handler two(dir.path.string(), injected(100));
  one(cycle_trace(1));
  two(cycle_trace(1));
  CHECK(fs::is_symlink(dir.path / "node7_4321_cycle1.102.pt.trace.json"));
  fs::remove(dir.path / "node7_4321_cycle1.101.pt.trace.json");
  fs::remove(dir.path / "node7_4321_cycle1.102.pt.trace.json");
  CHECK(dir.files() == std::map<std::string, std::string>{
                           {"node7_4321_cycle1.100.pt.trace.json", "precious"},
                           {"node7_4321_cycle1.104.pt.trace.json", "1"},
                           {"node7_4321_cycle1.105.pt.trace.json", "1"},
                           {".node7_4321_cycle1.103.pt.trace.json.part", "of a process that is still writing"}});
}

// Catches: a reader of the directory that finds half a trace under its final name.
TEST_CASE("the file has its name only when it is complete", "[trace_handler]") {
  const scratch dir;
  trace_handler_options options = injected(1);
  options.write = [&](const trace&, const std::string& path, std::error_code& ec) {
    ec.clear();
    for (const auto& file : dir.files()) CHECK(file.first.front() == '.');
    std::ofstream(path) << "complete";
  };
  trace_handler(dir.path.string(), options)(cycle_trace(0));
  CHECK(dir.files() == std::map<std::string, std::string>{{"node7_4321_cycle0.1.pt.trace.json", "complete"}});
}

// Catches: files that overwrite each other where there are no hard links.
TEST_CASE("without hard links a name is still never taken twice", "[trace_handler]") {
  const scratch dir;
  const auto no_links = [](const std::string&, const std::string&) {
    return std::make_error_code(std::errc::operation_not_supported);
  };
  const std::string from = (dir.path / "from").string();
  const std::string to = (dir.path / "to").string();
  std::ofstream(from) << "new";
  CHECK_FALSE(detail::publish_exclusively(from, to, no_links));
  CHECK(dir.files() == std::map<std::string, std::string>{{"to", "new"}});
  std::ofstream(from) << "second";
  CHECK(detail::publish_exclusively(from, to, no_links) == std::errc::file_exists);
  CHECK(detail::publish_exclusively(from, to, detail::make_hard_link) == std::errc::file_exists);
  CHECK(dir.files() == std::map<std::string, std::string>{{"to", "new"}, {"from", "second"}});
}

// Catches: parents that have to be made by hand, or a directory that must not go away between cycles.
TEST_CASE("the directory is made with its parents when it is needed", "[trace_handler]") {
  const scratch dir;
  const trace_handler handler((dir.path / "a" / "b" / "c").string(), injected(9));
  CHECK(dir.files().empty());
  handler(cycle_trace(0));
  CHECK(dir.files("a/b/c").size() == 1);
  fs::remove_all(dir.path / "a");
  handler(cycle_trace(1));
  CHECK(dir.files("a/b/c") == std::map<std::string, std::string>{{"node7_4321_cycle1.9.pt.trace.json", "1"}});
}

// FC-52: aras-p/ClangBuildAnalyzer#2
// Catches: a failure that is silent, does not name the directory, or leaves files behind.
TEST_CASE("a failure names the directory and leaves nothing", "[trace_handler]") {
  const scratch dir;
  std::ofstream(dir.path / "file") << "x";
  const std::string below_file = (dir.path / "file" / "traces").string();
  std::error_code ec;
  CHECK(trace_handler(below_file, injected(1)).write(cycle_trace(0), ec).empty());
  CHECK(ec == std::errc::not_a_directory);
  CHECK(ec.message().find("trace_handler: cannot create the directory '" + below_file + "': ") == 0);
  CHECK_THROWS_WITH(trace_handler(below_file, injected(1))(cycle_trace(0)), ec.message());
  CHECK_THROWS_AS(trace_handler(below_file, injected(1))(cycle_trace(0)), std::system_error);

  const std::string file = (dir.path / "file").string();
  trace_handler(file, injected(1))(cycle_trace(0), ec);
  CHECK(ec);
  CHECK(ec.message().find("'" + file + "'") != std::string::npos);

  trace_handler_options long_name = injected(1);
  long_name.worker_name = std::string(300, 'n');
  trace_handler((dir.path / "d").string(), long_name)(cycle_trace(0), ec);
  CHECK(ec == std::errc::filename_too_long);
  CHECK(ec.message().find("'" + (dir.path / "d").string() + "'") != std::string::npos);

  trace_handler_options failing = injected(1);
  failing.write = [](const trace&, const std::string& path, std::error_code& failed) {
    std::ofstream(path) << "half";
    failed = std::make_error_code(std::errc::no_space_on_device);
  };
  CHECK(trace_handler((dir.path / "d").string(), failing).write(cycle_trace(0), ec).empty());
  CHECK(ec == std::errc::no_space_on_device);
  CHECK(ec.message().find("trace_handler: cannot write '" +
                          (dir.path / "d" / "node7_4321_cycle0.1.pt.trace.json").string() + "': ") == 0);
  CHECK(dir.files("d").empty());
  trace_handler((dir.path / "d").string(), injected(1))(cycle_trace(0), ec);
  CHECK_FALSE(ec);
  CHECK(dir.files("d").size() == 1);
}

// Catches: names from outside that lead out of the directory, and a worker's name that is changed silently.
TEST_CASE("names stay inside the directory", "[trace_handler]") {
  const scratch dir;
  trace_handler((dir.path / "d").string(), injected(1))(cycle_trace(0, "../up\n\\x"));
  CHECK(dir.files("d").count(".._up__x_4321_cycle0.1.pt.trace.json") == 1);
  CHECK(dir.files().size() == 1);
  trace_handler((dir.path / "d").string(), injected(1))(cycle_trace(0, ""));
  CHECK(dir.files("d").count("localhost_4321_cycle0.1.pt.trace.json") == 1);

  trace_handler_options options;
  options.worker_name = "a/b";
  const std::string text =
      "trace_handler: worker_name is 'a/b', must not hold '/', '\\' or control bytes; give the directory as the first "
      "argument";
  std::error_code ec;
  validate(options, ec);
  CHECK(ec == errc::invalid_argument);
  CHECK(ec.message() == text);
  CHECK_THROWS_WITH(trace_handler("d", options), text);
  CHECK_THROWS_WITH(trace_handler(""), "trace_handler: directory is empty; use \".\" for the current one");
  CHECK_THROWS_WITH(trace_handler(std::string("a\0b", 3)), "trace_handler: directory holds a zero byte; leave it out");
}

// FC-51. With zlib: tests/adapters/zlib_test.cpp.
// Catches: compressed files that are asked for and found out to be impossible only when the first cycle is delivered.
TEST_CASE("without zlib a handler of compressed files is refused", "[trace_handler]") {
  trace_handler_options options;
  options.use_gzip = true;
  std::error_code ec;
  validate(options, ec);
  CHECK(ec == errc::unsupported);
  CHECK(ec.message() ==
        "trace_handler: use_gzip is true, which takes zlib; include <stepprof/adapters/zlib.hpp> in one source file of "
        "the program and link stepprof::zlib, or leave it false");
  CHECK_THROWS_AS(trace_handler("traces", options), error);
}

}  // namespace trace_handler_test
