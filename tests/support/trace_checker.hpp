// The oracle for Chrome traces: what Perfetto, catapult and strict JSON readers make of a file. Shares nothing with
// the library. check_trace() emulates the viewers' rules (sorting, stacks, binding of arrows) and returns what is
// wrong, each finding under the name of its rule, and facts: which slices there are and which of them arrows join.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <support/strict_json.hpp>

namespace test {

constexpr std::size_t nothing = static_cast<std::size_t>(-1);

struct trace_finding {
  std::string rule;
  std::string text;
};

// One X event or thread instant, as drawn on its thread.
struct checked_slice {
  const json_node* event = nullptr;
  std::size_t position = 0;  // in traceEvents
  std::string thread;        // "pid/tid"
  std::string name, cat;
  std::int64_t ts_ns = 0, dur_ns = 0;  // as a viewer computes them
  bool instant = false;
  std::size_t parent = nothing;  // in Perfetto
  std::size_t depth = 0;
  const json_node& args() const { return event->at("args"); }
  std::int64_t end_ns() const { return ts_ns + dur_ns; }
};

struct checked_arrow {
  std::string cat, name, id;
  std::size_t from = nothing, to = nothing;                    // in Perfetto
  std::size_t catapult_from = nothing, catapult_to = nothing;  // in catapult
};

// What one end of an arrow is tied to, in order of the file.
struct checked_binding {
  std::string cat;
  std::int64_t ts_ns = 0;
  std::size_t perfetto = nothing, catapult = nothing;
};

struct checked_trace {
  json_document document;
  std::vector<trace_finding> findings;
  std::vector<checked_slice> slices;  // in order of the file
  std::vector<checked_arrow> arrows;  // complete ones
  std::vector<checked_binding> bindings;
  std::map<std::string, int> by_phase, by_category;
  std::map<std::string, std::string> thread_names;   // by "pid/tid"
  std::map<std::string, std::string> process_names;  // by pid
  std::size_t async_pairs = 0;

  const json_node& root() const { return document.root; }
  const std::vector<json_node>& events() const { return document.root.at("traceEvents").items; }
  bool has(const std::string& rule) const {
    return std::any_of(findings.begin(), findings.end(), [&](const trace_finding& f) { return f.rule == rule; });
  }
  std::set<std::string> rules() const {
    std::set<std::string> result;
    for (const trace_finding& f : findings) result.insert(f.rule);
    return result;
  }
  // For messages of tests: empty when nothing was found.
  std::string summary() const {
    std::string result;
    for (std::size_t i = 0; i < findings.size() && i < 20; ++i)
      result += findings[i].rule + ": " + findings[i].text + "\n";
    return result;
  }
  std::string arrow_text(const checked_arrow& a) const { return slices[a.from].name + " -> " + slices[a.to].name; }
  std::size_t slice_count(const std::string& name) const {
    return static_cast<std::size_t>(
        std::count_if(slices.begin(), slices.end(), [&](const checked_slice& s) { return s.name == name; }));
  }
};

class trace_checker {
 public:
  static checked_trace check(const std::string& text) {
    trace_checker checker(text);
    checker.run();
    return std::move(checker.result_);
  }

 private:
  struct flow_point {
    const json_node* event;
    std::size_t position;
    std::int64_t ts_ns;
    std::string thread;
    std::size_t perfetto = nothing, catapult = nothing;
  };
  // What Perfetto sorts: anything with a time.
  struct timed {
    std::int64_t ts_ns;
    std::int64_t dur_ns;
    bool is_slice;  // X
    const json_node* event;
    std::size_t slice = nothing, flow = nothing;
  };

  explicit trace_checker(const std::string& text) : text_(text) {}

  void find(const std::string& rule, const std::string& what) {
    if (result_.findings.size() < 10000) result_.findings.push_back({rule, what});
  }
  void find(const std::string& rule, std::size_t position, const std::string& what) {
    find(rule, "event " + std::to_string(position) + ": " + what);
  }

  void run() {
    if (text_.compare(0, 3, "\xef\xbb\xbf") == 0) find("bom", "the file begins with a byte order mark");
    if (text_.compare(0, 2, "{\"") != 0) find("start", "the file does not begin with {\"");
    result_.document = strict_json::parse(text_);
    for (const auto& fault : result_.document.faults) find(fault.first, fault.second);
    if (result_.document.end != text_.size()) find("tail", "bytes follow the closing brace");
    if (!nlohmann::json::accept(text_)) find("json_second_parser", "nlohmann_json refuses the file");
    if (result_.has("json")) return;
    const json_node* events = result_.root().find("traceEvents");
    if (events == nullptr || !events->is_array()) return find("no_events", "traceEvents is no list");
    if (result_.root().members.back().first == "traceEvents") find("last_key", "traceEvents is the last key");
    for (std::size_t i = 0; i < events->items.size(); ++i) check_event(events->items[i], i);
    emulate_perfetto();
    emulate_catapult();
    check_flows();
    check_async();
  }

