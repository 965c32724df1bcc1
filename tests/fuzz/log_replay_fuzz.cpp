// The replay of threads' logs, of any bytes and of records that a thread might write, and all that is made of it: the
// way of a window from the logs to its trace, as the collector goes it.
#include <fuzz/fuzz_input.hpp>
#include <fuzz/trace_rules.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <support/trace_checker.hpp>

#include <stepprof/trace/foreign_ends.hpp>
#include <stepprof/trace/log_replay.hpp>
#include <stepprof/trace/window_assembly.hpp>

using namespace stepprof;
using namespace stepprof::detail;

namespace {

// Writes records with few names, serials and addresses, so that many of them belong together.
class record_writer {
 public:
  explicit record_writer(fuzz::input& in) : in_(in) {}

  std::string records(std::size_t count) {
    bytes_.clear();
    while (count-- > 0 && !in_.empty()) record();
    return std::move(bytes_);
  }
  [[nodiscard]] std::uint64_t now() const noexcept { return now_; }

 private:
  static constexpr tag usual[] = {tag::begin_op,
                                  tag::begin_user,
                                  tag::begin_backward,
                                  tag::end,
                                  tag::end,
                                  tag::end,
                                  tag::end_untimed,
                                  tag::end_manual,
                                  tag::end_manual,
                                  tag::begin_manual_op,
                                  tag::begin_manual_op,
                                  tag::foreign_end,
                                  tag::alloc,
                                  tag::alloc,
                                  tag::free,
                                  tag::free_range,
                                  tag::step,
                                  tag::instant,
                                  tag::counter,
                                  tag::device_alloc,
                                  tag::device_free,
                                  tag::sequence,
                                  tag::link,
                                  tag::argument,
                                  tag::inputs,
                                  tag::detach,
                                  tag::stack,
                                  tag::own_alloc,
                                  tag::name_session};

  void record() {
    const std::uint8_t move = in_.byte();
    now_ += move < 200 ? move / 25 : move < 250 ? 1000 : 0;
    if (move >= 250) now_ = move >= 253 ? now_ + (std::uint64_t{1} << 32) : now_ - (std::min)(now_, std::uint64_t{3});
    if (now_ >> 32 != high_) {
      high_ = now_ >> 32;
      put(tag::epoch, 0, static_cast<std::uint32_t>(now_));
      number(now_);
    }
    const tag what = usual[in_.below(std::size(usual))];
    const std::uint32_t size = record_size({0, make_what(what, 0)});
    if (what >= tag::sequence) return fact(what);
    put(what, id(), static_cast<std::uint32_t>(now_));
    for (std::uint32_t word = 8; word < size; word += 8)
      number(what == tag::step ? in_.below(6) : is_memory(what) && word == 8 ? 8 * in_.below(9) : any());
  }
  void fact(tag what) {
    const std::size_t size = what == tag::stack ? 0 : in_.below(5) * 8 + in_.below(9);
    put(what, id(), static_cast<std::uint32_t>(size));
    const std::size_t begin = bytes_.size();
    if (what == tag::argument) {
      const std::uint32_t head[2] = {in_.flag() ? id() : 0, static_cast<std::uint32_t>(in_.below(6))};
      bytes_.append(reinterpret_cast<const char*>(head), sizeof head);
      number(any());
    }
    while (bytes_.size() - begin < size) bytes_ += static_cast<char>(in_.byte());
    bytes_.resize(begin + (size + 7) / 8 * 8);
  }
  std::uint32_t id() {
    const std::size_t which = in_.below(12);
    return which == 11 ? overflow_name : which >= 9 ? runtime_name_bit | 1u : static_cast<std::uint32_t>(1 + which % 4);
  }
  std::uint64_t any() { return in_.flag() ? 1 + in_.below(6) : static_cast<std::uint64_t>(in_.number()); }
  void put(tag what, std::uint32_t id, std::uint32_t low) {
    const word w{low, make_what(what, id)};
    bytes_.append(reinterpret_cast<const char*>(&w), sizeof w);
  }
  void number(std::uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }

