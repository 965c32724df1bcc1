#define STEPPROF_TESTED_GZIP zlib_test
#include <stepprof/adapters/zlib.hpp>

#include <adapters/gzip_cases.hpp>

namespace zlib_test {

// Catches: cases that another provider passes.
TEST_CASE("zlib is what is tested", "[zlib]") {
  CHECK(detail::gzip() == &detail::zlib_functions);
}

}  // namespace zlib_test
