// Catches: an op of the training example whose result or whose gradient is wrong.
//
// Every op is written a second time below, naively and in double, with nothing of the example in it. The example's
// float results are compared with that, its gradients with central differences of that.
#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <vector>

#include <support/catch.hpp>

#include <training/engine.hpp>
#include <training/functions.hpp>
#include <training/model.hpp>
#include <training/sgd.hpp>

namespace gradient_test {

using namespace training;

namespace {

// --- the same mathematics, naively -----------------------------------------------------------------------------------

struct matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;

  matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c, 0.0) {}
  double& operator()(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
};

matrix transposed(const matrix& a) {
  matrix r(a.columns, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.columns; ++j) r(j, i) = a(i, j);
  return r;
}
matrix affine(const matrix& bias, const matrix& a, const matrix& b) {
  matrix r(a.rows, b.columns);
  for (std::size_t i = 0; i < r.rows; ++i)
    for (std::size_t j = 0; j < r.columns; ++j) {
      r(i, j) = bias(0, j);
      for (std::size_t k = 0; k < a.columns; ++k) r(i, j) += a(i, k) * b(k, j);
    }
  return r;
}
matrix positive(matrix a) {
  for (double& value : a.values) value = value > 0 ? value : 0;
  return a;
}
matrix log_of_softmax(matrix a) {
  for (std::size_t i = 0; i < a.rows; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < a.columns; ++j) sum += std::exp(a(i, j));
    for (std::size_t j = 0; j < a.columns; ++j) a(i, j) -= std::log(sum);
  }
  return a;
}
matrix mean_loss(const matrix& a, const std::vector<std::size_t>& labels) {
  matrix r(1, 1);
  for (std::size_t i = 0; i < a.rows; ++i) r(0, 0) -= a(i, labels[i]) / static_cast<double>(a.rows);
  return r;
}

// --- the comparison --------------------------------------------------------------------------------------------------

using naive_function = std::function<matrix(const std::vector<matrix>&)>;
using taped_function = std::function<variable(tape&, const std::vector<variable>&)>;

matrix to_matrix(const tensor& a) {
  const bool is_matrix = a.sizes().rank() == 2;
  matrix r(is_matrix ? static_cast<std::size_t>(a.size(0)) : 1,
           static_cast<std::size_t>(is_matrix ? a.size(1) : a.count()));
  for (std::size_t i = 0; i < r.rows; ++i)
    for (std::size_t j = 0; j < r.columns; ++j) {
      const auto row = static_cast<std::int64_t>(i), column = static_cast<std::int64_t>(j);
      r(i, j) = is_matrix ? a(row, column) : a.data()[column];
    }
  return r;
}

double largest_difference(const matrix& a, const matrix& b) {
  REQUIRE(a.rows == b.rows);
  REQUIRE(a.columns == b.columns);
  double largest = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double difference = std::abs(a.values[i] - b.values[i]);
    if (!(difference <= largest)) largest = difference;  // written so that NaN stays
  }
  return largest;
}

double weighted_sum(const matrix& a, const matrix& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * weights.values[i];
  return sum;
}

// d(weighted sum of f)/d(argument), each element moved by h to both sides. In double, with h = 1e-5, what is neglected
// is of the order of 1e-10 for these functions; the float gradients are good to a few 1e-6.
matrix central_differences(const naive_function& f, std::vector<matrix> at, std::size_t argument,
                           const matrix& weights) {
  const double h = 1e-5;
  matrix gradient = at[argument];
  for (std::size_t i = 0; i < gradient.values.size(); ++i) {
    const double here = at[argument].values[i];
    at[argument].values[i] = here + h;
    const double above = weighted_sum(f(at), weights);
    at[argument].values[i] = here - h;
    const double below = weighted_sum(f(at), weights);
    at[argument].values[i] = here;
    gradient.values[i] = (above - below) / (2 * h);
  }
  return gradient;
}

constexpr double tolerance = 1e-5;

