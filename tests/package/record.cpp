#include <stepprof/record.hpp>

// Nobody records: the scopes are there, and cost next to nothing.
int main() {
  STEPPROF_SCOPE("consumer");
  const stepprof::record_function scope("light", stepprof::scope_kind::op);
  return scope.recorded() ? 1 : 0;
}
