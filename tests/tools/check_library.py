#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libsectile.so shows and needs.

  exports   only symbols of namespace sectile, and what the C++ ABI derives from them
  needed    only libc, libm, libdl, libpthread, librt, libstdc++, libgcc_s and the loader; libstdc++ and libgcc_s for sure,
            since an exception must be able to leave the library

Usage: check_library.py LIBRARY      prints each violation, exits with 1 on any
       check_library.py --self-test  builds libraries that violate each rule and expects it to be reported
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

OWN = re.compile(r"(?:(?:typeinfo|typeinfo name|vtable|VTT|guard variable|construction vtable|non-virtual thunk|virtual thunk"
                 r"|covariant return thunk) (?:for|to) )?(?:[\w:<>,*& ]+ )?sectile::")
VERSION_NODE = re.compile(r"SECTILE_\d+")
NEEDED = re.compile(r"(?:libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux-x86-64)\.so(?:\.\d+)*")
WANTED = ("libstdc++.so", "libgcc_s.so")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check(library):
    exported = 0
    for line in output("nm", "--dynamic", "--defined-only", "--demangle", str(library)).splitlines():
        kind, name = re.match(r"[0-9a-f]* *([A-Za-z]) (.*)", line).groups()
        plain = re.sub(r"@+SECTILE_\d+$", "", name)
        if kind == "A" and VERSION_NODE.fullmatch(plain):
            continue
        exported += 1
        if not OWN.match(plain):
            yield f"exports: {plain}"
    if exported == 0:
        yield "exports: nothing at all"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", str(library)))
    for name in needed:
        if not NEEDED.fullmatch(name):
            yield f"needed: {name}"
    for name in WANTED:
        if not any(one.startswith(name) for one in needed):
            yield f"needed: {name} is not, so it is inside"


def self_test():
    # The string's clean-up is what needs libgcc_s.
    throwing = ('#include <string>\n__attribute__((visibility("hidden"))) void g(std::string &);\n'
                'namespace sectile { __attribute__((visibility("default"))) int f(int i) { std::string s; g(s); return i; } }\n'
                "void g(std::string &s) { throw int(s.size()); }\n")
    seeds = [(throwing, [], None),
             (throwing + "extern \"C\" int leaked() { return 1; }\n", [], "exports: leaked"),
             (throwing + "namespace llvm { int g() { return 1; } }\n", [], "exports: llvm::g()"),
             ("static int f;\n", [], "exports: nothing"),
             (throwing, ["-Wl,--no-as-needed", "-lz"], "needed: libz.so"),
             (throwing, ["-static-libstdc++"], "needed: libstdc++.so is not"),
             (throwing, ["-static-libgcc"], "needed: libgcc_s.so is not")]
    wrong = 0
    for source, flags, expected in seeds:
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder) / "lib.so"
            subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library), *flags], input=source, text=True,
                           check=True)
            complaints = list(check(library))
        if expected is None and complaints or expected is not None and not any(expected in c for c in complaints):
            wrong += 1
            print(f"expected {expected}, got {complaints[:5]}")
    print(f"self-test: {len(seeds)} libraries, {wrong} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="?", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.library is None:
        parser.error("LIBRARY is needed")
    complaints = list(check(options.library))
    for text in complaints[:50]:
        print(text)
    print(f"library: {len(complaints)} violations")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
