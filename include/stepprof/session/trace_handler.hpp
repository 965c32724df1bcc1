// Writes each delivered cycle into a directory, one file per cycle, and never over another file.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <stepprof/config.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/output/gzip.hpp>
#include <stepprof/session/diagnostics.hpp>
#include <stepprof/session/large_trace.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

struct trace_handler_options {
  /// The first part of the file's name. Empty: `<host>_<process id>_rank<rank>_cycle<cycle>`, all taken from the trace,
  /// the rank where it is known. It may hold no '/', no '\\' and no control bytes, and must be another one for each
  /// process of a run that the files are to be told apart by.
  std::string worker_name = {};
  /// Unix time in ns, for the file's name. Empty: the system's clock.
  std::function<std::int64_t()> unix_time_ns = {};
  /// Writes the trace to a path, which is an empty file when it is called. Empty: export_chrome_trace().
  std::function<void(const trace&, const std::string& path, std::error_code&)> write = {};
  /// Compressed files, whose names end in .gz (so does the path that `write` gets). Refused unless
  /// <stepprof/adapters/isal.hpp> or <stepprof/adapters/zlib.hpp> is in the program.
  bool use_gzip = false;
  /// Only the user may read the files (mode 0600).
  bool owner_only = false;
  /// What is written of each cycle, by export_chrome_trace().
  trace_selection selection = {};
};

/// Checks every field; errc::invalid_argument or errc::unsupported with a text that names field, value and remedy.
void validate(const trace_handler_options& options, std::error_code& ec);
/// The same, throwing stepprof::error.
void validate(const trace_handler_options& options);

/// For `profile_options::on_trace_ready`: writes `<directory>/<worker>.<unix time in ns>.pt.trace.json`, with
/// `use_gzip` `.pt.trace.json.gz`: the names that torch gives and that viewers of such directories take apart.
///
/// A name that is taken is left alone, whoever took it and however equal the clocks are: the time in the name then
/// counts up to the next free one. The file appears under its name only when it is complete. The directory, parents
/// included, is made when the first trace is written, and again if it has gone. A file of more than viewers open well
/// is reported once. Copyable. Any thread, any number of processes.
class trace_handler {
 public:
  /// Throws stepprof::error when `directory` is empty or holds a zero byte, or when validate(options) refuses.
  explicit trace_handler(std::string directory, trace_handler_options options = {});

  /// Writes the trace. On failure `ec` is the system's error; its message names the directory or the file.
  void operator()(const trace& t, std::error_code& ec) const { write(t, ec); }
  /// The same, throwing std::system_error.
  void operator()(const trace& t) const { write(t); }

  /// As the call, and returns the path of the file; empty on failure.
  std::string write(const trace& t, std::error_code& ec) const;
  /// The same, throwing std::system_error.
  std::string write(const trace& t) const;

 private:
  std::string directory_;
  trace_handler_options options_;
  std::shared_ptr<detail::diagnostics_once> once_ = std::make_shared<detail::diagnostics_once>();  // of all copies
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

inline bool is_path_separator(char c) noexcept {
  return c == '/' || c == '\\';
}
inline bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// The host's name comes from outside: whatever could lead out of the directory becomes '_'.
inline std::string default_worker_name(const trace& t) {
  if (t.processes().empty()) return "unknown_0";
  const trace_process& process = t.processes().front();
  std::string name = process.host.empty() ? "localhost" : process.host;
  for (char& c : name)
    if (is_path_separator(c) || is_control(c)) c = '_';
  name += '_' + std::to_string(real_pid(process));
  if (process.rank >= 0) name += "_rank" + std::to_string(process.rank);
  return name + "_cycle" + std::to_string(t.info().cycle);
}

inline std::string trace_file_name(const std::string& worker, std::int64_t unix_time_ns) {
  return worker + '.' + std::to_string(unix_time_ns) + ".pt.trace.json";
}

// Makes an empty file; std::errc::file_exists when the name is taken by anything.
inline std::error_code create_exclusively(const std::string& path) {
  errno = 0;
  std::FILE* file = std::fopen(path.c_str(), "wx");
  if (file == nullptr) return {errno != 0 ? errno : EIO, std::generic_category()};
  std::fclose(file);
  return {};
}

inline std::error_code make_hard_link(const std::string& from, const std::string& to) {
  std::error_code ec;
  std::filesystem::create_hard_link(from, to, ec);
  return ec;
}

// Gives the finished file its name without ever replacing one: a hard link fails when the name is taken. Where there
// are no hard links the name is taken with an empty file of our own first, which the rename then replaces.
template <class Link>
std::error_code publish_exclusively(const std::string& from, const std::string& to, const Link& link) {
  std::error_code ec = link(from, to);
  if (ec == std::errc::file_exists) return ec;
  if (!ec) {
    std::remove(from.c_str());
    return ec;
  }
  ec = create_exclusively(to);
  if (ec) return ec;
  std::filesystem::rename(from, to, ec);
  if (ec) std::remove(to.c_str());
  return ec;
}

// Calls `attempt(time)` for the given time and the next ones until the answer is not "the name is taken".
template <class Attempt>
std::error_code first_free_time(std::int64_t& unix_time_ns, const Attempt& attempt) {
  std::error_code ec;
  for (int tries = 0; tries < 1000000; ++tries, ++unix_time_ns) {
    ec = attempt(unix_time_ns);
    if (ec != std::errc::file_exists) break;
  }
  return ec;
}

struct trace_file_writer {
  std::string directory;
  std::string worker;
  std::string ending;  // ".gz" or empty
  std::int64_t unix_time_ns;

