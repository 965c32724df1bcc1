// Catches: diagnostics that are lost, repeated, or take the program down with their hook.
#include <support/catch.hpp>

#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <stepprof/session/diagnostics.hpp>

namespace diagnostics_test {

using namespace stepprof;

namespace {

// Puts the hook of before back.
struct hook_guard {
  explicit hook_guard(diagnostics_hook hook) : before(set_diagnostics_hook(std::move(hook))) {}
  ~hook_guard() { set_diagnostics_hook(before); }
  diagnostics_hook before;
};

// What `call` writes to stderr.
template <class Call>
std::string stderr_of(const Call& call) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  const int kept = ::dup(2);
  ::dup2(::fileno(file), 2);
  call();
  std::fflush(stderr);
  ::dup2(kept, 2);
  ::close(kept);
  std::string text(4096, '\0');
  std::rewind(file);
  text.resize(std::fread(&text[0], 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace

// Catches: a default that is silent, or writes more than one line.
TEST_CASE("without a hook a diagnostic is one line on stderr", "[diagnostics]") {
  const hook_guard guard({});
  CHECK(stderr_of([] { report_diagnostic({"a", "first"}); }) == "stepprof: warning: first\n");
  CHECK(stderr_of([] { report_diagnostic({"a", "x", diagnostic_severity::info}); }) == "stepprof: info: x\n");
  CHECK(stderr_of([] { report_diagnostic({"a", "x", diagnostic_severity::error}); }) == "stepprof: error: x\n");
}

// Catches: names of the user that clear the terminal or forge a second line.
TEST_CASE("control bytes do not reach the terminal", "[diagnostics]") {
  const hook_guard guard({});
  CHECK(stderr_of([] {
          report_diagnostic({"a", "x\x1b[2Jy\nz\x7f\xc3\xa4"});
        }) == "stepprof: warning: x?[2Jy z?\xc3\xa4\n");
}

// Catches: a hook that gets half of it, or a default that writes beside the hook.
TEST_CASE("a hook gets the diagnostic instead of stderr", "[diagnostics]") {
  std::vector<diagnostic> seen;
  const hook_guard guard([&](const diagnostic& d) { seen.push_back(d); });
  CHECK(stderr_of([] { report_diagnostic({"code", "text", diagnostic_severity::info}); }).empty());
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].code == "code");
  CHECK(seen[0].text == "text");
  CHECK(seen[0].severity == diagnostic_severity::info);
}

// Catches: a set that forgets the hook of before, so that nobody can put it back.
TEST_CASE("setting a hook returns the one before", "[diagnostics]") {
  int first = 0;
  const hook_guard guard([&](const diagnostic&) { ++first; });
  diagnostics_hook before = set_diagnostics_hook([](const diagnostic&) {});
  report_diagnostic({"a", "b"});
  CHECK(first == 0);
  REQUIRE(before);
  set_diagnostics_hook(before);
  report_diagnostic({"a", "b"});
  CHECK(first == 1);
  set_diagnostics_hook({});
  CHECK_FALSE(set_diagnostics_hook({}));
}

// Catches: an exception of the hook that leaves step() or a destructor, or swallows the text with it.
TEST_CASE("what a hook throws is swallowed and the diagnostic goes to stderr", "[diagnostics]") {
  const hook_guard guard([](const diagnostic&) { throw std::runtime_error("bad hook"); });
  CHECK(stderr_of([] { report_diagnostic({"a", "kept"}); }) == "stepprof: warning: kept\n");
  const hook_guard other([](const diagnostic&) { throw 5; });
  CHECK(stderr_of([] { report_diagnostic({"a", "kept"}); }) == "stepprof: warning: kept\n");
  static_assert(noexcept(report_diagnostic({})), "");
}

// Catches: a hook that calls itself for ever, or a lock that is held while it runs.
TEST_CASE("what happens inside a hook goes to stderr", "[diagnostics]") {
  int calls = 0;
  const hook_guard guard([&](const diagnostic& d) {
    ++calls;
    report_diagnostic({"inner", "inside of " + d.text});
  });
  CHECK(stderr_of([] { report_diagnostic({"outer", "one"}); }) == "stepprof: warning: inside of one\n");
  CHECK(stderr_of([] { report_diagnostic({"outer", "two"}); }) == "stepprof: warning: inside of two\n");
  CHECK(calls == 2);
}

// Catches: a hook that is destroyed while it runs, because it set another one.
TEST_CASE("a hook may replace itself", "[diagnostics]") {
  std::vector<std::string> seen;
  const hook_guard guard([&seen, kept = std::string(100, 'k')](const diagnostic& d) {
    set_diagnostics_hook([&seen](const diagnostic& later) { seen.push_back("second " + later.code); });
    seen.push_back(kept.substr(0, 1) + d.code);
  });
  report_diagnostic({"a", ""});
  report_diagnostic({"b", ""});
  CHECK(seen == std::vector<std::string>{"ka", "second b"});
}

// Catches: a profile that repeats itself, or keeps a second profile from speaking.
TEST_CASE("each code is reported once per profile", "[diagnostics]") {
  std::vector<std::string> seen;
  const hook_guard guard([&](const diagnostic& d) { seen.push_back(d.text); });
  detail::diagnostics_once first;
  detail::diagnostics_once second;
  CHECK_FALSE(first.has_reported("a"));
  CHECK(first.report({"a", "1"}));
  CHECK_FALSE(first.report({"a", "2"}));
  CHECK(first.report({"b", "3"}));
  CHECK(second.report({"a", "4"}));
  CHECK(first.has_reported("a"));
  CHECK_FALSE(second.has_reported("b"));
  CHECK(seen == std::vector<std::string>{"1", "3", "4"});
}

// Catches: a hook that reports through the same profile and waits for its lock.
TEST_CASE("a hook may report through the same profile", "[diagnostics]") {
  detail::diagnostics_once once;
  int calls = 0;
  const hook_guard guard([&](const diagnostic&) {
    ++calls;
    once.report({"a", "again"});
  });
  CHECK(stderr_of([&] { once.report({"a", "x"}); }).empty());
  CHECK(calls == 1);
}

}  // namespace diagnostics_test
