// The platform's files, for output_file: POSIX descriptors, and standard C++ for everything else.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include <stepprof/config.hpp>

#if STEPPROF_POSIX
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

STEPPROF_BEGIN_NAMESPACE

/// How a file is made.
struct output_file_options {
  /// false: std::errc::file_exists when there is something of that name, whatever it is, also when it comes to be while
  /// the file is written.
  bool replace = true;
  /// false: std::errc::too_many_symbolic_link_levels when the name is that of a symbolic link.
  bool follow_links = true;
  /// Only the user may read and write the file (mode 0600), instead of what the process's mask leaves.
  bool owner_only = false;
};

namespace detail {

// The interface of both handles: open() finds out what `path` is and opens a temporary file beside it, or the thing
// itself where it is no regular file; write(); keep() gives it its final name, discard() leaves nothing behind.

inline std::error_code last_system_error() noexcept {
  return {errno, std::generic_category()};
}

// A name that no other file of this process has; short, so that it fits where the final name just fits.
inline std::string temporary_name(std::uint64_t process) {
  static std::atomic<std::uint32_t> next{0};  // relaxed: only its being different counts
  return ".stepprof-" + std::to_string(process) + "-" + std::to_string(next.fetch_add(1, std::memory_order_relaxed)) +
         ".tmp";
}

// Standard C++ only. Symbolic links are replaced, not followed.
class portable_file {
 public:
  portable_file() = default;
  portable_file(const portable_file&) = delete;
  portable_file& operator=(const portable_file&) = delete;
  ~portable_file() { discard(); }

  std::error_code open(const std::filesystem::path& path, const output_file_options& options = {}) {
    std::error_code ec;
    options_ = options;
    if (const std::error_code refused = name_fault(path)) return refused;
    const std::filesystem::file_type type = std::filesystem::status(path, ec).type();
    if (type == std::filesystem::file_type::directory || path.filename().empty())
      return std::make_error_code(std::errc::is_a_directory);
    if (type != std::filesystem::file_type::not_found && type != std::filesystem::file_type::regular) {
      if (type == std::filesystem::file_type::none) return ec;
      file_ = std::fopen(path.string().c_str(), "wb");
      return file_ == nullptr ? last_system_error() : std::error_code();
    }
    final_ = path;
    return open_temporary();
  }

  std::error_code write(const char* data, std::size_t size) {
    errno = 0;
    if (std::fwrite(data, 1, size, file_) == size) return {};
    return errno != 0 ? last_system_error() : std::make_error_code(std::errc::io_error);
  }

  std::error_code keep() {
    std::error_code ec = close();
    if (!ec && !temporary_.empty()) ec = name_fault(final_);
    if (!ec && !temporary_.empty()) std::filesystem::rename(temporary_, final_, ec);
    if (ec)
      discard();
    else
      temporary_.clear();
    return ec;
  }

  void discard() noexcept {
    close();
    std::error_code ignored;
    if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
    temporary_.clear();
  }

 private:
  static constexpr int attempts = 1000;

  // What the options say against a name as it is now.
  [[nodiscard]] std::error_code name_fault(const std::filesystem::path& path) const {
    std::error_code unknown;
    const std::filesystem::file_type type = std::filesystem::symlink_status(path, unknown).type();
    if (!options_.follow_links && type == std::filesystem::file_type::symlink)
      return std::make_error_code(std::errc::too_many_symbolic_link_levels);
    if (!options_.replace && type != std::filesystem::file_type::not_found && type != std::filesystem::file_type::none)
      return std::make_error_code(std::errc::file_exists);
    return {};
  }
  std::error_code open_temporary() {
    for (int i = 0; i < attempts; ++i) {
      std::filesystem::path name = final_;
      // No process id in standard C++: an address differs between processes often enough, "x" does the rest.
      name.replace_filename(temporary_name(reinterpret_cast<std::uintptr_t>(this)));
      file_ = std::fopen(name.string().c_str(), "wbx");
      if (file_ != nullptr) {
        temporary_ = name;
        return restrict_access();
      }
      if (errno != EEXIST) return last_system_error();
    }
    return std::make_error_code(std::errc::file_exists);
  }
  std::error_code restrict_access() const {
    std::error_code ec;
    using std::filesystem::perms;
    if (options_.owner_only) std::filesystem::permissions(temporary_, perms::owner_read | perms::owner_write, ec);
    return ec;
  }
  std::error_code close() noexcept {
    if (file_ == nullptr) return {};
    std::FILE* file = file_;
    file_ = nullptr;
    return std::fclose(file) == 0 ? std::error_code() : last_system_error();
  }

