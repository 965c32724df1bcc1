// Cases from the field in a program without exceptions and RTTI, of which one file has both.
// Catches: a count, a text or an error that depends on exceptions; a failed export that ends such a program, reports
// success, leaves a file or spoils the next export.
// FC-70: biojppm/rapidyaml#359, martinus/nanobench PR125, jeremy-rifkin/cpptrace#55
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <stepprof/stepprof.hpp>
#include <support/strict_json.hpp>

#include "checks.hpp"

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "compiled with -fno-exceptions and -fno-rtti"
#endif

void scope_with_exceptions();

namespace {

stepprof::profile_options small() {
  stepprof::profile_options options;
  options.event_budget_bytes = std::size_t{1} << 20;
  return options;
}

std::unique_ptr<stepprof::profile> started(const stepprof::profile_options& options) {
  std::error_code ec;
  std::unique_ptr<stepprof::profile> prof = stepprof::profile::create(options, ec);
  check(!ec && prof != nullptr, "a profile starts");
  if (prof == nullptr) std::exit(1);
  return prof;
}

std::int64_t calls(const stepprof::event_averages& averages, const char* name) {
  const stepprof::event_average* row = averages.find(name);
  return row == nullptr ? 0 : row->calls;
}

// FC-01: pytorch/pytorch#73828, pytorch/pytorch PR133095
void counts_follow_from_the_schedule(std::int64_t wait, std::int64_t warmup, std::int64_t active, std::int64_t repeat,
                                     bool accumulate) {
  constexpr std::int64_t steps = 100;
  stepprof::profile_options options = small();
  options.schedule = stepprof::schedule{wait, warmup, active, repeat};
  options.accumulate = accumulate;
  const std::unique_ptr<stepprof::profile> prof = started(options);
  for (std::int64_t i = 0; i < steps; ++i) {
    { STEPPROF_SCOPE("s"); }
    scope_with_exceptions();
    prof->step();
  }
  prof->stop();
  const std::int64_t fitting = steps / (wait + warmup + active);
  const std::int64_t completed = repeat == 0 ? fitting : (std::min)(repeat, fitting);
  const std::int64_t expected = active * (accumulate ? completed : 1);
  const stepprof::event_averages averages = prof->key_averages();
  const bool right = calls(averages, "s") == expected && calls(averages, "with exceptions") == expected &&
                     calls(averages, "ProfilerStep*") == expected && prof->result().info().cycle == completed - 1;
  check(right, ("calls with wait " + std::to_string(wait) + ", warmup " + std::to_string(warmup) + ", active " +
                std::to_string(active) + ", repeat " + std::to_string(repeat) + (accumulate ? ", accumulated" : ""))
                   .c_str());
}

// The names of the events of one phase, in order.
std::string names_of(const test::json_node& root, const char* phase) {
  std::string names;
  for (const test::json_node& event : root.at("traceEvents").items)
    if (event.string("ph") == phase) names += event.string("name");
  return names;
}

// FC-40: pytorch/kineto PR1459, pytorch/pytorch#98432, pytorch/pytorch#113001
// `shown` is what the file has for the text.
void text_comes_back(const std::string& text, const std::string& shown) {
  const std::unique_ptr<stepprof::profile> prof = started(small());
  stepprof::set_thread_name(text);
  stepprof::set_process_name(text);
  {
    const stepprof::record_function scope(text, stepprof::arg(text, text));
    stepprof::mark(text);
    stepprof::counter(text, 1);
  }
  prof->stop();
  prof->add_metadata("text", text);
  prof->add_metadata(text, "value");
  std::error_code ec;
  std::ostringstream out;
  const auto wrong = [&shown](const char* what) { return "the text " + shown + ": " + what; };
  prof->export_chrome_trace(out, ec);
  const test::json_document file = test::strict_json::parse(out.str());
  check(!ec && file.ok(), wrong("valid JSON").c_str());
  check(file.root.string("text") == shown, wrong("metadata").c_str());
  check(file.root.string(shown) == (shown == "text" ? shown : "value"), wrong("a key of metadata").c_str());
  int scopes = 0;
  std::string threads;
  std::string processes;
  for (const test::json_node& event : file.root.at("traceEvents").items) {
    if (event.string("name") == "thread_name") threads += event.at("args").string("name") + "\n";
    if (event.string("name") == "process_name") processes += event.at("args").string("name") + "\n";
    if (event.string("ph") != "X" || event.string("cat") != "user_annotation") continue;
    ++scopes;
    check(event.string("name") == shown, wrong("a scope's name").c_str());
    check(event.at("args").string(shown) == shown, wrong("an argument").c_str());
  }
  check(scopes == 1, wrong("one scope").c_str());
  check(names_of(file.root, "C").find(shown) != std::string::npos, wrong("a counter").c_str());
  check((names_of(file.root, "i") + names_of(file.root, "I")).find(shown) != std::string::npos,
        wrong("a mark").c_str());
  const std::string until_zero = shown.substr(0, shown.find('\0'));
  check(threads.find(until_zero) != std::string::npos, wrong("a thread's name").c_str());
  check(processes.find(until_zero) != std::string::npos, wrong("a process's name").c_str());
}

void texts_come_back() {
  for (int c = 0; c < 256; ++c) {
    const std::string byte(1, static_cast<char>(c));
    const std::string shown = c < 0x80 ? byte : "\xef\xbf\xbd";
    text_comes_back(byte, shown);
    text_comes_back("a" + byte + "z", "a" + shown + "z");
  }
  for (const char* text : {"\"}],{\"ph\":\"X", "]}", "}}]}", "\\", "\\u0000", "\xf0\x9f\x98\x80", "\xe2\x80\xa8"})
    text_comes_back(text, text);
}

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

std::size_t files_in(const std::string& folder) {
  std::error_code ec;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator i(folder, ec), end; !ec && i != end; i.increment(ec)) ++count;
  return count;
}

