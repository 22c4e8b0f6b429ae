# SPDX-License-Identifier: Apache-2.0
"""Assembles kernels and fails where code spills registers, ptxas warns of lost speed (C75xx), or products of warpgroups
have become something else.

    check_spills.py PROGRAM ARCH [--deps DIR] [--most BYTES]
    check_spills.py --variants PROGRAM .. [--deps DIR]
    check_spills.py --self-test

With --variants each program writes PTX for sm_90a by `--emit-ptx FOLDER`; the first line of a file,
`// expects HGMMA, spills at most 0 bytes` (QGMMA, IGMMA, nothing), says which instruction its code must have and how many
bytes may be stored by spills. The instruction is looked for in the machine code, or, without a disassembler, as
wgmma.mma_async in the PTX.

The PTX is taken as it is first made: a plan of registers that ptxas cannot keep fails too, although the library
would assemble such a kernel again with more of them.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def find_ptxas(deps):
    named = os.environ.get("SECTILE_PTXAS", "")
    if named == "none":
        return None
    for candidate in [named, shutil.which("ptxas") or "", "/usr/local/cuda/bin/ptxas", f"{deps}/ptxas/bin/ptxas"]:
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    return None


def problems(log, allowed=0):
    """What ptxas said against a kernel of which so many bytes may be spilled."""
    found = [line.strip() for line in log.splitlines() if "C75" in line]
    for count, what in re.findall(r"(\d+) bytes spill (stores|loads)", log):
        if int(count) > allowed:
            found.append(f"{count} bytes of spill {what}")
    return found


# Products of warpgroups in PTX, by the instruction of the machine that they become.
WGMMA = {"HGMMA": r"wgmma\.mma_async\S*\.f32\.b?f16\.", "QGMMA": r"wgmma\.mma_async\S*\.f32\.e[45]m[32]\.",
         "IGMMA": r"wgmma\.mma_async\S*\.s32\.[su]8\."}


def expectation(ptx):
    """The instruction and the bytes of the first line; None without such a line."""
    first = re.match(r"// expects (\w+), spills at most (\d+) bytes\n", ptx)
    return (first.group(1), int(first.group(2))) if first else (None, 0)


def missing(ptx, machine):
    """What the code of a file lacks; `machine`: its machine code as text, None if nobody could read it."""
    name, _ = expectation(ptx)
    if not name:
        return ["does not say which instruction to expect"]
    if name == "nothing":
        return []
    if name not in WGMMA:
        return [f"expects {name}, which is not known here"]
    if not re.search(WGMMA[name], ptx):
        return [f"has no wgmma.mma_async that becomes {name}"]
    if machine is not None and not re.search(rf"\b{name}\b", machine):
        return [f"has no {name} in its machine code"]
    return []


def find_disassembler(ptxas):
    beside = os.path.join(os.path.dirname(ptxas), "nvdisasm")
    return shutil.which("nvdisasm") or (beside if os.access(beside, os.X_OK) else None)


def check_variant(file, ptxas, disassembler, folder):
    """Problems of one file of PTX."""
    cubin = f"{folder}/{file.stem}.cubin"
    done = subprocess.run([ptxas, "-v", "-arch=sm_90a", str(file), "-o", cubin], capture_output=True, text=True)
    log = done.stdout + done.stderr
    if done.returncode or "spill stores" not in log:
        return [f"ptxas ended with {done.returncode}: {log.strip()}"]
    machine = None
    if disassembler:
        read = subprocess.run([disassembler, "-c", cubin], capture_output=True, text=True)
        machine = read.stdout if read.returncode == 0 else None
    ptx = file.read_text()
    return problems(log, expectation(ptx)[1]) + missing(ptx, machine)


def check_variants(programs, ptxas):
    disassembler = find_disassembler(ptxas)
    failed = count = 0
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for program in programs:
            out = pathlib.Path(folder, pathlib.Path(program).name)
            out.mkdir()
            done = subprocess.run([program, "--emit-ptx", str(out)], capture_output=True, text=True)
            made = sorted(out.glob("*.ptx"))
            if done.returncode or not made:
                print(f"{program} --emit-ptx ended with {done.returncode}, {len(made)} files\n{done.stdout}{done.stderr}")
                failed += 1
            files += made
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for file, found in zip(files, pool.map(lambda f: check_variant(f, ptxas, disassembler, folder), files)):
                count += 1
                for problem in found:
                    print(f"{file.stem}: {problem}")
                    failed += 1
    print(f"{count} kernels, {failed} problems; instructions looked for in {'machine code' if disassembler else 'PTX'}")
    return 1 if failed or not count else 0


def self_test():
    clean = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 71 registers\n"
    seeded = {
        clean: 0,
        clean + clean: 0,
        clean + clean.replace("0 bytes spill stores", "12 bytes spill stores"): 1,
        clean.replace("0 bytes spill", "4 bytes spill"): 2,
        clean + "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n": 1,
    }
    wrong = [log for log, count in seeded.items() if len(problems(log)) != count]
    for log in wrong:
        print(f"not {seeded[log]} problems, but {problems(log)}, in:\n{log}")
    wgmma = "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, 1, 1, 1, 0, 0;\n"
    def expects(name):
        return f"// expects {name}, spills at most 0 bytes\n"

    codes = [
        (expects("nothing"), None, 0),
        (expects("HGMMA") + wgmma, None, 0),
        (expects("HGMMA") + wgmma, "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24", 0),
        (expects("HGMMA") + wgmma, "HMMA.16816.F32.BF16 R24, R4, R8, R24", 1),
        ("// expects HGMMA\nmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\n", None, 1),
        (expects("QGMMA") + wgmma, None, 1),
        (expects("IGMMA") + wgmma.replace(".f32.bf16.bf16", ".s32.s8.s8"), None, 0),
        (expects("QGMMA") + wgmma.replace(".f32.bf16.bf16", ".f32.e4m3.e5m2"), None, 0),
        (expects("MAGIC") + wgmma, None, 1),
        (wgmma, None, 1),
    ]
    for ptx, machine, count in codes:
        if len(missing(ptx, machine)) != count:
            wrong.append(ptx)
            print(f"not {count} problems, but {missing(ptx, machine)}, in:\n{ptx}{machine}")
    few = clean.replace("0 bytes spill stores", "12 bytes spill stores")
    bounds = [(few, 12, 0), (few, 11, 1)]
    for log, allowed, count in bounds:
        if len(problems(log, allowed)) != count:
            wrong.append(log)
            print(f"not {count} problems with {allowed} bytes allowed in:\n{log}")
    total = len(seeded) + len(codes) + len(bounds)
    print(f"{total - len(wrong)} of {total} seeded logs and codes judged right")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("arch", nargs="?")
    parser.add_argument("--variants", nargs="+", default=[])
    parser.add_argument("--deps", default="")
    parser.add_argument("--most", type=int, default=0, help="bytes of spills that a kernel may have")
    options = parser.parse_args()
    ptxas = find_ptxas(options.deps)
    if not ptxas:
        print("no ptxas was found")
        return 0
    if options.variants:
        return check_variants(options.variants, ptxas)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.program, "--emit=ptx", "--kernel=all", f"--arch={options.arch}", f"--out={folder}/k.ptx"],
                       check=True)
        files = sorted(pathlib.Path(folder).glob("*.ptx"))
        for file in files:
            done = subprocess.run([ptxas, "-v", f"-arch={options.arch}", str(file), "-o", f"{folder}/k.cubin"],
                                  capture_output=True, text=True)
            log = done.stdout + done.stderr
            if done.returncode or "spill stores" not in log:
                print(f"{file.name}: ptxas ended with {done.returncode}\n{log}")
                failed += 1
            for problem in problems(log, options.most):
                print(f"{file.name}: {problem}")
                failed += 1
    print(f"{len(files)} kernels, {failed} problems")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
