// Measurements side by side: a table per label, a row per sub-label, a column per description.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <stepprof/config.hpp>
#include <stepprof/output/display_text.hpp>
#include <stepprof/timer/measurement.hpp>
#include <stepprof/timer/time_text.hpp>
#include <stepprof/trace/stable_sort.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Shows the medians of many measurements as a table. Measurements of equal descriptions are merged. Rows are sorted by
/// number of threads and `env`, and otherwise stand in the order in which they came; all times of a table have the unit
/// that suits its smallest one.
class compare {
 public:
  explicit compare(std::vector<measurement> results) : results_(std::move(results)) {}

  void extend_results(const std::vector<measurement>& results) {
    results_.insert(results_.end(), results.begin(), results.end());
  }

  /// Shows the digits that mean something (measurement::significant_figures) rather than one decimal.
  void trim_significant_figures() noexcept { trim_ = true; }
  /// Adds the interquartile range in percent of the median to cells that have warnings, e.g. ` (! 41%)`.
  void highlight_warnings() noexcept { highlight_ = true; }
  /// Colours for a terminal: within 1 % of the best bright green, within 10 % blue, from 2 x on light red, from 5 x on
  /// red. The best of the column among rows of as many threads, or of the row.
  void colorize(bool rowwise = false) noexcept { colors_ = rowwise ? colors::by_row : colors::by_column; }

  /// The tables, an empty line between them; nothing when there are no results.
  [[nodiscard]] std::string to_string() const;
  /// Writes to_string() to stdout.
  void print() const { std::fputs(to_string().c_str(), stdout); }

 private:
  enum class colors : unsigned char { none, by_column, by_row };
  class table;

  std::vector<measurement> results_;
  bool trim_ = false;
  bool highlight_ = false;
  colors colors_ = colors::none;
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

// How much of `pad` stands at the left of what is centred in `width`: as Python's str.center has it.
inline std::size_t left_of(std::size_t pad, std::size_t width) noexcept {
  return pad / 2 + (pad & width & 1);
}

inline std::string centred(const std::string& text, std::size_t width) {
  const std::size_t used = display_width(text);
  const std::size_t pad = used >= width ? 0 : width - used, left = left_of(pad, width);
  return std::string(left, ' ') + text + std::string(pad - left, ' ');
}

inline std::string at_left(const std::string& text, std::size_t width) {
  const std::size_t used = display_width(text);
  return used >= width ? text : text + std::string(width - used, ' ');
}

// A line of dashes with a text in its middle.
inline std::string titled_line(const std::string& title, std::size_t width) {
  const std::string text = title.empty() ? "" : " " + title + " ";
  const std::size_t used = display_width(text);
  const std::size_t pad = used + 2 >= width ? 0 : width - 2 - used, left = left_of(pad, width);
  return "[" + std::string(left, '-') + text + std::string(pad - left, '-') + "]";
}

inline std::string without_trailing_blanks(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

// Digits before the decimal point, at least 1 for what is not below 1; 0 and less for smaller values.
inline int leading_digits(double value) {
  return value > 0 ? static_cast<int>(std::floor(std::log10(value))) + 1 : 1;
}

inline double rounded_to(double value, int digits) {
  const double scale = std::pow(10, leading_digits(value) - digits);
  return std::round(value / scale) * scale;
}

inline const char* color_of(double value, double best) {
  if (value <= best * 1.01) return "\033[92m\033[1m";
  if (value <= best * 1.1) return "\033[34m\033[1m";
  if (value >= best * 5) return "\033[31m\033[1m";
  if (value >= best * 2) return "\033[2m\033[91m";
  return "";
}

}  // namespace detail

class compare::table {
 public:
  // `results` have one label and are merged.
  table(const compare& how, std::vector<measurement> results) : how_(how), results_(std::move(results)) {
    for (const measurement& m : results_) {
      place(rows_, row_of(m));
      place(columns_, m.task.description);
    }
    detail::sort_stably(rows_.begin(), rows_.end(), [](const row_key& a, const row_key& b) {
      return std::tie(a.num_threads, a.env) < std::tie(b.num_threads, b.env);
    });
    cells_.assign(rows_.size(), std::vector<const measurement*>(columns_.size(), nullptr));
    for (const measurement& m : results_) cells_[place(rows_, row_of(m))][place(columns_, m.task.description)] = &m;
    unit_ = detail::unit_for(smallest([](std::size_t, std::size_t) { return true; }));
  }

