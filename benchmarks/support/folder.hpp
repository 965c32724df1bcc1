// A temporary folder that goes with its owner.
#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include <stdlib.h>  // mkdtemp

namespace benchmark {

class folder {
 public:
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "stepprof-benchmark-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
    path_ = name;
  }
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace benchmark
