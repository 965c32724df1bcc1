#!/bin/sh
# What a profile that asks for nothing but scopes pays for memory, shapes and stacks: compares the instructions of a
# program with those of the same program whose flags are compiled out.
#
#   flags_off.sh PROGRAM PROGRAM_WITHOUT_FLAGS
set -eu
# Catches: a flag that is looked at in every scope, recorded or not; an allocation that costs more than a load and a
# branch while nothing records memory.
command -v valgrind >/dev/null 2>&1 || exit 77
with=$("$1")
without=$("$2")
printf 'with flags, all off:\n%s\nwithout flags:\n%s\n' "$with" "$without"
value() { printf '%s\n' "$1" | sed -n "s/^$2 //p"; }
status=0
# Equal but for the changes of chunks, which fall among the runs that are counted or behind them.
# Where there is something to be left out, the gate's word is looked at: once for inputs, in new and in delete.
# An argument goes through a cold path that the compiler arranges otherwise where the one with stacks comes to nothing.
for pair in off_plain:0 plain:0.2 nested:0.2 named:0.2 with_argument:3 with_inputs:12 off_allocation:8 allocation:8; do
  what=${pair%:*}
  awk -v a="$(value "$with" "$what")" -v b="$(value "$without" "$what")" -v most="${pair#*:}" -v what="$what" 'BEGIN {
    if (b - a > 0.2 || a - b > most + 0.001 || a == 0) { print what ": " a " is not within " most " of " b; exit 1 }
  }' || status=1
done
exit $status
