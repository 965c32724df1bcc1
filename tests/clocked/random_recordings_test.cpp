// Catches: any difference between what a program did, on any clock, and what its trace, self times, totals and bytes
// say.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace random_recordings_test {

using namespace stepprof;
using test::fake_clock;

namespace {

constexpr std::uint64_t first_seed = 20260803;
constexpr std::uint64_t rounds = 150;

// A thread that does what it is told, and is waited for: two of them take turns in an order that a seed decides.
class obedient_thread {
 public:
  obedient_thread() : thread_([this] { work(); }) {}
  ~obedient_thread() {
    tell(nullptr);
    thread_.join();
  }
  obedient_thread(const obedient_thread&) = delete;
  obedient_thread& operator=(const obedient_thread&) = delete;

  void run(const std::function<void()>& what) {
    tell(&what);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !is_told_; });
  }

 private:
  void tell(const std::function<void()>* what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    what_ = what;
    is_told_ = true;
    changed_.notify_all();
  }
  void work() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return is_told_; });
      if (what_ == nullptr) return;
      (*what_)();
      is_told_ = false;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_told_ = false;
  const std::function<void()>* what_ = nullptr;
  std::thread thread_;
};

struct expected_scope {
  std::string name;
  std::size_t thread = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
  int parent = -1;  // innermost one that was open at the begin
  bool ended = false;
  bool apart = false;
  memory_sums self;
};

// What the program does, and what it must have looked like: plain lists, no stack of ids, nothing clever.
class recorded_program {
 public:
  explicit recorded_program(std::uint64_t seed, obedient_thread& other) : random_(seed), other_(other) {
    constexpr std::int64_t ticks[] = {1, 15, 1000, 15600000};
    tick_ = ticks[below(4)];
    steps_back_ = below(2) == 0;
    start_ns_ = floor_ns_ = now_ns_ = fake_clock_now();
  }

  void run(profile& prof) {
    for (int calls = 20 + static_cast<int>(below(120)); calls > 0; --calls) {
      move_clock();
      if (below(40) == 0) pause(prof);
      const std::size_t thread = below(2);
      if (thread == 0)
        call(0);
      else
        other_.run([this] { call(1); });
    }
    move_clock();
    prof.stop();
    for (expected_scope& s : scopes) {
      s.begin_ns -= start_ns_;
      s.end_ns = (s.ended ? s.end_ns : (std::max)(now_ns_, threads_[s.thread].latest_ns)) - start_ns_;
    }
    for (std::size_t i = 0; i < scopes.size(); ++i) find_parent(i);
    for (expected_scope& s : scopes)
      if (s.apart) s.parent = -1;
    // Behind the recording, each on its own thread.
    end_all(0);
    other_.run([this] { end_all(1); });
  }
  [[nodiscard]] std::uint64_t steps_back() const noexcept { return clamps_; }

  // Own time less what direct children and pauses take of it.
  [[nodiscard]] std::int64_t self_ns(std::size_t scope) const {
    if (scopes[scope].apart) return 0;
    std::int64_t self = active_ns(scopes[scope]);
    for (const expected_scope& s : scopes)
      if (!s.apart && s.parent == static_cast<int>(scope)) self -= active_ns(s);
    return self;
  }
  [[nodiscard]] bool is_inside_another_of_its_name(std::size_t scope) const {
    for (int outer = scopes[scope].parent; outer >= 0; outer = scopes[static_cast<std::size_t>(outer)].parent)
      if (scopes[static_cast<std::size_t>(outer)].name == scopes[scope].name) return true;
    return false;
  }

  std::vector<expected_scope> scopes;
  memory_sums outside;

 private:
  struct thread_state {
    std::int64_t latest_ns = 0;
    std::vector<std::size_t> open;  // scopes that nest so far
    std::vector<std::pair<std::size_t, std::unique_ptr<record_function>>> raii;
    std::vector<std::pair<std::size_t, std::unique_ptr<manual_scope>>> manual;
    std::vector<std::pair<int, std::int64_t>> blocks;  // number, bytes
  };

  std::size_t below(std::uint64_t count) { return random_() % count; }

