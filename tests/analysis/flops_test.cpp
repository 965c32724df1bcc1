#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stepprof/analysis/flops.hpp>
#include <stepprof/analysis/key_averages.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>

namespace flops_test {
using namespace stepprof;

namespace {

using count = std::optional<std::int64_t>;

op_input tensor(std::vector<std::int64_t> sizes) {
  op_input input;
  input.sizes = std::move(sizes);
  return input;
}
op_input value(const std::string& text) {
  op_input input;
  input.value = text;
  return input;
}
count of(const std::string& name, const std::vector<op_input>& inputs) {
  return flop_formulas()(name, inputs);
}

// A trace with one event for each op, the inputs given as texts.
class recording {
 public:
  explicit recording(bool with_flops = true) : events_("t1:") { events_.builder.info().has_flops = with_flops; }
  trace_builder& builder() { return events_.builder; }
  event_detail& add(const std::string& name, const std::string& dims = {}) {
    trace_event e;
    e.name = builder().intern(name);
    e.begin_ns = at_ns_;
    e.end_ns = at_ns_ += 1000;
    const std::uint32_t index = builder().add_event(e);
    event_detail& d = builder().detail(index);
    if (!dims.empty()) d.input_dims = builder().intern(dims);
    return d;
  }
  template <class T>
  void give(const std::string& name, T flops) {
    add(name);
    trace_argument a;
    a.key = builder().intern("flops");
    set(a, flops);
    builder().set_arguments(builder().event_count() - 1, {a});
  }
  event_averages rows(const key_averages_options& options = {}) { return key_averages(builder().finish(), options); }

