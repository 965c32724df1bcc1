#include <cstdint>
#include <string>

#include <support/catch.hpp>

#include <stepprof/output/units.hpp>

namespace units_test {

using namespace stepprof;

// Catches: wrong thresholds, and 1000.000us or 1000.000ms, which torch prints.
TEST_CASE("times scale, and rounding carries into the next unit", "[units]") {
  CHECK(format_time(0) == "0.000us");
  CHECK(format_time(1) == "0.001us");
  CHECK(format_time(999999) == "999.999us");
  CHECK(format_time(1000000) == "1.000ms");
  CHECK(format_time(6783192) == "6.783ms");
  CHECK(format_time(999999400) == "999.999ms");
  CHECK(format_time(999999500) == "1.000s");
  CHECK(format_time(std::int64_t{1} << 40) == "1099.512s");
  CHECK(format_time(999999.6) == "1.000ms");  // an average
  CHECK(format_time(999999.4) == "999.999us");
  CHECK(format_time(197514.5) == "197.515us");  // no double is 197.5145
  CHECK(format_time(INT64_MAX) == "9223372036.855s");
}

// Catches: negative times that never scale, and a minus in front of nothing.
TEST_CASE("negative times scale like positive ones", "[units]") {
  CHECK(format_time(-1500000) == "-1.500ms");
  CHECK(format_time(-2000000000) == "-2.000s");
  CHECK(format_time(-0.2) == "0.000us");
}

// Catches: a forced unit that is not kept.
TEST_CASE("a time unit can be forced", "[units]") {
  CHECK(format_time(6783192, time_unit::us) == "6783.192us");
  CHECK(format_time(6783192, time_unit::ms) == "6.783ms");
  CHECK(format_time(6783192, time_unit::s) == "0.007s");
  CHECK(format_time(2000000000, time_unit::us) == "2000000.000us");
}

// Catches: unknown units ignored in silence.
TEST_CASE("unknown time units are refused", "[units]") {
  CHECK(parse_time_unit("s") == time_unit::s);
  CHECK(parse_time_unit("ms") == time_unit::ms);
  CHECK(parse_time_unit("us") == time_unit::us);
  CHECK(parse_time_unit("") == time_unit::automatic);
  std::error_code ec;
  CHECK(parse_time_unit("min", ec) == time_unit::automatic);
  CHECK(ec == errc::invalid_argument);
  CHECK_THROWS_WITH(parse_time_unit("min"), "time_unit is 'min', must be 's', 'ms', 'us', or empty for automatic");
}

// Catches: 1024.00 KB instead of 1.00 MB, 1024.00 GB instead of 1.00 TB, signs lost. The other values are torch's.
TEST_CASE("bytes scale by 1024", "[units]") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(-20) == "-20 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KB");
  CHECK(format_bytes(668160) == "652.50 KB");
  CHECK(format_bytes(-668200) == "-652.54 KB");
  CHECK(format_bytes(6000640) == "5.72 MB");
  CHECK(format_bytes(1048575) == "1.00 MB");
  CHECK(format_bytes(-1048575) == "-1.00 MB");
  CHECK(format_bytes(1043333) == "1018.88 KB");
  CHECK(format_bytes(std::int64_t{1} << 40) == "1.00 TB");
  CHECK(format_bytes(std::int64_t{5} << 50) == "5.00 PB");
  CHECK(format_bytes(INT64_MAX) == "8.00 EB");
  CHECK(format_bytes(INT64_MIN) == "-8.00 EB");
}

// Catches: binary steps in decimal prefixes, 1000.00K.
TEST_CASE("decimal prefixes", "[units]") {
  CHECK(format_rate(0) == "0");
  CHECK(format_rate(999) == "999");
  CHECK(format_rate(1000) == "1.00K");
  CHECK(format_rate(999995) == "1.00M");
  CHECK(format_rate(1500000000) == "1.50G");
  CHECK(format_rate(INT64_MAX) == "9.22E");
  CHECK(detail::format_flops(0, detail::flops_unit_for(1)) == "--");
  CHECK(detail::flops_unit_for(999).header == "FLOPs");
  CHECK(detail::flops_unit_for(1000).header == "KFLOPs");
  CHECK(detail::flops_unit_for(INT64_MAX).header == "PFLOPs");
  CHECK(detail::format_flops(1234567, detail::flops_unit_for(1234567)) == "1.235");
}

// Catches: NaN or a division by zero for a share of nothing, and -0.00%.
TEST_CASE("shares", "[units]") {
  CHECK(format_percent(1, 3) == "33.33%");
  CHECK(format_percent(3, 3) == "100.00%");
  CHECK(format_percent(0, 0) == "--");
  CHECK(format_percent(5, 0) == "--");
  CHECK(format_percent(-1, 1000000) == "0.00%");
  CHECK(format_percent(-1, 3) == "-33.33%");
}

}  // namespace units_test
