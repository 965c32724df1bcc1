#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <support/catch.hpp>
#include <support/trace_checker.hpp>

namespace trace_checker_test {

namespace {

using test::check_trace;
using test::checked_trace;

const std::string args = R"("args":{"Ev Idx":0})";
std::string slice(const std::string& name, const std::string& ts, const std::string& dur, int tid = 1) {
  return R"({"ph":"X","cat":"cpu_op","name":")" + name + R"(","pid":7,"tid":)" + std::to_string(tid) + R"(,"ts":)" +
         ts + R"(,"dur":)" + dur + "," + args + "}";
}
std::string start(const std::string& ts, const std::string& id = "1", int tid = 1) {
  return R"({"ph":"s","id":)" + id + R"(,"pid":7,"tid":)" + std::to_string(tid) + R"(,"ts":)" + ts +
         R"(,"cat":"fwdbwd","name":"fwdbwd"})";
}
std::string finish(const std::string& ts, const std::string& id = "1", int tid = 1,
                   const std::string& bp = R"(,"bp":"e")") {
  return R"({"ph":"f","id":)" + id + R"(,"pid":7,"tid":)" + std::to_string(tid) + R"(,"ts":)" + ts +
         R"(,"cat":"fwdbwd","name":"fwdbwd")" + bp + "}";
}
std::string instant(const std::string& ts) {
  return R"({"ph":"i","s":"t","cat":"mark","name":"tick","pid":7,"tid":1,"ts":)" + ts + "}";
}
template <class... Events>
std::string file(const Events&... events) {
  std::string list;
  ((list += (list.empty() ? "" : ",") + std::string(events)), ...);
  return R"({"displayTimeUnit":"ns","traceEvents":[)" + list + R"(],"traceName":"t"})";
}
// One slice with something changed in it.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = file(slice("a", "1.000", "2.000"));
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
std::set<std::string> rules(const std::string& text) {
  return check_trace(text).rules();
}
using set = std::set<std::string>;

const std::string a = slice("a", "1.000", "2.000");
const std::string b = slice("b", "4.000", "2.000");

}  // namespace

// Catches: a checker that finds fault with what all viewers read, or sees no facts.
TEST_CASE("the checker accepts a good trace and tells what is in it", "[trace_checker]") {
  const std::string text =
      file(R"({"ph":"M","name":"process_name","pid":7,"args":{"name":"p"}})",
           R"({"ph":"M","name":"thread_name","pid":7,"tid":1,"args":{"name":"main"}})",
           slice("outer", "0.000", "9.000"), a, b, start("1.000"), finish("4.000"), instant("1.500"),
           R"({"ph":"C","cat":"c","name":"n","pid":7,"ts":1.000,"args":{"v":1}})",
           R"({"ph":"b","cat":"x","name":"n","pid":7,"tid":1,"id":3,"ts":1.000})",
           R"({"ph":"e","cat":"x","name":"n","pid":7,"tid":1,"id":3,"ts":2.000})");
  const checked_trace t = check_trace(text);
  CHECK(t.summary().empty());
  REQUIRE(t.slices.size() == 4);
  CHECK(t.slices[0].parent == test::nothing);
  CHECK(t.slices[1].parent == 0);
  CHECK(t.slices[2].parent == 0);
  CHECK(t.slices[3].parent == 1);  // the instant lies on the slice
  REQUIRE(t.arrows.size() == 1);
  CHECK(t.arrow_text(t.arrows[0]) == "a -> b");
  CHECK(t.by_phase.at("X") == 3);
  CHECK(t.thread_names.at("7/1") == "main");
  CHECK(t.process_names.at("7") == "p");
  CHECK(t.async_pairs == 1);
}

// Catches: rules about the file as a whole that are not looked at.
TEST_CASE("the checker refuses bad files", "[trace_checker]") {
  CHECK(rules("\xef\xbb\xbf" + file(a)).count("bom") == 1);
  CHECK(rules(" " + file(a)) == set{"start"});
  CHECK(rules("[" + a + "]").count("start") == 1);
  CHECK(rules(file(a) + "\n") == set{"tail"});
  CHECK(rules(file(a) + "x").count("tail") == 1);
  CHECK(rules(R"({"traceEvents":{},"x":1})") == set{"no_events"});
  CHECK(rules(R"({"x":1})") == set{"no_events"});
  CHECK(rules(R"({"x":1,"traceEvents":[]})") == set{"last_key"});
  CHECK(rules(file()).empty());
  CHECK(rules(file(a) + "}").count("tail") == 1);
  CHECK(rules(file(a, "")).count("json") == 1);
  CHECK(rules(file("{}")) == set{"empty_event"});
  CHECK(rules(file("1")) == set{"empty_event"});
  std::string cut = file(a);
  cut.pop_back();
  CHECK(rules(cut).count("json") == 1);
}

// Catches: a lenient parser that lets through what strict ones refuse.
TEST_CASE("the checker is strict about JSON", "[trace_checker]") {
  for (const char* number : {"NaN", "Infinity", "+1", ".5", "5.", "01", "0x10", "1e", "-"})
    CHECK(rules(changed("\"Ev Idx\":0", std::string("\"Ev Idx\":") + number)).count("json") == 1);
  CHECK(rules(changed("\"Ev Idx\":0", "\"Ev Idx\":1e400")) == set{"json_second_parser"});
  CHECK(rules(changed("\"a\"", "\"a\tb\"")).count("json") == 1);
  CHECK(rules(changed("\"a\"", "\"\\q\"")).count("json") == 1);
  CHECK(rules(changed("\"a\"", "'a'")).count("json") == 1);
  CHECK(rules(changed("\"a\"", "\"\xff\"")).count("utf8") == 1);
  CHECK(rules(changed("\"a\"", "\"\xc0\xaf\"")).count("utf8") == 1);
  CHECK(rules(changed("\"a\"", "\"\xed\xa0\x80\"")).count("utf8") == 1);
  CHECK(rules(changed("\"a\"", "\"\xe2\x82\"")).count("utf8") == 1);
  CHECK(rules(changed("\"a\"", "\"\xf4\x90\x80\x80\"")).count("utf8") == 1);
  CHECK(rules(changed("\"a\"", "\"\xf0\x9f\x98\x80\"")).empty());
  CHECK(rules(changed("\"a\"", "\"\\ud83d\\ude00\"")) == set{"surrogate_escape"});
  CHECK(rules(changed("\"a\"", "\"</script>\"")) == set{"markup"});
  CHECK(rules(changed("\"Ev Idx\":0", "\"k\":0,\"k\":1")).count("duplicate_key") == 1);
  CHECK(rules(changed("\"dur\":2.000,", "\"dur\":2.000,,")).count("json") == 1);
}

// Catches: rules about single fields that are not looked at.
TEST_CASE("the checker refuses bad fields", "[trace_checker]") {
  CHECK(rules(changed("\"ph\":\"X\"", "\"ph\":\"x\"")) == set{"ph"});
  CHECK(rules(changed("\"ph\":\"X\",", "")) == set{"ph"});
  CHECK(rules(changed("\"name\":\"a\",", "")) == set{"name"});
  CHECK(rules(changed("\"name\":\"a\"", "\"name\":1")) == set{"name"});
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":\"1.000\"")) == set{"ts"});
  CHECK(rules(changed("\"ts\":1.000,", "")) == set{"ts"});
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":null")) == set{"ts"});
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":1")) == set{"decimals"});
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":1.0")) == set{"decimals"});
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":1.000e0")) == set{"decimals"});
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":1.0004")).count("decimals") == 1);
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":-0.001")) == set{"ts_range"});
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":4398046511104.000")) == set{"ts_range"});
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":4398046511103.999")).empty());
  CHECK(rules(changed("\"ts\":1.000", "\"ts\":1767225600000000.123")).count("precision") == 1);
  CHECK(rules(changed(",\"dur\":2.000", "")) == set{"dur"});
  CHECK(rules(changed("\"dur\":2.000", "\"dur\":null")) == set{"dur"});
  CHECK(rules(changed("\"dur\":2.000", "\"dur\":-2.000")) == set{"dur"});
  CHECK(rules(changed("\"pid\":7", "\"pid\":-7")) == set{"pid"});
  CHECK(rules(changed("\"pid\":7", "\"pid\":\"7\"")) == set{"pid"});
  CHECK(rules(changed("\"pid\":7", "\"pid\":0")) == set{"pid_zero"});
  CHECK(rules(changed("\"pid\":7", "\"pid\":2147483648")) == set{"pid"});
  CHECK(rules(changed("\"pid\":7", "\"pid\":2147483647")).empty());
  CHECK(rules(changed("\"tid\":1", "\"tid\":0")) == set{"tid_zero"});
  CHECK(rules(changed("\"tid\":1", "\"tid\":1.5")) == set{"tid"});
  CHECK(rules(changed("\"tid\":1", "\"tid\":140000000000000")) == set{"tid"});
  CHECK(rules(changed("\"tid\":1,", "")) == set{"tid"});
  CHECK(rules(changed(args, "\"args\":[]")) == set{"args"});
  CHECK(rules(changed("\"Ev Idx\":0", "\"k\":18446744073709551615")) == set{"args_number"});
  CHECK(rules(changed("\"Ev Idx\":0", "\"k\":9223372036854775807")).empty());
  CHECK(rules(changed("\"Ev Idx\":0", "\"k\":0.00012345678901234567")) == set{"args_number"});
  CHECK(rules(changed("\"Ev Idx\":0", "\"k\":1.2345678901234567e-4")).empty());
  CHECK(rules(changed("\"Ev Idx\":0", "\"a.b\":0,\"a\":{\"b\":1}")) == set{"args_path"});
}

