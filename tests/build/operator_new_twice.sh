#!/bin/sh
# The operators in two sources of a program do not link, in one they do:  operator_new_twice.sh FOLDER COMPILER FLAG...
set -eu
# Catches: operators that are inline, of which the program's own or the library's might be taken without a word.
folder=$1
shift
mkdir -p "$folder"
cd -- "$folder"
printf '#include <stepprof/record/operator_new.hpp>\n' >one.cpp
printf '#include <stepprof/record/operator_new.hpp>\nint main() { delete new int; }\n' >two.cpp
printf 'int main() { delete new int; }\n' >main.cpp
"$@" one.cpp main.cpp -o program
./program
if "$@" one.cpp two.cpp -o program_of_two >output 2>&1; then
  echo "operator_new_twice.sh: two definitions link"
  exit 1
fi
grep -q 'multiple definition' output || { cat output; exit 1; }
