// Folded stacks: the tree of scopes as text for flame graphs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <stepprof/analysis/call_stack.hpp>
#include <stepprof/analysis/event_average.hpp>
#include <stepprof/analysis/event_tree.hpp>
#include <stepprof/config.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/json_number.hpp>
#include <stepprof/output/output_file.hpp>
#include <stepprof/output/utf8.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

/// The stacks of scopes with their weights, one line each: the names from the outermost to the innermost joined by ';',
/// a space, a positive integer. Equal stacks are one line, of all threads together; lines are sorted by stack.
///
/// `metric` is "self_cpu_time_total" (ns; the sum of all lines is the sum of all self times), "self_allocated" (bytes
/// that were allocated while the scope was the innermost one of its thread) or "calls" (how often it began). Stacks of
/// weight 0 have no line. In names, ';' becomes ':', control characters become spaces, broken UTF-8 becomes U+FFFD; an
/// empty name is "(no name)".
///
/// With `stack_source::native` a line is the functions from which the scope was called (with_stack), without their
/// files and lines, and then the scope's name. Scopes without a native stack, such as steps, stand alone.
///
/// errc::invalid_argument for another metric, for "self_allocated" when scopes were recorded without memory, and for
/// native stacks when they were recorded without; errc::no_results when there is no line. Then nothing is returned. Any
/// thread.
[[nodiscard]] std::string folded_stacks(const trace& recording, std::string_view metric, stack_source source,
                                        std::error_code& ec);
[[nodiscard]] inline std::string folded_stacks(const trace& recording, std::string_view metric, std::error_code& ec) {
  return folded_stacks(recording, metric, stack_source::scopes, ec);
}

/// Writes folded_stacks() to a file, which appears under its name only when it is complete.
/// Throws stepprof::error as said there, and when the name ends in .gz; std::system_error when the file cannot be
/// written.
void export_stacks(const trace& recording, const std::filesystem::path& path,
                   std::string_view metric = "self_cpu_time_total", stack_source source = stack_source::scopes);
/// The same, reporting through `ec`.
void export_stacks(const trace& recording, const std::filesystem::path& path, std::string_view metric,
                   stack_source source, std::error_code& ec);
