// Where gzip comes from: nothing here compresses, but a program that has ISA-L or zlib can say how
// (<stepprof/adapters/isal.hpp>, <stepprof/adapters/zlib.hpp>).
#pragma once

#include <atomic>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>
#include <system_error>

#include <stepprof/config.hpp>
#include <stepprof/output/byte_sink.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// Compresses what it takes and hands it on. bytes() counts what it was given.
class gzip_sink : public byte_sink {
 public:
  // Completes the one member that the output is. Returns error().
  virtual std::error_code finish() = 0;
};

// The uncompressed bytes of a gzip stream of one or more members.
class gzip_buffer : public std::streambuf {
 public:
  // Why the bytes ended where they did; empty: because all were read.
  [[nodiscard]] virtual std::string fault() const = 0;
};

// One table per process, and a null pointer where nobody has brought it. Both arguments must outlive the result.
struct gzip_functions {
  std::unique_ptr<gzip_sink> (*make_sink)(byte_sink& to);
  std::unique_ptr<gzip_buffer> (*make_buffer)(std::streambuf& from);
  int rank;  // of several the highest serves
};

inline STEPPROF_CONSTINIT std::atomic<const gzip_functions*> the_gzip{nullptr};

// Acquire: the table was made by whoever stored it.
inline const gzip_functions* gzip() noexcept {
  return the_gzip.load(std::memory_order_acquire);
}

inline bool is_gzip_name(std::string_view name) noexcept {
  const std::string_view ending = name.substr(name.size() - (name.size() < 3 ? 0 : 3));
  return ending == ".gz" || ending == ".GZ";
}
inline bool is_gzip_text(std::string_view start) noexcept {
  return start.substr(0, 2) == "\x1f\x8b";
}

// What to do where gzip() is null.
inline constexpr const char* gzip_remedy =
    "include <stepprof/adapters/zlib.hpp> in one source file of the program and link stepprof::zlib";

}  // namespace detail
STEPPROF_END_NAMESPACE
