#!/bin/sh
# Catches: min and max that a macro of that name would replace; other words that windows.h defines.
# FC-69: https://github.com/catchorg/Catch2/issues/1772
#
#   hostile_names.sh FOLDER    all headers in it
set -eu
code=$(find "$1" -name '*.hpp' -exec sed -e 's|//.*||' -e 's|"[^"]*"||g' {} +)
[ -n "$code" ] || {
  echo "no header in $1"
  exit 1
}
found=$(printf '%s\n' "$code" |
  grep -nwE '::(min|max) *\(|small|near|far|interface|ERROR|IN|OUT|Yield|DELETE|CONST|VOID|TRUE|FALSE|NO_ERROR' || true)
[ -z "$found" ] || {
  printf '%s\n' "$found"
  exit 1
}
