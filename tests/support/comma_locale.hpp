// A C locale whose decimal sign is a comma, on machines that have none installed: made of the numbers of C.UTF-8.
#pragma once

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <support/temp_folder.hpp>

namespace test {

// The process's C locale while it lives. Only the thread of the test may use locales meanwhile.
class comma_locale {
 public:
  comma_locale() {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE"})
      if (take(name)) return;
    if (!make()) return;
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    take("xx_XX");
  }
  ~comma_locale() {
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
  }
  comma_locale(const comma_locale&) = delete;
  comma_locale& operator=(const comma_locale&) = delete;

  /// False where there is neither such a locale nor one to make it of; true only when C functions print the comma now.
  static bool active() { return std::strcmp(std::localeconv()->decimal_point, ",") == 0; }

 private:
  static bool take(const char* name) { return std::setlocale(LC_NUMERIC, name) != nullptr && active(); }

  // glibc's file: a table of offsets, then the signs. Byte 32 is the decimal point, the word at 36 its wide form.
  bool make() const {
    for (const char* source : {"/usr/lib/locale/C.utf8", "/usr/lib/locale/C.UTF-8"}) {
      std::string bytes = contents_of(std::string(source) + "/LC_NUMERIC");
      if (bytes.size() < 40 || bytes[32] != '.' || bytes[36] != '.') continue;
      bytes[32] = bytes[36] = ',';
      std::filesystem::create_directory(folder_.path() / "xx_XX");
      std::ofstream(folder_.path() / "xx_XX" / "LC_NUMERIC", std::ios::binary) << bytes;
      return true;
    }
    return false;
  }

  temp_folder folder_;
};

}  // namespace test
