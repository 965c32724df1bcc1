// The cases that every provider of gzip has to pass. zlib_test.cpp and isal_test.cpp include this after their adapter
// and define STEPPROF_TESTED_GZIP, the name of their namespace; zlib is who looks at what they wrote.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <streambuf>
#include <string>
#include <system_error>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <stepprof/output/chrome_trace.hpp>
#include <stepprof/session/trace_handler.hpp>
#include <stepprof/tools/trace_reader.hpp>

#include <support/catch.hpp>
#include <support/event_builder.hpp>
#include <support/temp_folder.hpp>

namespace STEPPROF_TESTED_GZIP {

using namespace stepprof;
using names = std::vector<std::string>;

namespace {

// The members of a file, by zlib itself, which checks their sums and sizes; one that is not whole is "?".
std::vector<std::string> members_of(const std::string& file) {
  std::vector<std::string> members;
  std::string rest = file;
  while (!rest.empty()) {
    z_stream stream = {};
    REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
    stream.next_in = reinterpret_cast<Bytef*>(&rest[0]);
    stream.avail_in = static_cast<uInt>(rest.size());
    std::string member;
    int code = Z_OK;
    std::vector<char> buffer(1 << 20);
    while (code == Z_OK) {
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      code = inflate(&stream, Z_NO_FLUSH);
      member.append(buffer.data(), buffer.size() - stream.avail_out);
    }
    members.push_back(code == Z_STREAM_END ? member : "?");
    rest.erase(0, rest.size() - (code == Z_STREAM_END ? stream.avail_in : 0));
    inflateEnd(&stream);
  }
  return members;
}
std::string packed(const std::string& text) {
  std::string out;
  string_sink to(out);
  const std::unique_ptr<detail::gzip_sink> sink = detail::gzip()->make_sink(to);
  sink->write(text.data(), text.size());
  CHECK_FALSE(sink->finish());
  return out;
}

std::string json_of(const trace& t, const std::string& name) {
  std::string text;
  chrome_trace_options options;
  options.trace_name = name;
  write_chrome_trace(t, text, options);
  return text;
}
trace some_trace() {
  return test::event_builder("t1: f[0..10]{ f[2..6] } g[10..12]; t2: h[0..3]").builder.finish();
}

int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

std::string fault_of(const std::string& text) {
  std::error_code ec;
  CHECK(parse_trace(text, {}, ec).events().empty());
  CHECK(ec == errc::bad_trace);
  return ec.message();
}

// Text as a file gives it that is read while it arrives: one byte at a time.
class drop_by_drop final : public std::streambuf {
 public:
  explicit drop_by_drop(const std::string& text) : text_(text) {}

 private:
  std::streamsize xsgetn(char* to, std::streamsize size) override {
    if (at_ == text_.size() || size == 0) return 0;
    *to = text_[at_++];
    return 1;
  }
  const std::string& text_;
  std::size_t at_ = 0;
};
std::string unpacked(std::streambuf& from) {
  const std::unique_ptr<detail::gzip_buffer> buffer = detail::gzip()->make_buffer(from);
  std::ostringstream text;
  if (buffer->sgetc() != std::streambuf::traits_type::eof()) text << buffer.get();
  CHECK(buffer->fault() == "");
  return text.str();
}
// With every field that a header may have, as `gzip` writes the name: extra bytes, a name, a comment, a check sum.
std::string with_full_header(const std::string& member) {
  std::string header("\x1f\x8b\x08\x1e\0\0\0\0\0\x03", 10);
  header += std::string("\x03\0abc", 5) + std::string("trace.json\0", 11) + std::string("by hand\0", 8);
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(header.data()), static_cast<uInt>(header.size()));
  header += static_cast<char>(sum & 0xff);
  header += static_cast<char>(sum >> 8 & 0xff);
  return header + member.substr(10);
}

}  // namespace

// FC-51: sgl-project/sglang PR15326, pytorch/pytorch PR167601, PR56554
// Catches: several headers in one file, an archive that is empty or not what the plain export writes.
TEST_CASE("a compressed trace is one member with the bytes of the plain one", "[gzip]") {
  const test::temp_folder folder;
  const std::string path = folder / "t.json.gz";
  for (const trace& t : {trace(), some_trace()}) {
    const chrome_trace_result result = export_chrome_trace(t, path);
    const std::string file = test::contents_of(path);
    const std::string plain = json_of(t, path);
    CHECK(members_of(file) == names{plain});
    CHECK(result.bytes == plain.size());
    export_chrome_trace(t, path);
    CHECK(test::contents_of(path) == file);
    CHECK(folder.names() == names{"t.json.gz"});
  }
  CHECK(packed("").size() <= 24);
  CHECK(members_of(packed("")) == names{""});
}

// FC-51.
// Catches: bytes lost between the pieces in which they come, or in those in which they go.
TEST_CASE("a hundred megabytes are compressed as they come", "[gzip]") {
  const test::temp_folder folder;
  std::string piece;
  for (int i = 0; piece.size() < 1'000'000; ++i) piece += "{\"Ev Idx\":" + std::to_string(i * 7919 % 10007) + "},\n";
  std::string expected;
  output_file file(folder / "t.gz");
  for (int i = 0; i < 100; ++i) {
    const std::string part = std::to_string(i) + piece;
    file.write(part.data(), part.size());
    expected += part;
  }
  CHECK_FALSE(file.commit());
  CHECK(file.bytes() == expected.size());
  const std::vector<std::string> members = members_of(test::contents_of(folder / "t.gz"));
  REQUIRE(members.size() == 1);
  CHECK((members[0] == expected));
}

