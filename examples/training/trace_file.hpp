// What stands in a written trace: any JSON library can read it, and so can the viewers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace training {

/// Prints how many events of each category the file holds, and its first three sequence numbers with the ops that carry
/// them: the forward ops first, then the nodes that carried the gradient back.
inline void print_trace_file(const std::string& path) {
  const nlohmann::json file = nlohmann::json::parse(std::ifstream(path));
  std::map<std::string, int> categories;
  std::map<std::int64_t, std::vector<nlohmann::json>> by_sequence;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    ++categories[event.value("cat", "(none)")];
    if (event.contains("args") && event["args"].contains("Sequence number"))
      by_sequence[event["args"]["Sequence number"].get<std::int64_t>()].push_back(event);
  }

  std::cout << "Events in " << path << ", by category:\n";
  for (const auto& [category, count] : categories) std::cout << "  " << category << ": " << count << "\n";

  std::cout << "\nThe first sequence numbers, with the thread of the forward op (0: it is the forward op):\n";
  constexpr std::size_t shown = 3;
  std::size_t count = 0;
  for (const auto& [sequence, events] : by_sequence) {
    if (count++ == shown) break;
    for (const nlohmann::json& event : events)
      std::cout << "  " << sequence << "  " << event["args"].value("Fwd thread id", 0) << "  "
                << event["name"].get<std::string>() << "\n";
  }
}

}  // namespace training
