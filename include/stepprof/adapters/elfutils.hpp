// Names for native stacks by elfutils' libdw: with this header in any one source file of a program, the frames of
// stacks (profile_options::with_stack) have functions, files and lines, and inlined calls have frames of their own.
// Link stepprof::elfutils. Where debug information is kept apart from the modules it is found by build id, as debuggers
// find it; debuginfod is asked when DEBUGINFOD_URLS is set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cxxabi.h>  // the names of C++ functions as people write them
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include <stepprof/config.hpp>
#include <stepprof/trace/native_stacks.hpp>

STEPPROF_BEGIN_NAMESPACE
namespace detail {

inline std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return text != nullptr ? text.get() : name;
}
// Of the profiler itself: in its namespace, by the rules of the Itanium C++ ABI.
inline bool is_own_symbol(std::string_view mangled) {
  return mangled.rfind("_ZN8stepprof", 0) == 0 || mangled.rfind("_ZNK8stepprof", 0) == 0;
}
// Or in its headers: functions that were inlined may have no symbol. A compiler that makes one piece of code of several
// says that it stands there, too, or in line 0.
inline bool is_own_file(std::string_view file) {
  static const std::string folder = [] {
    const std::string here = __FILE__;
    return here.substr(0, here.rfind("adapters/"));
  }();
  return !folder.empty() && file.rfind(folder, 0) == 0;
}

// One ELF file with its debug information, as it lies on the disk.
class elf_symbols : public symboliser {
 public:
  static std::unique_ptr<symboliser> open(const native_module& module, const std::string& path) {
    auto result = std::make_unique<elf_symbols>();
    if (!result->load(path) || !result->is(module.build_id)) return nullptr;
    return result;
  }

  std::vector<source_frame> at(std::uint64_t address) override {
    const Dwarf_Addr in_module = address + bias_;
    std::vector<source_frame> frames;
    if (Dwarf_Die unit; find_unit(in_module, unit)) add_functions(unit, in_module - dwarf_bias_, frames);
    const std::string symbol = symbol_at(in_module);
    if (frames.empty()) frames.emplace_back();
    source_frame& outermost = frames.back();
    if (outermost.function.empty() && symbol.empty()) return {};
    // The symbol tells the whole name also where the debug information has only the last part of it.
    if (outermost.function.empty() || symbol.rfind("_Z", 0) == 0) outermost.function = demangled(symbol.c_str());
    if (!symbol.empty()) outermost.is_own = is_own_symbol(symbol);
    for (source_frame& frame : frames)
      if (frame.line == 0 || (!frame.is_own && is_own_file(frame.file))) frame.file.clear();
    return frames;
  }

 private:
  struct close_dwfl {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };
  struct unit_range {
    Dwarf_Addr begin, end;
    Dwarf_Off unit;
  };

