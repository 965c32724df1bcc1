#!/bin/sh
# show.sh BUILD_DIRECTORY: lines and branches of the headers that the programs built there have run, and what they have not.
# Needs STEPPROF_COVERAGE; sh tests/run.sh --preset coverage does all of it.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
build_dir=${1:?show.sh needs a build directory}
counts=$build_dir/coverage

llvm-profdata merge -sparse -o "$counts/all.profdata" "$counts"/*.profraw

# Each program and library that has counters: the first as itself, the others as -object.
find "$build_dir/tests" -type f -perm -100 ! -path '*/CMakeFiles/*' -exec grep -l __llvm_covmap {} + |
  sort | sed -e 's/.*/"&"/' -e '2,$s/^/-object /' >"$counts/programs"

# It warns of each function that a program has and does not use, though another one does: for every header.
llvm-cov export -format=text -skip-functions -skip-expansions -instr-profile="$counts/all.profdata" \
  "@$counts/programs" "$root/include" >"$counts/all.json" 2>"$counts/export.log" ||
  {
    cat "$counts/export.log" >&2
    exit 1
  }
"$build_dir/tests/coverage/coverage_summary" "$root/include/stepprof" <"$counts/all.json"
