// The Chrome trace of a recording: kineto's JSON schema, right in Perfetto, chrome://tracing and speedscope.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <stepprof/analysis/flow_pairs.hpp>
#include <stepprof/config.hpp>
#include <stepprof/core/own_work.hpp>
#include <stepprof/output/byte_sink.hpp>
#include <stepprof/output/chrome_trace_writer.hpp>
#include <stepprof/output/output_file.hpp>
#include <stepprof/output/trace_parts.hpp>
#include <stepprof/trace/error.hpp>
#include <stepprof/trace/trace.hpp>

STEPPROF_BEGIN_NAMESPACE

// --- What is in the file -------------------------------------------------------------------------------------------
//
// One JSON object, no byte after its closing brace. Its keys, in this order:
//
//   schemaVersion        1
//   deviceProperties     []
//   trace_id, host_name, profile_memory, record_shapes, with_stack, distributedInfo {"rank"}
//                        as far as known; metadata of the user with the same key takes their place
//   <metadata>           the user's keys. Those that this list (or a viewer) gives a meaning to get the prefix `user.`;
//                        of equal keys the last one counts
//   stepprof             what no other key can say, see below
//   displayTimeUnit      "ns": only then does chrome://tracing compare times to the ns
//   baseTimeNanoseconds  Unix time, in ns, of ts 0
//   traceEvents          the events, in the order of the table below
//   traceName            the file's name; `[ ] { }` escaped, so that a search for the last bracket finds the right one
//
// `ts` and `dur` are microseconds with three decimals, made from integer ns; ts 0 is info().begin_ns (or the first
// event, should one lie before it). pid and tid are trace_process::pid and trace_track::id: 1 to 2^31-1, unique in the
// file, replaced by a free number where they are not; what the system calls them is in `stepprof`.
//
//   ph   cat                name                     what
//   M    -                  process_name, process_labels, process_sort_index, thread_name, thread_sort_index
//   X    cpu_op             the scope's              a scope of kind op or backward_op on a thread
//   X    user_annotation    the scope's              a scope of kind user_annotation, a step (ProfilerStep#k)
//   b e  as for X           the scope's              a scope that does not nest (async track), with its own id
//   s f  fwdbwd             fwdbwd                   an arrow from a forward to a backward scope; f has bp "e"
//   s f  link               link                     an arrow of another kind
//   i    cpu_instant_event  [memory]                 an allocation or a free, s "t"
//   C    memory             Live bytes               after each of them: args {"CPU": bytes}; other devices have a
//                                                    counter `Live bytes <type>:<index>` with args {"device": bytes},
//                                                    a named pool one with ` in <pool>` behind that
//   i    mark               the mark's               a point in time, s "t"
//   C    counter            the counter's            args {"value": number}
//   i    counter            the counter's            a value that is NaN or infinite: s "p", args {"value": "NaN"}
//   X    Trace              PyTorch Profiler (0)     the whole window; pid "Spans", tid "PyTorch Profiler"
//   M    -                  process_sort_index       of "Spans"
//   i    -                  Iteration Start: PyTorch Profiler    s "g", pid "Traces", tid "Trace PyTorch Profiler"
//   i    -                  Record Window End        s "g", pid and tid ""
//
// Arguments of scopes (kineto's where it has one). An argument of the user with one of these names, or without a name,
// is written with the prefix `user.`; of equal names the last one counts.
//
//   External id          Ev Idx + 1
//   Record function id   0
//   Ev Idx               place in the order of the recording; counts anew in each cycle and in each part of a split one
//   Sequence number      the number that the program gave to the scope; absent: none
//   Fwd thread id        with it: tid of the forward scope's thread; 0 on forward scopes; absent when the forward scope
//                        was not recorded
//   Input Dims, Input Strides, Input type, Concrete Inputs
//                        lists with one element per input
//   Call stack           native frames, innermost first, each followed by ';'
//   Source               file:line of the scope
//   finished             false: still open when the window was cut, where it ends here. Else absent
//   Other thread         true: ended on another thread than it began on. Else absent
//   Out of order         true: ended before a scope that began inside it. Else absent
//   Async                true: an async_scope. Else absent
//   Parent Ev Idx        the enclosing scope, -1 at top level: only where scopes that begin in the same ns leave open
//                        which one encloses which, so that viewers may show another nesting
//   Moved ns             1: a scope of no length at the very end of its parent is drawn that much earlier, as viewers
//                        would otherwise show it outside
//   Module Hierarchy, Backend
//                        reserved, as kineto has them
//
// Arguments of [memory]: Device Type (0 = CPU), Device Id, Addr, Bytes (negative: a free), Total Allocated (live bytes
// of the recording), Total Reserved (0), Ev Idx, Scope Ev Idx (the scope it is booked to; absent: outside), Free (true:
// a free of a block of 0 bytes; else absent, as the sign of Bytes tells), Pool (absent: the default pool), Nested,
// Lost, Late (true: as in memory_event; else absent).
//
// The object `stepprof`: times are integer ns since the origin of the process's traces, events are given by Ev Idx
// (-1: none).
//
//   schema               1
//   version              of the library
//   begin_ns, end_ns     the window
//   zero_ns              what ts 0 stands for
//   base_time_ns         Unix time of the origin
//   base_time_error_ns, wall_shift_ns,
//   cycle, first_step, last_step, partial, first_event_index, clock, scope_cost_ns, scope_cost_inside_ns,
//   profiler_bytes
//                        as in trace_info
//   losses               {...} as in loss_counts, all of it
//   notes                [{"code", "text"}]; export adds `deep_scopes`, `flows_left_out`, `unplotted_values`,
//                        `long_window`
//   steps                [{"number", "begin_ns", "end_ns", "event", "complete"}]
//   pauses               [[begin_ns, end_ns]]
//   unmatched_frees      [{"event", "count"}]
//   processes            [{"pid", "os_pid", "rank", "host", "name", "labels", "sort_index"}]
//   tracks               [{"pid", "tid", "kind": "thread" | "async" | "device", "name", "os_id", "sort_index"}]
//   flows                {"written", "left_out"}: arrows
// -------------------------------------------------------------------------------------------------------------------