  fuzz::input& in_;
  std::string bytes_;
  std::uint64_t now_ = 1000;
  std::uint64_t high_ = 0;
};

// Everything of a record, to be compared.
std::string shown(const thread_record& r) {
  std::string text;
  const auto add = [&text](auto... values) { ((text += std::to_string(values) + ' '), ...), text += '\n'; };
  for (const trace_event& e : r.events)
    add(e.begin_ns, e.end_ns, e.name, e.parent, static_cast<int>(e.kind()), std::uint32_t{e.flags});
  for (const auto& f : r.facts) {
    add(f.event, static_cast<int>(f.what), f.key, static_cast<std::uint32_t>(f.type), f.bits, f.thread);
    text += f.text;
  }
  for (const auto& s : r.stacks) add(s.event, s.id);
  for (const auto& m : r.memory)
    add(m.ticks, m.address, m.bytes, m.event, m.pool, int{m.device.type}, int{m.device.index},
        static_cast<int>(m.kind));
  for (const auto& m : r.marks) {
    add(m.ticks, m.id, m.event, int{m.is_counter});
    text.append(reinterpret_cast<const char*>(&m.value), sizeof m.value);
  }
  for (const auto& s : r.steps) add(s.ticks, s.number, s.position, s.innermost);
  for (const auto& e : r.foreign_ends) add(e.ticks, e.id, e.thread, e.serial);
  add(r.begins, r.unmatched_ends, r.clamps, r.overflow_names, r.cut_ticks, int{r.has_strays});
  return text;
}

// What must hold before any other thread is known.
void require_sound(const thread_record& r) {
  fuzz::require(r.begins == r.events.size(), "every begin is an event");
  for (std::uint32_t i = 0; i < r.events.size(); ++i) {
    const trace_event& e = r.events[i];
    fuzz::require(static_cast<std::uint64_t>(e.begin_ns) <= static_cast<std::uint64_t>(e.end_ns),
                  "ends not before its begin");
    fuzz::require(static_cast<std::uint64_t>(e.end_ns) <= r.cut_ticks, "ends not behind the cut");
    fuzz::require(e.parent == npos || e.parent < i, "parents come first");
  }
}

// The name table is as large as ids are: those of any bytes become few, or most of the time would go there.
std::uint32_t few(std::uint32_t id) {
  return id == overflow_name ? id : id & (runtime_name_bit | runtime_table_bit | 0xffu);
}
void make_names_few(thread_record& r) {
  for (trace_event& e : r.events) e.name = few(e.name);
  for (auto& f : r.facts) f.key = few(f.key);
  for (auto& s : r.stacks) s.id = few(s.id);
  for (auto& m : r.memory) m.pool = few(m.pool);
  for (auto& m : r.marks) m.id = few(m.id);
}

struct thread_log {
  std::vector<std::string> windows;
  std::vector<std::uint32_t> base_high;
  log_replay replay;
};

class program {
 public:
  explicit program(fuzz::input& in)
      : in_(in), is_raw_(in.flag()), windows_(1 + in.below(3)), threads_(1 + in.below(3)) {
    read_windows();
    for (thread_log& log : threads_) is_raw_ ? raw_bytes(log) : records(log);
  }
  void run() {
    for (std::size_t window = 0; window < windows_; ++window)
      if (facts_[window].is_discarded)
        discard(window);
      else
        collect(window);
  }

 private:
  struct facts {
    window_facts window;
    std::uint64_t end_ticks = 0;
    bool is_discarded = false;
    std::uint64_t origin = 0;
    double rate = 1;
  };

  void raw_bytes(thread_log& log) {
    for (std::size_t w = 0; w < windows_; ++w) {
      log.base_high.push_back(in_.flag() ? static_cast<std::uint32_t>(in_.bits()) : 0);
      std::string bytes = in_.text(255);
      if (in_.flag()) bytes += in_.text(255);
      log.windows.push_back(std::move(bytes));
    }
  }
  void records(thread_log& log) {
    record_writer writer(in_);
    for (std::size_t w = 0; w < windows_; ++w) {
      log.base_high.push_back(static_cast<std::uint32_t>(writer.now() >> 32));
      log.windows.push_back(writer.records(in_.below(64)));
    }
  }
  void read_windows() {
    for (std::size_t w = 0; w < windows_; ++w) {
      facts f;
      f.is_discarded = in_.below(5) == 0;
      f.window.flags = static_cast<std::uint32_t>(in_.below(16));
      f.end_ticks = ticks();
      f.window.open_ticks = ticks();
      f.origin = in_.flag() ? ticks() : 0;
      if (in_.flag()) f.rate = 0.37;
      step_border border;
      for (std::size_t steps = in_.below(5); steps > 0; --steps) {
        border.ticks += in_.below(20);
        border.thread = static_cast<std::uint32_t>(1 + in_.below(3));
        f.window.borders.push_back(border);
        ++border.number;
      }
      if (!f.window.borders.empty() && in_.flag()) {
        border.thread = f.window.borders.back().thread;
        f.window.end_border = border;
      }
      if (in_.flag()) {
        const std::uint64_t begin = ticks(), end = ticks();
        f.window.pauses.emplace_back((std::min)(begin, end), (std::max)(begin, end));
      }
      facts_.push_back(std::move(f));
    }
  }
  std::uint64_t ticks() { return is_raw_ ? static_cast<std::uint64_t>(in_.number()) : 1000 + in_.below(256); }

