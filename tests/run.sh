#!/bin/sh
# Builds the tests and runs all of them; what is missing to do so is installed first (Debian and Ubuntu).
#
#   sh tests/run.sh [--preset NAME] [arguments of ctest...]        e.g. sh tests/run.sh -R trace
#
# The presets are in CMakePresets.json. With CI=true, a test that was skipped or did not run is a failure.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
. "$root/cmake/build.sh"

preset=default
if [ "${1-}" = --preset ]; then
  preset=${2:?--preset needs a name}
  shift 2
fi

needs="compiler cmake ninja fmt json catch2 eigen zlib"
wishes="isal torch elfutils libunwind perf npm chromium spin multilib i386"
case $preset in
  clang) needs="clang $needs" ;;
  clang-newest) needs="clang $needs" wishes="clang-newest" ;;
  32bits) needs="multilib i386 $needs" wishes="" ;;
  asan | fuzz) needs="clang-sanitizers $needs" ;;
  coverage) needs="clang-coverage $needs" ;;
esac
# shellcheck disable=SC2086
sh "$root/cmake/install-dependencies.sh" $needs --wish $wishes

build "$preset"

# ThreadSanitizer of older compilers cannot start where the kernel randomises more address bits than it knows.
fixed_addresses=
if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
  fixed_addresses="setarch $(uname -m) -R"
fi

# What earlier runs counted would count again.
[ "$preset" != coverage ] || rm -rf -- "$build_dir/coverage"

status=0
$fixed_addresses ctest --test-dir "$build_dir" --output-on-failure --no-tests=error -j "$(processors)" \
  -O "$build_dir/ctest.log" "$@" || status=$?
if [ "${CI-}" = true ] && grep -q 'The following tests did not run' "$build_dir/ctest.log"; then
  echo "stepprof: in CI every test has to run" >&2
  [ "$status" -ne 0 ] || status=1
fi
if [ "$preset" = coverage ]; then sh "$root/tests/coverage/show.sh" "$build_dir" || status=$?; fi
exit "$status"
