// coverage_summary FOLDER: reads what "llvm-cov export" writes, from stdin, and prints which lines and branches of the
// files in FOLDER were run: per folder in it and in all, then by file what was not.
//
// llvm-cov's own report takes the best instantiation of a template; here a branch was taken when any took it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

// From here to the next one, code was run `count` times; without has_count there is no code.
struct segment {
  std::size_t line = 0;
  std::size_t column = 0;
  std::uint64_t count = 0;
  bool has_count = false;
  bool is_entry = false;
  bool is_gap = false;
};

std::vector<segment> segments_of(const json& file) {
  std::vector<segment> segments;
  for (const json& s : file.at("segments")) {
    segments.push_back({s.at(0).get<std::size_t>(), s.at(1).get<std::size_t>(), s.at(2).get<std::uint64_t>(),
                        s.at(3).get<bool>(), s.at(4).get<bool>(), s.at(5).get<bool>()});
  }
  return segments;
}

// How often each line with code was run, as llvm-cov says it: the most of what begins on it and of what goes on there.
std::map<std::size_t, std::uint64_t> lines_of(const std::vector<segment>& segments) {
  std::map<std::size_t, std::uint64_t> lines;
  const segment* before = nullptr;
  std::size_t line = segments.empty() ? 0 : segments.front().line;
  for (auto next = segments.begin(); next != segments.end(); ++line) {
    const auto first = next;
    bool begins = false;
    std::uint64_t count = before != nullptr && before->has_count ? before->count : 0;
    for (; next != segments.end() && next->line == line; ++next) {
      if (!next->has_count || !next->is_entry || next->is_gap) continue;
      begins = true;
      count = (std::max)(count, next->count);
    }
    const bool left_out = first != next && !first->has_count && first->is_entry;
    if (!left_out && (begins || (before != nullptr && before->has_count))) lines[line] = count;
    if (first != next) before = &*std::prev(next);
  }
  return lines;
}

struct branch {
  std::uint64_t taken = 0;      // the condition was true
  std::uint64_t not_taken = 0;  // it was false
};

std::uint64_t count_at(const std::vector<segment>& segments, std::size_t line, std::size_t column) {
  const auto after =
      std::upper_bound(segments.begin(), segments.end(), std::tie(line, column),
                       [](const auto& place, const segment& s) { return place < std::tie(s.line, s.column); });
  return after == segments.begin() ? 0 : std::prev(after)->count;
}

using place = std::pair<std::size_t, std::size_t>;  // line and column

// Each condition in the source, over all instantiations. One that the compiler decided has no counts though it was run.
std::map<place, branch> branches_of(const json& file, const std::vector<segment>& segments) {
  std::map<place, branch> branches;
  for (const json& b : file.at("branches")) {
    branch& all = branches[{b.at(0).get<std::size_t>(), b.at(1).get<std::size_t>()}];
    all.taken += b.at(4).get<std::uint64_t>();
    all.not_taken += b.at(5).get<std::uint64_t>();
  }
  for (auto b = branches.begin(); b != branches.end();) {
    const bool has_counts = b->second.taken != 0 || b->second.not_taken != 0;
    b = has_counts || count_at(segments, b->first.first, b->first.second) == 0 ? std::next(b) : branches.erase(b);
  }
  return branches;
}

struct share {
  std::size_t covered = 0;
  std::size_t all = 0;

  void add(bool is_covered) {
    ++all;
    if (is_covered) ++covered;
  }
};

struct coverage {
  share lines;
  share branches;
};

struct file_coverage {
  coverage total;
  std::string not_run;    // lines
  std::string not_taken;  // branches
};

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

file_coverage coverage_of(const json& file) {
  const std::vector<segment> segments = segments_of(file);
  file_coverage result;
  std::size_t first = 0;
  std::size_t last = 0;  // of the lines with code that were not run, one after the other
  const auto end_run = [&] {
    if (first != 0) append(result.not_run, std::to_string(first) + (last > first ? "-" + std::to_string(last) : ""));
    first = 0;
  };
  for (const auto& [line, count] : lines_of(segments)) {
    result.total.lines.add(count != 0);
    if (count != 0) {
      end_run();
    } else {
      if (first == 0) first = line;
      last = line;
    }
  }
  end_run();
  for (const auto& [where, b] : branches_of(file, segments)) {
    result.total.branches.add(b.taken != 0);
    result.total.branches.add(b.not_taken != 0);
    const char* missing = b.taken != 0 ? "false" : b.not_taken != 0 ? "true" : "neither";
    if (b.taken != 0 && b.not_taken != 0) continue;
    append(result.not_taken, std::to_string(where.first) + ':' + std::to_string(where.second) + ' ' + missing);
  }
  return result;
}

void add(share& sum, const share& part) {
  sum.covered += part.covered;
  sum.all += part.all;
}

void add(coverage& sum, const coverage& part) {
  add(sum.lines, part.lines);
  add(sum.branches, part.branches);
}

double percent(const share& s) {
  return s.all == 0 ? 100 : 100 * static_cast<double>(s.covered) / static_cast<double>(s.all);
}

void print(const std::string& name, const coverage& c) {
  std::printf("%-10s %5zu of %5zu lines %6.2f %%   %5zu of %5zu branches %6.2f %%\n", name.c_str(), c.lines.covered,
              c.lines.all, percent(c.lines), c.branches.covered, c.branches.all, percent(c.branches));
}

void print(const std::map<std::string, file_coverage>& files) {
  for (const auto& [name, file] : files) {
    if (file.not_run.empty() && file.not_taken.empty()) continue;
    std::printf("%s\n", name.c_str());
    if (!file.not_run.empty()) std::printf("  lines not run: %s\n", file.not_run.c_str());
    if (!file.not_taken.empty()) std::printf("  conditions never: %s\n", file.not_taken.c_str());
  }
  std::map<std::string, coverage> folders;
  coverage all;
  for (const auto& [name, file] : files) {
    add(folders[name.substr(0, name.find('/'))], file.total);
    add(all, file.total);
  }
  std::printf("\n");
  for (const auto& [name, folder] : folders) print(name, folder);
  print("all", all);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: coverage_summary FOLDER < FILE\n");
    return 2;
  }
  try {
    const std::string folder = std::string(argv[1]) + '/';
    std::map<std::string, file_coverage> files;
    const json input = json::parse(std::cin);
    for (const json& file : input.at("data").at(0).at("files")) {
      const std::string name = file.at("filename").get<std::string>();
      if (name.compare(0, folder.size(), folder) == 0) files[name.substr(folder.size())] = coverage_of(file);
    }
    if (files.empty()) {
      std::fprintf(stderr, "coverage_summary: there is no file of %s in the input\n", argv[1]);
      return 1;
    }
    print(files);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "coverage_summary: %s\n", problem.what());
    return 1;
  }
  return 0;
}
