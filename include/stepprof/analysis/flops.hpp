// Floating-point operations: from the shapes of an operation's inputs, or as the program itself says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stepprof/analysis/op_inputs.hpp>
#include <stepprof/trace/saturating.hpp>
#include <stepprof/trace/trace.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

/// The floating-point operations of one call, from its inputs; none when they do not fit. Called once for all calls of
/// the same inputs, so nothing but them may matter. Must not throw.
using flop_formula = std::function<std::optional<std::int64_t>(const std::vector<op_input>& inputs)>;

/// Formulas by the name of the operation. Those of torch.profiler are always there (torch/csrc/profiler/util.cpp): a
/// multiplication and an addition are two operations, so that `aten::mm` of M x K and K x N, and `aten::addmm`, have
/// 2MKN; `aten::bmm` and `aten::baddbmm` of batches of B have 2BMKN; `aten::conv2d` has two for each element of the
/// result, input channel of its group and place in the kernel; `aten::add` and `aten::mul` have one for each element
/// of the first input.
class flop_formulas {
 public:
  /// Adds a formula, or replaces the one of that name.
  void set(std::string name, flop_formula formula) {
    for (auto& known : own_)
      if (known.first == name) return void(known.second = std::move(formula));
    own_.emplace_back(std::move(name), std::move(formula));
  }
  /// True when only torch's are there.
  [[nodiscard]] bool empty() const noexcept { return own_.empty(); }
  /// The formula of this name, empty when there is none.
  [[nodiscard]] flop_formula find(std::string_view name) const;
  /// The operations of a call; none without a formula, or when the inputs do not fit it.
  [[nodiscard]] std::optional<std::int64_t> operator()(std::string_view name,
                                                       const std::vector<op_input>& inputs) const {
    const flop_formula formula = find(name);
    return formula == nullptr ? std::nullopt : count(formula, inputs);
  }
  /// The same of a formula that is there.
  [[nodiscard]] static std::optional<std::int64_t> count(const flop_formula& formula,
                                                         const std::vector<op_input>& inputs) {
    const std::optional<std::int64_t> operations = formula(inputs);
    return operations && *operations >= 0 ? operations : std::nullopt;
  }

 private:
  std::vector<std::pair<std::string, flop_formula>> own_;
};

// --------------------------------------------------------------------------------------------------------------------
namespace detail {

using flop_count = std::optional<std::int64_t>;

// 2MKN of the matrices at `first` and behind it; of batches of them 2BMKN.
template <std::size_t First, std::size_t Rank>
flop_count product_flops(const std::vector<op_input>& inputs) {
  if (inputs.size() < First + 2) return std::nullopt;
  const std::vector<std::int64_t>& a = inputs[First].sizes;
  const std::vector<std::int64_t>& b = inputs[First + 1].sizes;
  if (a.size() != Rank || b.size() != Rank || a[Rank - 1] != b[Rank - 2]) return std::nullopt;
  if (Rank == 3 && a[0] != b[0]) return std::nullopt;
  return checked_product(checked_product(2, inputs[First].elements()), b[Rank - 1]);
}

inline flop_count elementwise_flops(const std::vector<op_input>& inputs) {
  return inputs.empty() || inputs[0].is_list ? std::nullopt : inputs[0].elements();
}

// The height and width of an argument that is one number for both or two.
inline std::optional<std::array<std::int64_t, 2>> two_of(const op_input& input) {
  const std::optional<std::vector<std::int64_t>> values = input.integers();
  if (!values || values->empty() || values->size() > 2) return std::nullopt;
  return std::array<std::int64_t, 2>{values->front(), values->back()};
}

// input, weight, bias, stride, padding, dilation, groups. The sizes may be those of a file: each step is checked.
inline flop_count conv2d_flops(const std::vector<op_input>& inputs) {
  if (inputs.size() < 7 || inputs[0].sizes.size() != 4 || inputs[1].sizes.size() != 4) return std::nullopt;
  const std::vector<std::int64_t>& in = inputs[0].sizes;      // batch, channels, height, width
  const std::vector<std::int64_t>& kernel = inputs[1].sizes;  // channels of the result, of a group, height, width
  const auto stride = two_of(inputs[3]), padding = two_of(inputs[4]), dilation = two_of(inputs[5]);
  const std::optional<std::vector<std::int64_t>> groups = inputs[6].integers();
  if (!stride || !padding || !dilation || !groups || groups->size() != 1 || groups->front() < 1) return std::nullopt;
  flop_count count = checked_product(checked_product(2, in[0]), checked_product(in[1], kernel[0]));
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t size = in[i + 2], taps = kernel[i + 2];
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    for (const std::int64_t value : {size, taps, (*stride)[i], (*padding)[i], (*dilation)[i]})
      if (value < 0 || value >= limit) return std::nullopt;
    const std::int64_t span = size + 2 * (*padding)[i] - (*dilation)[i] * (taps - 1) - 1;
    if (span < 0 || (*stride)[i] == 0) return std::nullopt;
    count = checked_product(count, checked_product(span / (*stride)[i] + 1, taps));
  }
  if (count) *count /= groups->front();
  return count;
}

