// Counts of Callgrind: read from the dumps of the process itself, or of a copy of it that is started under Valgrind.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/core/system.hpp>
#include <stepprof/timer/valgrind_request.hpp>
#include <stepprof/trace/error.hpp>

#if STEPPROF_LINUX
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// --- in a process that runs under Callgrind -------------------------------------------------------------------------

// Set for the copy: the folder of its files, and the number of the count that it is to make.
inline constexpr const char* rerun_folder_variable = "STEPPROF_CALLGRIND_FOLDER";
inline constexpr const char* rerun_count_variable = "STEPPROF_CALLGRIND_COUNT";

inline std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

inline std::string callgrind_out_file() {
  const std::string folder = variable(rerun_folder_variable);
  return folder.empty() ? fmt::format("callgrind.out.{}", system_process_id()) : folder + "/callgrind.out";
}

// What a dump that was made for `reason` adds up to; -1: it was made for another one.
inline std::int64_t dumped_total(const std::string& path, const std::string& reason) {
  std::ifstream file(path);
  bool is_it = false;
  std::int64_t total = -1;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("desc: Trigger:", 0) == 0 && line.find(reason) != std::string::npos) is_it = true;
    if (line.rfind("summary: ", 0) == 0) total = std::strtoll(line.c_str() + 9, nullptr, 10);
  }
  return is_it ? total : -1;
}

// Dumps are numbered from 1; the one just made is taken and removed.
inline std::int64_t take_dump(const std::string& reason) {
  for (int number = 1;; ++number) {
    const std::string path = fmt::format("{}.{}", callgrind_out_file(), number);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored) && number > 1000) return -1;
    const std::int64_t total = dumped_total(path, reason);
    if (total < 0) continue;
    std::filesystem::remove(path, ignored);
    return total;
  }
}

// Instructions of all threads between start() and stop(). Usable only where start_callgrind() said true.
class callgrind_counter {
 public:
  void start() {
    reason_ = fmt::format("stepprof-{}.", ++dumps_);  // here: what stop() does is counted
    ask_valgrind(valgrind_request::callgrind_zero_stats, 1);
  }
  // Below 0 when the dump cannot be found: the program's own folder was left, or --callgrind-out-file was given.
  std::int64_t stop() {
    ask_valgrind(valgrind_request::callgrind_dump_stats_at, 1, reason_.c_str());
    return take_dump(reason_);
  }

 private:
  int dumps_ = 0;
  std::string reason_;
};

// --- the copy -------------------------------------------------------------------------------------------------------

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
  std::ifstream file(folder + "/counts");
  if (!(file >> counts.run >> counts.empty))
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
