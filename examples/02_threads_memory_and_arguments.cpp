// Four worker threads without any registration: one row for all of them, memory by scope, arguments in the trace.
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

// A buffer that tells the profiler when it is allocated and freed.
class buffer {
 public:
  explicit buffer(std::size_t bytes) : data_(new char[bytes]()) { stepprof::report_alloc(data_.get(), bytes); }
  ~buffer() { stepprof::report_free(data_.get()); }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;

 private:
  std::unique_ptr<char[]> data_;
};

void decode(int tile) {
  STEPPROF_SCOPE("decode", stepprof::scope_kind::op, stepprof::arg("tile", tile));
  const buffer pixels(1 << 20);
}

int main() {
  stepprof::profile_options options;
  options.profile_memory = true;  // no schedule: everything from here to stop() is one window

  stepprof::profile prof(options);
  {
    STEPPROF_SCOPE("load picture");
    std::vector<std::thread> workers;
    for (int worker = 0; worker < 4; ++worker)
      workers.emplace_back([worker] {
        stepprof::set_thread_name("decoder " + std::to_string(worker));
        for (int tile = 0; tile < 8; ++tile) decode(worker * 8 + tile);
      });
    for (std::thread& worker : workers) worker.join();
  }
  prof.stop();

  stepprof::table_options layout;
  layout.sort_by = "allocated_bytes";
  layout.columns = {"allocated_bytes", "freed_bytes", "allocation_count"};
  std::cout << prof.key_averages().table(layout);
  prof.export_chrome_trace("threads.json");
}
