// The events of a Chrome trace file as plain records, read as a stream: no tree of the whole file is built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <stepprof/config.hpp>
#include <stepprof/trace/quote_json.hpp>
#include <stepprof/trace/saturating.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Any JSON value. Arrays and objects are kept as text with ", " and ": " between their parts.
struct file_value {
  enum class type : std::uint8_t { none, null, boolean, int64, uint64, real, text, json };
  type kind = type::none;
  bool boolean = false;
  std::int64_t int64 = 0;
  std::uint64_t uint64 = 0;
  double real = 0;
  std::string text;  // of a text its content, of a number and of json how it is written

  [[nodiscard]] bool exists() const noexcept { return kind != type::none && kind != type::null; }
  [[nodiscard]] bool is_integer() const noexcept { return kind == type::int64 || kind == type::uint64; }
  // The integer, clipped to the range of int64; `otherwise` for anything else.
  [[nodiscard]] std::int64_t integer_or(std::int64_t otherwise) const noexcept {
    if (kind == type::int64) return int64;
    if (kind != type::uint64) return otherwise;
    return saturating_cast<std::int64_t>(uint64);
  }
  [[nodiscard]] std::uint64_t unsigned_or(std::uint64_t otherwise) const noexcept {
    if (kind == type::uint64) return uint64;
    return kind == type::int64 && int64 >= 0 ? static_cast<std::uint64_t>(int64) : otherwise;
  }
  [[nodiscard]] double as_double() const noexcept {
    if (kind == type::int64) return static_cast<double>(int64);
    return kind == type::uint64 ? static_cast<double>(uint64) : real;
  }
};

// One element of "traceEvents" as it stands in the file.
struct chrome_event {
  std::size_t index = 0;
  std::string ph, cat, name, bp;
  file_value ts, dur, pid, tid, id;
  std::vector<std::pair<std::string, file_value>> args;

  [[nodiscard]] const file_value* arg(std::string_view key) const noexcept {
    for (const auto& pair : args)
      if (pair.first == key) return &pair.second;
    return nullptr;
  }
};

// A JSON value as text, whatever it is.
inline std::string text_of(const file_value& value) {
  std::string out;
  switch (value.kind) {
    case file_value::type::none:
    case file_value::type::null:
      return "null";
    case file_value::type::boolean:
      return value.boolean ? "true" : "false";
    case file_value::type::text:
      quote_json(out, value.text);
      return out;
    default:
      return value.text;
  }
}

// The largest time of a file: 146 years, so that a begin and a duration can be added.
inline constexpr std::int64_t max_file_time_ns = 4600000000000000000;

// Microseconds, written as a decimal number, in whole nanoseconds: exact where a double is not (16 digits and more).
// False when the text is no number or the time does not fit.
inline bool parse_microseconds(std::string_view text, std::int64_t& ns) {
  const bool is_negative = !text.empty() && text[0] == '-';
  if (is_negative) text.remove_prefix(1);
  std::string digits;
  std::int64_t point = -1, exponent = 0;
  std::size_t i = 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] >= '0' && text[i] <= '9') {
      digits += text[i];
    } else if (text[i] == '.' && point < 0) {
      point = static_cast<std::int64_t>(digits.size());
    } else {
      return false;
    }
  }
  if (digits.empty()) return false;
  if (point < 0) point = static_cast<std::int64_t>(digits.size());
  if (i < text.size()) {
    bool is_small = false;
    if (++i < text.size() && (text[i] == '-' || text[i] == '+')) is_small = text[i++] == '-';
    if (i == text.size()) return false;
    for (; i < text.size(); ++i) {
      if (text[i] < '0' || text[i] > '9') return false;
      exponent = exponent < 100000 ? exponent * 10 + (text[i] - '0') : exponent;
    }
    if (is_small) exponent = -exponent;
  }
  const std::size_t zeros = digits.find_first_not_of('0');
  ns = 0;
  if (zeros == std::string::npos) return true;
  // Digits in front of the decimal point of the ns value.
  const std::int64_t whole = point + exponent + 3;
  if (whole - static_cast<std::int64_t>(zeros) > 19) return false;
  const auto digit = [&digits](std::int64_t k) {
    return k >= 0 && k < static_cast<std::int64_t>(digits.size()) ? digits[static_cast<std::size_t>(k)] - '0' : 0;
  };
  std::uint64_t value = 0;
  for (std::int64_t k = 0; k < whole; ++k) value = value * 10 + static_cast<std::uint64_t>(digit(k));
  if (digit(whole) >= 5) ++value;
  if (value > std::uint64_t{max_file_time_ns}) return false;
  ns = static_cast<std::int64_t>(value);
  if (is_negative) ns = -ns;
  return true;
}

// The handler that nlohmann's parser drives. `Sink` has on_event(chrome_event&&) and on_file_key(key, value), each of
// which may refuse with a text (an empty one goes on).
template <class Sink>
class chrome_json_handler {
 public:
  explicit chrome_json_handler(Sink& sink) : sink_(sink) {}

  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  [[nodiscard]] bool has_events() const noexcept { return has_events_; }

  bool null() { return scalar(file_value::type::null, "null"); }
  bool boolean(bool b) {
    value_.boolean = b;
    return scalar(file_value::type::boolean, b ? "true" : "false");
  }
  bool number_integer(std::int64_t n) {
    value_.int64 = n;
    return scalar(file_value::type::int64, std::to_string(n));
  }
  bool number_unsigned(std::uint64_t n) {
    value_.uint64 = n;
    value_.int64 = static_cast<std::int64_t>(n);
    return scalar(n > std::uint64_t{INT64_MAX} ? file_value::type::uint64 : file_value::type::int64, std::to_string(n));
  }
  bool number_float(double n, std::string text) {
    for (char& c : text)
      if ((c < '0' || c > '9') && c != '-' && c != '+' && c != 'e' && c != 'E') c = '.';  // the locale's decimal sign
    value_.real = n;
    return scalar(file_value::type::real, std::move(text));
  }
  bool string(std::string& text) {
    if (captured_ != 0) {
      comma();
      quote_json(capture_, text);
      after_key_ = false;
      return true;
    }
    return scalar(file_value::type::text, std::move(text));
  }
  template <class Binary>
  bool binary(Binary&) {
    return refuse("binary data");
  }

