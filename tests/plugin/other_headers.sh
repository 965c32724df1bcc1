# other_headers.sh <include> <copy> <sed expression>: a copy of the headers in which version.hpp is edited.
set -e
rm -rf "$2"
mkdir -p "$2"
cp -R "$1/." "$2"
sed "$3" "$1/stepprof/version.hpp" > "$2/stepprof/version.hpp"
if cmp -s "$1/stepprof/version.hpp" "$2/stepprof/version.hpp"; then
  echo "the expression changes nothing: $3" >&2
  exit 1
fi
