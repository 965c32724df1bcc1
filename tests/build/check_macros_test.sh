#!/bin/sh
# Catches: a check of macros that finds none.
set -eu
check=$(dirname -- "$0")/check_macros.sh
text=$(mktemp "$1/macros.XXXXXX")
trap 'rm -f -- "$text"' EXIT

cat >"$text" <<'END'
# 1 "/usr/include/features.h" 1 3 4
#define OF_THE_SYSTEM 1
# 1 "/a b/include/stepprof/core/x.hpp" 1
#define STEPPROF_FINE 1
#define GONE_AGAIN(x) x
#undef GONE_AGAIN
END
sh "$check" "$text"

echo '#define LEFT_BEHIND(x) x' >>"$text"
if message=$(sh "$check" "$text"); then
  echo "a macro without prefix was not refused"
  exit 1
fi
[ "$message" = "/a b/include/stepprof/core/x.hpp: leaves the macro LEFT_BEHIND" ] || { echo "said: $message"; exit 1; }

echo '# 1 "/usr/include/features.h" 1 3 4' >"$text"
if sh "$check" "$text" >/dev/null; then
  echo "a file without any header of stepprof was accepted"
  exit 1
fi
