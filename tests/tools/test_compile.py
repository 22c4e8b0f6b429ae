#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of a whole compile for a GPU, on a fake CUDA driver that runs nothing: the log line, the key of the disk cache.

    test_compile.py path/to/02_softmax path/to/sectile_cases path/to/libsectile_fake_cuda.so [unittest options]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOFTMAX, CASES, FAKE_CUDA = (os.path.abspath(p) for p in sys.argv[1:4])
LINE = re.compile(r"^sectile: (?P<kernel>\w+) #(?P<key>[0-9a-f]{8}) (?P<arch>sm_\w+) cfg\((?P<config>[^)]*)\): "
                  r"(?P<stages>(?:\w+ [\d.]+ ms, )+)(?P<regs>\d+) regs, (?P<spills>\d+)(?: B)? spills, (?P<shared>\d+) (?:B|KiB) smem, "
                  r"cache (?P<cache>.*)$", re.M)


class Compile(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.cache = self.folder / "cache"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SECTILE_", "FAKECUDA_"))}
        self.environment |= {"SECTILE_CUDA_LIBRARY": FAKE_CUDA, "SECTILE_LOG": "1", "SECTILE_CACHE_DIR": str(self.cache),
                             "SECTILE_PTXAS": str(self.assembler("13.0.88"))}

    def assembler(self, version):
        """A ptxas that answers with a small cubin whatever it is given."""
        folder = self.folder / version
        folder.mkdir(exist_ok=True)
        program = folder / "ptxas"
        program.write_text(f"#!/bin/sh\n[ \"$1\" != --version ] || {{ echo 'release {version[:4]}, V{version}'; exit 0; }}\n"
                           "printf '\\177ELF' > $6\necho '    0 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads'\n"
                           "echo 'ptxas info    : Used 29 registers'\n")
        program.chmod(0o755)
        return program

    def entries(self):
        """Files of the cache that hold code; beside them lie choices of the cost model."""
        return sorted(e for e in self.cache.iterdir() if b"(choice)" not in e.read_bytes())

    def text(self, program=SOFTMAX, *words, cwd=None, **more):
        """What the program says on stderr. Its values are wrong, as nothing runs; its status says so."""
        words = words or ("--small", "--device=gpu")
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=120, cwd=cwd,
                              env={**self.environment, **more})
        self.assertIn("Fake H200" if program != CASES else "FAILED", done.stdout, done.stderr)
        return done.stderr

    def line(self, *arguments, **more):
        lines = list(LINE.finditer(self.text(*arguments, **more)))
        self.assertEqual(len(lines), 1, "one line per compile, whatever the number of launches")
        return lines[0]

    def test_line(self):
        cold = self.line()
        self.assertEqual((cold["kernel"], cold["arch"], cold["regs"], cold["cache"]), ("softmax", "sm_90a", "29", "miss: not on disk"))
        self.assertGreater(int(cold["spills"]), 0)
        self.assertGreater(int(cold["shared"]), 0)
        self.assertIn("BC=1024", cold["config"])
        self.assertEqual(re.findall(r"[a-z]+(?= [\d.]+ ms)", cold["stages"]), ["trace", "passes", "codegen", "ptxas"])
        warm = self.line()
        self.assertEqual((warm["key"], warm["regs"], warm["shared"], warm["cache"]), (cold["key"], "29", cold["shared"], "disk hit"))
        self.assertNotIn("codegen", warm["stages"])
        self.assertEqual(self.text(SECTILE_LOG="0"), "")
        entry, = self.entries()
        entry.write_bytes(entry.read_bytes()[:100])
        self.assertIn("miss: damaged: ", self.line()["cache"])
        self.assertEqual(self.line(SECTILE_CACHE="0")["cache"], "miss: disk cache off")

    def test_key_is_content(self):
        first = self.line()
        # Another program file, another working directory, another assembler of the same version: the same key.
        copy = self.folder / "elsewhere" / "program"
        copy.parent.mkdir()
        shutil.copy(SOFTMAX, copy)
        ptxas = copy.parent / "ptxas"
        shutil.copy(self.assembler("13.0.88"), ptxas)
        library = str(pathlib.Path(SOFTMAX).parent.parent / "lib")
        again = self.line(copy, cwd=self.folder, SECTILE_PTXAS=str(ptxas), LD_LIBRARY_PATH=library)
        self.assertEqual((again["key"], again["cache"]), (first["key"], "disk hit"))
        # Another version of the assembler, another target: other keys.
        keys = [first["key"]]
        for change in ({"SECTILE_PTXAS": str(self.assembler("13.1.1"))}, {"SECTILE_PTXAS": "none"}, {"FAKECUDA_MAJOR": "8"}):
            if change.get("SECTILE_PTXAS") == "none":
                said = self.text(**change)
                keys.append(re.search(r"#([0-9a-f]{8})", said)[1])
                self.assertIn("miss: not on disk", said)
                continue
            other = self.line(**change)
            self.assertEqual(other["cache"], "miss: not on disk")
            keys.append(other["key"])
        self.assertEqual(len(set(keys)), len(keys), keys)
        entries = self.entries()
        self.assertEqual(len(entries), len(keys))
        for entry in entries:
            for path in (str(self.folder), str(pathlib.Path(SOFTMAX).parent), "softmax.cpp"):
                self.assertNotIn(path.encode(), entry.read_bytes())

    def test_key_holds_program_and_config(self):
        found = {}
        for line in LINE.finditer(self.text(CASES, "--device=gpu", "--only", "P04b")):
            found.setdefault(line["kernel"], {})[line["config"]] = line["key"]
        self.assertGreaterEqual(len(found), 2)
        for configs in found.values():
            self.assertGreaterEqual(len(configs), 4)
        keys = [key for configs in found.values() for key in configs.values()]
        self.assertEqual(len(set(keys)), len(keys))

    def test_why_another_variant(self):
        found = {}
        for line in LINE.finditer(self.text(CASES, "--device=gpu", "--only", "P04a/views_bf16", SECTILE_CACHE="0")):
            found.setdefault(line["kernel"], []).append(line["cache"])
        reasons = found["add_to_rows"]
        self.assertEqual(reasons[0], "miss: disk cache off")
        for reason in reasons[1:]:
            self.assertRegex(reason, r"^miss: disk cache off, another variant: .")
        said = "\n".join(reasons)
        for part in ("was cfg(BC=128)", "argument 0: aligned to 2 bytes, was 16", "stride modulo a vector", "no axis of stride 1",
                     "not known to be below 2 GiB", "length divisible by"):
            self.assertIn(part, said)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
