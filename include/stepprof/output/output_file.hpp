// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>

#include <stepprof/config.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/file_handle.hpp>
#include <stepprof/output/gzip.hpp>
#include <stepprof/trace/error.hpp>

STEPPROF_BEGIN_NAMESPACE

/// A sink that writes a file: bytes go to a temporary file in the same folder, made for this purpose alone, and
/// commit() gives it its final name. Until then, and after any failure, whatever had that name before is untouched and
/// nothing else is left behind. `Handle` is the platform's file.
///
/// - A device, FIFO or socket is written straight into and never renamed over. So is an open descriptor: `/dev/stdout`,
///   `/dev/stderr`, `/dev/fd/N`, at its place in the file even when it was redirected to a regular one.
/// - A symbolic link is followed: the file that it leads to is replaced, the link stays. (Where only standard C++ is
///   there, the link is replaced.)
/// - A file that is replaced keeps its permission bits; one that may not be written is refused.
/// - A name that ends in .gz gets one gzip member, in which the bytes are compressed as they come. Without
///   <stepprof/adapters/isal.hpp> or <stepprof/adapters/zlib.hpp> in the program it is refused with errc::unsupported:
///   a file is not to lie.
/// - The bytes are handed to the system, not forced to the disk: a power failure may lose them.
///
/// One thread at a time; several files, also of one name, may be written at once: the last commit() wins.
template <class Handle>
class basic_output_file final : public byte_sink {
 public:
  /// Opens; a failure is in error().
  explicit basic_output_file(const std::filesystem::path& path, const output_file_options& options = {}) : path_(path) {
    const bool compressed = detail::is_gzip_name(path.string());
    std::error_code ec = compressed ? gzip_fault() : std::error_code();
    if (!ec) ec = file_.open(path, options);
    if (ec)
      fail(ec);
    else if (compressed)
      gzip_ = detail::gzip()->make_sink(file_);
  }

  /// Completes the file. After a failure nothing is left behind. Returns error().
  std::error_code commit() {
    if (gzip_ != nullptr && !error())
      if (const std::error_code ec = gzip_->finish()) fail(ec);
    if (error()) {
      file_.discard();
    } else if (const std::error_code ec = file_.keep()) {
      fail(ec);
    }
    return error();
  }

  /// For messages: "cannot write 'path'", the middle of a very long path left out.
  [[nodiscard]] std::string doing() const {
    std::string text = path_.string();
    if (text.size() > max_shown) text.replace(max_shown / 2, text.size() - max_shown, "...");
    return "cannot write '" + text + "'";
  }

 private:
  static constexpr std::size_t max_shown = 400;

  // The file itself, behind the compression.
  class handle_sink final : public byte_sink {
   public:
    std::error_code open(const std::filesystem::path& path, const output_file_options& options) {
      return handle_.open(path, options);
    }
    std::error_code keep() { return handle_.keep(); }
    void discard() noexcept { handle_.discard(); }

   private:
    std::error_code take(const char* data, std::size_t size) override { return handle_.write(data, size); }
    Handle handle_;
  };

  [[nodiscard]] std::error_code gzip_fault() const {
    if (detail::gzip() != nullptr) return {};
    return detail::make_error(errc::unsupported, doing() + ": its name asks for gzip, which takes zlib; " +
                                                     detail::gzip_remedy + ", or leave out \"" +
                                                     path_.extension().string() + "\"");
  }
  std::error_code take(const char* data, std::size_t size) override {
    byte_sink& next = gzip_ != nullptr ? static_cast<byte_sink&>(*gzip_) : file_;
    next.write(data, size);
    return next.error();
  }

  std::filesystem::path path_;
  handle_sink file_;
  std::unique_ptr<detail::gzip_sink> gzip_;
};

using output_file = basic_output_file<detail::native_file>;

namespace detail {

// Writes a file: what `write` gives to the sink. Returns what was being done, for the message of a failure.
template <class Write, class = std::enable_if_t<std::is_invocable_v<Write&, byte_sink&>>>
std::string write_file(const std::filesystem::path& path, Write write, std::error_code& ec) {
  output_file file(path);
  write(file);
  ec = file.commit();
  return file.doing();
}
inline std::string write_file(const std::filesystem::path& path, const std::string& text, std::error_code& ec) {
  return write_file(
      path, [&text](byte_sink& file) { file.write(text.data(), text.size()); }, ec);
}

// The ending of a name that says what is in the file, whether or not it is compressed: ".json" of "t.json.gz".
inline std::string ending_of(const std::filesystem::path& path) {
  return (is_gzip_name(path.string()) ? path.stem() : path).extension().string();
}

}  // namespace detail

STEPPROF_END_NAMESPACE
