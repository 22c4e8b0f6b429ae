#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernels of a sample, lowered with each schedule (warps per block, blocks of a cluster, shared loops, slots of pipelines)
and run thread by thread on the executor, against the interpreter.

    test_lowered_samples.py path/to/sample path/to/sectile [--skip-banks] [--few-schedules]

Each argument gets the same length on all axes: one so small that every element is printed and compared, one with several
tiles and a tail of which count, sum, least and greatest are compared (smaller ones where tensors have more axes). Integers are
compared exactly, floats to what the order of a sum may change.

Then as the sample itself launches them, with the facts of its arguments: no access of shared memory meets a bank twice.
"""
import re
import subprocess
import sys
import tempfile

LENGTHS = {1: (16, 77), 2: (16, 77), 3: (6, 19), 4: (3, 5), 5: (3, 5)}  # by the most axes of an argument
SCHEDULES = ([], ["--warps=1"], ["--warps=2"], ["--warps=4"], ["--warps=8"], ["--warps=16"], ["--cluster=2"],
             ["--cluster=4", "--warps=2"], ["--split=1"], ["--split=3"], ["--prefetch=2"], ["--persistent=2", "--evict=2"],
             ["--persistent=2", "--prefetch=2"], ["--persistent=2", "--prefetch=2", "--cluster=2"])
FEW = ([], ["--warps=2"], ["--warps=8"])
# Of kernels with products: with pipelines, by the compiler's choice and by hand.
PIPELINES = ([], ["--stages=2"], ["--stages=3", "--warps=4"], ["--stages=4", "--warps=8"], ["--raster=2"])
FEW_PIPELINES = ([], ["--stages=2"])
NAMES = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "i1": "bool", **{f"ui{n}": f"u{n}" for n in (8, 16, 32, 64)}}
# Steps of a type relative to its largest element.
STEPS = {"f64": 1e-12, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2, "e4m3": 0.15, "e5m2": 0.3}


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


def modules(text, facts=False):
    """Single kernels of what --emit=tile --kernel=all printed, with or without facts of the sample's arguments."""
    text = re.sub(r"^#loc.*\n| loc\([^)]*\)", "", text, flags=re.M)
    if facts:
        # No argument of the command line has stride 0 along all of several axes, as one number for all places has.
        text = re.sub(r"\{([^{}]*), tile\.stride_div = array<i64: 16(?:, 16)+>, tile\.stride_rem = array<i64: 0(?:, 0)+>\}", r"{\1}", text)
        return [part for part in re.split(r"^(?=module\b)", text, flags=re.M) if "func.func" in part]
    text = re.sub(r"tile\.(align|dim_div|dim_max|stride_div|stride_rem|unit_stride) = (array<i64: [^>]*>|\d+ : i64)(, )?", "", text)
    text = re.sub(r"tile\.small(, )?", "", text).replace(", }", "}").replace(" {}", "")
    return [part for part in re.split(r"^(?=module\b)", text, flags=re.M) if "func.func" in part]


def parameters(module):
    """(rank and dtype or nothing, scalar type or nothing, facts) of the parameters of a kernel."""
    header = re.search(r"func\.func @\w+\((.*?)\) attributes", module, flags=re.S).group(1)
    return re.findall(r"%\w+: (?:!tile\.tensor<(\d+, \w+)>|(\w+))(?: \{([^}]*)\})?", header)


def most_axes(module):
    return max(int(view.split(",")[0]) for view, scalar, facts in parameters(module) if view)


def dims(rank, length, last, facts):
    """Of a tensor that is given by its facts: small ones that fit them, where it has many axes."""
    divisors = re.search(r"tile\.dim_div = array<i64: ([^>]*)>", facts)
    if last and rank > 2 and divisors:
        return divisors.group(1).split(", ")
    lengths = [length] * (rank - 1) + [last or length]
    if most := re.search(r"tile\.dim_max = array<i64: ([^>]*)>", facts):
        lengths = [min(n, int(m) or n) for n, m in zip(lengths, most.group(1).split(", "))]
    return [str(n) for n in lengths]


def order(rank, facts):
    """How the axes lie in memory: that of stride 1 is the fastest."""
    unit = re.search(r"tile\.unit_stride = (\d+)", facts)
    if not unit or int(unit.group(1)) == rank - 1:
        return ""
    return "@" + "".join(str(axis) for axis in range(rank) if axis != int(unit.group(1))) + unit.group(1)


