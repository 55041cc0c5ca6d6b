#!/bin/sh
# Fails when an object file built for a newer instruction set holds a symbol that the linker could
# choose over another file's copy (weak or unique): such a copy would then run on older machines.
# usage: check_isa_symbols.sh OBJECT...   (others than cpu/avx*.cc are passed over)
set -eu
checked=0
for object in "$@"; do
  case "$object" in
    */cpu/avx*.o) ;;
    *) continue ;;
  esac
  checked=$((checked + 1))
  shared=$(nm --demangle "$object" | grep -E '^[0-9a-f]* +[WwVvu] ' || true)
  if [ -n "$shared" ]; then
    echo "$object holds symbols that may replace another file's:"
    echo "$shared"
    exit 1
  fi
done
if [ "$checked" -eq 0 ]; then
  echo "no object file of cpu/avx*.cc was given"
  exit 1
fi
echo "checked $checked object files"
