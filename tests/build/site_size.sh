#!/bin/sh
# The hot code of a call site is small: compares the sizes of two functions of OBJECT that are eight sites apart.
#
#   site_size.sh OBJECT
set -eu
# Catches: an end that is inlined into every call site, and slow paths among the hot code.
size_of() { nm -S --defined-only "$1" | awk -v name="$2" '$4 == name { print "0x" $2 }'; }
one=$(size_of "$1" one_site)
nine=$(size_of "$1" nine_sites)
bytes=$(((nine - one) / 8))
# Where the compiler leaves the calls of the slow paths behind the hot code instead of in a section of their own, they
# are counted, too.
limit=120
nm "$1" | grep -q 'nine_sites\.cold' || limit=200
echo "a call site takes $bytes bytes, at most $limit are allowed"
[ "$bytes" -gt 40 ] && [ "$bytes" -le "$limit" ]
