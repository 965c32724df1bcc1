// Counts of Callgrind in a process that runs under it, read from its dumps.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/core/system.hpp>
#include <stepprof/timer/valgrind_request.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Set for a copy that was started for a count (rerun.hpp): the folder of its files, and the number of the count.
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

}  // namespace detail

STEPPROF_END_NAMESPACE