/// Writes the Chrome trace to a file, compressed when its name ends in .gz (which takes a provider of
/// <stepprof/adapters/> in the program). It appears under its name only when it is complete; see output_file for
/// devices and links. On a failure nothing is left behind, the recording is untouched, and another export may follow.
///
/// Exporting never changes the recording; two exports give the same bytes (but for the name of the file in them).
/// Throws std::system_error whose text names the file and the reason; stepprof::error (errc::unsupported) when the name
/// ends in .gz and a provider is missing. Any thread, several at once.
chrome_trace_result export_chrome_trace(const trace& recording, const std::filesystem::path& path,
                                        const chrome_trace_options& options = {});
/// The same, reporting through `ec`.
chrome_trace_result export_chrome_trace(const trace& recording, const std::filesystem::path& path,
                                        const chrome_trace_options& options, std::error_code& ec);
inline chrome_trace_result export_chrome_trace(const trace& recording, const std::filesystem::path& path,
                                               std::error_code& ec) {
  return export_chrome_trace(recording, path, {}, ec);
}

/// Writes the Chrome trace to a stream, unformatted: neither its locale nor its flags matter.
chrome_trace_result export_chrome_trace(const trace& recording, std::ostream& out,
                                        const chrome_trace_options& options = {});
/// The same, reporting through `ec`.
chrome_trace_result export_chrome_trace(const trace& recording, std::ostream& out, const chrome_trace_options& options,
                                        std::error_code& ec);
inline chrome_trace_result export_chrome_trace(const trace& recording, std::ostream& out, std::error_code& ec) {
  return export_chrome_trace(recording, out, {}, ec);
}

/// Appends the Chrome trace to a string.
chrome_trace_result write_chrome_trace(const trace& recording, std::string& out,
                                       const chrome_trace_options& options = {});
/// Writes the Chrome trace to any sink; its error() tells of failures.
chrome_trace_result write_chrome_trace(const trace& recording, byte_sink& sink,
                                       const chrome_trace_options& options = {});

// --------------------------------------------------------------------------------------------------------------------

inline chrome_trace_result write_chrome_trace(const trace& recording, byte_sink& sink,
                                              const chrome_trace_options& options) {
  const detail::own_work own;
  if (!options.selection.is_everything()) {
    chrome_trace_options all = options;
    all.selection = {};
    return write_chrome_trace(select(recording, options.selection), sink, all);
  }
  const std::uint64_t before = sink.bytes();
  chrome_trace_result result = detail::chrome_trace_writer(recording, flow_pairs(recording), options, sink).run();
  result.bytes = result.largest_file_bytes = sink.bytes() - before;
  return result;
}

inline chrome_trace_result write_chrome_trace(const trace& recording, std::string& out,
                                              const chrome_trace_options& options) {
  string_sink sink(out);
  return write_chrome_trace(recording, sink, options);
}

