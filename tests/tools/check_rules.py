#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of an op has a wrong program that breaks it.

A rule is a label in brackets in the op definitions, as (mma_c1). tests/lit/ir/<dialect>/invalid.mlir, or invalid-pipes.mlir
beside it, must have a function of that name, in a piece that expects an error with [mma_c1]; and no function there may name
a rule that does not exist.

Usage: check_rules.py [--root DIR]     prints each violation, exits with 1 on any
       check_rules.py --self-test      seeds one violation of each kind and expects each to be reported
"""
import argparse
import pathlib
import re
import sys
import tempfile

DIALECTS = {"tile": ("ir/TileDialect.td", "ir/TileOps.td"), "tgpu": ("ir/TgpuDialect.td", "ir/TgpuOps.td")}


def check(root):
    for dialect, sources in DIALECTS.items():
        rules = {label for source in sources for label in re.findall(r"\((\w+_c\d+)\)", (root / source).read_text())}
        tests = f"tests/lit/ir/{dialect}/invalid.mlir"
        shown = set()
        files = [file for name in ("invalid.mlir", "invalid-pipes.mlir") if (file := (root / tests).with_name(name)).exists()]
        for piece in re.split(r"^// -----$", "\n// -----\n".join(file.read_text() for file in files), flags=re.M):
            for label in re.findall(r"func\.func @(\w+?_c\d+)(?:_\w+)?\(", piece):
                if label not in rules:
                    yield f"{tests}: @{label} names no rule of {sources[1]}"
                elif re.search(rf"expected-error.*\[{label}\]", piece):
                    shown.add(label)
                else:
                    yield f"{tests}: @{label} expects no error with [{label}]"
        for label in sorted(rules - shown):
            yield f"{tests}: no wrong program for {label}"


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for dialect, sources in DIALECTS.items():
            (root / f"tests/lit/ir/{dialect}").mkdir(parents=True)
            (root / "ir").mkdir(exist_ok=True)
            for source in sources:
                (root / source).write_text("C1 (a_c1): x. C2 (a_c2): y. C3 (a_c3): z.")
            (root / f"tests/lit/ir/{dialect}/invalid.mlir").write_text(
                "func.func @a_c1() {\n// expected-error @+1 {{wrong [a_c1]}}\n// -----\n"
                "func.func @a_c2_more() {\n// expected-error @+1 {{wrong [a_c1]}}\n// -----\nfunc.func @b_c1() {\n")
        complaints = list(check(root))
    expected = ["@a_c2 expects no error with [a_c2]", "@b_c1 names no rule", "no wrong program for a_c2",
                "no wrong program for a_c3"]
    wrong = [text for text in expected if sum(text in complaint for complaint in complaints) != len(DIALECTS)]
    if len(complaints) != len(expected) * len(DIALECTS):
        wrong.append(f"{len(complaints)} complaints: {complaints}")
    for text in wrong:
        print(f"self-test: {text}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    complaints = list(check(options.root))
    for text in complaints:
        print(text)
    print(f"rules: {len(complaints)} violations")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