// Random weights on the results make every element of every gradient matter.
void check_gradients(const taped_function& taped, const naive_function& naive, const std::vector<variable>& arguments) {
  tape on;
  const variable result = taped(on, arguments);
  std::vector<matrix> at;
  for (const variable& argument : arguments) at.push_back(to_matrix(argument.value()));
  CHECK(largest_difference(to_matrix(result.value()), naive(at)) < tolerance);

  std::mt19937 random(99);
  const tensor weights = uniform_tensor(result.value().sizes(), random, 1.0f);
  engine().run(result.gradient_node(), weights);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    CAPTURE(i);
    REQUIRE(arguments[i].gradient().defined());
    REQUIRE(arguments[i].gradient().sizes() == arguments[i].value().sizes());
    const matrix expected = central_differences(naive, at, i, to_matrix(weights));
    CHECK(largest_difference(to_matrix(arguments[i].gradient()), expected) < tolerance);
  }
}

// Parameters with values in [-1, 1), none of them near 0, where relu has no derivative.
std::vector<variable> parameters(std::initializer_list<dims> sizes) {
  std::mt19937 random(7);
  std::vector<variable> all;
  for (const dims& each : sizes) {
    const tensor value = uniform_tensor(each, random, 1.0f);
    for (std::int64_t i = 0; i < value.count(); ++i)
      if (std::abs(value.data()[i]) < 0.01f) value.data()[i] = 0.5f;
    all.push_back(variable::parameter(value));
  }
  return all;
}

label_tensor labels_of(const std::vector<std::size_t>& labels) {
  label_tensor result = label_tensor::empty({static_cast<std::int64_t>(labels.size())});
  for (std::size_t i = 0; i < labels.size(); ++i)
    result(static_cast<std::int64_t>(i)) = static_cast<std::int64_t>(labels[i]);
  return result;
}

using variables = std::vector<variable>;
using matrices = std::vector<matrix>;

}  // namespace

TEST_CASE("t", "[gradient]") {
  check_gradients([](tape& on, const variables& v) { return t(on, v[0]); },
                  [](const matrices& m) { return transposed(m[0]); }, parameters({{3, 5}}));
}

// Catches: a gradient multiplied in the wrong layout or order, a bias gradient not summed over the batch.
TEST_CASE("addmm, with operands as stored and transposed", "[gradient]") {
  SECTION("both as stored") {
    check_gradients([](tape& on, const variables& v) { return addmm(on, v[0], v[1], v[2]); },
                    [](const matrices& m) { return affine(m[0], m[1], m[2]); }, parameters({{4}, {3, 5}, {5, 4}}));
  }
  SECTION("the second transposed") {
    check_gradients([](tape& on, const variables& v) { return addmm(on, v[0], v[1], t(on, v[2])); },
                    [](const matrices& m) { return affine(m[0], m[1], transposed(m[2])); },
                    parameters({{4}, {3, 5}, {4, 5}}));
  }
  SECTION("the first transposed") {
    check_gradients([](tape& on, const variables& v) { return addmm(on, v[0], t(on, v[1]), v[2]); },
                    [](const matrices& m) { return affine(m[0], transposed(m[1]), m[2]); },
                    parameters({{4}, {5, 3}, {5, 4}}));
  }
  SECTION("both transposed") {
    check_gradients([](tape& on, const variables& v) { return addmm(on, v[0], t(on, v[1]), t(on, v[2])); },
                    [](const matrices& m) { return affine(m[0], transposed(m[1]), transposed(m[2])); },
                    parameters({{4}, {5, 3}, {4, 5}}));
  }
  SECTION("a batch of one, one feature, one result") {
    check_gradients([](tape& on, const variables& v) { return linear(on, v[1], v[2], v[0]); },
                    [](const matrices& m) { return affine(m[0], m[1], transposed(m[2])); },
                    parameters({{1}, {1, 1}, {1, 1}}));
    check_gradients([](tape& on, const variables& v) { return linear(on, v[1], v[2], v[0]); },
                    [](const matrices& m) { return affine(m[0], m[1], transposed(m[2])); },
                    parameters({{3}, {1, 4}, {3, 4}}));
    check_gradients([](tape& on, const variables& v) { return linear(on, v[1], v[2], v[0]); },
                    [](const matrices& m) { return affine(m[0], m[1], transposed(m[2])); },
                    parameters({{1}, {3, 4}, {1, 4}}));
  }
}

