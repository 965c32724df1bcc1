#!/bin/sh
# A scope that is off is one load, one test and one branch: disassembles OBJECT and looks at the way from the entry of
# `marked` to its first return, which is the way taken when no conditional branch is.
#
#   off_path.sh OBJECT
set -eu
# Catches: a second flag that is looked at, a guard of a static, a call, or a clock read on the off path.
objdump -d --no-show-raw-insn "$1" | awk '
  /^[0-9a-f]+ <marked>:/ { inside = 1; next }
  inside && NF > 1 {
    op = $2
    if (op == "endbr64") next
    if (op ~ /^ret/) { done = 1; exit }
    text = text "\n  " $0
    if (op ~ /^(push|pop)/ || (op ~ /^(add|sub)/ && $0 ~ /,%rsp$/)) next  # clang saves registers before it looks
    count++
    if (op ~ /^j/) { branches++; next }
    if (op ~ /^(test|cmp)/) tests++
    if ($0 ~ /\(%/) loads++
    if (op ~ /^(call|rdtsc|lock|xchg|mfence)/) forbidden++
  }
  END {
    printf "the off path:%s\n", text
    # As one instruction (cmpl $0, gate) or two (mov gate, reg; test reg, reg).
    if (!done || loads != 1 || tests != 1 || branches != 1 || forbidden || count > 3) {
      printf "not one load, one test and one branch: %d instructions, %d loads, %d tests, %d branches\n",
             count, loads, tests, branches
      exit 1
    }
  }'
