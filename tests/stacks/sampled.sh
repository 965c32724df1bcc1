#!/bin/sh
# Runs PROGRAM under perf, which samples where it is, and compares the shares of its functions with those that the scopes
# of the same run have as self time in its folded stacks.
#
#   sampled.sh PROGRAM FOLDER
#
# Catches: self times that hold the time of inner scopes, or what recording costs, and stacks that are booked to another
# function. Chance may put a share off on a busy machine, but not three times in a row.
set -eu
program=$1
folder=$2
limit=3 # percentage points, for every function with more than 5 %

command -v perf >/dev/null 2>&1 || {
  echo "skipped: perf is not installed"
  exit 77
}
mkdir -p "$folder"
cd "$folder"

compare() {
  if ! timeout 200 perf record -q -e cpu-clock -F 1999 -g -o perf.data "$program" folded.txt 2000 >perf.log 2>&1; then
    echo "skipped: perf may not sample here: $(cat perf.log)"
    exit 77
  fi
  perf report -i perf.data --no-children -g none --stdio -F sample,symbol 2>/dev/null |
    awk '/^ *[0-9]/ { name = $3; sub(/\(.*/, "", name); print name, $1 }' >sampled.txt
  awk -v limit=$limit '
    FNR == NR { sampled[$1] += $2; next }
    {
      weight = $NF
      sub(/ [0-9]+$/, "")
      name = $0
      sub(/.*;/, "", name)
      scoped[name] += weight
      all_scoped += weight
    }
    END {
      for (name in scoped) all_sampled += sampled[name]
      if (all_sampled < 1000) { print "only " all_sampled + 0 " samples"; exit 1 }
      for (name in scoped) {
        ours = 100 * scoped[name] / all_scoped
        theirs = 100 * sampled[name] / all_sampled
        off = ours > theirs ? ours - theirs : theirs - ours
        large += ours > 5 || theirs > 5
        printf "%-12s %5.1f %% of the self time, %5.1f %% of %d samples\n", name, ours, theirs, all_sampled
        if ((ours > 5 || theirs > 5) && off > limit) bad = 1
      }
      if (large < 5) { print "there are not five functions with more than 5 %"; exit 1 }
      exit bad
    }' sampled.txt folded.txt
}

for attempt in 1 2 3; do
  echo "run $attempt:"
  if compare; then exit 0; fi
done
echo "the shares are more than $limit percentage points apart"
exit 1
