// Catches: a schedule that differs from torch in any step, overflows, or accepts an invalid field.
#include <support/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <stepprof/session/schedule.hpp>

namespace schedule_test {

using namespace stepprof;

namespace {

constexpr std::int64_t max64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t min64 = std::numeric_limits<std::int64_t>::min();

char letter(action a) {
  switch (a) {
    case action::none:
      return '.';
    case action::warmup:
      return 'w';
    case action::record:
      return 'R';
    case action::record_and_save:
      return 'S';
  }
  return '?';
}

template <class Schedule>
std::string letters(const Schedule& s, std::int64_t steps) {
  std::string text;
  for (std::int64_t step = 0; step < steps; ++step) text += letter(s(step));
  return text;
}

// The plain way: walk from step 0, one counter per phase.
std::string walked(const schedule& s, std::int64_t steps) {
  std::string text(static_cast<std::size_t>(s.skip_first), '.');
  for (std::int64_t cycle = 0; static_cast<std::int64_t>(text.size()) < steps; ++cycle) {
    if (s.repeat > 0 && cycle == s.repeat) {
      text.append(static_cast<std::size_t>(steps), '.');
      break;
    }
    if (cycle > 0 || s.skip_first_wait == 0) text.append(static_cast<std::size_t>(s.wait), '.');
    text.append(static_cast<std::size_t>(s.warmup), 'w');
    text.append(static_cast<std::size_t>(s.active - 1), 'R');
    text += 'S';
  }
  return text.substr(0, static_cast<std::size_t>(steps));
}

// The formula in 128 bits, where nothing can overflow.
__extension__ typedef __int128 wide;
action exact(const schedule& s, std::int64_t step) {
  if (step < 0 || step < s.skip_first) return action::none;
  wide at = wide{step} - s.skip_first + (s.skip_first_wait != 0 ? s.wait : 0);
  const wide length = wide{s.wait} + s.warmup + s.active;
  if (s.repeat > 0 && at / length >= s.repeat) return action::none;
  at %= length;
  if (at < s.wait) return action::none;
  if (at < wide{s.wait} + s.warmup) return action::warmup;
  return at == length - 1 ? action::record_and_save : action::record;
}

std::string fault_of(const schedule& s) {
  std::error_code ec = std::make_error_code(std::errc::io_error);
  validate(s, ec);
  CHECK(s.is_valid() == !ec);
  if (!ec) {
    CHECK_NOTHROW(validate(s));
    return "";
  }
  CHECK(ec == errc::invalid_argument);
  CHECK_THROWS_WITH(validate(s), ec.message());
  CHECK_THROWS_AS(validate(s), error);
  return ec.message();
}

// Usable at compile time, and an aggregate for designated initialisers.
static_assert(std::is_aggregate_v<schedule>, "");
static_assert(std::is_trivially_copyable_v<schedule>, "");
static_assert(schedule{2, 2, 5, 1}(3) == action::warmup, "");
static_assert(schedule{2, 2, 5, 1}(8) == action::record_and_save, "");
static_assert(schedule{2, 2, 5, 1}(9) == action::none, "");
static_assert(schedule{2, 2, 5, 1}.first_active_step() == 4, "");
static_assert(!schedule{0, 0, 0}.is_valid(), "");
static_assert(to_string(action::record_and_save) == "RECORD_AND_SAVE", "");
static_assert(noexcept(schedule{}(0)), "");

}  // namespace

// Catches: a schedule whose phases are shifted, or whose last active step does not save. Expected text: torch 2.14.1.
TEST_CASE("the phases are torch's", "[schedule]") {
  struct row {
    schedule s;
    std::string phases;
  };
  const std::vector<row> rows = {
      {{2, 2, 5, 1}, "..wwRRRRS..........."},       {{1, 1, 2}, ".wRS.wRS.wRS.wRS.wRS"},
      {{1, 1, 2, 2}, ".wRS.wRS............"},       {{1, 1, 1, 2, 3}, "....wS.wS..........."},
      {{0, 0, 1}, "SSSSSSSSSSSSSSSSSSSS"},          {{0, 0, 1, 2}, "SS.................."},
      {{3, 1, 2, 2, 2, 1}, "..wRS...wRS........."}, {{3, 1, 2, 0, 2, 1}, "..wRS...wRS...wRS..."},
      {{3, 1, 2, 2, 0, 1}, "wRS...wRS..........."}, {{5, 1, 2, 2, 3, 1}, "...wRS.....wRS...."},
      {{2, 1, 4, 2, 3}, ".....wRRRS..wRRRS...."},
  };
  for (const row& r : rows) {
    INFO(r.phases);
    CHECK(letters(r.s, static_cast<std::int64_t>(r.phases.size())) == r.phases);
    CHECK(letters(step_schedule(r.s), static_cast<std::int64_t>(r.phases.size())) == r.phases);
    CHECK(r.s.first_active_step() == static_cast<std::int64_t>(r.phases.find_first_of("RS")));
  }
}

// Catches: action names that differ from torch's, or a name for a value that is no action.
TEST_CASE("actions have torch's names", "[schedule]") {
  CHECK(to_string(action::none) == "NONE");
  CHECK(to_string(action::warmup) == "WARMUP");
  CHECK(to_string(action::record) == "RECORD");
  CHECK(to_string(action::record_and_save) == "RECORD_AND_SAVE");
  CHECK(to_string(static_cast<action>(4)) == "UNKNOWN");
}

// Catches: a combination of fields that the table of examples does not hold.
TEST_CASE("the phases equal those of a plain walk over a grid", "[schedule]") {
  for (std::int64_t wait : {0, 1, 3})
    for (std::int64_t warmup : {0, 1, 2})
      for (std::int64_t active : {1, 2, 3})
        for (std::int64_t repeat : {0, 1, 2, 3})
          for (std::int64_t skip_first : {0, 1, 4})
            for (std::int64_t skip_first_wait : {0, 1, 7}) {
              const schedule s{wait, warmup, active, repeat, skip_first, skip_first_wait};
              const std::string expected = walked(s, 40);
              if (letters(s, 40) == expected) continue;
              FAIL_CHECK(letters(s, 40) << " instead of " << expected);
            }
  SUCCEED();
}

// Catches: sums and products that leave 64 bits (under UBSan), and a cycle length that wraps to a small number.
TEST_CASE("any 64-bit values give the exact answer", "[schedule]") {
  std::mt19937_64 random(1);
  const auto any = [&random] {
    const std::int64_t edges[] = {0, 1, 2, 3, max64 / 2, max64 / 2 + 1, max64 - 1, max64};
    const auto spread = static_cast<std::int64_t>((random() >> 1) >> (random() % 63));
    return random() % 2 == 0 ? edges[random() % 8] : spread;
  };
  int wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    const schedule s{any(), any(), (std::max)(any(), std::int64_t{1}), any(), any(), any()};
    REQUIRE(s.is_valid());
    for (int k = 0; k < 4; ++k) {
      const std::int64_t step = any();
      wrong += s(step) != exact(s, step);
    }
    if (const auto first = s.first_active_step()) {
      wrong += s(*first) != action::record && s(*first) != action::record_and_save;
      wrong += *first > 0 && (s(*first - 1) == action::record || s(*first - 1) == action::record_and_save);
    }
  }
  CHECK(wrong == 0);
}

