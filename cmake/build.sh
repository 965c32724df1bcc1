# Read by the scripts that build (". cmake/build.sh"), with `root` set to the top of the tree.
# shellcheck shell=sh disable=SC2154

# Sets build_dir to where the preset is built: build/<preset>, or a directory of the user's own when another user owns
# the tree or has built there. STEPPROF_BUILD_ROOT replaces build/.
choose_build_dir() {
  build_dir=${STEPPROF_BUILD_ROOT:-$root/build}/$1
  if [ -z "${STEPPROF_BUILD_ROOT-}" ]; then
    probe=$build_dir
    while [ ! -e "$probe" ]; do probe=$(dirname -- "$probe"); done
    if [ ! -w "$probe" ] || { [ -e "$build_dir/CMakeCache.txt" ] && [ ! -O "$build_dir/CMakeCache.txt" ]; }; then
      build_dir=$(own_directory)/$1
    fi
  fi
}

# One directory per user and tree; never one that somebody else made.
own_directory() {
  tree=$(printf '%s' "$root" | cksum | cut -d ' ' -f 1)
  own=${TMPDIR:-/tmp}/stepprof-$(id -u)
  if ! mkdir -p -m 700 -- "$own" || [ ! -O "$own" ]; then
    echo "stepprof: cannot use $own; set STEPPROF_BUILD_ROOT to a directory of your own" >&2
    exit 1
  fi
  echo "$own/$tree"
}

processors() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# Configures where needed and builds: build <preset> [<target>...]
build() {
  preset=$1
  shift
  choose_build_dir "$preset"
  if ! grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build_dir/CMakeCache.txt"; then
    (cd -- "$root" && cmake --fresh --preset "$preset" -B "$build_dir")  # new, or the tree has moved
  elif [ ! -e "$build_dir/build.ninja" ] || [ "$root/CMakePresets.json" -nt "$build_dir/build.ninja" ]; then
    (cd -- "$root" && cmake --preset "$preset" -B "$build_dir")
  fi
  cmake --build "$build_dir" -j "$(processors)" ${1+--target "$@"}
}
