// One include for Catch2 2 and 3: tests use only what both have.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;  // as in Catch2 2
#else
#include <catch2/catch.hpp>
#endif
