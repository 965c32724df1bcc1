// A user-space recording session of LTTng into a temporary folder, by the command line tools of lttng-tools.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "support/temp_folder.hpp"

namespace benchmark {

/// Asks `what` until it says yes, for at most ten seconds. Says what it said last.
inline bool wait_until(const std::function<bool()>& what) {
  for (int i = 0; i < 1000; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return what();
}

/// Records the events of one provider from construction to stop(). Uses the session daemon that runs already; where
/// none does, starts one and ends it again.
class lttng_session {
 public:
  explicit lttng_session(std::string_view provider) : name_(fmt::format("stepprof-peer-{}", ::getpid())) {
    if (!lttng("list")) start_daemon();
    // Four sub-buffers of 512 KiB for each processor: they lie in /dev/shm, which containers make small.
    created_ = lttng(fmt::format("create {} --output='{}'", name_, folder_ / "trace"));
    started_ =
        created_ &&
        lttng(fmt::format("enable-channel --userspace --session={} --num-subbuf=4 --subbuf-size=512k peer", name_)) &&
        lttng(fmt::format("enable-event --userspace --session={} --channel=peer '{}:*'", name_, provider)) &&
        lttng("start " + name_);
  }
  ~lttng_session() {
    if (created_) lttng("destroy " + name_);
    if (daemon_ <= 0) return;
    ::kill(daemon_, SIGTERM);
    if (!wait_until([this] { return ::waitpid(daemon_, nullptr, WNOHANG) != 0; })) ::kill(daemon_, SIGKILL);
  }
  lttng_session(const lttng_session&) = delete;
  lttng_session& operator=(const lttng_session&) = delete;

  /// Whether it records, but for the program: its tracepoints come on a moment later, on a thread of liblttng-ust.
  [[nodiscard]] bool started() const { return started_; }
  /// What the tool printed last: the reason, where it failed.
  [[nodiscard]] const std::string& output() const { return output_; }

  struct totals {
    std::uintmax_t discarded_events = 0;
    std::uintmax_t file_bytes = 0;
  };
  /// Ends the recording; all of it is in its files then.
  totals stop() {
    lttng("stop " + name_);
    totals result;
    lttng("list " + name_);
    constexpr std::string_view key = "Discarded events: ";
    if (const std::size_t at = output_.find(key); at != std::string::npos)
      result.discarded_events = std::strtoull(output_.c_str() + at + key.size(), nullptr, 10);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "trace"))
      if (entry.is_regular_file()) result.file_bytes += entry.file_size();
    return result;
  }

 private:
  bool lttng(const std::string& arguments) {
    output_.clear();
    std::FILE* const pipe = ::popen(("lttng --no-sessiond " + arguments + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return false;
    for (char part[512]; std::fgets(part, sizeof part, pipe) != nullptr;) output_ += part;
    return ::pclose(pipe) == 0;
  }

  void start_daemon() {
    std::string words[] = {"lttng-sessiond", "--no-kernel", "--quiet"};
    char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (::posix_spawnp(&daemon_, words[0].c_str(), &files, nullptr, arguments, ::environ) != 0) daemon_ = 0;
    ::posix_spawn_file_actions_destroy(&files);
    if (daemon_ != 0) wait_until([this] { return lttng("list"); });
  }

  test::temp_folder folder_;
  std::string name_;
  std::string output_;
  pid_t daemon_ = 0;
  bool created_ = false;
  bool started_ = false;
};

}  // namespace benchmark
