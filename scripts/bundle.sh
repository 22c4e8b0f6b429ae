#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Packs what a user without a compiler needs into BUILD/sectile-VERSION-linux-x86_64.tar.xz and checks the archive:
# its size, what its binaries need at run time, and that the samples run from an unpacked copy on the interpreter.
# Called by the CMake target `bundle`; usage: scripts/bundle.sh BUILD_DIR VERSION
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -eq 2 ] || { say "usage: scripts/bundle.sh BUILD_DIR VERSION" >&2; exit 2; }
bundleBuild=$(cd "$1" && pwd) version=$2

# One run at a time per build directory; a second waits.
exec 9>"$bundleBuild/bundle.lock"
flock 9

name="sectile-$version-linux-x86_64"
archive="$bundleBuild/$name.tar.xz"
maxArchiveBytes=$((20 * 1000 * 1000))
mapfile -t samples < <(cd "$root/samples" && ls -d [0-9][0-9]_*)
programs=(sectile sectile-run sectile-opt "${samples[@]}")
optionalPrograms=(sectile-bench)
# What Ubuntu 24.04 has: glibc 2.39, and libstdc++ and libgcc of GCC 14.
maxVersions='GLIBC 2.39
GLIBCXX 3.4.33
CXXABI 1.3.15
GCC 14.0.0'
allowedLibraries='^(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux-x86-64)\.so(\.[0-9]+)*$'

stageDir="$bundleBuild/bundle/$name"
rm -rf "$bundleBuild/bundle" "$archive"
mkdir -p "$stageDir/lib" "$stageDir/bin" "$stageDir/include/sectile"

cp "$bundleBuild/lib/libsectile.so" "$stageDir/lib/"
for program in "${programs[@]}"; do cp "$bundleBuild/bin/$program" "$stageDir/bin/"; done
for program in "${optionalPrograms[@]}"; do
  [ ! -x "$bundleBuild/bin/$program" ] || cp "$bundleBuild/bin/$program" "$stageDir/bin/"
done
for face in ir runtime dsl autotune; do
  [ ! -d "$root/$face/sectile" ] || cp -r "$root/$face/sectile/." "$stageDir/include/sectile/"
done
cp "$root/README.md" "$root/LICENSE" "$root/CHANGELOG.md" "$stageDir/"
strip --strip-unneeded "$stageDir"/lib/*.so "$stageDir"/bin/*

checkNeeded() { # FILE
  local file=$1 needed
  while read -r needed; do
    [ "$needed" != libsectile.so ] || continue
    [[ $needed =~ $allowedLibraries ]] || die "$file needs $needed, which a bare Ubuntu 24.04 may not have"
  done < <(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
}
checkSymbolVersions() { # FILE
  local file=$1 family limit highest
  while read -r family limit; do
    highest=$(objdump -T "$file" | grep -oE "\(?\b${family}_[0-9.]+" | sed "s/.*${family}_//" | sort -uV | tail -1 || true)
    [ -z "$highest" ] || [ "$(printf '%s\n%s\n' "$highest" "$limit" | sort -V | tail -1)" = "$limit" ] ||
      die "$file needs ${family}_$highest, at most ${family}_$limit is wanted"
  done <<<"$maxVersions"
}
checkSearchPath() { # FILE
  local path
  path=$(readelf -dW "$1" | sed -n 's/.*(R\(UN\)\{0,1\}PATH).*\[\(.*\)\]/\2/p')
  [ "$path" = "\$ORIGIN/../lib" ] || die "$1 looks for its libraries in '$path', not in \$ORIGIN/../lib"
}
for file in "$stageDir"/lib/*.so "$stageDir"/bin/*; do
  checkNeeded "$file"
  checkSymbolVersions "$file"
done
for file in "$stageDir"/bin/*; do checkSearchPath "$file"; done

# Owners, order and times are fixed, so that the same build gives the same archive.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='2026-01-01 00:00:00Z' -C "$bundleBuild/bundle" -c "$name" |
  xz -T0 -6 >"$archive.partial"
mv "$archive.partial" "$archive"
archiveBytes=$(stat -c %s "$archive")
[ "$archiveBytes" -le "$maxArchiveBytes" ] || die "$archive has $archiveBytes bytes, at most $maxArchiveBytes are wanted"

# The smoke run sees an unpacked copy in a path with a blank, no build tree, and next to no environment.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/un packed" "$scratch/home"
tar -C "$scratch/un packed" -xJf "$archive"
clean() { (cd "$scratch/home" && env -i PATH=/usr/bin:/bin HOME="$scratch/home" "$@"); }
unpacked="$scratch/un packed/$name"
for program in "$unpacked"/bin/*; do
  linked=$(ldd "$program") || die "ldd $program failed"
  ! grep -q 'not found' <<<"$linked" || die "$program does not find: $(grep 'not found' <<<"$linked")"
  grep -qF "=> $unpacked/bin/../lib/libsectile.so" <<<"$linked" || die "$program does not use the library of the bundle"
  ! grep -qiE 'libLLVM|libMLIR' <<<"$linked" || die "$program needs an LLVM of the machine"
done
clean "$unpacked/bin/sectile" version
for sample in "${samples[@]}"; do clean "$unpacked/bin/$sample" --small --device=interpreter; done
# A user's own program: headers and library of the bundle alone, with whatever compiler is here.
printf '#include <sectile/sectile.h>\nint main() { return sectile::Device::interpreter().isInterpreter() ? 0 : 1; }\n' >"$scratch/home/user.cpp"
clean "${CXX:-c++}" -std=c++20 -I"$unpacked/include" "$scratch/home/user.cpp" -L"$unpacked/lib" -lsectile \
  -Wl,-rpath,"$unpacked/lib" -o "$scratch/home/user"
clean "$scratch/home/user"

say "$archive: $archiveBytes bytes, library $(stat -c %s "$stageDir/lib/libsectile.so") bytes stripped"
