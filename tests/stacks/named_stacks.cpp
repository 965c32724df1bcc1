// Names for native stacks of optimised code. Linked with
// functions that keep frame pointers and with some that do not.
#include <support/catch.hpp>
#include <stacks/called_functions.hpp>
#include <support/skip.hpp>
#include <support/temp_folder.hpp>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <stepprof/adapters/elfutils.hpp>
#ifdef WITH_LIBUNWIND
#include <stepprof/adapters/libunwind.hpp>
#endif
#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

namespace named_stacks {

namespace {

stepprof::profile_options with_stacks(std::size_t depth = 64) {
  stepprof::profile_options options;
  options.with_stack = true;
  options.stack_depth = depth;
  return options;
}

std::vector<std::string> frames_of(const stepprof::trace& t, const stepprof::trace_event& e) {
  std::vector<std::string> frames;
  std::istringstream text{std::string(t.call_stack(t.detail(e)))};
  for (std::string frame; std::getline(text, frame, ';');) frames.push_back(frame);
  return frames;
}
// Of the first event with this name.
std::vector<std::string> frames_of(const stepprof::trace& t, std::string_view name) {
  for (const stepprof::trace_event& e : t.events())
    if (t.name(e) == name) return frames_of(t, e);
  return {};
}
// `called_functions.cpp(17): outer()` -> `outer()`; the file must be that one. clang makes one piece of code of several
// and then does not know the line: `outer() [program+0x12]`.
std::vector<std::string> functions(const std::vector<std::string>& frames, std::size_t count) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < count && i < frames.size(); ++i) {
    CAPTURE(frames[i]);
    const std::size_t colon = frames[i].find("): ");
    const std::size_t module = frames[i].find(" [");
    REQUIRE((colon != std::string::npos || module != std::string::npos));
    if (colon != std::string::npos) CHECK(frames[i].find("called_functions.cpp(") != std::string::npos);
    result.push_back(colon != std::string::npos ? frames[i].substr(colon + 3) : frames[i].substr(0, module));
  }
  return result;
}
using names = std::vector<std::string>;

class library {
 public:
  explicit library(const std::string& path) : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) FAIL(::dlerror());
  }
  ~library() { ::dlclose(handle_); }
  library(const library&) = delete;
  library& operator=(const library&) = delete;
  [[nodiscard]] void* call() const {
    void* const function = ::dlsym(handle_, "call");
    REQUIRE(function != nullptr);
    reinterpret_cast<void (*)()>(function)();
    return function;
  }

 private:
  void* handle_;
};
// Loads a library, records a scope in it and unloads it. Where it was.
void* record_in(const std::string& path) {
  void* where = nullptr;
  {
    const library loaded(path);
    where = loaded.call();
  }
  void* const still = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(still == nullptr);
  return where;
}
bool holds(const names& frames, std::string_view text) {
  for (const std::string& frame : frames)
    if (frame.find(text) != std::string::npos) return true;
  return false;
}

}  // namespace

#ifdef WITH_LIBUNWIND
// Catches: an adapter that is included and not used.
TEST_CASE("libunwind walks the stacks", "[stacks]") {
  if (!stepprof::detail::libunwind_is_installed) return test::skip("libunwind.so.8 is not installed");
  const std::uint32_t before = stepprof::detail::libunwind_unloads;
  stepprof::profile prof(with_stacks());
  scope_by_macro();
  prof.stop();
  CHECK(before == 0);
  CHECK(stepprof::detail::libunwind_unloads != 0);
}
#endif

