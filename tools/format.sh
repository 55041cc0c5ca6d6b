#!/usr/bin/env bash
# Formats every C++ file in place; with --check says which differ and fails.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
mode=(-i)
[[ ${1:-} != --check ]] || mode=(--dry-run -Werror)
find src eval bench tests \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 -P 2 -n 20 clang-format "${mode[@]}"
