// A static archive that the program and each module have a copy of.
#include "archive.hpp"

#include <stepprof/record.hpp>

void record_in_archive() {
  STEPPROF_SCOPE("of the archive");
  const stepprof::record_function scope("name of the archive");
}
