// Two providers in one program; which is included last is installed last.
#include <stepprof/adapters/isal.hpp>
// After that one.
#include <stepprof/adapters/zlib.hpp>

#include <support/catch.hpp>

namespace gzip_test {

using namespace stepprof;

// Catches: a program whose provider depends on the order in which its sources are linked.
TEST_CASE("of two providers ISA-L serves, in whatever order they come", "[gzip]") {
  CHECK(detail::gzip() == &detail::isal_functions);
  detail::install_gzip(detail::zlib_functions);
  CHECK(detail::gzip() == &detail::isal_functions);
  detail::the_gzip.store(nullptr);
  detail::install_gzip(detail::zlib_functions);
  CHECK(detail::gzip() == &detail::zlib_functions);
  detail::install_gzip(detail::isal_functions);
  CHECK(detail::gzip() == &detail::isal_functions);
}

}  // namespace gzip_test
