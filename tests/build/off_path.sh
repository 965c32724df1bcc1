#!/bin/sh
# A scope that is off is one load, one test and one branch: disassembles OBJECT and follows each FUNCTION from its entry to
# its return, taking every branch as it goes when the word that was tested is zero.
#
#   off_path.sh OBJECT FUNCTION...
set -eu
# Catches: a second flag that is looked at, a guard of a static, a call, or a clock read on the off path.
object=$1
shift
for function in "$@"; do
  objdump -d --no-show-raw-insn "$object" | awk -v wanted="<$function>:" '
  $2 == wanted { inside = 1; next }
  /^[0-9a-f]+ </ { inside = 0 }
  inside && NF > 1 {
    address = $1
    sub(/:$/, "", address)
    place[address] = ++total
    op[total] = $2
    target[total] = $3
    line[total] = $0
  }
  END {
    for (at = 1; at >= 1 && at <= total && steps++ < 100 && op[at] !~ /^ret/; at = next_at) {
      next_at = at + 1
      if (op[at] == "endbr64" || op[at] ~ /^nop/) continue
      text = text "\n  " line[at]
      if (op[at] ~ /^(push|pop)/ || (op[at] ~ /^(add|sub)/ && line[at] ~ /,%rsp$/)) continue  # clang saves registers first
      if (op[at] == "jmp") { next_at = place[target[at]]; continue }
      count++
      if (op[at] ~ /^(je|jz)$/) next_at = place[target[at]]
      if (op[at] ~ /^j/) branches++
      if (op[at] ~ /^(test|cmp)/) tests++
      if (line[at] ~ /\(%/) loads++
      if (op[at] ~ /^(call|rdtsc|lock|xchg|mfence)/) forbidden++
    }
    printf "the off path of %s%s\n", wanted, text
    # As one instruction (cmpl $0, gate) or two (mov gate, reg; test reg, reg).
    if (op[at] !~ /^ret/ || loads != 1 || tests != 1 || branches != 1 || forbidden || count > 3) {
      printf "not one load, one test and one branch: %d instructions, %d loads, %d tests, %d branches\n",
             count, loads, tests, branches
      exit 1
    }
  }'
done
