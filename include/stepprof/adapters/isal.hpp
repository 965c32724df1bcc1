// gzip by Intel's ISA-L, several times as fast as zlib: with this header in any one source file of a program, names
// that end in .gz are written compressed, and compressed traces are read. Link stepprof::isal. Where
// <stepprof/adapters/zlib.hpp> is in the program, too, this one does it, in whatever order they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>

#include <isa-l/igzip_lib.h>

#include <stepprof/config.hpp>
#include <stepprof/output/gzip.hpp>
#include <stepprof/output/gzip_streams.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// As fast as level 0, whose codes are fixed, for 26 % fewer bytes of a trace; larger tables save nothing.
inline constexpr std::uint32_t isal_level = 1;
inline constexpr std::uint32_t isal_table_bytes = ISAL_DEF_LVL1_MEDIUM;

// The time in its header is 0, so that equal bytes stay equal; another processor may make others of them.
class isal_packer {
 public:
  isal_packer() : table_(new std::uint8_t[isal_table_bytes]) {}

  std::error_code start() noexcept {
    isal_deflate_init(&stream_);
    stream_.level = isal_level;
    stream_.level_buf = table_.get();
    stream_.level_buf_size = isal_table_bytes;
    stream_.gzip_flag = IGZIP_GZIP;
    return {};
  }
  std::error_code pack(gzip_room& room, bool last) noexcept {
    stream_.end_of_stream = last ? 1 : 0;
    lend_room(stream_, room);
    const int code = isal_deflate(&stream_);
    take_back_room(stream_, room);
    return code == COMP_OK ? std::error_code() : std::make_error_code(std::errc::io_error);
  }
  [[nodiscard]] bool is_complete() const noexcept { return stream_.internal_state.state == ZSTATE_END; }

 private:
  std::unique_ptr<std::uint8_t[]> table_;
  isal_zstream stream_;
};

// In zlib's words, so that a damaged file is called the same by both.
inline const char* isal_fault(int code) noexcept {
  switch (code) {
    case ISAL_INVALID_BLOCK:
      return "invalid block type";
    case ISAL_INVALID_SYMBOL:
      return "invalid literal/length code";
    case ISAL_INVALID_LOOKBACK:
      return "invalid distance too far back";
    case ISAL_INVALID_WRAPPER:
      return "incorrect header check";
    case ISAL_UNSUPPORTED_METHOD:
      return "unknown compression method";
    case ISAL_INCORRECT_CHECKSUM:
      return "incorrect data check";  // or length
    default:
      return "ISA-L cannot read it";
  }
}

class isal_unpacker {
 public:
  bool start() noexcept {
    isal_inflate_init(&state_);
    start_member();
    return true;
  }
  gzip_step unpack(gzip_room& room) noexcept {
    code_ = check_magic(room);
    if (code_ == ISAL_DECOMP_OK) read(room);
    if (code_ < 0) return gzip_step::damaged;
    if (state_.block_state != ISAL_BLOCK_FINISH) return gzip_step::more;
    isal_inflate_reset(&state_);
    start_member();
    return gzip_step::end_of_member;
  }
  [[nodiscard]] const char* fault() const noexcept { return isal_fault(code_); }

 private:
  void start_member() noexcept {
    // The check sum and the size are read and compared. The header is not isal_inflate's: it forgets which fields the
    // header has when a piece ends in one.
    state_.crc_flag = ISAL_GZIP_NO_HDR_VER;
    isal_gzip_header_init(&header_);
    magic_seen_ = 0;
    in_body_ = false;
  }
  // ISA-L looks at a header only when it has ten bytes: what is shorter and none would be called incomplete.
  int check_magic(const gzip_room& room) noexcept {
    constexpr char magic[] = {'\x1f', '\x8b'};
    for (std::size_t i = 0; i < room.in_bytes && magic_seen_ < sizeof magic; ++i, ++magic_seen_)
      if (room.in[i] != magic[magic_seen_]) return ISAL_INVALID_WRAPPER;
    return ISAL_DECOMP_OK;
  }
  void read(gzip_room& room) noexcept {
    lend_room(state_, room);
    if (!in_body_) {
      code_ = isal_read_gzip_header(&state_, &header_);
      in_body_ = code_ == ISAL_DECOMP_OK;
    }
    if (in_body_) code_ = isal_inflate(&state_);
    take_back_room(state_, room);
  }

  inflate_state state_;
  isal_gzip_header header_;
  std::size_t magic_seen_ = 0;  // bytes
  bool in_body_ = false;
  int code_ = ISAL_DECOMP_OK;
};

inline constexpr gzip_functions isal_functions = {make_packing_sink<isal_packer>, make_unpacking_buffer<isal_unpacker>,
                                                  /*rank*/ 2};
// Before main(), or when the library that holds it is loaded.
inline const bool isal_is_installed = install_gzip(isal_functions);

}  // namespace detail
STEPPROF_END_NAMESPACE
