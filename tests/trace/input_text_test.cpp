// Catches: inputs that are read beyond their end, or shown as whole where they are not.
#include <cstdint>
#include <cstring>
#include <string>

#include <support/catch.hpp>

#include <stepprof/trace/input_text.hpp>

namespace input_text_test {

using namespace stepprof;

namespace {

std::string mark(detail::input_mark m) {
  return std::string(1, static_cast<char>(m));
}
std::string number(std::uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}
std::string tensor(std::uint64_t size) {
  return mark(detail::input_mark::tensor) + std::string("\x01\x01\x05", 3) + "float" + number(size) + number(1);
}
std::string scalar(detail::argument_type type, std::uint64_t bits) {
  return mark(detail::input_mark::scalar) + std::string(1, static_cast<char>(type)) + number(bits);
}

}  // namespace

// Catches: a number beyond 63 bits shown with a sign, a field read from behind the end, a list that is not closed.
TEST_CASE("inputs are shown up to where they are cut", "[input_text]") {
  const std::string one = tensor(7);
  const std::string two = scalar(detail::argument_type::uint64, UINT64_MAX);
  const std::string three = mark(detail::input_mark::list_begin) + tensor(3) + mark(detail::input_mark::list_end);
  const std::string all = one + two + three;
  const detail::input_texts whole{all};
  CHECK_FALSE(whole.truncated);
  CHECK(whole.dims == "[[7], [], [[3]]]");
  CHECK(whole.strides == "[[1], [], [[1]]]");
  CHECK(whole.types == R"(["float", "Scalar", "TensorList"])");
  CHECK(whole.concrete == R"(["", "18446744073709551615", ""])");
  for (std::size_t size = 0; size < all.size(); ++size) {
    CAPTURE(size);
    const std::string cut = all.substr(0, size);  // of its own, so that a sanitizer sees what is read behind it
    const bool is_border = size == 0 || size == one.size() || size == one.size() + two.size();
    const detail::input_texts texts{cut};
    CHECK(texts.truncated == !is_border);
    if (size >= one.size()) CHECK(texts.dims.substr(0, 4) == "[[7]");
  }
}

// Catches: what no version has written, taken for something.
TEST_CASE("an unknown input or type of a scalar ends the inputs", "[input_text]") {
  const std::string odd_mark = tensor(7) + "\x7f" + tensor(8);
  const detail::input_texts after_mark{odd_mark};
  CHECK(after_mark.truncated);
  CHECK(after_mark.dims == "[[7]]");
  const std::string odd_type = tensor(7) + scalar(static_cast<detail::argument_type>(200), 1) + tensor(8);
  const detail::input_texts after_type{odd_type};
  CHECK(after_type.truncated);
  CHECK(after_type.dims == "[[7]]");
}

}  // namespace input_text_test
