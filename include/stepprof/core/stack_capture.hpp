// Native stacks of scopes: the addresses of the calling thread's frames, kept as names of the session, each stack once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <stepprof/core/log_block.hpp>
#include <stepprof/core/name_table.hpp>
#include <stepprof/core/session_names.hpp>
#include <stepprof/core/unwind.hpp>

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// The most frames that a stack can have, and how many of the recorder's own may lie on top of them.
inline constexpr std::uint32_t max_stack_frames = 256;
inline constexpr std::uint32_t max_own_frames = 16;

// How many frames are kept of a stack, the innermost ones. Set where a session begins.
inline STEPPROF_SHARED STEPPROF_CONSTINIT std::atomic<std::uint32_t> the_stack_depth{64};

// A stack's node in a name table: its frames are the text, innermost first; behind them stands the place of each
// frame's module in the same table, 0 when it is in none. What an address means changes when a module is unloaded, so
// the number of unloaded modules is part of the stack: equal addresses of different libraries are different stacks.
inline constexpr std::uint32_t cut_stack_bit = 1;  // of node::line: more frames were there
[[nodiscard]] constexpr std::uint32_t stack_mark(std::uint32_t unload_count, bool is_cut) noexcept {
  return (unload_count << 1) | (is_cut ? cut_stack_bit : 0);
}
// Of the modules' own nodes, to which no run-time name is equal: those have line 0.
inline constexpr std::uint32_t module_mark = 1;

// The frames of the calling thread from the one on in which it called the recorder.
class captured_frames {
 public:
  // `caller` is where the recorder's outermost known function returns to; `with_caller`: that is in the program
  // already.
  STEPPROF_ALWAYS_INLINE captured_frames(const void* caller, bool with_caller, std::uint32_t depth) noexcept {
    const stack_walker* const walker = the_walker.load(std::memory_order_acquire);
    const std::uint32_t limit = depth + max_own_frames;
    count_ = walker != nullptr ? walker->walk(frames_, limit) : system_walk_stack(frames_, limit);
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(caller) - 1;
    for (std::uint32_t i = 0; i < count_ && i < max_own_frames && first_ == 0; ++i)
      if (frames_[i] == at) first_ = with_caller ? i : i + 1;
    count_ -= first_;
    is_cut_ = count_ > depth;
    if (is_cut_) count_ = depth;
  }
  [[nodiscard]] const std::uintptr_t* begin() const noexcept { return frames_ + first_; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }

 private:
  std::uintptr_t frames_[max_stack_frames + max_own_frames];
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  bool is_cut_ = false;
};

// The modules of the frames of a new stack, in one pass over what is loaded.
class frame_modules {
 public:
  explicit frame_modules(name_table& table) noexcept : table_(table) {}

  const std::uint32_t* find(const std::uintptr_t* frames, std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) places_[i] = 0;
#if STEPPROF_UNWIND
    std::uint32_t missing = count;
    auto visit = [&](const dl_phdr_info& info, std::uint64_t begin, std::uint64_t end) {
      std::uint32_t place = 0;
      for (std::uint32_t i = 0; i < count; ++i) {
        if (frames[i] < begin || frames[i] >= end) continue;
        if (place == 0) place = keep(info, begin, end);
        places_[i] = place;
        --missing;
      }
      return missing != 0;
    };
    system_visit_modules(visit);
#else
    static_cast<void>(frames);
#endif
    return places_;
  }

 private:
#if STEPPROF_UNWIND
  STEPPROF_NOINLINE std::uint32_t keep(const dl_phdr_info& info, std::uint64_t begin, std::uint64_t end) noexcept {
    char text[max_module_bytes];
    const std::size_t size = describe_module(info, begin, end, text);
    return table_.insert(text, size, nullptr, module_mark);
  }
#endif

  [[maybe_unused]] name_table& table_;  // not where the system does not tell its modules
  std::uint32_t places_[max_stack_frames];
};

// The place of a stack in a table of names, 0 when there is no room.
STEPPROF_NOINLINE inline std::uint32_t insert_frames(name_table& table, const captured_frames& stack) noexcept {
  const std::uint32_t mark = stack_mark(system_unload_count(), stack.is_cut());
  frame_modules modules(table);
  return table.insert_stack(stack.begin(), stack.count(), mark,
                            [&] { return modules.find(stack.begin(), stack.count()); });
}

// The id of the calling thread's stack, the overflow name when there is no room for it. Inside the recorder.
STEPPROF_NOINLINE inline std::uint32_t capture_stack(log_block& log, const void* caller, bool with_caller) noexcept {
  const captured_frames frames(caller, with_caller, the_stack_depth.load(std::memory_order_relaxed));
  if (frames.count() == 0) return overflow_name;
  // Sequentially consistent, as in look_up_name().
  log.interning.store(1, std::memory_order_seq_cst);
  const std::uint32_t session = the_names.session.load(std::memory_order_seq_cst);
  const std::uint32_t table = session & 1u;
  const std::uint32_t place = insert_frames(the_names.runtime[table], frames);
  log.interning.store(0, std::memory_order_release);
  if (place == 0 || !note_name_session(log, session)) return overflow_name;
  return runtime_name_bit | (table != 0 ? runtime_table_bit : 0) | place;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
