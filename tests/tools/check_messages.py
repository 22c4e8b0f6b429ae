#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every message of a UserError has a failing program that shows it.

Messages are read from the sources of dsl/, runtime/, passes/ and ir/: the argument in front of (or behind) a rule label
where an error is made. Each must occur, under its label, among
  - what the wrong programs of tests/dsl/errors say when they run (`sectile_errors --print`),
  - the lines `# EXPECT: message [label]` of the wrong command lines in tests/dsl/errors/tools,
  - the errors that wrong module files expect in tests/lit,
  - the texts of refusals that tests/unit compares with, which hold message and label of a pass.

Usage: check_messages.py [--root DIR] --errors PROGRAM   prints each violation, exits with 1 on any
       check_messages.py --list                          prints the messages found
       check_messages.py --self-test                     seeds violations and expects each to be reported
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import check_labels

# Functions that make an error: positions of the message and of the label among their arguments.
MAKERS = {"fail": (2, 3), "broken": (2, 3), "refuse": (1, 2), "error": (2, 3), "user": (0, 1), "badOrder": (0, None),
          "UserError": (3, 4), "failLater": (3, 4)}
# Those that mean something else in one file.
IN_FILE = {"runtime/Buffer.cpp": {"refuse": (0, 1)}, "runtime/Stream.cpp": {"refuse": (0, None)},
           "dsl/ToolsTuneRecord.cpp": {"fail": (0, 1)}, "dsl/ToolsTune.cpp": {"fail": (1, 2)},
           "dsl/ToolsJobs.cpp": {"fail": (1, 2)}, "dsl/ToolsBuild.cpp": {"fail": (0, 1)}, "dsl/Ahead.cpp": {"fail": (0, 1)},
           "ir/TileOps.cpp": {"report": (2, 1)}, "ir/TgpuOps.cpp": {"broken": (2, 1)},
           "ir/TgpuPipes.cpp": {"broken": (2, 1)}}
OPEN, CLOSE = "([{", ")]}"
WORD = re.compile(r"\x01(\d+)\x01")
CHAINED = re.compile(r"\[([a-z][a-z_]*_c\d+)\]")
Message = collections.namedtuple("Message", "file label pattern")


def aside(text):
    """The source without comments, its literals put aside; adjacent ones are one."""
    words = []

    def keep(match):
        words.append("".join(check_labels.LITERAL.findall(match.group(0))).replace('\\"', '"').replace("\\\\", "\\"))
        return f"\x01{len(words) - 1}\x01"

    text = check_labels.without_comments(text)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', keep, text), words


def closing(text, at):
    """The position behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in OPEN) - (text[i] in CLOSE)
        if depth == 0:
            return i + 1
    return len(text)


def split(text, marks):
    """Parts of `text` between marks that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in OPEN) - (c in CLOSE)
        if depth == 0 and c in marks and text[i - 1:i + 1] != "::" and text[i:i + 2] != "::":
            parts.append(text[start:i])
            start = i + 1
    return parts + [text[start:]]


def arguments(text):
    text = text.strip()
    while text.startswith("{") and closing(text, 0) == len(text):
        text = text[1:-1].strip()
    return [a.strip() for a in split(text, ",")]


def patterns(expr, words):
    """Regular expressions of the texts that an expression can be; none when it has no text of its own."""
    branches = split(expr, "?:")
    if len(branches) > 1:
        return [p for branch in branches[1:] for p in patterns(branch, words)]
    pieces, at = [], 0
    for match in re.finditer(r"\x01(\d+)\x01|[\w:]+\s*[({]|[({\[]|[^\s+]", expr):
        if match.start() < at:
            continue
        at = match.end()
        if match.group(1):
            pieces.append(re.escape(words[int(match.group(1))]))
        elif match.group(0)[-1] in OPEN:
            at = closing(expr, match.end() - 1)
            inner, name = expr[match.end():at - 1], match.group(0)[:-1].strip()
            if name.endswith("format"):
                form = WORD.match(inner.strip())
                pieces.append(".*".join(re.escape(p) for p in re.split(r"\{[^{}]*\}", words[int(form.group(1))]))
                              if form else ".*")
            elif name in ("std::string", "Twine", "llvm::Twine"):
                pieces += patterns(inner, words)[:1] or [".*"]
            else:
                pieces.append(".*")
        else:
            pieces.append(".*")
    pattern = "".join(pieces)
    # A lone word is the name of an op.
    return [pattern] if " " in pattern else []


