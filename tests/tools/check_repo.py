#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules for the repository's text that no compiler checks.

  length      no file has more than 700 lines (the licence text excepted)
  spdx        every source and script carries the SPDX licence line among its first five lines
  words       no word that marks unfinished work
  paths       no absolute path of one particular machine
  switches    docs/debugging.md has a row for every environment switch of runtime/Env.cpp, and for no other
  public      no header reachable from a public header belongs to MLIR, LLVM or CUDA (asked of the compiler)

Usage: check_repo.py [--root DIR] [--compiler g++]   prints each violation, exits with 1 on any
       check_repo.py --self-test                     seeds one violation of each kind and expects each to be reported
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

MAX_LINES = 700
LENGTH_EXEMPT = {"LICENSE"}
SOURCE_SUFFIXES = {".h", ".hpp", ".cpp", ".cc", ".c", ".td", ".py", ".sh", ".cmake", ".mlir"}
SOURCE_NAMES = {"CMakeLists.txt"}
SPDX = "SPDX-License-Identifier: Apache-2.0"
# Spelled in halves, so that this file passes its own check.
WORDS = re.compile("|".join([r"\bTO" r"DO\b", r"\bFIX" r"ME\b", r"\bX" r"XX\b", r"\bHA" r"CK\b", r"(?i:\bplace" r"holder)",
                             r"(?i:\bnot (yet )?imple" r"mented)", r"(?i:\bunimple" r"mented)"]))
PATHS = re.compile(r"(?<![\w.~$}])/(?:wo" r"rk|tm" r"p/d|ho" r"me/\w+|ro" r"ot)(?=/|\b)(?!\w)")
PUBLIC_FOLDERS = ("dsl", "ir", "runtime", "autotune")
PRIVATE_HEADER = re.compile(r"(?:^|/)(?:mlir|mlir-c|llvm|llvm-c)/|(?:^|/)(?:cuda|cuda_runtime|cudaTypedefs)\w*\.h$")


def tracked_files(root):
    """Files of the repository: what git tracks or would track, or without git every file outside build folders."""
    try:
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, check=True).stdout
        names = [name for name in listed.decode().split("\0") if name]
    except (FileNotFoundError, subprocess.CalledProcessError):
        names = [file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()]
        names = [name for name in names if not re.match(r"build|\.(deps|git|cache|venv)/|.*__pycache__/", name)]
    return sorted({name for name in names if (root / name).is_file()})


def check_text(name, text):
    lines = text.splitlines()
    path = pathlib.PurePosixPath(name)
    if len(lines) > MAX_LINES and name not in LENGTH_EXEMPT:
        yield f"{name}: length: {len(lines)} lines, at most {MAX_LINES}"
    script = bool(lines) and lines[0].startswith("#!")
    if (path.suffix in SOURCE_SUFFIXES or path.name in SOURCE_NAMES or script) and SPDX not in "\n".join(lines[:5]):
        yield f"{name}: spdx: '{SPDX}' is not among the first five lines"
    for number, line in enumerate(lines, 1):
        for kind, pattern in (("words", WORDS), ("paths", PATHS)):
            found = pattern.search(line)
            if found:
                yield f"{name}:{number}: {kind}: '{found.group(0)}'"


def check_public_headers(root, compiler):
    includes = [f"-I{folder}" for folder in PUBLIC_FOLDERS]
    for folder in PUBLIC_FOLDERS:
        for header in sorted((root / folder / "sectile").glob("*.h")):
            name = f"sectile/{header.name}"
            done = subprocess.run([compiler, "-std=c++20", *includes, "-x", "c++", "-M", "-"], cwd=root, text=True,
                                  input=f"#include <{name}>\n", capture_output=True, check=False)
            if done.returncode != 0:
                first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
                yield f"{folder}/{name}: public: does not compile without MLIR and CUDA headers: {first.strip()}"
                continue
            reached = done.stdout.replace("\\\n", " ").split()
            for other in reached:
                if PRIVATE_HEADER.search(other):
                    yield f"{folder}/{name}: public: reaches {other}"
                    break


def check_switches(root):
    source, docs = root / "runtime" / "Env.cpp", root / "docs" / "debugging.md"
    if not source.is_file():
        return
    read = set(re.findall(r'^\s*\{"([A-Z][A-Z_]+)",', source.read_text(encoding="utf-8"), re.M))
    described = set(re.findall(r"^\| `([A-Z][A-Z_]+)` \|", docs.read_text(encoding="utf-8"), re.M)) if docs.is_file() else set()
    if not read:
        yield "runtime/Env.cpp: switches: its table of switches is not recognised any more"
    for name in sorted(read - described):
        yield f"docs/debugging.md: switches: no row for {name}"
    for name in sorted(described - read):
        yield f"docs/debugging.md: switches: {name} is no switch of runtime/Env.cpp"


def check_tree(root, compiler):
    for name in tracked_files(root):
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not text
        yield from check_text(name, text)
    yield from check_switches(root)
    yield from check_public_headers(root, compiler)


SEEDS = {
    "good.cpp": (f"// {SPDX}\nint one = 1; // see ../work, docs/work and build/tmp\n", None),
    "long.md": ("line\n" * (MAX_LINES + 1), "length: 701 lines"),
    "bare.py": ("print(1)\n", "spdx:"),
    "bare": ("#!/bin/sh\n", "spdx:"),
    "word.md": ("this is a TO" "DO\n", "word.md:1: words:"),
    "word2.md": ("\nnot imple" "mented here\n", "word2.md:2: words:"),
    "path.md": ("see /wo" "rk/main/README\n", "path.md:1: paths:"),
    "runtime/Env.cpp": (f'// {SPDX}\n    {{"SECTILE_A", "x"}},\n    {{"SECTILE_B", "x"}},\n', None),
    "docs/debugging.md": ("| `SECTILE_A` | x |\n| `SECTILE_C` | x |\n", "switches: no row for SECTILE_B"),
    "ir/sectile/Good.h": (f"// {SPDX}\n#include <vector>\n", None),
    "ir/sectile/Bad.h": (f"// {SPDX}\n#include <sectile/Inner.h>\n", "public: reaches"),
    "ir/sectile/Inner.h": (f'// {SPDX}\n#include "../llvm/Fake.h"\n', "public: reaches"),
    "ir/llvm/Fake.h": (f"// {SPDX}\n", None),
    "ir/sectile/Absent.h": (f"// {SPDX}\n#include <mlir/Nowhere.h>\n", "public: does not compile"),
}


def self_test(compiler):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, (text, _) in SEEDS.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        complaints = list(check_tree(root, compiler))
    wrong = []
    for name, (_, expected) in SEEDS.items():
        own = [c for c in complaints if re.match(re.escape(name) + r":", c)]
        if expected is None and own or expected is not None and not any(expected in c for c in own):
            wrong.append(f"{name}: expected {expected}, got {own}")
    for text in wrong:
        print(text)
    print(f"self-test: {len(SEEDS)} files, {len(wrong)} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test(options.compiler)
    complaints = list(check_tree(options.root, options.compiler))
    for text in complaints:
        print(text)
    print(f"repository: {len(complaints)} violations")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
