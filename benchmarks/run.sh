#!/bin/sh
# Builds the benchmarks, optimised, runs all of them and prints one table: each line a figure, and a baseline that was
# measured in turn with it. What is missing to build them is installed first (Debian and Ubuntu).
#
#   sh benchmarks/run.sh [--json FILE] [--quick] [PROGRAM...]      e.g. sh benchmarks/run.sh scope_cost
#
# --json writes the lines as a list of {name, value, unit, baseline, baseline_value, ratio, target}; ratio is value by
# baseline_value. --quick repeats less, to see that all of it runs.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
. "$root/cmake/build.sh"

json=
quick=
programs=
while [ $# -gt 0 ]; do
  case $1 in
    --json)
      json=${2:?--json needs the name of a file}
      shift
      ;;
    --quick) quick=--quick ;;
    -*)
      echo "run.sh: there is no '$1'; there are: --json FILE, --quick" >&2
      exit 2
      ;;
    *) programs="$programs $1" ;;
  esac
  shift
done
all=$(cd -- "$root/benchmarks" && ls -- *.cpp | sed 's/\.cpp$//')
for program in $programs; do
  if [ ! -f "$root/benchmarks/$program.cpp" ]; then
    echo "run.sh: there is no benchmark '$program'; there are:" $all >&2
    exit 2
  fi
done

sh "$root/cmake/install-dependencies.sh" compiler cmake ninja fmt json eigen zlib --wish isal torch openblas
# shellcheck disable=SC2086
build benchmarks ${programs:-} >&2

lines=$(mktemp)
trap 'rm -f -- "$lines"' EXIT
header=
for program in ${programs:-$all}; do
  if [ ! -x "$build_dir/benchmarks/$program" ]; then
    echo "run.sh: $program was not built: what it measures is not installed" >&2
    continue
  fi
  # shellcheck disable=SC2086
  "$build_dir/benchmarks/$program" --lines "$lines" $quick $header
  header=--no-header
done
if [ -n "$json" ]; then
  { echo '['; sed '$!s/$/,/' "$lines"; echo ']'; } >"$json"
fi
