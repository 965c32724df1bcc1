#!/bin/sh
# Writes a header of stepprof together with everything that it includes from stepprof, as one file:
#
#   sh cmake/single_header.sh stepprof.hpp OUTPUT       (needs fmt)
#   sh cmake/single_header.sh record.hpp OUTPUT         (needs nothing)
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
header=${1:?usage: single_header.sh HEADER OUTPUT, with HEADER relative to include/stepprof}
output=${2:?usage: single_header.sh HEADER OUTPUT}
mkdir -p -- "$(dirname -- "$output")"
exec >"$output"

sed -e 's|^|// |' -e 's| *$||' "$root/LICENSE"
printf '#pragma once\n'
STEPPROF_INCLUDE="$root/include/" STEPPROF_HEADER="stepprof/$header" exec awk '
function paste(name,    path, line, status) {
  if (name in pasted) return
  pasted[name] = 1
  path = ENVIRON["STEPPROF_INCLUDE"] name
  while ((status = (getline line < path)) > 0) {
    if (line ~ /^[ \t]*#[ \t]*pragma[ \t]+once/) continue
    if (line ~ /^[ \t]*#[ \t]*include[ \t]*<stepprof\//) {
      sub(/^[^<]*</, "", line)
      sub(/>.*/, "", line)
      paste(line)
    } else {
      print line
    }
  }
  if (status < 0) {
    print "single_header.sh: cannot read " path | "cat >&2"
    exit failed = 1
  }
  close(path)
}
BEGIN { paste(ENVIRON["STEPPROF_HEADER"]) }
END { exit failed }'
