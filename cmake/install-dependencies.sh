#!/bin/sh
# Installs what is missing to build stepprof, and only that (Debian and Ubuntu, as root or with sudo). Elsewhere it names
# what is missing and stops.
#
#   sh cmake/install-dependencies.sh [NAME...]      compiler clang cmake ninja fmt json catch2 eigen zlib
set -eu
[ $# -gt 0 ] || set -- compiler cmake ninja fmt json catch2 eigen

cmake_needed=3.24

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

cmake_version() { cmake --version 2>/dev/null | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p'; }

# Is version $1 at least $2? (major.minor)
at_least() {
  [ "${1%%.*}" -gt "${2%%.*}" ] || { [ "${1%%.*}" -eq "${2%%.*}" ] && [ "${1#*.}" -ge "${2#*.}" ]; }
}

is_there() {
  case $1 in
    compiler) compiler >/dev/null && has_header cstdint ;;
    clang) has_command clang++ ;;
    cmake) has_command cmake && at_least "$(cmake_version)" "$cmake_needed" ;;
    ninja) has_command ninja ;;
    fmt) has_header fmt/format.h ;;
    json) has_header nlohmann/json.hpp ;;
    catch2) has_header catch2/catch.hpp || has_header catch2/catch_all.hpp ;;
    eigen) has_header Eigen/Core ;;
    zlib) has_header zlib.h ;;
    *)
      echo "install-dependencies.sh: there is no '$1'; there are: compiler clang cmake ninja fmt json catch2 eigen zlib" >&2
      exit 2
      ;;
  esac
}

package_of() {
  case $1 in
    compiler) echo g++ ;;
    clang) echo clang ;;
    cmake) echo cmake ;;
    ninja) echo ninja-build ;;
    fmt) echo libfmt-dev ;;
    json) echo nlohmann-json3-dev ;;
    catch2) echo catch2 ;;
    eigen) echo libeigen3-dev ;;
    zlib) echo zlib1g-dev ;;
  esac
}

describe() {
  case $1 in
    compiler) echo "a C++17 compiler (g++ 9 or clang++ 10, or newer)" ;;
    clang) echo "clang++" ;;
    cmake) echo "CMake $cmake_needed or newer$(has_command cmake && echo " (found: $(cmake_version))")" ;;
    ninja) echo "ninja" ;;
    fmt) echo "fmt 9 or newer (https://fmt.dev)" ;;
    json) echo "nlohmann_json 3.10 or newer (https://json.nlohmann.me)" ;;
    catch2) echo "Catch2 2.13 or 3 (https://github.com/catchorg/Catch2)" ;;
    eigen) echo "Eigen 3.3 or newer (https://eigen.tuxfamily.org)" ;;
    zlib) echo "zlib with its header (https://zlib.net)" ;;
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

find_missing "$@"
[ -n "$missing" ] || exit 0

packages=
for name in $missing; do
  packages="$packages $(package_of "$name")"
done

if ! has_command apt-get; then
  stop "Install it with the package manager of this system, then run the same command again."
elif [ "$(id -u)" -eq 0 ]; then
  as_root="env"
elif has_command sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
  as_root="sudo env"
else
  stop "As root:  apt-get update && apt-get install -y --no-install-recommends$packages"
fi

apt() {
  $as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" </dev/null
}
install() {
  # shellcheck disable=SC2086
  apt install --no-install-recommends "$@" $packages
}

echo "stepprof: installing$packages"
# The lists of a fresh machine are empty, and old ones name files that are gone: then, and only then, update them.
if ! install --simulate >/dev/null 2>&1 || ! install; then
  { apt update && install; } || stop "apt-get could not install$packages; its message is above."
fi

find_missing "$@"
[ -z "$missing" ] || stop "The packages of this system do not bring it: install it by hand, then run the same command again."
