// The native stack of an event, frame by frame.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Equal for events whose stacks are known to be equal.
inline std::uint64_t call_stack_key(const event_detail& d) noexcept {
  return std::uint64_t{d.native_stack} << 32 | d.stack;
}

// Calls `use` with each frame of a text; empty ones are none.
template <class Use>
void for_each_frame(std::string_view text, Use use) {
  while (!text.empty()) {
    const std::size_t end = (std::min)(text.find(';'), text.size());
    if (end != 0) use(text.substr(0, end));
    text.remove_prefix((std::min)(end + 1, text.size()));
  }
}

inline std::vector<std::string> split_frames(std::string_view text, std::size_t limit) {
  std::vector<std::string> frames;
  for_each_frame(text, [&](std::string_view frame) {
    if (frames.size() < limit) frames.emplace_back(frame);
  });
  return frames;
}

// A frame in its parts: `file(line): function`, `function [module+0xoffset]` or anything else, which is a function.
struct frame_parts {
  std::string_view function;
  std::string_view file;
  std::uint32_t line = 0;
};
inline frame_parts parts_of_frame(std::string_view frame) {
  for (std::size_t at = 0; (at = frame.find("): ", at)) != std::string_view::npos; ++at) {
    std::size_t first = at;
    while (first > 0 && frame[first - 1] >= '0' && frame[first - 1] <= '9') --first;
    if (first == at || at - first > 9 || first == 0 || frame[first - 1] != '(') continue;
    frame_parts parts{frame.substr(at + 3), frame.substr(0, first - 1), 0};
    for (const char digit : frame.substr(first, at - first))
      parts.line = parts.line * 10 + static_cast<std::uint32_t>(digit - '0');
    return parts;
  }
  const std::size_t module = frame.rfind(" [");
  const bool has_module = module != std::string_view::npos && frame.find("+0x", module) != std::string_view::npos;
  return {has_module ? frame.substr(0, module) : frame, {}, 0};
}

}  // namespace detail

/// The frames of an event's native stack as texts, innermost first, at most `limit`; see trace::call_stack(). Any
/// thread.
[[nodiscard]] inline std::vector<std::string> call_stack(const trace& recording, const trace_event& event,
                                                         std::size_t limit = npos) {
  return detail::split_frames(recording.call_stack(recording.detail(event)), limit);
}

STEPPROF_END_NAMESPACE
