// Catches: a header that needs exceptions or RTTI, although it is never instantiated there.
#include <all_headers.hpp>

int main() {
  stepprof::trace_builder builder;
  builder.add_track({});  // a track without a process is refused
  std::error_code ec;
  const stepprof::trace nothing = builder.finish(ec);
  return ec == stepprof::errc::bad_trace && nothing.events().empty() ? 0 : 1;
}
