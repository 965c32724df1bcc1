// Compiled optimised, and looked at by off_path.sh: what a scope costs while nothing records.
#include <stepprof/record.hpp>

extern "C" void marked() { STEPPROF_SCOPE("marked"); }