// FC-51.
// Catches: half an archive under the final name, or a temporary file left.
TEST_CASE("a compressed file that is not completed is none", "[gzip]") {
  const test::temp_folder folder;
  {
    output_file file(folder / "t.gz");
    const std::string text(1000000, 'x');
    file.write(text.data(), text.size());
  }
  CHECK(folder.names().empty());
  CHECK(in_child([&] {
          std::signal(SIGXFSZ, SIG_IGN);
          const rlimit limit = {1000, 1000};
          if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
          test::event_builder many("t1: a[0..1]");
          for (int i = 0; i < 2000; ++i) {
            trace_event e;
            e.begin_ns = e.end_ns = 10 + i * (i % 97);
            e.name = many.builder.intern(std::to_string(i * 7919 % 10007));
            e.begin_ns = e.end_ns = 10 + 3 * i;
            many.builder.add_event(e);
          }
          std::error_code ec;
          export_chrome_trace(many.builder.finish(), folder / "t.gz", ec);
          if (ec != std::errc::file_too_large) return 2;
          return folder.names().empty() ? 0 : 3;
        }) == 0);
  CHECK(folder.names().empty());
}

// FC-52. Small data reaches the device only when the file is completed.
// Catches: a failure of the last write, which the end of the compression makes, taken for success.
TEST_CASE("a full device is an error when a compressed file is completed", "[gzip]") {
  const test::temp_folder folder;
  std::filesystem::create_symlink("/dev/full", folder / "t.gz");
  output_file file(folder / "t.gz");
  file.write("abc", 3);
  CHECK_FALSE(file.error());
  CHECK(file.commit() == std::errc::no_space_on_device);
  CHECK(folder.names() == names{"t.gz"});
}

// Catches: a handler whose file is not compressed, or whose name does not say that it is.
TEST_CASE("the handler writes compressed files under torch's name", "[gzip]") {
  const test::temp_folder folder;
  trace_handler_options options;
  options.worker_name = "w";
  options.unix_time_ns = [] { return std::int64_t{5}; };
  options.use_gzip = true;
  const trace_handler handler(folder.path().string(), options);
  const std::string path = handler.write(some_trace());
  CHECK(path == folder / "w.5.pt.trace.json.gz");
  CHECK(members_of(test::contents_of(path)) == names{json_of(some_trace(), path)});
  CHECK(handler.write(some_trace()) == folder / "w.6.pt.trace.json.gz");
  CHECK(folder.names() == names{"w.5.pt.trace.json.gz", "w.6.pt.trace.json.gz"});
}

// Catches: a compressed trace that is refused, or of which only the first member is read.
TEST_CASE("compressed traces are read", "[gzip]") {
  const test::temp_folder folder;
  const std::string path = folder / "t.json.gz";
  export_chrome_trace(some_trace(), path);
  CHECK(json_of(read_trace_file(path), path) == json_of(some_trace(), path));
  const std::string text = json_of(some_trace(), "n");
  const std::string members = packed(text.substr(0, 100)) + packed("") + packed(text.substr(100));
  CHECK(json_of(parse_trace(members), "n") == text);
  std::ofstream(folder / "two.gz", std::ios::binary) << members;
  CHECK(read_trace_file(folder / "two.gz").events().size() == 4);
}

// Catches: bytes lost, or a good file refused, when a piece ends inside a header, a check sum or a long repetition, or
// the output is full before the input is used up.
TEST_CASE("members are read in whatever pieces they come", "[gzip]") {
  const std::string json = json_of(some_trace(), "n");
  const std::string flat(3'000'000, 'x');
  const std::string file = with_full_header(packed(json)) + packed(flat) + packed("") + packed(std::string(65536, 'y'));
  const std::string expected = json + flat + std::string(65536, 'y');
  std::stringbuf at_once(file);
  CHECK((unpacked(at_once) == expected));
  drop_by_drop slowly(file);
  CHECK((unpacked(slowly) == expected));
}

// Catches: a file cut short that is read as far as it goes, or called bad JSON.
TEST_CASE("a compressed file that is cut or damaged says so", "[gzip]") {
  const std::string file = packed(json_of(some_trace(), "n"));
  for (std::size_t size = 2; size < file.size(); size += size + 20 < file.size() ? 37u : 1u)
    CHECK(fault_of(file.substr(0, size)) ==
          "trace file: it is compressed (gzip) and ends in the middle: it is not complete");
  std::string wrong = file;
  wrong[file.size() - 6] ^= 1;  // of the check sum
  CHECK(fault_of(wrong) == "trace file: it is compressed (gzip) and damaged: incorrect data check");
  wrong = file;
  wrong[file.size() - 2] ^= 1;  // of the size
  CHECK(fault_of(wrong).find("trace file: it is compressed (gzip) and damaged: incorrect ") == 0);
  wrong = file;
  wrong[2] = 7;  // the method
  CHECK(fault_of(wrong) == "trace file: it is compressed (gzip) and damaged: unknown compression method");
  wrong = file;
  wrong[10] = static_cast<char>(wrong[10] | 6);  // the kind of the block: there is none of that number
  CHECK(fault_of(wrong) == "trace file: it is compressed (gzip) and damaged: invalid block type");
  CHECK(fault_of(file + "tail") == "trace file: it is compressed (gzip) and damaged: incorrect header check");
  CHECK(fault_of(packed("")).find("unexpected end of input") != std::string::npos);
  CHECK(fault_of(packed("[1,")).find("gzip") == std::string::npos);
}

}  // namespace STEPPROF_TESTED_GZIP
