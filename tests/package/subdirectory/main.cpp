#include <stepprof/trace/trace_builder.hpp>

int main() {
  return stepprof::trace_builder().finish().events().empty() ? 0 : 1;
}
