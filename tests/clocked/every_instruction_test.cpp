// A signal handler that records between any two instructions of the recorder, and looks at the thread's log as another
// thread would that collects.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>
#include <support/sanitized.hpp>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <pthread.h>

#include <stepprof/stepprof.hpp>

namespace every_instruction_test {

using test::fake_clock;

namespace {

// AddressSanitizer's own instructions are so many that stepping through them takes longer than all other tests.
constexpr bool is_slow = test::address_sanitized;

// The trap flag of x86: a SIGTRAP after every instruction of this thread, but for those of the handler. Elsewhere, and
// under ThreadSanitizer, which keeps signals back, nothing is tested here.
constexpr bool can_step = STEPPROF_LINUX != 0 && STEPPROF_MEMORY_OPERANDS != 0 && !is_slow;

void set_trap_flag(bool on) {
#if STEPPROF_MEMORY_OPERANDS
  // The red zone below the stack pointer is the compiler's.
  const std::uint64_t set = on ? 0x100 : 0;
  __asm__ volatile(
      "leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\torq %0, (%%rsp)\n\tpopfq\n\t"
      "leaq 128(%%rsp), %%rsp"
      :
      : "r"(set)
      : "memory", "cc");
#else
  static_cast<void>(on);
#endif
}

struct counts {
  std::uint64_t sleep = 0;  // steps in which the handler does nothing
  std::uint64_t steps = 0;
  std::uint64_t begun = 0;  // scopes of the handler
  std::uint64_t accepted = 0;
  std::uint64_t shared = 0;  // of the handler, with the site that is also the thread's
  std::uint64_t faults = 0;  // that the watching reader found
  void add(const counts& more) {
    steps += more.steps;
    begun += more.begun;
    accepted += more.accepted;
    faults += more.faults;
  }
};

// What another thread that collects would see of this thread's log between two instructions: whatever it saw before
// must still be there, and be what it was.
class watching_reader {
 public:
  std::uint64_t faults = 0;
  // Before the handler records.
  void look() {
    const stepprof::detail::log_block* const log = current_log();
    if (log == nullptr || log != log_) return;
    const stepprof::detail::block_ref now = log->current.load();
    const std::uint32_t bytes = stepprof::detail::published_bytes(*log, now);
    if (now == chunk_) {
      faults += bytes < bytes_ ? 1u : 0u;
    } else {
      const stepprof::detail::chunk_header* const old = stepprof::detail::chunk_at(chunk_);
      faults += old->next.load() != now || stepprof::detail::published_bytes(old) < bytes_ ? 1u : 0u;
    }
    faults += stepprof::detail::chunk_at(chunk_)->sequence != sequence_ ? 1u : 0u;
    faults += std::memcmp(last_, at(), sizeof last_) != 0 ? 1u : 0u;
  }
  // After it has recorded.
  void remember() {
    log_ = current_log();
    if (log_ == nullptr) return;
    chunk_ = log_->current.load();
    bytes_ = stepprof::detail::published_bytes(*log_, chunk_);
    sequence_ = stepprof::detail::chunk_at(chunk_)->sequence;
    std::memcpy(last_, at(), sizeof last_);
  }

