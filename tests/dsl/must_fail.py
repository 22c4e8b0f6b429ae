#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks one program that must not compile: must_fail.py COMPILER SOURCE_DIR FILE

The file's lines `// EXPECT: text` must all appear in the compiler's output. Compiled with -DFIXED, which selects the
right form of the same program, it must compile: so it fails for the stated reason and no other.
"""
import pathlib
import subprocess
import sys


def main():
    compiler, root, file = sys.argv[1:]
    command = [compiler, "-std=c++20", "-fsyntax-only"]
    command += [f"-I{root}/{folder}" for folder in (".", "dsl", "ir", "runtime", "autotune")]
    expected = [line.split("// EXPECT: ", 1)[1].strip()
                for line in pathlib.Path(file).read_text().splitlines() if line.startswith("// EXPECT: ")]
    if not expected:
        sys.exit(f"{file}: no EXPECT")
    wrong = subprocess.run(command + [file], capture_output=True, text=True)
    if wrong.returncode == 0:
        sys.exit(f"{file}: compiles")
    missing = [text for text in expected if text not in wrong.stderr]
    if missing:
        sys.exit(f"{file}: missing {missing} in\n{wrong.stderr}")
    right = subprocess.run(command + ["-DFIXED", file], capture_output=True, text=True)
    if right.returncode:
        sys.exit(f"{file}: the fixed form does not compile\n{right.stderr}")


if __name__ == "__main__":
    main()
