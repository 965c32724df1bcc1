// gzip by zlib: with this header in any one source file of a program, names that end in .gz are written compressed, and
// compressed traces are read. Link stepprof::zlib.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <streambuf>
#include <string>
#include <system_error>

#include <zlib.h>

#include <stepprof/config.hpp>
#include <stepprof/core/system.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/gzip.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

inline constexpr int zlib_gzip_window = 15 + 16;  // the largest window, with gzip's header and check sum
inline constexpr std::size_t zlib_piece = std::size_t{1} << 16;

inline std::error_code zlib_error(int code) noexcept {
  return std::make_error_code(code == Z_MEM_ERROR ? std::errc::not_enough_memory : std::errc::io_error);
}

// The fastest level with half of its usual table, which then stays in the cache, and with two earlier places looked at
// instead of four: 8 % less time, which is what the JSON takes to be made, for 3 % more bytes of a trace.
inline constexpr int zlib_memory = 7;
inline int tune_zlib(z_stream& stream) noexcept {
  return deflateTune(&stream, /*good_length*/ 4, /*max_lazy*/ 4, /*nice_length*/ 8, /*max_chain*/ 2);
}

// One gzip member, in bounded memory. The time in its header is 0, so that equal bytes stay equal.
class zlib_sink final : public gzip_sink {
 public:
  explicit zlib_sink(byte_sink& to) : to_(to), buffer_(new char[zlib_piece]) {
    const int code =
        deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, zlib_gzip_window, zlib_memory, Z_DEFAULT_STRATEGY);
    is_open_ = code == Z_OK;
    if (is_open_)
      tune_zlib(stream_);
    else
      fail(zlib_error(code));
  }
  ~zlib_sink() override {
    if (is_open_) deflateEnd(&stream_);
  }

  std::error_code finish() override {
    if (!error())
      if (const std::error_code ec = run(Z_FINISH)) fail(ec);
    return error();
  }

 private:
  std::error_code take(const char* data, std::size_t size) override {
    constexpr std::size_t max_size = std::numeric_limits<uInt>::max();
    for (std::size_t piece = 0; size != 0; data += piece, size -= piece) {
      piece = (std::min)(size, max_size);
      // zlib only reads it, but says so only where ZLIB_CONST is defined before its header, which others may include.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data));
      stream_.avail_in = static_cast<uInt>(piece);
      if (const std::error_code ec = run(Z_NO_FLUSH)) return ec;
    }
    return {};
  }
  // Until all input is used up and, when finishing, all output is handed on. Else output waits until its piece is full.
  std::error_code run(int flush) {
    int code = Z_OK;
    do {
      if (stream_.avail_out == 0)
        if (const std::error_code ec = hand_on()) return ec;
      code = deflate(&stream_, flush);
      if (code == Z_STREAM_ERROR) return zlib_error(code);
    } while (stream_.avail_out == 0);
    return flush == Z_FINISH ? hand_on() : std::error_code();
  }
  std::error_code hand_on() {
    if (stream_.next_out != nullptr) to_.write(buffer_.get(), zlib_piece - stream_.avail_out);
    stream_.next_out = reinterpret_cast<Bytef*>(buffer_.get());
    stream_.avail_out = static_cast<uInt>(zlib_piece);
    return to_.error();
  }

  byte_sink& to_;
  std::unique_ptr<char[]> buffer_;
  z_stream stream_ = {};
  bool is_open_ = false;
};

// Members one after another, as `cat` makes them, are one text. What follows the last one and is no member is a fault.
class zlib_buffer final : public gzip_buffer {
 public:
  explicit zlib_buffer(std::streambuf& from)
      : from_(from), input_(new char[zlib_piece]), output_(new char[zlib_piece]) {
    is_open_ = inflateInit2(&stream_, zlib_gzip_window) == Z_OK;
    if (!is_open_) fault_ = "there is not enough memory to decompress it";
  }
  ~zlib_buffer() override {
    if (is_open_) inflateEnd(&stream_);
  }
  zlib_buffer(const zlib_buffer&) = delete;
  zlib_buffer& operator=(const zlib_buffer&) = delete;

  [[nodiscard]] std::string fault() const override { return fault_; }

 private:
  int_type underflow() override {
    if (gptr() != egptr()) return traits_type::to_int_type(*gptr());
    const std::size_t size = fault_.empty() ? decompress() : 0;
    if (size == 0) return traits_type::eof();
    setg(output_.get(), output_.get(), output_.get() + size);
    return traits_type::to_int_type(*gptr());
  }

  // The next piece; 0 bytes at the end and at a fault.
  std::size_t decompress() {
    stream_.next_out = reinterpret_cast<Bytef*>(output_.get());
    stream_.avail_out = static_cast<uInt>(zlib_piece);
    while (stream_.avail_out == zlib_piece && fault_.empty()) {
      if (stream_.avail_in == 0 && !fill()) {
        if (inside_) fault_ = "it is compressed (gzip) and ends in the middle: it is not complete";
        break;
      }
      step();
    }
    return zlib_piece - stream_.avail_out;
  }
  bool fill() {
    const std::streamsize size = from_.sgetn(input_.get(), static_cast<std::streamsize>(zlib_piece));
    stream_.next_in = reinterpret_cast<Bytef*>(input_.get());
    stream_.avail_in = static_cast<uInt>((std::max)(size, std::streamsize{0}));
    return size > 0;
  }
  void step() {
    inside_ = true;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      inside_ = false;
      inflateReset(&stream_);
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      fault_ = "it is compressed (gzip) and damaged: ";
      fault_ += stream_.msg != nullptr ? stream_.msg : "zlib cannot read it";
    }
  }

  std::streambuf& from_;
  std::unique_ptr<char[]> input_;
  std::unique_ptr<char[]> output_;
  z_stream stream_ = {};
  std::string fault_;
  bool is_open_ = false;
  bool inside_ = false;  // a member
};

inline std::unique_ptr<gzip_sink> make_zlib_sink(byte_sink& to) {
  return std::make_unique<zlib_sink>(to);
}
inline std::unique_ptr<gzip_buffer> make_zlib_buffer(std::streambuf& from) {
  return std::make_unique<zlib_buffer>(from);
}
inline constexpr gzip_functions zlib_functions = {make_zlib_sink, make_zlib_buffer};

inline bool install_zlib() noexcept {
  if (gzip() != nullptr) return true;
  system_pin_this_module();  // whoever has the table may use it until the program ends
  the_gzip.store(&zlib_functions, std::memory_order_release);
  return true;
}
// Before main(), or when the library that holds it is loaded.
inline const bool zlib_is_installed = install_zlib();

}  // namespace detail
STEPPROF_END_NAMESPACE
