// Text in columns, for a terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stepprof/output/display_text.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Columns and cells; every line it prints is equally wide.
class text_grid {
 public:
  void add_column(std::string header, std::size_t width, bool is_left_aligned = false) {
    const std::size_t at_least = display_width(header);
    columns_.push_back({std::move(header), (std::max)(width, at_least), is_left_aligned});
  }
  void add_line(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    for (std::size_t i = 0; i < cells.size(); ++i)
      columns_[i].width = (std::max)(columns_[i].width, display_width(cells[i]));
    lines_.push_back(std::move(cells));
  }
  [[nodiscard]] std::size_t column_count() const noexcept { return columns_.size(); }
  [[nodiscard]] std::size_t width(std::size_t index) const noexcept { return columns_[index].width; }
  // Without the two spaces at the end.
  [[nodiscard]] std::size_t line_width() const noexcept {
    std::size_t width = 0;
    for (const column& c : columns_) width += c.width + 2;
    return width - 2;
  }
  void print(std::string& out) const {
    std::vector<std::string> headers, dashes;
    for (const column& c : columns_) {
      headers.push_back(c.header);
      dashes.emplace_back(c.width, '-');
    }
    print_line(out, dashes);
    print_line(out, headers);
    print_line(out, dashes);
    for (const std::vector<std::string>& cells : lines_) print_line(out, cells);
    print_line(out, dashes);
  }

 private:
  struct column {
    std::string header;
    std::size_t width;
    bool is_left_aligned;
  };
  void print_line(std::string& out, const std::vector<std::string>& cells) const {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::size_t padding = columns_[i].width - display_width(cells[i]);
      if (!columns_[i].is_left_aligned) out.append(padding, ' ');
      out += cells[i];
      out.append(columns_[i].is_left_aligned ? padding + 2 : 2, ' ');
    }
    out += '\n';
  }
  std::vector<column> columns_;
  std::vector<std::vector<std::string>> lines_;
};

// A text cut to `columns` with dots at its end, or, for paths, at its beginning.
inline std::string cut_end(const std::string& text, std::size_t columns, std::string_view keep = {}) {
  if (display_width(text) + display_width(keep) <= columns) return text + std::string(keep);
  const std::size_t dots = display_width(keep) + 3;
  return std::string(first_columns(text, columns > dots ? columns - dots : 0)) + "..." + std::string(keep);
}
inline std::string cut_begin(const std::string& text, std::size_t columns) {
  const std::size_t width = display_width(text);
  if (width <= columns) return text;
  return "..." + std::string(without_first_columns(text, width - columns + 3));
}

}  // namespace detail

STEPPROF_END_NAMESPACE
