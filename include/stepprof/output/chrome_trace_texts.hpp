// The texts of a Chrome trace, each escaped once: heads of events, keys of arguments, lists of inputs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <stepprof/config.hpp>
#include <stepprof/output/json_scanner.hpp>
#include <stepprof/output/json_text.hpp>
#include <stepprof/output/utf8.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// True for names of arguments that are ours, whether or not an event has them, and for the empty one.
inline bool is_reserved_argument(std::string_view key) noexcept {
  static constexpr std::string_view reserved[] = {"",
                                                  "External id",
                                                  "Record function id",
                                                  "Ev Idx",
                                                  "Sequence number",
                                                  "Fwd thread id",
                                                  "Input Dims",
                                                  "Input Strides",
                                                  "Input type",
                                                  "Concrete Inputs",
                                                  "Call stack",
                                                  "Source",
                                                  "finished",
                                                  "Other thread",
                                                  "Out of order",
                                                  "Async",
                                                  "Parent Ev Idx",
                                                  "Moved ns",
                                                  "Module Hierarchy",
                                                  "Backend"};
  return std::find(std::begin(reserved), std::end(reserved), key) != std::end(reserved);
}

// `"key":`, with the prefix that a reserved one gets.
inline std::string argument_key(std::string_view key) {
  std::string result;
  append_json_string(result, is_reserved_argument(key) ? "user." + std::string(key) : std::string(key));
  return result + ':';
}

// A broken sequence becomes one U+FFFD.
inline std::string with_valid_utf8(std::string_view text) {
  std::string result;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const utf8_sequence sequence = utf8_sequence_at(at, end);
    result.append(sequence.valid ? std::string_view(at, sequence.size) : std::string_view("\xef\xbf\xbd"));
    at += sequence.size;
  }
  return result;
}

// JSON normalised, also where its strings hold broken UTF-8; anything else as a string.
inline std::string valid_json(std::string_view text) {
  std::string result;
  if (!find_json_fault(text)) {
    json_normaliser(result, text).run();
    return result;
  }
  const std::string mended = with_valid_utf8(text);
  if (find_json_fault(mended))
    append_json_string(result, mended);
  else
    json_normaliser(result, mended).run();
  return result;
}

// Texts prepared at first use and kept in one string, by index of the trace's texts. What does not fit any more into
// `limit` bytes is prepared each time.
class prepared_texts {
 public:
  explicit prepared_texts(std::uint32_t count) : places_(count) {}

  // `prepare(out)` appends the text. The result is valid until the next call.
  template <class Prepare>
  std::string_view get(std::uint32_t index, Prepare&& prepare) {
    place* known = index < places_.size() ? &places_[index] : nullptr;
    if (known != nullptr && known->size != 0) return std::string_view(bytes_).substr(known->begin, known->size);
    if (known == nullptr || bytes_.size() > limit) {
      scratch_.clear();
      prepare(scratch_);
      return scratch_;
    }
    const std::size_t begin = bytes_.size();
    prepare(bytes_);
    *known = {begin, bytes_.size() - begin};
    return std::string_view(bytes_).substr(begin);
  }

 private:
  static constexpr std::size_t limit = std::size_t{16} << 20;
  struct place {
    std::size_t begin = 0;
    std::size_t size = 0;  // 0: not prepared
  };
  std::vector<place> places_;
  std::string bytes_;
  std::string scratch_;
};

// Copies `size` bytes by blocks: up to copy_block - 1 more are read and written.
inline constexpr std::size_t copy_block = 32;
inline char* put_padded(char* out, const char* text, std::size_t size) noexcept {
  char* const end = out + size;
  for (; out < end; out += copy_block, text += copy_block) std::memcpy(out, text, copy_block);
  return end;
}

// What events of one name, track, place in the source and list of argument keys have in common.
class prepared_scope {
 public:
  [[nodiscard]] bool is_for(const trace_event& e, const event_detail& d, const trace_argument* args) const noexcept {
    const bool same = ((name_ ^ e.name) | (track_and_kind_ ^ track_and_kind(e)) | (source_file_ ^ d.source_file) |
                       (source_line_ ^ d.source_line)) == 0;
    return same && keys_.size() == d.arg_count && has_keys(args);
  }
  void begin(const trace_event& e, const event_detail& d) {
    name_ = e.name;
    track_and_kind_ = track_and_kind(e);
    source_file_ = d.source_file;
    source_line_ = d.source_line;
    keys_.clear();
    bytes_.clear();
  }
  [[nodiscard]] std::string& bytes() noexcept { return bytes_; }
  void end_head() noexcept { head_size_ = bytes_.size(); }
  void end_source() noexcept { source_size_ = bytes_.size() - head_size_; }
  void add_key(std::uint32_t text, std::string_view written) {
    keys_.push_back({text, static_cast<std::uint32_t>(written.size()), bytes_.size()});
    bytes_ += written;
  }
  void end() { bytes_.append(copy_block, ' '); }

  // Room that these texts take, a single one or together.
  [[nodiscard]] std::size_t room() const noexcept { return bytes_.size() + copy_block; }
  // `","cat":"cpu_op","name":"...","pid":7,"tid":1`
  [[nodiscard]] char* put_head(char* out) const noexcept { return put_padded(out, bytes_.data(), head_size_); }
  // `,"Source":"file:line"` or nothing.
  [[nodiscard]] char* put_source(char* out) const noexcept {
    return put_padded(out, bytes_.data() + head_size_, source_size_);
  }
  // False for an argument that a later one replaces.
  [[nodiscard]] bool has_key(std::size_t index) const noexcept { return keys_[index].size != 0; }
  [[nodiscard]] std::size_t key_room(std::size_t index) const noexcept { return keys_[index].size + copy_block; }
  // `,"key":`
  [[nodiscard]] char* put_key(char* out, std::size_t index) const noexcept {
    return put_padded(out, bytes_.data() + keys_[index].begin, keys_[index].size);
  }

