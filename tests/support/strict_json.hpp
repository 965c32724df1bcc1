// A small strict JSON parser for tests, sharing nothing with the library: keeps the text of numbers and sees what
// common parsers let pass (duplicate keys, broken UTF-8, escaped surrogate pairs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace test {

struct json_node {
  enum class type { null, boolean, number, string, array, object };
  type kind = type::null;
  bool boolean = false;
  std::string text;  // of a number as it stands there; of a string decoded
  std::vector<json_node> items;
  std::vector<std::pair<std::string, json_node>> members;

  bool is(type t) const { return kind == t; }
  bool is_object() const { return kind == type::object; }
  bool is_array() const { return kind == type::array; }
  bool is_string() const { return kind == type::string; }
  bool is_number() const { return kind == type::number; }
  // The last member with that key, as readers have it; nullptr when there is none.
  const json_node* find(const std::string& key) const {
    for (std::size_t i = members.size(); i-- > 0;)
      if (members[i].first == key) return &members[i].second;
    return nullptr;
  }
  const json_node& at(const std::string& key) const {
    static const json_node missing;
    const json_node* found = find(key);
    return found != nullptr ? *found : missing;
  }
  std::string string(const std::string& key) const { return at(key).is_string() ? at(key).text : std::string(); }
  long long integer(const std::string& key) const { return at(key).is_number() ? std::stoll(at(key).text) : -1; }
};

struct json_document {
  json_node root;
  std::vector<std::pair<std::string, std::string>> faults;  // rule, text; "json" means that parsing ended there
  std::size_t end = 0;                                      // one past the last byte of the value
  bool ok() const { return faults.empty(); }
};

class strict_json {
 public:
  static json_document parse(const std::string& text) {
    strict_json parser(text);
    parser.space();
    parser.value(parser.result_.root, 0);
    parser.result_.end = parser.at_;
    return std::move(parser.result_);
  }

 private:
  explicit strict_json(const std::string& text) : text_(text) {}