  // What stands in a chunk of its own; the record of it is complete only behind end_window().
  static std::size_t replay(log_replay& replay, const thread_log& log, std::size_t window, std::size_t first_piece) {
    alignas(64) chunk_header chunk{};
    chunk.base_high = log.base_high[window];
    replay.enter_chunk(chunk);
    const std::string& bytes = log.windows[window];
    const std::size_t used = replay.replay(bytes.data(), (std::min)(first_piece, bytes.size()));
    const std::size_t all = used + replay.replay(bytes.data() + used, bytes.size() - used);
    fuzz::require(all <= bytes.size() && all % 8 == 0, "whole records, and no more than there are");
    return all;
  }
  // Where a piece ends, and whether a copy is replayed, does not matter.
  static void require_pieces_do_not_matter(const log_replay& before, const thread_log& log, std::size_t window,
                                           std::uint32_t thread, std::uint64_t end_ticks, const thread_record& whole,
                                           std::size_t used) {
    for (const std::size_t piece : {log.windows[window].size() / 2, std::size_t{9}}) {
      log_replay copy = before;
      copy.begin_window(thread, name_session);
      fuzz::require(replay(copy, log, window, piece) == used, "as many bytes in pieces");
      const thread_record record = copy.end_window(end_ticks);
      fuzz::require(shown(record) == shown(whole), "the same record in pieces",
                    [&] { return shown(record) + "\n" + shown(whole); });
    }
  }

  void discard(std::size_t window) {
    std::vector<replayed_thread> parts;
    for (std::size_t k = 0; k < threads_.size(); ++k) {
      thread_log& log = threads_[k];
      log.replay.begin_window(static_cast<std::uint32_t>(k + 1), name_session, event_list(event_list::only_counted()));
      replay(log.replay, log, window, 0);
      parts.push_back({log.replay.end_window(facts_[window].end_ticks), &log.replay});
    }
    ends_.settle(parts);
  }

  void collect(std::size_t window) {
    const facts& f = facts_[window];
    window_assembly assembly(f.window);
    std::vector<window_assembly::thread_part> parts;
    std::uint64_t end_ticks = f.end_ticks, begins = 0;
    for (std::size_t k = 0; k < threads_.size(); ++k) {
      thread_log& log = threads_[k];
      const auto thread = static_cast<std::uint32_t>(k + 1);
      const log_replay before = log.replay;
      log.replay.begin_window(thread, name_session, event_list(assembly.events_of(thread)));
      const std::size_t used = replay(log.replay, log, window, 0);
      parts.push_back({log.replay.end_window(f.end_ticks), &log.replay, 0, "thread"});
      thread_record& record = parts.back().record;
      require_sound(record);
      require_pieces_do_not_matter(before, log, window, thread, f.end_ticks, record, used);
      make_names_few(record);
      begins += record.begins;
      end_ticks = (std::max)(end_ticks, record.cut_ticks);
    }
    assembly.set_times(f.end_ticks, end_ticks, tick_converter(f.origin, f.rate), clock_anchor(), clock_anchor());
    assembly.builder().add_process({});
    assembly.builder().losses().unmatched_ends = ends_.settle(parts).ends;
    assembly.assemble(parts);
    assembly.add_loss_notes();
    std::error_code ec;
    const trace t = assembly.builder().finish(ec);
    fuzz::require(!ec, "whatever was replayed is a trace", ec.message());
    fuzz::require(t.losses().kept + t.losses().unfinished == begins, "every begin is kept or unfinished");
    const std::string chrome = fuzz::require_rules(t);
    if (is_raw_) return;
    const test::checked_trace checked = test::check_trace(chrome);
    fuzz::require(checked.summary().empty(), "viewers show it", [&] { return checked.summary() + "\n" + chrome; });
  }

  static constexpr std::uint32_t name_session = 5;

  fuzz::input& in_;
  bool is_raw_;
  std::size_t windows_;
  std::vector<thread_log> threads_;
  std::vector<facts> facts_;
  foreign_ends ends_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  program(in).run();
  return 0;
}