  std::FILE* file_ = nullptr;
  output_file_options options_;
  std::filesystem::path final_;
  std::filesystem::path temporary_;
};

#if STEPPROF_POSIX

// Symbolic links are followed: the file that they lead to is replaced, the links stay.
class posix_file {
 public:
  posix_file() = default;
  posix_file(const posix_file&) = delete;
  posix_file& operator=(const posix_file&) = delete;
  ~posix_file() { discard(); }

  std::error_code open(const std::filesystem::path& path, const output_file_options& options = {}) {
    options_ = options;
    std::string target = path.native();
    if (target.empty()) return std::make_error_code(std::errc::no_such_file_or_directory);
    if (target.find('\0') != std::string::npos) return std::make_error_code(std::errc::invalid_argument);
    if (const std::error_code ec = name_fault(target)) return ec;
    int descriptor = -1;
    if (const std::error_code ec = follow_links(target, descriptor)) return ec;
    if (descriptor >= 0) return adopt(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    struct stat facts {};
    const bool exists = ::stat(target.c_str(), &facts) == 0;
    if (!exists && errno != ENOENT) return last_system_error();
    if (exists && S_ISDIR(facts.st_mode)) return std::make_error_code(std::errc::is_a_directory);
    if (exists && !S_ISREG(facts.st_mode)) return adopt(::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (target.back() == '/') return std::make_error_code(std::errc::is_a_directory);
    // Renaming over a file needs no permission on the file: that it may not be written must be asked for.
    if (exists && ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0) return last_system_error();
    final_ = target;
    return open_temporary(options_.owner_only ? 0600u : exists ? facts.st_mode & 0777u : unchanged);
  }

  std::error_code write(const char* data, std::size_t size) {
    reserve(size);
    while (size != 0) {
      const ssize_t written = ::write(descriptor_, data, size < max_write ? size : max_write);
      if (written > 0) {
        data += written;
        size -= static_cast<std::size_t>(written);
      } else if (written == 0) {
        return std::make_error_code(std::errc::io_error);
      } else if (errno == EAGAIN) {
        // An inherited descriptor may be non-blocking.
        pollfd wait = {descriptor_, POLLOUT, 0};
        ::poll(&wait, 1, -1);
      } else if (errno != EINTR) {
        return last_system_error();
      }
    }
    return {};
  }

  std::error_code keep() {
    std::error_code ec;
    if (reserved_ > written_ && ::ftruncate(descriptor_, static_cast<off_t>(written_)) != 0) ec = last_system_error();
    if (const std::error_code closing = close()) ec = closing;
    if (!ec && !temporary_.empty()) ec = publish();
    if (ec)
      discard();
    else
      temporary_.clear();
    return ec;
  }

  void discard() noexcept {
    close();
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
  }

 private:
  static constexpr int attempts = 1000;
  static constexpr int max_links = 40;
  static constexpr mode_t unchanged = ~mode_t{0};
  static constexpr std::size_t max_write = std::size_t{1} << 30;  // Linux takes 2^31 - 4096 bytes at most
  static constexpr std::uint64_t min_reserve = std::uint64_t{1} << 20;
  static constexpr std::uint64_t max_reserve = std::uint64_t{64} << 20;

  // What the options say against a name as it is now.
  [[nodiscard]] std::error_code name_fault(const std::string& path) const {
    struct stat facts {};
    if (options_.replace && options_.follow_links) return {};
    if (::lstat(path.c_str(), &facts) != 0) return {};  // nothing is there, or opening it will tell
    if (!options_.follow_links && S_ISLNK(facts.st_mode))
      return std::make_error_code(std::errc::too_many_symbolic_link_levels);
    return options_.replace ? std::error_code() : std::make_error_code(std::errc::file_exists);
  }
  // Gives the file its final name. A hard link, other than a rename, never replaces anything; where there are none, the
  // name is looked at once more.
  std::error_code publish() {
    if (!options_.replace) {
      if (::link(temporary_.c_str(), final_.c_str()) == 0) {
        ::unlink(temporary_.c_str());
        return {};
      }
      if (errno == EEXIST) return last_system_error();
      if (const std::error_code ec = name_fault(final_)) return ec;
    }
    return ::rename(temporary_.c_str(), final_.c_str()) == 0 ? std::error_code() : last_system_error();
  }

  // Blocks for a temporary file are asked for in large pieces, ahead of the writes: found one page at a time, they are
  // a third of what writing a file takes. Where that is not possible, nothing is lost but time.
  void reserve(std::size_t size) noexcept {
    written_ += size;
    if (temporary_.empty() || written_ <= (std::max)(reserved_, min_reserve)) return;
    const std::uint64_t ahead = (std::min)(written_, max_reserve);
    reserved_ = reserve_blocks(descriptor_, written_ - size, size + ahead) ? written_ + ahead : UINT64_MAX;
  }
#if STEPPROF_LINUX
  static bool reserve_blocks(int descriptor, std::uint64_t from, std::uint64_t size) noexcept {
    return ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from), static_cast<off_t>(size)) == 0;
  }
#else
  static bool reserve_blocks(int, std::uint64_t, std::uint64_t) noexcept {
    return false;
  }
#endif

