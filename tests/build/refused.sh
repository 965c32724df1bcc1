#!/bin/sh
# What must not compile, and what the compiler has to say to it:  refused.sh SOURCE COMPILER FLAG...
set -eu
# Catches: a mistake that compiles and then loses what was meant, or that ends in pages about the inside of the library.
source=$1
shift
compile() { "$@" -fsyntax-only -Wall -Wextra -Werror "$source" 2>&1; }
if ! output=$(compile "$@"); then
  echo "$output"
  echo "refused.sh: what is right does not compile"
  exit 1
fi
cases=$(sed -n 's|^#\(el\)\{0,1\}if REFUSED == \([0-9]*\)  // .*|\2|p' "$source")
[ -n "$cases" ]
for number in $cases; do
  text=$(sed -n "s|^#.*if REFUSED == $number  // ||p" "$source")
  if output=$(compile "$@" "-DREFUSED=$number"); then
    echo "refused.sh: case $number compiles"
    exit 1
  fi
  if ! echo "$output" | grep -qF -- "$text"; then
    echo "$output"
    echo "refused.sh: case $number does not say: $text"
    exit 1
  fi
done
