// A written trace, read naively: only nlohmann_json, nothing of the library that wrote it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace test {

using nlohmann::json;

struct slice {
  std::string name, category;
  json args;
  std::int64_t tid = 0, begin_ns = 0, end_ns = 0;
  const slice* parent = nullptr;
  std::int64_t self_ns = 0, self_bytes = 0;

  [[nodiscard]] std::int64_t sequence() const { return args.value("Sequence number", std::int64_t{-1}); }
  [[nodiscard]] std::int64_t forward_thread() const { return args.value("Fwd thread id", std::int64_t{-1}); }
  [[nodiscard]] std::string inputs(const char* key) const { return args.contains(key) ? args[key].dump() : ""; }
};

struct memory_report {
  std::int64_t tid = 0, time_ns = 0, bytes = 0;
  const slice* scope = nullptr;
};

struct arrow {
  const slice* from = nullptr;
  const slice* to = nullptr;
};

// All that a table would say of one key.
struct totals {
  std::int64_t calls = 0, self_ns = 0, total_ns = 0, self_bytes = 0, total_bytes = 0;
};

class written_trace {
 public:
  explicit written_trace(const std::string& path) {
    std::ifstream in(path);
    if (!in) throw std::runtime_error("no trace at " + path);
    const json file = json::parse(in);
    for (const json& event : file.at("traceEvents")) read(event, file.at("traceEvents").at(0).at("ts").get<double>());
    // A parent begins no later and ends no earlier than its children; where both are equal the order of the log
    // decides.
    std::stable_sort(slices.begin(), slices.end(), [](const slice& a, const slice& b) {
      return std::make_tuple(a.tid, a.begin_ns, -a.end_ns) < std::make_tuple(b.tid, b.begin_ns, -b.end_ns);
    });
    nest();
    for (memory_report& report : memory) {
      report.scope = innermost(report.tid, report.time_ns);
      if (report.scope != nullptr) slices[index_of(report.scope)].self_bytes += report.bytes;
    }
    for (const auto& [id, ends] : flow_ends_) arrows.push_back({at(ends.first), at(ends.second)});
  }

  std::vector<slice> slices;  // by thread, parents before their children
  std::vector<memory_report> memory;
  std::vector<arrow> arrows;
  std::map<std::string, int> categories;

  // The innermost slice of the thread that is open at that time.
  [[nodiscard]] const slice* innermost(std::int64_t tid, std::int64_t time_ns) const {
    const slice* found = nullptr;
    for (const slice& s : slices)
      if (s.tid == tid && s.begin_ns <= time_ns && time_ns < s.end_ns) found = &s;
    return found;
  }

  [[nodiscard]] std::vector<const slice*> named(const std::string& name) const {
    std::vector<const slice*> found;
    for (const slice& s : slices)
      if (s.name == name) found.push_back(&s);
    return found;
  }

  // Rows by name; all steps are one row.
  [[nodiscard]] std::map<std::string, totals> by_name() const {
    return rows([](const slice& s) { return key(s); });
  }
  // Rows by name and shapes, as "aten::mm [[512,64],[64,512]]".
  [[nodiscard]] std::map<std::string, totals> by_shape() const {
    return rows([](const slice& s) { return key(s) + " " + s.inputs("Input Dims"); });
  }

  // What happened inside one slice, one line per scope and per memory report, with all that does not depend on the
  // machine: depth, name, numbers, inputs, bytes.
  [[nodiscard]] std::vector<std::string> story(const slice& of) const {
    std::vector<std::pair<std::int64_t, std::string>> lines;
    for (const slice& s : slices)
      if (s.tid == of.tid && s.begin_ns >= of.begin_ns && s.end_ns <= of.end_ns)
        lines.emplace_back(s.begin_ns, line(s));
    for (const memory_report& m : memory)
      if (m.tid == of.tid && m.time_ns >= of.begin_ns && m.time_ns < of.end_ns)
        lines.emplace_back(m.time_ns, std::string(2 * (depth(m.scope) + 1), ' ') + std::to_string(m.bytes) + " bytes");
    // Stable: of lines of one time the scopes come first, outermost first.
    std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> texts;
    for (auto& [time, text] : lines) texts.push_back(std::move(text));
    return texts;
  }