  // --- one event ---------------------------------------------------------------------------------------------------

  void check_event(const json_node& e, std::size_t position) {
    if (!e.is_object() || e.members.empty()) return find("empty_event", position, "no object, or an empty one");
    const std::string ph = e.string("ph");
    if (ph.size() != 1 || std::string("MXisfbeC").find(ph) == std::string::npos)
      return find("ph", position, "ph '" + ph + "' is none that is known");
    ++result_.by_phase[ph];
    ++result_.by_category[e.string("cat")];
    if (!e.at("name").is_string()) find("name", position, "no name");
    const json_node* args = e.find("args");
    if (args != nullptr && !args->is_object()) find("args", position, "args is no object");
    if (args != nullptr) check_args(*args, position);
    check_ids(e, position, ph);
    if (ph == "M") return check_metadata(e, position);
    std::int64_t ts = 0, dur = 0;
    if (!time(e, "ts", position, ts)) return;
    if (ph == "X" && !time(e, "dur", position, dur)) return;
    if (ph == "C") check_counter(e, position);
    if (ph == "i") check_scope(e, position);
    timed t{ts, dur, ph == "X", &e};
    if (ph == "X" || (ph == "i" && e.string("s") == "t")) {
      t.slice = result_.slices.size();
      checked_slice s;
      s.event = &e;
      s.position = position;
      s.thread = perfetto_thread(e);
      s.name = e.string("name");
      s.cat = e.string("cat");
      s.ts_ns = ts;
      s.dur_ns = dur;
      s.instant = ph == "i";
      result_.slices.push_back(s);
    }
    if (ph == "s" || ph == "f") {
      t.flow = flows_.size();
      flows_.push_back({&e, position, ts, perfetto_thread(e)});
    }
    timed_.push_back(t);
  }

  // Microseconds as Perfetto reads them: integers exactly, others through a double.
  bool time(const json_node& e, const std::string& key, std::size_t position, std::int64_t& ns) {
    const std::string missing = key == "ts" ? "ts" : "dur";
    if (!e.at(key).is_number()) {
      find(missing, position, key + " is no number");
      return false;
    }
    const std::string& text = e.at(key).text;
    const std::size_t point = text.find('.');
    if (text.find_first_of("eE") != std::string::npos || point == std::string::npos || text.size() - point != 4)
      find("decimals", position, key + " " + text + " has not exactly three decimals");
    const double us = to_double(text);
    if (us < 0) {
      find(key == "ts" ? "ts_range" : "dur", position, key + " " + text + " is negative");
      return false;
    }
    if (us >= 4398046511104.0) find("ts_range", position, key + " " + text + " is not below 2^42 us");
    ns = point == std::string::npos && text.find_first_of("eE") == std::string::npos ? std::stoll(text) * 1000
                                                                                     : std::llround(us * 1000);
    if (ns != exact_ns(text)) find("precision", position, key + " " + text + " is rounded by readers");
    return true;
  }
  static double to_double(const std::string& text) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  static std::int64_t exact_ns(const std::string& text) {
    const std::size_t point = text.find('.');
    if (point == std::string::npos) return std::stoll(text) * 1000;
    std::string decimals = text.substr(point + 1, 3);
    decimals.resize(3, '0');
    return std::stoll(text.substr(0, point)) * 1000 + std::stoll(decimals);
  }

