// Instructions counted in a copy of the program, which is started under Callgrind with the same arguments.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <locale>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/timer/callgrind.hpp>
#include <stepprof/trace/error.hpp>

#if STEPPROF_LINUX
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

STEPPROF_BEGIN_NAMESPACE

namespace detail {

struct two_counts {
  double run = 0;    // instructions of one run
  double empty = 0;  // of an empty loop around nothing
};

inline std::int64_t count_wanted_of_rerun() {
  const std::string text = variable(rerun_count_variable);
  return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, 10);
}

// Ends the copy: it has done what it was started for, and nothing else of it is wanted.
[[noreturn]] inline void end_rerun(const two_counts& counts) {
  std::ofstream(variable(rerun_folder_variable) + "/counts") << fmt::format("{} {}\n", counts.run, counts.empty);
  std::_Exit(0);
}

inline bool read_counts(const std::string& folder, two_counts& counts) {
  std::ifstream file(folder + "/counts");
  file.imbue(std::locale::classic());  // the program's own may have a decimal comma
  return static_cast<bool>(file >> counts.run >> counts.empty);
}

inline std::error_code rerun_failed(const std::string& why) {
  return make_error(errc::unsupported, "instructions cannot be counted by running the program again: " + why);
}

#if STEPPROF_LINUX

// The strings that the kernel gave to this process, one after the other.
inline std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string one; std::getline(file, one, '\0');) arguments.push_back(one);
  return arguments;
}

inline std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

inline std::vector<std::string> valgrind_command(const std::string& folder, std::error_code& ec) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ec);
  std::vector<std::string> command = {"valgrind", "--tool=callgrind", "--instr-atstart=no",
                                      "--callgrind-out-file=" + folder + "/callgrind.out", self.string()};
  const std::vector<std::string> own = own_arguments();
  for (std::size_t i = 1; i < own.size(); ++i) command.push_back(own[i]);
  return command;
}

// What `command` left as its exit status; below 0 when it could not be started. It says nothing and hears nothing.
inline int run_silently(std::vector<std::string> command, std::vector<std::string> environment,
                        const std::string& log_file, std::error_code& ec) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 2, log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, command[0].c_str(), &files, nullptr, pointers_to(command).data(),
                                    pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    ec = rerun_failed(command[0] + ": " + std::error_code(failed, std::generic_category()).message());
    return -1;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline std::vector<std::string> environment_of_rerun(const std::string& folder, std::int64_t wanted) {
  std::vector<std::string> all = {fmt::format("{}={}", rerun_folder_variable, folder),
                                  fmt::format("{}={}", rerun_count_variable, wanted)};
  for (char** at = ::environ; at != nullptr && *at != nullptr; ++at) all.emplace_back(*at);
  return all;
}

// The line in which Valgrind says why it gave up; else the last one that says anything, but for `==<pid>==`.
inline std::string last_words(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("==", 0) == 0) {
      const std::size_t end = line.find("== ", 2);
      line.erase(0, end == std::string::npos ? end : end + 3);
    }
    if (line.rfind("Valgrind: ", 0) == 0) return line;
    if (!line.empty()) last = line;
  }
  return last;
}

inline two_counts rerun_in(const std::string& folder, std::int64_t wanted, std::error_code& ec) {
  const std::vector<std::string> command = valgrind_command(folder, ec);
  if (ec) return {};
  const int status = run_silently(command, environment_of_rerun(folder, wanted), folder + "/log", ec);
  if (ec) return {};
  two_counts counts;
  if (!read_counts(folder, counts))
    ec = rerun_failed(fmt::format("it ended with status {} before it came to the same count; its last words: {}",
                                  status, last_words(folder + "/log")));
  return counts;
}

// Starts this program again, with the same arguments, up to its count number `wanted`.
inline two_counts rerun_under_callgrind(std::int64_t wanted, std::error_code& ec) {
  std::string folder = (std::filesystem::temp_directory_path(ec) / "stepprof-XXXXXX").string();
  if (!ec && ::mkdtemp(folder.data()) == nullptr) ec = std::error_code(errno, std::generic_category());
  if (ec) {
    ec = rerun_failed("no temporary folder: " + ec.message());
    return {};
  }
  const two_counts counts = rerun_in(folder, wanted, ec);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return counts;
}

#else

inline two_counts rerun_under_callgrind(std::int64_t, std::error_code& ec) {
  ec = rerun_failed("not on this platform");
  return {};
}

#endif

}  // namespace detail

STEPPROF_END_NAMESPACE
