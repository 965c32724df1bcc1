// The hub: one finished recording as an immutable value. Everything to the right is a free function of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stepprof/config.hpp>
#include <stepprof/core/scope_kind.hpp>
#include <stepprof/trace/large_pages.hpp>
#include <stepprof/trace/native_stacks.hpp>
#include <stepprof/trace/npos.hpp>

STEPPROF_BEGIN_NAMESPACE

/// What a track shows.
enum class track_kind : std::uint8_t {
  thread = 0,  ///< Events nest, and Σ self = length of the union of the top-level events.
  async = 1,   ///< Events stand alone: no parent, no children, self 0.
  device = 2,  ///< Reserved for activities beside the CPU.
};

/// One timed range. 32 bytes. Index in `trace::events()` = its place in the log of the recording ("Ev Idx").
struct trace_event {
  enum flag : std::uint32_t {
    unfinished = 1,    ///< Still open when the window was cut; `end_ns` is the cut.
    other_thread = 2,  ///< Ended on another thread than it began on.
    out_of_order = 4,  ///< Ended before a scope that began inside it; shown on an async track.
    step = 8,          ///< A `ProfilerStep#k`.
    async = 16,        ///< An async_scope: in no thread's nesting, may end on any thread.
  };
  std::int64_t begin_ns = 0;  ///< Since the origin of the trace.
  std::int64_t end_ns = 0;    ///< >= begin_ns, by less than 2^63 - 1.
  std::uint32_t name = npos;  ///< `trace::text(name)`.
  std::uint32_t parent =
      npos;  ///< The directly enclosing event, on the same track; a smaller index; npos at top level.
  std::uint32_t detail = npos;  ///< Index into `trace::details()`, npos when there is nothing more to know. Events of
                                ///< one place in the source share an entry.
  std::uint32_t track : 20;     ///< Index into `trace::tracks()`.
  std::uint32_t kind_bits : 4;  ///< Use kind().
  std::uint32_t flags : 8;      ///< A set of `flag`.

  trace_event() : track(0), kind_bits(0), flags(0) {}
  [[nodiscard]] scope_kind kind() const noexcept { return static_cast<scope_kind>(kind_bits); }
  void set_kind(scope_kind kind) noexcept { kind_bits = static_cast<std::uint32_t>(kind) & 15u; }
  [[nodiscard]] bool has(flag f) const noexcept { return (flags & f) != 0; }
  [[nodiscard]] std::int64_t duration_ns() const noexcept { return end_ns - begin_ns; }
};

/// The rarer fields of an event.
///
/// The four input fields are texts of JSON arrays with one element per input, equal texts being one string of the
/// trace. They are written with ", " between elements, as torch prints them: `[[64, 512], [], [[2, 3], [4]]]`
/// (a tensor, something without shape, a list of two tensors).
struct event_detail {
  std::int64_t sequence_number = -1;     ///< Below 0: none.
  std::uint32_t forward_thread = 0;      ///< Track id of the forward scope's thread; 0 on forward events; npos: that
                                         ///< scope was not recorded.
  std::uint32_t input_dims = npos;       ///< Text, e.g. `[[64, 512], []]`.
  std::uint32_t input_strides = npos;    ///< Text, e.g. `[[512, 1], []]`.
  std::uint32_t input_types = npos;      ///< Text, e.g. `["float", "Scalar"]`.
  std::uint32_t concrete_inputs = npos;  ///< Text, e.g. `["", "1"]`.
  std::uint32_t source_file = npos;      ///< Where the scope stands in the program's source.
  std::uint32_t source_line = 0;
  std::uint32_t stack = npos;         ///< Text: native frames as a file had them, innermost first, joined with ';'.
  std::uint32_t native_stack = npos;  ///< Index into `trace::native_stacks()`, as recorded. See trace::call_stack().
  std::uint32_t first_arg = 0;        ///< Range in `trace::arguments()`.
  std::uint32_t arg_count = 0;
};