// FC-52: aras-p/ClangBuildAnalyzer#2, soctrace-inria/framesoc#139, torognes/vsearch#243
void failures_are_errors(const std::string& folder) {
  const std::unique_ptr<stepprof::profile> prof = started(small());
  for (int i = 0; i < 1000; ++i) scope_with_exceptions();
  prof->stop();

  const auto export_to = [&](const std::string& path, std::errc expected) {
    std::error_code trace, stacks;
    prof->export_chrome_trace(path, trace);
    prof->export_stacks(path, "self_cpu_time_total", stacks);
    return trace == expected && stacks == expected;
  };
  check(export_to(folder + "/missing/t.json", std::errc::no_such_file_or_directory), "a missing folder");
  check(export_to(folder, std::errc::is_a_directory), "a folder");
  check(export_to(folder + "/" + std::string(5000, 'x'), std::errc::filename_too_long), "a name of 5000 bytes");
  check(files_in(folder) == 0, "nothing is left of what could not be written");

  // A device of the test's own, never the machine's. Without the right to make one, the limit below has to do.
  const std::string full = folder + "/full";
  if (::mknod(full.c_str(), S_IFCHR | 0666, ::makedev(1, 7)) == 0 && ::close(::open(full.c_str(), O_WRONLY)) == 0) {
    check(export_to(full, std::errc::no_space_on_device), "a full device");
    struct stat facts {};
    check(::stat(full.c_str(), &facts) == 0 && S_ISCHR(facts.st_mode), "the device is still one");
  }
  ::unlink(full.c_str());

  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit little = before;
  little.rlim_cur = 10;
  ::setrlimit(RLIMIT_FSIZE, &little);
  const bool refused = export_to(folder + "/t.json", std::errc::file_too_large);
  ::setrlimit(RLIMIT_FSIZE, &before);  // first, as what is said of a failure may go into a file, too
  check(refused, "a limit of sizes");
  check(files_in(folder) == 0, "nothing is left of what was too large");

  const std::string good = folder + "/t.json";
  std::error_code ec;
  prof->export_chrome_trace(good, ec);
  check(!ec, "what could not be written elsewhere can be written here");
  const test::json_document file = test::strict_json::parse(contents_of(good));
  std::size_t scopes = 0;
  for (const test::json_node& event : file.root.at("traceEvents").items)
    scopes += event.string("name") == "with exceptions";
  check(file.ok() && scopes == 1000, "all of it");
  check(prof->last_error().empty(), "no callback failed");
}

}  // namespace

int main() {
  stepprof::set_diagnostics_hook([](const stepprof::diagnostic&) {});
  for (const std::int64_t wait : {0, 1})
    for (const std::int64_t warmup : {0, 1, 10})
      for (const std::int64_t active : {1, 5, 10})
        for (const std::int64_t repeat : {0, 1, 4, 10})
          for (const bool accumulate : {false, true})
            counts_follow_from_the_schedule(wait, warmup, active, repeat, accumulate);
  texts_come_back();
  char folder[] = "/tmp/stepprof-test-XXXXXX";
  check(::mkdtemp(folder) != nullptr, "a folder of its own");
  failures_are_errors(folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return failures == 0 ? 0 : 1;
}
