#include <stepprof/adapters/torch.hpp>
#include <stepprof/stepprof.hpp>

int main() {
  const stepprof::torch_observer observer;
  stepprof::profile prof;
  { RECORD_USER_SCOPE("scope"); }
  prof.stop();
  return prof.result().events().size() == 1 ? 0 : 1;
}