inline void export_stacks(const trace& recording, const std::filesystem::path& path, std::string_view metric,
                          std::error_code& ec) {
  export_stacks(recording, path, metric, stack_source::scopes, ec);
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

inline std::string folded_frame(std::string_view name) {
  std::string frame;
  const char* at = name.data();
  const char* const end = at + name.size();
  while (at != end) {
    const utf8_sequence sequence = utf8_sequence_at(at, end);
    const auto c = static_cast<unsigned char>(*at);
    if (!sequence.valid)
      frame += "\xef\xbf\xbd";
    else if (c < 0x20 || c == 0x7f)
      frame += ' ';
    else if (c == ';')
      frame += ':';
    else
      frame.append(at, sequence.size);
    at += sequence.size;
  }
  return frame.empty() ? "(no name)" : frame;
}

// The scopes of all threads as one tree, in which children of one name are one node.
class stack_tree {
 public:
  // The node of a child of `parent` (0: the root).
  std::uint32_t child(std::uint32_t parent, const std::string& frame) {
    const auto next = static_cast<std::uint32_t>(nodes_.size());
    const auto [at, is_new] = nodes_[parent].children.emplace(frame, next);
    const std::uint32_t result = at->second;
    if (is_new) nodes_.emplace_back();
    return result;
  }
  void add(std::uint32_t node, std::uint64_t weight) {
    nodes_[node].weight = saturating_add(nodes_[node].weight, weight);
  }

  // Without recursion: scopes may be nested more deeply than the stack of a thread allows.
  [[nodiscard]] std::string text() const {
    struct level {
      std::map<std::string, std::uint32_t>::const_iterator at, end;
      std::size_t prefix;  // length of the line before this level's frame
    };
    std::string lines, line;
    std::vector<level> levels{{nodes_[0].children.begin(), nodes_[0].children.end(), 0}};
    while (!levels.empty()) {
      level& top = levels.back();
      line.resize(top.prefix);
      if (top.at == top.end) {
        levels.pop_back();
        continue;
      }
      const stack& found = nodes_[top.at->second];
      line += (line.empty() ? "" : ";") + top.at->first;
      if (found.weight != 0) append_line(lines, line, found.weight);
      ++top.at;
      levels.push_back({found.children.begin(), found.children.end(), line.size()});
    }
    return lines;
  }

 private:
  struct stack {
    std::map<std::string, std::uint32_t> children;
    std::uint64_t weight = 0;
  };
  static void append_line(std::string& lines, const std::string& line, std::uint64_t weight) {
    char digits[max_integer_size];
    lines += line;
    lines += ' ';
    lines.append(digits, static_cast<std::size_t>(write_digits(digits, weight) - digits));
    lines += '\n';
  }
  std::vector<stack> nodes_{1};
};

inline std::error_code stacks_fault(const trace& recording, std::string_view metric, stack_source source) {
  if (metric != "self_cpu_time_total" && metric != "self_allocated" && metric != "calls")
    return make_error(errc::invalid_argument, "export_stacks: metric is '" + std::string(metric) +
                                                  "', must be self_cpu_time_total, self_allocated or calls");
  if (recording.events().empty()) return {};  // then it is not an option that is missing
  if (metric == "self_allocated" && !recording.info().has_memory)
    return make_error(errc::invalid_argument,
                      "export_stacks: metric is self_allocated, which needs profile_memory to be on");
  if (source == stack_source::native && !recording.info().has_stacks)
    return make_error(errc::invalid_argument, "export_stacks: native stacks need with_stack to be on");
  return {};
}

// What an event adds to its stack.
inline std::uint64_t stack_weight(const event_tree& tree, std::uint32_t event, std::string_view metric) {
  if (metric == "calls") return 1;
  const std::int64_t weight =
      metric == "self_allocated" ? tree.self_memory(event).allocated_bytes : tree.self_ns(event);
  return weight > 0 ? static_cast<std::uint64_t>(weight) : 0;
}

// Where events go in a tree of stacks.
class stack_places {
 public:
  stack_places(const trace& recording, stack_source source, stack_tree& stacks)
      : trace_(recording), source_(source), stacks_(stacks), frames_(recording.text_count()) {
    nodes_.resize(recording.events().size());
  }
  // In the order of the events.
  std::uint32_t node_of(std::uint32_t event) {
    const trace_event& e = trace_.events()[event];
    std::string& frame = frames_[e.name];
    if (frame.empty()) frame = folded_frame(trace_.name(e));
    const std::uint32_t above = source_ == stack_source::native ? native_node(trace_.detail(e))
                                : e.parent == npos              ? 0
                                                                : nodes_[e.parent];
    return nodes_[event] = stacks_.child(above, frame);
  }

 private:
  std::uint32_t native_node(const event_detail& d) {
    const auto [found, is_new] = native_.try_emplace(call_stack_key(d));
    if (!is_new) return found->second;
    const std::vector<std::string> frames = split_frames(trace_.call_stack(d), npos);
    std::uint32_t node = 0;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
      node = stacks_.child(node, folded_frame(parts_of_frame(*frame).function));
    return found->second = node;
  }

  const trace& trace_;
  stack_source source_;
  stack_tree& stacks_;
  std::vector<std::string> frames_;  // by name
  std::vector<std::uint32_t> nodes_;
  wide_key_map<std::uint32_t> native_;
};

}  // namespace detail

inline std::string folded_stacks(const trace& recording, std::string_view metric, stack_source source,
                                 std::error_code& ec) {
  const detail::own_work own;
  ec = detail::stacks_fault(recording, metric, source);
  if (ec) return {};
  const event_tree tree(recording);
  detail::stack_tree stacks;
  detail::stack_places places(recording, source, stacks);
  for (std::uint32_t i = 0; i < recording.events().size(); ++i) {
    const std::uint32_t node = places.node_of(i);
    const std::uint64_t weight = detail::stack_weight(tree, i, metric);
    if (weight != 0) stacks.add(node, weight);
  }
  std::string text = stacks.text();
  if (text.empty())
    ec = detail::make_error(errc::no_results,
                            "export_stacks: no scope has any " + std::string(metric) + "; was anything recorded?");
  return text;
}

namespace detail {

// Returns what failed for the message of the throwing form.
inline std::string export_stacks_to(const trace& recording, const std::filesystem::path& path, std::string_view metric,
                                    stack_source source, std::error_code& ec) {
  const own_work own;
  const std::string text = folded_stacks(recording, metric, source, ec);
  if (ec) return {};
  return write_file(path, text, ec);
}

}  // namespace detail

inline void export_stacks(const trace& recording, const std::filesystem::path& path, std::string_view metric,
                          stack_source source, std::error_code& ec) {
  detail::export_stacks_to(recording, path, metric, source, ec);
}

inline void export_stacks(const trace& recording, const std::filesystem::path& path, std::string_view metric,
                          stack_source source) {
  const detail::own_work own;
  std::error_code ec;
  const std::string doing = detail::export_stacks_to(recording, path, metric, source, ec);
  detail::throw_if(ec, doing.c_str());
}

STEPPROF_END_NAMESPACE
