// For a test that needs what this machine may not have: `if (!can) return test::skip("needs a tracer");`
#pragma once

#include <string>

#include <support/catch.hpp>

namespace test {

/// Reports that the rest of this test case is left out; CTest then shows the file as skipped. With CI=true it fails.
void skip(const std::string& why);

/// How many cases were skipped in this run.
int& skip_count();

}  // namespace test
