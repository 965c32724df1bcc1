// Catches: memory of the recorder that is not counted, not warm, or grows from session to session.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <stepprof/stepprof.hpp>

namespace pool_test {

namespace {

stepprof::profile_options with_budget(std::size_t bytes) {
  stepprof::profile_options options;
  options.event_budget_bytes = bytes;
  return options;
}

// Fills about `blocks` blocks of the pool: seven arguments of 8 KiB go into one of 64 KiB.
void fill(std::uint32_t blocks) {
  const std::string text(8192, 'x');
  for (std::uint32_t i = 0; i < blocks * 7; ++i) stepprof::record_function scope("s", stepprof::arg("text", text));
}

// A forked child has lost nothing yet.
bool child_is_clean() {
  stepprof::profile prof;
  { stepprof::record_function scope("child"); }
  prof.stop();
  const stepprof::loss_counts lost = prof.result().losses();
  return lost.kept == 1 && lost.dropped + lost.dropped_arguments + lost.dropped_memory == 0 &&
         stepprof::process_totals().dropped == 0;
}

}  // namespace

// Catches: what a thread could not record, left out of the counts because the thread has no log, or counted again in a
// forked child.
TEST_CASE("what threads lose that find the pool used up is counted", "[pool]") {
  const test::heard heard;
  stepprof::profile_options options = with_budget(std::size_t{1} << 20);
  options.profile_memory = true;
  stepprof::profile prof(options);
  std::uint64_t begins = 0;
  std::uint64_t recorded = 0;
  const auto count = [&](bool accepted) {
    ++begins;
    recorded += accepted ? 1 : 0;
    return accepted;
  };
  for (bool room = true; room;) room = count(stepprof::record_function("fill").recorded());
  constexpr std::uint64_t threads = 50;
  int without = 0;
  for (std::uint64_t i = 0; i < threads; ++i)
    std::thread([&] {
      int block = 0;
      stepprof::manual_scope manual;
      manual.begin("manual");
      count(manual.recorded());
      stepprof::mark("mark");
      stepprof::report_alloc(&block, 4);
      without += count(stepprof::record_function("scope").recorded()) ? 0 : 1;
    }).join();
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(without > 20);  // a block that was cut into pieces before gives room to some
  CHECK(t.losses().kept == recorded);
  CHECK(t.losses().kept + t.losses().dropped == begins);
  CHECK(t.losses().reentrant == 0);
  CHECK(t.marks().size() + t.losses().dropped_arguments == threads);
  CHECK(t.memory().size() + t.losses().dropped_memory == threads);

  if (STEPPROF_POSIX == 0) return;  // without the system's services a fork is not seen
  const pid_t child = ::fork();
  if (child == 0) ::_exit(child_is_clean() ? 0 : 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

// Catches: a trace that tells how much memory is in use once its own is given back.
TEST_CASE("a trace says how much memory its recording used", "[pool]") {
  stepprof::profile prof;
  fill(100);
  const std::uint64_t block = 65536;
  const std::uint64_t running = prof.snapshot().info().profiler_bytes;
  prof.stop();
  const std::uint64_t stopped = prof.result().info().profiler_bytes;
  CHECK(running == stopped);
  CHECK(stopped >= 100 * block);
  CHECK(stopped < 120 * block);  // beside names, and threads of earlier tests
  prof.start();
  prof.stop();
  CHECK(prof.result().info().profiler_bytes < 20 * block);
}

// Catches: pre-writing that stays behind what is needed, or a count of cold chunks that counts warm ones.
TEST_CASE("a cycle that needs more than was written before says so, and the next one finds it written", "[pool]") {
  const test::heard heard;
  std::vector<std::uint64_t> cold;
  stepprof::profile_options options = with_budget(std::size_t{256} << 20);
  options.schedule = stepprof::schedule{0, 0, 1, 3};
  options.on_trace_ready = [&](const stepprof::trace& t) {
    cold.push_back(t.losses().cold_chunks);
    CHECK(t.losses().dropped + t.losses().dropped_arguments == 0);
  };
  stepprof::profile prof(options);
  const std::uint32_t written = stepprof::detail::the_pool.written_blocks();
  CHECK(written >= 512);                    // 32 MiB before anything is recorded
  const std::uint32_t load = written + 64;  // what earlier tests wrote is warm, too
  for (int cycle = 0; cycle < 3; ++cycle) {
    fill(load);
    prof.step();
  }
  prof.stop();
  REQUIRE(cold.size() == 3);
  CHECK(cold[0] >= 60);
  CHECK(cold[0] <= 70);
  CHECK(cold[1] == 0);
  CHECK(cold[2] == 0);
}

// Catches: names given at run time that are kept for ever, so that a long run grows with every session.
TEST_CASE("the memory of a thousand sessions of different names is flat", "[pool]") {
  const auto taken = [] { return stepprof::detail::the_pool.taken_blocks(); };
  stepprof::profile prof(with_budget(std::size_t{64} << 20), stepprof::deferred);
  std::vector<std::uint32_t> blocks;
  for (int session = 0; session < 1000; ++session) {
    prof.start();
    for (int i = 0; i < 50; ++i)
      stepprof::record_function scope("session " + std::to_string(session) + " name " + std::to_string(i) +
                                      std::string(1000, 'x'));
    prof.stop();
    REQUIRE(prof.result().losses().overflow_names == 0);
    blocks.push_back(taken());
  }
  for (std::size_t i = 4; i < blocks.size(); ++i) REQUIRE(blocks[i] == blocks[3]);
  // 50 names of 1 KiB are one block; two sessions' names are kept, beside the chunk in use and earlier tests' logs.
  CHECK(blocks[3] < 20);
}

// Catches: counts that begin anew at 2^32, which a thread reaches within a minute when memory is full.
TEST_CASE("more than 2^32 begins may be dropped", "[pool]") {
  const test::heard heard;
  stepprof::profile prof(with_budget(std::size_t{1} << 20));
  while (stepprof::record_function("fill").recorded()) {
  }
  stepprof::detail::my_counters().dropped_begins += (std::uint64_t{1} << 32) - 2;
  const std::uint64_t before = stepprof::process_totals().dropped;
  for (int i = 0; i < 5; ++i) stepprof::record_function scope("dropped");
  CHECK(stepprof::process_totals().dropped == before + 5);
  prof.stop();
  CHECK(prof.result().losses().dropped == (std::uint64_t{1} << 32) - 1 + 5);  // also the one that ended the filling
}

// Catches: losses of an earlier session in the first trace of the next.
TEST_CASE("a trace counts the losses of its own window", "[pool]") {
  const test::heard heard;
  {
    stepprof::profile_options options = with_budget(std::size_t{1} << 20);
    options.schedule = stepprof::schedule{0, 5, 1};  // stopped while it warms up: there is no trace
    stepprof::profile prof(options);
    while (stepprof::record_function("fill").recorded()) {
    }
    prof.stop();
  }
  stepprof::profile prof;
  { stepprof::record_function scope("kept"); }
  prof.stop();
  CHECK(prof.result().losses().kept == 1);
  CHECK(prof.result().losses().dropped == 0);
}

// Catches: begins that passed the gate just before it closed, told of in a trace of another session.
TEST_CASE("a late begin is told of in the next trace of its session, and counted for the process", "[pool]") {
  const test::heard heard;
  // As a thread does that was stopped between its look at the gate and its begin.
  const auto begin_late = [] {
    using clock = stepprof::product_clock;
    const std::uint32_t begin = stepprof::detail::what_of(stepprof::detail::tag::begin_user, 1);
    const std::uint32_t end = stepprof::detail::what_of(stepprof::detail::tag::end, 1);
    stepprof::detail::end_scope<clock>(stepprof::detail::begin_scope<clock>(begin), end);
  };
  std::vector<std::uint64_t> late;
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{1, 0, 1};
  options.on_trace_ready = [&](const stepprof::trace& t) { late.push_back(t.losses().late); };
  const std::uint64_t before = stepprof::process_totals().late;
  stepprof::profile prof(options);
  for (int step = 0; step < 2; ++step) prof.step();  // until the next step that is not recorded
  begin_late();
  for (int step = 0; step < 2; ++step) prof.step();
  prof.stop();
  begin_late();
  prof.start();
  for (int step = 0; step < 2; ++step) prof.step();
  prof.stop();
  CHECK(late == std::vector<std::uint64_t>{0, 1, 0});
  CHECK(stepprof::process_totals().late == before + 2);
}

// Catches: arguments that are written while nobody will read them, until the memory is full.
TEST_CASE("a scope that is still open after stop() takes no more arguments", "[pool]") {
  const std::string text(8192, 'x');
  stepprof::profile prof;
  stepprof::record_function scope("open");
  scope.add_arg("before", 1);
  prof.stop();
  const std::uint32_t taken = stepprof::detail::the_pool.taken_blocks();
  for (int i = 0; i < 100; ++i) scope.add_arg("after", text);
  CHECK(stepprof::detail::the_pool.taken_blocks() == taken);
  CHECK(prof.result().arguments().size() == 1);
}

// Catches: a name that is cut inside a character, or silently.
TEST_CASE("names that are too long are cut at a character, and the trace says so", "[pool]") {
  const test::heard heard;
  const std::string start(16383, 'n');
  stepprof::profile prof;
  { stepprof::record_function scope(start + "\xc3\xa9 one"); }
  { stepprof::record_function scope(start + "\xc3\xa9 two"); }
  { stepprof::record_function scope(start + "m"); }
  prof.stop();
  const stepprof::trace t = prof.result();
  CHECK(t.text(t.events()[0].name) == start);
  CHECK(t.events()[0].name == t.events()[1].name);
  CHECK(t.text(t.events()[2].name) == start + "m");
  REQUIRE(t.notes().size() == 1);
  CHECK(t.notes()[0].code == "names_cut");
  CHECK(test::contains(t.notes()[0].text, "2 use(s) of names longer than 16384 bytes"));
}

// Catches: an assertion or a copy of the whole name, a cut inside a character, a count that leaves out the longest.
// FC-42: https://github.com/wolfpld/tracy/issues/280
TEST_CASE("names of up to 64 MiB are cut where all names are, and take no more memory", "[pool]") {
  const test::heard heard;
  const std::size_t sizes[] = {65535, 65536, std::size_t{1} << 20, std::size_t{64} << 20};
  stepprof::profile prof;
  { stepprof::record_function scope("first"); }
  const std::uint32_t taken = stepprof::detail::the_pool.taken_blocks();
  for (const std::size_t size : sizes) {
    // Two bytes each, from the second on: the last of them that begins before the limit ends behind it.
    std::string name = std::to_string(size % 7);
    for (std::string characters = "\xc3\xa9"; name.size() < size; characters += characters)
      name.append(characters, 0, size - name.size());
    stepprof::record_function scope(name);
  }
  CHECK(stepprof::detail::the_pool.taken_blocks() <= taken + 2);  // four names of 16 KiB
  prof.stop();
  const stepprof::trace t = prof.result();
  REQUIRE(t.events().size() == 5);
  for (std::size_t i = 1; i < 5; ++i) {
    const std::string name(t.name(t.events()[i]));
    CHECK(name.size() == 16383);
    CHECK(name.substr(0, 3) == std::to_string(sizes[i - 1] % 7) + "\xc3\xa9");
    CHECK(name.substr(name.size() - 2) == "\xc3\xa9");
  }
  CHECK(heard.codes() == "names_cut");
  CHECK(test::contains(t.notes()[0].text, "4 use(s) of names longer than 16384 bytes"));
  test::check_rules(t);  // valid UTF-8, too
}

// Catches: a table of another layout that a second version of the library would call through.
TEST_CASE("the table of cold paths carries its number", "[pool]") {
  stepprof::profile prof;
  const stepprof::detail::cold_table* const table = stepprof::detail::cold_paths();
  REQUIRE(table != nullptr);
  CHECK(table->abi == stepprof::detail::cold_table_abi);
  CHECK(reinterpret_cast<const std::uint32_t*>(table) == &table->abi);  // first, whatever else changes
}

}  // namespace pool_test
