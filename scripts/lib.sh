# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by the scripts of this folder; sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps="$root/.deps"
buildDir=${SECTILE_BUILD_DIR:-$root/build}
preset=${SECTILE_PRESET:-dev}
defaultCuda=/usr/local/cuda

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# stage NAME COMMAND...: runs the command, prints how long it took, passes its status on. Inside a function given to it
# `set -e` has no effect (a rule of the shell), so such functions end each step that may fail with `|| return`.
stage() {
  local name=$1 began=$SECONDS status=0
  shift
  say "== $name"
  "$@" || status=$?
  say "== $name: $((SECONDS - began)) s$([ "$status" -eq 0 ] || echo ", FAILED with status $status")"
  return "$status"
}

# Number of parallel compile jobs: one per core, but no more than one per 1.5 GB of memory this process may use.
buildJobs() {
  local cores memory limit
  cores=$(nproc 2>/dev/null || echo 1)
  memory=$(awk '/^MemTotal:/ {print int($2 / 1024)}' /proc/meminfo 2>/dev/null || echo 4096)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  case $limit in
    *[!0-9]* | '') ;;
    *) [ $((limit / 1048576)) -ge "$memory" ] || memory=$((limit / 1048576)) ;;
  esac
  local jobs=$((memory / 1536))
  [ "$jobs" -ge 1 ] || jobs=1
  [ "$jobs" -le "$cores" ] || jobs=$cores
  echo "${SECTILE_JOBS:-$jobs}"
}

# Path of ptxas, or nothing. Order: SECTILE_PTXAS, PATH, CUDA_HOME, /usr/local/cuda, what set-up fetched.
# SECTILE_PTXAS=none means that none is to be used.
findPtxas() {
  local candidate
  [ "${SECTILE_PTXAS:-}" != none ] || return 1
  for candidate in "${SECTILE_PTXAS:-}" "$(command -v ptxas 2>/dev/null || true)" \
    "${CUDA_HOME:+$CUDA_HOME/bin/ptxas}" "$defaultCuda/bin/ptxas" "$deps/ptxas/bin/ptxas"; do
    if [ -n "$candidate" ] && [ -x "$candidate" ]; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# Lets the build and the programs find the ptxas that set-up fetched.
exportPtxas() {
  local found
  if found=$(findPtxas); then export SECTILE_PTXAS="$found"; else export SECTILE_PTXAS=none; fi
}

# A build directory of its own is compiled in few, large pieces (SECTILE_UNITY); one that is there stays as it is.
configure() {
  local unity=
  [ -f "$buildDir/CMakeCache.txt" ] || unity=-DSECTILE_UNITY=ON
  (cd "$root" && cmake --preset "$preset" -B "$buildDir" $unity ${SECTILE_LLVM_ROOT:+-DSECTILE_LLVM_ROOT="$SECTILE_LLVM_ROOT"})
}

build() { cmake --build "$buildDir" --parallel "$(buildJobs)" "$@"; }