// Catches: arithmetic on values that validation refuses: a division by zero or an overflow instead of "nothing".
TEST_CASE("a refused schedule and a negative step are none", "[schedule]") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    schedule s;
    for (std::int64_t* field : {&s.wait, &s.warmup, &s.active, &s.repeat, &s.skip_first, &s.skip_first_wait})
      *field = static_cast<std::int64_t>(random());
    const auto step = static_cast<std::int64_t>(random());
    if (s.is_valid() && step >= 0) continue;
    if (s(step) != action::none) FAIL_CHECK("not none");
    if (!s.is_valid() && s.first_active_step()) FAIL_CHECK("has an active step");
  }
  CHECK(schedule{}(-1) == action::none);
  CHECK(schedule{}(min64) == action::none);
  CHECK(schedule{0, 0, 0}(0) == action::none);
  CHECK(schedule{min64, min64, min64, min64, min64, min64}(max64) == action::none);
}

// Catches: an invalid field that is accepted, or a message without field and value, in one of the two error forms.
TEST_CASE("every invalid field is refused with its name and value", "[schedule]") {
  CHECK(fault_of({}).empty());
  CHECK(fault_of({max64, max64, max64, max64, max64, max64}).empty());
  CHECK(fault_of({-1, 0, 1, 0, 0, 0}) == "schedule: wait is -1, must be at least 0");
  CHECK(fault_of({0, -1, 1, 0, 0, 0}) == "schedule: warmup is -1, must be at least 0");
  CHECK(fault_of({0, 0, 0, 0, 0, 0}) == "schedule: active is 0, must be at least 1");
  CHECK(fault_of({0, 0, -1, 0, 0, 0}) == "schedule: active is -1, must be at least 1");
  CHECK(fault_of({0, 0, 1, -1, 0, 0}) == "schedule: repeat is -1, must be at least 0");
  CHECK(fault_of({0, 0, 1, 0, -1, 0}) == "schedule: skip_first is -1, must be at least 0");
  CHECK(fault_of({0, 0, 1, 0, 0, -1}) == "schedule: skip_first_wait is -1, must be at least 0");
  CHECK(fault_of({-1, 2, 0, 3, -9, 0}) ==
        "schedule: wait is -1, must be at least 0; active is 0, must be at least 1; skip_first is -9, must be at least "
        "0");
  CHECK(fault_of({min64, 0, 1}) == "schedule: wait is -9223372036854775808, must be at least 0");
}

