// gzip by zlib: with this header in any one source file of a program, names that end in .gz are written compressed, and
// compressed traces are read. Link stepprof::zlib. Where <stepprof/adapters/isal.hpp> is in the program, too, that one
// does it.
#pragma once

#include <system_error>

#include <zlib.h>

#include <stepprof/config.hpp>
#include <stepprof/output/gzip.hpp>
#include <stepprof/output/gzip_streams.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

inline constexpr int zlib_gzip_window = 15 + 16;  // the largest window, with gzip's header and check sum

inline std::error_code zlib_error(int code) noexcept {
  return std::make_error_code(code == Z_MEM_ERROR ? std::errc::not_enough_memory : std::errc::io_error);
}

// The fastest level with half of its usual table, which then stays in the cache, and with two earlier places looked at
// instead of four: 8 % less time, which is what the JSON takes to be made, for 3 % more bytes of a trace.
inline constexpr int zlib_memory = 7;
inline int tune_zlib(z_stream& stream) noexcept {
  return deflateTune(&stream, /*good_length*/ 4, /*max_lazy*/ 4, /*nice_length*/ 8, /*max_chain*/ 2);
}

// The time in its header is 0, so that equal bytes stay equal.
class zlib_packer {
 public:
  zlib_packer() = default;
  ~zlib_packer() {
    if (is_open_) deflateEnd(&stream_);
  }
  zlib_packer(const zlib_packer&) = delete;
  zlib_packer& operator=(const zlib_packer&) = delete;

  std::error_code start() noexcept {
    const int code =
        deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, zlib_gzip_window, zlib_memory, Z_DEFAULT_STRATEGY);
    is_open_ = code == Z_OK;
    if (!is_open_) return zlib_error(code);
    tune_zlib(stream_);
    return {};
  }
  std::error_code pack(gzip_room& room, bool last) noexcept {
    lend_room(stream_, room);
    const int code = deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
    take_back_room(stream_, room);
    is_complete_ = code == Z_STREAM_END;
    return code == Z_STREAM_ERROR ? zlib_error(code) : std::error_code();
  }
  [[nodiscard]] bool is_complete() const noexcept { return is_complete_; }

 private:
  z_stream stream_ = {};
  bool is_open_ = false;
  bool is_complete_ = false;
};

class zlib_unpacker {
 public:
  zlib_unpacker() = default;
  ~zlib_unpacker() {
    if (is_open_) inflateEnd(&stream_);
  }
  zlib_unpacker(const zlib_unpacker&) = delete;
  zlib_unpacker& operator=(const zlib_unpacker&) = delete;

  bool start() noexcept { return is_open_ = inflateInit2(&stream_, zlib_gzip_window) == Z_OK; }
  gzip_step unpack(gzip_room& room) noexcept {
    lend_room(stream_, room);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    take_back_room(stream_, room);
    if (code == Z_OK || code == Z_BUF_ERROR) return gzip_step::more;
    if (code != Z_STREAM_END) return gzip_step::damaged;
    inflateReset(&stream_);
    return gzip_step::end_of_member;
  }
  [[nodiscard]] const char* fault() const noexcept {
    return stream_.msg != nullptr ? stream_.msg : "zlib cannot read it";
  }

 private:
  z_stream stream_ = {};
  bool is_open_ = false;
};

inline constexpr gzip_functions zlib_functions = {make_packing_sink<zlib_packer>, make_unpacking_buffer<zlib_unpacker>,
                                                  /*rank*/ 1};
// Before main(), or when the library that holds it is loaded.
inline const bool zlib_is_installed = install_gzip(zlib_functions);

}  // namespace detail
STEPPROF_END_NAMESPACE
