// The command line of the example.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

namespace training {

struct settings {
  std::int64_t layers = 2;  ///< Linear layers; all but the last are followed by a relu.
  std::int64_t batch = 64;  ///< Samples.
  std::int64_t steps = 10;
  bool backward_thread = false;  ///< Run the backward pass on a thread of its own.
  std::string out = "trace.json";
};

inline constexpr const char* usage =
    "usage: training [options]\n"
    "  --layers N          linear layers of the model (2)\n"
    "  --batch N           samples (64)\n"
    "  --steps N           training steps (10); steps 4 to 8 are recorded\n"
    "  --backward-thread   run the backward pass on another thread\n"
    "  --out FILE          where the trace is written (trace.json)\n";

[[noreturn]] inline void refuse(const std::string& problem) {
  std::cerr << "training: " << problem << "\n" << usage;
  std::exit(2);
}

inline std::int64_t parse_count(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 1 || value > 100000)
    refuse(option + " is '" + text + "', must be a number from 1 to 100000");
  return value;
}

inline settings parse_command_line(int argc, char** argv) {
  settings chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == argc) refuse(option + " needs a value");
      return argv[++i];
    };
    if (option == "--layers")
      chosen.layers = parse_count(option, value());
    else if (option == "--batch")
      chosen.batch = parse_count(option, value());
    else if (option == "--steps")
      chosen.steps = parse_count(option, value());
    else if (option == "--out")
      chosen.out = value();
    else if (option == "--backward-thread")
      chosen.backward_thread = true;
    else
      refuse("unknown option '" + option + "'");
  }
  return chosen;
}

}  // namespace training
