// How much memory this process has in RAM, and whether that stays as it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace test {

// The number behind `field` in a file of /proc/self; 0 where the system does not say.
inline std::uint64_t number_in(const char* file, const std::string& field) {
  std::ifstream in(std::string("/proc/self/") + file);
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, field.size(), field) == 0) return std::strtoull(line.c_str() + field.size(), nullptr, 10);
  return 0;
}
// Of smaps_rollup, which counts pages: the counts in status and statm may be behind by a few hundred KiB per thread.
inline std::uint64_t resident_bytes() {
  return number_in("smaps_rollup", "Rss:") * 1024;
}
inline bool can_measure_memory() {
  return resident_bytes() != 0;
}
// The most that was in RAM since forget_peak().
inline std::uint64_t peak_bytes() {
  return number_in("status", "VmHWM:") * 1024;
}
inline void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << "5\n";
}
inline std::uint64_t thread_count() {
  return number_in("status", "Threads:");
}
inline std::size_t open_file_count() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// Memory measured again and again in the course of something that may go on for ever.
class resident_course {
 public:
  resident_course() { bytes_.reserve(1024); }  // none of it while it measures
  void measure() { bytes_.push_back(resident_bytes()); }

  // The last quarter adds less than 1 % of the first measurement, and has less than that more than the first quarter.
  [[nodiscard]] bool is_flat() const {
    if (bytes_.size() < 8) return false;
    const std::size_t quarter = bytes_.size() / 4;
    const auto last = bytes_.end() - static_cast<std::ptrdiff_t>(quarter);
    const std::uint64_t allowed = bytes_.front() / 100;
    const std::uint64_t before =
        *std::max_element(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(quarter));
    return bytes_.back() < *last + allowed && *std::max_element(last, bytes_.end()) < before + allowed;
  }
  // For messages: "12000, 12004 ... KiB".
  [[nodiscard]] std::string figures() const {
    std::string text;
    for (const std::uint64_t bytes : bytes_) text += (text.empty() ? "" : ", ") + std::to_string(bytes / 1024);
    return text + " KiB";
  }
  [[nodiscard]] const std::vector<std::uint64_t>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::uint64_t> bytes_;
};

}  // namespace test
