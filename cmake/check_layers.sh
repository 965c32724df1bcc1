#!/bin/sh
# Checks what the headers below <include directory>/stepprof include:  sh cmake/check_layers.sh [<include directory>]
#
#   - of stepprof: only their own folder and folders to the left of it in the order below (timer: core, errors,
#     sorting and printable text only);
#   - core and record, which users compile everywhere: only light standard headers, unusual ones with their reason on
#     the line;
#   - of others: fmt from trace rightwards, nlohmann only in tools, anything else only in adapters.
#
# Prints every offence as <file>:<line>: <what> and fails when there is one.
set -eu
include=${1:-$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)/include}
cd -- "$include/stepprof"

files=$(find . -name '*.hpp' | sort)
if [ -z "$files" ]; then
  echo "check_layers.sh: no headers in $include/stepprof" >&2
  exit 1
fi
echo "$files" | awk '
function words(text, into,    list, i, n) {
  n = split(text, list, " ")
  for (i = 1; i <= n; ++i) into[list[i]] = i
}

# The place of a header in the order: 0 for what everything may use.
function place(header) {
  if (header == "config.hpp" || header == "version.hpp") return 0
  if (header == "record.hpp") return order["record"]
  if (header == "stepprof.hpp") return order["session"]
  sub(/\/.*/, "", header)
  return header in order ? order[header] : -1
}

function offence(text) {
  print "stepprof/" file ":" line_number ": " text
  ++offences
}

function check_own(name) {
  if (place(name) == -1) return offence("<stepprof/" name "> is in none of the folders: " all)
  if (place(name) > here)
    return offence("<stepprof/" name "> stands to the right; include only your own folder and folders to the left: " all)
  if (name == "stepprof.hpp" && here <= order["session"] && file != "stepprof.hpp")
    return offence("<stepprof/stepprof.hpp> is for users; include the headers that you need")
  if (here == order["timer"] && place(name) != here && place(name) > order["core"] && !(name in timer_may))
    offence("<stepprof/" name ">: timer stands on core, errors, sorting and printable text only")
}

function check_light(name, line) {
  if (name in light) return
  if (!(name in light_with_reason)) return offence("<" name "> is too heavy for a header that users include everywhere")
  if (line !~ />[ \t]*\/\/ *[^ ]/) offence("<" name "> needs its reason in a comment on its line")
}

function check_other(name,    owner) {
  owner = name
  if (!sub(/\/.*/, "", owner) || owner == "sys" || owner == "linux") return
  if (owner == "fmt" || here == order["adapters"] || (owner == "nlohmann" && here == order["tools"])) return
  offence("<" name ">: " (owner == "nlohmann" ? "only tools may read JSON" : "other libraries belong to adapters"))
}

function check(line,    name) {
  if (line !~ /^[ \t]*#[ \t]*include/) return
  if (line !~ /^[ \t]*#[ \t]*include[ \t]*</) return offence("include with <...>, so that an installed header finds it")
  name = line
  sub(/^[^<]*</, "", name)
  sub(/>.*/, "", name)
  if (name ~ /^stepprof\//) check_own(substr(name, 10))
  else if (here <= order["record"]) check_light(name, line)
  else check_other(name)
}

BEGIN {
  all = "core record trace analysis output timer session adapters tools"
  words(all, order)
  words("trace/error.hpp trace/stable_sort.hpp output/display_text.hpp", timer_may)
  words("atomic cerrno climits cstddef cstdint cstdlib cstring ctime new type_traits", light)
  words("array cstdio dlfcn.h link.h unwind.h errno.h fcntl.h initializer_list limits linux/futex.h pthread.h sched.h signal.h " \
        "string_view sys/mman.h sys/syscall.h sys/types.h time.h tuple unistd.h utility", light_with_reason)
}

{
  file = substr($0, 3)  # without "./"
  here = place(file)
  line_number = 0
  if (here == -1) offence("not in one of the folders: " all)
  while ((status = (getline line < $0)) > 0) {
    ++line_number
    check(line)
  }
  if (status < 0) offence("cannot be read")
  close($0)
}

END { exit offences > 0 }'
