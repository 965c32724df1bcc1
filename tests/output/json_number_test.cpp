#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include <stepprof/output/json_number.hpp>

#include <support/catch.hpp>

namespace json_number_test {

using namespace stepprof::detail;

namespace {

std::string digits(std::uint64_t value) {
  char out[max_integer_size];
  return {out, write_digits(out, value)};
}
std::string integer(std::int64_t value) {
  char out[max_integer_size];
  return {out, write_integer(out, value)};
}
std::string time_us(std::int64_t ns) {
  char out[max_time_size];
  return {out, write_time_us(out, ns)};
}
std::string real(double value) {
  char out[max_real_size];
  return {out, write_real(out, value)};
}

}  // namespace

// Catches: a digit lost, doubled or left as a zero in front where the way of writing changes.
TEST_CASE("integers of every length", "[json_number]") {
  std::string nines;
  std::string zeros = "1";
  std::uint64_t power = 1;
  for (int length = 1; length <= 19; ++length, power *= 10, zeros += '0') {
    CHECK(digits(power) == zeros);
    if (length > 1) CHECK(digits(power - 1) == nines);
    nines += '9';
  }
  CHECK(digits(0) == "0");
  CHECK(digits(1020304050607080901) == "1020304050607080901");
  CHECK(digits(UINT64_MAX) == "18446744073709551615");
  CHECK(integer(INT64_MIN) == "-9223372036854775808");
  CHECK(integer(-100000000) == "-100000000");
}

// Catches: a point at the wrong place, or decimals that are not padded, where the way of writing changes.
TEST_CASE("times have exactly three decimals", "[json_number]") {
  CHECK(time_us(0) == "0.000");
  CHECK(time_us(7) == "0.007");
  CHECK(time_us(999) == "0.999");
  CHECK(time_us(1000) == "1.000");
  CHECK(time_us(12345) == "12.345");
  CHECK(time_us(99999999) == "99999.999");
  CHECK(time_us(100000000) == "100000.000");
  CHECK(time_us(100000056) == "100000.056");
  CHECK(time_us(1234567890123456789) == "1234567890123456.789");
  CHECK(time_us(-1005) == "-1.005");
  CHECK(time_us(INT64_MIN) == "-9223372036854775.808");
}

// Catches: a number of few decimals that is written with another value than it has, or without its point.
TEST_CASE("doubles of few decimals", "[json_number]") {
  CHECK(real(0.0) == "0.0");
  CHECK(real(-0.0) == "-0.0");
  CHECK(real(1.0) == "1.0");
  CHECK(real(-2.5) == "-2.5");
  CHECK(real(0.001) == "0.001");
  CHECK(real(0.000999) == "9.99e-04");
  CHECK(real(100.000001) == "100.000001");
  CHECK(real(0.100001) == "0.100001");
  CHECK(real(10.01) == "10.01");
  CHECK(real(0.0010001) == "0.0010001");                  // seven decimals
  CHECK(real(0.1 + 0.2) == "0.30000000000000004");        // close to one decimal
  CHECK(real(999999999.999999) == "999999999.999999");    // the largest ones
  CHECK(real(999999999.9999999) == "999999999.9999999");  // closer to each other than a millionth
  CHECK(real(1000000000.000001) == "1000000000.000001");  // beyond
  CHECK(real(std::nextafter(1.0, 2)) == "1.0000000000000002");
}

// Catches: a short form that is not the shortest one, or does not read back.
TEST_CASE("doubles are written as std::to_chars does", "[json_number]") {
  std::mt19937_64 random(1);
  const auto expected = [](double value) {
    char out[64];
    const std::string text(out, std::to_chars(out, out + sizeof out, value, std::chars_format::fixed).ptr);
    return text.find('.') == std::string::npos ? text + ".0" : text;
  };
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t bits = random();
    const double powers[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7};
    double value = static_cast<double>(bits >> (14 + bits % 40)) / powers[bits / 64 % 8];
    if (i % 4 == 0) value = std::nextafter(value, 2 * value);
    if (value < 0.1 || value >= 1e12) continue;  // below, more than 17 decimals are written with an exponent
    if (real(value) != expected(value)) FAIL(expected(value) << " is written as " << real(value));
  }
}

}  // namespace json_number_test
