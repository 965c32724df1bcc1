// The file of cases_without_exceptions.cpp that is compiled with exceptions and RTTI.
#include <stepprof/stepprof.hpp>

#if STEPPROF_EXCEPTIONS == 0
#error "compiled with exceptions"
#endif

void scope_with_exceptions();
void scope_with_exceptions() {
  STEPPROF_SCOPE("with exceptions");
}