  // Where the clock stands now is farther than it has ever been.
  static std::int64_t fake_clock_now() {
    constexpr std::int64_t stride = std::int64_t{1} << 36;
    static std::int64_t farthest = static_cast<std::int64_t>(fake_clock::stands_at()) / stride * stride;
    farthest += stride;
    fake_clock::set(static_cast<std::uint64_t>(farthest));
    return farthest;
  }
  // Stands still half of the time; goes back, but not before the start or a pause; or leaves the low half of its word.
  void move_clock() {
    const std::size_t how = below(16);
    if (how < 8) return;
    now_ns_ += how < 14 ? static_cast<std::int64_t>(below(4)) * tick_ : how == 14 ? (std::int64_t{1} << 32) / 3 : 0;
    if (how == 15 && steps_back_)
      now_ns_ = (std::max)(floor_ns_, now_ns_ - static_cast<std::int64_t>(below(9)) * tick_);
    fake_clock::set(static_cast<std::uint64_t>(now_ns_));
  }
  void pause(profile& prof) {
    const std::int64_t begin = now_ns_;
    prof.pause();
    now_ns_ += static_cast<std::int64_t>(below(5)) * tick_;
    fake_clock::set(static_cast<std::uint64_t>(now_ns_));
    prof.resume();
    pauses_.emplace_back(begin - start_ns_, now_ns_ - start_ns_);
    floor_ns_ = now_ns_;  // so that pauses do not overlap, which other tests look at
  }
  // The time of a record: no log goes back.
  std::int64_t stamp(thread_state& t) {
    if (now_ns_ < t.latest_ns) ++clamps_;
    return t.latest_ns = (std::max)(t.latest_ns, now_ns_);
  }

  void call(std::size_t thread) {
    thread_state& t = threads_[thread];
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
        return begin(t, thread, true);
      case 3:
        return begin(t, thread, false);
      case 4:
      case 5:
        if (!t.raii.empty()) end_raii(t);
        return;
      case 6:
        if (!t.manual.empty()) end_manual(t, below(t.manual.size()));
        return;
      case 7:
      case 8:
        return allocate(t, thread);
      default:
        return free(t);
    }
  }
  void begin(thread_state& t, std::size_t thread, bool is_raii) {
    constexpr const char* names[] = {"a", "b", "c"};
    expected_scope s;
    s.name = names[below(3)];
    s.thread = thread;
    s.begin_ns = stamp(t);
    s.parent = t.open.empty() ? -1 : static_cast<int>(t.open.back());
    const auto index = static_cast<int>(scopes.size());
    if (is_raii) {
      t.raii.emplace_back(scopes.size(), std::make_unique<record_function>(s.name, arg("index", index)));
    } else {
      t.manual.emplace_back(scopes.size(), std::make_unique<manual_scope>());
      t.manual.back().second->begin(s.name, arg("index", index));
    }
    t.open.push_back(scopes.size());
    scopes.push_back(std::move(s));
  }
  void end_raii(thread_state& t) {
    end(t, t.raii.back().first);
    t.raii.pop_back();
  }
  void end_manual(thread_state& t, std::size_t which) {
    end(t, t.manual[which].first);
    t.manual[which].second->end();
    t.manual.erase(t.manual.begin() + static_cast<std::ptrdiff_t>(which));
  }
  // Those that began inside it and are still open do not nest.
  void end(thread_state& t, std::size_t scope) {
    scopes[scope].end_ns = stamp(t);
    scopes[scope].ended = true;
    const auto at = std::find(t.open.begin(), t.open.end(), scope);
    if (at == t.open.end()) return;
    for (auto inner = at + 1; inner != t.open.end(); ++inner) scopes[*inner].apart = true;
    t.open.erase(at, t.open.end());
  }
  void end_all(std::size_t thread) {
    for (thread_state& t = threads_[thread]; !t.raii.empty();) t.raii.pop_back();
    threads_[thread].manual.clear();
  }
  // The nearest one around it that nests.
  void find_parent(std::size_t scope) {
    int& parent = scopes[scope].parent;
    while (parent >= 0 && scopes[static_cast<std::size_t>(parent)].apart)
      parent = scopes[static_cast<std::size_t>(parent)].parent;
  }

  static const void* block(std::size_t thread, int number) {
    const std::uintptr_t address = (thread + 1) * 0x100000 + 64 * static_cast<std::uintptr_t>(number);
    return reinterpret_cast<const void*>(address);
  }
  void allocate(thread_state& t, std::size_t thread) {
    const auto bytes = static_cast<std::int64_t>(below(60));
    stamp(t);
    const int number = next_block_++;
    report_alloc(block(thread, number), static_cast<std::size_t>(bytes));
    t.blocks.emplace_back(number, bytes);
    book(t, bytes, false);
  }
  void free(thread_state& t) {
    stamp(t);
    const std::size_t thread = &t == &threads_[1] ? 1 : 0;
    if (t.blocks.empty() || below(8) == 0) {
      report_free(block(thread, next_block_++));  // of memory that was there before
      ++sums_of(t).unmatched_frees;
      return;
    }
    const std::size_t at = below(t.blocks.size());
    report_free(block(thread, t.blocks[at].first));
    book(t, t.blocks[at].second, true);
    t.blocks.erase(t.blocks.begin() + static_cast<std::ptrdiff_t>(at));
  }
  memory_sums& sums_of(thread_state& t) { return t.open.empty() ? outside : scopes[t.open.back()].self; }
  void book(thread_state& t, std::int64_t bytes, bool is_free) {
    memory_sums& sums = sums_of(t);
    (is_free ? sums.freed_bytes : sums.allocated_bytes) += bytes;
    ++(is_free ? sums.frees : sums.allocations);
  }

  [[nodiscard]] std::int64_t active_ns(const expected_scope& s) const {
    std::int64_t ns = s.end_ns - s.begin_ns;
    for (const auto& [begin, end] : pauses_)
      ns -= (std::max)(std::int64_t{0}, (std::min)(end, s.end_ns) - (std::max)(begin, s.begin_ns));
    return ns;
  }

  std::mt19937_64 random_;
  obedient_thread& other_;
  std::int64_t tick_ = 1, start_ns_ = 0, floor_ns_ = 0, now_ns_ = 0;
  bool steps_back_ = false;
  thread_state threads_[2];
  std::vector<std::pair<std::int64_t, std::int64_t>> pauses_;
  int next_block_ = 1;
  std::uint64_t clamps_ = 0;
};