  // Text ids only where kineto has them. Perfetto takes a tid that is missing or 0 for the pid.
  void check_ids(const json_node& e, std::size_t position, const std::string& ph) {
    const bool process_level = (ph == "M" && e.string("name").compare(0, 8, "process_") == 0) || ph == "C" ||
                               (ph == "i" && e.string("s") != "t");
    check_id(e, "pid", position, {"Spans", "Traces", ""});
    if (process_level && e.find("tid") == nullptr) return;
    check_id(e, "tid", position, {"PyTorch Profiler", "Trace PyTorch Profiler", ""});
  }
  void check_id(const json_node& e, const std::string& key, std::size_t position, const std::set<std::string>& texts) {
    const json_node* id = e.find(key);
    if (id != nullptr && id->is_string() && texts.count(id->text) != 0) return;
    if (id == nullptr || !id->is_number() || id->text.find_first_not_of("0123456789") != std::string::npos ||
        id->text.size() > 10)
      return find(key, position, key + " is missing or no integer");
    if (id->text == "0") return find(key + "_zero", position, key + " is 0");
    if (std::stoll(id->text) > 2147483647) find(key, position, key + " " + id->text + " is above 2^31-1");
  }
  static std::string id_text(const json_node& e, const std::string& key) {
    const json_node* id = e.find(key);
    return id == nullptr ? "0" : id->is_string() ? "'" + id->text + "'" : id->text;
  }
  static std::string perfetto_thread(const json_node& e) {
    const std::string pid = id_text(e, "pid"), tid = id_text(e, "tid");
    return pid + "/" + (tid == "0" ? pid : tid);
  }
  static std::string catapult_thread(const json_node& e) { return id_text(e, "pid") + "/" + id_text(e, "tid"); }

  void check_metadata(const json_node& e, std::size_t position) {
    const std::string name = e.string("name");
    const std::string key = name == "process_name" || name == "thread_name" ? "name"
                            : name == "process_labels"                      ? "labels"
                                                                            : "sort_index";
    const json_node& value = e.at("args").at(key);
    const bool index = key == "sort_index";
    if (index ? !value.is_number() : !value.is_string() || value.text.empty())
      find("metadata_args", position, name + " without its " + key);
    const bool of_thread = name.compare(0, 7, "thread_") == 0;
    if (!metadata_.insert(name + " " + id_text(e, "pid") + (of_thread ? "/" + id_text(e, "tid") : "")).second)
      find("metadata_twice", position, name + " comes twice");
    if (name == "thread_name") result_.thread_names[perfetto_thread(e)] = value.text;
    if (name == "process_name") result_.process_names[id_text(e, "pid")] = value.text;
  }

  void check_counter(const json_node& e, std::size_t position) {
    const json_node& args = e.at("args");
    if (!args.is_object() || args.members.empty()) return find("counter", position, "a counter without values");
    for (const auto& member : args.members)
      if (!member.second.is_number()) find("counter", position, "the value of '" + member.first + "' is no number");
  }
  void check_scope(const json_node& e, std::size_t position) {
    const std::string s = e.string("s");
    if (s != "t" && s != "p" && s != "g") find("instant", position, "s '" + s + "' is none of t, p, g");
  }

  void check_args(const json_node& args, std::size_t position) {
    std::set<std::string> paths;
    check_value(args, "args", position, paths);
  }
  // Numbers that Perfetto misreads, and paths that collide once nested keys are joined with dots.
  void check_value(const json_node& value, const std::string& path, std::size_t position,
                   std::set<std::string>& paths) {
    if (value.is_object()) {
      for (const auto& member : value.members) check_value(member.second, path + "." + member.first, position, paths);
      return;
    }
    if (value.is_array()) {
      for (std::size_t i = 0; i < value.items.size(); ++i)
        check_value(value.items[i], path + "[" + std::to_string(i) + "]", position, paths);
      return;
    }
    if (!paths.insert(path).second) find("args_path", position, "two values have the path " + path);
    if (!value.is_number()) return;
    const std::string digits = value.text.substr(value.text[0] == '-' ? 1 : 0);
    const std::size_t point = digits.find('.');
    const std::size_t exponent = digits.find_first_of("eE");
    if (point == std::string::npos && exponent == std::string::npos) {
      const std::string limit = value.text[0] == '-' ? "9223372036854775808" : "9223372036854775807";
      if (digits.size() > limit.size() || (digits.size() == limit.size() && digits > limit))
        find("args_number", position, "the integer " + value.text + " is beyond 64 bits");
    } else {
      const std::size_t decimals = point == std::string::npos ? 0 : (std::min)(exponent, digits.size()) - point - 1;
      const std::size_t integers = (std::min)((std::min)(point, exponent), digits.size());
      if (decimals > 18 || integers > 18)
        find("args_number", position, "the number " + value.text + " has too many digits");
    }
  }

  // --- Perfetto ----------------------------------------------------------------------------------------------------

