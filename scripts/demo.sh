#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, builds, and runs the main job: softmax and matmul through the compiler, checked against a host reference.
#   With a GPU:    both at real sizes on it.
#   Without a GPU: both at small sizes on the interpreter, and their PTX assembled for sm_90a when ptxas is there.
# Usage: scripts/demo.sh [--device=gpu|interpreter]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

device=auto
for argument in "$@"; do
  case $argument in
    --device=gpu | --device=interpreter) device=${argument#--device=} ;;
    *) printf 'usage: scripts/demo.sh [--device=gpu|interpreter]\n' >&2; exit 2 ;;
  esac
done

hasGpu() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || { command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }; }
if [ "$device" = auto ]; then
  if hasGpu; then device=gpu; else device=interpreter; fi
fi

jobs=(02_softmax 04_matmul)

assemble() {
  local name ptx
  mkdir -p "$buildDir/demo"
  for name in "${jobs[@]}"; do
    ptx="$buildDir/demo/$name.ptx"
    rm -f "$ptx"
    "$buildDir/bin/$name" --emit=ptx --arch=sm_90a --out="$ptx" || return
    [ -s "$ptx" ] || die "$name wrote no PTX to $ptx"
    "$SECTILE_PTXAS" --gpu-name=sm_90a --warn-on-spills -o "$buildDir/demo/$name.cubin" "$ptx" || return
    say "$name: $(grep -c . "$ptx") lines of PTX assembled for sm_90a, $(stat -c %s "$buildDir/demo/$name.cubin") bytes of cubin"
  done
}

runJobs() {
  local name
  for name in "${jobs[@]}"; do
    if [ "$device" = gpu ]; then
      "$buildDir/bin/$name" --device=gpu || return
    else
      "$buildDir/bin/$name" --small --device=interpreter || return
    fi
  done
}

stage set-up "$root/scripts/setup.sh"
exportPtxas
stage configure configure
stage build build --target "${jobs[@]}"
stage "run on $device" runJobs
if [ "$device" = interpreter ]; then
  if [ "$SECTILE_PTXAS" != none ]; then
    stage "assemble for sm_90a" assemble
  else
    say "no ptxas: the PTX of both kernels is not assembled"
  fi
fi