 private:
  static void set(trace_argument& a, std::int64_t v) { a.int64 = v; }
  static void set(trace_argument& a, double v) {
    a.kind = trace_argument::type::real;
    a.real = v;
  }
  static void set(trace_argument& a, std::uint64_t v) {
    a.kind = trace_argument::type::uint64;
    a.uint64 = v;
  }
  test::event_builder events_;
  std::int64_t at_ns_ = 0;
};

}  // namespace

// Catches: a formula off by a factor, the wrong inputs. The four of the first block are what torch 2.14.1 counted.
TEST_CASE("torch's formulas", "[flops]") {
  CHECK(of("aten::mm", {tensor({64, 32}), tensor({32, 16})}) == 65536);
  CHECK(of("aten::bmm", {tensor({4, 2, 3}), tensor({4, 3, 5})}) == 240);
  CHECK(of("aten::conv2d", {tensor({1, 3, 8, 8}), tensor({4, 3, 3, 3}), tensor({4}), value("[1, 1]"), value("[1, 1]"),
                            value("[1, 1]"), value("1")}) == 13824);
  CHECK(of("aten::add", {tensor({64, 32}), tensor({32}), value("1")}) == 2048);

  CHECK(of("aten::addmm", {tensor({512}), tensor({64, 512}), tensor({512, 10}), value("1"), value("1")}) ==
        2 * 64 * 512 * 10);
  CHECK(of("aten::baddbmm", {tensor({4, 2, 5}), tensor({4, 2, 3}), tensor({4, 3, 5})}) == 240);
  CHECK(of("aten::mul", {tensor({}), tensor({7})}) == 1);
  CHECK(of("aten::mm", {tensor({0, 5}), tensor({5, 3})}) == 0);
  // Stride 2, padding 2 and 1, dilation 1 and 2, two groups: height (9 + 4 - 2 - 1) / 2 + 1 = 6, width
  // (10 + 2 - 4 - 1) / 2 + 1 = 4; 2 * 5 images * 24 places * 9 taps * 6 * 8 channels / 2.
  CHECK(of("aten::conv2d", {tensor({5, 6, 9, 10}), tensor({8, 3, 3, 3}), tensor({}), value("[2, 2]"), value("[2, 1]"),
                            value("[1, 2]"), value("2")}) == 2 * 5 * 24 * 9 * 6 * 8 / 2);
}

// Catches: numbers made up for inputs that do not fit, products that wrap, divisions by zero.
TEST_CASE("inputs that do not fit have no count", "[flops]") {
  CHECK_FALSE(of("aten::relu", {tensor({64})}));
  CHECK_FALSE(of("mm", {tensor({2, 2}), tensor({2, 2})}));
  CHECK_FALSE(of("aten::mm", {}));
  CHECK_FALSE(of("aten::mm", {tensor({2, 3})}));
  CHECK_FALSE(of("aten::mm", {tensor({2, 3}), tensor({4, 5})}));
  CHECK_FALSE(of("aten::mm", {tensor({2, 3, 4}), tensor({4, 5})}));
  CHECK_FALSE(of("aten::bmm", {tensor({2, 3, 4}), tensor({3, 4, 5})}));
  CHECK_FALSE(of("aten::add", {}));
  const std::int64_t big = std::int64_t{1} << 31;
  CHECK_FALSE(of("aten::mm", {tensor({big, big}), tensor({big, 1})}));
  const auto conv = [](const char* stride, const char* padding, const char* dilation, const char* groups) {
    return of("aten::conv2d", {tensor({1, 3, 8, 8}), tensor({4, 3, 3, 3}), tensor({4}), value(stride), value(padding),
                               value(dilation), value(groups)});
  };
  CHECK(conv("1", "1", "1", "1") == 13824);
  CHECK_FALSE(conv("[0, 0]", "[1, 1]", "[1, 1]", "1"));
  CHECK_FALSE(conv("[1, 1]", "same", "[1, 1]", "1"));
  CHECK_FALSE(conv("[1, 1]", "[1, 1]", "[9, 9]", "1"));
  CHECK_FALSE(conv("[1, 1]", "[1, 1]", "[1, 1]", "0"));
  CHECK_FALSE(conv("[1, 1, 1]", "[1, 1]", "[1, 1]", "1"));
  CHECK_FALSE(conv("[1, 1]", "[9223372036854775807, 0]", "[1, 1]", "1"));
}

// Catches: a formula of the user that is not asked, or does not replace the known one.
TEST_CASE("formulas of the user", "[flops]") {
  flop_formulas formulas;
  CHECK(formulas.empty());
  formulas.set("fft", [](const std::vector<op_input>& in) { return in.empty() ? count() : in[0].elements(); });
  formulas.set("aten::add", [](const std::vector<op_input>&) { return count(7); });
  formulas.set("broken", [](const std::vector<op_input>&) { return count(-5); });
  CHECK(formulas("fft", {tensor({3, 4})}) == 12);
  CHECK(formulas("aten::add", {}) == 7);
  CHECK_FALSE(formulas("broken", {}));
  CHECK(formulas("aten::mm", {tensor({1, 2}), tensor({2, 3})}) == 12);
  formulas.set("fft", [](const std::vector<op_input>&) { return count(1); });
  CHECK(formulas("fft", {}) == 1);
}

// Catches: counts of one shape used for another, a sum over nested scopes, ops whose inputs nobody knows passed over.
TEST_CASE("rows add up the operations of their calls", "[flops]") {
  recording r;
  r.add("aten::mm", "[[2, 3], [3, 4]]");
  r.add("aten::mm", "[[2, 3], [3, 4]]");
  r.add("aten::mm", "[[1, 1], [1, 1]]");
  r.add("aten::mm", "[[1, 1], [2, 2]]");
  r.add("aten::mm");
  r.add("aten::relu", "[[5]]");
  const event_averages rows = r.rows();
  CHECK(rows.at("aten::mm").flops == 48 + 48 + 2);
  CHECK(rows.at("aten::mm").unknown_flops == 2);
  CHECK(rows.at("aten::relu").flops == 0);
  CHECK(rows.at("aten::relu").unknown_flops == 0);
  CHECK(rows.total_average().flops == 98);
}

// Catches: the program's own count ignored, counted besides the formula, or wrong for one type of number.
TEST_CASE("operations that the program gives", "[flops]") {
  recording r;
  r.give("a", std::int64_t{10});
  r.give("a", 2.5e3);
  r.give("a", std::uint64_t{1});
  r.give("negative", std::int64_t{-4});
  r.give("nan", std::numeric_limits<double>::quiet_NaN());
  r.give("endless", std::numeric_limits<double>::infinity());
  r.give("aten::mm", std::int64_t{5});
  const event_averages rows = r.rows();
  CHECK(rows.at("a").flops == 2511);
  CHECK(rows.at("negative").flops == 0);
  CHECK(rows.at("nan").flops == 0);
  CHECK(rows.at("endless").flops == INT64_MAX);
  CHECK(rows.at("aten::mm").flops == 5);
  CHECK(rows.at("aten::mm").unknown_flops == 0);
}

// Catches: formulas applied to a recording for which nobody asked for FLOPs; given counts lost there.
TEST_CASE("formulas need with_flops, given counts do not", "[flops]") {
  recording r(false);
  r.add("aten::mm", "[[2, 3], [3, 4]]");
  r.give("a", std::int64_t{10});
  const event_averages rows = r.rows();
  CHECK(rows.at("aten::mm").flops == 0);
  CHECK(rows.at("aten::mm").unknown_flops == 0);
  CHECK(rows.at("a").flops == 10);
}

// Catches: formulas in the options that are not used; counts merged by name although shapes were asked for.
TEST_CASE("options and grouping", "[flops]") {
  recording r;
  r.add("scale", "[[8]]");
  r.add("scale", "[[9]]");
  key_averages_options options;
  options.group_by_input_shape = true;
  options.formulas.set("scale", [](const std::vector<op_input>& in) { return in.at(0).elements(); });
  const event_averages rows = r.rows(options);
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0].flops == 8);
  CHECK(rows.rows[1].flops == 9);
}

