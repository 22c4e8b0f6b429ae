# SPDX-License-Identifier: Apache-2.0
"""Assembles every kernel of a sample and fails where code spills registers or ptxas warns of lost speed (C75xx).

    check_spills.py PROGRAM ARCH [--deps DIR]
    check_spills.py --self-test

The PTX is taken as it is first made: a plan of registers that ptxas cannot keep fails too, although the library
would assemble such a kernel again with more of them.
"""
import argparse
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


def problems(log):
    """What ptxas said against a kernel."""
    found = [line.strip() for line in log.splitlines() if "C75" in line]
    for count, what in re.findall(r"(\d+) bytes spill (stores|loads)", log):
        if int(count):
            found.append(f"{count} bytes of spill {what}")
    return found


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
    print(f"{len(seeded) - len(wrong)} of {len(seeded)} seeded logs judged right")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("arch")
    parser.add_argument("--deps", default="")
    options = parser.parse_args()
    ptxas = find_ptxas(options.deps)
    if not ptxas:
        print("no ptxas was found")
        return 0
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
            for problem in problems(log):
                print(f"{file.name}: {problem}")
                failed += 1
    print(f"{len(files)} kernels, {failed} problems")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
