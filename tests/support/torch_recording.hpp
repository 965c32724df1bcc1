// What the tests of the libtorch adapter ask again and again: a recording, the events of a name, the arrows.
#pragma once

#include <support/torch_catch.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <support/recorded.hpp>

#include <stepprof/adapters/torch.hpp>
#include <stepprof/analysis/flow_pairs.hpp>
#include <stepprof/stepprof.hpp>

namespace test {

inline stepprof::profile_options torch_options(bool shapes = true, bool memory = true) {
  stepprof::profile_options options;
  options.record_shapes = shapes;
  options.profile_memory = memory;
  return options;
}

// One window around `body`.
inline stepprof::trace recorded_torch(const std::function<void()>& body,
                                      const stepprof::profile_options& options = torch_options()) {
  const stepprof::torch_observer observer;
  stepprof::profile prof(options);
  body();
  prof.stop();
  return prof.result();
}

inline std::vector<std::uint32_t> events_named(const stepprof::trace& t, std::string_view name) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < t.events().size(); ++i)
    if (t.name(t.events()[i]) == name) found.push_back(i);
  return found;
}
inline std::uint32_t event_named(const stepprof::trace& t, std::string_view name) {
  const std::vector<std::uint32_t> found = events_named(t, name);
  CAPTURE(std::string(name));
  REQUIRE(found.size() == 1);
  return found[0];
}
inline const stepprof::event_detail& detail_of(const stepprof::trace& t, std::uint32_t event) {
  return t.detail(t.events()[event]);
}
inline std::int64_t number_of(const stepprof::trace& t, std::uint32_t event) {
  return detail_of(t, event).sequence_number;
}
inline std::string name_of(const stepprof::trace& t, std::uint32_t event) {
  return std::string(t.name(t.events()[event]));
}
inline std::uint32_t thread_of(const stepprof::trace& t, std::uint32_t event) {
  return t.tracks()[t.events()[event].track].id;
}
inline std::string parent_of(const stepprof::trace& t, std::uint32_t event) {
  const std::uint32_t parent = t.events()[event].parent;
  return parent == stepprof::npos ? "" : name_of(t, parent);
}
inline std::string dims_of(const stepprof::trace& t, std::uint32_t event) {
  return std::string(t.text(detail_of(t, event).input_dims));
}

// "aten::mul -> MulBackward0" and how often. Every arrow joins a number to the same number, and the node names the
// thread of the op.
inline std::map<std::string, int> arrows_of(const stepprof::trace& t) {
  std::map<std::string, int> arrows;
  for (const stepprof::trace_link& link : stepprof::flow_pairs(t)) {
    ++arrows[name_of(t, link.from) + " -> " + name_of(t, link.to)];
    CHECK(number_of(t, link.from) == number_of(t, link.to));
    CHECK(thread_of(t, link.from) == detail_of(t, link.to).forward_thread);
    CHECK(t.events()[link.from].begin_ns <= t.events()[link.to].begin_ns);
  }
  return arrows;
}

using arrow_counts = std::map<std::string, int>;

inline torch::Tensor parameter(std::vector<std::int64_t> sizes) {
  return torch::ones(sizes, torch::requires_grad());
}

}  // namespace test
