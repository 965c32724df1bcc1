#!/bin/sh
# Installs what is missing to build stepprof, and only that (Debian and Ubuntu, as root or with sudo). Elsewhere it names
# what is missing and stops.
#
#   sh cmake/install-dependencies.sh [NAME...] [--wish NAME...]
#
# The names: compiler clang clang-newest clang-sanitizers clang-coverage cmake ninja fmt json catch2 eigen zlib isal torch
# openblas elfutils libunwind perf npm chromium spin multilib i386. What follows --wish is installed where the system has
# it; where it has not, the build goes on without.
set -eu
[ $# -gt 0 ] || set -- compiler cmake ninja fmt json catch2 eigen

cmake_needed=3.24
names="compiler clang clang-newest clang-sanitizers clang-coverage cmake ninja fmt json catch2 eigen zlib isal torch"
names="$names openblas elfutils libunwind perf npm chromium spin multilib i386"

has_command() { command -v "$1" >/dev/null 2>&1; }

compiler() {
  for candidate in "${CXX:-c++}" c++ g++ clang++; do
    # Unquoted: CXX may hold arguments, "ccache g++".
    # shellcheck disable=SC2086
    if has_command ${candidate%% *}; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# Asks the compiler, so that a library in a place of its own counts too.
has_header() {
  cxx=$(compiler) || return 1
  paths=$(printf '%s' "${CMAKE_PREFIX_PATH-}" | tr ';' ':' | sed -e 's|:|/include:|g' -e 's|.$|&/include|')
  # shellcheck disable=SC2086
  printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" |
    CPLUS_INCLUDE_PATH="${paths:+$paths:}/usr/include/eigen3:/opt/homebrew/include" \
      $cxx -std=c++17 -E -x c++ - >/dev/null 2>&1
}

# can_link COMPILER FLAG...: asks by linking a program, as libraries of a compiler are packages of their own.
can_link() {
  program=$(mktemp)
  linked=yes
  echo 'int main() { throw 1; }' | "$@" -x c++ - -o "$program" >/dev/null 2>&1 || linked=no
  rm -f -- "$program"
  [ "$linked" = yes ]
}

# The number of the newest of the lines "clang-N" or "clang++-N" that are read, if it is newer than clang++.
newer_clang() {
  sed -n 's/^clang\(++\)*-\([0-9][0-9]*\)$/\2/p' | sort -n | tail -n 1 |
    while read -r version; do
      if [ "$version" -gt "$(clang++ -dumpversion 2>/dev/null | cut -d . -f 1)" ] 2>/dev/null; then echo "$version"; fi
    done
}
has_newer_clang() {
  IFS=:
  for directory in $PATH; do
    for program in "$directory"/clang++-*; do
      if [ -x "$program" ]; then echo "${program##*/}"; fi
    done
  done | newer_clang | grep -q .
}

# Asks by running a program: kernels may be built, or told, to run none of 32 bits.
runs_32_bits() {
  program=$(mktemp)
  ran=yes
  # Unquoted, as above.
  # shellcheck disable=SC2046
  echo 'int main() {}' | $(compiler) -m32 -x c++ - -o "$program" >/dev/null 2>&1 && "$program" 2>/dev/null || ran=no
  rm -f -- "$program"
  [ "$ran" = yes ]
}

cmake_version() { cmake --version 2>/dev/null | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p'; }

# Is version $1 at least $2? (major.minor)
at_least() {
  [ "${1%%.*}" -gt "${2%%.*}" ] || { [ "${1%%.*}" -eq "${2%%.*}" ] && [ "${1#*.}" -ge "${2#*.}" ]; }
}

is_there() {
  case $1 in
    compiler) compiler >/dev/null && has_header cstdint ;;
    clang) has_command clang++ ;;
    clang-newest) (has_newer_clang) ;;
    clang-sanitizers) can_link clang++ -fsanitize=address ;;
    clang-coverage) can_link clang++ -fprofile-instr-generate && has_command llvm-cov && has_command llvm-profdata ;;
    cmake) has_command cmake && at_least "$(cmake_version)" "$cmake_needed" ;;
    ninja) has_command ninja ;;
    fmt) has_header fmt/format.h ;;
    json) has_header nlohmann/json.hpp ;;
    catch2) has_header catch2/catch.hpp || has_header catch2/catch_all.hpp ;;
    eigen) has_header Eigen/Core ;;
    zlib) has_header zlib.h ;;
    isal) has_header isa-l/igzip_lib.h ;;
    torch) has_header ATen/record_function.h ;;
    # What libtorch multiplies with; without it, as slowly as the reference BLAS does.
    openblas) ls /usr/lib/*/openblas*/libblas.so.3 >/dev/null 2>&1 ;;
    elfutils) has_header elfutils/libdwfl.h ;;
    libunwind) { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -q 'libunwind\.so\.8' ;;
    perf) has_command perf ;;
    npm) has_command npm ;;
    chromium) has_command chromium ;;
    spin) has_command spin ;;
    # Unquoted, as above.
    # shellcheck disable=SC2046
    multilib) can_link $(compiler) -m32 ;;
    i386) runs_32_bits || has_command qemu-i386 ;;
    *)
      echo "install-dependencies.sh: there is no '$1'; there are: $names" >&2
      exit 2
      ;;
  esac
}

