#!/usr/bin/env bash
# Kills a process that writes turns into the store, again and again, at points of its disk and at
# any time, and counts what was acknowledged and lost (none may be).
#
#   bench/store_kills.sh [CYCLES]     default: 1000; needs ./test --build-only
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
cycles=${1:-1000}
test=build/release/talk_test
[[ -x $test ]] || { echo "store_kills.sh: no $test; run ./test --build-only first" >&2; exit 1; }
start=$SECONDS
MOORING_TEST_KILLS=$cycles "$test" --gtest_filter='StoreWeatherTest.KillsLoseNothingThatWasAcknowledged' \
  --gtest_brief=1
echo "$cycles kills in $((SECONDS - start)) s: every acknowledged turn was there, whole"
