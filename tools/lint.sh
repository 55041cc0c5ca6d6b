#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over the program's sources; any finding fails.
#
#   tools/lint.sh [FILE.cc...]     default: all of them, tests and peers apart
#
# Needs build/release/compile_commands.json (./test --build-only writes it). Headers are checked
# through the files that include them.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
database=build/release/compile_commands.json
if [[ ! -f $database ]]; then
  echo "lint.sh: no $database; run ./test --build-only first" >&2
  exit 1
fi
if [[ $# -eq 0 ]]; then
  # The peers are not built with the rest and follow other libraries' names.
  mapfile -t files < <(find src eval bench -name '*.cc' ! -name '*_test.cc' ! -path 'bench/peers/*' | sort)
  set -- "${files[@]}"
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs database

# Long files first, so that both cores end together. A file that the build does not know (an
# optional program) has no flags to be read with.
lint_one() {
  grep -qF "/$1\"" "$database" || { echo "$1: not in the build, passed over"; return 0; }
  local log="$logs/${1//\//_}"
  if ! clang-tidy -p build/release --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-error "$1" >"$log" 2>"$log.err"; then
    # The counts of suppressed warnings are no finding.
    cat "$log"
    grep -v 'warnings\? generated\|warnings\? treated\|^Suppressed\|^Use -' "$log.err" || true
    return 1
  fi
}
export -f lint_one
status=0
wc -c "$@" | sort -rn | awk '$2 != "total" {print $2}' |
  xargs -P "${LINT_JOBS:-2}" -I{} bash -c 'lint_one "$1"' lint {} || status=1
if [[ $status -eq 0 ]]; then
  echo "lint: $# files are clean"
else
  echo "lint: findings above" >&2
fi
exit "$status"