package_of() {
  case $1 in
    compiler) echo g++ ;;
    clang) echo clang ;;
    clang-newest)
      version=$(apt-cache search --names-only '^clang-[0-9]+$' | cut -d ' ' -f 1 | newer_clang)
      # There is no such package where the system has none that is newer, or its lists are still empty.
      echo "clang-${version:-newest}"
      ;;
    clang-sanitizers) echo "clang libclang-rt-dev" ;;
    clang-coverage) echo "clang libclang-rt-dev llvm" ;;
    cmake) echo cmake ;;
    ninja) echo ninja-build ;;
    fmt) echo libfmt-dev ;;
    json) echo nlohmann-json3-dev ;;
    catch2) echo catch2 ;;
    eigen) echo libeigen3-dev ;;
    zlib) echo zlib1g-dev ;;
    isal) echo libisal-dev ;;
    torch) echo libtorch-dev ;;
    openblas) echo libopenblas0-pthread ;;
    elfutils) echo libdw-dev ;;
    libunwind) echo libunwind8 ;;
    perf) echo linux-perf ;;
    npm) echo npm ;;
    chromium) echo chromium ;;
    spin) echo spin ;;
    multilib) echo g++-multilib ;;
    i386) echo qemu-user ;;
  esac
}

describe() {
  case $1 in
    compiler) echo "a C++17 compiler (g++ 9 or clang++ 10, or newer)" ;;
    clang) echo "clang++" ;;
    clang-newest) echo "a clang++-N that is newer than clang++" ;;
    clang-sanitizers) echo "clang++ with the libraries of its sanitizers (compiler-rt)" ;;
    clang-coverage) echo "clang++ with the library of its counters (compiler-rt), llvm-cov and llvm-profdata" ;;
    cmake) echo "CMake $cmake_needed or newer$(has_command cmake && echo " (found: $(cmake_version))")" ;;
    ninja) echo "ninja" ;;
    fmt) echo "fmt 9 or newer (https://fmt.dev)" ;;
    json) echo "nlohmann_json 3.10 or newer (https://json.nlohmann.me)" ;;
    catch2) echo "Catch2 2.13 or 3 (https://github.com/catchorg/Catch2)" ;;
    eigen) echo "Eigen 3.3 or newer (https://eigen.tuxfamily.org)" ;;
    zlib) echo "zlib with its header (https://zlib.net)" ;;
    isal) echo "Intel's ISA-L with its headers (https://github.com/intel/isa-l)" ;;
    torch) echo "PyTorch's C++ library, libtorch 1.13 or newer (https://pytorch.org)" ;;
    openblas) echo "OpenBLAS (https://www.openblas.net)" ;;
    elfutils) echo "libdw of elfutils with its headers (https://sourceware.org/elfutils)" ;;
    libunwind) echo "libunwind 1.6 or newer (https://github.com/libunwind/libunwind)" ;;
    perf) echo "perf (https://perf.wiki.kernel.org)" ;;
    npm) echo "npm (https://www.npmjs.com)" ;;
    chromium) echo "Chromium (https://www.chromium.org)" ;;
    spin) echo "spin (https://spinroot.com)" ;;
    multilib) echo "a C++ compiler and libraries for 32-bit programs (-m32)" ;;
    i386) echo "a kernel that runs 32-bit programs, or qemu-i386 (https://www.qemu.org)" ;;
  esac
}

find_missing() {
  missing=
  for name in "$@"; do
    is_there "$name" || missing="$missing $name"
  done
}

stop() {
  echo "stepprof: cannot go on, because this is missing:" >&2
  for name in $missing; do
    echo "  - $(describe "$name")" >&2
  done
  echo "$1" >&2
  exit 1
}

find_packages() {
  packages=
  for name in $missing; do
    packages="$packages $(package_of "$name")"
  done
}

apt() {
  $as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" </dev/null
}
install() {
  # shellcheck disable=SC2086
  apt install --no-install-recommends "$@" $packages
}
# The lists of a fresh machine are empty, and old ones name files that are gone: then, and only then, update them.
install_packages() {
  echo "stepprof: installing$packages"
  if ! install --simulate >/dev/null 2>&1 || ! install; then
    apt update && find_packages && install
  fi
}

install_needs() {
  find_missing "$@"
  [ -n "$missing" ] || return 0
  find_packages
  if ! has_command apt-get; then
    stop "Install it with the package manager of this system, then run the same command again."
  elif [ "$(id -u)" -eq 0 ]; then
    as_root="env"
  elif has_command sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root="sudo env"
  else
    stop "As root:  apt-get update && apt-get install -y --no-install-recommends$packages"
  fi
  install_packages || stop "apt-get could not install$packages; its message is above."
  find_missing "$@"
  [ -z "$missing" ] ||
    stop "The packages of this system do not bring it: install it by hand, then run the same command again."
}

# One after the other, so that one which the system lacks does not keep the others away. Nobody is asked for a password.
install_wish() {
  find_missing "$1"
  [ -n "$missing" ] || return 0
  find_packages
  as_root=
  if has_command apt-get; then
    if [ "$(id -u)" -eq 0 ]; then
      as_root="env"
    elif has_command sudo && sudo -n true 2>/dev/null; then
      as_root="sudo env"
    fi
  fi
  if [ -n "$as_root" ] && install_packages && find_missing "$1" && [ -z "$missing" ]; then return 0; fi
  echo "stepprof: going on without $(describe "$1")"
}

needs=
wishes=
kind=need
for name in "$@"; do
  if [ "$name" = --wish ]; then
    kind=wish
  elif [ "$kind" = need ]; then
    needs="$needs $name"
  else
    wishes="$wishes $name"
  fi
done
# shellcheck disable=SC2086
install_needs $needs
for name in $wishes; do
  install_wish "$name"
done