  [[nodiscard]] std::string to_string() const {
    const std::vector<std::string> names = row_names();
    const std::size_t name_width = widest(names, 0);
    std::vector<std::vector<std::string>> texts;
    for (std::size_t column = 0; column < columns_.size(); ++column) texts.push_back(column_texts(column));

    std::string header(name_width, ' ');
    for (std::size_t column = 0; column < columns_.size(); ++column)
      header += separator + detail::centred(title_of(column), width_of(texts[column], column));
    const std::size_t width = detail::display_width(header);

    std::string out = detail::titled_line(detail::display_text(results_.front().task.label), width) + "\n";
    out += detail::without_trailing_blanks(header) + "\n";
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (row == 0 || rows_[row].num_threads != rows_[row - 1].num_threads) out += threads_line(row, width) + "\n";
      out += row_line(row, detail::at_left(names[row], name_width), texts) + "\n";
    }
    return out + footer();
  }

 private:
  struct row_key {
    std::int64_t num_threads;
    std::string env;
    std::string name;
    std::string stmt;
    bool operator==(const row_key& o) const {
      return num_threads == o.num_threads && env == o.env && name == o.name && stmt == o.stmt;
    }
  };
  static constexpr const char* separator = "  |  ";

  static row_key row_of(const measurement& m) {
    const task_description& t = m.task;
    const std::string& name = t.sub_label.empty() ? t.stmt : t.sub_label;
    return {t.num_threads, t.env, name.empty() ? "[unnamed]" : name, t.stmt};
  }

  template <class Key>
  static std::size_t place(std::vector<Key>& keys, const Key& key) {
    const auto found = std::find(keys.begin(), keys.end(), key);
    const auto at = static_cast<std::size_t>(found - keys.begin());
    if (found == keys.end()) keys.push_back(key);
    return at;
  }

  static std::size_t widest(const std::vector<std::string>& texts, std::size_t least) {
    for (const std::string& text : texts) least = (std::max)(least, detail::display_width(text));
    return least;
  }

  [[nodiscard]] std::string title_of(std::size_t column) const { return detail::display_text(columns_[column]); }
  [[nodiscard]] std::size_t width_of(const std::vector<std::string>& texts, std::size_t column) const {
    return widest(texts, detail::display_width(title_of(column)));
  }

  // The least median of the cells of which is_counted(row, column) is true.
  template <class IsCounted>
  [[nodiscard]] double smallest(const IsCounted& is_counted) const {
    double least = -1;
    for (std::size_t row = 0; row < rows_.size(); ++row)
      for (std::size_t column = 0; column < columns_.size(); ++column) {
        if (cells_[row][column] == nullptr || !is_counted(row, column)) continue;
        const double median = cells_[row][column]->median_ns();
        least = least < 0 ? median : (std::min)(least, median);
      }
    return least;
  }

