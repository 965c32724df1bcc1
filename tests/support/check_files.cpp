// check_files FILE|FOLDER...: whether every one of these files, and every file in these folders, is a trace that
// viewers show as it was recorded. For files that were written by programs other than the tests.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <support/temp_folder.hpp>
#include <support/trace_checker.hpp>

namespace {

std::vector<std::string> files_of(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// False when something is wrong with the file; says what.
bool check(const std::string& file) {
  const test::checked_trace checked = test::check_trace(test::contents_of(file));
  std::printf("%s: %zu slices\n%s", file.c_str(), checked.slices.size(), checked.summary().c_str());
  if (checked.slices.empty()) std::printf("nothing was recorded\n");
  return checked.findings.empty() && !checked.slices.empty();
}

}  // namespace

int main(int argc, char** argv) {
  bool good = argc > 1;
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> files = files_of(argv[i]);
    if (files.empty()) std::printf("%s: there is no file\n", argv[i]);
    good = good && !files.empty();
    for (const std::string& file : files) good = check(file) && good;
  }
  return good ? 0 : 1;
}
