#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A published encoder, end to end: its weights are fetched, and its embeddings are those of the framework.

    test_encoder.py path/to/18_encoder [words for it]

Exits with 77, which is a skipped test, if the weights cannot be had, and says why.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    fetched = subprocess.run([sys.executable, ROOT / "scripts" / "fetch_encoder.py"], capture_output=True, text=True, check=False)
    if fetched.returncode == 3:
        print(f"skipped: {fetched.stderr.strip()}")
        return 77
    if fetched.returncode:
        sys.exit(fetched.stderr)
    done = subprocess.run([sys.argv[1], f"--model={fetched.stdout.strip().splitlines()[-1]}",
                           f"--reference={ROOT / 'samples' / '18_encoder' / 'reference.json'}", *sys.argv[2:]],
                          capture_output=True, text=True, timeout=1200, check=False)
    print(done.stdout + done.stderr)
    compared = [int(n) for n in re.findall(r"to the framework: (\d+) values compared.*: OK$", done.stdout, flags=re.M)]
    if done.returncode or not compared or min(compared) < 4 * 384 or "pieces of 4 sentences: OK" not in done.stdout:
        sys.exit("the embeddings are not those of the framework")
    return 0


if __name__ == "__main__":
    sys.exit(main())