/// One typed argument of an event or of a mark.
struct trace_argument {
  enum class type : std::uint8_t { int64, uint64, real, boolean, text, json };
  std::uint32_t key = npos;
  type kind = type::int64;
  union {
    std::int64_t int64;
    std::uint64_t uint64;
    double real;
    bool boolean;
    std::uint32_t text;  ///< For text; for json a validated JSON value.
  };
  trace_argument() : int64(0) {}
};

/// Why two events are joined.
enum class link_kind : std::uint8_t { forward_backward, custom };

/// An arrow between two events.
struct trace_link {
  std::uint32_t from = npos;
  std::uint32_t to = npos;
  link_kind kind = link_kind::forward_backward;
};

/// One allocation or free that counts: a free whose allocation is not in the trace is not here, it is in
/// `loss_counts::unmatched_frees`. In order of time. Sizes and sums of sizes beyond 2^63 - 1 bytes end there.
struct memory_event {
  enum flag : std::uint8_t {
    nested = 1,  ///< The block lies inside a live block of another pool: its bytes are that one's, too.
    lost = 2,    ///< A free that was never reported: the address was allocated again. At that time, but booked to where
                 ///< the allocation was.
    late = 4,    ///< A free that was reported after the address had been allocated again.
  };
  std::int64_t time_ns = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;            ///< Negative for a free; 0 for either: see is_free().
  std::int64_t total_allocated = 0;  ///< Live bytes of the recording on this device after this event, nested blocks
                                     ///< being counted once, with what they lie in.
  std::uint32_t event = npos;        ///< The innermost scope open on that thread at that moment; npos: outside.
  std::uint32_t allocation = npos;   ///< For a free, the index of its allocation in `trace::memory()`.
  std::uint32_t track = 0;           ///< The thread that reported it.
  std::uint32_t pool = npos;         ///< Name of the pool, npos: the default pool.
  std::int16_t device_type = 0;      ///< 0 = CPU.
  std::int16_t device_id = -1;       ///< -1 on CPU.
  std::uint8_t flags = 0;            ///< A set of `flag`.

  /// Not told by the sign alone: blocks of no bytes are freed, too.
  [[nodiscard]] bool is_free() const noexcept { return allocation != npos || bytes < 0; }
  [[nodiscard]] bool has(flag f) const noexcept { return (flags & f) != 0; }
};

/// Frees that attribute no bytes because their allocation was not recorded in this window, by the scope that made them.
struct unmatched_free {
  std::uint32_t event = npos;  ///< The innermost scope open at that moment; npos: outside.
  std::uint32_t count = 0;
};

/// A point in time (an instant), or the value of a counter at that time.
struct trace_mark {
  enum class type : std::uint8_t { instant, counter };
  std::int64_t time_ns = 0;
  std::uint32_t name = npos;
  std::uint32_t track = 0;
  std::uint32_t event = npos;  ///< The innermost scope open on that thread at that moment.
  type kind = type::instant;
  double value = 0;  ///< Of a counter; may be NaN or infinite.
};

/// One program.
struct trace_process {
  std::int64_t pid = 1;     ///< As shown, 1 to 2^31-1.
  std::int64_t os_pid = 0;  ///< As the system numbers it; 0: same as pid.
  std::int64_t rank = -1;   ///< In a distributed run; -1: none.
  std::int64_t sort_index = 0;
  std::string name;
  std::string host;
  std::string labels;
};

/// One line of events.
struct trace_track {
  std::uint32_t process = 0;  ///< Index into `trace::processes()`.
  track_kind kind = track_kind::thread;
  std::uint32_t id = 0;     ///< The `tid` of a thread: the logical thread id, 1 to 2^31-1.
  std::uint64_t os_id = 0;  ///< The system's thread id, 0: unknown.
  std::int64_t sort_index = 0;
  std::string name;               ///< Empty: unnamed.
  std::uint32_t first_event = 0;  ///< Its events are one range of `trace::events()`.
  std::uint32_t event_count = 0;
};

