// What must not compile: refused.sh compiles this once as it is, and once for each case, whose text the compiler then
// has to say.
#include <cstdint>
#include <string>
#include <vector>

#include <stepprof/record.hpp>

#ifndef REFUSED
#define REFUSED 0
#endif

namespace {

enum class color : char { red = 'r' };
struct point {
  int x;
};
struct matrix {
  std::int64_t sizes[2];
};

}  // namespace

template <>
struct stepprof::input_traits<matrix> {
  static input_description describe(const matrix& m) noexcept { return {m.sizes, 2, nullptr, "float"}; }
};

int main() {
  const std::vector<int> numbers = {1, 2, 3};
  const std::vector<matrix> matrices;
  int number = 0;
  std::string text = "x";
  STEPPROF_SCOPE("s", stepprof::arg("enum", color::red), stepprof::arg("char", 'c'), stepprof::arg("text", text),
                 stepprof::inputs(color::red, matrices.size(), matrix{{1, 2}},
                                  stepprof::input_list(matrices.begin(), matrices.end())));
  static_cast<void>(number);

#if REFUSED == 1  // nodiscard
  stepprof::record_function("ends at once");
#elif REFUSED == 2  // input_list: the range must be of input_description or of a type that stepprof::input_traits
  STEPPROF_SCOPE("s", stepprof::inputs(stepprof::input_list(numbers.begin(), numbers.end())));
#elif REFUSED == 3  // give a list of integers as stepprof::scalar_list
  STEPPROF_SCOPE("s", stepprof::inputs(stepprof::input_list(numbers.begin(), numbers.end())));
#elif REFUSED == 4  // inputs: an input must be a bool, a number
  STEPPROF_SCOPE("s", stepprof::inputs(text));
#elif REFUSED == 5  // inputs: an input must be a bool, a number
  STEPPROF_SCOPE("s", stepprof::inputs('c'));
#elif REFUSED == 6  // arg: the value must be a bool, a number, an enum, a char or a text
  STEPPROF_SCOPE("s", stepprof::arg("pointer", &number));
#elif REFUSED == 7  // arg: the value must be a bool, a number, an enum, a char or a text
  STEPPROF_SCOPE("s", stepprof::arg("struct", point{1}));
#elif REFUSED == 8  // arg: the value must be a bool, a number, an enum, a char or a text
  stepprof::record_function scope("s");
  scope.add_arg("list", numbers);
#endif
}
