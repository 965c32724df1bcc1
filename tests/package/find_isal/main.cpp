#include <fstream>

#include <stepprof/adapters/isal.hpp>
#include <stepprof/stepprof.hpp>

int main() {
  stepprof::export_chrome_trace(stepprof::trace(), "trace.json.gz");
  std::ifstream file("trace.json.gz", std::ios::binary);
  return file.get() == 0x1f && file.get() == 0x8b ? 0 : 1;
}