// Catches: a product of sizes that no convolution has: of a file that was changed, or of another operation of that
// name.
TEST_CASE("a convolution that cannot be has no count", "[flops]") {
  const std::vector<op_input> right = {tensor({2, 3, 8, 8}), tensor({4, 3, 3, 3}), value(""), value("[1, 1]"),
                                       value("[0, 0]"),      value("[1, 1]"),      value("1")};
  CHECK(of("aten::conv2d", right) == count(2 * 2 * 3 * 4 * 6 * 6 * 3 * 3));
  const auto with = [&right](std::size_t i, const op_input& input) {
    std::vector<op_input> changed = right;
    changed[i] = input;
    return of("aten::conv2d", changed);
  };
  CHECK_FALSE(of("aten::conv2d", {right.begin(), right.end() - 1}));
  CHECK_FALSE(with(0, tensor({2, 3, 8})));
  CHECK_FALSE(with(1, tensor({4, 3, 3})));
  CHECK_FALSE(with(1, tensor({4, 3, 9, 3})));  // larger than the picture
  for (const char* text : {"", "[]", "[1, 1, 1]", "[-1, 1]", "[1, 2147483648]", "one"}) {
    CAPTURE(text);
    CHECK_FALSE(with(3, value(text)));
    CHECK_FALSE(with(4, value(text)));
    CHECK_FALSE(with(5, value(text)));
  }
  CHECK_FALSE(with(3, value("[0, 1]")));
  for (const char* text : {"", "0", "-1", "[1, 1]"}) CHECK_FALSE(with(6, value(text)));
  CHECK_FALSE(with(0, tensor({INT64_MAX, 3, 8, 8})));
  CHECK_FALSE(with(0, tensor({-2, 3, 8, 8})));
  CHECK_FALSE(of("aten::mm", {tensor({2, 3}), tensor({3})}));
  CHECK_FALSE(of("aten::mm", {tensor({2, 3})}));
  CHECK_FALSE(of("aten::mul", {}));
  op_input list = tensor({2, 3});
  list.is_list = true;
  CHECK_FALSE(of("aten::mul", {list}));
}

// Catches: a text under the key "flops" taken for a number, or in the way of the formula.
TEST_CASE("operations that are given as a text are not given", "[flops]") {
  recording r;
  r.add("aten::mul", "[[2, 3]]");
  trace_argument a;
  a.key = r.builder().intern("flops");
  a.kind = trace_argument::type::text;
  a.text = r.builder().intern("12");
  r.builder().set_arguments(0, {a});
  CHECK(r.rows().at("aten::mul").flops == 6);
}

}  // namespace flops_test
