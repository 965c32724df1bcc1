// Catches: what tables say of FLOPs, of the spread of durations and of steps, when it was recorded and not made by
// hand.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace profile_statistics_test {

using test::fake_clock;

namespace {

void multiply(std::int64_t m, std::int64_t k, std::int64_t n) {
  const std::int64_t a[2] = {m, k}, b[2] = {k, n};
  const stepprof::input_description first{a, 2, nullptr, "float"}, second{b, 2, nullptr, "float"};
  STEPPROF_SCOPE("aten::mm", stepprof::scope_kind::op, stepprof::inputs(first, second));
  fake_clock::advance(1000);
}
void convolve(std::int64_t stride) {
  const std::int64_t in[4] = {1, 3, 8, 8}, kernel[4] = {4, 3, 3, 3}, bias[1] = {4};
  const std::int64_t strides[2] = {stride, stride}, ones[2] = {1, 1};
  const stepprof::input_description x{in, 4, nullptr, ""}, w{kernel, 4, nullptr, ""}, b{bias, 1, nullptr, ""};
  STEPPROF_SCOPE("aten::conv2d", stepprof::scope_kind::op,
                 stepprof::inputs(x, w, b, stepprof::scalar_list{strides, 2}, stepprof::scalar_list{ones, 2},
                                  stepprof::scalar_list{ones, 2}, 1));
}

}  // namespace

// Catches: with_flops without shapes, strides of lists lost on the way, a count given on a scope lost.
TEST_CASE("FLOPs of recorded ops", "[profile_statistics]") {
  stepprof::profile_options options;
  options.with_flops = true;
  stepprof::profile prof(options);
  multiply(64, 32, 16);
  multiply(64, 32, 16);
  convolve(1);
  convolve(2);
  {
    STEPPROF_SCOPE("fft", stepprof::flops(2.5 * 1000));
    fake_clock::advance(500);
  }
  prof.stop();
  CHECK(prof.result().info().has_flops);
  const stepprof::event_averages rows = prof.key_averages();
  CHECK(rows.at("aten::mm").flops == 2 * 65536);
  CHECK(rows.at("aten::conv2d").flops == 13824 + 13824 / 4);
  CHECK(rows.at("fft").flops == 2500);
  stepprof::table_options columns;
  columns.columns = {"flop_rate"};
  columns.sort_by = "flops";
  const std::string text = rows.table(columns);
  CHECK(text.find("65.54G") != std::string::npos);  // 131072 in 2 us
  CHECK(text.find("5.00G") != std::string::npos);   // 2500 in 500 ns
  CHECK(text.find("Total KFLOPs") != std::string::npos);
}

// Catches: FLOPs counted for shapes alone; formulas of the profile unused, or used where others are given.
TEST_CASE("formulas of a profile", "[profile_statistics]") {
  stepprof::profile_options options;
  options.with_flops = true;
  options.formulas.set("aten::mm", [](const std::vector<stepprof::op_input>& in) { return in.at(0).elements(); });
  stepprof::profile prof(options);
  multiply(2, 3, 4);
  prof.stop();
  CHECK(prof.key_averages().at("aten::mm").flops == 6);
  CHECK(stepprof::key_averages(prof.result()).at("aten::mm").flops == 48);
  stepprof::key_averages_options other;
  other.formulas.set("other", [](const std::vector<stepprof::op_input>&) { return std::int64_t{1}; });
  CHECK(prof.key_averages(other).at("aten::mm").flops == 48);

  options.with_flops = false;
  options.record_shapes = true;
  stepprof::profile shapes_only(options);
  multiply(2, 3, 4);
  shapes_only.stop();
  CHECK(shapes_only.key_averages().at("aten::mm").flops == 0);
}

// Catches: steps of a profile that are not the steps of its loop, and a slow one that is not named.
TEST_CASE("steps of a loop", "[profile_statistics]") {
  stepprof::profile_options options;
  options.schedule = stepprof::schedule{1, 1, 4, 1};
  options.profile_memory = true;
  stepprof::profile prof(options);
  int block = 0;
  for (int i = 0; i < 6; ++i) {
    {
      STEPPROF_SCOPE("frame");
      fake_clock::advance(1000);
      if (i == 4) {
        STEPPROF_SCOPE("load");
        fake_clock::advance(5000);
        stepprof::report_alloc(&block, 512);
      }
    }
    fake_clock::advance(10);
    prof.step();
  }
  const stepprof::step_times steps = prof.steps();
  REQUIRE(steps.rows.size() == 4);
  CHECK(steps.rows[0].number == 2);
  CHECK(steps.rows[0].self_ns.value() == 10);
  CHECK(steps.rows[0].duration_ns == 1010);
  CHECK(steps.rows[2].duration_ns == 6010);
  CHECK(steps.rows[2].memory.net_bytes() == 512);
  CHECK(steps.rows[2].longest == "load");
  REQUIRE(steps.slowest(3).size() == 1);
  CHECK(steps.slowest(3)[0]->number == 4);
  CHECK(steps.table().find("Slowest: step 4, 6.010us, 5.95 x the median; load is 5.000us above its median\n") !=
        std::string::npos);
  stepprof::key_averages_options with_statistics;
  with_statistics.statistics = true;
  const stepprof::duration_statistics frames = prof.key_averages(with_statistics).at("frame").durations.value();
  CHECK(frames.p50_ns == 1000);
  CHECK(frames.p95_ns == 6000);
  CHECK(frames.stddev_ns == 2500);  // 1000 three times and 6000: 750² x 3 + 3750² = 18 750 000, a third of it squared
}

}  // namespace profile_statistics_test