def arguments(module, length, last=None):
    """--arg words for the kernel's signature; `last`: length of the last axis."""
    words = []
    for number, (view, scalar, facts) in enumerate(parameters(module)):
        if scalar:
            dtype = NAMES.get(scalar, scalar)
            words.append(f"--arg={dtype}={'0.5' if dtype in STEPS else '3'}")
            continue
        rank, dtype = view.split(", ")
        dtype = NAMES.get(dtype, dtype)
        fill = f"normal:{number + 1}" if dtype in STEPS else "iota"
        lengths = dims(int(rank), length, last, facts)
        if rank == "1" and "tile.stride_div = array<i64: 16>" in facts:
            lengths = ["1"]  # one number, whose stride is none
        words.append(f"--arg={'x'.join(lengths)}x{dtype}{order(int(rank), facts)}={fill}")
    return words


def numbers(line):
    """(dtype, is the text a summary, numbers) of 'arg1 16x16 f32 [0, 1]' or '.. f32 5929 elements, sum 3.5, min ..'."""
    dtype = next(word for word in line.split() if word in STEPS or re.fullmatch(r"[iu]\d+|bool|index", word))
    after = line.split(f" {dtype} ", 1)[1]
    return dtype, "elements" in after, [float(n) for n in re.findall(r"[-+]?(?:nan|inf|\d[\d.]*(?:e[-+]?\d+)?)", after)]


def differ(want, got):
    """What is wrong in `got`, or None."""
    want, got = want.splitlines(), got.splitlines()
    if len(want) != len(got):
        return f"{len(got)} outputs, {len(want)} expected"
    for a, b in zip(want, got):
        (dtype, summary, x), (other, _, y) = numbers(a), numbers(b)
        if dtype != other or len(x) != len(y):
            return f"{b[:80]} for {a[:80]}"
        largest = max([abs(v) for v in (x[2:] if summary else x) if abs(v) < float("inf")] + [1e-30])
        for i, (p, q) in enumerate(zip(x, y)):
            same = p == q or (p != p and q != q)
            bound = STEPS.get(dtype, 0) * largest * (x[0] if summary and i == 1 else 1)
            if not same and not abs(p - q) <= bound:
                return f"{q} for {p} in {a[:60]}"
    return None


def conflicts(counters):
    """The sum of a column of --counters; None if there are no rows."""
    rows = re.findall(r"^ *\d+ +\d+ +\d+ +[\d.]+ +\d+ +(\d+) +\d+ +tgpu\.", counters, flags=re.M)
    return sum(int(n) for n in rows) if rows else None


def banks(sample, sectile):
    """(kernels without conflicts, others) in the sample's default configuration."""
    status, text, problem = run(sample, "--emit=tile", "--kernel=all", "--arch=sm_90a")
    if status:
        sys.exit(f"{sample} --emit=tile: {problem}")
    passed = failed = 0
    for module in modules(text, facts=True):
        for schedule in [["--stages=1"]] + ([[]] if "tile.mma" in module else []):
            with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
                file.write(module)
                file.flush()
                status, out, problem = run(sectile, "run", file.name, *arguments(module, 16, 4096), "--device=executor", *schedule,
                                           "--counters")
            name = re.search(r"func\.func @(\w+)", module).group(1)
            found = conflicts(out)
            if status or found != 0:
                print(f"failed: {name} {' '.join(schedule)}: {problem.strip() if status else f'{found} conflicts'}")
            failed += bool(status or found != 0)
            passed += not (status or found != 0)
    return passed, failed


def main():
    sample, sectile = sys.argv[1:3]
    few = "--few-schedules" in sys.argv
    status, text, problem = run(sample, "--small", "--emit=tile", "--kernel=all")
    if status:
        sys.exit(f"{sample} --emit=tile: {problem}")
    kernels = list(dict.fromkeys(modules(text)))  # one for jobs that differ in their facts alone
    passed = failed = 0
    for module in kernels:
        name = re.search(r"func\.func @(\w+)", module).group(1)
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(module)
            file.flush()
            for length in LENGTHS[most_axes(module)]:
                words = ["run", file.name, *arguments(module, length)]
                status, want, problem = run(sectile, *words)
                if status or not want:
                    print(f"failed: {name} of {length}: interpreter: {problem}")
                    failed += 1
                    continue
                schedules = [["--stages=1", *schedule] for schedule in (FEW if few else SCHEDULES)]
                if "tile.mma" in module:
                    schedules += FEW_PIPELINES if few else PIPELINES
                for schedule in schedules:
                    status, got, problem = run(sectile, *words, "--device=executor", *schedule)
                    if status == 1 and schedule not in ([], ["--stages=1"]):
                        continue  # too many registers for so few threads, a product on a cluster
                    wrong = problem if status else differ(want, got)
                    if wrong:
                        print(f"failed: {name} of {length}, {' '.join(schedule)}: {wrong.strip()}")
                    failed += bool(wrong)
                    passed += not wrong
    if "--skip-banks" not in sys.argv:
        free, met = banks(sample, sectile)
        passed, failed = passed + free, failed + met
    print(f"{len(kernels)} kernels: {passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
