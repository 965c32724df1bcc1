// Tables as they are printed, by torch and by us, in cells.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <support/temp_folder.hpp>

#include "written_trace.hpp"

namespace test {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

// The rows of the first table below a line that starts with `title`, each split where two blanks or more stand.
inline std::vector<std::vector<std::string>> table_below(const std::string& text, const std::string& title) {
  const std::vector<std::string> lines = lines_of(text);
  std::size_t at = 0;
  while (at < lines.size() && lines[at].compare(0, title.size(), title) != 0) ++at;
  std::vector<std::vector<std::string>> rows;
  int separators = 0;
  for (; at < lines.size() && separators < 3; ++at) {
    if (lines[at].compare(0, 2, "--") == 0) {
      ++separators;
    } else if (separators == 2) {
      std::vector<std::string> cells;
      for (std::size_t i = 0; i < lines[at].size();) {
        const std::size_t begin = lines[at].find_first_not_of(' ', i);
        if (begin == std::string::npos) break;
        i = (std::min)(lines[at].find("  ", begin), lines[at].size());
        cells.push_back(lines[at].substr(begin, i - begin));
      }
      rows.push_back(cells);
    }
  }
  return rows;
}

inline std::string bytes_text(std::int64_t bytes) {
  const double value = static_cast<double>(bytes), size = std::abs(value);
  std::ostringstream out;
  out.precision(2);
  out << std::fixed;
  if (size >= 1048576)
    out << value / 1048576 << " MB";
  else if (size >= 1024)
    out << value / 1024 << " KB";
  else
    out << bytes << " B";
  return out.str();
}

// Names longer than the column are cut: "autograd::engine::evaluate_function: NllLossBackward..."
inline const totals& find_row(const std::map<std::string, totals>& rows, const std::string& printed) {
  if (rows.count(printed) != 0) return rows.at(printed);
  if (printed.size() <= 3) throw std::runtime_error("no row for " + printed);
  const std::string start = printed.substr(0, printed.size() - 3);
  for (const auto& [name, row] : rows)
    if (name.compare(0, start.size(), start) == 0) return row;
  throw std::runtime_error("no row for " + printed);
}

}  // namespace test
