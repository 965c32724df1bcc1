#!/bin/sh
# Explores every state of recorder.pml with spin, then once more for each known fault, which has to be found.
#
#   check.sh FOLDER
set -eu
models=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
folder=${1:?check.sh needs a folder to work in}
for tool in spin cc; do
  command -v "$tool" >/dev/null 2>&1 || {
    echo "skipped: $tool is not installed"
    exit 77
  }
done
mkdir -p -- "$folder"
cd -- "$folder"

# explore NAME DEFINITION...: prints what was explored; 1 when an assertion failed or a process waits for ever.
explore() {
  name=$1
  shift
  rm -rf -- "$name"
  mkdir -- "$name"
  (
    cd -- "$name"
    spin "$@" -a "$models/recorder.pml" >spin.txt
    cc -O2 -w -DSAFETY -DVECTORSZ=2048 -DCOLLAPSE -o checker pan.c
    ./checker -m1000000 >result.txt 2>&1
  )
  result=$name/result.txt
  if grep -q 'error: max search depth too small' "$result" || ! grep -q 'State-vector' "$result"; then
    cat "$result" >&2
    exit 1
  fi
  states=$(sed -n 's/^ *\([0-9][0-9.e+]*\) states, stored.*/\1/p' "$result")
  if grep -q 'errors: 0' "$result"; then
    echo "$name: $states states, no fault"
    return 0
  fi
  echo "$name: found after $states states: $(sed -n 's/^pan:[0-9]*: //p' "$result" | head -n 1)"
  return 1
}

status=0
explore drop_newest || status=1
explore ring -DRING -DCHUNKS=2 -DBEGINS=6 || status=1

# has_to_be_found FAULT DEFINITION...
has_to_be_found() {
  fault=$1
  shift
  if explore "$fault" "-D$fault" "$@"; then
    echo "$fault was put into the model and not found" >&2
    status=1
  fi
}
has_to_be_found FAULT_NO_ROOM_FOR_THE_END
has_to_be_found FAULT_TAKES_THE_CURRENT_CHUNK
has_to_be_found FAULT_FOLLOWS_A_LINK_OF_A_FREED_CHUNK
has_to_be_found FAULT_DOES_NOT_HOLD -DRING -DCHUNKS=2 -DBEGINS=6
has_to_be_found FAULT_OVERWRITES_WHAT_IS_READ -DRING -DCHUNKS=2 -DBEGINS=6
has_to_be_found FAULT_TELLS_CHUNKS_BY_NUMBER -DRING -DCHUNKS=2 -DBEGINS=6
exit $status
