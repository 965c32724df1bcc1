#!/bin/sh
# Catches: a check of layers that lets a bad tree pass, or names the wrong line.
set -eu
check=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)/cmake/check_layers.sh
tree=$(mktemp -d "$1/layers of a tree.XXXXXX")
trap 'rm -rf -- "$tree"' EXIT
failures=0

# header <name> <line>...: the only header of the tree, with its first line left empty
header() {
  rm -rf -- "$tree/stepprof"
  mkdir -p -- "$tree/stepprof/$(dirname -- "$1")"
  file=$tree/stepprof/$1
  shift
  printf '%s\n' '' "$@" >"$file"
}
accepted() {
  header "$@"
  if ! message=$(sh "$check" "$tree"); then
    echo "refused, but is right: $*"
    echo "  $message"
    failures=1
  fi
}
# refused <words of the message> <header> <line>
refused() {
  words=$1
  shift
  header "$@"
  if message=$(sh "$check" "$tree"); then
    echo "accepted, but is wrong: $*"
    failures=1
  fi
  case $message in
    "stepprof/$1:2: "*"$words"*) ;;
    *)
      echo "wrong message for $*"
      echo "  $message"
      failures=1
      ;;
  esac
}

# Own folder, folders to the left, and the headers that everything may use.
accepted trace/a.hpp '#include <stepprof/core/b.hpp>' '#include <stepprof/record.hpp>' '#include <stepprof/trace/b.hpp>' \
  '#include <stepprof/config.hpp>' '#include <fmt/format.h>' '#include <chrono>'
accepted tools/a.hpp '#include <nlohmann/json.hpp>' '#include <stepprof/stepprof.hpp>' '#include <stepprof/session/b.hpp>'
accepted adapters/a.hpp '#include <torch/torch.h>'
accepted session/a.hpp '#include <stepprof/timer/b.hpp>'
accepted stepprof.hpp '#include <stepprof/session/b.hpp>' '#include <stepprof/output/b.hpp>'
accepted record.hpp '#include <stepprof/record/b.hpp>'
accepted core/a.hpp '#include <atomic>' '#include <sys/mman.h>  // the pool is mapped memory'
accepted timer/a.hpp '#include <stepprof/core/clock.hpp>' '#include <stepprof/trace/error.hpp>' \
  '#include <stepprof/output/display_text.hpp>'

# To the right.
refused 'to the right' core/a.hpp '#include <stepprof/record/b.hpp>'
refused 'to the right' core/a.hpp '#include <stepprof/record.hpp>'
refused 'to the right' record/a.hpp '  #  include  <stepprof/trace/trace.hpp>'
refused 'to the right' analysis/a.hpp '#include <stepprof/output/b.hpp>'
refused 'to the right' output/a.hpp '#include <stepprof/stepprof.hpp>'
refused 'to the right' version.hpp '#include <stepprof/core/b.hpp>'
refused 'to the right' stepprof.hpp '#include <stepprof/tools/b.hpp>'
refused 'for users' session/a.hpp '#include <stepprof/stepprof.hpp>'
refused 'timer stands on' timer/a.hpp '#include <stepprof/trace/trace.hpp>'
refused 'timer stands on' timer/a.hpp '#include <stepprof/output/units.hpp>'

# A folder that nobody decided on.
refused 'none of the folders' trace/a.hpp '#include <stepprof/utils/b.hpp>'
header utils/a.hpp ''
if sh "$check" "$tree" >/dev/null; then
  echo "a header in an unknown folder was accepted"
  failures=1
fi

# Other people's headers.
refused 'too heavy' core/a.hpp '#include <chrono>'
refused 'too heavy' core/a.hpp '#include <string>  // even with a reason'
refused 'too heavy' record/a.hpp '#include <fmt/format.h>'
refused 'too heavy' record.hpp '#include <mutex>'
refused 'reason' core/a.hpp '#include <sys/mman.h>'
refused 'only tools' output/a.hpp '#include <nlohmann/json.hpp>'
refused 'belong to adapters' session/a.hpp '#include <Eigen/Core>'
refused 'include with <...>' trace/a.hpp '#include "trace.hpp"'

rm -rf -- "$tree/stepprof"/*
if sh "$check" "$tree" 2>/dev/null; then
  echo "a tree without headers was accepted"
  failures=1
fi
exit "$failures"
