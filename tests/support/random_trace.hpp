// Traces made at random from a seed, of everything that rows and exporters look at, with many ties of time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <stepprof/trace/trace_builder.hpp>

namespace test {

/// Up to three threads and an async track, up to `calls` begins, ends and memory reports on each, within 60 ns per 40
/// calls or so: small enough to be counted ns by ns.
class random_trace {
 public:
  static stepprof::trace make(std::uint64_t seed, int calls = 40) { return random_trace(seed).run(calls); }

 private:
  explicit random_trace(std::uint64_t seed) : random_(seed) {}

  struct report {
    stepprof::memory_event event;
    std::uint64_t free_of = 0;  // place in reports_ + 1 of its allocation
  };

  std::int64_t below(std::uint64_t count) { return static_cast<std::int64_t>(random_() % count); }

  stepprof::trace run(int calls) {
    builder_.add_process({});
    builder_.info().has_memory = true;
    builder_.info().has_shapes = true;
    builder_.info().has_stacks = true;
    if (below(2) == 0) builder_.info().scope_cost_ns = 0.5;
    for (std::int64_t threads = 1 + below(3), id = 1; id <= threads; ++id) add_thread(id, calls);
    if (below(2) == 0) add_apart();
    builder_.info().end_ns = last_;
    for (std::int64_t pauses = below(3); pauses > 0; --pauses) {
      const std::int64_t begin = below(static_cast<std::uint64_t>(last_) + 1);
      builder_.add_pause({begin, begin + below(8)});
    }
    add_memory();
    return builder_.finish();
  }

  void add_thread(std::int64_t id, int calls) {
    stepprof::trace_track track;
    track.id = static_cast<std::uint32_t>(id);
    const std::uint32_t index = builder_.add_track(track);
    std::vector<std::uint32_t> open;
    std::int64_t now = below(4);
    for (int i = 0; i < calls; ++i) {
      now += below(2) * below(4);
      const std::int64_t what = below(6);
      const std::uint32_t innermost = open.empty() ? stepprof::npos : open.back();
      if (what < 3) {
        open.push_back(begin(now, innermost));
      } else if (what < 5) {
        report_memory(now, index, innermost);
      } else if (!open.empty()) {
        builder_.event(open.back()).end_ns = now;
        open.pop_back();
      }
      while (!open.empty() && below(4) == 0) {
        builder_.event(open.back()).end_ns = now;
        open.pop_back();
      }
    }
    for (; !open.empty(); open.pop_back()) {
      builder_.event(open.back()).end_ns = now;
      builder_.event(open.back()).flags |= stepprof::trace_event::unfinished;
    }
    last_ = (std::max)(last_, now);
  }
  std::uint32_t begin(std::int64_t now, std::uint32_t parent) {
    constexpr const char* names[] = {"a", "b", "c", "a <\"b\">;", "ProfilerStep#1", "ProfilerStep#22", "step"};
    constexpr const char* shapes[] = {"[[2, 3]]", "[[2, 3], []]", "[]"};
    constexpr const char* stacks[] = {"f (x.cpp:1);g (x.cpp:2);main", "g (x.cpp:2);main", "f (x.cpp:1);main"};
    stepprof::trace_event e;
    e.name = builder_.intern(names[below(7)]);
    e.begin_ns = e.end_ns = now;
    e.parent = parent;
    e.set_kind(static_cast<stepprof::scope_kind>(below(3)));
    const std::uint32_t index = builder_.add_event(e);
    if (below(2) == 0) builder_.detail(index).input_dims = builder_.intern(shapes[below(3)]);
    if (below(2) == 0) builder_.detail(index).stack = builder_.intern(stacks[below(3)]);
    if (below(4) == 0) builder_.detail(index).source_file = builder_.intern("x.cpp");
    return index;
  }
  void add_apart() {
    stepprof::trace_track track;
    track.id = 1;
    track.kind = stepprof::track_kind::async;
    builder_.add_track(track);
    for (std::int64_t events = 1 + below(5); events > 0; --events) {
      const std::uint32_t index = begin(below(static_cast<std::uint64_t>(last_) + 1), stepprof::npos);
      builder_.event(index).end_ns = (std::min)(last_, builder_.event(index).begin_ns + below(9));
    }
  }

  // In one pool of three, on the CPU or on another device.
  void report_memory(std::int64_t now, std::uint32_t track, std::uint32_t event) {
    constexpr const char* pools[] = {"", "pinned", "cuda"};
    report r;
    r.event.time_ns = now;
    r.event.track = track;
    r.event.event = event;
    if (below(3) == 0 && !live_.empty()) {
      const auto at = static_cast<std::size_t>(below(live_.size()));
      r.free_of = live_[at] + 1;
      const stepprof::memory_event& allocated = reports_[live_[at]].event;
      if (allocated.time_ns <= now) {  // another thread's may be later
        r.event.address = allocated.address;
        r.event.bytes = -allocated.bytes;
        r.event.pool = allocated.pool;
        r.event.device_type = allocated.device_type;
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
        reports_.push_back(r);
      }
      return;
    }
    if (below(6) == 0) return builder_.add_unmatched_free({event, 1});
    const std::int64_t pool = below(3);
    r.event.address = 4096 + 64 * reports_.size();
    r.event.bytes = 8 * below(8);
    r.event.pool = pool == 0 ? stepprof::npos : builder_.intern(pools[pool]);
    r.event.device_type = pool == 2 ? std::int16_t{1} : std::int16_t{0};
    live_.push_back(reports_.size());
    reports_.push_back(r);
  }
  // In order of time, frees behind their allocations.
  void add_memory() {
    std::vector<std::size_t> order(reports_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return reports_[a].event.time_ns < reports_[b].event.time_ns;
    });
    std::vector<std::uint32_t> places(reports_.size());
    std::int64_t live[2] = {0, 0};
    for (const std::size_t i : order) {
      report& r = reports_[i];
      std::int64_t& now = live[r.event.device_type == 0 ? 0 : 1];
      r.event.total_allocated = now += r.event.bytes;
      if (r.free_of != 0) r.event.allocation = places[r.free_of - 1];
      places[i] = builder_.add_memory(r.event);
    }
  }

  std::mt19937_64 random_;
  stepprof::trace_builder builder_;
  std::vector<report> reports_;
  std::vector<std::size_t> live_;
  std::int64_t last_ = 0;
};

}  // namespace test