  bool load(const std::string& path) {
    static char* no_path = nullptr;  // where debug information is kept: as the library has it
    static const Dwfl_Callbacks callbacks = {&dwfl_build_id_find_elf, &dwfl_standard_find_debuginfo,
                                             &dwfl_offline_section_address, &no_path};
    dwfl_.reset(dwfl_begin(&callbacks));
    if (dwfl_ == nullptr) return false;
    dwfl_report_begin(dwfl_.get());
    module_ = dwfl_report_offline(dwfl_.get(), path.c_str(), path.c_str(), -1);
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);
    return module_ != nullptr && dwfl_module_getelf(module_, &bias_) != nullptr;
  }
  // Not another one that has been put in its place since.
  bool is(const std::string& build_id) {
    const unsigned char* bits = nullptr;
    GElf_Addr where = 0;
    const int size = dwfl_module_build_id(module_, &bits, &where);
    if (build_id.empty() || size <= 0) return build_id.empty() && size <= 0;
    const std::string_view found(reinterpret_cast<const char*>(bits), static_cast<std::size_t>(size));
    return found.substr(0, build_id.size()) == build_id;
  }

  // The compilation unit of an address. Not every compiler writes the table that the library would look it up in.
  bool find_unit(Dwarf_Addr address, Dwarf_Die& unit) {
    if (!units_are_known_) list_units();
    const auto behind = std::upper_bound(units_.begin(), units_.end(), address - dwarf_bias_,
                                         [](Dwarf_Addr a, const unit_range& r) { return a < r.begin; });
    if (behind == units_.begin() || address - dwarf_bias_ >= (behind - 1)->end) return false;
    return dwarf_offdie(dwarf_, (behind - 1)->unit, &unit) != nullptr;
  }
  void list_units() {
    units_are_known_ = true;
    dwarf_ = dwfl_module_getdwarf(module_, &dwarf_bias_);
    if (dwarf_ == nullptr) return;
    Dwarf_Addr bias = 0;
    for (Dwarf_Die* unit = nullptr; (unit = dwfl_module_nextcu(module_, unit, &bias)) != nullptr;) {
      Dwarf_Addr base = 0, begin = 0, end = 0;
      for (std::ptrdiff_t at = 0; (at = dwarf_ranges(unit, at, &base, &begin, &end)) > 0;)
        if (begin < end) units_.push_back({begin, end, dwarf_dieoffset(unit)});
    }
    std::sort(units_.begin(), units_.end(), [](const unit_range& a, const unit_range& b) { return a.begin < b.begin; });
  }

  // The functions at an address: the innermost inlined one first, the one that was compiled last.
  void add_functions(Dwarf_Die& unit, Dwarf_Addr address, std::vector<source_frame>& frames) {
    std::string file;
    int line = 0;
    if (Dwarf_Line* const entry = dwarf_getsrc_die(&unit, address); entry != nullptr) {
      file = text_or_empty(dwarf_linesrc(entry, nullptr, nullptr));
      dwarf_lineno(entry, &line);
    }
    for (Dwarf_Die& function : functions_at(unit, address)) {
      source_frame frame;
      frame.file = file;
      frame.line = line;
      const char* const linkage = linkage_name(function);
      frame.function = linkage != nullptr ? demangled(linkage) : text_or_empty(dwarf_diename(&function));
      frame.is_own = linkage != nullptr ? is_own_symbol(linkage) : is_own_file(file);
      frames.push_back(std::move(frame));
      if (dwarf_tag(&function) != DW_TAG_inlined_subroutine) return;
      find_call(unit, function, file, line);
    }
    if (!frames.empty() || file.empty()) return;
    frames.emplace_back();
    frames.back().file = file;
    frames.back().line = line;
  }
  static std::vector<Dwarf_Die> functions_at(Dwarf_Die& unit, Dwarf_Addr address) {
    std::vector<Dwarf_Die> result;
    const auto is_function = [](Dwarf_Die& die) {
      const int tag = dwarf_tag(&die);
      return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_subprogram;
    };
    for (Dwarf_Die& scope : scopes(&dwarf_getscopes, &unit, address)) {
      if (!is_function(scope)) continue;
      // Those that it was inlined into, not those around its definition.
      for (Dwarf_Die& around :
           scopes([](Dwarf_Die*die, Dwarf_Addr, Dwarf_Die**out) { return dwarf_getscopes_die(die, out); }, &scope,
                  address))
        if (is_function(around)) result.push_back(around);
      break;
    }
    return result;
  }
  static std::vector<Dwarf_Die> scopes(int (*find)(Dwarf_Die*, Dwarf_Addr, Dwarf_Die**), Dwarf_Die* die,
                                       Dwarf_Addr address) {
    Dwarf_Die* found = nullptr;
    const int count = find(die, address, &found);
    const std::unique_ptr<Dwarf_Die, void (*)(void*)> owner(found, &std::free);
    return count > 0 ? std::vector<Dwarf_Die>(found, found + count) : std::vector<Dwarf_Die>();
  }
  // Where an inlined function is called.
  static void find_call(Dwarf_Die& unit, Dwarf_Die& inlined, std::string& file, int& line) {
    Dwarf_Word number = 0;
    Dwarf_Attribute attribute;
    file.clear();
    line = 0;
    Dwarf_Files* files = nullptr;
    std::size_t count = 0;
    if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &attribute), &number) == 0 &&
        dwarf_getsrcfiles(&unit, &files, &count) == 0 && number < count)
      file = text_or_empty(dwarf_filesrc(files, number, nullptr, nullptr));
    if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &attribute), &number) == 0)
      line = static_cast<int>(number);
  }
  static const char* linkage_name(Dwarf_Die& function) {
    Dwarf_Attribute attribute;
    const char* const name = dwarf_formstring(dwarf_attr_integrate(&function, DW_AT_linkage_name, &attribute));
    return name != nullptr ? name
                           : dwarf_formstring(dwarf_attr_integrate(&function, DW_AT_MIPS_linkage_name, &attribute));
  }
  static std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

  // Empty when there is none. Without what a compiler appends to the name of a part of a function: `.cold`, `.isra.0`.
  std::string symbol_at(Dwarf_Addr address) {
    GElf_Off offset = 0;
    GElf_Sym symbol;
    const char* const name = dwfl_module_addrinfo(module_, address, &offset, &symbol, nullptr, nullptr, nullptr);
    if (name == nullptr || (symbol.st_size != 0 && offset >= symbol.st_size)) return {};
    const std::string_view whole = name;
    return std::string(whole.substr(0, whole.find('.', 1)));
  }

  std::unique_ptr<Dwfl, close_dwfl> dwfl_;
  Dwfl_Module* module_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  GElf_Addr bias_ = 0;         // of the addresses of symbols
  Dwarf_Addr dwarf_bias_ = 0;  // of those in the debug information
  std::vector<unit_range> units_;
  bool units_are_known_ = false;
};

inline constexpr symboliser_functions elfutils_functions = {&elf_symbols::open};
// Before main(), or when the library that holds it is loaded.
inline const bool elfutils_is_installed = [] {
  // Release: whoever sees the pointer sees the functions.
  the_symboliser.store(&elfutils_functions, std::memory_order_release);
  return true;
}();

}  // namespace detail
STEPPROF_END_NAMESPACE