/// Time during which nothing was recorded because the profile was paused. It leaves the self time of open scopes.
struct paused_interval {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// One step of the loop, whether or not it could be drawn as an event.
struct trace_step {
  std::int64_t number = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t event = npos;  ///< Its `ProfilerStep#number` event.
  bool complete = true;        ///< false: cut by stop().
};

/// What is not in the trace, exactly. kept + unfinished + late + dropped = begins that passed the gate.
struct loss_counts {
  std::uint64_t kept = 0;               ///< Scopes that began and ended inside the window.
  std::uint64_t unfinished = 0;         ///< Scopes that were still open when the window was cut.
  std::uint64_t late = 0;               ///< Begins that passed the gate since the window before, but lie in none.
  std::uint64_t dropped = 0;            ///< Begins refused because memory was full, or overwritten.
  std::uint64_t reentrant = 0;          ///< Of the dropped ones: begun inside the recorder itself, in a signal handler.
  std::uint64_t overwritten = 0;        ///< Of the dropped ones: overwritten by what their thread recorded later.
  std::uint64_t dropped_arguments = 0;  ///< Arguments, shapes and marks: memory was full, or they were overwritten.
  std::uint64_t dropped_memory = 0;     ///< Memory reports refused: memory was full, or in a signal handler that came
                                        ///< upon the recorder itself; or overwritten.
  std::uint64_t overflow_names = 0;     ///< Scopes whose name became the overflow name.
  std::uint64_t clamps = 0;             ///< Time stamps that went backwards and were moved.
  std::uint64_t unmatched_frees = 0;    ///< Frees whose allocation is not in this window.
  std::uint64_t unmatched_ends = 0;     ///< Ends without a begin in this window.
  std::uint64_t overwritten_ends = 0;   ///< Ends of scopes whose begin was overwritten.
  std::uint64_t lost_frees = 0;         ///< Allocations at an address that was live: its free was never reported.
  std::uint64_t late_frees = 0;         ///< Frees that were reported after their address had been allocated again.
  std::uint64_t cold_chunks = 0;        ///< Chunks that a recording thread took before they had been written once.
};

/// Something odd but not wrong that a reader of the trace should know.
struct trace_note {
  std::string code;  ///< A stable short name, e.g. "unfinished_scopes".
  std::string text;  ///< A sentence.
};

/// A file-level key of the Chrome trace.
struct trace_metadata {
  std::string key;
  std::string json;  ///< A complete, validated JSON value.
};

/// Facts of the whole recording.
struct trace_info {
  std::string trace_id;       ///< 32 hex digits.
  std::int64_t begin_ns = 0;  ///< Where the window begins, since the origin; Chrome traces count from here.
  std::int64_t end_ns = 0;
  std::int64_t base_time_ns = 0;        ///< Unix time of the origin, in ns; 0: unknown.
  std::int64_t base_time_error_ns = 0;  ///< How far that may be from what the system's clock showed at the origin.
  std::int64_t wall_shift_ns = 0;  ///< How far the system's clock went ahead of the recording's from the origin to the
                                   ///< end (negative: fell behind): it was set, or its rate was corrected.
  std::int64_t cycle = 0;          ///< Counted from 0.
  std::int64_t first_step = -1;    ///< -1: recorded without a schedule.
  std::int64_t last_step = -1;
  std::uint64_t first_event_index = 0;  ///< "Ev Idx" of events()[0].
  bool partial = false;                 ///< Cut by stop() or by the schedule before its last active step was complete.
  bool has_shapes = false;              ///< record_shapes was on.
  bool has_memory = false;              ///< profile_memory was on.
  bool has_stacks = false;              ///< with_stack was on.
  bool has_flops = false;               ///< with_flops was on.
  double scope_cost_ns = 0;             ///< What recording one empty scope costs on this machine; 0: not measured.
  double scope_cost_inside_ns = 0;      ///< Of it, what is part of the scope's own time; the rest is in its parent's.
  std::uint64_t profiler_bytes = 0;     ///< Memory that the recording itself used.
  std::string clock;                    ///< The clock's name, e.g. "tsc".
};

namespace detail {

// The number that the system has for a process.
inline std::int64_t real_pid(const trace_process& process) noexcept {
  return process.os_pid != 0 ? process.os_pid : process.pid;
}

// A growing set of texts, each stored once, addressed by a dense index.
class string_table {
 public:
  [[nodiscard]] std::string_view operator[](std::uint32_t index) const noexcept {
    if (index >= size()) return {};
    return std::string_view(bytes_).substr(ends_[index], ends_[index + 1] - ends_[index]);
  }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(ends_.size() - 1); }

