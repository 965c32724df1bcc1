#!/bin/sh
# The command of README.md, in a place where its folder does not exist:  single_header_test.sh ROOT SCRATCH
set -eu
# Catches: a script that fails because the folder of its output is missing.
work=$(mktemp -d "$2/single_header.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd -- "$work"
sh "$1/cmake/single_header.sh" stepprof.hpp out/new/stepprof.hpp
sh "$1/cmake/single_header.sh" record.hpp record.hpp
grep -q 'class profile' out/new/stepprof.hpp
grep -q 'STEPPROF_SCOPE' record.hpp
