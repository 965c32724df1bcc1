#!/bin/sh
# Catches: a macro without the STEPPROF_ prefix that a header leaves behind.
# check_macros.sh <file>: the file is preprocessed text with line markers and #defines (-E -dD).
set -eu
awk '
/^# [0-9]+ "/ {
  file = $0
  sub(/^# [0-9]+ "/, "", file)
  sub(/".*/, "", file)
  ours = file ~ /\/include\/stepprof\//
  seen += ours
}
/^#define / && ours { name = $2; sub(/\(.*/, "", name); if (name !~ /^STEPPROF_/) left[name] = file }
/^#undef / { delete left[$2] }
END {
  if (!seen) { print "no header of stepprof in this file"; exit 1 }
  for (name in left) { print left[name] ": leaves the macro " name; bad = 1 }
  exit bad
}' "$1"
