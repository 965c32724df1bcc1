// The key `stepprof` of a trace file that stepprof wrote: what the Chrome format itself cannot say.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <stepprof/output/chrome_trace_head.hpp>
#include <stepprof/output/chrome_trace_texts.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/loss_fields.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// Our writer puts `user.` in front of a user's key that has a meaning of its own; this takes it away again.
template <class IsReserved>
std::string without_user_prefix(const std::string& key, IsReserved is_reserved) {
  constexpr std::string_view prefix = "user.";
  const bool has_prefix = key.compare(0, prefix.size(), prefix) == 0;
  return has_prefix && is_reserved(std::string_view(key).substr(prefix.size())) ? key.substr(prefix.size()) : key;
}
inline std::string unprefixed_argument(const std::string& key) {
  return without_user_prefix(key, is_reserved_argument);
}
inline std::string unprefixed_file_key(const std::string& key) {
  return without_user_prefix(key, chrome_trace_head::is_reserved_key);
}

// An integer of a file, the nearest one where it does not fit.
inline std::int64_t json_integer(const nlohmann::json& value, std::int64_t otherwise = 0) {
  if (value.is_number_unsigned()) return saturating_cast<std::int64_t>(value.get<std::uint64_t>());
  return value.is_number_integer() ? value.get<std::int64_t>() : otherwise;
}

// All of it, with pid and tid as the file shows them and events by their "Ev Idx" (-1: none).
struct own_facts {
  struct step {
    trace_step step;
    std::int64_t event = -1;
  };
  struct unmatched {
    std::int64_t event = -1;
    std::uint32_t count = 0;
  };
  struct track {
    std::int64_t pid = 0;
    trace_track track;
  };

  bool valid = false;  // the file is ours, of a schema that we know
  std::int64_t zero_ns = 0;
  std::uint64_t arrows_left_out = 0;
  trace_info info;
  loss_counts losses;
  std::vector<trace_note> notes;
  std::vector<step> steps;
  std::vector<paused_interval> pauses;
  std::vector<unmatched> unmatched_frees;
  std::vector<trace_process> processes;
  std::vector<track> tracks;
};

// Reads the object. Missing or odd fields keep their defaults: a file that some tool has changed is still read.
class own_facts_reader {
 public:
  static own_facts read(const std::string& text) {
    own_facts facts;
    const json object = json::parse(text, nullptr, false);
    facts.valid = object.is_object() && integer(object, "schema") == 1;
    if (!facts.valid) return facts;
    facts.zero_ns = integer(object, "zero_ns");
    facts.arrows_left_out = count(at(object, "flows"), "left_out");
    read_info(object, facts.info);
    read_losses(at(object, "losses"), facts.losses);
    for (const json& note : list(object, "notes"))
      facts.notes.push_back({text_at(note, "code"), text_at(note, "text")});
    for (const json& s : list(object, "steps")) {
      const trace_step step{integer(s, "number"), integer(s, "begin_ns"), integer(s, "end_ns"), npos,
                            boolean(s, "complete")};
      facts.steps.push_back({step, integer(s, "event", -1)});
    }
    for (const json& p : list(object, "pauses"))
      if (p.is_array() && p.size() == 2) facts.pauses.push_back({json_integer(p[0]), json_integer(p[1])});
    for (const json& f : list(object, "unmatched_frees"))
      facts.unmatched_frees.push_back({integer(f, "event", -1), saturating_cast<std::uint32_t>(integer(f, "count"))});
    for (const json& p : list(object, "processes")) facts.processes.push_back(process(p));
    for (const json& t : list(object, "tracks")) facts.tracks.push_back({integer(t, "pid"), track(t)});
    return facts;
  }

 private:
  using json = nlohmann::json;

  static const json& at(const json& object, const char* key) {
    static const json nothing;
    const auto found = object.is_object() ? object.find(key) : object.end();
    return object.is_object() && found != object.end() ? *found : nothing;
  }
  static const json& list(const json& object, const char* key) {
    static const json empty = json::array();
    const json& value = at(object, key);
    return value.is_array() ? value : empty;
  }
  static std::int64_t integer(const json& object, const char* key, std::int64_t otherwise = 0) {
    return json_integer(at(object, key), otherwise);
  }
  // Numbers beyond int64 are written as texts.
  static std::uint64_t count(const json& object, const char* key) {
    const json& value = at(object, key);
    if (value.is_string()) return std::strtoull(value.get_ref<const std::string&>().c_str(), nullptr, 10);
    if (value.is_number_unsigned()) return value.get<std::uint64_t>();
    return saturating_cast<std::uint64_t>(json_integer(value));
  }
  static bool boolean(const json& object, const char* key) {
    const json& value = at(object, key);
    return value.is_boolean() && value.get<bool>();
  }
  static std::string text_at(const json& object, const char* key) {
    const json& value = at(object, key);
    return value.is_string() ? value.get<std::string>() : std::string();
  }

  static double real(const json& object, const char* key) {
    const json& value = at(object, key);
    return value.is_number() ? value.get<double>() : 0;
  }

  static void read_info(const json& object, trace_info& info) {
    info.begin_ns = integer(object, "begin_ns");
    info.end_ns = integer(object, "end_ns");
    info.base_time_ns = integer(object, "base_time_ns");
    info.base_time_error_ns = integer(object, "base_time_error_ns");
    info.wall_shift_ns = integer(object, "wall_shift_ns");
    info.cycle = integer(object, "cycle");
    info.first_step = integer(object, "first_step", -1);
    info.last_step = integer(object, "last_step", -1);
    // So that "Ev Idx" of every event still is a number of 63 bits.
    info.first_event_index = (std::min)(count(object, "first_event_index"), std::uint64_t{1} << 62);
    info.partial = boolean(object, "partial");
    info.scope_cost_ns = real(object, "scope_cost_ns");
    info.scope_cost_inside_ns = real(object, "scope_cost_inside_ns");
    info.profiler_bytes = count(object, "profiler_bytes");
    info.clock = text_at(object, "clock");
  }
  static void read_losses(const json& object, loss_counts& losses) {
    for (const auto& [key, field] : loss_fields) losses.*field = count(object, key);
  }
  static trace_process process(const json& object) {
    trace_process p;
    p.pid = integer(object, "pid", 1);
    p.os_pid = integer(object, "os_pid");
    if (p.os_pid == p.pid) p.os_pid = 0;
    p.rank = integer(object, "rank", -1);
    p.host = text_at(object, "host");
    p.name = text_at(object, "name");
    p.labels = text_at(object, "labels");
    p.sort_index = integer(object, "sort_index");
    return p;
  }
  static trace_track track(const json& object) {
    trace_track t;
    const std::string kind = text_at(object, "kind");
    t.kind = kind == "async" ? track_kind::async : kind == "device" ? track_kind::device : track_kind::thread;
    t.id = saturating_cast<std::uint32_t>(integer(object, "tid"));
    t.os_id = count(object, "os_id");
    t.name = text_at(object, "name");
    t.sort_index = integer(object, "sort_index");
    return t;
  }
};

}  // namespace detail

STEPPROF_END_NAMESPACE