// Catches: frames that are lost or come in another order where there is no frame pointer; frames of the recorder left
// on top; the line behind a call instead of the call's; inlined calls that vanish; a kind of scope that has no stack.
TEST_CASE("the stack of a scope names the functions that called it", "[stacks]") {
  stepprof::profile prof(with_stacks());
  outer();
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.info().has_stacks);
  CHECK(functions(frames_of(t, "by macro"), 3) == names{"scope_by_macro()", "middle()", "outer()"});
  CHECK(functions(frames_of(t, "by name"), 3) ==
        names{"(anonymous namespace)::scope_by_name(char const*)", "middle()", "outer()"});
  CHECK(functions(frames_of(t, "by hand"), 3) ==
        names{"(anonymous namespace)::scope_by_hand()", "middle()", "outer()"});
  const bool knows_inlined = frames_of(t, "inlined")[0].find("inlined_helper") != std::string::npos;
  names inlined = {"(anonymous namespace)::has_inlined()", "middle()", "outer()"};
  if (knows_inlined) inlined.insert(inlined.begin(), "inlined_helper");
  CHECK(functions(frames_of(t, "inlined"), inlined.size()) == inlined);
#ifndef __clang__
  CHECK(knows_inlined);
#endif
  CHECK(holds(frames_of(t, "by macro"), "main"));
  // Where middle() calls: its first statement and its second one.
  CHECK(frames_of(t, "by macro")[1].find("called_functions.cpp(38)") != std::string::npos);
  CHECK(frames_of(t, "by name")[1].find("called_functions.cpp(39)") != std::string::npos);
}

// Catches: a stack that is cut at its inner end, that is kept whole, or that is cut and nobody hears of it.
TEST_CASE("of a stack of a thousand frames the innermost ones are kept", "[stacks]") {
  for (const std::size_t depth : {std::size_t{1}, std::size_t{64}, std::size_t{256}}) {
    stepprof::profile prof(with_stacks(depth));
    descend(1000);
    stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
    prof.stop();
    stepprof::set_diagnostics_hook(nullptr);
    const stepprof::trace t = prof.result();
    REQUIRE(t.native_stacks().size() == 1);
    CHECK(t.native_stacks()[0].cut);
    CHECK(t.native_stacks()[0].frame_count == depth);
    const names frames = functions(frames_of(t, "by macro"), 1000);
    REQUIRE(frames.size() == depth);
    CHECK(frames[0] == "scope_by_macro()");
    for (std::size_t i = 1; i < depth; ++i) CHECK(frames[i] == "descend(int)");
    REQUIRE(t.notes().size() == 1);
    CHECK(t.notes()[0].code == "stacks_cut");
    CHECK(t.notes()[0].text.substr(0, 11) == "1 scope(s) ");
  }
}

// Catches: a stack per scope, and an entry of details per scope, where all have the same.
TEST_CASE("equal stacks are kept once", "[stacks]") {
  stepprof::profile prof(with_stacks());
  for (int i = 0; i < 1000; ++i) outer();
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.events().size() == 4000);
  CHECK(t.native_stacks().size() == 4);
  CHECK(t.details().size() <= 8);
}

// FC-65: https://github.com/wolfpld/tracy/issues/95
// Catches: names that are looked up in what is loaded when somebody looks.
TEST_CASE("a library that was unloaded before the export has its names", "[stacks]") {
  stepprof::profile prof(with_stacks());
  record_in(first_library);
  prof.stop();
  const stepprof::trace t = prof.result();
  const names frames = frames_of(t, "of the library");
  REQUIRE(frames.size() > 2);
#if !defined(__clang__)  // which says that the call is in the header where it was inlined from
  CHECK(frames[0].find("marking_library.cpp(") != std::string::npos);
#endif
  CHECK(frames[0].find("function_of_first") != std::string::npos);
  CHECK(frames[1].find(": call") != std::string::npos);
  CHECK(holds(frames, "record_in"));
}