  std::uint32_t intern(std::string_view text) {
    if (slots_.size() < 2 * (static_cast<std::size_t>(size()) + 1)) grow();
    const std::uint32_t h = hash(text);
    slot& found = slots_[place_of(text, h)];
    if (found.number != 0) return found.number - 1;
    bytes_.append(text);
    ends_.push_back(bytes_.size());
    found = {size(), h};
    return size() - 1;
  }
  /// The index of `text`, npos when it is not here.
  [[nodiscard]] std::uint32_t find(std::string_view text) const noexcept {
    if (slots_.empty()) return npos;
    return slots_[place_of(text, hash(text))].number - 1;  // of a free one: npos
  }

 private:
  struct slot {
    std::uint32_t number = 0;  // index + 1, 0 = free
    std::uint32_t hash = 0;    // so that other texts need not be looked at
  };

  // FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ . Folded, as the low bits pick the slot.
  static std::uint32_t hash(std::string_view text) noexcept {
    std::uint64_t h = 14695981039346656037ull;
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    return static_cast<std::uint32_t>(h ^ (h >> 32));
  }
  // The slot that holds `text`, or the free one where it belongs.
  [[nodiscard]] std::size_t place_of(std::string_view text, std::uint32_t h) const noexcept {
    std::size_t at = h & (slots_.size() - 1);
    while (slots_[at].number != 0 && (slots_[at].hash != h || (*this)[slots_[at].number - 1] != text))
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<slot> slots;
    const std::size_t count = slots_.empty() ? 64 : slots_.size() * 2;
    reserve_large(slots, count);
    slots.resize(count);
    for (const slot& s : slots_) {
      if (s.number == 0) continue;
      std::size_t at = s.hash & (count - 1);
      while (slots[at].number != 0) at = (at + 1) & (count - 1);
      slots[at] = s;
    }
    slots_.swap(slots);
  }

  std::string bytes_;
  std::vector<std::size_t> ends_{0};
  std::vector<slot> slots_;
};

struct trace_data {
  string_table strings;
  std::vector<trace_process> processes;
  std::vector<trace_track> tracks;
  std::vector<trace_event> events;
  std::vector<event_detail> details;
  std::vector<trace_argument> arguments;
  native_stack_table stacks;
  std::vector<trace_link> links;
  std::vector<memory_event> memory;
  std::vector<unmatched_free> unmatched_frees;
  std::vector<trace_mark> marks;
  std::vector<trace_step> steps;
  std::vector<paused_interval> pauses;
  std::vector<trace_note> notes;
  loss_counts losses;
  trace_info info;
  bool links_are_complete = false;
};

}  // namespace detail

/// One finished recording, or one file read back: an immutable value, cheap to copy, that may outlive the profile.
///
/// Events of a track are one range, in preorder: a parent stands before its children, siblings in order of time, and on
/// thread tracks children lie inside their parent and siblings do not overlap, exactly, in integer ns. Times count from
/// the origin, which is one and the same for all traces of a process. Made only by trace_builder.
///
/// What the methods return by reference lives as long as some copy of the trace does (metadata(): as this one does). So
/// keep a trace while you look at it: `const stepprof::trace t = prof.result();`. After
/// `const auto& losses = prof.result().losses();` they may be gone at any moment.
/// Any thread.
class trace {
 public:
  /// A trace without anything in it.
  trace() : data_(std::make_shared<detail::trace_data>()) {}

