// Runs a fuzz target without libFuzzer: over seeds, their beginnings, their mutations and random bytes, always the same
// ones.
//
//   <target> <number of inputs> [<file or folder of seeds>...]     what is not there is left out
//   <target> <file>                                                one input, such as one that failed
//
// When the target ends the program, its input is left in the file <target>-failed in the current folder.
#include <fuzz/fuzz_input.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace {

std::string current;
std::string file_of_failure;

// Only what a signal handler may call.
void keep_input(int signal) {
  const int file = ::open(file_of_failure.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const bool is_kept = file >= 0 && ::write(file, current.data(), current.size()) >= 0;
  constexpr char kept[] = "the input is in ";
  if (is_kept && ::write(2, kept, sizeof kept - 1) > 0 &&
      ::write(2, file_of_failure.data(), file_of_failure.size()) > 0 && ::write(2, "\n", 1) > 0) {
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(std::string text) {
  current = std::move(text);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
}

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

std::vector<std::string> seeds_in(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_regular_file(path)) files.push_back(path);
  if (std::filesystem::is_directory(path))
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // else the order, and with it all that follows, is the file system's
  std::vector<std::string> seeds;
  for (const auto& file : files) seeds.push_back(contents_of(file));
  return seeds;
}

class mutator {
 public:
  explicit mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string next() {
    if (seeds_.empty() || below(4) == 0) return any_bytes(below(600));
    std::string text = seeds_[below(seeds_.size())];
    if (text.size() > large) text = text.substr(below(text.size()), large);
    if (below(8) == 0) return text.substr(0, below(text.size() + 1));
    // Texts are mostly refused after any change but that of a number.
    const bool only_numbers = below(2) == 0;
    for (std::size_t changes = 1 + below(6); changes > 0; --changes) only_numbers ? change_number(text) : change(text);
    return text;
  }

 private:
  static constexpr std::size_t large = 20000;  // whole files of this size are run once, and then pieces of them

  std::size_t below(std::size_t count) { return random_() % count; }
  char any_byte() {
    constexpr char odd[] = {'\0', '\x01', '\x7f', '\x80', '\xff', '"', '\\', '{',
                            '}',  '[',    ']',    ',',    ':',    '-', '9',  '.'};
    return below(2) == 0 ? odd[below(sizeof odd)] : static_cast<char>(below(256));
  }
  std::string any_bytes(std::size_t size) {
    std::string text(size, '\0');
    for (char& c : text) c = any_byte();
    return text;
  }
  // The first one behind a place that is found at random.
  void change_number(std::string& text) {
    constexpr const char* numbers[] = {"0",
                                       "1",
                                       "-1",
                                       "7",
                                       "0.0005",
                                       "1e3",
                                       "4.6e15",
                                       "2147483648",
                                       "4611686018427387904",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "18446744073709551615"};
    const std::size_t from = text.find_first_of("0123456789", below(text.size() + 1));
    if (from == std::string::npos) return change(text);
    const std::size_t end = (std::min)(text.find_first_not_of("0123456789", from), text.size());
    if (below(3) == 0)
      text.replace(from, end - from, numbers[below(std::size(numbers))]);
    else
      text[from + below(end - from)] = static_cast<char>('1' + below(9));
  }
  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t size = (std::min)(below(24), text.size() - at);
    switch (below(6)) {
      case 0:
        text.insert(at, any_bytes(1 + below(8)));
        break;
      case 1:
        text.erase(at, size);
        break;
      case 2:
        text.insert(below(text.size() + 1), text.substr(at, size));
        break;
      case 3: {
        const std::string& other = seeds_[below(seeds_.size())];
        text.replace(at, size, other, below(other.size() + 1), below(24));
        break;
      }
      default:
        if (at < text.size()) text[at] = below(2) == 0 ? any_byte() : static_cast<char>(text[at] ^ (1 << below(8)));
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_{20260731};
};

}  // namespace

int main(int argc, char* argv[]) {
  const std::filesystem::path self(argv[0]);
  file_of_failure = self.filename().string() + "-failed";
  for (const int signal : {SIGABRT, SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTERM}) std::signal(signal, &keep_input);
  if (argc == 2 && std::filesystem::is_regular_file(argv[1])) {
    run(contents_of(argv[1]));
    return 0;
  }
  const long count = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 0;
  if (count <= 0) {
    std::fprintf(stderr, "usage: %s <number of inputs> [<seeds>...] | <file>\n", argv[0]);
    return 2;
  }
  std::vector<std::string> seeds;
  for (int i = 2; i < argc; ++i)
    for (std::string& seed : seeds_in(argv[i])) seeds.push_back(std::move(seed));
  run("");
  for (const std::string& seed : seeds) run(seed);
  mutator mutations(seeds);
  for (long i = 0; i < count; ++i) run(mutations.next());
  std::printf("%zu seeds and %ld inputs made of them\n", seeds.size(), count);
  return 0;
}
