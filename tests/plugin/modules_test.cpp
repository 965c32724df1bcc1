// Catches: modules of a program that each record for themselves, or for nobody.
#include <support/catch.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <stepprof/record.hpp>

#include "archive.hpp"
#include "library.hpp"

namespace modules_test {

using nlohmann::json;
using test::count;
using test::library;
using test::start_profile;
using test::stop_profile;

namespace {

using recording_function = void(void (*)());

// Scopes of a name, in the order of the file.
std::vector<json> named(const json& events, const std::string& name) {
  std::vector<json> found;
  for (const json& event : events)
    if (event.at("ph") == "X" && event.at("name") == name) found.push_back(event);
  return found;
}

bool is_inside(const json& inner, const json& outer) {
  const auto begin = [](const json& e) { return e.at("ts").get<double>(); };
  const auto end = [&](const json& e) { return begin(e) + e.at("dur").get<double>(); };
  return inner.at("tid") == outer.at("tid") && begin(inner) >= begin(outer) && end(inner) <= end(outer) + 1e-3;
}

const library* second_module = nullptr;

}  // namespace

// Catches: a recorder for each library whose symbols are hidden, that is loaded for itself alone, or that another
// compiler made: nothing of it in the trace, or threads with a number for each library.
// FC-66: https://github.com/open-telemetry/opentelemetry-cpp/issues/1520,
// https://github.com/open-telemetry/opentelemetry-cpp/issues/2534, https://github.com/NERSC/timemory/issues/96
TEST_CASE("all modules of a program record into one trace", "[plugin]") {
  const library first(first_module_library), second(second_module_library);
  second_module = &second;
  start_profile();
  {
    STEPPROF_SCOPE("of the program");
    record_in_archive();
    first.find<recording_function>("record_in_module")(
        [] { second_module->find<recording_function>("record_in_module")(nullptr); });
  }
  for (const library* module : {&first, &second}) module->find<void()>("record_on_thread_of_module")();
  const json events = stop_profile();

  CHECK(test::diagnostics() == "");
  CHECK(count(events, "of the archive") == 5);
  CHECK(count(events, "name of the archive") == 5);
  const std::vector<json> program = named(events, "of the program");
  REQUIRE(program.size() == 1);
  std::vector<json> chain = program;
  for (const char* const name : {"site of first", "name of first", "site of second", "name of second"}) {
    const std::vector<json> found = named(events, name);
    REQUIRE(found.size() == 1);
    CHECK(is_inside(found[0], chain.back()));
    chain.push_back(found[0]);
  }
  CHECK(chain[2].at("args").at("key of first") == "first");
  CHECK(chain[4].at("args").at("key of second") == "second");
  const std::vector<json> archive = named(events, "of the archive");
  CHECK(is_inside(archive[0], program[0]));
  CHECK(is_inside(archive[1], chain[2]));
  CHECK(is_inside(archive[2], chain[4]));

  // The three modules' main thread, and one of each library.
  std::set<std::int64_t> threads;
  for (const json& event : events)
    if (event.at("ph") == "X" && event.at("tid").is_number() && event.at("cat") != "Trace")
      threads.insert(event.at("tid").get<std::int64_t>());
  CHECK(threads.size() == 3);
  for (const std::string module : {"first", "second"}) {
    const std::vector<json> found = named(events, "thread's site of " + module);
    REQUIRE(found.size() == 1);
    bool has_its_name = false;
    for (const json& event : events)
      has_its_name |= event.at("ph") == "M" && event.at("name") == "thread_name" &&
                      event.at("tid") == found[0].at("tid") && event.at("args").at("name") == "thread of " + module;
    CHECK(has_its_name);
  }
}

// Catches: two versions of the headers in one program that take each other's tables and logs for their own.
// FC-66: https://github.com/open-telemetry/opentelemetry-cpp/issues/1520
TEST_CASE("modules with other versions of the headers record for themselves", "[plugin]") {
  const library newer(newer_version_library), other(other_abi_library);
  start_profile();
  {
    STEPPROF_SCOPE("of the program");
    // Nothing records with their versions.
    for (const library* module : {&newer, &other}) {
      module->find<recording_function>("record_in_module")(nullptr);
      module->find<void()>("record_on_thread_of_module")();
    }
  }
  start_profile(other_abi_library);  // the same version with another number of the ABI; both record now
  {
    STEPPROF_SCOPE("of the program");
    for (const library* module : {&newer, &other}) {
      module->find<recording_function>("record_in_module")([] { STEPPROF_SCOPE("of the program, inside"); });
      module->find<void()>("record_on_thread_of_module")();
    }
  }
  const json own = stop_profile();
  other.find<recording_function>("record_in_module")([] { STEPPROF_SCOPE("of the program, inside"); });
  const json others = stop_profile(other_abi_library);

  const std::string said = test::diagnostics();
  CHECK(said.rfind("other_headers: nothing that is recorded in ", 0) == 0);
  for (const char* const module : {newer_version_library, other_abi_library})
    CHECK(said.find("'" + std::string(module) + "'") != std::string::npos);
  CHECK(said.find(first_module_library) == std::string::npos);
  CHECK(said.find("the program") == std::string::npos);
  CHECK(said.find("separate_recorders") == std::string::npos);
  CHECK(test::diagnostics(other_abi_library).find("the program") != std::string::npos);
  CHECK(count(own, "of the program") == 2);
  CHECK(count(own, "of the program, inside") == 2);
  CHECK(count(others, "site of another ABI") == 2);
  CHECK(count(others, "name of another ABI") == 2);
  CHECK(count(others, "thread's site of another ABI") == 1);
  for (const json* events : {&own, &others}) {
    const bool is_own = events == &own;
    CHECK(count(*events, "site of a newer version") == 0);
    CHECK((count(*events, "of the program") != 0) == is_own);
    CHECK((count(*events, "site of another ABI") != 0) == !is_own);
    for (const json& event : *events)
      if (event.at("ph") == "X" && event.at("cat") != "Trace")
        CHECK(event.at("name").get<std::string>().find("of the program") == (is_own ? 0 : std::string::npos));
  }
}

}  // namespace modules_test
