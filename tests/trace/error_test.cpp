// Catches: an error code that says nothing, or something else than what went wrong.
#include <string>
#include <system_error>

#include <support/catch.hpp>

#include <stepprof/trace/error.hpp>

namespace error_test {

using namespace stepprof;

namespace {

// A code of this kind without a text of its own.
std::string general_text(errc code) {
  return error_category().message(static_cast<int>(code));
}

}  // namespace

// Catches: a kind without words, with those of another kind, and a number that is no kind.
TEST_CASE("every kind of error has words of its own", "[error]") {
  CHECK(std::string(error_category().name()) == "stepprof");
  CHECK(general_text(errc::invalid_argument) == "an argument has a value that is not allowed");
  CHECK(general_text(errc::already_running) == "a profile is already recording");
  CHECK(general_text(errc::not_running) == "the profile is not recording");
  CHECK(general_text(errc::no_results) == "nothing has been recorded");
  CHECK(general_text(errc::bad_trace) == "not a valid trace");
  CHECK(general_text(errc::out_of_memory) == "the event pool could not be reserved");
  CHECK(general_text(errc::unsupported) == "not supported by this build or machine");
  CHECK(general_text(errc::callback_failed) == "a callback failed");
  CHECK(error_category().message(0) == "unknown stepprof error");
  CHECK(error_category().message(9) == "unknown stepprof error");
}

// Catches: the text of a later error told for an earlier one, or a code that no longer compares.
TEST_CASE("the last 256 texts are kept, then the kind is told", "[error]") {
  const std::error_code first = detail::make_error(errc::bad_trace, "the first");
  const std::error_code file = detail::make_io_error(std::make_error_code(std::errc::no_space_on_device), "a file");
  const std::string of_file = file.message();
  CHECK(of_file == "a file: " + std::make_error_code(std::errc::no_space_on_device).message());
  CHECK(std::string(file.category().name()) == "stepprof-io");
  for (int i = 0; i < 254; ++i) static_cast<void>(detail::make_error(errc::unsupported, "another"));
  CHECK(first.message() == "the first");
  static_cast<void>(detail::make_error(errc::unsupported, "another"));
  CHECK(first.message() == "not a valid trace");
  CHECK(first == errc::bad_trace);
  CHECK(file.message() == of_file);
  static_cast<void>(detail::make_error(errc::unsupported, "another"));
  CHECK(file.message() == std::make_error_code(std::errc::no_space_on_device).message());
  CHECK(file == std::errc::no_space_on_device);
}

// Catches: the number of another category taken for one of the system's.
TEST_CASE("a cause that the system does not number is an error of input and output", "[error]") {
  const std::error_code ec = detail::make_io_error(detail::make_error(errc::no_results, "the cause"), "doing");
  CHECK(ec == std::errc::io_error);
  CHECK(ec.message() == "doing: the cause");
}

}  // namespace error_test
