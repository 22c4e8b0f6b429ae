#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a wrong command line of tests/dsl/errors/tools in an empty folder: `sectile` is the program under test.

It must end with status 1, print nothing to stdout, and say every text of its lines
`# EXPECT: text` on stderr; and the program must still do what is right afterwards.

Usage: run_command.py SECTILE FILE [NAME=VALUE ..]   with these variables set
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def main():
    sectile, file = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    text = file.read_text(encoding="utf-8")
    expected = re.findall(r"^# EXPECT: (.*)$", text, flags=re.M)
    environment = {**os.environ, "PATH": f"{sectile.parent}:{os.environ['PATH']}", "SECTILE_CACHE": "0",
                   **dict(setting.split("=", 1) for setting in sys.argv[3:])}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["sh", "-e", "-c", text], cwd=folder, env=environment, capture_output=True, text=True,
                              check=False, timeout=60)
    wrong = [f"'{e}' is missing" for e in expected if e not in done.stderr]
    if not expected:
        wrong.append("no line '# EXPECT: text'")
    if done.returncode != 1:
        wrong.append(f"status {done.returncode} instead of 1")
    if done.stdout:
        wrong.append(f"output: {done.stdout}")
    if subprocess.run([sectile, "version"], capture_output=True, check=False).returncode != 0:
        wrong.append("the next command fails")
    for complaint in wrong:
        print(f"FAILED {file}: {complaint}\n  {done.stderr.strip()}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
