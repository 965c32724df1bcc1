// Walking the calling thread's stack, and which module an address belongs to: services of the system that only stacks
// need.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <stepprof/config.hpp>

#if STEPPROF_UNWIND
#include <link.h>    // dl_iterate_phdr: what is loaded where
#include <unistd.h>  // getcwd: a module may have been loaded by a relative name
#include <unwind.h>  // the compiler's own unwinder
#endif

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// A way to walk stacks that an adapter brings, better than the system's own. Neither function throws.
struct stack_walker {
  // Writes the addresses of the calling thread's frames, at most `limit`, innermost first, each inside the instruction
  // that calls. Returns how many. Usable in signal handlers.
  std::uint32_t (*walk)(std::uintptr_t* out, std::uint32_t limit) noexcept;
  // Keeps the module of these functions loaded.
  void (*pin)() noexcept;
};
inline STEPPROF_SHARED STEPPROF_CONSTINIT std::atomic<const stack_walker*> the_walker{nullptr};

// A module as it is kept in the pool: this, and behind it its path (empty: the program itself).
struct loaded_module {
  static constexpr std::uint32_t max_id_bytes = 20;
  std::uint64_t begin;  // its addresses in this process
  std::uint64_t end;
  std::uint64_t bias;      // what an address in this process is more than the same one in the file
  std::uint32_t id_bytes;  // of the build id, 0: it has none
  unsigned char id[max_id_bytes];
};
static_assert(sizeof(loaded_module) == 48, "no padding: modules are compared byte by byte");

#if STEPPROF_UNWIND
inline constexpr bool system_can_unwind = true;

// With frame pointers or without: by the tables that exceptions need. Looks every frame up anew, in tables that are
// read without a lock where the C library has _dl_find_object, so what was unloaded cannot mislead it.
STEPPROF_NOINLINE inline std::uint32_t system_walk_stack(std::uintptr_t* out, std::uint32_t limit) noexcept {
  struct walk {
    std::uintptr_t* out;
    std::uint32_t limit;
    std::uint32_t count;
  } state{out, limit, 0};
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* data) {
        walk& w = *static_cast<walk*>(data);
        int is_exact = 0;  // a signal came here; else the address is behind a call
        const std::uintptr_t at = _Unwind_GetIPInfo(context, &is_exact);
        if (w.count == w.limit || at == 0) return _URC_END_OF_STACK;
        w.out[w.count++] = is_exact != 0 ? at : at - 1;
        return _URC_NO_REASON;
      },
      &state);
  return state.count;
}

// How many modules have been unloaded so far: an address means the same as long as this stays. Takes the dynamic
// linker's lock for a moment.
inline std::uint32_t system_unload_count() noexcept {
  std::uint32_t count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* first, std::size_t, void* data) {
        *static_cast<std::uint32_t*>(data) = static_cast<std::uint32_t>(first->dlpi_subs);
        return 1;
      },
      &count);
  return count;
}

inline void read_build_id(const dl_phdr_info& info, loaded_module& module) noexcept {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info.dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(info.dlpi_addr + part.p_vaddr);
    const char* const end = at + part.p_memsz;
    while (end - at >= static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* const name = at + sizeof note;
      const char* const id = name + ((note.n_namesz + 3) & ~3u);
      if (id > end || note.n_descsz > static_cast<std::size_t>(end - id)) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        module.id_bytes = note.n_descsz < loaded_module::max_id_bytes ? note.n_descsz : loaded_module::max_id_bytes;
        std::memcpy(module.id, id, module.id_bytes);
        return;
      }
      at = id + ((note.n_descsz + 3) & ~3u);
    }
  }
}

// Calls `visit` with the range of each loaded module until it returns false; `describe` then gives all of it, followed
// by its path, and how many bytes that is. With the dynamic linker's lock held: what is visited stays.
template <class Visit>
void system_visit_modules(Visit& visit) noexcept {
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        std::uint64_t begin = UINT64_MAX, end = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD) continue;
          if (info->dlpi_addr + part.p_vaddr < begin) begin = info->dlpi_addr + part.p_vaddr;
          if (info->dlpi_addr + part.p_vaddr + part.p_memsz > end) end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
        }
        return (*static_cast<Visit*>(data))(*info, begin, end) ? 0 : 1;
      },
      &visit);
}

// Small, as it may have to fit on a signal handler's stack.
inline constexpr std::size_t max_path_bytes = 1024;
inline constexpr std::size_t max_module_bytes = sizeof(loaded_module) + 2 * max_path_bytes;

// Writes a module and its path to `out`, which has room for max_module_bytes. Returns how many bytes they are.
inline std::size_t describe_module(const dl_phdr_info& info, std::uint64_t begin, std::uint64_t end,
                                   char* out) noexcept {
  loaded_module module{begin, end, info.dlpi_addr, 0, {}};
  read_build_id(info, module);
  std::memcpy(out, &module, sizeof module);
  char* path = out + sizeof module;
  const char* const name = info.dlpi_name == nullptr ? "" : info.dlpi_name;
  std::size_t length = std::strlen(name);
  if (length > max_path_bytes - 1) length = max_path_bytes - 1;
  const bool is_relative = std::strchr(name, '/') != nullptr && name[0] != '/';
  if (is_relative && ::getcwd(path, max_path_bytes) != nullptr) {
    path += std::strlen(path);
    *path++ = '/';
  }
  std::memcpy(path, name, length);
  return static_cast<std::size_t>(path + length - out);
}
#else
inline constexpr bool system_can_unwind = false;
inline std::uint32_t system_walk_stack(std::uintptr_t*, std::uint32_t) noexcept {
  return 0;
}
inline std::uint32_t system_unload_count() noexcept {
  return 0;
}
#endif

}  // namespace detail

STEPPROF_END_NAMESPACE
