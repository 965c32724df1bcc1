#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stepprof/output/output_file.hpp>

#include <support/catch.hpp>
#include <support/temp_folder.hpp>

namespace output_file_test {

using namespace stepprof;
using names = std::vector<std::string>;

namespace {

using portable_output_file = basic_output_file<detail::portable_file>;

template <class File = output_file>
std::error_code write_file(const std::string& path, const std::string& text = "text") {
  File file(path);
  file.write(text.data(), text.size());
  return file.commit();
}
// Runs in a process of its own, whose exit code is returned.
int in_child(const std::function<int()>& body) {
  std::cout.flush();  // else the child may write it again, to wherever its standard output leads
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace

// Catches: a file that can be seen under its name before it is complete, or a temporary one that stays.
TEMPLATE_TEST_CASE("a file appears when it is committed", "[output_file]", output_file, portable_output_file) {
  const test::temp_folder folder;
  const std::string path = folder / "t.json";
  {
    TestType file(path);
    file.write("abc", 3);
    CHECK(names{"t.json"} != folder.names());
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK_FALSE(file.commit());
    CHECK(file.bytes() == 3);
  }
  CHECK(folder.names() == names{"t.json"});
  CHECK(test::contents_of(path) == "abc");
  CHECK_FALSE(write_file<TestType>(path, "new"));
  CHECK(test::contents_of(path) == "new");
  CHECK(folder.names() == names{"t.json"});
}

// Catches: a file given up that replaces the old one or leaves its temporary.
TEMPLATE_TEST_CASE("a file that is not committed leaves the old one", "[output_file]", output_file,
                   portable_output_file) {
  const test::temp_folder folder;
  CHECK_FALSE(write_file<TestType>(folder / "t", "old"));
  {
    TestType file(folder / "t");
    file.write("half", 4);
  }
  CHECK(test::contents_of(folder / "t") == "old");
  CHECK(folder.names() == names{"t"});
}

// FC-51: sgl-project/sglang PR15326, pytorch/pytorch PR167601, PR56554. With zlib: tests/adapters/zlib_test.cpp.
// Catches: a file whose name says gzip and whose bytes do not.
TEMPLATE_TEST_CASE("without zlib a name that asks for gzip is refused", "[output_file]", output_file,
                   portable_output_file) {
  const test::temp_folder folder;
  const std::error_code ec = write_file<TestType>(folder / "t.json.gz");
  CHECK(ec == errc::unsupported);
  CHECK(ec.message() == "cannot write '" + (folder / "t.json.gz") +
                            "': its name asks for gzip, which takes zlib; include <stepprof/adapters/zlib.hpp> in one "
                            "source file of the program and link stepprof::zlib, or leave out \".gz\"");
  CHECK(write_file<TestType>(folder / "T.GZ") == errc::unsupported);
  CHECK(folder.names().empty());
  CHECK_FALSE(write_file<TestType>(folder / "gz"));
}

// FC-52: aras-p/ClangBuildAnalyzer#2, soctrace-inria/framesoc#139, torognes/vsearch#243
// Catches: a bad path reported as success, or without its reason.
TEMPLATE_TEST_CASE("a bad path is an error with its reason", "[output_file]", output_file, portable_output_file) {
  const test::temp_folder folder;
  CHECK_FALSE(write_file<TestType>(folder / "file"));
  CHECK(write_file<TestType>(folder / "missing/t") == std::errc::no_such_file_or_directory);
  CHECK(write_file<TestType>(folder.path().string()) == std::errc::is_a_directory);
  CHECK(write_file<TestType>(folder.path().string() + "/") == std::errc::is_a_directory);
  CHECK(write_file<TestType>(folder / "new/") != std::error_code());
  CHECK(write_file<TestType>(folder / "file/t") == std::errc::not_a_directory);
  CHECK(write_file<TestType>(folder / std::string(5000, 'x')) == std::errc::filename_too_long);
  CHECK(write_file<TestType>("") != std::error_code());
  CHECK(folder.names() == names{"file"});
  CHECK(test::contents_of(folder / "file") == "text");
  CHECK(output_file(folder / "missing/t").doing() == "cannot write '" + (folder / "missing/t") + "'");
  CHECK(output_file(std::string(5000, 'x')).doing().size() < 500);
}

// Catches: a name that just fits refused because the temporary one is longer.
TEST_CASE("a name of the greatest length works, with any byte", "[output_file]") {
  const test::temp_folder folder;
  CHECK_FALSE(write_file(folder / std::string(255, 'n')));
  std::string all;
  for (int c = 1; c < 256; ++c)
    if (c != '/') all += static_cast<char>(c);
  CHECK_FALSE(write_file(folder / all.substr(0, 200)));
  CHECK_FALSE(write_file(folder / all.substr(200)));
  CHECK(test::contents_of(folder / all.substr(200)) == "text");
  CHECK(folder.names().size() == 3);
  CHECK(write_file((folder / "a") + std::string("\0b", 2)) == std::errc::invalid_argument);
}

// FC-52. A device node of the test's own, so that nothing can happen to the machine's.
// Catches: a file created under another name than the one asked for, and told as a success. On a system whose names are
// bytes this stands in for those where they are not. FC-56: https://github.com/unum-cloud/USearch/issues/745
TEMPLATE_TEST_CASE("a file has exactly the name that was asked for", "[output_file]", output_file,
                   portable_output_file) {
  const test::temp_folder folder;
  const std::string name = "\xed\x95\x9c\xea\xb8\x80 \xf0\x9f\x93\x88.json";  // Hangul and an emoji
  const std::filesystem::path names_of_it[] = {std::filesystem::path(name),
                                               std::filesystem::path(u"\ud55c\uae00 \U0001f4c8.json")};
  std::string deep = folder.path().string();
  while (deep.size() < 300) deep += "/" + std::string(40, 'd') + "\xed\x95\x9c";
  std::filesystem::create_directories(deep);
  for (const std::filesystem::path& where : {folder.path(), std::filesystem::path(deep)})
    for (const std::filesystem::path& as : names_of_it) {
      TestType file(where / as);
      file.write("text", 4);
      CHECK_FALSE(file.commit());
      CHECK(test::contents_of(where.string() + "/" + name) == "text");
      CHECK(std::filesystem::remove(where.string() + "/" + name));
    }
  CHECK(std::filesystem::is_empty(deep));
  CHECK(folder.names().size() == 1);
}

// Catches: a full device reported as success, or a device renamed over.
TEST_CASE("a device is written straight into and survives", "[output_file]") {
  const test::temp_folder folder;
  const auto device = [&](const char* name, unsigned minor) {
    const std::string path = folder / name;
    return ::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(1, minor)) == 0 &&
                   ::close(::open(path.c_str(), O_WRONLY)) == 0
               ? path
               : std::string("/dev/") + name;  // without the right to make nodes
  };
  const std::string full = device("full", 7), null = device("null", 3);
  const auto before = folder.names();
  CHECK(write_file(full) == std::errc::no_space_on_device);
  CHECK_FALSE(write_file(null));
  for (const std::string& path : {full, null}) {
    struct stat facts {};
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    CHECK(S_ISCHR(facts.st_mode));
  }
  CHECK(folder.names() == before);
}

// Catches: a FIFO replaced by a file, or written in pieces that get lost.
TEST_CASE("a FIFO is written straight into and survives", "[output_file]") {
  const test::temp_folder folder;
  const std::string path = folder / "fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::string received;
  std::thread reader([&] { received = test::contents_of(path); });
  const std::string text(300000, 'x');
  CHECK_FALSE(write_file(path, text));
  reader.join();
  CHECK(received == text);
  CHECK(folder.names() == names{"fifo"});
  CHECK(std::filesystem::is_fifo(path));
}

// Catches: /dev/stdout, redirected to a file, replaced by another file or written from its beginning.
TEST_CASE("an open descriptor is written at its place", "[output_file]") {
  const test::temp_folder folder;
  for (const std::string target : {"/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "link"}) {
    const std::string path = folder / "log";
    if (target == "link") std::filesystem::create_symlink("/dev/stdout", folder / "link");
    CHECK(in_child([&] {
            const int log = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
            ::dup2(log, STDOUT_FILENO);
            bool good = ::write(STDOUT_FILENO, "before ", 7) == 7;
            good = !write_file(target == "link" ? folder / "link" : target, "trace") && good;
            return good && ::write(STDOUT_FILENO, " after", 6) == 6 ? 0 : 1;
          }) == 0);
    CHECK(test::contents_of(path) == "before trace after");
  }
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(write_file("/dev/fd/987654") == std::errc::bad_file_descriptor);
}

// Catches: a link replaced by a file, or a loop of links followed for ever.
TEST_CASE("symbolic links are followed and stay", "[output_file]") {
  const test::temp_folder folder;
  std::filesystem::create_directory(folder / "data");
  std::filesystem::create_symlink("data/t", folder / "latest");  // leads nowhere yet
  CHECK_FALSE(write_file(folder / "latest", "1"));
  CHECK(test::contents_of(folder / "data/t") == "1");
  std::filesystem::create_symlink("latest", folder / "again");
  CHECK_FALSE(write_file(folder / "again", "2"));
  CHECK(test::contents_of(folder / "data/t") == "2");
  CHECK(std::filesystem::is_symlink(folder / "latest"));
  CHECK(folder.names() == names{"again", "data", "latest"});
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(write_file(folder / "loop") == std::errc::too_many_symbolic_link_levels);
}

// Catches: permissions lost when a file is replaced, or a read-only file replaced at all.
TEST_CASE("permissions are kept and respected", "[output_file]") {
  const test::temp_folder folder;
  CHECK_FALSE(write_file(folder / "t"));
  ::chmod((folder / "t").c_str(), 0640);
  CHECK_FALSE(write_file(folder / "t", "new"));
  CHECK(std::filesystem::status(folder / "t").permissions() == static_cast<std::filesystem::perms>(0640));

  // As an unprivileged user, since permission bits do not stop root.
  ::chmod(folder.path().c_str(), 0755);
  ::chmod((folder / "t").c_str(), 0444);
  const auto unprivileged = [&](const std::string& path) {
    return in_child([&] {
      if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;
      if (::geteuid() != 65534) ::chmod(folder.path().c_str(), 0555);
      const std::error_code ec = write_file(path, "bad");
      return ec == std::errc::permission_denied ? 0 : 2;
    });
  };
  CHECK(unprivileged(folder / "new") == 0);
  CHECK(unprivileged(folder / "t") == 0);
  ::chmod(folder.path().c_str(), 0700);
  CHECK(test::contents_of(folder / "t") == "new");
  CHECK(folder.names() == names{"t"});
}

// FC-52.
// Catches: a write cut short by a limit taken for success; half a file left.
TEMPLATE_TEST_CASE("a size limit is an error and leaves nothing", "[output_file]", output_file, portable_output_file) {
  const test::temp_folder folder;
  CHECK(in_child([&] {
          std::signal(SIGXFSZ, SIG_IGN);
          const rlimit limit = {1000, 1000};
          if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
          if (write_file<TestType>(folder / "t", std::string(100000, 'x')) != std::errc::file_too_large) return 2;
          if (!folder.names().empty()) return 3;
          return write_file<TestType>(folder / "t", std::string(1000, 'x')) ? 4 : 0;
        }) == 0);
  CHECK(folder.names() == names{"t"});
}

// Catches: two exports to one path that mix, or trip over each other's temporary file.
TEST_CASE("several writers to one path do not mix", "[output_file]") {
  const test::temp_folder folder;
  std::vector<std::thread> writers;
  std::atomic<int> failures{0};
  for (char c = 'a'; c < 'e'; ++c)
    writers.emplace_back([&, c] {
      for (int i = 0; i < 50; ++i)
        if (write_file(folder / "t", std::string(20000, c))) ++failures;
    });
  for (std::thread& writer : writers) writer.join();
  CHECK(failures == 0);
  const std::string text = test::contents_of(folder / "t");
  CHECK(text == std::string(20000, text.at(0)));
  CHECK(folder.names() == names{"t"});
}

// Catches: room that was asked for ahead of the writes and is kept, or that shows in the size.
TEST_CASE("a large file takes no more room than its bytes", "[output_file]") {
  const test::temp_folder folder;
  const std::string piece(300000, 'x');
  output_file file(folder / "t");
  for (int i = 0; i < 30; ++i) file.write(piece.data(), piece.size());
  CHECK_FALSE(file.commit());
  struct stat facts {};
  REQUIRE(::stat((folder / "t").c_str(), &facts) == 0);
  CHECK(facts.st_size == 9000000);
  CHECK(facts.st_blocks * 512 < 9000000 + (1 << 20));
}

namespace {

// On both handles.
template <class File>
void check_options() {
  const auto write = [](const std::string& path, const output_file_options& options, const char* text) {
    File file(path, options);
    file.write(text, std::strlen(text));
    return file.commit();
  };
  const test::temp_folder folder;
  output_file_options exclusive;
  exclusive.replace = false;
  CHECK_FALSE(write(folder / "new", exclusive, "first"));
  CHECK(write(folder / "new", exclusive, "second") == std::errc::file_exists);
  std::filesystem::create_symlink("nowhere", folder / "link");
  CHECK(write(folder / "link", exclusive, "x") == std::errc::file_exists);
  {
    File file(folder / "late", exclusive);
    file.write("mine", 4);
    std::ofstream(folder / "late") << "theirs";
    CHECK(file.commit() == std::errc::file_exists);
  }
  CHECK(test::contents_of(folder / "late") == "theirs");
  CHECK(test::contents_of(folder / "new") == "first");

  output_file_options no_links;
  no_links.follow_links = false;
  CHECK(write(folder / "link", no_links, "x") == std::errc::too_many_symbolic_link_levels);
  CHECK_FALSE(write(folder / "new", no_links, "replaced"));
  CHECK(test::contents_of(folder / "new") == "replaced");

  using std::filesystem::perms;
  output_file_options owner_only;
  owner_only.owner_only = true;
  CHECK_FALSE(write(folder / "secret", owner_only, "x"));
  CHECK_FALSE(write(folder / "new", owner_only, "x"));  // also where the old one was open to all
  for (const char* name : {"secret", "new"})
    CHECK(std::filesystem::status(folder / name).permissions() == (perms::owner_read | perms::owner_write));
  CHECK(folder.names() == std::vector<std::string>{"late", "link", "new", "secret"});
}

}  // namespace

// Catches: a file of others that is replaced although that was forbidden, a link that leads out of a folder anybody may
// write into, a trace that everybody can read.
TEST_CASE("files are made as the options say", "[output_file]") {
  check_options<output_file>();
  check_options<basic_output_file<detail::portable_file>>();
}

// Catches: a pipe that is not read fast enough taken for a failure when the descriptor does not block.
TEST_CASE("a descriptor that does not block is waited for", "[output_file]") {
  int ends[2] = {-1, -1};
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
  const std::string text(std::size_t{1} << 22, 'x');  // a pipe holds 64 KiB
  std::string read;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
      read.append(buffer, static_cast<std::size_t>(n));
  });
  const std::error_code ec = write_file("/dev/fd/" + std::to_string(ends[1]), text);
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  CHECK_FALSE(ec);
  CHECK(read.size() == text.size());
  CHECK((read == text));  // not shown: it is long
}

// Catches: a name that only begins like a descriptor written into one.
TEST_CASE("only a number names a descriptor", "[output_file]") {
  CHECK(write_file("/dev/fd/1x") == std::errc::no_such_file_or_directory);
  CHECK(write_file("/dev/fd/x") == std::errc::no_such_file_or_directory);
  CHECK(write_file("/dev/fd/-1") == std::errc::no_such_file_or_directory);
  CHECK(write_file("/dev/fd/4294967297") == std::errc::no_such_file_or_directory);
  CHECK(write_file("/dev/fd/") == std::errc::is_a_directory);
}

}  // namespace output_file_test