  void emulate_perfetto() {
    std::vector<timed> order = timed_;
    const bool any_slice = std::any_of(order.begin(), order.end(), [](const timed& t) { return t.is_slice; });
    std::stable_sort(order.begin(), order.end(), [any_slice](const timed& a, const timed& b) {
      if (a.ts_ns != b.ts_ns || !any_slice) return a.ts_ns < b.ts_ns;
      if (a.is_slice != b.is_slice) return a.is_slice;
      return a.is_slice && a.dur_ns > b.dur_ns;
    });
    std::map<std::string, std::vector<std::size_t>> stacks;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const timed& t = order[i];
      sorted_[t.event] = i;
      if (t.slice != nothing) push(stacks[result_.slices[t.slice].thread], t.slice);
      if (t.flow != nothing) {
        const std::vector<std::size_t>& stack = stacks[flows_[t.flow].thread];
        if (!stack.empty()) flows_[t.flow].perfetto = stack.back();
      }
    }
  }
  void push(std::vector<std::size_t>& stack, std::size_t index) {
    checked_slice& s = result_.slices[index];
    while (!stack.empty()) {
      const checked_slice& top = result_.slices[stack.back()];
      const bool same_instant = top.dur_ns == 0 && top.ts_ns == s.ts_ns;
      if (top.end_ns() > s.ts_ns || same_instant) break;
      stack.pop_back();
    }
    if (!stack.empty() && s.end_ns() > result_.slices[stack.back()].end_ns())
      return find("overlap", s.position, "'" + s.name + "' sticks out of '" + result_.slices[stack.back()].name + "'");
    if (stack.size() >= 512) return find("depth", s.position, "'" + s.name + "' is deeper than 512");
    s.parent = stack.empty() ? nothing : stack.back();
    s.depth = stack.size();
    stack.push_back(index);
  }

  // --- catapult ----------------------------------------------------------------------------------------------------

  struct catapult_slice {
    double start, end;  // ms
    std::size_t slice;
    std::vector<std::size_t> children;
  };
  struct catapult_group {
    std::vector<catapult_slice> slices;
    std::vector<std::size_t> roots;
  };