 private:
  static std::int64_t to_ns(double microseconds) { return std::llround(microseconds * 1000); }

  void read(const json& event, double origin) {
    ++categories[event.value("cat", "")];
    const std::string phase = event.at("ph"), category = event.value("cat", "");
    const auto time_ns = [&] { return to_ns(event.at("ts").get<double>() - origin); };
    if (phase == "X" && (category == "cpu_op" || category == "user_annotation")) {
      slice s;
      s.name = event.at("name");
      s.category = category;
      s.args = event.at("args");
      s.tid = event.at("tid");
      s.begin_ns = time_ns();
      s.end_ns = to_ns(event.at("ts").get<double>() - origin + event.at("dur").get<double>());
      slices.push_back(std::move(s));
    } else if (category == "cpu_instant_event") {
      memory.push_back({event.at("tid"), time_ns(), event.at("args").at("Bytes"), nullptr});
    } else if (phase == "s") {
      flow_ends_[event.at("id").dump()].first = {event.at("tid").get<std::int64_t>(), time_ns()};
    } else if (phase == "f") {
      flow_ends_[event.at("id").dump()].second = {event.at("tid").get<std::int64_t>(), time_ns()};
    }
  }

  void nest() {
    std::vector<slice*> open;
    for (slice& s : slices) {
      while (!open.empty() && (open.back()->tid != s.tid || open.back()->end_ns <= s.begin_ns)) open.pop_back();
      if (!open.empty() && open.back()->end_ns < s.end_ns) throw std::runtime_error(s.name + " overlaps its parent");
      s.self_ns = s.end_ns - s.begin_ns;
      if (!open.empty()) {
        s.parent = open.back();
        open.back()->self_ns -= s.self_ns;
      }
      open.push_back(&s);
    }
  }

  template <class Key>
  [[nodiscard]] std::map<std::string, totals> rows(Key key_of) const {
    std::map<std::string, totals> result;
    for (const slice& s : slices) {
      totals& row = result[key_of(s)];
      ++row.calls;
      row.self_ns += s.self_ns;
      row.self_bytes += s.self_bytes;
      std::set<std::string> seen;  // an event inside another of its own key does not count twice
      for (const slice* up = &s; up != nullptr; up = up->parent)
        if (seen.insert(key_of(*up)).second) result[key_of(*up)].total_bytes += s.self_bytes;
      bool is_outermost = true;
      for (const slice* up = s.parent; up != nullptr; up = up->parent)
        if (key_of(*up) == key_of(s)) is_outermost = false;
      if (is_outermost) row.total_ns += s.end_ns - s.begin_ns;
    }
    return result;
  }

  static std::string key(const slice& s) {
    return s.name.compare(0, 13, "ProfilerStep#") == 0 ? "ProfilerStep*" : s.name;
  }
  static std::size_t depth(const slice* s) {
    std::size_t result = 0;
    for (; s != nullptr && s->parent != nullptr; s = s->parent) ++result;
    return result;
  }
  static std::string line(const slice& s) {
    std::string text(2 * depth(&s), ' ');
    text += s.name + " (" + s.category + ")";
    if (s.sequence() >= 0)
      text += " number " + std::to_string(s.sequence()) + " forward " + std::to_string(s.forward_thread());
    for (const char* key : {"Input Dims", "Input type", "Input Strides", "Concrete Inputs"})
      text += " " + s.inputs(key);
    return text;
  }
  [[nodiscard]] std::size_t index_of(const slice* s) const { return static_cast<std::size_t>(s - slices.data()); }
  [[nodiscard]] const slice* at(std::pair<std::int64_t, std::int64_t> end) const {
    return innermost(end.first, end.second);
  }

  std::map<std::string, std::pair<std::pair<std::int64_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>>>
      flow_ends_;
};

// The scopes of one sequence number in order of time, with their forward thread.
inline std::vector<std::pair<std::string, std::int64_t>> with_number(const written_trace& trace, std::int64_t number) {
  std::map<std::int64_t, std::pair<std::string, std::int64_t>> found;
  for (const slice& s : trace.slices)
    if (s.sequence() == number) found[s.begin_ns] = {s.name, s.forward_thread()};
  std::vector<std::pair<std::string, std::int64_t>> result;
  for (const auto& [time, scope] : found) result.push_back(scope);
  return result;
}

}  // namespace test