TEST_CASE("relu", "[gradient]") {
  check_gradients([](tape& on, const variables& v) { return relu(on, v[0]); },
                  [](const matrices& m) { return positive(m[0]); }, parameters({{6, 7}}));
}

TEST_CASE("log_softmax", "[gradient]") {
  check_gradients([](tape& on, const variables& v) { return log_softmax(on, v[0]); },
                  [](const matrices& m) { return log_of_softmax(m[0]); }, parameters({{4, 10}}));
}

// Catches: exp of a large score, which is infinite in float although the loss is an ordinary number.
TEST_CASE("log_softmax of large scores", "[gradient]") {
  tape on;
  const tensor x = tensor::empty({1, 2});
  x(0, 0) = 1000.0f;
  x(0, 1) = 999.0f;
  const tensor y = log_softmax(on, x).value();
  CHECK(std::abs(y(0, 0) - -0.31326169f) < 1e-4f);  // -ln(1 + e^-1)
  CHECK(std::abs(y(0, 1) - -1.31326169f) < 1e-4f);
}

TEST_CASE("nll_loss and cross_entropy_loss", "[gradient]") {
  const std::vector<std::size_t> labels{2, 0, 1, 2, 2};
  SECTION("nll_loss") {
    check_gradients([&](tape& on, const variables& v) { return nll_loss_nd(on, v[0], labels_of(labels)); },
                    [&](const matrices& m) { return mean_loss(m[0], labels); }, parameters({{5, 3}}));
  }
  SECTION("cross_entropy_loss") {
    check_gradients([&](tape& on, const variables& v) { return cross_entropy_loss(on, v[0], labels_of(labels)); },
                    [&](const matrices& m) { return mean_loss(log_of_softmax(m[0]), labels); }, parameters({{5, 3}}));
  }
}

// Catches: a node that runs before all of its gradient has arrived, or a gradient that replaces another.
TEST_CASE("a parameter that is used twice gets the sum", "[gradient]") {
  check_gradients(
      [](tape& on, const variables& v) { return linear(on, relu(on, linear(on, v[0], v[1], v[2])), v[1], v[2]); },
      [](const matrices& m) {
        const matrix weight = transposed(m[1]);
        return affine(m[2], positive(affine(m[2], m[0], weight)), weight);
      },
      parameters({{3, 4}, {4, 4}, {4}}));
  // Here the two gradients of one operand come in different layouts: x as it is stored, and x transposed.
  check_gradients([](tape& on, const variables& v) { return addmm(on, v[1], v[0], t(on, v[0])); },
                  [](const matrices& m) { return affine(m[1], m[0], transposed(m[0])); }, parameters({{3, 5}, {3}}));
  // An intermediate result used twice: its node runs once, when both gradients are there.
  check_gradients(
      [](tape& on, const variables& v) {
        const variable x = relu(on, v[0]);
        return addmm(on, v[1], x, t(on, x));
      },
      [](const matrices& m) { return affine(m[1], positive(m[0]), transposed(positive(m[0]))); },
      parameters({{3, 5}, {3}}));
}

TEST_CASE("whole models", "[gradient]") {
  const std::vector<std::size_t> labels{1, 0, 3, 2, 3, 1};
  for (const std::int64_t layers : {1, 2, 3, 4}) {
    CAPTURE(layers);
    std::mt19937 random(static_cast<unsigned>(layers));
    const mlp model(layers, 5, 4, random);
    const tensor points = uniform_tensor({6, 5}, random, 1.0f);
    check_gradients(
        [&](tape& on, const variables&) { return cross_entropy_loss(on, model(on, points), labels_of(labels)); },
        [&](const matrices& m) {
          matrix x = to_matrix(points);
          for (std::size_t i = 0; i < m.size(); i += 2) {
            if (i > 0) x = positive(x);
            x = affine(m[i + 1], x, transposed(m[i]));
          }
          return mean_loss(log_of_softmax(x), labels);
        },
        model.parameters());
  }
}

