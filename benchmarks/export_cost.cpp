// What it costs to write a recording as a Chrome trace, plain and compressed, and to read it back: per event, beside
// the raw write of the same bytes, beside zlib alone, beside what other writers take for the same document, in one run.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <stepprof/stepprof.hpp>

#if WITH_tools
#include <nlohmann/json.hpp>

#include <stepprof/tools/trace_reader.hpp>
#endif
#if WITH_zlib
#include <stepprof/adapters/zlib.hpp>
#endif
#if WITH_isal
#include <stepprof/adapters/isal.hpp>
#endif

#include "support/report.hpp"
#include "support/temp_folder.hpp"

namespace {

using stepprof::arg;
using stepprof::scope_kind;

constexpr std::size_t piece = std::size_t{1} << 18;  // of a raw write

void check(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

// --- what is exported ----------------------------------------------------------------------------------------------

// One step of a training loop: eight scopes, three arguments each, a number, a measured value and a text.
void step_with_arguments(std::int64_t i) {
  static const std::string phases[] = {"warm up", "train", "validate", "train, mixed precision"};
  const std::string& phase = phases[i / 64 % 4];
  const double loss = 2.5 / (1.0 + 0.001 * static_cast<double>(i));
  const double rate = 0.001 * static_cast<double>(1 + i % 500);
  STEPPROF_SCOPE("train_step", arg("step", i), arg("loss", loss), arg("phase", phase));
  {
    STEPPROF_SCOPE("load_batch", arg("rows", i % 1024), arg("seconds", 0.25), arg("file", "part-0001.bin"));
    STEPPROF_SCOPE("decode_images", arg("bytes", i * 4096), arg("scale", 0.5), arg("format", "jpeg"));
  }
  {
    STEPPROF_SCOPE("forward", scope_kind::op, arg("layer", i % 12), arg("norm", loss * 0.7), arg("phase", phase));
    STEPPROF_SCOPE("matmul", scope_kind::op, arg("rows", 64 + i % 64), arg("alpha", 1.0), arg("dtype", "float32"));
  }
  {
    STEPPROF_SCOPE("backward", scope_kind::op, arg("layer", i % 12), arg("norm", loss * 1.3), arg("phase", phase));
    STEPPROF_SCOPE("matmul_backward", scope_kind::op, arg("rows", 512), arg("beta", 0.0), arg("dtype", "float32"));
  }
  STEPPROF_SCOPE("optimizer.step", arg("step", i), arg("rate", rate), arg("optimizer", "SGD with momentum"));
}
void step_without_arguments(std::int64_t) {
  STEPPROF_SCOPE("train_step");
  {
    STEPPROF_SCOPE("load_batch");
    STEPPROF_SCOPE("decode_images");
  }
  {
    STEPPROF_SCOPE("forward", scope_kind::op);
    STEPPROF_SCOPE("matmul", scope_kind::op);
  }
  {
    STEPPROF_SCOPE("backward", scope_kind::op);
    STEPPROF_SCOPE("matmul_backward", scope_kind::op);
  }
  STEPPROF_SCOPE("optimizer.step");
}

stepprof::trace record(int events, void (*step)(std::int64_t)) {
  stepprof::profile prof(stepprof::profile_options{});
  for (std::int64_t i = 0; i < events / 8; ++i) step(i);
  prof.stop();
  const stepprof::trace result = prof.result();
  if (result.events().size() != static_cast<std::size_t>(events)) throw std::runtime_error("events were dropped");
  return result;
}

std::string json_of(const stepprof::trace& recording, const std::string& path) {
  std::string text;
  stepprof::chrome_trace_options options;
  options.trace_name = path;
  stepprof::write_chrome_trace(recording, text, options);
  return text;
}

// --- where it goes -------------------------------------------------------------------------------------------------

class no_sink final : public stepprof::byte_sink {
  std::error_code take(const char*, std::size_t) override { return {}; }
};

void raw_write(const std::string& path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  check(file >= 0, "open");
  for (; !bytes.empty(); bytes.remove_prefix((std::min)(piece, bytes.size()))) {
    const std::size_t size = (std::min)(piece, bytes.size());
    check(::write(file, bytes.data(), size) == static_cast<ssize_t>(size), "write");
  }
  check(::close(file) == 0, "close");
}

// A file that is there before makes a file system free its pages while the new one is written.
std::function<void()> removing(const std::string& path) {
  return [path] { std::filesystem::remove(path); };
}

// The fastest of each of two, run in turn; what makes the place fresh again is run between them and not counted.
struct pair {
  double value;
  double baseline;
};
pair compare(
    int rounds, const std::function<void()>& value, const std::function<void()>& baseline,
    const std::function<void()>& between = [] {}) {
  const std::vector<double> least = benchmark::interleaved_minima(rounds, {value, between, baseline, between});
  return {least[0], least[2]};
}

#if WITH_zlib
// zlib at its fastest level, as it comes, over bytes in memory. Returns the number of bytes that it makes.
std::size_t compress(std::string& text) {
  std::vector<unsigned char> out(piece);
  z_stream stream = {};
  check(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflateInit2");
  for (std::size_t at = 0; at <= text.size(); at += piece) {
    stream.next_in = reinterpret_cast<Bytef*>(&text[at]);
    stream.avail_in = static_cast<uInt>((std::min)(piece, text.size() - at));
    do {
      stream.next_out = out.data();
      stream.avail_out = static_cast<uInt>(out.size());
      deflate(&stream, at + piece > text.size() ? Z_FINISH : Z_NO_FLUSH);
    } while (stream.avail_out == 0);
  }
  const std::size_t size = stream.total_out;
  deflateEnd(&stream);
  return size;
}
#endif

// --- the same document by other means -------------------------------------------------------------------------------

// The events alone, as a program without a library might write them.
template <class Print>
void for_each_number(const stepprof::trace& t, Print&& print) {
  std::uint64_t index = 0;
  for (const stepprof::trace_event& e : t.events()) {
    const stepprof::trace_argument* args = t.arguments().data() + t.detail(e).first_arg;
    print(e, index++, args, std::string(t.name(e)).c_str());
  }
}

void write_by_printf(const stepprof::trace& t, const std::string& path) {
  std::FILE* out = std::fopen(path.c_str(), "wbx");
  check(out != nullptr, "fopen");
  std::setvbuf(out, nullptr, _IOFBF, piece);
  std::fputs("{\"traceEvents\":[\n", out);
  for_each_number(t, [&](const stepprof::trace_event& e, std::uint64_t i, const stepprof::trace_argument* args,
                         const char* name) {
    const auto us = [](std::int64_t ns) { return static_cast<double>(ns) / 1000; };
    std::fprintf(out,
                 "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
                 "\"args\":{\"External id\":%llu,\"Record function id\":0,\"Ev Idx\":%llu,\"%s\":%lld,\"%s\":%.17g,"
                 "\"%s\":\"%s\"}}",
                 i != 0 ? ",\n" : "", name, 1, 1, us(e.begin_ns), us(e.duration_ns()),
                 static_cast<unsigned long long>(i + 1), static_cast<unsigned long long>(i),
                 std::string(t.text(args[0].key)).c_str(), static_cast<long long>(args[0].int64),
                 std::string(t.text(args[1].key)).c_str(), args[1].real, std::string(t.text(args[2].key)).c_str(),
                 std::string(t.text(args[2].text)).c_str());
  });
  std::fputs("\n]}", out);
  check(std::fclose(out) == 0, "fclose");
}

#if WITH_tools
void write_by_nlohmann(const stepprof::trace& t, const std::string& path) {
  nlohmann::json events = nlohmann::json::array();
  for_each_number(
      t, [&](const stepprof::trace_event& e, std::uint64_t i, const stepprof::trace_argument* args, const char* name) {
        events.push_back({{"ph", "X"},
                          {"cat", "cpu_op"},
                          {"name", name},
                          {"pid", 1},
                          {"tid", 1},
                          {"ts", static_cast<double>(e.begin_ns) / 1000},
                          {"dur", static_cast<double>(e.duration_ns()) / 1000},
                          {"args",
                           {{"External id", i + 1},
                            {"Record function id", 0},
                            {"Ev Idx", i},
                            {t.text(args[0].key), args[0].int64},
                            {t.text(args[1].key), args[1].real},
                            {t.text(args[2].key), t.text(args[2].text)}}}});
      });
  raw_write(path, nlohmann::json{{"traceEvents", std::move(events)}}.dump());
}
#endif

// --- the lines -----------------------------------------------------------------------------------------------------

class program {
 public:
  program(int argc, char** argv)
      : report_(argc, argv), events_(report_.quick() ? 16'000 : 240'000), rounds_(report_.quick() ? 2 : 15) {}

  void run() {
    const stepprof::trace full = record(events_, step_with_arguments);
    const stepprof::trace plain = record(events_, step_without_arguments);
    to_file("export_json", "three arguments -> fresh file", full, "ratio <= 2.5; value <= 80");
    to_file("export_json_plain", "no arguments -> fresh file", plain, "");
    to_nowhere(full);
    to_memory(full);
    compressed(full);
    peers(full);
    read_back(full);
  }

 private:
  // In ns per event.
  void add(const char* name, const std::string& what, pair ns, const char* baseline, const char* target) {
    const auto each = static_cast<double>(events_);
    report_.add({name, what, ns.value / each, "ns/event", baseline, ns.baseline / each, target});
  }

  void to_file(const char* name, const char* what, const stepprof::trace& t, const char* target) {
    const std::string text = json_of(t, path_);
    const pair ns = compare(
        rounds_, [&] { stepprof::export_chrome_trace(t, path_); }, [&] { raw_write(path_, text); }, removing(path_));
    const std::string size = std::to_string(text.size() / static_cast<std::size_t>(events_));
    add(name, std::string(what) + ", " + size + " bytes", ns, "raw write, 256 KiB pieces, fresh file", target);
  }

  // What formatting alone takes.
  void to_nowhere(const stepprof::trace& t) {
    const std::string text = json_of(t, path_);
    std::vector<char> buffer(piece);
    const pair ns = compare(
        rounds_,
        [&] {
          no_sink sink;
          stepprof::write_chrome_trace(t, sink);
        },
        [&] {
          for (std::size_t at = 0; at < text.size(); at += piece) {
            text.copy(buffer.data(), piece, at);
            asm volatile("" ::"r"(buffer.data()) : "memory");
          }
        });
    add("format_json", "three arguments, formatted only", ns, "memcpy of the bytes, 256 KiB pieces", "");
  }

  // Both into pages that the program has not had yet: they cost more than what is written to them.
  void to_memory(const stepprof::trace& t) {
    const std::string text = json_of(t, path_);
    std::string out;
    const pair ns = compare(
        rounds_,
        [&] {
          out.reserve(text.size());
          stepprof::write_chrome_trace(t, out);
        },
        [&] {
          out.reserve(text.size());
          for (std::size_t at = 0; at < text.size(); at += piece) out.append(text, at, piece);
        },
        [&] { std::string().swap(out); });
    add("export_json_string", "three arguments -> fresh string", ns, "append of the bytes, 256 KiB pieces", "");
  }

  // By the fastest provider that the program has, and by zlib: one line where that is the fastest.
  void compressed(const stepprof::trace& t) {
#if WITH_zlib
    const stepprof::detail::gzip_functions* const fastest = stepprof::detail::gzip();
    compressed_by(fastest, "export_gzip", t);
    if (fastest != &stepprof::detail::zlib_functions)
      compressed_by(&stepprof::detail::zlib_functions, "export_gzip_zlib", t);
    stepprof::detail::the_gzip.store(fastest);
#else
    (void)t;
#endif
  }

#if WITH_zlib
  void compressed_by(const stepprof::detail::gzip_functions* provider, const std::string& name,
                     const stepprof::trace& t) {
    const std::string what = provider == &stepprof::detail::zlib_functions ? "by zlib" : "by ISA-L";
    stepprof::detail::the_gzip.store(provider);
    const std::string path = path_ + ".gz";
    std::string text = json_of(t, path);
    stepprof::export_chrome_trace(t, path);
    const auto size = static_cast<double>(std::filesystem::file_size(path));
    std::filesystem::remove(path);
    std::size_t zlib_size = 0;
    const pair ns = compare(
        report_.quick() ? 1 : 7, [&] { stepprof::export_chrome_trace(t, path); }, [&] { zlib_size = compress(text); },
        removing(path));
    add(name.c_str(), "three arguments -> fresh .json.gz, " + what, ns, "zlib level 1 of the same bytes",
        name == "export_gzip" ? "ratio <= 1" : "");
    const auto each = static_cast<double>(events_);
    report_.add({name + "_bytes", "three arguments, .json.gz, " + what, size / each, "bytes/event",
                 "zlib level 1 of the same bytes", static_cast<double>(zlib_size) / each, ""});
  }
#endif

  void peers(const stepprof::trace& t) {
    const int rounds = report_.quick() ? 1 : 3;
    const auto ours = [&] { stepprof::export_chrome_trace(t, path_); };
    const pair printf_ns = compare(
        rounds, [&] { write_by_printf(t, path_); }, ours, removing(path_));
    add("json_fprintf", "peer: fprintf -> fresh file", printf_ns, "ours", "");
#if WITH_tools
    const pair nlohmann_ns = compare(
        rounds, [&] { write_by_nlohmann(t, path_); }, ours, removing(path_));
    add("json_nlohmann", "peer: nlohmann build, dump -> fresh file", nlohmann_ns, "ours", "");
#endif
  }

  void read_back(const stepprof::trace& t) {
#if WITH_tools
    const std::string text = json_of(t, path_);
    const pair ns = compare(
        report_.quick() ? 1 : 5, [&] { check(!stepprof::parse_trace(text).events().empty(), "parse_trace"); },
        [&] { check(nlohmann::json::parse(text).is_object(), "parse"); });
    add("read_json", "read back from memory", ns, "nlohmann::json::parse of the text", "");
#else
    (void)t;
#endif
  }

  benchmark::report report_;
  int events_;
  int rounds_;
  test::temp_folder folder_;
  std::string path_ = folder_ / "trace.json";
};

}  // namespace

int main(int argc, char** argv) {
  try {
    program(argc, argv).run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "export_cost: %s\n", e.what());
    return 1;
  }
}
