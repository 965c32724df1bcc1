// The scopes of a Chrome trace: slices of threads, pairs of async events, their arguments. Most of a file is made here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <stepprof/config.hpp>
#include <stepprof/output/chrome_layout.hpp>
#include <stepprof/output/chrome_trace_head.hpp>
#include <stepprof/output/chrome_trace_texts.hpp>
#include <stepprof/output/json_number.hpp>
#include <stepprof/output/json_text.hpp>
#include <stepprof/output/json_writer.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

STEPPROF_ALWAYS_INLINE char* put(char* at, std::string_view text) noexcept {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

// The elements of "traceEvents", one per line.
class json_event_list {
 public:
  // Everything of an event that has no text of its own fits.
  static constexpr std::size_t event_room = 768;

  explicit json_event_list(json_writer& out) : out_(out) {}

  // The beginning of the next element, with room for it and for `more` bytes.
  [[nodiscard]] char* begin(std::size_t more = 0) {
    char* at = out_.room(event_room + more);
    if (count_++ != 0) *at++ = ',';
    *at++ = '\n';
    return at;
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  json_writer& out_;
  std::uint64_t count_ = 0;
};

// Unique in every file of this process and, as far as 22 bits of the pid tell them apart, of others.
inline std::int64_t unique_id(std::int64_t pid, std::uint64_t counter) noexcept {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(pid) & 0x3fffffu) << 31 | (counter & 0x7fffffffu));
}

class chrome_trace_scopes {
 public:
  chrome_trace_scopes(const trace& recording, const chrome_layout& layout, const shown_ids& ids,
                      const shown_window& window, json_writer& out, json_event_list& list)
      : trace_(recording), layout_(layout), ids_(ids), window_(window), texts_(recording), out_(out), list_(list) {}

  void write_track(std::uint32_t index) {
    const trace_track& track = trace_.tracks()[index];
    const bool nested = track.kind == track_kind::thread;
    where_ = std::to_string(ids_.pid_of_track(index)) + ",\"tid\":" + std::to_string(ids_.tid(index));
    auto remark = std::lower_bound(layout_.remarks.begin(), layout_.remarks.end(), track.first_event,
                                   [](const drawing_remark& r, std::uint32_t event) { return r.event < event; });
    const std::uint32_t end = track.first_event + track.event_count;
    for (std::uint32_t i = track.first_event; i < end; ++i) {
      const drawing_remark* mine = nullptr;
      if (remark != layout_.remarks.end() && remark->event == i) mine = &*remark++;
      if (nested)
        write_slice(i, mine);
      else
        write_async(i, index);
    }
  }

 private:
  void write_slice(std::uint32_t index, const drawing_remark* remark) {
    const trace_event& e = trace_.events()[index];
    const event_detail& d = trace_.detail(e);
    const prepared_scope& texts = texts_.scope(e, d, where_);
    char* at = texts.put_head(put(list_.begin(texts.room()), "{\"ph\":\"X"));
    at = write_time_us(put(at, ",\"ts\":"), window_.ts(e.begin_ns - (remark != nullptr && remark->moved ? 1 : 0)));
    at = write_time_us(put(at, ",\"dur\":"), e.duration_ns());
    at = put_ids(at, index);
    at = put_rarer_args(at, e, d, texts, remark);
    at = put_user_args(texts.put_source(at), d, texts);
    out_.advance(put(at, "}}"));
  }

  void write_async(std::uint32_t index, std::uint32_t track) {
    const trace_event& e = trace_.events()[index];
    const event_detail& d = trace_.detail(e);
    const prepared_scope& texts = texts_.scope(e, d, where_);
    const std::int64_t id = unique_id(ids_.pid_of_track(track), ++async_ids_);
    const auto begin = [&](std::string_view phase, std::int64_t time_ns) {
      char* at = texts.put_head(put(list_.begin(texts.room()), phase));
      at = write_integer(put(at, ",\"id\":"), id);
      return write_time_us(put(at, ",\"ts\":"), window_.ts(time_ns));
    };
    char* at = put_ids(begin("{\"ph\":\"b", e.begin_ns), index);
    at = put_rarer_args(at, e, d, texts, nullptr);
    at = put_user_args(texts.put_source(at), d, texts);
    out_.advance(put(at, "}}"));
    out_.advance(put(begin("{\"ph\":\"e", e.end_ns), "}"));
  }