  [[nodiscard]] std::string path(std::int64_t time) const {
    return in_directory(trace_file_name(worker, time) + ending);
  }
  // Not matched by the pattern under which viewers look for traces.
  [[nodiscard]] std::string unfinished_path(std::int64_t time) const {
    return in_directory('.' + trace_file_name(worker, time) + ".part" + ending);
  }

  // `write` gets the path to write to, and the one that the file will have.
  template <class Write>
  std::string run(const Write& write, std::error_code& ec) {
    std::filesystem::create_directories(directory, ec);
    if (ec) return fail(ec, "cannot create the directory '" + directory + "'");
    ec = first_free_time(unix_time_ns, [&](std::int64_t time) { return reserve(time); });
    if (ec) return fail(ec, "cannot write into the directory '" + directory + "'");
    const std::string part = unfinished_path(unix_time_ns);
    write(part, path(unix_time_ns), ec);
    if (ec) {
      fail(ec, "cannot write '" + path(unix_time_ns) + "'");
    } else {
      ec = first_free_time(unix_time_ns,
                           [&](std::int64_t time) { return publish_exclusively(part, path(time), make_hard_link); });
      if (!ec) return path(unix_time_ns);
      fail(ec, "cannot create a file in the directory '" + directory + "'");
    }
    std::remove(part.c_str());
    return {};
  }

 private:
  [[nodiscard]] std::string in_directory(const std::string& name) const {
    return is_path_separator(directory.back()) ? directory + name : directory + '/' + name;
  }
  // Takes the unfinished name, if the final one looks free. Another process may still take that before it is needed.
  [[nodiscard]] std::error_code reserve(std::int64_t time) const {
    std::error_code ec = create_exclusively(unfinished_path(time));
    std::error_code unknown;
    const std::filesystem::file_status final_name = std::filesystem::symlink_status(path(time), unknown);
    if (ec || final_name.type() == std::filesystem::file_type::not_found || unknown) return ec;
    std::remove(unfinished_path(time).c_str());
    return std::make_error_code(std::errc::file_exists);
  }
  static std::string fail(std::error_code& ec, const std::string& text) {
    if (ec.category() == error_category() || ec.category() == io_category()) return {};  // has its text
    ec = make_io_error(ec, "trace_handler: " + text);
    return {};
  }
};

inline std::int64_t system_unix_time_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace detail

inline void validate(const trace_handler_options& options, std::error_code& ec) {
  ec.clear();
  for (const char c : options.worker_name)
    if (detail::is_path_separator(c) || detail::is_control(c)) {
      ec = detail::make_error(errc::invalid_argument, "trace_handler: worker_name is '" + options.worker_name +
                                                          "', must not hold '/', '\\' or control bytes; give the "
                                                          "directory as the first argument");
      return;
    }
  if (options.use_gzip && detail::gzip() == nullptr)
    ec = detail::make_error(errc::unsupported, std::string("trace_handler: use_gzip is true, which takes zlib; ") +
                                                   detail::gzip_remedy + ", or leave it false");
}

inline void validate(const trace_handler_options& options) {
  std::error_code ec;
  validate(options, ec);
  detail::throw_if(ec, "trace_handler");
}

inline trace_handler::trace_handler(std::string directory, trace_handler_options options)
    : directory_(std::move(directory)), options_(std::move(options)) {
  std::error_code ec;
  if (directory_.empty())
    ec = detail::make_error(errc::invalid_argument, "trace_handler: directory is empty; use \".\" for the current one");
  if (directory_.find('\0') != std::string::npos)
    ec = detail::make_error(errc::invalid_argument, "trace_handler: directory holds a zero byte; leave it out");
  detail::throw_if(ec, "trace_handler");
  validate(options_);
}

inline std::string trace_handler::write(const trace& t, std::error_code& ec) const {
  const detail::own_work own;
  detail::trace_file_writer file{
      directory_, options_.worker_name.empty() ? detail::default_worker_name(t) : options_.worker_name,
      options_.use_gzip ? ".gz" : "", options_.unix_time_ns ? options_.unix_time_ns() : detail::system_unix_time_ns()};
  const auto write_file = [&](const std::string& path, const std::string& final_path, std::error_code& failed) {
    if (options_.write) {
      const detail::users_work users;
      return options_.write(t, path, failed);
    }
    chrome_trace_options chrome;
    chrome.trace_name = final_path;
    chrome.selection = options_.selection;
    chrome.file.owner_only = options_.owner_only;
    detail::report_large_trace(export_chrome_trace(t, path, chrome, failed), *once_);
  };
  return file.run(write_file, ec);
}

inline std::string trace_handler::write(const trace& t) const {
  std::error_code ec;
  std::string path = write(t, ec);
  detail::throw_if(ec, "trace_handler");
  return path;
}

STEPPROF_END_NAMESPACE