// FC-04: pytorch/torchtitan PR4233
// Catches: windows that cannot be, found late or by overflow.
TEST_CASE("impossible schedules are refused and the largest ones are harmless", "[schedule]") {
  CHECK(fault_of({0, 0, 0, 0, 0, 0}).find("active is 0") != std::string::npos);
  const schedule far{max64, 1, 1};
  CHECK(fault_of(far).empty());
  CHECK(far(0) == action::none);
  CHECK(far(max64 - 1) == action::none);
  CHECK(far(max64) == action::warmup);
  CHECK_FALSE(far.first_active_step());
  const schedule edge{max64 - 1, 1, 1};
  CHECK(edge(max64 - 1) == action::warmup);
  CHECK(edge(max64) == action::record_and_save);
  CHECK(edge.first_active_step() == max64);
  CHECK(letters(schedule{0, 0, 1}, 5) == "SSSSS");
}

// FC-06: pytorch/pytorch PR121127
// Catches: N requested steps giving N-1, or shifted by one.
TEST_CASE("exactly the requested steps are active", "[schedule]") {
  const schedule s{2, 1, 2, 2, 3};
  std::vector<std::int64_t> active;
  for (std::int64_t step = 0; step < 1000; ++step)
    if (s(step) == action::record || s(step) == action::record_and_save) active.push_back(step);
  CHECK(active == std::vector<std::int64_t>{6, 7, 11, 12});
}

