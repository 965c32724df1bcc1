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

STEPPROF_BEGIN_NAMESPACE

/// The stacks of scopes with their weights, one line each: the names from the outermost to the innermost joined by ';',
/// a space, a positive integer. Equal stacks are one line, of all threads together; lines are sorted by stack.
///
/// `metric` is "self_cpu_time_total" (ns; the sum of all lines is the sum of all self times) or "self_allocated" (bytes
/// that were allocated while the scope was the innermost one of its thread). Stacks of weight 0 have no line. In names,
/// ';' becomes ':', control characters become spaces, broken UTF-8 becomes U+FFFD; an empty name is "(no name)".
///
/// errc::invalid_argument for another metric, or for "self_allocated" when scopes were recorded without memory;
/// errc::no_results when there is no line. Then nothing is returned. Any thread.
[[nodiscard]] std::string folded_stacks(const trace& recording, std::string_view metric, std::error_code& ec);

/// Writes folded_stacks() to a file, which appears under its name only when it is complete.
/// Throws stepprof::error as said there, and when the name ends in .gz; std::system_error when the file cannot be
/// written.
void export_stacks(const trace& recording, const std::filesystem::path& path,
                   std::string_view metric = "self_cpu_time_total");
/// The same, reporting through `ec`.
void export_stacks(const trace& recording, const std::filesystem::path& path, std::string_view metric,
                   std::error_code& ec);

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

inline std::error_code stacks_fault(const trace& recording, std::string_view metric) {
  if (metric != "self_cpu_time_total" && metric != "self_allocated")
    return make_error(errc::invalid_argument, "export_stacks: metric is '" + std::string(metric) +
                                                  "', must be self_cpu_time_total or self_allocated");
  // In a recording without scopes it is not the option that is missing.
  if (metric == "self_allocated" && !recording.info().has_memory && !recording.events().empty())
    return make_error(errc::invalid_argument,
                      "export_stacks: metric is self_allocated, which needs profile_memory to be on");
  return {};
}

}  // namespace detail

inline std::string folded_stacks(const trace& recording, std::string_view metric, std::error_code& ec) {
  const detail::own_work own;
  ec = detail::stacks_fault(recording, metric);
  if (ec) return {};
  const event_tree tree(recording);
  const bool of_time = metric == "self_cpu_time_total";
  const std::vector<trace_event>& events = recording.events();
  detail::stack_tree stacks;
  std::vector<std::string> frames(recording.text_count());
  std::vector<std::uint32_t> nodes(events.size());
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const trace_event& e = events[i];
    std::string& frame = frames[e.name];
    if (frame.empty()) frame = detail::folded_frame(recording.name(e));
    nodes[i] = stacks.child(e.parent == npos ? 0 : nodes[e.parent], frame);
    const std::int64_t weight = of_time ? tree.self_ns(i) : tree.self_memory(i).allocated_bytes;
    if (weight > 0) stacks.add(nodes[i], static_cast<std::uint64_t>(weight));
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
                                    std::error_code& ec) {
  const own_work own;
  const std::string text = folded_stacks(recording, metric, ec);
  if (ec) return {};
  output_file file(path);
  file.write(text.data(), text.size());
  ec = file.commit();
  return file.doing();
}

}  // namespace detail

inline void export_stacks(const trace& recording, const std::filesystem::path& path, std::string_view metric,
                          std::error_code& ec) {
  detail::export_stacks_to(recording, path, metric, ec);
}

inline void export_stacks(const trace& recording, const std::filesystem::path& path, std::string_view metric) {
  const detail::own_work own;
  std::error_code ec;
  const std::string doing = detail::export_stacks_to(recording, path, metric, ec);
  detail::throw_if(ec, doing.c_str());
}

STEPPROF_END_NAMESPACE
