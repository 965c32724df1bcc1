// The texts of a Chrome trace, each escaped once: heads of events, keys of arguments, lists of inputs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
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
  static constexpr std::string_view reserved[] = {
      "",           "External id",   "Record function id", "Ev Idx",          "Sequence number", "Fwd thread id",
      "Input Dims", "Input Strides", "Input type",         "Concrete Inputs", "Call stack",      "Source",
      "finished",   "Other thread",  "Out of order",       "Parent Ev Idx",   "Moved ns",        "Module Hierarchy",
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

class chrome_trace_texts {
 public:
  explicit chrome_trace_texts(const trace& recording)
      : trace_(recording), ops_(recording.text_count()), annotations_(recording.text_count()) {}

  // `","cat":"cpu_op","name":"...","pid":`. Valid until the next call.
  std::string_view head(const trace_event& e) {
    const bool annotation = e.kind() == scope_kind::user_annotation;
    return (annotation ? annotations_ : ops_).get(e.name, [&](std::string& out) {
      out += annotation ? "\",\"cat\":\"user_annotation\",\"name\":" : "\",\"cat\":\"cpu_op\",\"name\":";
      append_json_string(out, trace_.text(e.name));
      out += ",\"pid\":";
    });
  }
  // A JSON value given as text. Valid until the next call.
  std::string_view json(std::uint32_t text) {
    const auto prepare = [&](std::string& out) { out += valid_json(trace_.text(text)); };
    if (!values_) values_ = std::make_unique<prepared_texts>(trace_.text_count());
    return values_->get(text, prepare);
  }

  // `,"Source":"file:line"`. Valid until the next call.
  std::string_view source(const event_detail& d) {
    if (sources_.size() == max_sources) sources_.clear();  // only a file can have as many
    const auto [at, is_new] = sources_.try_emplace(std::uint64_t{d.source_file} << 32 | d.source_line);
    if (is_new) {
      at->second = ",\"Source\":";
      append_json_string(at->second, std::string(trace_.text(d.source_file)) + ':' + std::to_string(d.source_line));
    }
    return at->second;
  }

  // --- keys of arguments: equal when they are written alike, so that no object has a key twice -----------------------

  void new_event() noexcept { ++event_; }
  // Whether this key comes up for the first time since new_event().
  bool first_use(std::uint32_t text) {
    std::uint64_t& used = used_[identity(text)];
    const bool first = used != event_;
    used = event_;
    return first;
  }
  // `,"key":`
  [[nodiscard]] std::string_view key(std::uint32_t text) { return keys_[identity(text)]; }

 private:
  std::uint32_t identity(std::uint32_t text) {
    const auto known = identities_.find(text);
    if (known != identities_.end()) return known->second;
    const std::string written = "," + argument_key(trace_.text(text));
    const auto next = static_cast<std::uint32_t>(keys_.size());
    const std::uint32_t result = by_text_.emplace(written, next).first->second;
    if (result == next) {
      keys_.push_back(written);
      used_.push_back(0);
    }
    return identities_[text] = result;
  }

  static constexpr std::size_t max_sources = 65536;

  const trace& trace_;
  prepared_texts ops_;
  prepared_texts annotations_;
  std::unique_ptr<prepared_texts> values_;
  std::unordered_map<std::uint64_t, std::string> sources_;       // by file and line
  std::unordered_map<std::uint32_t, std::uint32_t> identities_;  // by text
  std::unordered_map<std::string, std::uint32_t> by_text_;
  std::vector<std::string> keys_;
  std::vector<std::uint64_t> used_;
  std::uint64_t event_ = 0;
};

}  // namespace detail
STEPPROF_END_NAMESPACE
