#!/bin/sh
# Every piece of C++ in README.md is a source that is compiled and run: compares them, line by line.
#
#   check_readme.sh ROOT
#
# A piece follows a comment `<!-- FILE -->` (the whole file) or `<!-- FILE: NAME -->` (what stands between the lines
# `// [NAME]` and `// [/NAME]` of it, with its indentation taken off).
set -eu
# Catches: a README whose code is not the code that is tested.
cd -- "$1"
awk '
  function indentation(line) { match(line, /^ */); return RLENGTH }
  function load(file, name,   line, on, least, i) {
    count = 0; on = name == ""
    while ((getline line < file) > 0) {
      if (name != "" && line ~ "// \\[/" name "\\]") on = 0
      if (on) source[++count] = line
      if (name != "" && line ~ "// \\[" name "\\]") on = 1
    }
    close(file)
    least = 1000
    for (i = 1; i <= count; i++) if (source[i] != "" && indentation(source[i]) < least) least = indentation(source[i])
    for (i = 1; i <= count; i++) source[i] = substr(source[i], least + 1)
  }
  function fail(text) { print "README.md:" NR ": " text; failed = 1 }
  /^<!-- [^ ]+\.cpp(: [a-z_]+)? -->$/ {
    file = $2; name = ""
    if (file ~ /:$/) { sub(/:$/, "", file); name = $3 }
    load(file, name)
    if (count == 0) fail("there is no such source: " $0)
    known = 1; next
  }
  /^```cpp$/ {
    if (!known) fail("this piece of C++ does not say which source it is")
    inside = 1; at = 0; pieces++; next
  }
  /^```/ {
    if (inside && known && at != count) fail("the source has " count " lines, this piece " at)
    inside = 0; known = 0; next
  }
  inside && known { at++; if ($0 != source[at]) fail("differs from " file ", which has: " source[at]) }
  END { if (pieces == 0) { print "README.md: no piece of C++ found"; failed = 1 } exit failed }
' README.md