  // All that comes before the source. In and out: room for the end of an event without arguments of the user.
  [[nodiscard]] char* put_rarer_args(char* at, const trace_event& e, const event_detail& d, const prepared_scope& texts,
                                     const drawing_remark* remark) {
    const std::uint32_t given =
        d.input_dims & d.input_strides & d.input_types & d.concrete_inputs & d.stack & d.native_stack;
    const bool any = d.sequence_number >= 0 || given != npos || remark != nullptr ||
                     (e.flags & (trace_event::unfinished | trace_event::other_thread | trace_event::out_of_order |
                                 trace_event::async)) != 0;
    return any ? put_rarer_args_slowly(at, e, d, texts, remark) : at;
  }
  char* put_rarer_args_slowly(char* at, const trace_event& e, const event_detail& d, const prepared_scope& texts,
                              const drawing_remark* remark) {
    if (d.sequence_number >= 0) {
      at = write_integer(put(at, ",\"Sequence number\":"), d.sequence_number);
      const std::uint32_t process = trace_.tracks()[e.track].process;
      if (d.forward_thread != npos)
        at = write_integer(put(at, ",\"Fwd thread id\":"), ids_.shown_thread(process, d.forward_thread));
    }
    if (e.has(trace_event::unfinished)) at = put(at, ",\"finished\":false");
    if (e.has(trace_event::other_thread)) at = put(at, ",\"Other thread\":true");
    if (e.has(trace_event::out_of_order)) at = put(at, ",\"Out of order\":true");
    if (e.has(trace_event::async)) at = put(at, ",\"Async\":true");
    if (remark != nullptr) {
      at = write_integer(put(at, ",\"Parent Ev Idx\":"), window_.ev_idx(trace_, e.parent));
      if (remark->moved) at = put(at, ",\"Moved ns\":1");
    }
    out_.advance(at);
    put_json(",\"Input Dims\":", d.input_dims);
    put_json(",\"Input Strides\":", d.input_strides);
    put_json(",\"Input type\":", d.input_types);
    put_json(",\"Concrete Inputs\":", d.concrete_inputs);
    if (trace::has_call_stack(d)) put_stack(trace_.call_stack(d));
    return out_.room(json_event_list::event_room + texts.room());
  }
  void put_json(std::string_view key, std::uint32_t text) {
    if (text == npos) return;
    out_.append(key);
    out_.append(texts_.json(text));
  }
  void put_stack(std::string_view frames) {
    out_.append(",\"Call stack\":");
    out_.expect_comma(false);
    out_.string(frames.empty() ? std::string() : std::string(frames) + ';');
  }

  [[nodiscard]] char* put_user_args(char* at, const event_detail& d, const prepared_scope& texts) {
    const trace_argument* args = trace_.arguments().data() + d.first_arg;
    for (std::uint32_t i = 0; i < d.arg_count; ++i) {
      if (!texts.has_key(i)) continue;
      at = out_.room(at, texts.key_room(i) + value_room);
      at = put_value(texts.put_key(at, i), args[i]);
    }
    return at;
  }

  // For a value, and for the end of the event behind it.
  static constexpr std::size_t value_room = 512;
  static constexpr std::size_t max_short_text = 64;  // of 6 bytes each at most, when escaped
  static_assert(max_short_text * 6 + max_real_size <= value_room);

  [[nodiscard]] char* put_value(char* at, const trace_argument& arg) {
    switch (arg.kind) {
      case trace_argument::type::int64:
        return write_integer(at, arg.int64);
      case trace_argument::type::real:
        return write_real(at, arg.real);
      case trace_argument::type::boolean:
        return put(at, arg.boolean ? "true" : "false");
      case trace_argument::type::text:
        return put_text(at, trace_.text(arg.text));
      case trace_argument::type::uint64:
        out_.advance(at);
        out_.expect_comma(false);
        out_.unsigned_integer(arg.uint64);
        break;
      case trace_argument::type::json:
        out_.advance(at);
        out_.append(texts_.json(arg.text));
        break;
    }
    return out_.room(value_room);
  }
  [[nodiscard]] char* put_text(char* at, std::string_view text) {
    if (text.size() <= max_short_text) return write_json_string(at, text);
    out_.advance(at);
    out_.expect_comma(false);
    out_.string(text);
    return out_.room(value_room);
  }

  // The digits of one event's External id are those of the next one's Ev Idx.
  [[nodiscard]] char* put_ids(char* at, std::uint32_t index) noexcept {
    const std::uint64_t ev_idx = trace_.info().first_event_index + index;
    if (ev_idx >= 99999999) return put_long_ids(at, ev_idx);
    const auto number = static_cast<std::uint32_t>(ev_idx);
    const short_digits known = number == next_number_ ? next_digits_ : digits_below_1e8(number);
    next_number_ = number + 1;
    next_digits_ = digits_below_1e8(next_number_);
    at = write_short(put(at, ",\"args\":{\"External id\":"), next_digits_);
    return write_short(put(at, ",\"Record function id\":0,\"Ev Idx\":"), known);
  }
  [[nodiscard]] static char* put_long_ids(char* at, std::uint64_t ev_idx) noexcept {
    at = write_digits(put(at, ",\"args\":{\"External id\":"), ev_idx + 1);
    return write_digits(put(at, ",\"Record function id\":0,\"Ev Idx\":"), ev_idx);
  }

  const trace& trace_;
  const chrome_layout& layout_;
  const shown_ids& ids_;
  const shown_window& window_;
  chrome_trace_texts texts_;
  json_writer& out_;
  json_event_list& list_;
  std::string where_;  // `7,"tid":1` of the track at hand
  std::uint64_t async_ids_ = 0;
  std::uint32_t next_number_ = 0;
  short_digits next_digits_ = digits_below_1e8(0);
};

}  // namespace detail
STEPPROF_END_NAMESPACE
