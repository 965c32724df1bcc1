// What including each header costs the compiler: the time that it works on a source with nothing else in it, against a
// source that includes <atomic> and <cstdint>, in turn.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/resource.h>  // the work of the compiler, however many others share the processor

#include <fmt/format.h>

#include "support/report.hpp"
#include "support/temp_folder.hpp"

namespace {

namespace fs = std::filesystem;

double seconds_of_children() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class compiler {
 public:
  explicit compiler(const fs::path& folder) : source_(folder / "source.cpp"), object_(folder / "source.o") {}

  // Milliseconds of work.
  double compile(const std::string& text) const {
    std::ofstream(source_) << text;
    const double begin = seconds_of_children();
    const std::string command = fmt::format("{} -std=c++17 -O2 {} -c '{}' -o '{}'", BENCHMARK_CXX, BENCHMARK_INCLUDES,
                                            source_.string(), object_.string());
    if (std::system(command.c_str()) != 0) {
      fmt::print(stderr, "cannot be compiled: {}\n", text);
      std::exit(1);
    }
    return (seconds_of_children() - begin) * 1000;
  }

 private:
  fs::path source_, object_;
};

struct compared {
  double header = 1e9;
  double baseline = 1e9;
};

compared compare(const compiler& with, const std::string& header, int rounds) {
  compared least;
  for (int i = 0; i < rounds; ++i) {
    least.baseline = (std::min)(least.baseline, with.compile("#include <atomic>\n#include <cstdint>\n"));
    least.header = (std::min)(least.header, with.compile("#include <" + header + ">\n"));
  }
  return least;
}

// All headers, the light one and the one of everything first.
std::vector<std::string> headers(bool only_first) {
  std::vector<std::string> found;
  const fs::path top(BENCHMARK_HEADERS);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top / "stepprof"))
    if (entry.path().extension() == ".hpp") found.push_back(fs::relative(entry.path(), top).generic_string());
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    const auto depth = [](const std::string& s) { return std::count(s.begin(), s.end(), '/'); };
    return depth(a) != depth(b) ? depth(a) < depth(b) : a < b;
  });
  if (only_first) found = {"stepprof/record.hpp", "stepprof/stepprof.hpp"};
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::report out(argc, argv);
  const test::temp_folder folder;
  const compiler with(folder.path());
  for (const std::string& header : headers(out.quick())) {
    const bool light = header == "stepprof/record.hpp";
    const compared ms = compare(with, header, light ? 15 : 3);
    out.add({light ? "include_record" : "include " + header, "#include <" + header + ">", ms.header, "ms",
             "<atomic> and <cstdint>", ms.baseline, light ? "ratio <= 1.5" : ""});
  }
}
