// Catches: results whose making takes several times the memory of what was recorded, or the stack of its depth.
#include <support/recorded.hpp>
#include <support/skip.hpp>
#include <support/temp_folder.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <stepprof/stepprof.hpp>
#include <stepprof/tools/trace_reader.hpp>

#include "resident.hpp"

namespace collecting_test {

namespace {

void record(std::size_t scopes) {
  for (std::size_t i = 0; i < scopes; i += 5) {
    STEPPROF_SCOPE("batch");
    for (int k = 0; k < 2; ++k) {
      STEPPROF_SCOPE("layer");
      const stepprof::record_function op("op", stepprof::scope_kind::op);
    }
  }
}

// How far what is in RAM goes beyond what is there now while `work` runs.
std::uint64_t peak_of(const std::function<void()>& work) {
#if defined(__GLIBC__)
  ::malloc_trim(0);  // what was freed before must not serve it
#endif
  const std::uint64_t before = test::resident_bytes();
  test::forget_peak();
  work();
  const std::uint64_t peak = test::peak_bytes();
  return peak > before ? peak - before : 0;
}

std::uint64_t taken_bytes() {
  return std::uint64_t{stepprof::detail::the_pool.taken_blocks()} * stepprof::detail::block_bytes;
}

// Tells how much of the pool is taken when a page is first read. One at a time.
class first_reading {
 public:
  explicit first_reading(char* page) {
    page_ = page;
    taken_bytes_ = 0;
    struct sigaction action {};
    action.sa_sigaction = [](int signal, siginfo_t* info, void*) {
      if (info->si_addr < page_ || info->si_addr >= page_ + page_bytes) {  // somebody else's fault
        ::signal(signal, SIG_DFL);
        return;
      }
      taken_bytes_ = taken_bytes();
      ::mprotect(page_, page_bytes, PROT_READ | PROT_WRITE);
    };
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, &before_);
    ::mprotect(page_, page_bytes, PROT_NONE);
  }
  ~first_reading() {
    ::mprotect(page_, page_bytes, PROT_READ | PROT_WRITE);
    ::sigaction(SIGSEGV, &before_, nullptr);
  }
  first_reading(const first_reading&) = delete;
  first_reading& operator=(const first_reading&) = delete;

  static constexpr std::size_t page_bytes = 4096;
  [[nodiscard]] std::uint64_t taken_bytes_then() const { return taken_bytes_; }  // 0: it was not read

