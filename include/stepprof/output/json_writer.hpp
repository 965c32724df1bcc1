// The one streaming JSON writer: whatever stepprof writes as JSON goes through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <stepprof/config.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/json_number.hpp>
#include <stepprof/output/json_scanner.hpp>
#include <stepprof/output/json_text.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Writes JSON to a sink through a buffer of its own. Commas are its business, brackets the caller's.
///
/// Keys and values are escaped (also `<`, `>` and `&`); a broken UTF-8 sequence becomes one U+FFFD per maximal subpart;
/// everything beyond ASCII is raw UTF-8, never an escaped surrogate pair. Numbers do not depend on any locale: integers
/// beyond int64 are written as strings, doubles in their shortest form, non-finite ones as the strings "NaN",
/// "Infinity" and "-Infinity". Failures stay in the sink. One thread at a time.
class json_writer {
 public:
  explicit json_writer(byte_sink& sink) : sink_(sink), buffer_(new char[capacity_]) { at_ = buffer_.get(); }
  ~json_writer() { flush(); }
  json_writer(const json_writer&) = delete;
  json_writer& operator=(const json_writer&) = delete;

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }

  void key(std::string_view name) {
    separate();
    quoted(name);
    put(':');
    comma_ = false;
  }
  /// A key with its value.
  void field(std::string_view name, std::string_view text) {
    key(name);
    string(text);
  }
  void field(std::string_view name, std::int64_t value) {
    key(name);
    integer(value);
  }
  void unsigned_field(std::string_view name, std::uint64_t value) {
    key(name);
    unsigned_integer(value);
  }
  void boolean_field(std::string_view name, bool value) {
    key(name);
    boolean(value);
  }

  void string(std::string_view text) {
    separate();
    quoted(text);
    comma_ = true;
  }
  void integer(std::int64_t value) {
    separate();
    advance(detail::write_integer(room(detail::max_integer_size), value));
    comma_ = true;
  }
  void unsigned_integer(std::uint64_t value) {
    if (value <= INT64_MAX) return integer(static_cast<std::int64_t>(value));
    separate();
    put('"');
    advance(detail::write_digits(room(detail::max_integer_size), value));
    put('"');
    comma_ = true;
  }
  void real(double value) {
    separate();
    advance(detail::write_real(room(detail::max_real_size), value));
    comma_ = true;
  }
  void boolean(bool value) { raw(value ? "true" : "false"); }
  void null() { raw("null"); }
  /// Nanoseconds as microseconds with exactly three decimals.
  void time_us(std::int64_t ns) {
    separate();
    advance(detail::write_time_us(room(detail::max_time_size), ns));
    comma_ = true;
  }
  /// A JSON value given as text, normalised; when it is not valid JSON, the text as a string.
  void json(std::string_view text) {
    if (find_json_fault(text)) return string(text);
    std::string normal;
    detail::json_normaliser(normal, text).run();
    raw(normal);
  }

  /// A complete value that is known to be JSON as this writer writes it.
  void raw(std::string_view value) {
    separate();
    append(value);
    comma_ = true;
  }
  /// Bytes as they are, without regard to commas: for prepared pieces.
  void append(std::string_view bytes) {
    if (bytes.size() > static_cast<std::size_t>(limit() - at_)) return append_slowly(bytes);
    std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  /// Tells the writer, after append(), whether the next value needs a comma before it.
  void expect_comma(bool comma) noexcept { comma_ = comma; }

  /// Room for `size` bytes, to be filled from the result on; then advance() to their end. One bound check for
  /// everything that an event writes.
  [[nodiscard]] char* room(std::size_t size) {
    if (size > static_cast<std::size_t>(limit() - at_)) make_room(size);
    return at_;
  }
  void advance(char* end) noexcept { at_ = end; }
  /// The same as advance(end) and room(size).
  [[nodiscard]] char* room(char* end, std::size_t size) {
    advance(end);
    return room(size);
  }

  void flush() {
    sink_.write(buffer_.get(), static_cast<std::size_t>(at_ - buffer_.get()));
    at_ = buffer_.get();
  }

 private:
  [[nodiscard]] const char* limit() const noexcept { return buffer_.get() + capacity_; }
  void make_room(std::size_t size) {
    flush();
    if (size <= capacity_) return;
    buffer_.reset(new char[size]);
    capacity_ = size;
    at_ = buffer_.get();
  }
  void separate() {
    if (comma_) put(',');
  }
  void put(char c) {
    char* at = room(1);
    *at = c;
    at_ = at + 1;
  }
  void open(char bracket) {
    separate();
    put(bracket);
    comma_ = false;
  }
  void close(char bracket) {
    put(bracket);
    comma_ = true;
  }
  void quoted(std::string_view text) {
    put('"');
    detail::escape_json(text, [this](const char* data, std::size_t size) { append({data, size}); });
    put('"');
  }
  void append_slowly(std::string_view bytes) {
    flush();
    if (bytes.size() >= capacity_) return sink_.write(bytes.data(), bytes.size());
    std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }

  byte_sink& sink_;
  std::size_t capacity_ = std::size_t{1} << 18;
  std::unique_ptr<char[]> buffer_;
  char* at_ = nullptr;
  bool comma_ = false;
};

STEPPROF_END_NAMESPACE
