#!/bin/sh
# Catches: memory reported by hand in an op, or parts of the network that know of a schedule or a profile.
#
#   check_sources.sh FOLDER          the folder of the training example
set -eu
cd -- "$1"
status=0
# only FILE PATTERN: no other source matches, and this one does
only() {
  found=$(grep -lwE -e "$2" -- *.hpp *.cpp || true)
  [ "$found" = "$1" ] || { echo "only $1 should have '$2', found in:" $found; status=1; }
}
only storage.hpp 'report_alloc|report_free'
only main.cpp 'stepprof/stepprof.hpp|schedule|step_schedule|profile|profile_options|key_averages'
exit $status