  [[nodiscard]] const std::vector<trace_event>& events() const noexcept { return data_->events; }
  [[nodiscard]] const std::vector<event_detail>& details() const noexcept { return data_->details; }
  [[nodiscard]] const std::vector<trace_argument>& arguments() const noexcept { return data_->arguments; }
  [[nodiscard]] const std::vector<trace_process>& processes() const noexcept { return data_->processes; }
  [[nodiscard]] const std::vector<trace_track>& tracks() const noexcept { return data_->tracks; }
  /// Arrows that were recorded or read as such. flow_pairs() adds those that follow from sequence numbers.
  [[nodiscard]] const std::vector<trace_link>& links() const noexcept { return data_->links; }
  /// True when links() already holds every arrow (a file read back): none is then derived from sequence numbers.
  [[nodiscard]] bool links_are_complete() const noexcept { return data_->links_are_complete; }
  [[nodiscard]] const std::vector<memory_event>& memory() const noexcept { return data_->memory; }
  [[nodiscard]] const std::vector<unmatched_free>& unmatched_frees() const noexcept { return data_->unmatched_frees; }
  [[nodiscard]] const std::vector<trace_mark>& marks() const noexcept { return data_->marks; }
  [[nodiscard]] const std::vector<trace_step>& steps() const noexcept { return data_->steps; }
  [[nodiscard]] const std::vector<paused_interval>& pauses() const noexcept { return data_->pauses; }
  [[nodiscard]] const std::vector<trace_note>& notes() const noexcept { return data_->notes; }
  [[nodiscard]] const loss_counts& losses() const noexcept { return data_->losses; }
  [[nodiscard]] const trace_info& info() const noexcept { return data_->info; }
  [[nodiscard]] const std::vector<trace_metadata>& metadata() const noexcept { return metadata_; }

  /// The text of a string index; empty for npos. Valid as long as any copy of this trace lives.
  [[nodiscard]] std::string_view text(std::uint32_t index) const noexcept { return data_->strings[index]; }
  [[nodiscard]] std::uint32_t find_text(std::string_view text) const noexcept { return data_->strings.find(text); }
  [[nodiscard]] std::uint32_t text_count() const noexcept { return data_->strings.size(); }
  [[nodiscard]] std::string_view name(const trace_event& event) const noexcept { return text(event.name); }
  /// The rarer fields of an event; all defaults when it has none.
  [[nodiscard]] const event_detail& detail(const trace_event& event) const noexcept {
    static const event_detail none;
    return event.detail == npos ? none : data_->details[event.detail];
  }

  /// The stacks that were captured (with_stack), each once. Equal ones are one entry; after a merge maybe not.
  [[nodiscard]] const std::vector<native_stack>& native_stacks() const noexcept { return data_->stacks.stacks; }
  /// Of a captured stack: its frames, `frame_count` from `first_frame` on, innermost first.
  [[nodiscard]] const std::vector<native_frame>& native_frames() const noexcept { return data_->stacks.frames; }
  /// The program and the libraries that frames are in, also those that have been unloaded.
  [[nodiscard]] const std::vector<native_module>& native_modules() const noexcept { return data_->stacks.modules; }
  /// Whether an event with these fields has a native stack.
  [[nodiscard]] static bool has_call_stack(const event_detail& d) noexcept {
    return (d.stack & d.native_stack) != npos;
  }
  /// Its frames as text, innermost first, joined with ';'; empty when it has none. `file(line): function`, or
  /// `function [module+0xoffset]` without line numbers, or `[module+0xoffset]` without symbols. Calls that the compiler
  /// inlined have frames of their own where the debug information tells. The first call looks up all addresses of the
  /// trace, in the files of its modules: that takes a while. Valid as long as any copy of this trace lives. Any thread.
  [[nodiscard]] std::string_view call_stack(const event_detail& d) const {
    if (d.native_stack >= data_->stacks.stacks.size()) return text(d.stack);
    return data_->stacks.texts()[d.native_stack];
  }

  /// The same recording with a file-level key more (or replaced). Shares the events with this one.
  [[nodiscard]] trace with_metadata(std::string key, std::string json) const {
    trace result = *this;
    for (trace_metadata& pair : result.metadata_)
      if (pair.key == key) {
        pair.json = std::move(json);
        return result;
      }
    result.metadata_.push_back({std::move(key), std::move(json)});
    return result;
  }

 private:
  friend class trace_builder;
  std::shared_ptr<const detail::trace_data> data_;
  std::vector<trace_metadata> metadata_;
};

STEPPROF_END_NAMESPACE