def messages_of(name, text):
    """All messages of one source; the label is None where a caller gives it."""
    text, words = aside(text)
    makers = {**MAKERS, **IN_FILE.get(name, {})}
    for call in re.finditer(r"\b(" + "|".join(makers) + r")\s*[({]", text):
        given = arguments(text[call.end():closing(text, call.end() - 1) - 1])
        named = dict(re.findall(r"^\.(\w+)\s*=\s*(.*)$", a, flags=re.S)[0] for a in given if a.startswith("."))
        message_at, label_at = makers[call.group(1)]
        if named:
            message, label = named.get("message", ""), named.get("rule", "")
        elif len(given) > message_at:
            message, label = given[message_at], given[label_at] if label_at is not None and len(given) > label_at else ""
        else:
            continue
        literal = WORD.fullmatch(label)
        for pattern in patterns(message, words):
            yield Message(name, words[int(literal.group(1))] if literal else None, pattern)
    # Why there is no GPU: the rest of a message that is put together elsewhere.
    for reason in re.finditer(r"\bwhy\s*=\s*([^;]*);", text) if name == "runtime/Driver.cpp" else ():
        for pattern in patterns(reason.group(1), words):
            yield Message(name, None, pattern)
    for statement in text.split(";"):
        chain = statement.split("<<")
        for i, part in enumerate(chain):
            for word in WORD.findall(part):
                if found := CHAINED.search(words[int(word)]):
                    before = [patterns(p, words)[:1] or [".*"] for p in chain[1:i]]
                    last = re.escape(words[int(word)][:found.start()].rstrip())
                    if "(" in part[:part.index("\x01")] and i == 0 or i > 0:
                        yield Message(name, found.group(1), "".join(b[0] for b in before) + last)


def messages(root):
    for folder, file in check_labels.sources(root):
        name = str(file.relative_to(root))
        if name.startswith("ir/exec/"):
            continue  # the executor runs what the passes made: what it refuses is no user's mistake and has no label
        for message in messages_of(name, file.read_text(encoding="utf-8")):
            if folder != "ir" or message.label is None or check_labels.RULE.fullmatch(message.label):
                yield message


def shown(root, said):
    """Label and text of every error that a program, a command line or a module file shows."""
    for line in said.splitlines():
        error = json.loads(line)
        yield error["rule"], error["message"]
    for file in sorted((root / "tests/dsl/errors/tools").glob("*.cmd")):
        text = " ".join(re.findall(r"^# EXPECT: (.*)$", file.read_text(encoding="utf-8"), flags=re.M))
        for label in re.findall(r"\[(\w+)\]", text):
            yield label, text
    files = [(f, r"expected-error.*?\{\{(.*?)\[([a-z]\w*_c\d+)\]") for f in sorted((root / "tests/lit").rglob("*.mlir"))]
    for file, form in files:
        for text, label in re.findall(form, file.read_text(encoding="utf-8"), flags=re.M):
            yield label, text
    for file in sorted((root / "tests/unit").glob("*.cpp")):
        for text in aside(file.read_text(encoding="utf-8"))[1]:
            text = text.replace("\\", "")
            for label in CHAINED.findall(text):
                yield label, text


def check(root, said):
    found = list(messages(root))
    evidence = collections.defaultdict(list)
    for label, text in shown(root, said):
        evidence[label].append(text)
        evidence[None].append(text)
    for m in found:
        if not any(re.search(m.pattern, text, flags=re.S) for text in evidence[m.label]):
            yield f"{m.file}: no program shows [{m.label or 'label of the caller'}] {m.pattern}"
    known = {m.label for m in found} | set(evidence)
    for folder, file in check_labels.sources(root):
        for label in check_labels.labels_of(file.read_text(encoding="utf-8")) - known:
            if folder != "ir" or check_labels.RULE.fullmatch(label):
                yield f"{file.relative_to(root)}: no message found for [{label}]"
    if not found or not said:
        yield "no message found, or no program said anything"