// Catches: addresses that are told apart by their value alone, although another library was loaded there meanwhile.
TEST_CASE("a library in the place of an unloaded one has names of its own", "[stacks]") {
  stepprof::profile prof(with_stacks());
  std::vector<void*> where;  // from one line: all other frames are the same
  for (const char* const path : {first_library, second_library, first_library}) where.push_back(record_in(path));
  prof.stop();
  const stepprof::trace t = prof.result();
  if (where[0] != where[1] || where[1] != where[2]) WARN("the libraries were not loaded at one address");
  REQUIRE(t.events().size() == 3);
  CHECK(frames_of(t, t.events()[0])[0].find("function_of_first") != std::string::npos);
  CHECK(frames_of(t, t.events()[1])[0].find("function_of_second") != std::string::npos);
  CHECK(frames_of(t, t.events()[2])[0].find("function_of_first") != std::string::npos);
}

// Catches: a name of some other function, or nothing, where there is no symbol.
TEST_CASE("without symbols there is the module and the offset", "[stacks]") {
  stepprof::profile prof(with_stacks());
  record_in(stripped_library);
  prof.stop();
  const stepprof::trace t = prof.result();
  const names frames = frames_of(t, "of the library");
  REQUIRE(frames.size() > 2);
  CHECK(frames[0].substr(0, 26) == "[libstripped_library.so+0x");
  CHECK(frames[1].substr(0, 6) == "call [");  // is exported
}

// Catches: names out of a file that has taken the place of the one that was loaded.
TEST_CASE("a file that was replaced gives no names", "[stacks]") {
  const test::temp_folder folder;
  const std::filesystem::path copy = folder.path() / "library.so";
  std::filesystem::copy_file(first_library, copy);
  stepprof::profile prof(with_stacks());
  record_in(copy.string());
  prof.stop();
  std::filesystem::remove(copy);
  std::filesystem::copy_file(second_library, copy);
  const stepprof::trace t = prof.result();
  CHECK(frames_of(t, "of the library")[0].substr(0, 14) == "[library.so+0x");
}

// Catches: stacks that are lost on the way into a file and out of it, or are joined otherwise than PyTorch's.
TEST_CASE("stacks go through a file", "[stacks]") {
  stepprof::profile prof(with_stacks());
  outer();
  prof.stop();
  const stepprof::trace t = prof.result();
  std::stringstream file;
  stepprof::export_chrome_trace(t, file);
  const auto slices = nlohmann::json::parse(file.str()).at("traceEvents");
  for (const nlohmann::json& e : slices) {
    if (e.at("ph") != "X" || !e.contains("args") || !e.at("args").contains("Ev Idx")) continue;
    const std::string text = e.at("args").at("Call stack");
    CHECK(text.back() == ';');
  }
  const stepprof::trace back = stepprof::read_trace(file);
  CHECK(back.info().has_stacks);
  REQUIRE(back.events().size() == t.events().size());
  for (std::size_t i = 0; i < t.events().size(); ++i) {
    CHECK(back.name(back.events()[i]) == t.name(t.events()[i]));
    CHECK(back.call_stack(back.detail(back.events()[i])) == t.call_stack(t.detail(t.events()[i])));
  }
}

// Catches: rows that are told apart by addresses instead of frames, and a table without its column.
TEST_CASE("averages by native stack", "[stacks]") {
  stepprof::profile prof(with_stacks());
  scope_by_macro();
  for (int i = 0; i < 3; ++i) middle();
  prof.stop();
  stepprof::key_averages_options options;
  options.group_by_stack_n = 2;
  options.stack = stepprof::stack_source::native;
  const stepprof::event_averages rows = stepprof::key_averages(prof.result(), options);
  std::vector<std::int64_t> calls;
  for (const stepprof::event_average& row : rows.rows)
    if (row.name == "by macro") {
      REQUIRE(row.stack.size() == 2);
      CHECK(row.stack[0].find("scope_by_macro()") != std::string::npos);
      calls.push_back(row.calls);
    }
  CHECK(calls == std::vector<std::int64_t>{1, 3});
  CHECK(rows.table().find("Source Location") != std::string::npos);
  CHECK(rows.table().find("middle()") != std::string::npos);
}

}  // namespace named_stacks
