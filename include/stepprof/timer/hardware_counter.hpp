// The processor's own count of the instructions of this thread, where system and machine permit it.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>

#include <stepprof/config.hpp>

#if STEPPROF_LINUX
#include <cerrno>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

STEPPROF_BEGIN_NAMESPACE

namespace detail {

#if STEPPROF_LINUX

// Instructions of the calling thread outside the kernel, through perf_event_open(2).
class hardware_counter {
 public:
  hardware_counter() noexcept {
    perf_event_attr what{};
    what.type = PERF_TYPE_HARDWARE;
    what.size = sizeof what;
    what.config = PERF_COUNT_HW_INSTRUCTIONS;
    what.disabled = 1;
    what.exclude_kernel = 1;
    what.exclude_hv = 1;
    what.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    file_ = static_cast<int>(::syscall(SYS_perf_event_open, &what, 0, -1, -1, 0));
    error_ = file_ < 0 ? errno : 0;
  }
  hardware_counter(const hardware_counter&) = delete;
  hardware_counter& operator=(const hardware_counter&) = delete;
  ~hardware_counter() {
    if (file_ >= 0) ::close(file_);
  }

  [[nodiscard]] bool is_usable() const noexcept { return file_ >= 0; }
  // Empty when it is usable.
  [[nodiscard]] std::string why_not() const {
    return error_ == 0 ? "" : std::error_code(error_, std::generic_category()).message();
  }

  void start() noexcept {
    ::ioctl(file_, PERF_EVENT_IOC_RESET, 0);
    ::ioctl(file_, PERF_EVENT_IOC_ENABLE, 0);
  }
  // Below 0 when the counter had to be shared with others, as the rest would be an estimate.
  std::int64_t stop() noexcept {
    ::ioctl(file_, PERF_EVENT_IOC_DISABLE, 0);
    std::uint64_t value[3] = {};  // count, time enabled, time running
    if (::read(file_, value, sizeof value) != static_cast<ssize_t>(sizeof value)) return -1;
    return value[2] == 0 || value[1] != value[2] ? -1 : static_cast<std::int64_t>(value[0]);
  }

 private:
  int file_ = -1;
  int error_ = 0;
};

#else

class hardware_counter {
 public:
  [[nodiscard]] static bool is_usable() noexcept { return false; }
  [[nodiscard]] static std::string why_not() { return "not on this platform"; }
  static void start() noexcept {}
  static std::int64_t stop() noexcept { return -1; }
};

#endif

}  // namespace detail

STEPPROF_END_NAMESPACE
