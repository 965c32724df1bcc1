// The reader of trace files on any text: it refuses with a reason, or gives a trace that can be shown, written and read
// again.
#include <fuzz/fuzz_input.hpp>
#include <fuzz/trace_rules.hpp>

#include <string>
#include <string_view>
#include <system_error>

#include <stepprof/tools/trace_reader.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  stepprof::trace_reader_options options;
  options.python_functions = size % 2 == 0;
  std::error_code ec;
  const stepprof::trace t = stepprof::parse_trace(text, options, ec);
  if (ec) {
    fuzz::require(ec == stepprof::errc::bad_trace && ec.message().size() > 12, "a reason", ec.message());
    fuzz::require(t.events().empty() && t.tracks().empty(), "nothing is read then");
    return 0;
  }
  const std::string written = fuzz::require_rules(t);
  const stepprof::trace back = stepprof::parse_trace(written, options, ec);
  // Times of a file may be 146 years from its zero, and so 292 years from each other, and what is written counts from
  // the first of them.
  if (ec && ec.message().find("at most 4.6e15") != std::string::npos) return 0;
  fuzz::require(!ec, "what was written is read again", [&] { return ec.message() + "\n" + written; });
  fuzz::require(back.events().size() == t.events().size(), "no event is lost", written);
  // An arrow that no viewer would draw is counted and left out; that of another program's file is gone then.
  std::string text_with_arrows;
  if (stepprof::write_chrome_trace(t, text_with_arrows).flows_left_out != 0) return 0;
  const std::string again = fuzz::chrome_text(back);
  fuzz::require(again == written, "read back, it is written as before", [&] { return written + "\n" + again; });
  return 0;
}
