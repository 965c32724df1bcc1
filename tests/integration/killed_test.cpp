// Catches: half a trace under its final name, whatever ends the program.
// FC-55: nodejs/node#18476, google/trace-viewer#145, thoren-d/tracing-chrome#5
#include <support/catch.hpp>
#include <support/forked.hpp>
#include <support/temp_folder.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include <sys/resource.h>

#include <stepprof/stepprof.hpp>

namespace killed_test {

namespace {

stepprof::trace some_trace(int scopes) {
  stepprof::profile prof;
  for (int i = 0; i < scopes; ++i) {
    STEPPROF_SCOPE("scope", stepprof::arg("i", i));
  }
  prof.stop();
  return prof.result();
}

// In a child: no core file, no end later than in a minute, and nothing of the test program that hears of signals.
void prepare_to_die() {
  const rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGTERM, SIGINT, SIGABRT}) std::signal(signal, SIG_DFL);
  ::alarm(60);
}

// Exports again and again until something ends the process; `ending` runs meanwhile on a thread of its own.
[[noreturn]] void export_for_ever(const stepprof::trace& t, const std::string& path,
                                  const std::function<void()>& ending) {
  prepare_to_die();
  std::thread(ending).detach();
  for (;;) stepprof::export_chrome_trace(t, path);
}

void spin(int turns) {
  volatile int turn = 0;
  while (turn < turns) turn = turn + 1;
}

}  // namespace

TEST_CASE("a program that is killed while it exports leaves a whole file", "[killed]") {
  const stepprof::trace t = some_trace(20000);
  std::string complete;
  const test::temp_folder folder;
  const std::string path = folder / "trace.json";
  stepprof::export_chrome_trace(t, path);
  complete = test::contents_of(path);
  REQUIRE(complete.size() > 1000000);
  int in_the_middle = 0, wrong = 0, ended = 0, trials = 0;
  for (const int how : {SIGTERM, SIGINT, SIGKILL, SIGABRT, 0}) {
    for (int trial = 0; trial < 8; ++trial, ++trials) {
      std::ofstream(path) << "old";
      const pid_t child = ::fork();
      if (child == 0)
        export_for_ever(t, path, [how, trial] {
          spin(1000000 * trial);
          if (how == 0) ::_exit(3);
          if (how == SIGABRT) std::abort();
          ::kill(::getpid(), how);
        });
      const int status = test::status_of(child);
      ended +=
          how == 0 ? WIFEXITED(status) && WEXITSTATUS(status) == 3 : WIFSIGNALED(status) && WTERMSIG(status) == how;
      const std::string content = test::contents_of(path);
      wrong += content != complete && content != "old";
      for (const std::string& name : folder.names()) {
        if (name == "trace.json") continue;
        ++in_the_middle;  // a part of a file, under a name that nobody takes for a trace
        wrong += name.rfind(".stepprof-", 0) != 0;
        std::filesystem::remove(folder / name);
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(ended == trials);
  CHECK(in_the_middle > 0);
}

// Catches: a handler's directory with a file that ends in the middle, or a name that was taken and is empty.
TEST_CASE("a program that is killed while it records leaves whole files", "[killed]") {
  const test::temp_folder folder;
  int wrong = 0, files = 0;
  for (const int how : {SIGTERM, SIGABRT, 0}) {
    const pid_t child = ::fork();
    if (child == 0) {
      prepare_to_die();
      stepprof::profile_options options;
      options.schedule = stepprof::schedule{0, 0, 2, 0};
      options.on_trace_ready = stepprof::trace_handler(folder.path().string());
      stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
      stepprof::profile prof(options);
      for (int step = 0;; ++step) {
        for (int i = 0; i < 100; ++i) {
          STEPPROF_SCOPE("scope");
        }
        if (step == 21 && how == 0) ::_exit(0);
        if (step == 21 && how == SIGABRT) std::abort();
        if (step == 21) ::raise(how);
        prof.step();
      }
    }
    test::status_of(child);
  }
  for (const std::string& name : folder.names()) {
    const std::string content = test::contents_of(folder / name);
    const bool is_whole = content.size() > 2 && content.substr(content.size() - 2) == "\"}";
    wrong += !is_whole || name.front() == '.';
    ++files;
  }
  CHECK(files == 30);  // of each the ten cycles that were complete
  CHECK(wrong == 0);
}

}  // namespace killed_test