// FC-01: pytorch/pytorch#73828
// Catches: a number of cycles or of active steps that is no formula of the schedule.
TEST_CASE("the cycles completed within 100 steps follow the formula", "[schedule]") {
  for (std::int64_t wait : {0, 1})
    for (std::int64_t warmup : {0, 1, 10})
      for (std::int64_t active : {1, 5, 10})
        for (std::int64_t repeat : {0, 1, 4, 10}) {
          const std::string phases = letters(schedule{wait, warmup, active, repeat}, 100);
          const std::int64_t fitting = 100 / (wait + warmup + active);
          const std::int64_t cycles = repeat == 0 ? fitting : (std::min)(fitting, repeat);
          INFO(phases);
          CHECK(std::count(phases.begin(), phases.end(), 'S') == cycles);
          const std::size_t last = phases.rfind('S');
          REQUIRE(last != std::string::npos);
          const auto recorded = std::count_if(phases.begin(), phases.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                                              [](char c) { return c == 'R' || c == 'S'; });
          CHECK(recorded == active * cycles);
        }
}

namespace {
action plain_function(int step) {
  return step == 7 ? action::record_and_save : action::none;
}
struct throws_when_copied {
  bool* armed;
  explicit throws_when_copied(bool* a) : armed(a) {}
  throws_when_copied(const throws_when_copied& other) : armed(other.armed) {
    if (*armed) throw std::runtime_error("copied");
  }
  action operator()(std::int64_t step) const { return step == 3 ? action::record : action::none; }
};
struct throwing {
  action operator()(std::int64_t) const { throw std::runtime_error("no"); }
};
}  // namespace

// Catches: callables that are refused, sliced or not copied, and emptiness that is taken for a callable.
TEST_CASE("a step_schedule holds a schedule, a callable or nothing", "[schedule]") {
  const step_schedule nothing;
  CHECK(nothing.empty());
  CHECK(letters(nothing, 3) == "RRR");
  CHECK(nothing.first_active_step() == 0);

  CHECK(step_schedule(std::function<action(int)>()).empty());
  CHECK(step_schedule(static_cast<action (*)(int)>(nullptr)).empty());

  step_schedule s = schedule{1, 1, 2};
  CHECK_FALSE(s.empty());
  REQUIRE(s.fixed() != nullptr);
  CHECK(s.fixed()->active == 2);

  s = [](std::uint64_t step) { return step % 2 == 1 ? action::record_and_save : action::none; };
  CHECK(s.fixed() == nullptr);
  CHECK(letters(s, 4) == ".S.S");
  const step_schedule copy = s;
  s = plain_function;
  CHECK(letters(copy, 4) == ".S.S");
  CHECK(letters(s, 9) == ".......S.");
  s = {};
  CHECK(s.empty());

  static_assert(!std::is_constructible_v<step_schedule, int>, "");
  static_assert(!std::is_constructible_v<step_schedule, int (*)(int)>, "a number is no action");
}

// Catches: a search that disturbs the callable, never ends or lets its exception out.
TEST_CASE("the first active step of a callable is searched in a copy", "[schedule]") {
  CHECK(step_schedule(plain_function).first_active_step() == 7);
  CHECK_FALSE(step_schedule([](int) { return action::warmup; }).first_active_step());
  CHECK_FALSE(step_schedule(throwing()).first_active_step());
  step_schedule counting = [n = 0](int) mutable { return n++ == 2 ? action::record : action::none; };
  CHECK(counting.first_active_step() == 2);
  CHECK(letters(counting, 4) == "..R.");
  bool armed = false;
  const step_schedule uncopyable{throws_when_copied(&armed)};
  CHECK(uncopyable.first_active_step() == 3);
  armed = true;
  CHECK_FALSE(uncopyable.first_active_step());
}

// Catches: a schedule that is checked when it stands alone but not inside the options.
TEST_CASE("validation passes through a step_schedule", "[schedule]") {
  std::error_code ec;
  validate(step_schedule(schedule{0, 0, 0}), ec);
  CHECK(ec == errc::invalid_argument);
  CHECK(ec.message() == "schedule: active is 0, must be at least 1");
  CHECK_THROWS_WITH(validate(step_schedule(schedule{0, 0, 0})), "schedule: active is 0, must be at least 1");
  validate(step_schedule(plain_function), ec);
  CHECK_FALSE(ec);
  CHECK_NOTHROW(validate(step_schedule()));
}

}  // namespace schedule_test
