// The other file of macro_scopes.cpp.
#include "macro_scopes.hpp"

void another_file();
void another_file() {
  STEPPROF_SCOPE("another file");
  in_an_inline_function();
}
