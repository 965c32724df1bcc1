// Where the bytes of an output go: a string, a stream, a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <system_error>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Takes bytes and remembers the first failure; what comes after it is ignored. One thread at a time.
class byte_sink {
 public:
  virtual ~byte_sink() = default;
  byte_sink(const byte_sink&) = delete;
  byte_sink& operator=(const byte_sink&) = delete;

  void write(const char* data, std::size_t size) {
    if (error_ || size == 0) return;
    error_ = take(data, size);
    if (!error_) bytes_ += size;
  }
  /// Why a write failed; no error when all have succeeded.
  [[nodiscard]] const std::error_code& error() const noexcept { return error_; }
  /// Bytes taken so far.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 protected:
  byte_sink() = default;
  /// Takes all the bytes or says why not.
  virtual std::error_code take(const char* data, std::size_t size) = 0;
  void fail(const std::error_code& reason) noexcept {
    if (!error_) error_ = reason;
  }

 private:
  std::error_code error_;
  std::uint64_t bytes_ = 0;
};

/// Appends to a string.
class string_sink final : public byte_sink {
 public:
  explicit string_sink(std::string& out) : out_(out) {}

 private:
  std::error_code take(const char* data, std::size_t size) override {
    out_.append(data, size);
    return {};
  }
  std::string& out_;
};

/// Writes to a stream as it is: unformatted, so neither its locale nor its flags matter. A failure sets the stream's
/// badbit, which throws when the stream was told to.
class stream_sink final : public byte_sink {
 public:
  explicit stream_sink(std::ostream& out) : out_(out) {}

  /// Flushes the stream; the sum of all failures.
  std::error_code finish() {
    if (!error() && !out_.flush()) fail(std::make_error_code(std::io_errc::stream));
    return error();
  }

 private:
  std::error_code take(const char* data, std::size_t size) override {
    out_.write(data, static_cast<std::streamsize>(size));
    return out_ ? std::error_code() : std::make_error_code(std::io_errc::stream);
  }
  std::ostream& out_;
};

STEPPROF_END_NAMESPACE
