// Modules of the process that record for themselves, so that nothing of them is in any trace of this one: said, not
// found out in an empty trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <stepprof/core/registry.hpp>
#include <stepprof/session/diagnostics.hpp>

#if STEPPROF_SIGNS_MODULES
#include <link.h>
#endif

STEPPROF_BEGIN_NAMESPACE
namespace detail {

// Names of modules, as a list in a sentence.
class module_names {
 public:
  void add(const char* path) {
    constexpr int most = 8;
    if (count_ < most)
      text_ += (count_ == 0 ? "" : ", ") + (*path == 0 ? "the program" : "'" + std::string(path) + "'");
    if (count_ == most) text_ += ", ...";
    ++count_;
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
  int count_ = 0;
};

// What is loaded beside this module, and records.
struct other_modules {
  module_names separate;        // the same headers, but another recorder
  module_names other_versions;  // other headers
};

#if STEPPROF_SIGNS_MODULES

// Finds signs in the data of modules. That is the other modules' own: it is read as words whose values mean nothing
// unless they are a sign's, and those are never written.
class module_search {
 public:
  // Takes a lock of the dynamic linker: not to be called with one held.
  [[nodiscard]] static other_modules search() {
    module_search found;
    ::dl_iterate_phdr(&look_at, &found);
    return std::move(found.modules_);
  }

 private:
  static int look_at(dl_phdr_info* module, std::size_t, void* search) noexcept {
    std::string thrown;
    call_guarded([&] { static_cast<module_search*>(search)->look_at(*module); }, thrown);
    return 0;
  }
  void look_at(const dl_phdr_info& module) {
    // What is made read-only when it has been relocated holds no sign, and may be long.
    std::uintptr_t constant_end = 0;
    for (int i = 0; i < module.dlpi_phnum; ++i)
      if (module.dlpi_phdr[i].p_type == PT_GNU_RELRO)
        constant_end = module.dlpi_addr + module.dlpi_phdr[i].p_vaddr + module.dlpi_phdr[i].p_memsz;
    for (int i = 0; i < module.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = module.dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & (PF_R | PF_W)) != (PF_R | PF_W)) continue;
      const std::uintptr_t begin = module.dlpi_addr + part.p_vaddr, end = begin + part.p_filesz;
      const bool has_constants = constant_end > begin && constant_end <= end;
      if (const module_sign* const sign = find_sign(has_constants ? constant_end : begin, end))
        return judge(*sign, module.dlpi_name);
    }
  }
  void judge(const module_sign& sign, const char* path) {
    if (sign.version != module_version || sign.abi != STEPPROF_ABI)
      modules_.other_versions.add(path);
    else if (sign.recorder != &the_registry)
      modules_.separate.add(path);
  }
  STEPPROF_UNGUARDED static const module_sign* find_sign(std::uintptr_t begin, std::uintptr_t end) noexcept {
    constexpr std::uintptr_t alignment = 16;
    for (std::uintptr_t at = (begin + alignment - 1) & ~(alignment - 1); at + sizeof(module_sign) <= end;
         at += alignment) {
      const auto* const bytes = reinterpret_cast<const volatile char*>(at);
      std::size_t equal = 0;
      while (equal < sizeof the_module_sign.text && bytes[equal] == the_module_sign.text[equal]) ++equal;
      if (equal == sizeof the_module_sign.text) return reinterpret_cast<const module_sign*>(at);
    }
    return nullptr;
  }

  other_modules modules_;
};

inline other_modules find_other_modules() {
  return module_search::search();
}
#else
inline other_modules find_other_modules() {
  return {};
}
#endif

inline std::optional<diagnostic> separate_recorders_diagnostic(const other_modules& found) {
  if (found.separate.text().empty()) return std::nullopt;
  return diagnostic{"separate_recorders",
                    "nothing that is recorded in " + found.separate.text() +
                        " will be in this trace: the symbols of stepprof are hidden there, or here, so that each has a "
                        "recorder of its own. Let the program export its symbols (-rdynamic; in CMake ENABLE_EXPORTS), "
                        "and use neither RTLD_DEEPBIND, nor -Bsymbolic, nor a version script that hides stepprof::*"};
}
inline std::optional<diagnostic> other_headers_diagnostic(const other_modules& found) {
  if (found.other_versions.text().empty()) return std::nullopt;
  return diagnostic{"other_headers", "nothing that is recorded in " + found.other_versions.text() +
                                         " will be in this trace: it was compiled with headers of another version of "
                                         "stepprof than " STEPPROF_VERSION_TEXT
                                         ", which are used here. Compile all modules with the same headers"};
}

// No lock may be held.
inline void report_other_modules(diagnostics_once& once) noexcept {
  std::string thrown;
  call_guarded(
      [&] {
        const other_modules found = find_other_modules();
        if (const auto separate = separate_recorders_diagnostic(found)) once.report(*separate);
        if (const auto other = other_headers_diagnostic(found)) once.report(*other);
      },
      thrown);
}

}  // namespace detail
STEPPROF_END_NAMESPACE
