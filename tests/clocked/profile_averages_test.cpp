// Catches: times that are right in hand-made traces and wrong in what was recorded: recursion, and threads that work
// for one another.
#include <support/fake_clock.hpp>

#include <support/recorded.hpp>

#include <atomic>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <stepprof/stepprof.hpp>

namespace profile_averages_test {

using test::fake_clock;

namespace {

void work(std::int64_t ns) {
  STEPPROF_SCOPE("g");
  fake_clock::advance(ns);
}

// f calls itself `depth` times, at two call sites by turns, and then `leaf`.
template <class Leaf>
void f(int depth, const Leaf& leaf) {
  if (depth % 2 == 0) {
    STEPPROF_SCOPE("f");
    depth == 0 ? leaf() : f(depth - 1, leaf);
  } else {
    STEPPROF_SCOPE("f");
    f(depth - 1, leaf);
  }
}

// Each calls the other until none is left, with 10 ns before and after each call.
void ping(int left);
void pong(int left) {
  STEPPROF_SCOPE("B");
  fake_clock::advance(10);
  if (left > 0) ping(left - 1);
  fake_clock::advance(10);
}
void ping(int left) {
  STEPPROF_SCOPE("A");
  fake_clock::advance(10);
  if (left > 0) pong(left - 1);
  fake_clock::advance(10);
}

void wait_until(const std::atomic<int>& phase, int value) {
  while (phase < value) std::this_thread::yield();
}

// The first percentages of the rows, which are the shares of the self times, in units of 0.01 %.
std::int64_t sum_of_shares(const std::string& table) {
  std::int64_t sum = 0;
  std::istringstream lines(table);
  for (std::string row; std::getline(lines, row);) {
    const std::size_t sign = row.find('%');
    if (sign == std::string::npos || row[sign - 1] == ' ') continue;  // not in the header
    std::string digits = row.substr(row.rfind(' ', sign) + 1);
    digits.erase(digits.find('.'), 1);
    sum += std::stoll(digits);
  }
  return sum;
}

}  // namespace

// Catches: recursion that is counted once per level, or by call site instead of by name, and threads that hide each
// other's time.
// FC-23: wolfpld/tracy#159, wolfpld/tracy#1417, rbspy/rbspy#23, grafana/pyroscope#896
TEST_CASE("recorded recursion counts the outermost scope of a name, on each thread", "[profile]") {
  stepprof::profile prof;
  f(10, [] { work(1000); });
  prof.stop();
  const stepprof::event_averages once = prof.key_averages();
  CHECK(once.rows.size() == 2);
  CHECK(once.at("f").total_ns == 1000);
  CHECK(once.at("f").calls == 11);
  CHECK(once.at("f").self_ns == 0);
  CHECK(once.at("g").self_ns == 1000);
  CHECK(once.self_cpu_time_total_ns() == 1000);
  test::check_rules(prof.result());

  prof.start();
  ping(3);  // A[0..80]{ B[10..70]{ A[20..60]{ B[30..50] } } }
  prof.stop();
  CHECK(test::drawn(prof.result()) == "t: A[0..80]{ B[10..70]{ A[20..60]{ B[30..50] } } }");
  const stepprof::event_averages mutual = prof.key_averages();
  CHECK(mutual.at("A").total_ns == 80);
  CHECK(mutual.at("B").total_ns == 60);
  CHECK(mutual.at("A").self_ns == 40);
  CHECK(mutual.at("B").self_ns == 40);
  test::check_rules(prof.result());

  prof.start();
  std::atomic<int> phase{0};
  std::thread other([&] {
    f(10, [&] {
      phase = 1;
      wait_until(phase, 2);
    });
  });
  wait_until(phase, 1);
  f(10, [] { work(1000); });  // while the other thread is in the innermost of its own
  phase = 2;
  other.join();
  prof.stop();
  const stepprof::event_averages twice = prof.key_averages();
  CHECK(twice.at("f").total_ns == 2000);
  CHECK(twice.at("f").calls == 22);
  CHECK(twice.at("f").self_ns == 1000);
  CHECK(twice.at("g").self_ns == 1000);
  test::check_rules(prof.result());
}

// Catches: the work of other threads taken from the scope that waits for it, or shares that pass 100 %.
// FC-25: pytorch/pytorch#45160, pytorch/pytorch PR94972
TEST_CASE("a recorded scope that waits for eight workers keeps its own time, and shares add up to the whole",
          "[profile]") {
  constexpr int count = 8;
  stepprof::profile prof;
  {
    STEPPROF_SCOPE("main");
    std::atomic<int> working{0}, phase{0};
    std::vector<std::thread> workers;
    for (int i = 0; i < count; ++i)
      workers.emplace_back([&] {
        STEPPROF_SCOPE("worker");
        ++working;
        wait_until(phase, 1);
      });
    wait_until(working, count);
    fake_clock::advance(10000000);
    phase = 1;
    for (std::thread& worker : workers) worker.join();
  }
  prof.stop();
  const stepprof::event_averages rows = prof.key_averages();
  CHECK(rows.at("main").total_ns == 10000000);
  CHECK(rows.at("main").self_ns == 10000000);
  CHECK(rows.at("worker").calls == count);
  CHECK(rows.at("worker").total_ns == 80000000);
  CHECK(rows.at("worker").self_ns == 80000000);
  CHECK(rows.thread_count == 9);
  const std::string table = rows.table("self_cpu_time_total");
  // Of 90 ms: 88.89 % and 11.11 %.
  CHECK(sum_of_shares(table) == 10000);
  CHECK(test::contains(table, " 88.89% "));
  CHECK(test::contains(table, " 11.11% "));
  CHECK(test::contains(table, "Percentages are of the self time of 9 threads together: 90.000ms\n"));
  test::check_rules(prof.result());
}

}  // namespace profile_averages_test
