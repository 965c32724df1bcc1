// Catches: a coroutine whose scope ends on another thread than it began on, taken for an error or for a scope of one of
// the threads. FC-20: wolfpld/tracy#936, #106, #1360
#include <coroutine>
#include <cstdio>
#include <exception>
#include <thread>

#include <stepprof/stepprof.hpp>

namespace {

// Runs at once, and is gone at its end.
struct task {
  struct promise_type {
    task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// Goes on on a thread of its own, which the one before it waits for.
struct other_thread {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> rest) const { std::thread(rest).join(); }
  void await_resume() const noexcept {}
};

int block = 0;

void part(const char* name, bool allocates = false) {
  stepprof::record_function running("request");
  if (allocates) stepprof::report_alloc(&block, 512);
  const stepprof::record_function scope(name);
}

task request() {
  const stepprof::async_scope whole("request");
  part("part 1");
  co_await other_thread();
  part("part 2", true);
  co_await other_thread();
  part("part 3");
}

}  // namespace

int main() {
  stepprof::profile_options options;
  options.profile_memory = true;
  stepprof::profile prof(options);
  {
    STEPPROF_SCOPE("loop");
    request();
  }
  prof.stop();
  const stepprof::trace t = prof.result();
  int asynchronous = 0, odd = 0;
  for (const stepprof::trace_event& e : t.events()) {
    asynchronous += e.has(stepprof::trace_event::async);
    odd += e.has(stepprof::trace_event::other_thread) || e.has(stepprof::trace_event::unfinished);
  }
  const stepprof::event_averages rows = stepprof::key_averages(t);
  const bool right = asynchronous == 1 && odd == 0 && rows.thread_count == 3 && t.losses().unmatched_ends == 0 &&
                     rows.at("request").calls == 4 && rows.at("request").self_memory.allocated_bytes == 512 &&
                     rows.at("part 3").calls == 1 && rows.at("loop").calls == 1;
  std::puts(right ? "one request on three threads" : "wrong: see the source for what a coroutine leaves behind");
  return right ? 0 : 1;
}
