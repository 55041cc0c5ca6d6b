# Configures and builds a preset. Sourced by ./run and ./test after tools/packages.sh; the current
# folder is the root of the tree.

# build PRESET WITH_TESTS JOBS [TARGET...]: quiet, unless it fails. Without tests, a folder that was
# configured with them keeps them, so that ./run and ./test share one folder.
build() {
  local preset=$1 with_tests=$2 jobs=$3 folder=build/$1
  shift 3
  mkdir -p "$folder"
  local log=$folder/build.log wanted=() targets=()
  if [[ $with_tests == yes ]]; then
    grep -qsx 'MOORING_TESTS:BOOL=ON' "$folder/CMakeCache.txt" || wanted=(-DMOORING_TESTS=ON)
  elif [[ ! -f $folder/CMakeCache.txt ]]; then
    wanted=(-DMOORING_TESTS=OFF)
  fi
  [[ $# -eq 0 ]] || targets=(--target "$@")
  : >"$log"
  # A configuration that failed leaves a cache but no build.ninja.
  if [[ ${#wanted[@]} -gt 0 || ! -f $folder/build.ninja ]]; then
    say "configuring $folder"
    locked "$folder" cmake --preset "$preset" "${wanted[@]}" >>"$log" 2>&1 || build_failed "$log" || return 1
  fi
  say "building $folder"
  locked "$folder" cmake --build "$folder" -j "$jobs" "${targets[@]}" >>"$log" 2>&1 ||
    build_failed "$log"
}

# Two builds of one folder wait for each other.
locked() {
  local folder=$1
  shift
  if command -v flock >/dev/null; then
    flock "$folder/lock" "$@"
  else
    "$@"
  fi
}

build_failed() {
  tail -n 200 "$1" >&2
  say "the build failed; all of its output is in $1"
  return 1
}