std::string shown(const memory_sums& m) {
  return std::to_string(m.allocated_bytes) + "/" + std::to_string(m.allocations) + "-" + std::to_string(m.freed_bytes) +
         "/" + std::to_string(m.frees) + "?" + std::to_string(m.unmatched_frees);
}

// One line for each scope, in the order in which they began.
std::string expected_lines(const recorded_program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.scopes.size(); ++i) {
    const expected_scope& s = program.scopes[i];
    text += s.name + " " + std::to_string(s.begin_ns) + ".." + std::to_string(s.end_ns) + (s.ended ? "" : "?") +
            (s.apart ? " apart" : " in " + std::to_string(s.parent)) + " self " + std::to_string(program.self_ns(i)) +
            " " + shown(s.self) + "\n";
  }
  return text;
}
std::string recorded_lines(const trace& t, std::size_t count) {
  const event_tree tree(t);
  std::vector<std::string> lines(count, "missing\n");
  const auto index_of = [&](std::uint32_t event) {
    return event == npos ? -1 : static_cast<int>(t.arguments()[t.detail(t.events()[event]).first_arg].int64);
  };
  for (std::uint32_t i = 0; i < t.events().size(); ++i) {
    const trace_event& e = t.events()[i];
    const bool apart = t.tracks()[e.track].kind == track_kind::async;
    lines[static_cast<std::size_t>(index_of(i))] =
        std::string(t.name(e)) + " " + std::to_string(e.begin_ns - t.info().begin_ns) + ".." +
        std::to_string(e.end_ns - t.info().begin_ns) + (e.has(trace_event::unfinished) ? "?" : "") +
        (apart ? " apart" : " in " + std::to_string(index_of(e.parent))) + " self " + std::to_string(tree.self_ns(i)) +
        " " + shown(tree.self_memory(i)) + "\n";
  }
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

// Calls, self and total of each name.
using name_sums = std::map<std::string, std::vector<std::int64_t>>;
name_sums expected_rows(const recorded_program& program) {
  name_sums rows;
  for (std::size_t i = 0; i < program.scopes.size(); ++i) {
    const expected_scope& s = program.scopes[i];
    std::vector<std::int64_t>& row = rows.emplace(s.name, std::vector<std::int64_t>(3)).first->second;
    ++row[0];
    row[1] += program.self_ns(i);
    if (!program.is_inside_another_of_its_name(i)) row[2] += s.end_ns - s.begin_ns;
  }
  return rows;
}
name_sums recorded_rows(const trace& t) {
  name_sums rows;
  for (const event_average& row : key_averages(t).rows)
    if (!row.is_memory) rows[row.name] = {row.calls, row.self_ns, row.total_ns};
  return rows;
}

}  // namespace

// Catches: times that go backwards in a trace, ties that change the nesting, ends that close another scope of the name,
// bytes in another scope than the one that was open, pauses in self times; on two threads, whatever the clock does.
TEST_CASE("random recordings on random clocks are what the program did", "[random_recordings]") {
  obedient_thread other;
  std::uint64_t steps_back = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + rounds; ++seed) {
    const test::heard heard;
    recorded_program program(seed, other);
    profile prof(test::with_memory());
    program.run(prof);
    const trace t = prof.result();
    INFO("seed " << seed);
    REQUIRE(recorded_lines(t, program.scopes.size()) == expected_lines(program));
    REQUIRE(recorded_rows(t) == expected_rows(program));
    REQUIRE(shown(event_tree(t).memory_outside()) == shown(program.outside));
    REQUIRE(t.losses().kept + t.losses().unfinished == program.scopes.size());
    REQUIRE(t.losses().clamps == program.steps_back());
    if (seed % 10 == 0) test::check_rules(t);
    steps_back += program.steps_back();
  }
  CHECK(steps_back > 100);  // else the clocks were too kind
}

}  // namespace random_recordings_test
