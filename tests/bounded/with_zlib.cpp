#include <stepprof/adapters/zlib.hpp>
