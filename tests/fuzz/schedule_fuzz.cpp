// The schedule against what torch's documentation says of it.
#include <fuzz/fuzz_input.hpp>

#include <string>
#include <system_error>

#include <stepprof/session/schedule.hpp>

using namespace stepprof;

namespace {

// One step after the other, with a counter for each phase.
class walked_schedule {
 public:
  explicit walked_schedule(const schedule& s) : s_(s), skip_(s.skip_first), wait_(s.skip_first_wait != 0 ? 0 : s.wait) {
    warmup_ = s.warmup;
    active_ = s.active;
  }
  action next() {
    if (skip_ > 0) return --skip_, action::none;
    if (s_.repeat > 0 && cycles_ == s_.repeat) return action::none;
    if (wait_ > 0) return --wait_, action::none;
    if (warmup_ > 0) return --warmup_, action::warmup;
    if (--active_ > 0) return action::record;
    ++cycles_;
    wait_ = s_.wait;
    warmup_ = s_.warmup;
    active_ = s_.active;
    return action::record_and_save;
  }

 private:
  schedule s_;
  std::int64_t skip_, wait_, warmup_ = 0, active_ = 0, cycles_ = 0;
};

// The documented formula in 128 bits, where nothing overflows.
__extension__ typedef __int128 wide;
action by_formula(const schedule& s, std::int64_t step) {
  if (step < 0 || step < s.skip_first) return action::none;
  const wide at = wide{step} - s.skip_first + (s.skip_first_wait != 0 ? s.wait : 0);
  const wide length = wide{s.wait} + s.warmup + s.active;
  if (s.repeat > 0 && at / length >= s.repeat) return action::none;
  const wide in_cycle = at % length;
  if (in_cycle < s.wait) return action::none;
  if (in_cycle < wide{s.wait} + s.warmup) return action::warmup;
  return in_cycle < length - 1 ? action::record : action::record_and_save;
}

std::string shown(const schedule& s, std::int64_t step) {
  std::string text = "step " + std::to_string(step) + " of";
  for (const std::int64_t field : {s.wait, s.warmup, s.active, s.repeat, s.skip_first, s.skip_first_wait})
    text += ' ' + std::to_string(field);
  return text;
}

void check_validation(const schedule& s) {
  std::error_code ec;
  validate(s, ec);
  fuzz::require(!ec == s.is_valid(), "validate() and is_valid() agree", [&] { return shown(s, 0); });
  const std::string text = ec ? ec.message() : "";
  const auto check = [&](const char* name, std::int64_t value, std::int64_t least) {
    const std::string part = std::string(name) + " is " + std::to_string(value) + ", must be at least";
    fuzz::require((text.find(part) != std::string::npos) == (value < least), "refused fields are named", text);
  };
  check(" wait", s.wait, 0);
  check(" warmup", s.warmup, 0);
  check(" active", s.active, 1);
  check(" repeat", s.repeat, 0);
  check(" skip_first", s.skip_first, 0);
  check(" skip_first_wait", s.skip_first_wait, 0);
}

void check_first_active_step(const schedule& s) {
  const auto first = s.first_active_step();
  if (!first) return;
  const auto is_active = [&](std::int64_t step) {
    return s(step) == action::record || s(step) == action::record_and_save;
  };
  fuzz::require(is_active(*first) && (*first == 0 || !is_active(*first - 1)), "the first active step is",
                [&] { return shown(s, *first); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  schedule s;
  const bool small = in.flag();
  for (std::int64_t* field : {&s.wait, &s.warmup, &s.active, &s.repeat, &s.skip_first, &s.skip_first_wait})
    *field = small ? static_cast<std::int64_t>(in.below(9)) : in.number();
  check_validation(s);
  check_first_active_step(s);
  const step_schedule held(s);
  fuzz::require(held.first_active_step() == s.first_active_step(), "a held schedule is the same",
                [&] { return shown(s, 0); });
  if (small && s.is_valid()) {
    walked_schedule walked(s);
    for (std::int64_t step = 0; step < 100; ++step) {
      const action expected = walked.next();
      fuzz::require(s(step) == expected && held(step) == expected, "the step is what a walk says",
                    [&] { return shown(s, step); });
      fuzz::require(expected == by_formula(s, step), "walk and formula agree", [&] { return shown(s, step); });
    }
    return 0;
  }
  for (int i = 0; i < 8; ++i) {
    const std::int64_t step = in.number();
    const action expected = s.is_valid() ? by_formula(s, step) : action::none;
    fuzz::require(s(step) == expected, "the step is what the formula says", [&] { return shown(s, step); });
  }
  return 0;
}
