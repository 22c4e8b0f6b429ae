#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/status.md: the form of each row, no id twice, and that each named proof exists.

Usage: check_status.py [--root DIR] --build-dir DIR   prints each violation, exits with 1 on any; --build-dir is where
                                                      `ctest -N` lists the tests
       check_status.py --self-test                    seeds violations and expects each to be reported
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HEADER = ["id", "sentence", "proof"]
ID = re.compile(r"\d+\.(\d+|[TMBRX]|P\d+)[a-z]?")
# One proof: `ctest:NAME`, `FILE` or `FILE#TEXT`.
PROOF = re.compile(r"`([^`]+)`")
CELL_BORDER = re.compile(r"(?<!\\)\|")


def listed_tests(build_dir):
    done = subprocess.run(["ctest", "--test-dir", str(build_dir), "--show-only=json-v1"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise SystemExit(f"check_status: ctest cannot list the tests of {build_dir}: {done.stderr.strip()}")
    return {test["name"] for test in json.loads(done.stdout)["tests"]}


def check_proof(root, tests, proof):
    """What is wrong with one proof, or None."""
    if proof.startswith("ctest:"):
        return None if proof[len("ctest:"):] in tests else f"no test of this name: {proof}"
    name, _, text = proof.partition("#")
    file = root / name
    if name.startswith("/") or ".." in pathlib.PurePosixPath(name).parts or not file.is_file():
        return f"no such file: {name}"
    if "#" in proof and (not text or text not in file.read_text(encoding="utf-8")):
        return f"'{text}' does not occur in {name}"
    return None


def check_row(root, tests, cells):
    if len(cells) != len(HEADER):
        yield f"{len(cells)} cells, expected {len(HEADER)}"
        return
    identity, sentence, proof = cells
    if not ID.fullmatch(identity):
        yield f"not an id: '{identity}'"
    if not sentence:
        yield "no sentence"
    if proof == "missing":
        return
    proofs = PROOF.findall(proof)
    if not proofs or PROOF.sub("", proof).replace(",", "").strip():
        yield f"neither 'missing' nor proofs in backquotes: '{proof}'"
    for one in proofs:
        wrong = check_proof(root, tests, one)
        if wrong:
            yield wrong


def check_text(root, tests, text):
    """Yields violations; its return value is (rows, rows with a proof) per issue."""
    first_line, counts, issue, tables = {}, collections.OrderedDict(), None, 0
    for number, line in enumerate(text.splitlines(), 1):
        heading = re.match(r"## Issue (\d+): \S", line)
        if heading:
            issue = heading.group(1)
            counts[issue] = [0, 0]
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in CELL_BORDER.split(line.strip())[1:-1]]
        if cells == HEADER:
            tables += 1
            continue
        if all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            continue
        for wrong in check_row(root, tests, cells):
            yield f"docs/status.md:{number}: {wrong}"
        if cells[0] in first_line:
            yield f"docs/status.md:{number}: id {cells[0]} stands on line {first_line[cells[0]]} too"
        first_line.setdefault(cells[0], number)
        if issue is None or not cells[0].startswith(issue + "."):
            yield f"docs/status.md:{number}: id {cells[0]} stands under issue {issue}"
        else:
            counts[issue][0] += 1
            counts[issue][1] += cells[-1] != "missing"
    for name, (rows, _) in counts.items():
        if rows == 0:
            yield f"docs/status.md: issue {name} has no rows"
    if not counts or tables != len(counts):
        yield f"docs/status.md: {tables} tables for {len(counts)} issues"
    return counts


def check(root, tests):
    complaints, counts = [], {}
    walk = check_text(root, tests, (root / "docs" / "status.md").read_text(encoding="utf-8"))
    while True:
        try:
            complaints.append(next(walk))
        except StopIteration as end:
            return complaints, end.value


TABLE = "| id | sentence | proof |\n|---|---|---|\n"
GOOD = "## Issue 2: A\n\n" + TABLE + "| 2.1a | one \\| two | missing |\n| 2.P01 | x | `ctest:a.b`, `t/f.cpp#case one` |\n"
SEEDS = [
    (GOOD, None),
    (GOOD + "| 2.1a | again | missing |\n", "id 2.1a stands on line"),
    (GOOD + "| 2.2 | x | |\n", "neither 'missing' nor"),
    (GOOD + "| 2.2 | x | missing, mostly |\n", "neither 'missing' nor"),
    (GOOD + "| 2.2 | x | `ctest:a` |\n", "no test of this name"),
    (GOOD + "| 2.2 | x | `t/g.cpp` |\n", "no such file"),
    (GOOD + "| 2.2 | x | `t/f.cpp#case two` |\n", "does not occur"),
    (GOOD + "| 2.2 | x | `t/f.cpp#` |\n", "does not occur"),
    (GOOD + "| 2.2 | | missing |\n", "no sentence"),
    (GOOD + "| two | x | missing |\n", "not an id"),
    (GOOD + "| 2.2 | x | y | missing |\n", "4 cells"),
    (GOOD + "| 3.2 | x | missing |\n", "stands under issue 2"),
    (GOOD + "## Issue 3: B\n\n" + TABLE, "issue 3 has no rows"),
    ("nothing\n", "0 tables for 0 issues"),
]


def self_test():
    wrong = 0
    for text, expected in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, content in {"docs/status.md": text, "t/f.cpp": "case one\n"}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content)
            complaints, _ = check(root, {"a.b"})
        if expected is None and complaints or expected is not None and not any(expected in c for c in complaints):
            wrong += 1
            print(f"expected {expected}, got {complaints} for:\n{text}")
    print(f"self-test: {len(SEEDS)} texts, {wrong} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--build-dir", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.build_dir is None:
        parser.error("--build-dir is needed")
    complaints, counts = check(options.root, listed_tests(options.build_dir))
    for text in complaints:
        print(text)
    for issue, (rows, proved) in counts.items():
        print(f"issue {issue}: {proved} of {rows} sentences have a proof")
    print(f"status: {len(complaints)} violations")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