  // The env stands once before its rows. A statement is added to names that would be the same twice.
  [[nodiscard]] std::vector<std::string> row_names() const {
    std::size_t env_width = 0;
    for (const row_key& row : rows_)
      if (row.env != rows_.front().env) env_width = 1;
    if (env_width > 0)
      for (const row_key& row : rows_) env_width = (std::max)(env_width, detail::shown_width(row.env));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const row_key& row = rows_[i];
      const bool is_first = i == 0 || row.env != rows_[i - 1].env || row.num_threads != rows_[i - 1].num_threads;
      const std::string env =
          env_width > 0 && is_first && !row.env.empty() ? "(" + detail::display_text(row.env) + ")" : "";
      names.push_back("  " + detail::at_left(env, env_width + 4) + detail::display_text(row.name) + distinction(row));
    }
    return names;
  }
  [[nodiscard]] std::string distinction(const row_key& row) const {
    const auto is_same = [&](const row_key& o) {
      return o.num_threads == row.num_threads && o.env == row.env && o.name == row.name;
    };
    const bool is_needed = std::count_if(rows_.begin(), rows_.end(), is_same) > 1 && !row.stmt.empty();
    return is_needed ? ": " + detail::display_text(row.stmt) : "";
  }

  // The cells of one column, all equally wide; empty ones, too.
  [[nodiscard]] std::vector<std::string> column_texts(std::size_t column) const {
    const int decimals = decimals_of(column);
    std::vector<std::string> numbers, warnings;
    for (const auto& row : cells_) {
      numbers.push_back(row[column] == nullptr ? "" : number_text(*row[column], decimals));
      warnings.push_back(row[column] == nullptr ? "" : warning_text(*row[column]));
    }
    const std::size_t number_width = widest(numbers, 0), warning_width = widest(warnings, 0);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = std::string(number_width - numbers[i].size(), ' ') + numbers[i] +
                   std::string(warning_width - warnings[i].size(), ' ') + warnings[i];
    return numbers;
  }

  [[nodiscard]] int decimals_of(std::size_t column) const {
    if (!how_.trim_) return 1;
    int decimals = 4;
    for (const auto& row : cells_)
      if (const measurement* const m = row[column])
        decimals = (std::min)(decimals, m->significant_figures() - detail::leading_digits(m->median_ns() / unit_.ns));
    return (std::max)(decimals, 0);
  }
  [[nodiscard]] std::string number_text(const measurement& m, int decimals) const {
    const double value = m.median_ns() / unit_.ns;
    const double shown = how_.trim_ && value > 0 ? detail::rounded_to(value, m.significant_figures()) : value;
    return fmt::format("{:.{}f}", shown, decimals);
  }
  [[nodiscard]] std::string warning_text(const measurement& m) const {
    if (!how_.highlight_ || m.meets_confidence()) return "";
    const double median = m.median_ns();
    return median > 0 ? fmt::format(" (! {:.0f}%)", m.iqr_ns() / median * 100) : " (! --%)";
  }

  [[nodiscard]] std::string threads_line(std::size_t row, std::size_t width) const {
    const std::string text = detail::counted(rows_[row].num_threads, "thread") + ": ";
    return text + std::string(text.size() < width ? width - text.size() : 0, '-');
  }

  [[nodiscard]] std::string row_line(std::size_t row, std::string line,
                                     const std::vector<std::vector<std::string>>& texts) const {
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string text = detail::centred(texts[column][row], width_of(texts[column], column));
      const std::string color = cell_color(row, column);
      line += separator + color + text + (color.empty() ? "" : "\033[0m");
    }
    return detail::without_trailing_blanks(std::move(line));
  }

  [[nodiscard]] std::string cell_color(std::size_t row, std::size_t column) const {
    if (how_.colors_ == colors::none || cells_[row][column] == nullptr) return "";
    const bool by_row = how_.colors_ == colors::by_row;
    const double best = smallest([&](std::size_t r, std::size_t c) {
      return by_row ? r == row : c == column && rows_[r].num_threads == rows_[row].num_threads;
    });
    return detail::color_of(cells_[row][column]->median_ns(), best);
  }

  [[nodiscard]] std::string footer() const {
    std::string out = fmt::format("\nTimes are in {} ({}).\n", unit_.name, unit_.suffix);
    const bool is_noisy = std::any_of(results_.begin(), results_.end(),
                                      [this](const measurement& m) { return !warning_text(m).empty(); });
    if (is_noisy) out += "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n";
    return out;
  }

  const compare& how_;
  std::vector<measurement> results_;
  std::vector<row_key> rows_;
  std::vector<std::string> columns_;
  std::vector<std::vector<const measurement*>> cells_;  // [row][column]; null: not measured
  detail::run_time_unit unit_{};
};

inline std::string compare::to_string() const {
  std::vector<std::vector<measurement>> tables;
  for (measurement& m : merge(results_)) {
    const auto same = std::find_if(tables.begin(), tables.end(),
                                   [&m](const auto& t) { return t.front().task.label == m.task.label; });
    if (same == tables.end())
      tables.push_back({std::move(m)});
    else
      same->push_back(std::move(m));
  }
  std::string out;
  for (std::vector<measurement>& t : tables) out += (out.empty() ? "" : "\n") + table(*this, std::move(t)).to_string();
  return out;
}

STEPPROF_END_NAMESPACE
