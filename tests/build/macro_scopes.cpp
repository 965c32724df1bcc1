// Scopes of the macros wherever a program may put them, in two files that share an inline function.
// FC-71: https://github.com/wolfpld/tracy/issues/103
// Catches: names of variables that meet, warnings of names that hide others, scopes of different places that are one.
#include <cstdio>
#include <string>

#include <stepprof/stepprof.hpp>

#include "macro_scopes.hpp"

void another_file();

namespace {

template <class T>
T in_a_template(T value) {
  STEPPROF_SCOPE("in a template");
  return value;
}

// clang-format off
void two_on_one_line() {
  STEPPROF_SCOPE("first of a line"); STEPPROF_SCOPE("second of a line");
}
// clang-format on

void blocks() {
  STEPPROF_SCOPE("outer");
  STEPPROF_SCOPE("next to it");
  {
    STEPPROF_SCOPE("inner");
    const auto lambda = [] {
      STEPPROF_SCOPE("in a lambda");
      return 1;
    };
    lambda();
  }
  if (in_a_template(true)) {
    STEPPROF_SCOPE("in an if");
  }
  switch (in_a_template(1)) {
    case 1: {
      STEPPROF_SCOPE("in a switch");
      break;
    }
    default:
      break;
  }
  for (int i = 0; i < 3; ++i) {
    STEPPROF_SCOPE("in a loop");
  }
}

}  // namespace

int main() {
  stepprof::profile prof;
  two_on_one_line();
  blocks();
  in_an_inline_function();
  another_file();
  prof.stop();
  const stepprof::event_averages averages = prof.key_averages();
  struct expected {
    const char* name;
    std::int64_t calls;
  };
  constexpr expected all[] = {
      {"first of a line", 1}, {"second of a line", 1}, {"outer", 1},        {"next to it", 1},
      {"inner", 1},           {"in a lambda", 1},      {"in an if", 1},     {"in a switch", 1},
      {"in a loop", 3},       {"in a template", 2},    {"another file", 1}, {"in an inline function", 2}};
  int faults = averages.rows.size() == sizeof all / sizeof all[0] ? 0 : 1;
  for (const expected& e : all) {
    const stepprof::event_average* const row = averages.find(e.name);
    if (row != nullptr && row->calls == e.calls) continue;
    std::fprintf(stderr, "%s: %lld calls\n", e.name, row == nullptr ? 0LL : static_cast<long long>(row->calls));
    ++faults;
  }
  return faults == 0 ? 0 : 1;
}
