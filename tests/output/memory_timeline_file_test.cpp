// Catches: a picture that no browser shows, text of a program that becomes part of the page, a file that is not JSON.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>
#include <support/skip.hpp>
#include <support/temp_folder.hpp>

#include <stepprof/output/memory_timeline_file.hpp>

namespace memory_timeline_file_test {

using namespace stepprof;
using nlohmann::json;

namespace {

const std::string hostile =
    "</script><script>document.title='owned'</script><img src=x onerror=\"alert(1)\">&\x01\xff\"'";

// 3 MB at 10 us in the default pool, 1 MB more from 20 us to 30 us in a pool with a hostile name.
trace recorded(const std::string& pool = hostile) {
  test::event_builder built("t1: ProfilerStep#7![1000..91000]");
  trace_builder& b = built.builder;
  b.event(0).flags = trace_event::step;
  b.process(0).name = "program " + pool;
  b.info().has_memory = true;
  b.info().begin_ns = 1000;
  b.info().end_ns = 101000;
  b.info().base_time_ns = 5000000;
  memory_event m;
  m.time_ns = 11000;
  m.bytes = m.total_allocated = 3 << 20;
  b.add_memory(m);
  m.time_ns = 21000;
  m.bytes = 1 << 20;
  m.total_allocated = 4 << 20;
  m.address = 16;
  m.pool = b.intern(pool);
  const std::uint32_t allocation = b.add_memory(m);
  m.time_ns = 31000;
  m.bytes = -m.bytes;
  m.total_allocated = 3 << 20;
  m.allocation = allocation;
  b.add_memory(m);
  b.add_step({7, 1000, 91000, 0, true});
  return b.finish();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

// What a command prints.
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) != 0;) text.append(buffer, n);
  ::pclose(pipe);
  return text;
}

std::string browser() {
  const std::string path =
      output_of("command -v chromium || command -v chromium-browser || command -v google-chrome || true");
  return path.substr(0, path.find('\n'));
}

}  // namespace

// Catches: another form than the documented one.
TEST_CASE("the JSON of a timeline holds its times, series and peaks", "[memory_timeline_file]") {
  const std::string text = memory_timeline_json(recorded("frames"));
  const json file = json::parse(text);
  CHECK(file.at("schema") == 1);
  CHECK(file.at("group_by") == "pool");
  CHECK(file.at("base_time_ns") == 5001000);
  CHECK(file.at("duration_ns") == 100000);
  CHECK(file.at("events") == 3);
  CHECK(file.at("thinned") == false);
  CHECK(file.at("peak") == json::parse(R"({"bytes": 4194304, "time_ns": 20000})"));
  CHECK(file.at("last_bytes") == 3145728);
  CHECK(file.at("steps") == json::parse(R"([{"number": 7, "begin_ns": 0, "end_ns": 90000}])"));
  CHECK(file.at("times_ns") == json::parse("[0, 10000, 20000, 30000, 100000]"));
  CHECK(file.at("total_bytes") == json::parse("[0, 3145728, 4194304, 3145728, 3145728]"));
  REQUIRE(file.at("series").size() == 2);
  CHECK(file.at("series")[1] == json::parse(R"({"name": "frames", "nested": false, "peak_bytes": 1048576,
                                                "peak_time_ns": 20000, "last_bytes": 0,
                                                "bytes": [0, 0, 1048576, 0, 0]})"));
}

// Catches: text of a program that is taken for markup. FC-78: microsoft/playwright PR40655,
// wso2/vscode-extensions PR828
TEST_CASE("names are text, whatever they hold", "[memory_timeline_file]") {
  const trace t = recorded();
  const std::string page = memory_timeline_html(t), picture = memory_timeline_svg(t);
  CHECK(count(page, "<script") == 2);  // the data and ours
  CHECK(count(page, "</script>") == 2);
  CHECK(count(page, "<img") == 0);
  CHECK(count(picture, "<script") == 0);
  CHECK(count(picture, "<img") == 0);
  CHECK(count(picture, "\x01") + count(picture, "\xff") == 0);
  CHECK(picture.find("&lt;/script&gt;") != std::string::npos);
  CHECK(count(page, "http") == 0);  // nothing is loaded
  CHECK(json::parse(memory_timeline_json(t)).at("series")[1].at("name").get<std::string>().substr(0, 9) == "</script>");
}

