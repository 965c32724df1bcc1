#include <cstdint>
#include <string>
#include <vector>

#include <stepprof/analysis/op_inputs.hpp>
#include <stepprof/trace/trace_builder.hpp>

#include <support/catch.hpp>

namespace op_inputs_test {
using namespace stepprof;

namespace {

using sizes = std::vector<std::int64_t>;

std::vector<op_input> read(const std::string& dims, const std::string& types = {}, const std::string& values = {}) {
  trace_builder b;
  event_detail d;
  d.input_dims = b.intern(dims);
  d.input_types = b.intern(types);
  d.concrete_inputs = b.intern(values);
  return inputs_of(b.finish(), d);
}
op_input with_value(const std::string& value) {
  op_input input;
  input.value = value;
  return input;
}

}  // namespace

// Catches: lists of tensors run together, scalars that shift what follows, types and values of other inputs.
TEST_CASE("inputs are read back from their texts", "[op_inputs]") {
  const std::vector<op_input> in =
      read("[[64, 512], [], [[2, 3], [4]], [[]]]", R"(["float", "Scalar", "TensorList", "TensorList"])",
           R"(["", "-2.5", "", ""])");
  REQUIRE(in.size() == 4);
  CHECK(in[0].sizes == sizes{64, 512});
  CHECK(in[0].type == "float");
  CHECK_FALSE(in[0].is_list);
  CHECK(in[1].sizes.empty());
  CHECK(in[1].value == "-2.5");
  CHECK(in[2].is_list);
  CHECK(in[2].tensors == std::vector<sizes>{{2, 3}, {4}});
  CHECK(in[3].is_list);
  CHECK(in[3].tensors == std::vector<sizes>{{}});
  CHECK(read("[]").empty());
  CHECK(read("").empty());
  CHECK(read("[[1]]", "[", "[\"open").at(0).type.empty());
  CHECK(read("[[1]]", R"(["a\"b"])").at(0).type == "a\"b");
}

// Catches: sizes of a file taken for what they are not: halves of lists, numbers beyond 64 bits, other brackets.
TEST_CASE("texts that are no inputs give none", "[op_inputs]") {
  for (const char* text :
       {"[[1, 2]", "[[1 2]]", "[[1,]]", "[1]", "[[x]]", "[[99999999999999999999]]", "{}", "[[[1]]", "[[[[1]]]]"})
    CHECK(read(text).empty());
}

// Catches: a product that wraps.
TEST_CASE("elements of a tensor", "[op_inputs]") {
  CHECK(read("[[64, 512]]")[0].elements().value() == 32768);
  CHECK(read("[[]]")[0].elements().value() == 1);
  CHECK(read("[[3, 0]]")[0].elements().value() == 0);
  CHECK_FALSE(read("[[3, -1]]")[0].elements());
  CHECK(read("[[4294967296, 2147483647]]")[0].elements().value() == 9223372032559808512);
  CHECK_FALSE(read("[[4294967296, 2147483648]]")[0].elements());
}

// Catches: numbers found in texts that are none.
TEST_CASE("whole numbers of a value", "[op_inputs]") {
  CHECK(with_value("[2, 3]").integers().value() == sizes{2, 3});
  CHECK(with_value("-7").integers().value() == sizes{-7});
  CHECK(with_value("[]").integers().value().empty());
  for (const char* value : {"", "2.5", "True", "same", "[1, x]", "[1] 2"}) CHECK_FALSE(with_value(value).integers());
}

}  // namespace op_inputs_test
