// The services of the operating system that the cold paths use, each with a portable stand-in.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <stepprof/config.hpp>
#include <stepprof/core/clock.hpp>

#if STEPPROF_POSIX
#include <dlfcn.h>     // keeps the module of the cold paths loaded
#include <signal.h>    // a piece of the control side that no handler may interrupt
#include <pthread.h>   // the key that sees a thread end, fork handlers, the name of a thread
#include <sys/mman.h>  // the pool is mapped memory
#include <unistd.h>    // getpid
#endif
#if STEPPROF_LINUX
#include <sys/syscall.h>  // gettid and tgkill, which old C libraries do not wrap
#endif

// Only code that was compiled for a shared library can be unloaded. A program, which may be static, is to have no
// reference to the dynamic linker at all.
#if STEPPROF_POSIX && defined(RTLD_NOLOAD) && defined(RTLD_NODELETE) && \
    (defined(__APPLE__) || (defined(__PIC__) && !defined(__PIE__)))
#define STEPPROF_PIN_POSIX 1
#else
#define STEPPROF_PIN_POSIX 0
#endif
#if !STEPPROF_PORTABLE && defined(_WIN32)
#define STEPPROF_PIN_WINDOWS 1
struct HINSTANCE__;  // as <windows.h> declares them, without its macros
extern "C" __declspec(dllimport) int __stdcall GetModuleHandleExA(unsigned long, const char*, HINSTANCE__**);
#else
#define STEPPROF_PIN_WINDOWS 0
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

// Whether the thread of this id (not 0) is gone: nothing that it did is still to come. False also when unknown.
inline bool system_thread_has_ended(std::uint64_t id) noexcept {
#if STEPPROF_LINUX
  return ::syscall(SYS_tgkill, ::getpid(), static_cast<pid_t>(id), 0) != 0 && errno == ESRCH;
#else
  static_cast<void>(id);
  return false;
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

// --- modules --------------------------------------------------------------------------------------------------------

#if STEPPROF_PIN_POSIX && defined(__ELF__)
// Weak: where these are in a library of their own (glibc before 2.34) nobody has to link it. A process that has none of
// them cannot have loaded this module with them.
static decltype(::dladdr) weak_dladdr __attribute__((weakref("dladdr")));
static decltype(::dlopen) weak_dlopen __attribute__((weakref("dlopen")));
#endif

// From now on the library that this is called from is never unloaded. A program needs no pin; that its name may be none
// that can be opened does no harm. Takes the dynamic linker's lock, under which constructors of libraries run: not to
// be called with a lock held.
STEPPROF_OWN inline void system_pin_this_module() noexcept {
#if STEPPROF_PIN_POSIX
#if defined(__ELF__)
  if (weak_dladdr == nullptr || weak_dlopen == nullptr) return;
  auto* const find_module = &weak_dladdr;
  auto* const open_module = &weak_dlopen;
#else
  auto* const find_module = &::dladdr;
  auto* const open_module = &::dlopen;
#endif
  Dl_info module{};
  if (find_module(reinterpret_cast<const void*>(&system_pin_this_module), &module) == 0) return;
  // A loaded library is found by the name that it was loaded by, even if that path leads nowhere any more.
  open_module(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#elif STEPPROF_PIN_WINDOWS
  HINSTANCE__* module = nullptr;
  const auto* const inside = reinterpret_cast<const char*>(&system_pin_this_module);
  ::GetModuleHandleExA(1u | 4u, inside, &module);  // pin the module; of an address
#endif
}

// --- the end of threads, and fork -----------------------------------------------------------------------------------

#if STEPPROF_POSIX
// glibc keeps the values of a thread's first 32 keys in the thread itself; for more it allocates memory when a thread
// first sets one, which a signal handler, where a thread may record its first scope, must not do.
#if defined(__GLIBC__)
inline constexpr bool keys_may_allocate = true;
#else
inline constexpr bool keys_may_allocate = false;
#endif
inline constexpr pthread_key_t keys_in_thread = 32;

struct thread_exit_hook {
  pthread_key_t key{};
  bool made = false;
  // The system gives the lowest key that is free. False when it has none that can be used.
  bool install(void (*at_exit)(void*)) noexcept {
    if (made || ::pthread_key_create(&key, at_exit) != 0) return made;
    made = !keys_may_allocate || key < keys_in_thread;
    if (!made) ::pthread_key_delete(key);
    return made;
  }
  // From now on the exit of this thread calls the hook, after its thread_local destructors. False: nothing will, and
  // whoever wants to know has to ask system_thread_has_ended.
  bool arm(void* value) noexcept { return made && ::pthread_setspecific(key, value) == 0; }
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
  bool arm(void* value) noexcept {
    struct watcher {
      void* value = nullptr;
      ~watcher() {
        if (value != nullptr) call()(value);
      }
    };
    static thread_local watcher on_exit;
    on_exit.value = value;
    return true;
  }
  static void (*&call() noexcept)(void*) {
    static void (*hook)(void*) = nullptr;
    return hook;
  }
};
inline void install_fork_hooks(void (*)(), void (*)(), void (*)()) noexcept {}
#endif

// While it lives no signal handler runs on this thread.
class signals_blocked {
 public:
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;
#if STEPPROF_POSIX
  signals_blocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signals_blocked() {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
#else
  signals_blocked() noexcept {}
  ~signals_blocked() {}
#endif
};

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
