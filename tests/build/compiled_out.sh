#!/bin/sh
# With the profiler compiled out a scope is nothing: `marked` in OBJECT is a return.
#
#   compiled_out.sh OBJECT
set -eu
# Catches: a load of the gate, a call site or a guard that stays behind STEPPROF_DISABLE.
objdump -d --no-show-raw-insn "$1" | awk '
  /^[0-9a-f]+ <marked>:/ { inside = 1; next }
  /^[0-9a-f]+ </ { inside = 0 }
  inside && NF > 1 && $2 !~ /^(endbr64|nop|xchg|data16|cs)/ { text = text "\n  " $0; count++; op = $2 }
  END {
    printf "compiled out:%s\n", text
    if (count != 1 || op !~ /^ret/) { print "not just a return"; exit 1 }
  }'
if nm "$1" | grep -i stepprof; then
  echo "symbols of the profiler are left" && exit 1
fi
