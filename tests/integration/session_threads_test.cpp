// Catches: the parts of a session that any thread and any process may use, and that are not safe there.
#include <support/catch.hpp>
#include <support/event_builder.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/session/diagnostics.hpp>
#include <stepprof/session/trace_handler.hpp>

namespace session_threads_test {

using namespace stepprof;
namespace fs = std::filesystem;

namespace {

constexpr int workers = 8;
constexpr int rounds = 20;

trace one_event() {
  test::event_builder b("t1: a[0..1]");
  b.builder.process(0).host = "node";
  b.builder.process(0).os_pid = 1;  // equal in all processes, as on two hosts of one name
  return b.builder.finish();
}

// All name their files alike, so that each has to find one that no other takes.
trace_handler handler_with_frozen_clock(const std::string& directory, const std::string& content) {
  trace_handler_options options;
  options.unix_time_ns = [] { return std::int64_t{1000}; };
  options.write = [content](const trace&, const std::string& path, std::error_code& ec) {
    ec.clear();
    std::ofstream(path) << content;
  };
  return trace_handler(directory, options);
}

void write_all(const std::string& directory, int worker) {
  const trace t = one_event();
  for (int i = 0; i < rounds; ++i) {
    const std::string content = std::to_string(worker) + ":" + std::to_string(i);
    handler_with_frozen_clock(directory, content)(t);
  }
}

// How many different contents there are, and that no other file is left.
std::size_t contents_of(const fs::path& directory) {
  std::set<std::string> contents;
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    std::string content;
    std::ifstream(entry.path()) >> content;
    contents.insert(content);
    ++files;
  }
  CHECK(files == contents.size());
  return contents.size();
}

struct scratch {
  scratch() {
    std::string name = (fs::temp_directory_path() / "stepprof_session_XXXXXX").string();
    REQUIRE(::mkdtemp(&name[0]) != nullptr);
    path = name;
  }
  ~scratch() { fs::remove_all(path); }
  fs::path path;
};

}  // namespace

// FC-07: ooples/AiDotNet.Tensors PR264
// Catches: a free name that is looked for first and taken later, so that two threads take it.
TEST_CASE("threads that write at the same time lose no file", "[trace_handler]") {
  const scratch dir;
  const std::string directory = (dir.path / "new" / "traces").string();
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) threads.emplace_back(write_all, directory, w);
  for (std::thread& t : threads) t.join();
  CHECK(contents_of(directory) == workers * rounds);
}

// FC-74: NVIDIA/TensorRT-LLM PR13536
// Catches: processes with equal names that overwrite each other, or that fail because another made the directory.
TEST_CASE("processes that write at the same time lose no file", "[trace_handler]") {
  const scratch dir;
  const std::string directory = (dir.path / "new" / "traces").string();
  std::vector<pid_t> children;
  for (int w = 0; w < workers; ++w) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      write_all(directory, w);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(contents_of(directory) == workers * rounds);
}

// Catches: a hook that is changed under the thread that calls it, and a code that is reported twice in a race.
TEST_CASE("diagnostics may come from all threads while the hook changes", "[diagnostics]") {
  std::atomic<int> seen{0};
  const diagnostics_hook count = [&seen](const diagnostic&) { seen.fetch_add(1); };
  const diagnostics_hook before = set_diagnostics_hook(count);
  detail::diagnostics_once once;
  std::atomic<int> firsts{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w)
    threads.emplace_back([&, w] {
      for (int i = 0; i < rounds; ++i) {
        firsts.fetch_add(once.report({"code " + std::to_string(i), "text"}) ? 1 : 0);
        if (w == 0) set_diagnostics_hook(count);
        if (w == 1)
          set_diagnostics_hook([&seen, text = std::string(64, 'x')](const diagnostic&) { seen.fetch_add(1); });
      }
    });
  for (std::thread& t : threads) t.join();
  set_diagnostics_hook(before);
  CHECK(firsts.load() == rounds);
  CHECK(seen.load() == rounds);
}

}  // namespace session_threads_test