GOOD = {
    "dsl/A.cpp": 't.fail(loc, "t", "the " + std::string(x) + " is " "unset", "cell_unset", "do; it"); fail(loc, v);\n'
                 'UserError({loc, {}, op, a ? "one is wrong" : fmt::format("{} are wrong", n), "wrong_count", "count"});',
    "runtime/B.cpp": 'throw UserError({.loc = l, .message = fmt::format("GPU {} (\\"{}\\") is old", i, f(1, 2)), .rule = "gpu_old"});',
    "passes/C.cpp": 'emitError() << "needs " << n << " bytes [check_c1]; pick";',
    "ir/D.cpp": 'broken(v, "x", "y z", "mma_c2", "w"); broken(v, op, "any label", rule, way);',
    "ir/exec/E.cpp": 'refuse(op, "no such product");',
    "tests/dsl/errors/tools/a.cmd": '# EXPECT: two are wrong [wrong_count]\n',
    "tests/lit/a.mlir": '// expected-error @+1 {{needs 4 bytes [check_c1]; pick}}\n',
    "tests/unit/a.cpp": 'CHECK(refusal() == "y " // "no" \n "z [mma_c2]; more");\n',
}
SAID = [("cell_unset", "the tile is unset"), ("wrong_count", "one is wrong"), ("gpu_old", 'GPU 1 ("x") is old'),
        ("mma_c1", "any label")]
SEEDS = [
    ({}, [], []),
    ({}, [0], ["no program shows [cell_unset] the\\ .*\\ is\\ unset"]),
    ({}, [1], ["no program shows [wrong_count] one\\ is\\ wrong"]),
    ({}, [2], ["no program shows [gpu_old]"]),
    ({}, [3], ["no program shows [label of the caller] any\\ label"]),
    ({"tests/dsl/errors/tools/a.cmd": ""}, [], ["no program shows [wrong_count] .*\\ are\\ wrong"]),
    ({"tests/lit/a.mlir": ""}, [], ["no program shows [check_c1]"]),
    ({"tests/unit/a.cpp": ""}, [], ["no program shows [mma_c2]"]),
    ({"tests/lit/a.mlir": GOOD["tests/lit/a.mlir"].replace("4 bytes [check_c1]", "4 bytes [check_c2]")}, [],
     ["no program shows [check_c1]"]),
    ({"runtime/E.cpp": 'throw UserError(make(x, "odd_one", y));'}, [], ["no message found for [odd_one]"]),
    ({"dsl/F.cpp": 'refuse(site, fmt::format("never {}", x), "cell_unset", "y");'}, [], ["[cell_unset] never\\ .*"]),
    ({name: "" for name in GOOD}, [0, 1, 2, 3], ["no message found, or"]),
]


def self_test():
    wrong = 0
    for change, unsaid, expected in SEEDS:
        said = [json.dumps({"rule": r, "message": m}) for i, (r, m) in enumerate(SAID) if i not in unsaid]
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (GOOD | change).items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            complaints = list(check(root, "\n".join(said)))
        if len(complaints) != len(expected) or not all(any(e in c for c in complaints) for e in expected):
            wrong += 1
            print(f"expected {expected}, got {complaints}")
    print(f"self-test: {len(SEEDS)} trees, {wrong} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--errors", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.list:
        return print("\n".join(f"{m.file} {m.label or '-'} {m.pattern}" for m in messages(options.root)))
    if options.errors is None:
        parser.error("--errors is needed")
    done = subprocess.run([options.errors, "--print"], capture_output=True, text=True, check=False)
    complaints = list(check(options.root, done.stdout))
    complaints += [f"{options.errors} --print failed: {done.stderr.strip()}"] if done.returncode != 0 else []
    print("\n".join(complaints))
    print(f"messages: {len(list(messages(options.root)))} found, {len(complaints)} violations")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