  bool key(std::string& text) {
    if (captured_ != 0) {
      comma();
      quote_json(capture_, text);
      capture_ += ": ";
      after_key_ = true;
      return true;
    }
    (place_ == place::args ? arg_key_ : key_) = std::move(text);
    return true;
  }
  bool start_object(std::size_t) {
    if (captured_ == 0) {
      if (place_ == place::nowhere) return enter(place::file);
      if (place_ == place::events) return start_event();
      if (place_ == place::event && key_ == "args") return enter(place::args);
    }
    return start_capture('{');
  }
  bool start_array(std::size_t) {
    if (captured_ == 0) {
      if (place_ == place::nowhere) return start_events(true);
      if (place_ == place::file && key_ == "traceEvents") return start_events(false);
    }
    return start_capture('[');
  }
  bool end_object() {
    if (captured_ != 0) return end_capture('}');
    if (place_ == place::args) return enter(place::event);
    if (place_ == place::event) {
      place_ = place::events;
      return check(sink_.on_event(std::move(event_)));
    }
    return enter(place::nowhere);
  }
  bool end_array() {
    if (captured_ != 0) return end_capture(']');
    return enter(is_bare_array_ ? place::nowhere : place::file);
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) {
    const std::string_view what = e.what();
    const std::size_t start = what.find("] ");
    return refuse(std::string(start == std::string_view::npos ? what : what.substr(start + 2)));
  }

 private:
  enum class place : std::uint8_t { nowhere, file, events, event, args };

  bool enter(place p) {
    place_ = p;
    return true;
  }
  bool refuse(std::string text) {
    if (error_.empty()) error_ = std::move(text);
    return false;
  }
  bool check(const std::string& text) { return text.empty() || refuse(text); }
  bool start_events(bool is_bare) {
    is_bare_array_ = is_bare;
    has_events_ = true;
    return enter(place::events);
  }
  bool start_event() {
    event_ = chrome_event();
    event_.index = event_count_++;
    return enter(place::event);
  }

  bool start_capture(char bracket) {
    if (place_ == place::events) return refuse_element();
    if (captured_++ == 0)
      capture_.clear();
    else
      comma();
    capture_ += bracket;
    after_key_ = true;  // no comma in front of the first element
    return true;
  }
  bool end_capture(char bracket) {
    capture_ += bracket;
    after_key_ = false;
    if (--captured_ != 0) return true;
    return scalar(file_value::type::json, std::move(capture_));
  }
  void comma() {
    if (!after_key_) capture_ += ", ";
    after_key_ = false;
  }

  bool scalar(file_value::type kind, std::string text) {
    if (captured_ != 0) {
      comma();
      capture_ += text;
      return true;
    }
    value_.kind = kind;
    value_.text = std::move(text);
    switch (place_) {
      case place::nowhere:
        return refuse("the file holds a single value instead of an object with \"traceEvents\"");
      case place::file:
        return key_ == "traceEvents" ? refuse("\"traceEvents\" is not an array")
                                     : check(sink_.on_file_key(std::move(key_), take()));
      case place::events:
        return refuse_element();
      case place::event:
        return event_field();
      case place::args:
        set_arg();
        return true;
    }
    return true;
  }
  bool refuse_element() { return refuse("traceEvents[" + std::to_string(event_count_) + "] is not an object"); }
  file_value take() {
    file_value result = std::move(value_);
    value_ = file_value();
    return result;
  }
  // Duplicate keys: the last one counts, as in the viewers.
  void set_arg() {
    for (auto& pair : event_.args)
      if (pair.first == arg_key_) {
        pair.second = take();
        return;
      }
    event_.args.emplace_back(std::move(arg_key_), take());
  }
  bool event_field() {
    struct text_field {
      const char* key;
      std::string chrome_event::*field;
    };
    struct value_field {
      const char* key;
      file_value chrome_event::*field;
    };
    static constexpr text_field texts[] = {{"ph", &chrome_event::ph},
                                           {"cat", &chrome_event::cat},
                                           {"name", &chrome_event::name},
                                           {"bp", &chrome_event::bp}};
    static constexpr value_field values[] = {{"ts", &chrome_event::ts},
                                             {"dur", &chrome_event::dur},
                                             {"pid", &chrome_event::pid},
                                             {"tid", &chrome_event::tid},
                                             {"id", &chrome_event::id}};
    for (const text_field& t : texts)
      if (key_ == t.key && value_.kind == file_value::type::text) {
        event_.*t.field = take().text;
        return true;
      }
    for (const value_field& v : values)
      if (key_ == v.key) {
        event_.*v.field = take();
        return true;
      }
    return true;
  }

  Sink& sink_;
  place place_ = place::nowhere;
  std::string key_, arg_key_;
  file_value value_;
  chrome_event event_;
  std::size_t event_count_ = 0;
  std::string capture_;
  std::size_t captured_ = 0;  // depth inside a value that is kept as text
  bool after_key_ = false;
  bool is_bare_array_ = false;
  bool has_events_ = false;
  std::string error_;
};

}  // namespace detail

STEPPROF_END_NAMESPACE