  void emulate_catapult() {
    // displayTimeUnit decides whether times are compared by ns or by us.
    const double unit = result_.root().string("displayTimeUnit") == "ns" ? 1e6 : 1e3;
    std::map<std::string, catapult_group> groups;
    for (std::size_t i = 0; i < result_.slices.size(); ++i) {
      const json_node& e = *result_.slices[i].event;
      const double start = to_double(e.at("ts").text) / 1000;
      const double dur = e.at("dur").is_number() ? to_double(e.at("dur").text) / 1000 : 0;
      groups[catapult_thread(e)].slices.push_back({start, start + dur, i, {}});
    }
    for (auto& group : groups) nest(group.second, unit);
    for (flow_point& flow : flows_) {
      const auto group = groups.find(catapult_thread(*flow.event));
      if (group != groups.end()) flow.catapult = innermost(group->second, to_double(flow.event->at("ts").text) / 1000);
    }
  }
  static void nest(catapult_group& group, double unit) {
    const auto round = [unit](double ms) { return std::floor(ms * unit + 0.5); };
    std::vector<catapult_slice>& slices = group.slices;
    std::stable_sort(slices.begin(), slices.end(),
                     [](const catapult_slice& a, const catapult_slice& b) { return a.start < b.start; });
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const auto holds = [&](std::size_t outer) {
        return round(slices[i].start) >= round(slices[outer].start) && round(slices[outer].end) >= round(slices[i].end);
      };
      std::size_t parent = group.roots.empty() || !holds(group.roots.back()) ? nothing : group.roots.back();
      while (parent != nothing && !slices[parent].children.empty() && holds(slices[parent].children.back()))
        parent = slices[parent].children.back();
      (parent == nothing ? group.roots : slices[parent].children).push_back(i);
    }
  }
  // A binary search in closed intervals at every level, which prefers the one that ends to the one that begins.
  static std::size_t innermost(const catapult_group& group, double ms) {
    std::size_t found = nothing;
    for (const std::vector<std::size_t>* level = &group.roots;;) {
      const auto low = std::lower_bound(level->begin(), level->end(), ms,
                                        [&](std::size_t s, double value) { return group.slices[s].start < value; });
      std::size_t next = nothing;
      const auto contains = [&](std::size_t s) { return ms >= group.slices[s].start && ms <= group.slices[s].end; };
      if (low != level->begin() && contains(*(low - 1)))
        next = *(low - 1);
      else if (low != level->end() && contains(*low))
        next = *low;
      if (next == nothing) return found == nothing ? nothing : group.slices[found].slice;
      found = next;
      level = &group.slices[found].children;
    }
  }

  // --- arrows ------------------------------------------------------------------------------------------------------

  void check_flows() {
    std::map<std::string, std::size_t> starts;  // by cat, name, id
    std::map<std::string, std::string> keys;    // catapult knows the id alone
    std::set<std::string> finished;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const flow_point& flow = flows_[i];
      const json_node& e = *flow.event;
      const std::string id = id_text(e, "id"), cat = e.string("cat"), name = e.string("name");
      const std::string key = cat + "\n" + name + "\n" + id;
      if (e.find("id") == nullptr || !e.at("id").is_number() ||
          id.find_first_not_of("0123456789") != std::string::npos || id.size() > 16 || std::stoll(id) >= (1ll << 53))
        find("flow_id", flow.position, "the id " + id + " is no integer in [0, 2^53)");
      if (cat.empty() || name.empty()) find("flow_name", flow.position, "an arrow without cat or name");
      check_binding(flow);
      result_.bindings.push_back({cat, flow.ts_ns, flow.perfetto, flow.catapult});
      if (e.string("ph") == "s") {
        const auto known = keys.emplace(id, key);
        if (!known.second) find("flow_duplicate", flow.position, "a second s with the id " + id);
        starts.emplace(key, i);
        continue;
      }
      if (e.string("bp") != "e") find("flow_bp", flow.position, "f without bp e");
      const auto start = starts.find(key);
      if (start == starts.end()) {
        find("flow_dangling", flow.position, "f without an s before it");
        continue;
      }
      if (!finished.insert(key).second) find("flow_duplicate", flow.position, "a second f with the id " + id);
      check_pair(flows_[start->second], flow);
      if (flows_[start->second].perfetto != nothing && flow.perfetto != nothing)
        result_.arrows.push_back({cat, name, id, flows_[start->second].perfetto, flow.perfetto,
                                  flows_[start->second].catapult, flow.catapult});
    }
    for (const auto& start : starts)
      if (finished.count(start.first) == 0) find("flow_dangling", flows_[start.second].position, "s without f");
  }
  void check_binding(const flow_point& flow) {
    if (flow.perfetto == nothing) return find("flow_unbound", flow.position, "no slice is open there");
    const checked_slice& s = result_.slices[flow.perfetto];
    if (s.instant) return find("flow_stolen", flow.position, "bound to the instant '" + s.name + "'");
    if (flow.perfetto != flow.catapult)
      find("flow_viewers_differ", flow.position, "catapult does not bind it to '" + s.name + "'");
    const bool inside = flow.ts_ns >= s.ts_ns && (flow.ts_ns < s.end_ns() || flow.ts_ns == s.ts_ns);
    if (!inside) find("flow_outside", flow.position, "bound to '" + s.name + "', which has ended");
  }
  void check_pair(const flow_point& from, const flow_point& to) {
    if (from.ts_ns > to.ts_ns || sorted_[from.event] > sorted_[to.event])
      find("flow_order", to.position, "f lies before its s");
    if (from.perfetto == nothing || to.perfetto == nothing) return;
    if (from.perfetto == to.perfetto) find("flow_loop", to.position, "both ends at one slice");
    if (result_.slices[from.perfetto].ts_ns > result_.slices[to.perfetto].ts_ns)
      find("flow_turned", to.position, "points to a slice that begins earlier");
  }

  // --- async -------------------------------------------------------------------------------------------------------

  void check_async() {
    std::map<std::string, int> open;
    std::vector<std::pair<std::size_t, const timed*>> order;
    for (const timed& t : timed_)
      if (const std::string ph = t.event->string("ph"); ph == "b" || ph == "e")
        order.emplace_back(sorted_[t.event], &t);
    std::sort(order.begin(), order.end());
    for (const auto& at : order) {
      const json_node& e = *at.second->event;
      const std::string what = "'" + e.string("name") + "'";
      if (e.find("id") == nullptr) {
        find("async", what + " has no id");
        continue;
      }
      int& depth = open[e.string("cat") + "\n" + id_text(e, "id")];
      depth += e.string("ph") == "b" ? 1 : -1;
      if (depth < 0) find("async", what + " ends without a beginning");
      if (depth > 1) find("async", what + " shares its id with an open one");
      if (depth == 0) ++result_.async_pairs;
    }
    for (const auto& pair : open)
      if (pair.second > 0) find("async", "an async event does not end");
  }

  const std::string& text_;
  checked_trace result_;
  std::vector<timed> timed_;
  std::vector<flow_point> flows_;
  std::map<const json_node*, std::size_t> sorted_;
  std::set<std::string> metadata_;
};

inline checked_trace check_trace(const std::string& text) {
  return trace_checker::check(text);
}

}  // namespace test
