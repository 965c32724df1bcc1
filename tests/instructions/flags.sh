#!/bin/sh
# Compares what two programs print: with the code for the flags of a recording and without it.
#
#   flags.sh WITH WITHOUT
#
# Catches: an instruction that every scope pays for shapes, memory or stacks that nobody records.
set -eu
command -v valgrind >/dev/null 2>&1 || {
  echo "skipped: valgrind is not installed"
  exit 77
}
with=$("$1")
without=$("$2")
echo "with the flags' code:"
echo "$with"
echo "without:"
echo "$without"
# A name's place among others, and what a cache holds, are not the same in two programs: that moves hundredths.
printf '%s\n%s\n' "$with" "$without" | awk '
  $1 in count { off = $2 - count[$1]; if (off > 0.05 || off < -0.05) { print $1 ": " off " more"; bad = 1 } ++compared; next }
  { count[$1] = $2 }
  END { exit bad || compared != 5 }'