  bool fail(const std::string& what) {
    if (!failed_) result_.faults.emplace_back("json", what + " at byte " + std::to_string(at_));
    failed_ = true;
    return false;
  }
  void remark(const std::string& rule, const std::string& what) {
    if (result_.faults.size() < 100) result_.faults.emplace_back(rule, what + " at byte " + std::to_string(at_));
  }
  int peek() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : -1; }
  bool take(char c) {
    if (peek() != static_cast<unsigned char>(c)) return false;
    ++at_;
    return true;
  }
  void space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }

  bool value(json_node& out, int depth) {
    if (depth > 2000) return fail("nested too deeply");
    switch (peek()) {
      case '{':
        return object(out, depth);
      case '[':
        return array(out, depth);
      case '"':
        out.kind = json_node::type::string;
        return string(out.text);
      case 't':
        return word("true", out, json_node::type::boolean, true);
      case 'f':
        return word("false", out, json_node::type::boolean, false);
      case 'n':
        return word("null", out, json_node::type::null, false);
      default:
        return number(out);
    }
  }
  bool word(const std::string& expected, json_node& out, json_node::type kind, bool boolean) {
    if (text_.compare(at_, expected.size(), expected) != 0) return fail("no value");
    at_ += expected.size();
    out.kind = kind;
    out.boolean = boolean;
    return true;
  }
  bool object(json_node& out, int depth) {
    out.kind = json_node::type::object;
    std::set<std::string> keys;
    ++at_;
    space();
    if (take('}')) return true;
    for (;;) {
      std::string key;
      space();
      if (peek() != '"') return fail("no key");
      if (!string(key)) return false;
      if (!keys.insert(key).second) remark("duplicate_key", "'" + key + "'");
      space();
      if (!take(':')) return fail("no colon");
      space();
      out.members.emplace_back(std::move(key), json_node());
      if (!value(out.members.back().second, depth + 1)) return false;
      space();
      if (take('}')) return true;
      if (!take(',')) return fail("no comma in an object");
    }
  }
  bool array(json_node& out, int depth) {
    out.kind = json_node::type::array;
    ++at_;
    space();
    if (take(']')) return true;
    for (;;) {
      space();
      out.items.emplace_back();
      if (!value(out.items.back(), depth + 1)) return false;
      space();
      if (take(']')) return true;
      if (!take(',')) return fail("no comma in an array");
    }
  }
  bool digits() {
    const std::size_t first = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ != first;
  }
  bool number(json_node& out) {
    out.kind = json_node::type::number;
    const std::size_t first = at_;
    take('-');
    const bool zero = peek() == '0';
    const std::size_t integer = at_;
    if (!digits()) return fail("no value");
    if (zero && at_ - integer > 1) return fail("a leading zero");
    if (take('.') && !digits()) return fail("no decimals");
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      if (!digits()) return fail("no exponent");
    }
    out.text = text_.substr(first, at_ - first);
    return true;
  }

  bool string(std::string& out) {
    for (++at_;;) {
      const int c = peek();
      if (c < 0) return fail("no closing quote");
      if (c < 0x20) return fail("a raw control character");
      if (take('"')) return true;
      if (c == '<' || c == '>' || c == '&') remark("markup", "a raw < > or &");
      if (c == '\\') {
        if (!escape(out)) return false;
      } else if (c < 0x80) {
        out += static_cast<char>(c);
        ++at_;
      } else {
        multibyte(out);
      }
    }
  }
  bool escape(std::string& out) {
    ++at_;
    const int c = peek();
    ++at_;
    switch (c) {
      case '"':
        out += '"';
        return true;
      case '\\':
        out += '\\';
        return true;
      case '/':
        out += '/';
        return true;
      case 'b':
        out += '\b';
        return true;
      case 'f':
        out += '\f';
        return true;
      case 'n':
        out += '\n';
        return true;
      case 'r':
        out += '\r';
        return true;
      case 't':
        out += '\t';
        return true;
      case 'u':
        break;
      default:
        return fail("an unknown escape");
    }
    std::uint32_t unit = 0;
    if (!hex(unit)) return fail("a short \\u");
    if (unit >= 0xd800 && unit < 0xe000) {
      remark("surrogate_escape", "an escaped surrogate");
      std::uint32_t low = 0;
      if (unit < 0xdc00 && text_.compare(at_, 2, "\\u") == 0) {
        at_ += 2;
        if (!hex(low)) return fail("a short \\u");
      }
      unit = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
    }
    encode(unit, out);
    return true;
  }
  bool hex(std::uint32_t& unit) {
    for (int i = 0; i < 4; ++i, ++at_) {
      const int c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return false;
      unit = unit * 16 + static_cast<std::uint32_t>(digit);
    }
    return true;
  }
  static void encode(std::uint32_t c, std::string& out) {
    const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xc0 | c >> 6);
      put(0x80 | (c & 63));
    } else if (c < 0x10000) {
      put(0xe0 | c >> 12);
      put(0x80 | (c >> 6 & 63));
      put(0x80 | (c & 63));
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 63));
      put(0x80 | (c >> 6 & 63));
      put(0x80 | (c & 63));
    }
  }
  // Decodes to a code point and encodes it again: valid is what comes back the same and is no surrogate.
  void multibyte(std::string& out) {
    const int lead = peek();
    const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    const std::string bytes = text_.substr(at_, size);
    std::uint32_t c = size == 1 ? 0x110000u : static_cast<std::uint32_t>(lead) & (0x7fu >> size);
    for (std::size_t i = 1; i < bytes.size(); ++i) {
      const auto next = static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i]));
      c = (next & 0xc0) == 0x80 ? c << 6 | (next & 63) : 0x110000u;
    }
    std::string again;
    if (c < 0x110000 && (c < 0xd800 || c >= 0xe000)) encode(c, again);
    if (again != bytes) {
      remark("utf8", "invalid UTF-8");
      out += text_[at_++];
      return;
    }
    out += bytes;
    at_ += size;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  bool failed_ = false;
  json_document result_;
};

}  // namespace test
