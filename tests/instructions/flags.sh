#!/bin/sh
# What a profile that asks for nothing but scopes pays for memory, shapes and stacks: compares the instructions of a
# program with those of the same program whose flags are compiled out.
#
#   flags.sh PROGRAM PROGRAM_WITHOUT_FLAGS COMPILER
set -eu
# Catches: a flag that is looked at in every scope, recorded or not; an allocation that costs more than a load and a
# branch while nothing records memory.
command -v valgrind >/dev/null 2>&1 || {
  echo "skipped: valgrind is not installed"
  exit 77
}
with=$("$1")
without=$("$2")
printf 'with flags, all off:\n%s\nwithout flags:\n%s\n' "$with" "$without"
value() { printf '%s\n' "$1" | sed -n "s/^$2 //p"; }
# Where there is something to be left out, the gate's word is looked at: once for inputs, in new and in delete. clang
# then has the inputs at hand already.
inputs=6
[ "$3" = GNU ] || inputs=10
status=0
# Equal but for hundredths: where chunks change, where the clock's high half does, and where names lie among others.
for pair in off_plain:0 plain:0.05 nested:0.05 nested4:0.15 named:0.05 manual:0.05 with_argument:0.05 \
  with_inputs:$inputs off_allocation:8 allocation:8; do
  what=${pair%:*}
  awk -v a="$(value "$with" "$what")" -v b="$(value "$without" "$what")" -v most="${pair#*:}" -v what="$what" 'BEGIN {
    less = most < 0.2 ? most + 0.001 : 0.2
    if (b - a > less || a - b > most + 0.001 || a == 0) { print what ": " a " is not within " most " of " b; exit 1 }
  }' || status=1
done
exit $status