// Catches: an axis without a unit, steps or a peak that are not drawn.
TEST_CASE("the picture has axes with units, a legend, steps and the peak", "[memory_timeline_file]") {
  const std::string picture = memory_timeline_svg(recorded("frames"));
  for (const char* part :
       {">0 MB<", ">4 MB<", ">20 us<", ">live bytes<", ">time since the begin of the recording<", ">#7<",
        ">peak 4.00 MB at 20.000us<", ">(default pool)<", ">frames<", ">peak 1.00 MB, 0 B at the end<"}) {
    INFO(part);
    CHECK(picture.find(part) != std::string::npos);
  }
  CHECK(count(picture, "class=\"area\"") == 2);
}

// Catches: a size that grows with the recording.
TEST_CASE("the page of a million events is small", "[memory_timeline_file]") {
  test::event_builder built("t1: a[0..1]");
  built.builder.info().has_memory = true;
  built.builder.info().end_ns = 1000000;
  memory_event m;
  for (std::int64_t i = 0; i < 1000000; ++i) {
    m.time_ns = i;
    m.bytes = 1 + i % 77;
    m.total_allocated += m.bytes;
    m.pool = built.builder.intern("pool " + std::to_string(i % 9));
    m.address = static_cast<std::uint64_t>(i);
    built.builder.add_memory(m);
  }
  const trace t = built.builder.finish();
  const std::string page = memory_timeline_html(t);
  CHECK(page.size() < 2000000);
  CHECK(json::parse(memory_timeline_json(t)).at("peak").at("bytes") == m.total_allocated);
}

// Catches: an empty success, a file with another form than its name says. FC-77: pytorch/pytorch#100253, #89406
TEST_CASE("what cannot be written is refused with a remedy", "[memory_timeline_file]") {
  const test::temp_folder folder;
  std::error_code ec;
  export_memory_timeline(recorded(), folder / "t.png", ec);
  CHECK(ec == errc::invalid_argument);
  CHECK(ec.message().find("must end in .json, .svg or .html (.gz may follow)") != std::string::npos);
  export_memory_timeline(test::events("t1: a[0..1]"), folder / "t.json", ec);
  CHECK(ec == errc::invalid_argument);
  CHECK(ec.message() == "export_memory_timeline needs profile_memory to be on");
  memory_timeline_options options;
  options.device = {1, 0};
  export_memory_timeline(recorded(), folder / "t.html", options, ec);
  CHECK(ec == errc::no_results);
  export_memory_timeline(recorded(), folder / "nowhere/t.html", ec);
  CHECK(ec == std::errc::no_such_file_or_directory);
  CHECK_THROWS(export_memory_timeline(recorded(), folder / "t"));
  CHECK(folder.names().empty());
  for (const char* const name : {"t.json", "t.svg", "t.html"}) export_memory_timeline(recorded(), folder / name);
  CHECK(test::contents_of(folder / "t.json") == memory_timeline_json(recorded()));
  CHECK(test::contents_of(folder / "t.svg") == memory_timeline_svg(recorded()));
  CHECK(test::contents_of(folder / "t.html") == memory_timeline_html(recorded()));
}