 private:
  struct key {
    std::uint32_t text;
    std::uint32_t size;  // 0: not written
    std::size_t begin;
  };
  static std::uint32_t track_and_kind(const trace_event& e) noexcept { return e.track + e.kind_bits * (1u << 20); }
  [[nodiscard]] bool has_keys(const trace_argument* args) const noexcept {
    std::uint32_t different = 0;
    for (const key& k : keys_) different |= k.text ^ (args++)->key;
    return different == 0;
  }

  std::uint32_t name_ = npos;
  std::uint32_t track_and_kind_ = npos;  // of no event
  std::uint32_t source_file_ = npos;
  std::uint32_t source_line_ = 0;
  std::size_t head_size_ = 0;
  std::size_t source_size_ = 0;
  std::vector<key> keys_;
  std::string bytes_;
};

class chrome_trace_texts {
 public:
  explicit chrome_trace_texts(const trace& recording) : trace_(recording), scopes_(max_scopes) {}

  // The texts of an event; `where` is `7,"tid":1` of its track. Valid until the next call.
  const prepared_scope& scope(const trace_event& e, const event_detail& d, std::string_view where) {
    const trace_argument* args = trace_.arguments().data() + d.first_arg;
    std::unique_ptr<prepared_scope>& place = scopes_[slot(e, d)];
    if (place != nullptr && place->is_for(e, d, args)) return *place;
    return prepare(place, e, d, where);
  }
  // A JSON value given as text. Valid until the next call.
  std::string_view json(std::uint32_t text) {
    const auto prepare = [&](std::string& out) { out += valid_json(trace_.text(text)); };
    if (!values_) values_ = std::make_unique<prepared_texts>(trace_.text_count());
    return values_->get(text, prepare);
  }

 private:
  static constexpr std::size_t max_scopes = 4096;                  // a power of two
  static constexpr std::size_t max_bytes = std::size_t{16} << 20;  // of those that are kept

  // A place is taken by whatever comes last: what is lost is time.
  static std::size_t slot(const trace_event& e, const event_detail& d) noexcept {
    const std::uint32_t mixed = e.name * 0x9e3779b1u + (d.source_line + (d.arg_count << 16)) * 0x85ebca77u;
    return mixed >> 20;
  }
  static_assert(max_scopes == std::size_t{1} << (32 - 20), "slot() gives 12 bits");

  const prepared_scope& prepare(std::unique_ptr<prepared_scope>& place, const trace_event& e, const event_detail& d,
                                std::string_view where) {
    if (place == nullptr) place = std::make_unique<prepared_scope>();
    kept_bytes_ -= (std::min)(kept_bytes_, place->room());
    prepared_scope& p = *place;
    p.begin(e, d);
    put_head(p.bytes(), e, where);
    p.end_head();
    if (d.source_file != npos) put_source(p.bytes(), d);
    p.end_source();
    put_keys(p, d);
    p.end();
    kept_bytes_ += p.room();
    if (kept_bytes_ <= max_bytes) return p;
    // This one stays until the next call, all others go.
    last_ = std::move(place);
    for (std::unique_ptr<prepared_scope>& other : scopes_) other.reset();
    kept_bytes_ = 0;
    return *last_;
  }
  void put_head(std::string& out, const trace_event& e, std::string_view where) const {
    out += e.kind() == scope_kind::user_annotation ? "\",\"cat\":\"user_annotation\",\"name\":"
                                                   : "\",\"cat\":\"cpu_op\",\"name\":";
    append_json_string(out, trace_.text(e.name));
    out += ",\"pid\":";
    out += where;
  }
  void put_source(std::string& out, const event_detail& d) const {
    out += ",\"Source\":";
    append_json_string(out, std::string(trace_.text(d.source_file)) + ':' + std::to_string(d.source_line));
  }
  // Equal are keys that are written alike, so that no object has one twice. Of equal ones the last counts.
  void put_keys(prepared_scope& p, const event_detail& d) {
    const trace_argument* args = trace_.arguments().data() + d.first_arg;
    counts_.assign(d.arg_count, false);
    seen_.clear();
    for (std::uint32_t i = d.arg_count; i-- > 0;) counts_[i] = seen_.insert(key(args[i].key)).second;
    for (std::uint32_t i = 0; i < d.arg_count; ++i)
      p.add_key(args[i].key, counts_[i] ? key(args[i].key) : std::string_view());
  }
  // `,"key":`
  std::string_view key(std::uint32_t text) {
    std::string& known = keys_[text];
    if (known.empty()) known = ',' + argument_key(trace_.text(text));
    return known;
  }

  const trace& trace_;
  std::vector<std::unique_ptr<prepared_scope>> scopes_;
  std::unique_ptr<prepared_scope> last_;
  std::size_t kept_bytes_ = 0;
  std::unique_ptr<prepared_texts> values_;
  std::unordered_map<std::uint32_t, std::string> keys_;  // by text; references into it stay valid
  std::unordered_set<std::string_view> seen_;            // of the event at hand
  std::vector<bool> counts_;
};

}  // namespace detail
STEPPROF_END_NAMESPACE
