#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule label that an error can carry is documented, and no document names one that is gone.

Labels are found in the sources of dsl/, runtime/ and passes/, and those of ops in ir/: `check_c1` alike anywhere, other
words where an error is made. Labels of ops and types stand as (mma_c1) in docs/language-ops.md, docs/tgpu-ops.md or docs/tgpu-types.md; all
others in the first column of a table of docs/language.md, section "Rule labels".

Usage: check_labels.py [--root DIR]     prints each violation, exits with 1 on any
       check_labels.py --self-test      seeds violations and expects each to be reported
"""
import argparse
import pathlib
import re
import sys
import tempfile

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
LABEL = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
RULE = re.compile(r"[a-z][a-z_]*_c\d+")
BRACKETED = re.compile(r"\[([a-z][a-z_]*_c\d+)\]")
# A statement that makes an error: its label is a lone word with an underscore, or its last lone word before a sentence.
MAKES_ERROR = re.compile(r"\b(UserError|fail|failLater|refuse|user|error|badDevice|badOrder|rule)\b")
ARCH = re.compile(r"sm_\d+a?")
OP_DOCS = ("docs/language-ops.md", "docs/tgpu-ops.md", "docs/tgpu-types.md")
TEXT = "docs/language.md"


def without_comments(text):
    return re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*', lambda m: m.group(1) or "", text)


def labels_of(text):
    """Labels in one C++ source."""
    text = without_comments(text)
    found = set(BRACKETED.findall(text))
    found |= {word for word in LITERAL.findall(text) if RULE.fullmatch(word)}
    # Text of a literal is put aside, so that a semicolon ends a statement.
    words = []

    def aside(match):
        words.append(match.group(1))
        return f'"{len(words) - 1}"'

    for statement in LITERAL.sub(aside, text).split(";"):
        if not MAKES_ERROR.search(statement):
            continue
        lone = [(m.end(), words[int(m.group(1))]) for m in re.finditer(r'"(\d+)"', statement)
                if LABEL.fullmatch(words[int(m.group(1))])]
        found |= {word for _, word in lone if "_" in word and not ARCH.fullmatch(word)}
        if lone and re.match(r',\s*"', statement[lone[-1][0]:]) and "_" not in lone[-1][1]:
            found.add(lone[-1][1])
    return found


def sources(root):
    for folder in ("dsl", "runtime", "passes", "ir"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in (".cpp", ".h"):
                yield folder, file


def check(root):
    in_ops = {label for doc in OP_DOCS for label in re.findall(r"\((\w+_c\d+)\)", (root / doc).read_text(encoding="utf-8"))}
    section = (root / TEXT).read_text(encoding="utf-8").partition("\n## Rule labels\n")[2].partition("\n## ")[0]
    in_text = set()
    for row in re.findall(r"^\| (`[^|]*) \|", section, flags=re.M):
        in_text.update(re.findall(r"`(\w+)`", row))
    thrown = set()
    for folder, file in sources(root):
        text = file.read_text(encoding="utf-8")
        found = {w for w in labels_of(text) if folder != "ir" or RULE.fullmatch(w)}
        for label in sorted(found - in_ops - in_text):
            yield f"{file.relative_to(root)}: [{label}] is in no document"
        thrown |= found
    if not thrown:
        yield "no label found in any source"
    for label in sorted(in_text - thrown):
        yield f"{TEXT}: no error carries [{label}]"
    for label in sorted(in_text & in_ops):
        yield f"{TEXT}: [{label}] stands in {' or '.join(OP_DOCS)} too"


GOOD = {
    "dsl/A.cpp": 't.fail(loc, "t", "a; b", "cell_unset", "do; it"); v = broken(v, "mma", "x", "mma_c1", "y");\n'
                 '// fail(loc, "old_label", "x")\nfail(t, a.loc, "mma", v); call("some_name");',
    "runtime/B.cpp": 'throw UserError({.rule = "no_gpu", .wayOut = "z"}); throw user(fmt("x"), "capture", "go on");',
    "passes/C.cpp": 'emitError() << "needs [check_c1]; pick";',
    "ir/D.cpp": 'broken(v, "x", "y z", "mma_c2", "w");',
    "docs/language-ops.md": "C1 (mma_c1): x. C2 (mma_c2): y.\n",
    "docs/tgpu-ops.md": "",
    "docs/tgpu-types.md": "",
    "docs/language.md": "# L\n\n## Rule labels\n\n| label | rule | way out |\n|---|---|---|\n| `cell_unset`, `no_gpu` | a | b |\n"
                        "| `capture` | a | b |\n| `check_c1` | a | `other` |\n\n## More\n\n| `more` | a |\n",
}
SEEDS = [
    ({}, []),
    ({"dsl/A.cpp": GOOD["dsl/A.cpp"] + 't.fail(loc, "t", "x", "cell_new", "y");'}, ["[cell_new] is in no document"]),
    ({"runtime/B.cpp": GOOD["runtime/B.cpp"] + 'throw user(text, "lost", "go on");'}, ["[lost] is in no document"]),
    ({"runtime/B.cpp": GOOD["runtime/B.cpp"] + 'rule = "too_old";'}, ["[too_old] is in no document"]),
    ({"passes/C.cpp": GOOD["passes/C.cpp"] + 'e << "x [check_c2]; y";'}, ["[check_c2] is in no document"]),
    ({"ir/D.cpp": GOOD["ir/D.cpp"] + 'c("mma_c3");'}, ["[mma_c3] is in no document"]),
    ({"docs/language.md": GOOD["docs/language.md"].replace("`capture`", "`gone`")},
     ["[capture] is in no document", "no error carries [gone]"]),
    ({"docs/language-ops.md": GOOD["docs/language-ops.md"] + "(check_c1)"}, ["[check_c1] stands in"]),
    ({name: "" for name in GOOD if not name.startswith("docs/")} | {"docs/language.md": "# L\n"}, ["no label found"]),
]


def self_test():
    wrong = 0
    for change, expected in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (GOOD | change).items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            complaints = list(check(root))
        if len(complaints) != len(expected) or not all(any(e in c for c in complaints) for e in expected):
            wrong += 1
            print(f"expected {expected}, got {complaints}")
    print(f"self-test: {len(SEEDS)} trees, {wrong} wrong")
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
    print(f"labels: {len(complaints)} violations")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
