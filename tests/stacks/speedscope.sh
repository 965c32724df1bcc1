#!/bin/sh
# Opens a file that PROGRAM writes in npm's speedscope, in headless Chromium, and compares the table that it shows.
#
#   speedscope.sh PROGRAM FOLDER
#
# Catches: a file that speedscope does not take, or in which it finds other times than the trace has.
set -eu
program=$1
folder=$2
version=1.25.0
integrity=sha512-cpf9HWTZf1ijLXBJrk87Ve/54tnYx6rlf0gUThvn3ook6h63hLXVOQiMf44PT+XoV503cPfvfiT5gP5vojp6Ag==

skip() {
  echo "skipped: $1"
  exit 77
}
command -v chromium >/dev/null 2>&1 || skip "chromium is not installed"
command -v npm >/dev/null 2>&1 || skip "npm is not installed"

mkdir -p "$folder"
cd "$folder"
archive=speedscope-$version.tgz
[ -f "$archive" ] || timeout 120 npm pack --silent "speedscope@$version" >npm.log 2>&1 || skip "npm cannot get speedscope: $(cat npm.log)"
found=sha512-$(openssl dgst -sha512 -binary "$archive" | base64 -w0)
[ "$found" = "$integrity" ] || { echo "$archive is not the file that is known: $found"; exit 1; }
rm -rf package && tar xzf "$archive"

# The table of the view "sandwich", a cell to a line, of the profile with this number. The file reaches the page as
# speedscope's own command brings it there.
table() {
  "$program" profile.json
  sed "s/\"activeProfileIndex\":0/\"activeProfileIndex\":$1/" profile.json >shown.json
  printf 'speedscope.loadFileFromBase64("profile.json", "%s")' "$(base64 -w0 shown.json)" >profile.js
  timeout 180 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$folder/browser" \
    --virtual-time-budget=20000 --dump-dom \
    "file://$folder/package/dist/release/index.html#localProfilePath=$folder/profile.js&view=sandwich" \
    2>chromium.log >page.html || { cat chromium.log; exit 1; }
  sed -e 's/<script.*//' -e 's/<[^>]*>/\n/g' page.html | sed -n '/^Symbol Name$/,$p' | sed -e 1d -e '/^ *$/d'
}

expect() {
  table "$1" >found.txt
  if ! diff expected.txt found.txt; then
    echo "speedscope shows another table of profile $1"
    exit 1
  fi
}

# Total, self and name, by self time. 1000 - 300 - 100 = 600; 300 - 50 + 100 = 350.
cat >expected.txt <<'TABLE'
1.00µs (100%)
600.00ns (60%)
step
400.00ns (40%)
350.00ns (35%)
forward
50.00ns (5.0%)
50.00ns (5.0%)
&lt;b&gt;mm&lt;/b&gt;&lt;/script&gt;&amp;"'
TABLE
expect 0

cat >expected.txt <<'TABLE'
1.00 KB (100%)
768 B (75%)
step
256 B (25%)
256 B (25%)
forward
TABLE
expect 1

# mm has no native stack.
cat >expected.txt <<'TABLE'
600.00ns (60%)
600.00ns (60%)
step
350.00ns (35%)
350.00ns (35%)
forward
50.00ns (5.0%)
50.00ns (5.0%)
&lt;b&gt;mm&lt;/b&gt;&lt;/script&gt;&amp;"'
350.00ns (35%)
0.00ns (&lt;0.01%)
run()
950.00ns (95%)
0.00ns (&lt;0.01%)
train()
950.00ns (95%)
0.00ns (&lt;0.01%)
main
TABLE
expect 2
echo "speedscope $version shows the times of the trace"
