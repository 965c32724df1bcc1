// The JSON writer against nlohmann_json and the tests' own strict parser: what it writes is read back as the same
// values.
#include <fuzz/fuzz_input.hpp>

#include <cmath>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <support/strict_json.hpp>

#include <stepprof/output/json_writer.hpp>

using namespace stepprof;
using nlohmann::json;

namespace {

// As every reader sees these bytes: broken UTF-8 replaced.
json text_of(const std::string& bytes) {
  return json::parse(json(bytes).dump(-1, ' ', false, json::error_handler_t::replace));
}
// A JSON text whose value is told by nlohmann_json; where that is laxer than RFC 8259, or reads deeper than we do, it
// is not asked.
bool is_told_apart(const std::string& text) {
  return text.find('\0') == std::string::npos && text.compare(0, 3, "\xef\xbb\xbf") != 0 && text.size() < 500;
}
json value_of(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? text_of(text) : value;
}

// Writes what the input says, and the same into a tree.
class both_writers {
 public:
  both_writers(fuzz::input& in, json_writer& out) : in_(in), out_(out) {}

  json value(int depth) {
    switch (in_.below(depth < 40 ? 13 : 11)) {
      case 0:
        out_.null();
        return nullptr;
      case 1: {
        const bool b = in_.flag();
        out_.boolean(b);
        return b;
      }
      case 2: {
        const std::int64_t n = in_.number();
        out_.integer(n);
        return n;
      }
      case 3: {
        const auto n = static_cast<std::uint64_t>(in_.number());
        out_.unsigned_integer(n);
        return n <= INT64_MAX ? json(n) : json(std::to_string(n));
      }
      case 4:
        return real(in_.real());
      case 5:  // few digits
        return real(static_cast<double>(in_.number()) / std::pow(10.0, static_cast<double>(in_.below(12))));
      case 6:
        return time(in_.number());
      case 7:
      case 8: {
        const std::string bytes = in_.text(60);
        out_.string(bytes);
        return text_of(bytes);
      }
      case 9: {  // longer than the word in which plain bytes are looked for, with one odd byte somewhere
        std::string bytes(in_.below(40), 'x');
        bytes.insert(in_.below(bytes.size() + 1), 1, static_cast<char>(in_.byte()));
        out_.string(bytes);
        return text_of(bytes);
      }
      case 10: {
        std::string text = in_.text(100);
        if (!is_told_apart(text)) text = "[1, {\"a\": \"\\ud83d\\ude00<\"}]";
        out_.json(text);
        return value_of(text);
      }
      case 11:
        return array(depth);
      default:
        return object(depth);
    }
  }

 private:
  json real(double n) {
    out_.real(n);
    if (std::isnan(n)) return "NaN";
    return std::isinf(n) ? json(n < 0 ? "-Infinity" : "Infinity") : json(n);
  }
  // Read as text: three decimals are more than a double has.
  json time(std::int64_t ns) {
    std::string text;
    {
      string_sink sink(text);
      json_writer alone(sink);
      alone.time_us(ns);
    }
    const bool is_negative = text[0] == '-';
    std::string digits = text.substr(is_negative ? 1 : 0);
    const std::size_t point = digits.find('.');
    fuzz::require(point != std::string::npos && point + 4 == digits.size() && point > 0, "three decimals", text);
    digits.erase(point, 1);
    const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
    fuzz::require(std::stoull(digits) == size && is_negative == (ns < 0), "the time is exact", text);
    out_.time_us(ns);
    return json::parse(text);
  }
  json array(int depth) {
    json result = json::array();
    out_.begin_array();
    for (std::size_t count = in_.below(5); count > 0; --count) result.push_back(value(depth + 1));
    out_.end_array();
    return result;
  }
  json object(int depth) {
    json result = json::object();
    out_.begin_object();
    for (std::size_t count = in_.below(5); count > 0; --count) {
      const std::string key = in_.text(20);
      out_.key(key);
      json held = value(depth + 1);
      result[text_of(key).get<std::string>()] = std::move(held);  // of equal keys the last counts
    }
    out_.end_object();
    return result;
  }

  fuzz::input& in_;
  json_writer& out_;
};

// Every way to write the text as a string gives the same.
void check_strings(const std::string& bytes) {
  std::string by_writer, appended, room(6 * bytes.size() + 10, '\0');
  {
    string_sink sink(by_writer);
    json_writer out(sink);
    out.string(bytes);
  }
  detail::append_json_string(appended, bytes);
  room.resize(static_cast<std::size_t>(detail::write_json_string(room.data(), bytes) - room.data()));
  fuzz::require(by_writer == appended && by_writer == room, "one text, one form", by_writer);
  fuzz::require(json::parse(by_writer) == text_of(bytes), "a string is read back", by_writer);
}

void check_scanner(const std::string& text) {
  if (!is_told_apart(text)) return;
  fuzz::require(is_valid_json(text) == json::accept(text), "the scanner agrees with nlohmann_json", text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  std::string text;
  json expected;
  {
    string_sink sink(text);
    json_writer out(sink);
    expected = both_writers(in, out).value(0);
  }
  const test::json_document strict = test::strict_json::parse(text);
  for (const auto& [rule, what] : strict.faults)
    // Of the input's own.
    fuzz::require(rule == "duplicate_key", "strict JSON", [&, name = rule] { return name + " of " + text; });
  fuzz::require(strict.end == text.size(), "one value and nothing behind it", text);
  const json read = json::parse(text, nullptr, false);
  fuzz::require(!read.is_discarded() && read == expected, "the values are read back", text);
  const std::string rest = in.rest();
  check_strings(rest);
  check_scanner(rest);
  return 0;
}
