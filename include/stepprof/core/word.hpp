// The words of a thread's log. Written by record/, replayed by trace/collector.hpp.
#pragma once

#include <cstdint>

#include <stepprof/config.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// A log is a row of records. Each begins with an 8-byte word { u32 low; u32 tag:8 | id:24 }. `low` is the low half of a
// time stamp, or the payload's size in bytes for records without a time. Sizes are multiples of 8.
enum class tag : std::uint8_t {
  none = 0,
  // A scope begins / ends. `id` is the name. 8 bytes each, so a plain scope is 16.
  begin_op = 1,  // begin tags are begin_op + scope_kind
  begin_user = 2,
  begin_backward = 3,
  end = 4,
  end_untimed = 5,  // the high half of the time changed and there was no room to say so: takes the stamp before it
  // 16 bytes: the word's time and all that follow have this high half. Payload: u64 ticks.
  epoch = 6,
  // 16 bytes: names given at run time that follow are of this session, or of the one before. Payload: u64 session.
  name_session = 7,
  // Manual scopes, which may end in any order. 16 bytes: payload u64 serial.
  begin_manual_op = 8,  // + scope_kind
  begin_manual_user = 9,
  begin_manual_backward = 10,
  end_manual = 11,
  // An RAII scope that was destroyed on another thread than it began on. Payload: u64 logical thread of the begin.
  foreign_end = 12,
  // Memory. `id` is the name of the pool, 0: the default one. Payload: u64 address, u64 bytes / u64 address / u64
  // address, u64 bytes. What the profiler itself allocates and frees has tags of its own.
  alloc = 16,
  free = 17,
  free_range = 18,
  own_alloc = 19,
  // Marks. `id` is the name; step payload: i64 number of the step that begins; counter payload: double.
  step = 20,
  instant = 21,
  counter = 22,
  own_free = 23,
  // Memory of a device: the same payloads, and behind them u64 device type | index << 32.
  device_alloc = 24,
  device_free = 25,
  device_free_range = 26,
  // Facts about a scope. No time; `low` is the payload's size. For the innermost open scope, unless a scope id is
  // given.
  sequence = 32,  // i64
  link = 33,      // u64 logical thread, i64 sequence number
  argument = 34,  // `id` is the key; u32 scope id or 0, u32 type, then 8 bytes of value or u64 size and text
  inputs = 35,    // see record/inputs.hpp
  detach = 36,    // u64 serial: this manual scope is an asynchronous one, in which nothing nests
  stack = 37,     // `id` is the stack, a name of core/stack_capture.hpp; no payload
};

struct word {
  std::uint32_t low;
  std::uint32_t what;
};
static_assert(sizeof(word) == 8, "two words make a scope");

inline constexpr std::uint32_t id_mask = 0xffffffu;

[[nodiscard]] constexpr std::uint32_t make_what(tag t, std::uint32_t id) noexcept {
  return (static_cast<std::uint32_t>(t) << 24) | (id & id_mask);
}
// The same of an id that is known to have no other bits.
[[nodiscard]] constexpr std::uint32_t what_of(tag t, std::uint32_t id) noexcept {
  return (static_cast<std::uint32_t>(t) << 24) + id;
}
[[nodiscard]] constexpr tag tag_of(word w) noexcept {
  return static_cast<tag>(w.what >> 24);
}
[[nodiscard]] constexpr std::uint32_t id_of(word w) noexcept {
  return w.what & id_mask;
}

// The size of a whole record in bytes, from its first word; 0 for a word that no writer makes.
[[nodiscard]] constexpr std::uint32_t record_size(word w) noexcept {
  switch (tag_of(w)) {
    case tag::begin_op:
    case tag::begin_user:
    case tag::begin_backward:
    case tag::end:
    case tag::end_untimed:
    case tag::instant:
      return 8;
    case tag::epoch:
    case tag::name_session:
    case tag::begin_manual_op:
    case tag::begin_manual_user:
    case tag::begin_manual_backward:
    case tag::end_manual:
    case tag::foreign_end:
    case tag::free:
    case tag::own_free:
    case tag::step:
    case tag::counter:
      return 16;
    case tag::alloc:
    case tag::own_alloc:
    case tag::free_range:
    case tag::device_free:
      return 24;
    case tag::device_alloc:
    case tag::device_free_range:
      return 32;
    case tag::sequence:
    case tag::link:
    case tag::argument:
    case tag::inputs:
    case tag::detach:
    case tag::stack:
      return w.low > 65536 ? 0 : 8 + ((w.low + 7) & ~7u);
    case tag::none:
      break;
  }
  return 0;
}

// What report_alloc() and the functions beside it write.
[[nodiscard]] constexpr bool is_memory(tag t) noexcept {
  return (t >= tag::alloc && t <= tag::own_alloc) || (t >= tag::own_free && t <= tag::device_free_range);
}

[[nodiscard]] constexpr bool is_begin(tag t) noexcept {
  return (t >= tag::begin_op && t <= tag::begin_backward) ||
         (t >= tag::begin_manual_op && t <= tag::begin_manual_backward);
}

// What is counted as an argument where it is lost: facts of a scope, and marks.
[[nodiscard]] constexpr bool is_argument(tag t) noexcept {
  return t == tag::instant || t == tag::counter || (t >= tag::sequence && t <= tag::inputs);
}

// Types of an argument's value.
enum class argument_type : std::uint32_t { int64 = 0, uint64 = 1, real = 2, boolean = 3, text = 4 };

}  // namespace detail

STEPPROF_END_NAMESPACE
