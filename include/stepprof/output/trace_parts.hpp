// A recording in parts of which each makes a file that is not too large.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <stepprof/analysis/trace_selection.hpp>
#include <stepprof/config.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/gzip.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// Only counts.
class counting_sink final : public byte_sink {
 private:
  std::error_code take(const char*, std::size_t) override { return {}; }
};

// Times at which to cut the recording so that no part is larger than `max_bytes` as `size_of` measures it. A part in
// which everything begins at one time cannot be cut again.
class part_planner {
 public:
  using measure = std::function<std::uint64_t(const trace_selection&)>;

  part_planner(const trace& recording, const trace_selection& selection, std::uint64_t max_bytes, measure size_of)
      : selection_(selection), max_bytes_(max_bytes), size_of_(std::move(size_of)) {
    const auto add = [this](std::int64_t time_ns) {
      if (time_ns >= selection_.begin_ns && time_ns < selection_.end_ns) begins_ns_.push_back(time_ns);
    };
    for (const trace_event& e : recording.events()) add(e.begin_ns);
    for (const memory_event& m : recording.memory()) add(m.time_ns);
    for (const trace_mark& m : recording.marks()) add(m.time_ns);
    std::sort(begins_ns_.begin(), begins_ns_.end());
  }

  std::vector<trace_selection> run(std::uint64_t bytes_of_whole) {
    // As many pieces as the whole suggests, then halves of those that turn out too large.
    const std::size_t count = begins_ns_.size();
    const std::size_t pieces =
        (std::max)(std::size_t{1}, (std::min)(count, saturating_cast<std::size_t>(bytes_of_whole / max_bytes_ + 1)));
    for (std::size_t i = 0; i < pieces; ++i) plan(count * i / pieces, count * (i + 1) / pieces);
    return std::move(parts_);
  }

 private:
  // Of what begins at [first, last) of begins_ns_.
  void plan(std::size_t first, std::size_t last) {
    first = first_of_its_time(first);
    last = first_of_its_time(last);
    if (first >= last) return;
    trace_selection part = selection_;
    if (first != 0) part.begin_ns = begins_ns_[first];
    if (last != begins_ns_.size()) part.end_ns = begins_ns_[last];
    const bool is_one_time = begins_ns_[first] == begins_ns_[last - 1];
    if (is_one_time || size_of_(part) <= max_bytes_) {
      parts_.push_back(part);
      return;
    }
    // Not at `first`, which would leave one half empty and the other as it was.
    std::size_t middle = first_of_its_time(first + (last - first) / 2);
    if (middle == first) middle = first_of_next_time(first);
    plan(first, middle);
    plan(middle, last);
  }
  [[nodiscard]] std::size_t first_of_its_time(std::size_t i) const {
    if (i == begins_ns_.size()) return i;
    return static_cast<std::size_t>(std::lower_bound(begins_ns_.begin(), begins_ns_.end(), begins_ns_[i]) -
                                    begins_ns_.begin());
  }
  [[nodiscard]] std::size_t first_of_next_time(std::size_t i) const {
    return static_cast<std::size_t>(std::upper_bound(begins_ns_.begin(), begins_ns_.end(), begins_ns_[i]) -
                                    begins_ns_.begin());
  }

  trace_selection selection_;
  std::uint64_t max_bytes_;
  measure size_of_;
  std::vector<std::int64_t> begins_ns_;
  std::vector<trace_selection> parts_;
};

// "folder/trace.json.gz", 3 of 12 -> "folder/trace.part03.json.gz".
inline std::filesystem::path part_path(const std::filesystem::path& path, std::size_t number, std::size_t count) {
  const bool is_gzip = is_gzip_name(path.string());
  const std::filesystem::path name = is_gzip ? path.filename().stem() : path.filename();
  std::string digits = std::to_string(number);
  const std::size_t width = std::to_string(count).size();
  digits.insert(0, width - digits.size(), '0');
  std::filesystem::path result = path.parent_path() / name.stem();
  result += ".part" + digits;
  result += name.extension();
  if (is_gzip) result += path.extension();
  return result;
}

}  // namespace detail
STEPPROF_END_NAMESPACE
