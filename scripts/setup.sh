#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Brings what the build needs. Installs only what is missing and may be run any number of times.
#   Debian 12: plain apt (LLVM and MLIR 22 come from its security archive).
#   Elsewhere: prints what is missing, found and needed version beside it, and exits with 2.
# ptxas is optional: taken from SECTILE_PTXAS, PATH, CUDA_HOME or /usr/local/cuda, else from PyPI into .deps/.
# Exit codes: 0 ready, 1 an installation failed, 2 something is missing that this script cannot install.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

llvm=${SECTILE_LLVM_ROOT:-/usr/lib/llvm-22}

# One row per requirement: name | needed version ("any" if none) | Debian packages | found version, empty if absent.
toolVersion() { "$1" --version 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -1 || true; }
# The compiler answers whether it sees a header, and with which value of the macros that make its version.
headerVersion() {
  local header=$1 macros=${2:-}
  command -v g++ >/dev/null 2>&1 || return 0
  printf '#include <%s>\nsectile_version %s\n' "$header" "$macros" |
    g++ -std=c++20 -x c++ -E -P - 2>/dev/null | sed -n '/^sectile_version/,$p' | tr -d ' "\n' |
    sed -e 's/^sectile_version//' -e 's/^$/present/' || true
}
staticLibrary() {
  command -v g++ >/dev/null 2>&1 || return 0
  local path
  path=$(g++ -print-file-name="$1")
  [ "$path" != "$1" ] && [ -e "$path" ] && echo present || true
}
cmakePackageVersion() {
  local file="$llvm/lib/cmake/$1"
  [ -e "$file" ] && grep -oE 'set\(PACKAGE_VERSION "[0-9.]+' "$file" | grep -oE '[0-9.]+$' | head -1 || true
}

requirements() {
  cat <<ROWS
C++20 compiler (g++)|12|build-essential|$(toolVersion g++)
CMake|3.25|cmake|$(toolVersion cmake)
Ninja|1.10|ninja-build|$(toolVersion ninja)
Python|3.9|python3|$(toolVersion python3)
Python venv|any|python3-venv|$(python3 -c 'import ensurepip, venv; print("present")' 2>/dev/null || true)
Python pip|any|python3-pip|$(python3 -c 'import pip; print(pip.__version__)' 2>/dev/null || true)
LLVM development files|22.1|llvm-22-dev|$(cmakePackageVersion llvm/LLVMConfigVersion.cmake)
MLIR development files|22.1|libmlir-22-dev|$(cmakePackageVersion mlir/MLIRConfigVersion.cmake)
mlir-tblgen|22.1|mlir-22-tools|$(toolVersion "$llvm/bin/mlir-tblgen")
FileCheck, lit|22.1|llvm-22-tools|$([ -x "$llvm/bin/lit" ] && toolVersion "$llvm/bin/FileCheck" || true)
mold (linker)|1.10|mold|$(toolVersion mold)
ccache|any|ccache|$(toolVersion ccache)
xz|any|xz-utils|$(toolVersion xz)
binutils (readelf, strip)|any|binutils|$(toolVersion readelf)
libzstd, static|any|libzstd-dev|$(staticLibrary libzstd.a)
zlib, static|any|zlib1g-dev|$(staticLibrary libz.a)
Catch2 2|2.13|catch2|$(headerVersion catch2/catch.hpp CATCH_VERSION_MAJOR.CATCH_VERSION_MINOR)
fmt|9|libfmt-dev|$(headerVersion fmt/core.h FMT_VERSION | sed -E 's/^([0-9]+)([0-9]{2})([0-9]{2})$/\1.\2.\3/')
nlohmann-json|3.11|nlohmann-json3-dev|$(headerVersion nlohmann/json.hpp NLOHMANN_JSON_VERSION_MAJOR.NLOHMANN_JSON_VERSION_MINOR)
CLI11|2.1|libcli11-dev|$(headerVersion CLI/CLI.hpp CLI11_VERSION)
SQLite|3.40|libsqlite3-dev|$(headerVersion sqlite3.h SQLITE_VERSION)
ROWS
}

