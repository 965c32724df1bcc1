#define STEPPROF_TESTED_GZIP isal_test
#include <stepprof/adapters/isal.hpp>

#include <adapters/gzip_cases.hpp>

namespace isal_test {

// Catches: cases that another provider passes.
TEST_CASE("ISA-L is what is tested", "[isal]") {
  CHECK(detail::gzip() == &detail::isal_functions);
}

}  // namespace isal_test