struct known_formula {
  std::string_view name;
  flop_count (*formula)(const std::vector<op_input>& inputs);
};
inline constexpr known_formula known_formulas[] = {
    {"aten::mm", product_flops<0, 2>},      {"aten::addmm", product_flops<1, 2>}, {"aten::bmm", product_flops<0, 3>},
    {"aten::baddbmm", product_flops<1, 3>}, {"aten::conv2d", conv2d_flops},       {"aten::add", elementwise_flops},
    {"aten::mul", elementwise_flops},
};

// The operations of events, each combination of name and inputs looked at once.
class flop_counter {
 public:
  flop_counter(const trace& source, const flop_formulas& formulas)
      : trace_(source), formulas_(formulas), key_(source.find_text("flops")) {}

  // Whether any event can have operations at all.
  [[nodiscard]] bool is_needed() const noexcept { return trace_.info().has_flops || key_ != npos; }

  struct result {
    std::int64_t count = 0;
    bool is_unknown = false;  // there is a formula, but the inputs do not fit it
  };
  result operator()(const trace_event& e) {
    if (e.detail == npos && !trace_.info().has_flops) return {};
    if (const flop_count given = given_count(trace_.detail(e))) return {*given, false};
    return trace_.info().has_flops ? from_formula(e) : result();
  }

 private:
  // What the program said itself goes before any formula.
  [[nodiscard]] flop_count given_count(const event_detail& d) const {
    if (key_ == npos) return std::nullopt;
    for (std::uint32_t i = d.first_arg; i < d.first_arg + d.arg_count; ++i)
      if (trace_.arguments()[i].key == key_) return count_of(trace_.arguments()[i]);
    return std::nullopt;
  }
  static flop_count count_of(const trace_argument& argument) noexcept {
    switch (argument.kind) {
      case trace_argument::type::int64:
        return argument.int64 >= 0 ? flop_count(argument.int64) : std::nullopt;
      case trace_argument::type::uint64:
        return saturating_cast<std::int64_t>(argument.uint64);
      case trace_argument::type::real:
        if (!(argument.real >= 0)) return std::nullopt;
        return argument.real < 9.2e18 ? static_cast<std::int64_t>(argument.real + 0.5) : INT64_MAX;
      default:
        return std::nullopt;
    }
  }
  result from_formula(const trace_event& e) {
    const event_detail& d = trace_.detail(e);
    const std::uint64_t inputs = std::uint64_t{d.input_dims} << 32 | d.concrete_inputs;
    wide_key_map<result>& of_name = known_[e.name];
    const auto found = of_name.find(inputs);
    if (found != of_name.end()) return found->second;
    result r;
    if (const flop_formula formula = formulas_.find(trace_.text(e.name)); formula != nullptr) {
      const flop_count count = flop_formulas::count(formula, inputs_of(trace_, d));
      r = {count.value_or(0), !count};
    }
    of_name.emplace(inputs, r);
    return r;
  }

  const trace& trace_;
  const flop_formulas& formulas_;
  std::uint32_t key_;  // of the argument in which programs say it
  std::unordered_map<std::uint32_t, wide_key_map<result>> known_;
};

}  // namespace detail

inline flop_formula flop_formulas::find(std::string_view name) const {
  for (const auto& [known, formula] : own_)
    if (known == name) return formula;
  for (const detail::known_formula& known : detail::known_formulas)
    if (known.name == name) return known.formula;
  return nullptr;
}

STEPPROF_END_NAMESPACE