// Catches: a script that fails, a picture that a browser does not draw, a value under the pointer that is not the one
// drawn there, a name that runs.
TEST_CASE("a browser shows the page and what is under the pointer", "[memory_timeline_file]") {
  if (browser().empty()) return test::skip("no chromium: pages are not shown");
  const test::temp_folder folder;
  std::string page = memory_timeline_html(recorded());
  // At 25 us of 100, where the plot goes from 90 to 900 of 1200.
  page.insert(
      page.rfind("</body>"),
      "<script>{ const box = svg.getBoundingClientRect(); svg.dispatchEvent(new MouseEvent('mousemove', {clientX: "
      "box.left + (90 + 810 * 0.25) * box.width / 1200, clientY: 200, bubbles: true}));"
      "const peak = document.querySelector('.peak circle').getBoundingClientRect();"
      "document.body.dataset.peak = Math.round((peak.left + peak.width / 2 - box.left) * 1200 / box.width);"
      "document.body.dataset.areas = [...document.querySelectorAll('.area')].filter(a => "
      "a.getBoundingClientRect().width > 500 && a.getBoundingClientRect().height > 10).length }</script>");
  std::ofstream(folder / "page.html", std::ios::binary) << page;
  const std::string dom = output_of(
      "timeout 120 " + browser() + " --headless --no-sandbox --disable-gpu --user-data-dir=" + (folder / "profile") +
      " --window-size=1300,700 --dump-dom file://" + (folder / "page.html") + " 2>/dev/null");
  CHECK(dom.find("Peak 4.00 MB at 20.000us, 3.00 MB at the end; 3 allocations and frees, 5 points, 2 series.") !=
        std::string::npos);
  CHECK(dom.find("data-peak=\"252\"") != std::string::npos);  // 90 + 810 * 0.2
  CHECK(dom.find("data-areas=\"2\"") != std::string::npos);
  CHECK(dom.find("</div><div>all <b>4.00 MB</b></div><div>(default pool) <b>3.00 MB</b></div>") != std::string::npos);
  CHECK(dom.find("<b>1.00 MB</b>") != std::string::npos);
  CHECK(dom.find("<title>owned") == std::string::npos);
  CHECK(dom.find("<title>Live memory by pool, program &lt;/script&gt;") != std::string::npos);
  CHECK(count(dom, "<img") == 0);
}

// Catches: a picture that stacks what lies inside other memory, or does not show it at all; a title and a JSON that do
// not say what is shown.
TEST_CASE("pools inside others are dashed lines, and the title says what is shown", "[memory_timeline_file]") {
  test::event_builder built("t1: f[0..3000000000]");
  trace_builder& b = built.builder;
  b.process(0).name = "";
  b.info().has_memory = true;
  b.info().end_ns = 3000000000;
  memory_event m;
  m.device_type = 1;
  m.device_id = 2;
  m.event = 0;
  m.time_ns = 1000000000;
  m.bytes = m.total_allocated = 4 << 20;
  m.pool = b.intern("arena");
  b.add_memory(m);
  m.time_ns = 2000000000;
  m.bytes = m.total_allocated = 1 << 20;
  m.flags = memory_event::nested;
  m.pool = b.intern("inside");
  b.add_memory(m);
  const trace t = b.finish();
  memory_timeline_options options;
  options.device = {1, 2};

  const json file = json::parse(memory_timeline_json(t, options));
  CHECK(file.at("device_type") == 1);
  CHECK(file.at("device_index") == 2);
  CHECK(file.at("peak").at("bytes") == 4 << 20);
  REQUIRE(file.at("series").size() == 2);
  CHECK(file.at("series")[1].at("name") == "inside");
  CHECK(file.at("series")[1].at("nested") == true);
  CHECK(file.at("series")[1].at("bytes") == json::parse("[0, 0, 1048576, 1048576]"));

  const std::string picture = memory_timeline_svg(t, options);
  CHECK(count(picture, "class=\"area\"") == 1);
  CHECK(count(picture, "class=\"nested\"") == 1);
  CHECK(count(picture, "stroke-dasharray=\"5 3\"") == 2);  // the line and its place in the legend
  CHECK(count(picture, "1.00 MB at the end, nested") == 1);
  CHECK(count(picture, ">3 s</text>") == 1);
  CHECK(count(picture, "Live memory by pool of device 1:2<") >= 1);

  options.group_by = memory_group::key;
  CHECK(json::parse(memory_timeline_json(t, options)).at("group_by") == "key");
  CHECK(json::parse(memory_timeline_json(t, options)).at("series")[0].at("name") == "f");
  CHECK(count(memory_timeline_svg(t, options), "Live memory by scope of device 1:2<") >= 1);
  CHECK(count(memory_timeline_svg(t, options), "class=\"nested\"") == 0);
}

}  // namespace memory_timeline_file_test
