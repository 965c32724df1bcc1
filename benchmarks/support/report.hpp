// What a benchmark prints: one line per figure, each beside a baseline that was measured interleaved with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <stepprof/core/system.hpp>
#include <stepprof/output/json_writer.hpp>

namespace benchmark {

struct line {
  std::string name;  // as in the JSON
  std::string what;  // as in the table
  double value = 0;
  std::string unit;      // "ns", "bytes", "instructions", ...
  std::string baseline;  // what it is compared with; empty: nothing
  double baseline_value = 0;
  std::string target;  // "ratio <= 1.05", "value <= 40"; empty: none
  [[nodiscard]] double ratio() const { return baseline.empty() || baseline_value == 0 ? 0 : value / baseline_value; }
};

// The lines of one program: a row each on stdout, and with `--lines FILE` a JSON object each at the end of FILE.
class report {
 public:
  report(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      if (argument == "--no-header") header_ = false;
      if (argument == "--quick") quick_ = true;
      if (argument != "--lines") continue;
      if (i + 1 < argc) file_.open(argv[i + 1], std::ios::app);
      if (!file_) {
        fmt::print(stderr, "--lines needs the name of a file that can be written\n");
        std::exit(2);
      }
    }
    if (header_) print_header();
  }

  static void print_header() {
    fmt::print("{:<46} {:>11} {:<12} {:>8}  {:<34} {:>11}  {}\n{:-<140}\n", "", "value", "unit", "ratio", "baseline",
               "value", "target", "");
  }

  // Fewer repetitions: to see that it runs.
  [[nodiscard]] bool quick() const { return quick_; }

  void add(const line& l) {
    std::string row = fmt::format("{:<46} {:>11.6g} {:<12} ", l.what, round_to(l.value), l.unit);
    if (l.baseline.empty())
      row += fmt::format("{:>8}  {:<34} {:>11}", "", "", "");
    else
      row += fmt::format("{:>8.3g}  {:<34} {:>11.6g}", l.ratio(), l.baseline, round_to(l.baseline_value));
    row += "  " + l.target;
    row.resize(row.find_last_not_of(' ') + 1);
    fmt::print("{}\n", row);
    std::fflush(stdout);
    if (file_.is_open()) write(l);
  }

 private:
  static double round_to(double value) {
    return value < 100 ? std::round(value * 1000) / 1000 : std::round(value * 10) / 10;
  }

  void write(const line& l) {
    std::string text;
    {
      stepprof::string_sink sink(text);
      stepprof::json_writer json(sink);
      json.begin_object();
      json.key("name");
      json.string(l.name);
      json.key("value");
      json.real(l.value);
      json.key("unit");
      json.string(l.unit);
      json.key("baseline");
      l.baseline.empty() ? json.null() : json.string(l.baseline);
      json.key("baseline_value");
      l.baseline.empty() ? json.null() : json.real(l.baseline_value);
      json.key("ratio");
      l.baseline.empty() ? json.null() : json.real(l.ratio());
      json.key("target");
      l.target.empty() ? json.null() : json.string(l.target);
      json.end_object();
    }
    file_ << text << '\n' << std::flush;
  }

  bool header_ = true;
  bool quick_ = false;
  std::ofstream file_;
};

// Runs the bodies in turn, A B A B ..., `rounds` times; ns of the fastest run of each. Minima, because whatever
// disturbs a run can only make it longer.
inline std::vector<double> interleaved_minima(int rounds, const std::vector<std::function<void()>>& bodies) {
  std::vector<double> least(bodies.size(), 0);
  for (int round = 0; round < rounds; ++round) {
    std::size_t i = 0;
    for (const auto& body : bodies) {
      const std::int64_t begin = stepprof::detail::steady_ns();
      body();
      const auto ns = static_cast<double>(stepprof::detail::steady_ns() - begin);
      least[i] = round == 0 ? ns : (std::min)(least[i], ns);
      ++i;
    }
  }
  return least;
}

}  // namespace benchmark
