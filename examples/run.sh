#!/bin/sh
# Builds the example of the folder training, trains its model under the profiler, prints the tables and writes trace.json
# into the current directory. What is missing to do so is installed first (Debian and Ubuntu).
#
#   sh examples/run.sh [arguments of the program...]               e.g. sh examples/run.sh --backward-thread
#   sh examples/run.sh torch_training [FILE]                       the same network on libtorch, which is installed first
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
. "$root/cmake/build.sh"

program=training
needs="eigen"
if [ "${1-}" = torch_training ]; then
  program=$1
  needs="torch --wish openblas"
  shift
fi
# shellcheck disable=SC2086
sh "$root/cmake/install-dependencies.sh" compiler cmake ninja fmt json $needs
build examples "$program" >&2

if [ ! -w . ]; then
  cd -- "$build_dir"  # a directory of somebody else: the trace goes where we may write
fi
echo "Running in $(pwd -P)"
exec "$build_dir/examples/$program/$program" "$@"
