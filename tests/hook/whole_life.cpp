// A program that allocates before main, in destructors of statics and of thread_locals, and is profiled all the while.
// Exits with 0 when all of it was recorded.
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <stepprof/record/operator_new.hpp>
#include <stepprof/stepprof.hpp>

namespace {

// Allocates when it comes and frees when it goes, in a scope, and allocates once more then.
struct holder {
  explicit holder(const char* text) : name(text) {
    const stepprof::record_function scope(name);
    block = new char[1000];
  }
  ~holder() {
    const stepprof::record_function scope(name);
    delete[] block;
    ::operator delete(::operator new(24));  // not an expression, which a compiler may leave out
  }
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;
  const char* name;
  char* block = nullptr;
};

stepprof::profile_options with_memory() {
  stepprof::profile_options options;
  options.profile_memory = true;
  return options;
}

// Made first, gone last.
struct whole_profile {
  whole_profile() : prof(with_memory()) {}
  ~whole_profile() {
    prof.stop();
    const stepprof::event_averages rows = prof.key_averages();
    bool right = prof.result().losses().dropped_memory == 0 && prof.result().losses().lost_frees == 0;
    for (const char* const name : {"static", "thread_local", "function static"}) {
      const stepprof::event_average* const row = rows.find(name);
      right = right && row != nullptr && row->calls == 2 && row->self_memory.allocated_bytes == 1024 &&
              row->self_memory.freed_bytes == 1024 && row->self_memory.unmatched_frees == 0;
      if (row != nullptr)
        std::printf("%s: %ld calls, %ld bytes allocated, %ld freed\n", name, static_cast<long>(row->calls),
                    static_cast<long>(row->self_memory.allocated_bytes),
                    static_cast<long>(row->self_memory.freed_bytes));
    }
    std::fflush(stdout);
    if (!right) std::_Exit(1);
  }
  whole_profile(const whole_profile&) = delete;
  whole_profile& operator=(const whole_profile&) = delete;
  stepprof::profile prof;
};

whole_profile whole;
const holder of_program("static");

}  // namespace

int main() {
  static const holder of_function("function static");
  std::thread([] {
    thread_local const holder of_thread("thread_local");
    static_cast<void>(of_thread.name);
  }).join();
}