 private:
  static const stepprof::detail::log_block* current_log() {
    stepprof::detail::writer* const own = stepprof::detail::this_thread.own;
    return stepprof::detail::has_log(*own) ? &stepprof::detail::log_of(own) : nullptr;
  }
  [[nodiscard]] const char* at() const {
    return reinterpret_cast<const char*>(stepprof::detail::chunk_at(chunk_)) + bytes_ - sizeof last_;
  }
  const stepprof::detail::log_block* log_ = nullptr;
  stepprof::detail::block_ref chunk_ = 0;
  std::uint32_t bytes_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint64_t last_[2] = {};  // the last two words, or some of the header
};

enum class clock { stands, jumps };

counts so_far;
watching_reader watching;
stepprof::detail::call_site* shared_site = nullptr;  // of the thread and the handler
const stepprof::detail::log_block* log_that_ends = nullptr;
bool reporting = false;  // the handler reports memory, and nothing else
bool jumping = false;    // the handler takes the clock to another high half, now and then

void count(bool recorded) {
  // Nobody looks at what is written behind a log's end.
  if (recorded && log_that_ends != nullptr && log_that_ends->state.load() == stepprof::detail::log_state::dead)
    ++watching.faults;
  ++so_far.begun;
  so_far.accepted += recorded ? 1 : 0;
}

void handler(int) {
  const std::uint64_t number = so_far.steps++;
  if (number < so_far.sleep) return;
  if (jumping && number % 7 == 3) fake_clock::advance(std::int64_t{1} << 32);
  watching.look();
  if (reporting) {
    const auto* const block = reinterpret_cast<const void*>(0x100000 + 16 * number);
    stepprof::report_alloc(block, 1);
    stepprof::report_free(block);
  } else if (shared_site != nullptr) {
    { const stepprof::detail::site_scope<stepprof::product_clock> scope(*shared_site, ""); }
    ++so_far.shared;
  } else if (number % 3 == 0) {
    STEPPROF_SCOPE("handler");
    const stepprof::record_function inner("handler", stepprof::arg("number", number));
    count(inner.recorded());
    count(inner.recorded());  // the macro's shares its fate
  } else if (number % 3 == 1) {
    stepprof::manual_scope scope;
    scope.begin("handler");
    count(scope.recorded());
  } else {
    const stepprof::record_function scope("handler");
    count(scope.recorded());
    stepprof::mark("mark of the handler");
  }
  watching.remember();
}

// Does `work` with the handler behind every instruction of it. It must not call what blocks signals: the system would
// end the program.
template <class Work>
counts step_through(Work work, clock kind = clock::stands) {
  void (*const before)(int) = std::signal(SIGTRAP, &handler);
  so_far = counts();
  watching = watching_reader();
  jumping = kind == clock::jumps;
  set_trap_flag(true);
  work();
  set_trap_flag(false);
  std::signal(SIGTRAP, before);
  so_far.faults = watching.faults;
  return so_far;
}

std::uint64_t events_named(const stepprof::trace& t, std::string_view name) {
  std::uint64_t found = 0;
  for (const stepprof::trace_event& e : t.events()) found += t.name(e) == name ? 1u : 0u;
  return found;
}

// `own` is how many scopes the program has begun beside those of the handler.
void check_balance(const stepprof::trace& t, const counts& c, std::uint64_t own) {
  CHECK(c.steps > 100);
  CHECK(c.faults == 0);
  CHECK(c.accepted > 0);
  CHECK(t.losses().kept == own + c.accepted);
  CHECK(t.losses().dropped == c.begun - c.accepted);
  CHECK(t.losses().reentrant == t.losses().dropped);
  CHECK(t.losses().unfinished == 0);
  CHECK(t.losses().unmatched_ends == 0);
  CHECK(t.losses().late == 0);
  CHECK(events_named(t, "handler") == c.accepted);
  CHECK(t.events().size() == own + c.accepted);
  test::check_self_times(t);
}

void record_everything(int i) {
  STEPPROF_SCOPE("outer");
  {
    stepprof::record_function named(i % 2 == 0 ? "even" : "odd", stepprof::arg("i", i), stepprof::scope_kind::op);
    stepprof::manual_scope manual;
    manual.begin("manual");
    { STEPPROF_SCOPE("inner", stepprof::arg("i", i)); }
    named.add_arg("late", "text");
    stepprof::counter("level", i);
  }
}
constexpr std::uint64_t scopes_of_everything = 4;

}  // namespace

// Catches: what is read before the thread says that it is inside, or written after it says that it is not; a position
// that is published before what stands there, or a chunk before its own position is final.
TEST_CASE("a handler between any two instructions of a recording thread breaks nothing", "[every_instruction]") {
  if (!can_step) return;
  fake_clock::ticks_per_reading(1);
  for (const clock kind : {clock::stands, clock::jumps})
    for (const bool warm : {true, false}) {
      CAPTURE(warm);
      const test::heard heard;
      stepprof::profile prof;
      if (warm) record_everything(0);
      const auto work = [] {
        for (int i = 0; i < 3; ++i) record_everything(i);
      };
      const counts c = step_through(work, kind);
      { STEPPROF_SCOPE("behind"); }
      prof.stop();
      const stepprof::trace t = prof.result();
      const std::uint64_t rounds = warm ? 4 : 3;
      check_balance(t, c, rounds * scopes_of_everything + 1);
      CHECK(events_named(t, "outer") == rounds);
      CHECK(events_named(t, "inner") == rounds);
      CHECK(events_named(t, "manual") == rounds);
      for (const stepprof::trace_event& e : t.events()) {
        const std::string_view parent = e.parent == stepprof::npos ? "" : t.name(t.events()[e.parent]);
        if (t.name(e) == "outer" || t.name(e) == "behind") CHECK(parent == "");
        if (t.name(e) == "even" || t.name(e) == "odd") CHECK(parent == "outer");
        if (t.name(e) == "manual") CHECK((parent == "even" || parent == "odd"));
        if (t.name(e) == "inner") CHECK(parent == "manual");
      }
    }
  fake_clock::ticks_per_reading(0);
}

namespace {

// The value of a pthread key whose destructor comes after the one by which the recorder sees the end of a thread.
void end_stepping(void* out) {
  set_trap_flag(false);
  *static_cast<counts*>(out) = so_far;
}

}  // namespace

// Catches: two logs for one thread, a log that is written behind its end, scopes lost while a thread gets its log.
TEST_CASE("a handler between any two instructions of a thread's life breaks nothing", "[every_instruction]") {
  if (!can_step) return;
  { stepprof::profile first; }  // the recorder has its key
  pthread_key_t key{};
  REQUIRE(::pthread_key_create(&key, &end_stepping) == 0);
  void (*const before)(int) = std::signal(SIGTRAP, &handler);
  jumping = false;
  bool reached_end = false;
  // Before `sleep` steps the handler leaves the recorder alone, so that the thread itself gets its log.
  for (std::uint64_t sleep = 0; !reached_end; sleep += 97) {
    CAPTURE(sleep);
    const test::heard heard;
    stepprof::profile prof;
    const std::uint32_t threads_before = stepprof::detail::the_registry.next_thread;
    counts c;
    so_far = counts();
    so_far.sleep = sleep;
    watching = watching_reader();
    std::thread([&] {
      ::pthread_setspecific(key, &c);
      set_trap_flag(true);
      STEPPROF_SCOPE("work");
      log_that_ends = &stepprof::detail::log_of(stepprof::detail::this_thread.own);
    }).join();
    log_that_ends = nullptr;
    prof.stop();
    const stepprof::trace t = prof.result();
    CHECK(t.losses().kept + t.losses().dropped == 1 + c.begun);
    CHECK(t.losses().kept == events_named(t, "work") + c.accepted);
    // A handler that interrupts a thread while that gets its log, and nothing else, may not make it lose its own scope.
    CHECK(events_named(t, "work") == 1);
    CHECK(t.losses().unfinished == 0);
    CHECK(t.losses().unmatched_ends == 0);
    CHECK(stepprof::detail::the_registry.next_thread == threads_before + 1);
    CHECK(t.tracks().size() == 1);
    CHECK(watching.faults == 0);
    reached_end = c.begun == 0;
  }
  std::signal(SIGTRAP, before);
  ::pthread_key_delete(key);
}

// Catches: a call site whose begin is there before its end.
TEST_CASE("a handler between any two instructions that register a call site finds all of it or nothing",
          "[every_instruction]") {
  if (!can_step) return;
  const test::heard heard;
  stepprof::profile prof;
  stepprof::detail::call_site site{"shared", __FILE__, 1, {0}, {0}};
  shared_site = &site;
  const counts c = step_through([&] { const stepprof::detail::site_scope<stepprof::product_clock> scope(site, ""); });
  shared_site = nullptr;
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(c.shared > 20);
  CHECK(watching.faults == 0);
  CHECK(t.losses().unfinished == 0);
  CHECK(t.losses().unmatched_ends == 0);
  CHECK(t.losses().kept == events_named(t, "shared"));
  CHECK(t.losses().kept + t.losses().dropped == 1 + c.shared);
}

// Catches: room that is counted twice, or not, while ends are kept room for in spare chunks.
TEST_CASE("a handler between any two instructions at the border of deep nesting breaks nothing",
          "[every_instruction]") {
  if (!can_step) return;
  const test::heard heard;
  stepprof::profile prof;
  std::vector<std::unique_ptr<stepprof::record_function>> open;
  const auto open_more = [&] { open.push_back(std::make_unique<stepprof::record_function>("level")); };
  stepprof::detail::log_block* log = nullptr;
  std::uint64_t own = 0;
  counts c;
  open_more();
  log = &stepprof::detail::log_of(stepprof::detail::this_thread.own);
  const std::uint32_t before = stepprof::detail::reserved_bytes(*log) - 8;  // of scopes that other cases left open
  // Until 40 more begins at most make the log a deep one.
  while (stepprof::detail::reserved_bytes(*log) + 1024 + 40 * 8 < stepprof::detail::chunk_room) open_more();
  while (!log->deep && open.size() < 20000) {
    c.add(step_through([&] {
      for (int i = 0; i < 4; ++i) open_more();
    }));
  }
  CHECK(log->deep);
  own = open.size();
  while (stepprof::detail::reserved_bytes(*log) > stepprof::detail::chunk_room / 4 + 16) open.pop_back();
  while (log->deep && !open.empty()) {
    c.add(step_through([&] { open.pop_back(); }));
  }
  CHECK_FALSE(log->deep);
  open.clear();
  CHECK(stepprof::detail::reserved_bytes(*log) == before);
  prof.stop();
  check_balance(prof.result(), c, own);
}

// Catches: a report of a signal handler that waits for, or breaks, the report that it interrupts, and one that is lost
// without being counted.
TEST_CASE("a handler that reports memory between any two instructions of a report breaks nothing",
          "[every_instruction]") {
  if (!can_step) return;
  fake_clock::ticks_per_reading(1);
  const test::heard heard;
  const stepprof::memory_pool pool("pool");
  for (const clock kind : {clock::stands, clock::jumps}) {
    stepprof::profile_options options;
    options.profile_memory = true;
    stepprof::profile prof(options);
    reporting = true;
    constexpr int turns = 40;
    const counts c = step_through(
        [&] {
          STEPPROF_SCOPE("work");
          for (int i = 0; i < turns; ++i) {
            const auto* const block = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(16 + 16 * i));
            stepprof::report_alloc(block, 100);
            stepprof::report_alloc(block, 50, pool);
            stepprof::report_free_range(block, 1, pool);
            stepprof::report_free(block);
          }
        },
        kind);
    reporting = false;
    prof.stop();
    const stepprof::trace t = prof.result();
    const stepprof::memory_sums& work = prof.key_averages().at("work").total_memory;
    CHECK(c.steps > 1000);
    CHECK(c.faults == 0);
    CHECK(t.losses().dropped_memory > 0);
    CHECK(t.memory().size() + t.losses().dropped_memory == 4 * turns + 2 * c.steps);
    CHECK(work.net_bytes() == 0);
    CHECK(t.losses().unmatched_frees + t.losses().lost_frees + t.losses().late_frees == 0);
    CHECK(t.memory().back().total_allocated == 0);
  }
  fake_clock::ticks_per_reading(0);
}

}  // namespace every_instruction_test