atLeast() { # FOUND NEEDED
  [ -n "$1" ] || return 1
  [ "$2" = any ] || [ "$1" = present ] || [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -1)" = "$2" ]
}

# Fills missingRows (for people) and missingPackages (for apt).
findMissing() {
  missingRows=() missingPackages=()
  local name needed packages found
  while IFS='|' read -r name needed packages found; do
    atLeast "$found" "$needed" && continue
    local want="$needed or later"
    [ "$needed" != any ] || want="any version"
    missingRows+=("$(printf '  %-28s needed: %-16s found: %-10s Debian 12 package: %s' "$name" "$want" "${found:-none}" "$packages")")
    missingPackages+=("$packages")
  done < <(requirements)
}

listMissing() {
  say "Missing on this system:" >&2
  printf '%s\n' "${missingRows[@]}" >&2
}

isDebian12() { [ -r /etc/os-release ] && (. /etc/os-release && [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ]); }

aptInstall() {
  local asRoot=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || { listMissing; say "Not root and no sudo here: install these, then run this again." >&2; exit 2; }
    asRoot=(sudo)
  fi
  say "installing: ${missingPackages[*]}"
  "${asRoot[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update || die "apt-get update failed"
  "${asRoot[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missingPackages[@]}" || {
    listMissing
    say "apt could not install them. LLVM and MLIR 22 are in Debian 12's security archive: is bookworm-security among the apt sources?" >&2
    exit 1
  }
}

setUpPackages() {
  findMissing
  [ ${#missingRows[@]} -gt 0 ] || { say "all packages present"; return 0; }
  if isDebian12 && command -v apt-get >/dev/null 2>&1; then
    aptInstall
    findMissing
    [ ${#missingRows[@]} -eq 0 ] || { listMissing; die "apt reported success, yet these are still missing"; }
  else
    listMissing
    say "This script installs on Debian 12 only; please install them with this system's package manager." >&2
    say "An LLVM and MLIR 22.1 in another place: set SECTILE_LLVM_ROOT to its prefix, the folder that holds lib/cmake." >&2
    exit 2
  fi
}

# The wheel holds nvidia/cu13/bin/ptxas; only that file and its licence are kept.
fetchPtxas() (
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    -d "$work" 'nvidia-cuda-nvcc>=13,<14' >"$work/log" 2>&1 || return 1
  python3 - "$work" "$deps/ptxas" <<'PY' || return 1
import os, pathlib, shutil, sys, zipfile
work, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
wheel = next(work.glob("*.whl"))  # pip left exactly one
with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
    ptxas = next(n for n in names if n.endswith("/bin/ptxas"))
    licence = [n for n in names if n.lower().endswith("license.txt")]
    (target / "bin").mkdir(parents=True, exist_ok=True)
    for name, destination in [(ptxas, target / "bin" / "ptxas")] + [(n, target / "LICENSE.txt") for n in licence[:1]]:
        partial = destination.with_suffix(".partial")
        with archive.open(name) as source, open(partial, "wb") as sink:
            shutil.copyfileobj(source, sink)
        if destination.name == "ptxas":
            partial.chmod(0o755)
        os.replace(partial, destination)
PY
  "$deps/ptxas/bin/ptxas" --version >/dev/null 2>&1
)

setUpPtxas() {
  local found
  if [ "${SECTILE_PTXAS:-}" = none ]; then
    say "ptxas: SECTILE_PTXAS=none, tests that need it count as skipped"
    return 0
  fi
  if ! found=$(findPtxas); then
    say "ptxas: not on this machine, asking PyPI for nvidia-cuda-nvcc"
    fetchPtxas || rm -rf "$deps/ptxas"
    found=$(findPtxas) || true
  fi
  if [ -n "$found" ]; then
    say "ptxas: $found ($(toolVersion "$found"))"
  else
    say "ptxas: absent (set SECTILE_PTXAS, or install CUDA 13); kernels still run on the interpreter, tests that need ptxas count as skipped"
  fi
}

# Sourcing this file defines its functions alone; the tests of the scripts do that.
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  setUpPackages
  setUpPtxas
fi
