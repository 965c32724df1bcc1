// Text as lines.
#pragma once

#include <string>
#include <vector>

namespace test {

// What stands between the newlines; behind the last one there is a line, too, maybe an empty one.
inline std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  return lines;
}

}  // namespace test
