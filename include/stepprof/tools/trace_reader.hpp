// Reads a Chrome trace file, ours or PyTorch's, back into a trace, so that every report works on files too.
#pragma once

#include <cerrno>
#include <fstream>
#include <istream>
#include <memory>
#include <sstream>
#include <streambuf>
#include <string>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include <stepprof/output/gzip.hpp>
#include <stepprof/tools/chrome_json.hpp>
#include <stepprof/tools/trace_assembly.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

/// Reads a Chrome trace from memory.
///
/// A file has times but no log, so nesting follows torch's interval rule: in the order of begin (ties: the longer one
/// first, then `Ev Idx`, then the order in the file) an event is a child of the innermost open one that it fits into.
/// What overlaps without fitting goes to an async track. Times are read as exact ns from their decimal digits. An event
/// with a sequence number and a forward thread becomes a backward op unless it only wraps one that has the same link.
/// A free counts only if the file has its allocation. Numbers and sums that do not fit their field end at its largest
/// or smallest value. The arrows of the file are the only ones
/// (`links_are_complete()`), unless a file of ours says that some could not be drawn. What the format has and a trace
/// has not is named in the notes.
///
/// Text that gzip compressed (one member or several) is read, too, with <stepprof/adapters/isal.hpp> or
/// <stepprof/adapters/zlib.hpp> in the program.
///
/// Fails with errc::bad_trace, naming the place and what is wrong, and reads nothing then. Any thread.
[[nodiscard]] trace parse_trace(std::string_view text, const trace_reader_options& options, std::error_code& ec);
[[nodiscard]] inline trace parse_trace(std::string_view text, const trace_reader_options& options = {}) {
  std::error_code ec;
  trace result = parse_trace(text, options, ec);
  detail::throw_if(ec, "parse_trace");
  return result;
}

/// The same from a stream, which is read to its end.
[[nodiscard]] trace read_trace(std::istream& in, const trace_reader_options& options, std::error_code& ec);
[[nodiscard]] inline trace read_trace(std::istream& in, const trace_reader_options& options = {}) {
  std::error_code ec;
  trace result = read_trace(in, options, ec);
  detail::throw_if(ec, "read_trace");
  return result;
}

/// The same from a file, whose path all messages name. When it cannot be opened or read, the error is that of the
/// system (std::system_error).
[[nodiscard]] trace read_trace_file(const std::string& path, const trace_reader_options& options, std::error_code& ec);
[[nodiscard]] inline trace read_trace_file(const std::string& path, const trace_reader_options& options = {}) {
  std::error_code ec;
  trace result = read_trace_file(path, options, ec);
  detail::throw_if(ec, "read_trace_file");
  return result;
}

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

inline trace bad_trace(const std::string& what, const std::string& fault, std::error_code& ec) {
  ec = make_error(errc::bad_trace, what + ": " + fault);
  return trace();
}

// `what` is what is read, for the message.
template <class... Input>
trace read_chrome_json(const trace_reader_options& options, const std::string& what, std::error_code& ec,
                       Input&&... input) {
  ec.clear();
  trace_records records(options);
  chrome_json_handler<trace_records> handler(records);
  const bool is_read = nlohmann::json::sax_parse(std::forward<Input>(input)..., &handler);
  std::string fault = handler.error();
  if (fault.empty() && !is_read) fault = "not valid JSON";
  if (fault.empty() && !handler.has_events()) fault = "there is no \"traceEvents\" in it, so it is not a Chrome trace";
  if (fault.empty()) {
    trace result = trace_assembly(records).run(ec);
    if (!ec) return result;
    fault = ec.message();
  }
  return bad_trace(what, fault, ec);
}

inline trace read_gzip(std::streambuf& from, const trace_reader_options& options, const std::string& what,
                       std::error_code& ec) {
  if (gzip() == nullptr)
    return bad_trace(what, std::string("it is compressed (gzip); unpack it first, or ") + gzip_remedy, ec);
  const std::unique_ptr<gzip_buffer> unpacked = gzip()->make_buffer(from);
  std::istream in(unpacked.get());
  trace result = read_chrome_json(options, what, ec, in);
  // The parser sees only that the text ends.
  if (const std::string fault = unpacked->fault(); !fault.empty()) return bad_trace(what, fault, ec);
  return result;
}

inline trace read_stream(std::istream& in, const trace_reader_options& options, const std::string& what,
                         std::error_code& ec) {
  // Only looks ahead: whoever reads it gets every byte. No text begins with this one.
  const auto first = in.peek();
  if (!in.good()) return bad_trace(what, "it is empty", ec);
  if (first == 0x1f) return read_gzip(*in.rdbuf(), options, what, ec);
  return read_chrome_json(options, what, ec, in);
}

}  // namespace detail

inline trace parse_trace(std::string_view text, const trace_reader_options& options, std::error_code& ec) {
  const std::string what = "trace file";
  if (text.empty()) return detail::bad_trace(what, "it is empty", ec);
  if (!detail::is_gzip_text(text)) return detail::read_chrome_json(options, what, ec, text.begin(), text.end());
  std::istringstream packed{std::string(text)};
  return detail::read_gzip(*packed.rdbuf(), options, what, ec);
}

inline trace read_trace(std::istream& in, const trace_reader_options& options, std::error_code& ec) {
  const detail::own_work own;
  return detail::read_stream(in, options, "trace file", ec);
}

inline trace read_trace_file(const std::string& path, const trace_reader_options& options, std::error_code& ec) {
  const detail::own_work own;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  // A directory can be opened but not read.
  if (!in || (in.peek() == std::ifstream::traits_type::eof() && errno != 0)) {
    const std::error_code cause(errno != 0 ? errno : EIO, std::generic_category());
    ec = detail::make_io_error(cause, "cannot read the trace file '" + path + "'");
    return trace();
  }
  in.clear();
  return detail::read_stream(in, options, "trace file '" + path + "'", ec);
}

STEPPROF_END_NAMESPACE