  // N when the path names an open descriptor: it is written through that one, at its place in the file, and never
  // renamed over, even when it leads to a regular file.
  static int named_descriptor(const std::string& path) {
    if (path == "/dev/stdout") return STDOUT_FILENO;
    if (path == "/dev/stderr") return STDERR_FILENO;
    for (const std::string& folder :
         {std::string("/dev/fd/"), std::string("/proc/self/fd/"), "/proc/" + std::to_string(::getpid()) + "/fd/"}) {
      if (path.compare(0, folder.size(), folder) != 0 || path.size() == folder.size() ||
          path.size() > folder.size() + 9)
        continue;
      int number = 0;
      std::size_t at = folder.size();
      for (; at < path.size() && path[at] >= '0' && path[at] <= '9'; ++at) number = number * 10 + (path[at] - '0');
      if (at == path.size()) return number;
    }
    return -1;
  }

  // Replaces a link by what it leads to until it is none, or names a descriptor.
  static std::error_code follow_links(std::string& path, int& descriptor) {
    for (int i = 0; i < max_links; ++i) {
      descriptor = named_descriptor(path);
      if (descriptor >= 0) return {};
      char buffer[PATH_MAX];
      const ssize_t size = ::readlink(path.c_str(), buffer, sizeof buffer);
      if (size < 0) return errno == EINVAL || errno == ENOENT ? std::error_code() : last_system_error();
      const std::string link(buffer, static_cast<std::size_t>(size));
      path = link[0] == '/' ? link : folder_of(path) + link;
    }
    return std::make_error_code(std::errc::too_many_symbolic_link_levels);
  }
  // With its slash; empty when the path has none.
  static std::string folder_of(const std::string& path) {
    return path.substr(0, path.rfind('/') + 1);
  }

  std::error_code adopt(int descriptor) noexcept {
    descriptor_ = descriptor;
    return descriptor < 0 ? last_system_error() : std::error_code();
  }
  std::error_code open_temporary(mode_t mode) {
    for (int i = 0; i < attempts; ++i) {
      const std::string name = folder_of(final_) + temporary_name(static_cast<std::uint64_t>(::getpid()));
      const std::error_code ec = adopt(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                              options_.owner_only ? 0600 : 0666));
      if (ec.value() == EEXIST) continue;
      if (ec) return ec;
      temporary_ = name;
      if (mode != unchanged && ::fchmod(descriptor_, mode) != 0) return last_system_error();
      return {};
    }
    return std::make_error_code(std::errc::file_exists);
  }
  std::error_code close() noexcept {
    if (descriptor_ < 0) return {};
    const int descriptor = descriptor_;
    descriptor_ = -1;
    // After EINTR the descriptor is gone on Linux: never close twice.
    return ::close(descriptor) == 0 || errno == EINTR ? std::error_code() : last_system_error();
  }

  int descriptor_ = -1;
  output_file_options options_;
  std::string final_;
  std::string temporary_;
  std::uint64_t written_ = 0;
  std::uint64_t reserved_ = 0;  // more than any size: no more of it
};
using native_file = posix_file;

#else
using native_file = portable_file;
#endif

}  // namespace detail
STEPPROF_END_NAMESPACE
