#!/bin/sh
# The clock that a program chooses is the one it reads: with the ordered one every reading in OBJECT waits first.
#
#   ordered_clock.sh OBJECT
set -eu
# Catches: STEPPROF_CLOCK that is not looked at, and a fence that the compiler moves away from its reading.
objdump -d --no-show-raw-insn "$1" | awk '
  NF > 1 && $1 ~ /^[0-9a-f]+:$/ {
    if ($2 == "rdtsc") { readings++; ordered += before == "lfence" }
    before = $2
  }
  END {
    printf "%d readings of the counter, %d directly behind a fence\n", readings, ordered
    exit !(readings >= 2 && ordered == readings)
  }'
