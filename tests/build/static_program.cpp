// Catches: a reference that makes the linker warn of shared libraries which a static program would need when it runs.
#include <stepprof/trace/fork_safe_mutex.hpp>

int main() {
  const stepprof::detail::process_lock hold(&stepprof::detail::fork_state::data);
  return stepprof::detail::forks().sees_forks ? 0 : 1;
}
