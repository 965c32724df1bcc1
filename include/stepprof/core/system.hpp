// The services of the operating system that the cold paths use, each with a portable stand-in.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <stepprof/config.hpp>
#include <stepprof/core/clock.hpp>

#if STEPPROF_POSIX
#include <pthread.h>   // the key that sees a thread end, fork handlers, the name of a thread
#include <sys/mman.h>  // the pool is mapped memory
#include <unistd.h>    // getpid
#endif
#if STEPPROF_LINUX
#include <sys/syscall.h>  // gettid, which old C libraries do not wrap
#endif

STEPPROF_BEGIN_NAMESPACE

namespace detail {

// --- memory ---------------------------------------------------------------------------------------------------------

// Address space for `bytes`, aligned to `alignment`; memory comes with the first write to a page. Null when refused.
inline void* reserve_memory(std::size_t bytes, std::size_t alignment) noexcept {
#if STEPPROF_POSIX
#if !defined(MAP_NORESERVE)
#define STEPPROF_MAP_NORESERVE 0
#else
#define STEPPROF_MAP_NORESERVE MAP_NORESERVE
#endif
  void* const got = ::mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | STEPPROF_MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
#else
  void* const got = std::calloc(bytes + alignment, 1);
  if (got == nullptr) return nullptr;
#endif
  const auto at = reinterpret_cast<std::uintptr_t>(got);
  return reinterpret_cast<void*>((at + alignment - 1) / alignment * alignment);
}

// Gives the memory of whole pages back to the system; the address space stays. The contents are lost.
inline void release_memory(void* at, std::size_t bytes) noexcept {
#if STEPPROF_POSIX
  ::madvise(at, bytes, MADV_DONTNEED);
#else
  static_cast<void>(at);
  static_cast<void>(bytes);
#endif
}

// --- ids: replaced by tests, and by programs whose threads are not the system's -------------------------------------

inline std::uint64_t system_thread_id() noexcept {
#if STEPPROF_LINUX
  return static_cast<std::uint64_t>(::syscall(SYS_gettid));
#elif STEPPROF_POSIX
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(::pthread_self()));
#else
  return 0;
#endif
}

inline std::int64_t system_process_id() noexcept {
#if STEPPROF_POSIX
  return static_cast<std::int64_t>(::getpid());
#else
  return 1;
#endif
}

struct STEPPROF_SHARED id_sources {
  std::atomic<std::uint64_t (*)() noexcept> thread_id;
  std::atomic<std::int64_t (*)() noexcept> process_id;
};
inline STEPPROF_SHARED id_sources the_id_sources = {{&system_thread_id}, {&system_process_id}};

// The name that the system has for the calling thread; empty where it has none.
inline void system_thread_name(char* out, std::size_t size) noexcept {
  out[0] = 0;
#if STEPPROF_LINUX
  if (::pthread_getname_np(::pthread_self(), out, size) != 0) out[0] = 0;
#else
  static_cast<void>(size);
#endif
}

// The host's name and the program's file name, cut to the buffer; empty where unknown.
inline void system_host_name(char* out, std::size_t size) noexcept {
  out[0] = 0;
#if STEPPROF_POSIX
  if (::gethostname(out, size) != 0) out[0] = 0;
  out[size - 1] = 0;
#else
  static_cast<void>(size);
#endif
}
inline void system_program_name(char* out, std::size_t size) noexcept {
  out[0] = 0;
#if STEPPROF_LINUX
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash == nullptr ? path : slash + 1;
  std::size_t used = 0;
  for (; used + 1 < size && name[used] != 0; ++used) out[used] = name[used];
  out[used] = 0;
#else
  static_cast<void>(size);
#endif
}

// --- the end of threads, and fork -----------------------------------------------------------------------------------

#if STEPPROF_POSIX
struct thread_exit_hook {
  pthread_key_t key{};
  bool made = false;
  bool install(void (*at_exit)(void*)) noexcept {
    if (!made) made = ::pthread_key_create(&key, at_exit) == 0;
    return made;
  }
  // From now on the exit of this thread calls the hook, after its thread_local destructors.
  void arm(void* value) noexcept {
    if (made) ::pthread_setspecific(key, value);
  }
};
inline void install_fork_hooks(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept {
  ::pthread_atfork(before, in_parent, in_child);
}
#else
// Without pthreads a thread_local object sees the exit; scopes in later destructors are then refused and counted.
struct thread_exit_hook {
  bool install(void (*at_exit)(void*)) noexcept {
    call() = at_exit;
    return true;
  }
  void arm(void* value) noexcept {
    struct watcher {
      void* value = nullptr;
      ~watcher() {
        if (value != nullptr) call()(value);
      }
    };
    static thread_local watcher on_exit;
    on_exit.value = value;
  }
  static void (*&call() noexcept)(void*) {
    static void (*hook)(void*) = nullptr;
    return hook;
  }
};
inline void install_fork_hooks(void (*)(), void (*)(), void (*)()) noexcept {}
#endif

// --- clocks beside the log's own ------------------------------------------------------------------------------------

inline std::int64_t steady_ns() noexcept {
  return static_cast<std::int64_t>(ticks_of(monotonic_clock::begin()));
}

inline std::int64_t wall_ns() noexcept {
  timespec now{};
  ::timespec_get(&now, TIME_UTC);
  return now.tv_sec * std::int64_t{1000000000} + now.tv_nsec;
}

}  // namespace detail

STEPPROF_END_NAMESPACE
