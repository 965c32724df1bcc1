#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <stepprof/trace/trace_builder.hpp>
#include <stepprof/output/chrome_trace.hpp>

#include <support/catch.hpp>

namespace chrome_trace_scopes_test {

using namespace stepprof;
using nlohmann::json;

namespace {

// Threads of scopes that follow each other, of 1 ns each.
class scope_list {
 public:
  explicit scope_list(std::uint64_t first_event_index = 0) {
    builder_.add_process({});
    builder_.info().first_event_index = first_event_index;
    thread(1);
  }
  void thread(std::uint32_t id) {
    trace_track track;
    track.id = id;
    builder_.add_track(track);
  }
  std::uint32_t add(const std::string& name, std::uint32_t line = 0) {
    trace_event e;
    e.begin_ns = 2 * time_++;
    e.end_ns = e.begin_ns + 1;
    e.name = builder_.intern(name);
    e.set_kind(scope_kind::op);
    if (line != 0) e.detail = builder_.source(builder_.intern("a.cpp"), line);
    return builder_.add_event(e);
  }
  void set_text(std::uint32_t event, const std::string& key, const std::string& value) {
    trace_argument a;
    a.key = builder_.intern(key);
    a.kind = trace_argument::type::text;
    a.text = builder_.intern(value);
    builder_.set_arguments(event, {a});
  }
  json written() {
    std::string text;
    write_chrome_trace(builder_.finish(), text);
    json slices = json::array();
    const json file = json::parse(text);
    for (const json& e : file.at("traceEvents"))
      if (e.at("ph") == "X" && e.at("cat") == "cpu_op") slices.push_back(e);
    return slices;
  }

 private:
  trace_builder builder_;
  std::int64_t time_ = 0;
};

}  // namespace

// Catches: a scope shown with the place, the keys or the thread of another one of its name.
TEST_CASE("scopes of one name keep their own texts", "[chrome_trace_scopes]") {
  scope_list scopes;
  for (int round = 0; round < 2; ++round) {
    scopes.add("f");
    scopes.add("f", 1);
    scopes.add("f", 2);
    scopes.set_text(scopes.add("f", 2), "a", "1");
    scopes.set_text(scopes.add("f", 2), "b", "2");
    scopes.thread(2);
  }
  const json slices = scopes.written();
  REQUIRE(slices.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) {
    const json& args = slices[i].at("args");
    CHECK(slices[i].at("tid") == (i < 5 ? 1 : 2));
    CHECK(args.value("Source", "") == (i % 5 == 0 ? "" : i % 5 == 1 ? "a.cpp:1" : "a.cpp:2"));
    CHECK(args.value("a", "") == (i % 5 == 3 ? "1" : ""));
    CHECK(args.value("b", "") == (i % 5 == 4 ? "2" : ""));
  }
}

// Catches: a byte that needs an escape missed at some place of a text, or bytes behind a text taken along.
TEST_CASE("texts of every length with an escape at every place", "[chrome_trace_scopes]") {
  scope_list scopes;
  std::vector<std::string> values;
  for (std::size_t size = 0; size < 70; ++size) {
    values.push_back(std::string(size, 'p'));
    for (std::size_t at = 0; at < size; at += size < 20 ? 1 : 7)
      for (const std::string odd : {"\"", "\\", "<", "&", "\x1f", "\n", "\xc3\xa9"})
        values.push_back(std::string(at, '~') + odd + std::string(size - at - 1, ' '));
  }
  for (const std::string& value : values) scopes.set_text(scopes.add("f"), "text", value);
  const json slices = scopes.written();
  REQUIRE(slices.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(slices[i].at("args").at("text") == values[i]);
}

// Catches: texts mixed up once they no longer fit into what is kept, or a name longer than any buffer cut off.
TEST_CASE("more and longer names than are kept", "[chrome_trace_scopes]") {
  scope_list scopes;
  const auto name = [](int i) { return std::string(i % 100 == 0 ? 300000 : 1500, 'n') + std::to_string(i); };
  constexpr int count = 10000;
  for (int i = 0; i < count; ++i) scopes.add(name(i / 2));
  const json slices = scopes.written();
  REQUIRE(slices.size() == count);
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += slices[static_cast<std::size_t>(i)].at("name") != name(i / 2) ? 1 : 0;
  CHECK(wrong == 0);
}

// Catches: the ids of a scope told from those of the one before where they cannot be.
TEST_CASE("ids go on over every number of digits", "[chrome_trace_scopes]") {
  for (const std::uint64_t first :
       {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{99999995}, std::uint64_t{9999999999}}) {
    scope_list scopes(first);
    for (int i = 0; i < 12; ++i) scopes.add("f");
    const json slices = scopes.written();
    REQUIRE(slices.size() == 12);
    for (std::uint64_t i = 0; i < 12; ++i) {
      CHECK(slices[i].at("args").at("Ev Idx") == first + i);
      CHECK(slices[i].at("args").at("External id") == first + i + 1);
    }
  }
}

}  // namespace chrome_trace_scopes_test
