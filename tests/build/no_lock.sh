#!/bin/sh
# What marks a region never waits: no instruction of OBJECT locks the bus, exchanges with memory or calls the system.
#
#   no_lock.sh OBJECT
set -eu
# Catches: a mutex, an atomic increment or a guard of a static on the path of a scope.
code=$(objdump -d -C --no-show-raw-insn "$1" | sed -n '/^[0-9a-f]* </,/^$/p')
for needed in '<one_site>:' 'detail::end_scope<'; do
  case $code in
    *"$needed"*) ;;
    *) echo "there is no $needed in $1" && exit 1 ;;
  esac
done
if echo "$code" | grep -E '[[:space:]](lock|xchg|cmpxchg|xadd|mfence|syscall)[[:space:]]' | grep -v 'xchg  *%ax,%ax'; then
  echo "a scope must not wait for anybody"
  exit 1
fi
