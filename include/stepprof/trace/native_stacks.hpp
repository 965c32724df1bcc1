// Native stacks in a trace: addresses as they were captured, the modules that they are in, and the texts that they have
// once somebody wants to see them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <stepprof/config.hpp>
#include <stepprof/trace/npos.hpp>
#include <stepprof/trace/wide_key.hpp>

STEPPROF_BEGIN_NAMESPACE

/// The program or a library, as it was loaded when a stack was captured.
struct native_module {
  std::string path;         ///< Empty: the program itself.
  std::string build_id;     ///< Bytes; empty: it has none.
  std::uint64_t begin = 0;  ///< Its addresses in the process.
  std::uint64_t end = 0;
  std::uint64_t bias = 0;  ///< An address in the process minus this is the address in the file.
};

/// One frame of a captured stack.
struct native_frame {
  std::uint64_t address = 0;    ///< In the process, inside the instruction that calls.
  std::uint32_t module = npos;  ///< Index into `trace::native_modules()`; npos: in none.
};

/// One captured stack.
struct native_stack {
  std::uint32_t first_frame = 0;
  std::uint32_t frame_count = 0;
  bool cut = false;  ///< There were more frames outside of these than profile_options::stack_depth.
};

namespace detail {

// A function that an address is in, as the debug information tells it.
struct source_frame {
  std::string function;  // for people
  std::string file;      // empty: not known
  int line = 0;
  bool is_own = false;  // of the profiler itself
};

// Finds functions in the file of one module.
class symboliser {
 public:
  symboliser() = default;
  virtual ~symboliser() = default;
  symboliser(const symboliser&) = delete;
  symboliser& operator=(const symboliser&) = delete;
  // The functions at an address of the file, the innermost inlined one first. Nothing when it is not known.
  virtual std::vector<source_frame> at(std::uint64_t address) = 0;
};

// How names are found: null where no adapter has brought it. Opening may return null.
struct symboliser_functions {
  std::unique_ptr<symboliser> (*open)(const native_module& module, const std::string& path);
};
inline STEPPROF_CONSTINIT std::atomic<const symboliser_functions*> the_symboliser{nullptr};

// Text of stacks is made at once for a whole trace, when it is first asked for, by whoever asks.
class native_stack_table {
 public:
  std::vector<native_module> modules;
  std::vector<native_frame> frames;
  std::vector<native_stack> stacks;

  native_stack_table() = default;
  native_stack_table(native_stack_table&& other) noexcept { *this = std::move(other); }
  native_stack_table& operator=(native_stack_table&& other) noexcept {
    modules = std::move(other.modules);
    frames = std::move(other.frames);
    stacks = std::move(other.stacks);
    delete texts_.exchange(other.texts_.exchange(nullptr, std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }
  ~native_stack_table() { delete texts_.load(std::memory_order_relaxed); }

  // One for each stack. Without a lock, as a fork may come in between: of two threads that ask at once both do the
  // work, and one result stays.
  [[nodiscard]] const std::vector<std::string>& texts() const;

 private:
  mutable std::atomic<const std::vector<std::string>*> texts_{nullptr};
};

// --- from addresses to texts ----------------------------------------------------------------------------------------

inline std::string hex_text(std::uint64_t value) {
  std::string digits;
  do {
    digits.insert(digits.begin(), "0123456789abcdef"[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + digits;
}

// What a frame is called. A ';' would end it.
inline std::string frame_text(const source_frame& frame, const std::string& place) {
  std::string text = frame.file.empty() ? frame.function + " " + place
                                        : frame.file + '(' + std::to_string(frame.line) + "): " + frame.function;
  std::replace(text.begin(), text.end(), ';', ':');
  return text;
}

class frame_texts {
 public:
  explicit frame_texts(const native_stack_table& table) : table_(table), modules_(table.modules.size()) {}

  // Calls that led from the scope's function into the recorder are left out, unless there is nothing else.
  std::string of(const native_stack& stack) {
    std::string own, text;
    bool is_inside = true;
    for (std::uint32_t i = stack.first_frame; i < stack.first_frame + stack.frame_count; ++i)
      for (const named& frame : at(table_.frames[i])) {
        is_inside = is_inside && frame.is_own;
        append(is_inside ? own : text, frame.text);
      }
    return text.empty() ? own : text;
  }

 private:
  struct named {
    std::string text;
    bool is_own;
  };
  struct open_module {
    std::string name;
    std::unique_ptr<symboliser> symbols;
    bool is_open = false;
    wide_key_map<std::vector<named>> known;  // by address
  };

  static void append(std::string& text, const std::string& frame) {
    if (!text.empty()) text += ';';
    text += frame;
  }
  const std::vector<named>& at(const native_frame& frame) {
    if (frame.module >= modules_.size()) {
      nowhere_ = {{'[' + hex_text(frame.address) + ']', false}};
      return nowhere_;
    }
    open_module& module = opened(frame.module);
    const auto [found, is_new] = module.known.try_emplace(frame.address);
    if (is_new) found->second = find(module, frame.address - table_.modules[frame.module].bias);
    return found->second;
  }
  static std::vector<named> find(open_module& module, std::uint64_t address) {
    std::string place = '[' + module.name + '+' + hex_text(address) + ']';
    std::vector<named> result;
    if (module.symbols != nullptr)
      for (const source_frame& frame : module.symbols->at(address))
        result.push_back({frame_text(frame, place), frame.is_own});
    std::replace(place.begin(), place.end(), ';', ':');
    if (result.empty()) result.push_back({place, false});
    return result;
  }
  open_module& opened(std::uint32_t index) {
    open_module& module = modules_[index];
    if (module.is_open) return module;
    module.is_open = true;
    const native_module& from = table_.modules[index];
    const std::string path = from.path.empty() ? "/proc/self/exe" : from.path;
    const std::string shown = from.path.empty() ? program_path() : from.path;
    module.name = shown.substr(shown.rfind('/') + 1);
    // Acquire: the functions were put there by whoever stored the pointer.
    const symboliser_functions* const functions = the_symboliser.load(std::memory_order_acquire);
    if (functions != nullptr) module.symbols = functions->open(from, path);
    return module;
  }
  static std::string program_path() {
    std::error_code ec;
    const std::string path = std::filesystem::read_symlink("/proc/self/exe", ec).string();
    return ec ? "program" : path;
  }

  const native_stack_table& table_;
  std::vector<open_module> modules_;
  std::vector<named> nowhere_;
};

inline const std::vector<std::string>& native_stack_table::texts() const {
  // Acquire and release: whoever sees the texts sees them whole.
  const std::vector<std::string>* known = texts_.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto made = std::make_unique<std::vector<std::string>>();
  frame_texts text(*this);
  for (const native_stack& stack : stacks) made->push_back(text.of(stack));
  if (texts_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel, std::memory_order_acquire))
    return *made.release();
  return *known;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