// Catches: metadata, counters, instants and async events that a viewer drops, taken for good.
TEST_CASE("the checker refuses bad events beside slices", "[trace_checker]") {
  const std::string name = R"({"ph":"M","name":"thread_name","pid":7,"tid":1,"args":{"name":"main"}})";
  CHECK(rules(file(a, name)).empty());
  CHECK(rules(file(a, name, name)) == set{"metadata_twice"});
  CHECK(rules(file(a, R"({"ph":"M","name":"process_name","pid":7,"args":{"name":""}})")) == set{"metadata_args"});
  CHECK(rules(file(a, R"({"ph":"M","name":"thread_sort_index","pid":7,"tid":1,"args":{}})")) == set{"metadata_args"});
  CHECK(rules(file(a, R"({"ph":"M","name":"process_name","pid":7,"tid":0,"args":{"name":"p"}})")) == set{"tid_zero"});
  CHECK(rules(file(a, R"({"ph":"C","name":"c","pid":7,"ts":1.000})")) == set{"counter"});
  CHECK(rules(file(a, R"({"ph":"C","name":"c","pid":7,"ts":1.000,"args":{"v":"NaN"}})")) == set{"counter"});
  CHECK(rules(file(a, R"({"ph":"i","name":"c","pid":7,"tid":1,"s":"x","ts":1.000})")) == set{"instant"});
  const std::string begin = R"({"ph":"b","cat":"x","name":"n","pid":7,"tid":1,"id":3,"ts":1.000})";
  const std::string end = R"({"ph":"e","cat":"x","name":"n","pid":7,"tid":1,"id":3,"ts":2.000})";
  CHECK(rules(file(a, begin, end)).empty());
  CHECK(rules(file(a, begin)) == set{"async"});
  CHECK(rules(file(a, end)) == set{"async"});
  CHECK(rules(file(a, begin, begin, end, end)) == set{"async"});
  CHECK(rules(file(a, R"({"ph":"b","cat":"x","name":"n","pid":7,"tid":1,"ts":1.000})")) == set{"async"});
  CHECK(rules(file(a, begin, R"({"ph":"e","cat":"x","name":"n","pid":7,"tid":1,"id":"3","ts":2.000})")) ==
        set{"async"});
}