// Catches: an optimizer that adds the gradient, or a zero_grad that leaves it; a second backward pass that replaces.
TEST_CASE("the optimizer steps against the gradient and drops it", "[gradient]") {
  std::mt19937 random(3);
  const mlp model(2, 4, 3, random);
  const tensor points = uniform_tensor({5, 4}, random, 1.0f);
  const label_tensor labels = labels_of({0, 1, 2, 1, 0});
  const sgd optimizer(model.parameters(), 0.1);
  tape on;
  backward(cross_entropy_loss(on, model(on, points), labels));

  const variable weight = model.parameters()[0];
  const matrix before = to_matrix(weight.value()), gradient = to_matrix(weight.gradient());
  backward(cross_entropy_loss(on, model(on, points), labels));
  matrix twice = gradient;
  for (double& value : twice.values) value *= 2;
  CHECK(largest_difference(to_matrix(weight.gradient()), twice) < 1e-6);

  optimizer.step();
  matrix expected = before;
  for (std::size_t i = 0; i < expected.values.size(); ++i) expected.values[i] -= 0.1 * twice.values[i];
  CHECK(largest_difference(to_matrix(weight.value()), expected) < 1e-6);

  optimizer.zero_grad();
  for (const variable& p : model.parameters()) CHECK_FALSE(p.gradient().defined());
}

// Catches: a view that copies, and would therefore show up as an allocation; a view that points elsewhere.
TEST_CASE("views share their memory", "[tensor]") {
  std::mt19937 random(5);
  const tensor a = uniform_tensor({3, 4}, random, 1.0f);
  CHECK(aten::t(a).memory() == a.memory());
  CHECK(aten::t(a)(2, 1) == a(1, 2));
  CHECK(aten::view(a, {12}).memory() == a.memory());
  const tensor row = uniform_tensor({4}, random, 1.0f);
  const tensor rows = aten::expand(row, {3, 4});
  CHECK(rows.memory() == row.memory());
  CHECK(rows(2, 3) == row(3));
  CHECK(a.memory().use_count() == 1);
}

// Catches: an op that reads a transposed tensor as if it lay row by row.
TEST_CASE("what cannot be computed in the layout at hand is refused", "[tensor]") {
  std::mt19937 random(5);
  const tensor a = uniform_tensor({3, 4}, random, 1.0f);
  CHECK_THROWS_AS(aten::clamp_min(aten::t(a), 0), std::invalid_argument);
  CHECK_THROWS_AS(aten::sum(aten::t(a)), std::invalid_argument);
  const tensor row = uniform_tensor({4}, random, 1.0f);
  CHECK_THROWS_AS(aten::mm(aten::expand(row, {3, 4}), aten::t(a)), std::invalid_argument);
}

// Catches: numbers used up by ops that make no node, or by the way back.
TEST_CASE("the tape counts nodes and nothing else", "[tape]") {
  std::mt19937 random(2);
  tape on;
  CHECK(on.peek().value == 0);
  const mlp model(2, 4, 3, random);
  const tensor points = uniform_tensor({5, 4}, random, 1.0f);
  const variable loss = cross_entropy_loss(on, model(on, points), labels_of({0, 1, 2, 1, 0}));
  CHECK(on.peek().value == 7);  // t, addmm, relu, t, addmm, _log_softmax, nll_loss_forward
  backward(loss);
  CHECK(on.peek().value == 7);
  relu(on, points);  // no parameter behind it: no gradient, no node
  CHECK(on.peek().value == 7);
}

}  // namespace gradient_test