inline chrome_trace_result export_chrome_trace(const trace& recording, std::ostream& out,
                                               const chrome_trace_options& options, std::error_code& ec) {
  const detail::own_work own;
  stream_sink sink(out);
  const chrome_trace_result result = write_chrome_trace(recording, sink, options);
  ec = sink.finish();
  return result;
}

inline chrome_trace_result export_chrome_trace(const trace& recording, std::ostream& out,
                                               const chrome_trace_options& options) {
  std::error_code ec;
  const chrome_trace_result result = export_chrome_trace(recording, out, options, ec);
  detail::throw_if(ec, "cannot write the Chrome trace to the stream");
  return result;
}

namespace detail {

// Both forms for a path. What failed is said for the message of the throwing form.
class chrome_trace_files {
 public:
  chrome_trace_files(const trace& recording, std::filesystem::path path, chrome_trace_options options)
      : trace_(recording), path_(std::move(path)), options_(std::move(options)) {}

  chrome_trace_result run() {
    constexpr std::uint64_t least = 65536;  // below, a file would be nothing but its frame
    if (options_.max_file_bytes != 0 && options_.max_file_bytes < least)
      error_ = make_error(errc::invalid_argument, "export_chrome_trace: max_file_bytes is " +
                                                      std::to_string(options_.max_file_bytes) +
                                                      ", must be 0 (no limit) or at least " + std::to_string(least));
    else
      write_all();
    return error_ ? chrome_trace_result() : std::move(result_);
  }
  [[nodiscard]] const std::error_code& error() const noexcept { return error_; }
  [[nodiscard]] const std::string& doing() const noexcept { return doing_; }

 private:
  void write_all() {
    if (options_.max_file_bytes != 0) links_ = flow_pairs(trace_);
    const std::uint64_t bytes = options_.max_file_bytes == 0 ? 0 : size_of(options_.selection);
    if (bytes <= options_.max_file_bytes) return write(path_, options_.selection);
    const auto measure = [this](const trace_selection& part) { return size_of(part); };
    const std::vector<trace_selection> parts =
        part_planner(trace_, options_.selection, options_.max_file_bytes, measure).run(bytes);
    for (std::size_t i = 0; i < parts.size() && !error_; ++i) write(part_path(path_, i + 1, parts.size()), parts[i]);
  }
  chrome_trace_result write_to(byte_sink& sink, const std::filesystem::path& path, const trace_selection& part) const {
    chrome_trace_options options = options_;
    if (options.trace_name.empty()) options.trace_name = path.string();
    options.selection = part;
    if (options_.max_file_bytes == 0 || part.is_everything()) return write_chrome_trace(trace_, sink, options);
    options.selection = {};
    return write_chrome_trace(trace_selector(trace_, part, links_).run(), sink, options);
  }
  [[nodiscard]] std::uint64_t size_of(const trace_selection& part) const {
    counting_sink sink;
    // The longest name that a part can get.
    return write_to(sink, part_path(path_, UINT32_MAX, UINT32_MAX), part).bytes;
  }
  void write(const std::filesystem::path& path, const trace_selection& part) {
    output_file file(path, options_.file);
    chrome_trace_result written;
    if (!file.error()) written = write_to(file, path, part);
    error_ = file.commit();
    doing_ = file.doing();
    result_.events += written.events;
    result_.flows += written.flows;
    result_.flows_left_out += written.flows_left_out;
    result_.deep_scopes += written.deep_scopes;
    result_.bytes += written.bytes;
    result_.largest_file_bytes = (std::max)(result_.largest_file_bytes, written.bytes);
    result_.files.push_back(path);
  }

  const trace& trace_;
  std::filesystem::path path_;
  chrome_trace_options options_;
  std::vector<trace_link> links_;  // of the whole, when it may become parts
  chrome_trace_result result_;
  std::error_code error_;
  std::string doing_;
};

}  // namespace detail

inline chrome_trace_result export_chrome_trace(const trace& recording, const std::filesystem::path& path,
                                               const chrome_trace_options& options, std::error_code& ec) {
  const detail::own_work own;
  detail::chrome_trace_files files(recording, path, options);
  chrome_trace_result result = files.run();
  ec = files.error();
  return result;
}

inline chrome_trace_result export_chrome_trace(const trace& recording, const std::filesystem::path& path,
                                               const chrome_trace_options& options) {
  const detail::own_work own;
  detail::chrome_trace_files files(recording, path, options);
  chrome_trace_result result = files.run();
  detail::throw_if(files.error(), files.doing().c_str());
  return result;
}

STEPPROF_END_NAMESPACE