 private:
  static inline char* page_ = nullptr;
  static inline std::uint64_t taken_bytes_ = 0;
  struct sigaction before_ {};
};

// The chunks of the calling thread's log, oldest first.
std::vector<char*> own_chunks() {
  using namespace stepprof::detail;
  std::vector<char*> chunks;
  block_ref ref = oldest_chunk(log_of(this_thread.own));
  for (; ref != 0; ref = chunk_at(ref)->next.load()) chunks.push_back(reinterpret_cast<char*>(chunk_at(ref)));
  return chunks;
}

// In a thread with a stack of so many bytes.
void with_stack(std::size_t bytes, std::function<void()> work) {
  pthread_attr_t attributes;
  REQUIRE(::pthread_attr_init(&attributes) == 0);
  REQUIRE(::pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread{};
  const auto call = [](void* what) -> void* {
    (*static_cast<std::function<void()>*>(what))();
    return nullptr;
  };
  REQUIRE(::pthread_create(&thread, &attributes, call, &work) == 0);
  ::pthread_join(thread, nullptr);
  ::pthread_attr_destroy(&attributes);
}

}  // namespace

// Catches: a log that is kept in memory until all of its trace is made, while other threads go on and need its chunks.
TEST_CASE("a chunk is free as soon as it is read", "[bounded]") {
  stepprof::profile prof;
  std::uint64_t taken = 0, taken_then = 0;
  std::size_t count = 0;
  std::thread([&] {  // whose log begins here
    record(1000000);
    const std::vector<char*> chunks = own_chunks();
    count = chunks.size();
    taken = taken_bytes();
    const first_reading reading(chunks[count / 2] + first_reading::page_bytes);  // the header is looked at before
    prof.stop();
    taken_then = reading.taken_bytes_then();
  })
      .join();
  CHECK(count > 200);
  // All before are free, but for the first, which is a small piece of a block.
  CHECK(taken_then == taken - (count / 2 - 1) * stepprof::detail::block_bytes);
  CHECK(prof.result().losses().kept == 1000000);
}

// Catches: copies of the log or of the events on the way to the trace and to the table.
// FC-36: https://github.com/pytorch/pytorch/issues/56623
TEST_CASE("ten million scopes become a trace and a table in little more than their memory", "[bounded]") {
  if (!test::can_measure_memory()) return test::skip("needs /proc/self/smaps_rollup");
  constexpr std::size_t scopes = 10000000;
  stepprof::profile_options options;
  // Just enough for two words each: what more there is would be written ahead for the next cycle, and be measured here.
  options.event_budget_bytes = std::size_t{160} << 20;
  stepprof::profile prof(options);
  record(scopes);
  const std::uint64_t log_bytes = taken_bytes();
  const std::uint64_t collecting = peak_of([&] { prof.stop(); });
  const stepprof::trace t = prof.result();
  REQUIRE(t.losses().kept == scopes);
  const std::uint64_t trace_bytes = stepprof::memory_bytes(t);
  stepprof::event_averages averages;
  std::string table;
  const std::uint64_t averaging = peak_of([&] {
    averages = stepprof::key_averages(t);
    table = averages.table("self_cpu_time_total", 10);
  });
  const std::uint64_t exporting = peak_of([&] {
    stepprof::detail::counting_sink sink;
    stepprof::write_chrome_trace(t, sink);
  });
  const auto mib = [](std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB, "; };
  INFO("log " + mib(log_bytes) + "trace " + mib(trace_bytes) + "collecting " + mib(collecting) + "averages " +
       mib(averaging) + "exporting " + mib(exporting));
  CHECK(averages.at("op").calls == 4000000);
  CHECK(test::contains(table, "batch"));
  CHECK(log_bytes < 16 * scopes + (std::size_t{4} << 20));
  // The log is in RAM before, and stays there for the next cycle. What may come to it is the trace, and as much as the
  // log again; but its chunks were free before, see above, so that it is the trace and a few MiB.
  CHECK(collecting <= log_bytes + trace_bytes);
  CHECK(collecting > trace_bytes / 2);  // else it was not measured
  CHECK(averaging <= trace_bytes);
  CHECK(exporting <= std::uint64_t{16} << 20);
}

// Catches: recursion along the nesting of the recording.
// FC-36: https://github.com/pytorch/kineto/issues/126
TEST_CASE("a chain of a hundred thousand scopes needs no stack", "[bounded]") {
  constexpr std::size_t depth = 100000;
  std::uint64_t calls = 0, deep = 0, read = 0, shown = 0;
  with_stack(std::size_t{128} << 10, [&] {
    stepprof::profile prof;
    std::vector<std::optional<stepprof::record_function>> open(depth);
    for (auto& scope : open) scope.emplace("nested");
    for (std::size_t i = depth; i-- > 0;) open[i].reset();
    prof.stop();
    const stepprof::trace t = prof.result();
    const stepprof::event_averages averages = stepprof::key_averages(t);
    calls = static_cast<std::uint64_t>(averages.at("nested").calls);
    shown = averages.table().size();
    std::string text;
    deep = stepprof::write_chrome_trace(t, text).deep_scopes;
    read = stepprof::parse_trace(text).events().size();
    const test::temp_folder folder;
    stepprof::export_speedscope(t, folder / "chain.speedscope.json");
    shown += test::contents_of(folder / "chain.speedscope.json").size();
  });
  CHECK(calls == depth);
  CHECK(deep == depth - 512);
  CHECK(read == depth);
  CHECK(shown > depth);
}

}  // namespace collecting_test
