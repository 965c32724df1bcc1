// The part of switched_off.cpp that is compiled with STEPPROF_DISABLE.
#include <stepprof/stepprof.hpp>

bool disabled_part();
bool disabled_part() {
  STEPPROF_FUNCTION();
  STEPPROF_SCOPE("disabled", stepprof::arg("key", 1));
  stepprof::record_function scope("disabled", stepprof::scope_kind::op, stepprof::inputs(1, 2.5));
  scope.add_arg("late", 2);
  stepprof::manual_scope manual;
  const stepprof::async_scope async("disabled");
  manual.begin("disabled");
  const bool recorded = scope.recorded() || manual.recorded() || async.recorded() || scope.link().thread != 0;
  manual.end();
  return recorded;
}
