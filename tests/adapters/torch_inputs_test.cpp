// Catches: inputs of ops that are not what torch writes of them.
#include <support/torch_recording.hpp>

#include <cmath>
#include <complex>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace torch_inputs_test {

namespace {

using test::detail_of;
using test::event_named;

// What the trace shows of inputs.
stepprof::detail::input_texts texts_of(const std::vector<c10::IValue>& inputs) {
  stepprof::detail::input_encoder out;
  for (const c10::IValue& value : inputs) stepprof::detail::add_torch_input(out, value);
  const stepprof::detail::record_part encoded = out.finish();
  return stepprof::detail::input_texts({static_cast<const char*>(encoded.data), encoded.bytes});
}

// What libtorch itself prints of a value, as kineto takes it over.
std::string printed(const c10::IValue& value) {
  std::ostringstream out;
  out << value;
  return "[\"" + out.str() + "\"]";
}

}  // namespace

// Catches: "1" for 1., "true" for True, rounded digits, list elements of one type read as another's.
TEST_CASE("scalars and lists of scalars are written as libtorch prints them", "[torch_inputs]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<c10::IValue> scalars = {1,
                                            -7,
                                            std::int64_t{1} << 62,
                                            true,
                                            false,
                                            1.0,
                                            0.1,
                                            0.0,
                                            1e9,
                                            1e10,
                                            -1e10,
                                            12345.678,
                                            1e-5,
                                            1e300,
                                            2.5e9,
                                            -3.0,
                                            infinity,
                                            -infinity,
                                            std::nan(""),
                                            c10::complex<double>(1, 2),
                                            c10::complex<double>(0.5, -1.25)};
  for (const c10::IValue& value : scalars) {
    const auto texts = texts_of({value});
    CHECK(texts.concrete == printed(value));
    CHECK(texts.types == R"(["Scalar"])");
    CHECK(texts.dims == "[[]]");
  }
  const std::vector<c10::IValue> lists = {std::vector<std::int64_t>{2, 3}, std::vector<double>{2, 0.5},
                                          c10::List<bool>({true, false, true}), std::vector<std::int64_t>{},
                                          std::vector<std::int64_t>(30, 7)};
  for (const c10::IValue& value : lists) {
    const auto texts = texts_of({value});
    CHECK(texts.concrete == printed(value));
    CHECK(texts.types == R"(["ScalarList"])");
  }
}

// torch leaves out what is longer than 30, and what is neither tensor nor number.
TEST_CASE("what torch does not show is an input without type and value", "[torch_inputs]") {
  const std::vector<c10::IValue> values = {std::vector<std::int64_t>(31, 1), c10::IValue("text"), c10::IValue(),
                                           at::Tensor()};
  for (const c10::IValue& value : values) {
    const auto texts = texts_of({value});
    CHECK(texts.dims == "[[]]");
    CHECK(texts.strides == "[[]]");
    CHECK(texts.types == R"([""])");
    CHECK(texts.concrete == R"([""])");
  }
  const auto tensors = texts_of({std::vector<at::Tensor>(31, torch::ones({2}))});
  CHECK(tensors.dims == "[[]]");
  CHECK(tensors.types == R"(["TensorList"])");
}

TEST_CASE("tensors have sizes, strides and libtorch's name of the element type", "[torch_inputs]") {
  const auto texts =
      texts_of({torch::ones({2, 3}).t(), torch::ones({4}, torch::kLong), torch::ones({}, torch::kBool),
                torch::ones({1}, torch::kHalf), torch::ones({1}, torch::kComplexFloat), torch::ones({1}, torch::kByte),
                torch::ones({5}, torch::kDouble), torch::eye(3).to_sparse()});
  CHECK(texts.dims == "[[3, 2], [4], [], [1], [1], [1], [5], [3, 3]]");
  CHECK(texts.strides == "[[1, 3], [1], [], [1], [1], [1], [1], []]");  // a sparse tensor has none
  CHECK(texts.types ==
        R"(["float", "long int", "bool", "c10::Half", "c10::complex<float>", "unsigned char", "double", "float"])");
  CHECK(texts.concrete == R"(["", "", "", "", "", "", "", ""])");
}

TEST_CASE("lists of tensors are kept apart, of real ops", "[torch_inputs]") {
  const torch::Tensor a = torch::ones({2, 3}), b = torch::ones({2, 4});
  const stepprof::trace t = test::recorded_torch([&] {
    torch::cat({a, b}, 1);
    torch::add(a, a, 2.5);
    a.index_select(0, torch::ones({1}, torch::kLong));
    torch::empty({5, 7}, torch::kDouble);
  });
  const auto& cat = detail_of(t, event_named(t, "aten::cat"));
  CHECK(t.text(cat.input_dims) == "[[[2, 3], [2, 4]], []]");
  CHECK(t.text(cat.input_strides) == "[[[3, 1], [4, 1]], []]");
  CHECK(t.text(cat.input_types) == R"(["TensorList", "Scalar"])");
  CHECK(t.text(cat.concrete_inputs) == R"(["", "1"])");
  const auto& add = detail_of(t, event_named(t, "aten::add"));
  CHECK(t.text(add.input_dims) == "[[2, 3], [2, 3], []]");
  CHECK(t.text(add.concrete_inputs) == R"(["", "", "2.5"])");
  const auto& select = detail_of(t, event_named(t, "aten::index_select"));
  CHECK(t.text(select.input_types) == R"(["float", "Scalar", "long int"])");
  test::check_rules(t);
}

// Catches: inputs boxed and written although nobody asked for them.
TEST_CASE("without record_shapes there are no inputs", "[torch_inputs]") {
  const stepprof::trace t = test::recorded_torch(
      [] {
        torch::ones({2, 3}).t();
      },
      test::torch_options(/*shapes*/ false));
  for (std::uint32_t i = 0; i < t.events().size(); ++i) CHECK(detail_of(t, i).input_dims == stepprof::npos);
  CHECK(t.events().size() > 3);
}

}  // namespace torch_inputs_test