// Catches: nesting taken from the order in the file, or closed intervals, or rounding that hides an overlap.
TEST_CASE("the checker nests slices as Perfetto does", "[trace_checker]") {
  CHECK(rules(file(a, slice("c", "2.000", "1.000"))).empty());            // equal ends
  CHECK(rules(file(a, slice("c", "3.000", "1.000"))).empty());            // touching
  CHECK(rules(file(a, slice("c", "2.000", "1.001"))) == set{"overlap"});  // 1 ns too long
  CHECK(rules(file(a, slice("c", "2.999", "1.000"))) == set{"overlap"});
  CHECK(rules(file(a, slice("c", "2.000", "9.000", 2))).empty());  // another thread
  const checked_trace t =
      check_trace(file(slice("in", "1.000", "1.000"), slice("out", "1.000", "2.000"), slice("zero", "1.000", "0.000"),
                       slice("zero2", "1.000", "0.000"), slice("end", "3.000", "0.000")));
  CHECK(t.summary().empty());
  CHECK(t.slices[0].parent == 1);  // the longer one is the parent
  CHECK(t.slices[2].parent == 0);
  CHECK(t.slices[3].parent == 2);              // of two without length the later one is the child
  CHECK(t.slices[4].parent == test::nothing);  // outside at the end
  std::string deep;
  for (int i = 0; i < 513; ++i)
    deep += (i != 0 ? "," : "") + slice("d", std::to_string(i) + ".000", std::to_string(2000 - 2 * i) + ".000");
  CHECK(rules(file(deep)) == set{"depth"});
}

