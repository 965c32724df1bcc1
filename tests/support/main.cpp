// The main function of every test program.
#define CATCH_CONFIG_RUNNER  // Catch2 2: the implementation goes here; Catch2 3 has it in its library
#include <support/skip.hpp>

#include <cstdlib>

// In CI every test has what it needs, so that one which skips has lost it.
void test::skip(const std::string& why) {
  const char* ci = std::getenv("CI");
  if (ci != nullptr && std::string(ci) == "true") FAIL("skipped in CI: " << why);
  WARN("skipped: " << why);
  ++test::skip_count();
}

int& test::skip_count() {
  static int count = 0;
  return count;
}

int main(int argc, char* argv[]) {
  constexpr int skipped = 77;  // SKIP_RETURN_CODE of CTest
  const int result = Catch::Session().run(argc, argv);
  return result == 0 && test::skip_count() > 0 ? skipped : result;
}
