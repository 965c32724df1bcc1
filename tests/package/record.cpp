#include <stepprof/core/scope_kind.hpp>

int main() {
  return static_cast<int>(stepprof::scope_kind::op);
}
