// What the providers of gzip in adapters/ have in common: the pieces in which bytes come and go, members one after
// another, and what is said of a bad file. A provider brings a packer and an unpacker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <streambuf>
#include <string>
#include <system_error>

#include <stepprof/config.hpp>
#include <stepprof/core/system.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/gzip.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

inline constexpr std::size_t gzip_piece_bytes = std::size_t{1} << 16;
// The libraries count what they are given at once in 32 bits.
inline constexpr std::size_t gzip_max_bytes_at_once = std::size_t{1} << 30;

// What one call of a library may read and write. It moves both starts on.
struct gzip_room {
  const char* in = nullptr;
  std::size_t in_bytes = 0;
  char* out = nullptr;
  std::size_t out_bytes = 0;
};

// Both libraries know the room by the same names, and only read their input, but do not say so.
template <class Stream>
void lend_room(Stream& stream, const gzip_room& room) noexcept {
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(room.in));
  stream.avail_in = static_cast<decltype(stream.avail_in)>(room.in_bytes);
  stream.next_out = reinterpret_cast<unsigned char*>(room.out);
  stream.avail_out = static_cast<decltype(stream.avail_out)>(room.out_bytes);
}
template <class Stream>
void take_back_room(const Stream& stream, gzip_room& room) noexcept {
  room.in += room.in_bytes - stream.avail_in;
  room.in_bytes = stream.avail_in;
  room.out += room.out_bytes - stream.avail_out;
  room.out_bytes = stream.avail_out;
}

// One gzip member, in bounded memory. A Packer has
//   std::error_code start();                         before anything else; after a failure nothing else
//   std::error_code pack(gzip_room&, bool last);     takes all that is to be read unless it fills the room first;
//                                                    `last`: and completes the member
//   bool is_complete() const;                        the member is
template <class Packer>
class packing_sink final : public gzip_sink {
 public:
  explicit packing_sink(byte_sink& to) : to_(to), buffer_(new char[gzip_piece_bytes]) {
    empty_buffer();
    if (const std::error_code ec = packer_.start()) fail(ec);
  }

  std::error_code finish() override {
    if (!error())
      if (const std::error_code ec = pack_last()) fail(ec);
    return error();
  }

 private:
  std::error_code take(const char* data, std::size_t size) override {
    for (std::size_t piece = 0; size != 0; data += piece, size -= piece) {
      piece = (std::min)(size, gzip_max_bytes_at_once);
      room_.in = data;
      room_.in_bytes = piece;
      while (room_.in_bytes != 0)
        if (const std::error_code ec = pack(false)) return ec;
    }
    return {};
  }
  std::error_code pack_last() {
    while (!packer_.is_complete())
      if (const std::error_code ec = pack(true)) return ec;
    return hand_on();
  }
  // Output waits until its piece is full.
  std::error_code pack(bool last) {
    if (room_.out_bytes == 0)
      if (const std::error_code ec = hand_on()) return ec;
    return packer_.pack(room_, last);
  }
  std::error_code hand_on() {
    to_.write(buffer_.get(), gzip_piece_bytes - room_.out_bytes);
    empty_buffer();
    return to_.error();
  }
  void empty_buffer() noexcept {
    room_.out = buffer_.get();
    room_.out_bytes = gzip_piece_bytes;
  }

  byte_sink& to_;
  std::unique_ptr<char[]> buffer_;
  gzip_room room_;
  Packer packer_;
};

enum class gzip_step { more, end_of_member, damaged };

// Members one after another, as `cat` makes them, are one text. What follows the last one and is no member is a fault.
// An Unpacker has
//   bool start();                        before anything else; false: there is no memory
//   gzip_step unpack(gzip_room&);        reads until there is nothing to read, the room is full or the member ends; the
//                                        member's last bytes only when all that it holds has been written
//   const char* fault() const;           what is damaged
template <class Unpacker>
class unpacking_buffer final : public gzip_buffer {
 public:
  explicit unpacking_buffer(std::streambuf& from)
      : from_(from), input_(new char[gzip_piece_bytes]), output_(new char[gzip_piece_bytes]) {
    if (!unpacker_.start()) fault_ = "there is not enough memory to decompress it";
  }
  unpacking_buffer(const unpacking_buffer&) = delete;
  unpacking_buffer& operator=(const unpacking_buffer&) = delete;

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
    room_.out = output_.get();
    room_.out_bytes = gzip_piece_bytes;
    while (room_.out_bytes == gzip_piece_bytes && fault_.empty()) {
      if (room_.in_bytes == 0 && !fill()) {
        if (inside_) fault_ = "it is compressed (gzip) and ends in the middle: it is not complete";
        break;
      }
      step();
    }
    return gzip_piece_bytes - room_.out_bytes;
  }
  bool fill() {
    const std::streamsize size = from_.sgetn(input_.get(), static_cast<std::streamsize>(gzip_piece_bytes));
    room_.in = input_.get();
    room_.in_bytes = static_cast<std::size_t>((std::max)(size, std::streamsize{0}));
    return size > 0;
  }
  void step() {
    const gzip_step result = unpacker_.unpack(room_);
    inside_ = result != gzip_step::end_of_member;
    if (result == gzip_step::damaged) fault_ = std::string("it is compressed (gzip) and damaged: ") + unpacker_.fault();
  }

  std::streambuf& from_;
  std::unique_ptr<char[]> input_;
  std::unique_ptr<char[]> output_;
  gzip_room room_;
  Unpacker unpacker_;
  std::string fault_;
  bool inside_ = false;  // a member
};

template <class Packer>
std::unique_ptr<gzip_sink> make_packing_sink(byte_sink& to) {
  return std::make_unique<packing_sink<Packer>>(to);
}
template <class Unpacker>
std::unique_ptr<gzip_buffer> make_unpacking_buffer(std::streambuf& from) {
  return std::make_unique<unpacking_buffer<Unpacker>>(from);
}

// Of several providers in one process the one with the highest rank serves, whatever the order in which they come.
// `provider` is to live as long as the process.
inline bool install_gzip(const gzip_functions& provider) noexcept {
  const gzip_functions* there = gzip();
  while (there == nullptr || there->rank < provider.rank) {
    system_pin_this_module();  // whoever has the table may use it until the program ends
    // Release: who finds the table finds what it points to. Acquire: the one that was first is looked at.
    if (the_gzip.compare_exchange_weak(there, &provider, std::memory_order_acq_rel, std::memory_order_acquire)) break;
  }
  return true;
}

}  // namespace detail
STEPPROF_END_NAMESPACE
