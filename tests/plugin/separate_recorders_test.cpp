// Catches: modules with recorders of their own, of which nothing is in the trace, and nobody says so. This program does
// not export its symbols, so none of the libraries that it loads shares its recorder.
#include <support/catch.hpp>
#include <support/counts.hpp>
#include <support/recorded.hpp>

#include <optional>
#include <string>

#include <stepprof/stepprof.hpp>

#include "library.hpp"

namespace separate_recorders_test {

using test::count;
using test::library;

namespace {

const std::string hidden = "separate_recorders: nothing that is recorded in ";

std::string quoted(const char* path) {
  return "'" + std::string(path) + "'";
}

void record_in(const library& module) {
  module.find<void(void (*)())>("record_in_module")([] { STEPPROF_SCOPE("of the program"); });
}

}  // namespace

// Catches: a trace without the program's own scopes, and silence.
// FC-66: https://github.com/open-telemetry/opentelemetry-cpp/issues/2534
TEST_CASE("a library that profiles a program says that the program has another recorder", "[plugin]") {
  const library module(first_module_library);
  test::start_profile();
  record_in(module);
  const nlohmann::json events = test::stop_profile();
  CHECK(count(events, "of the program") == 0);
  CHECK(count(events, "site of first") == 0);
  const std::string said = test::diagnostics();
  CHECK(said.rfind(hidden + "the program, ", 0) == 0);
  CHECK(test::contains(said, quoted(first_module_library)));
  CHECK(test::contains(said, "-rdynamic"));
  CHECK_FALSE(test::contains(said, quoted(profiling_library)));
  CHECK_FALSE(test::contains(said, "other_headers"));
}

// Catches: the same the other way round.
// FC-66: https://github.com/open-telemetry/opentelemetry-cpp/issues/1520
TEST_CASE("a program that profiles says which libraries have other recorders", "[plugin]") {
  const test::heard heard;
  const library module(first_module_library);
  stepprof::profile prof;
  CHECK(heard.codes() == "separate_recorders");
  record_in(module);
  prof.stop();
  CHECK(heard.codes() == "separate_recorders");
  REQUIRE(heard.all.size() == 1);
  CHECK(test::contains(heard.all[0].text, quoted(first_module_library)));
  const stepprof::trace t = prof.result();
  CHECK(t.events().size() == 1);
  CHECK(test::calls(t, "of the program") == 1);
}

// Catches: other headers taken for other recorders, whose remedy does not help; and a library that is seen only where
// it is loaded before the profile starts.
TEST_CASE("a program that profiles says which libraries have other headers", "[plugin]") {
  for (const bool loaded_late : {true, false}) {
    REQUIRE_FALSE(test::is_loaded(newer_version_library));
    const test::heard heard;
    std::optional<library> module;
    if (!loaded_late) module.emplace(newer_version_library);
    const auto about_headers = [&heard] {
      std::string texts;
      for (const stepprof::diagnostic& d : heard.all)
        if (d.code == "other_headers") texts += d.text;
      return texts;
    };
    stepprof::profile prof;
    CHECK((about_headers() == "") == loaded_late);
    if (loaded_late) module.emplace(newer_version_library);
    record_in(*module);
    prof.stop();
    CHECK(test::contains(about_headers(), "recorded in " + quoted(newer_version_library) + " will be"));
    CHECK(test::contains(about_headers(), STEPPROF_VERSION_TEXT));
  }
}

// Catches: a list that is as long as a program has libraries.
TEST_CASE("many modules are told of by some of them", "[plugin]") {
  stepprof::detail::module_names names;
  CHECK(names.text() == "");
  names.add("");
  CHECK(names.text() == "the program");
  for (int i = 0; i < 20; ++i) names.add(std::to_string(i).c_str());
  CHECK(names.text() == "the program, '0', '1', '2', '3', '4', '5', '6', ...");
}

}  // namespace separate_recorders_test