// Catches: arrows that go to another slice than the one they were written for, in either viewer.
TEST_CASE("the checker binds arrows as the viewers do", "[trace_checker]") {
  CHECK(rules(file(a, b, start("1.000"), finish("4.000"))).empty());
  CHECK(rules(file(start("1.000"), finish("4.000"), a, b)).empty());
  CHECK(rules(file(a, b, start("0.999"), finish("4.000"))) == set{"flow_unbound"});
  CHECK(rules(file(a, b, start("3.500"), finish("4.000"))) == set{"flow_outside", "flow_viewers_differ"});
  // At the border of two slices the viewers take different ones; 1 ns later they agree.
  const std::string next = slice("next", "3.000", "3.000");
  CHECK(rules(file(a, next, start("1.000"), finish("3.000"))) == set{"flow_viewers_differ"});
  CHECK(rules(file(a, next, start("1.000"), finish("3.001"))).empty());
  // After a child has ended, Perfetto still takes the child.
  const std::string child = slice("child", "1.500", "0.500");
  CHECK(rules(file(a, child, b, start("2.500"), finish("4.000"))) == set{"flow_outside", "flow_viewers_differ"});
  // A child with the same start takes the arrow.
  const checked_trace t = check_trace(file(a, slice("child", "1.000", "0.500"), b, start("1.000"), finish("4.000")));
  CHECK(t.summary().empty());
  CHECK(t.arrow_text(t.arrows.at(0)) == "child -> b");
  CHECK(rules(file(a, b, instant("1.500"), start("2.000"), finish("4.000"))) == set{"flow_stolen"});
  CHECK(rules(file(a, b, instant("1.000"), start("1.000"), finish("4.000"))) == set{"flow_stolen"});
  CHECK(rules(file(a, b, start("1.000"), instant("1.000"), finish("4.000"))) == set{"flow_viewers_differ"});
}

// Catches: ids, ends and order of arrows that are not looked at.
TEST_CASE("the checker refuses bad arrows", "[trace_checker]") {
  CHECK(rules(file(a, b, start("1.000", "\"1\""), finish("4.000", "\"1\""))) == set{"flow_id"});
  CHECK(rules(file(a, b, start("1.000", "1.0"), finish("4.000", "1.0"))) == set{"flow_id"});
  CHECK(rules(file(a, b, start("1.000", "9007199254740992"), finish("4.000", "9007199254740992"))) == set{"flow_id"});
  CHECK(rules(file(a, b, start("1.000", "9007199254740991"), finish("4.000", "9007199254740991"))).empty());
  CHECK(rules(file(a, b, start("1.000"), start("1.000"), finish("4.000"))) == set{"flow_duplicate"});
  CHECK(rules(file(a, b, start("1.000"), finish("4.000"), finish("4.000"))) == set{"flow_duplicate"});
  CHECK(rules(file(a, b, start("1.000"), finish("4.000", "1", 1, ""))) == set{"flow_bp"});
  CHECK(rules(file(a, b, start("1.000"), finish("4.000", "1", 1, ",\"bp\":\"f\""))) == set{"flow_bp"});
  CHECK(rules(file(a, b, start("1.000"))) == set{"flow_dangling"});
  CHECK(rules(file(a, b, finish("4.000"))) == set{"flow_dangling"});
  CHECK(rules(file(a, b, finish("4.000"), start("1.000"))) == set{"flow_dangling"});
  CHECK(rules(file(a, b, start("4.000"), finish("1.000"))) == set{"flow_order", "flow_turned"});
  CHECK(rules(file(a, b, start("1.000"), finish("1.000"))) == set{"flow_loop"});
  std::string unnamed = file(a, b, start("1.000"), finish("4.000"));
  for (std::size_t at; (at = unnamed.find(",\"name\":\"fwdbwd\"")) != std::string::npos;) unnamed.erase(at, 16);
  CHECK(check_trace(unnamed).has("flow_name"));
}

// Catches: a checker that finds other arrows in torch's own trace than torch made (the pairs are those that the
// torch 2.14.1 run printed), or overlooks the faults that torch's writer is known for.
TEST_CASE("the checker reads torch's own trace", "[trace_checker]") {
  std::ifstream in(std::string(STEPPROF_TEST_DATA) + "/torch-2.14.1-seed-capture.json", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const checked_trace t = check_trace(text);
  // Epoch-like times are not below 2^42 us, the copy has dropped trailing zeros, process events have tid 0, the main
  // thread is named twice.
  CHECK(t.rules() == set{"decimals", "metadata_twice", "tid_zero", "ts_range"});
  CHECK(t.by_phase == std::map<std::string, int>{{"M", 8}, {"X", 561}, {"s", 35}, {"f", 35}, {"i", 148}});
  std::map<std::string, int> pairs;
  for (const test::checked_arrow& arrow : t.arrows) ++pairs[t.arrow_text(arrow)];
  CHECK(pairs == std::map<std::string, int>{{"aten::t -> TBackward0", 10},
                                            {"aten::addmm -> AddmmBackward0", 10},
                                            {"aten::relu -> ReluBackward0", 5},
                                            {"aten::_log_softmax -> LogSoftmaxBackward0", 5},
                                            {"aten::nll_loss_forward -> NllLossBackward0", 5}});
  CHECK(t.slice_count("train_step") == 5);
  CHECK(t.slice_count("aten::mm") == 15);
}

}  // namespace trace_checker_test
