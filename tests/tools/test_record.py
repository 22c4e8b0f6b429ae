#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of `sectile tune show|diff|merge|export|import|prune`, and of one record under many processes.

    test_record.py sectile libsectile_network_files.so [unittest options]
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from record_rows import export, row, xxhash64

SECTILE, NETWORK_FILES = (os.path.abspath(p) for p in sys.argv[1:3])
OK, USER, USAGE = 0, 1, 2


class Record(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.record = self.folder / "tuning.sqlite"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SECTILE_", "NETWORK_FILES", "LD_PRELOAD"))}
        self.environment["SECTILE_TUNE_RECORD"] = str(self.record)

    def tune(self, *words, status=OK, text="", **more):
        done = subprocess.run([SECTILE, "tune", *map(str, words)], input=text, capture_output=True, text=True, check=False, timeout=120,
                              env={**self.environment, **more})
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout[:500]} {done.stderr[:800]}")
        self.assertNotIn("terminate called", done.stderr)
        self.err = done.stderr
        return done.stdout

    def take(self, *rows, record=None):
        """Imports rows into a record."""
        return self.tune("import", "-", *(["--record", record] if record else []), text=export(*rows))

    def rows(self, *words, **more):
        return json.loads(self.tune("export", "--all", *words, **more))["rows"]


class Commands(Record):
    def test_the_hash_is_that_of_the_specification(self):
        self.assertEqual(xxhash64(b""), 0xEF46DB3751D8E999)
        self.assertEqual(xxhash64(b"abc"), 0x44BC2CF5AD770999)

    def test_what_is_imported_is_exported_exactly(self):
        rows = [row(1, micros=3.14159), row(2, choice=""), row(3, final=False), row(4, note="17 spills", kind="candidate"),
                row(5, gpu="interpreter", multiprocessors=0, driver="", assembler="")]
        self.assertIn("5 rows read, 5 of them new or better, 5 rows now", self.take(*rows))
        self.assertEqual(sorted(self.rows(), key=lambda r: r["kernel"]), rows)
        self.assertEqual(len(json.loads(self.tune("export"))["rows"]), 4)
        self.tune("export", "--all", "--out", self.folder / "out.json")
        self.assertEqual(self.err, "")
        other = self.folder / "folder" / "other.sqlite"
        self.tune("import", self.folder / "out.json", "--record", other)
        self.assertEqual((self.folder / "out.json").read_text(), self.tune("export", "--all", "--record", other))
        self.assertIn("0 of them new or better", self.take(*rows))

    def test_show(self):
        self.take(row(1, "BM=128 warps=8", 2.0), row(1, "BM=64 warps=4", 1.0), row(2, "", final=False), row(3, "BM=9", gpu="interpreter", multiprocessors=0),
                  row(1, "BM=32", kind="candidate", note="wrong result", medianNs=0.0, lowNs=0.0, highNs=0.0))
        lines = self.tune("show").splitlines()
        self.assertEqual(lines[-1], f"{self.record}: 3 of 5 rows")
        self.assertIn("BM=64 warps=4", lines[1])
        self.assertIn("1.00 us (0.99 to 1.01)", lines[1])
        self.assertIn("NVIDIA H200, 132 multiprocessors", lines[1])
        self.assertIn("(no numbers to choose)", lines[2])
        self.assertIn("chosen, noisy", lines[2])
        text = self.tune("show", "--all", "--kernel", "kernel_1")
        for part in ("not chosen", "candidate: wrong result", "BM=128 warps=8", "3 of 5 rows"):
            self.assertIn(part, text)
        self.assertIn("1 of 5 rows", self.tune("show", "--gpu", "interpreter"))
        self.assertEqual([r["choice"] for r in json.loads(self.tune("show", "--json", "--kernel", "kernel_1"))["rows"]], ["BM=64 warps=4"])

    def test_a_record_that_does_not_exist_yet_is_empty(self):
        self.assertEqual(self.tune("show"), f"{self.record}: 0 of 0 rows\n")
        self.assertEqual(self.rows(), [])
        self.assertEqual(list(self.folder.iterdir()), [])
        self.tune("show", "--record", self.record, status=USER)
        self.assertIn("cannot be read: No such file or directory", self.err)

    def test_merge_takes_records_and_exports_and_the_order_does_not_matter(self):
        a, b, c = (self.folder / name for name in ("a.sqlite", "b.sqlite", "c.json"))
        self.take(row(1, "A", 2.0), row(2, "A", 1.0), row(4, "A", final=False), record=a)
        self.take(row(1, "B", 1.0), row(2, "B", 1.001), row(4, "A", micros=5), record=b)
        c.write_text(export(row(1, "A", 0.5, final=False), row(3, "C")))
        chosen = []
        for order in ((a, b, c), (c, b, a), (b, c, a), (a, a, b, c, b)):
            self.record.unlink(missing_ok=True)
            self.tune("merge", *order)
            chosen.append(self.tune("show", "--json"))
        self.assertEqual(len(set(chosen)), 1)
        choices = {r["kernel"]: (r["choice"], r["final"]) for r in json.loads(chosen[0])["rows"]}
        # Faster and final; within the noise the first as text; alone; final before noisy.
        self.assertEqual(choices, {"kernel_1": ("B", True), "kernel_2": ("A", True), "kernel_3": ("C", True), "kernel_4": ("A", True)})

    def test_rows_of_other_gpus_drivers_and_compilers_live_side_by_side(self):
        self.take(row(1), row(1, "B", gpu="NVIDIA H100"), row(1, "C", driver="13.1"), row(1, "D", compiler="sectile 0.2.0 x"))
        self.assertIn("4 of 4 rows", self.tune("show"))

    def test_diff(self):
        a, b = self.folder / "a.sqlite", self.folder / "b.json"
        self.take(row(1, "A"), row(2, "A"), row(3, "A"), row(5, "A"), record=a)
        b.write_text(export(row(1, "A"), row(2, "B", 1.5), row(3, "A", 2.0), row(4, "A")))
        text = self.tune("diff", a, b)
        lines = text.splitlines()
        self.assertEqual([line.split("  ")[0] for line in lines[1:-1]], ["other choice", "other time", "first only", "second only"])
        self.assertIn("1.500", lines[1])
        self.assertEqual(lines[-1], "4 choices differ, 1 are the same")
        data = json.loads(self.tune("diff", a, b, "--json"))
        self.assertEqual((data["same"], [d["kernel"] for d in data["differences"]]), (1, ["kernel_2", "kernel_3", "kernel_5", "kernel_4"]))
        self.assertEqual(self.tune("diff", a, a), "0 choices differ, 4 are the same\n")
        self.assertIn("1 choices differ", self.tune("diff", a, b, "--kernel", "kernel_4"))

    def test_prune(self):
        now = int(time.time())
        self.take(row(1, "A", 2.0), row(1, "B"), row(2, final=False, date=now), row(3, kind="candidate"), row(4, date=now))
        for words, removed in ((["--kernel", "kernel_9"], 0), (["--losers"], 1), (["--candidates"], 1), (["--noisy"], 1), (["--older-than", "30"], 1),
                               (["--other-compilers"], 1)):
            text = self.tune("prune", *words)
            self.assertIn(f"{removed} rows removed", text, words)
        self.assertEqual(self.rows(), [])
        self.tune("prune", status=USER)
        self.tune("prune", "--older-than", "-1", status=USAGE)

    def test_an_edited_row_is_named_and_left_out_and_the_others_are_taken(self):
        good, edited, cut = row(1), row(2) | {"choice": "BM=999"}, row(3)
        del cut["driver"]
        self.tune("import", "-", text=export(edited, good, cut), status=USER)
        self.assertIn("2 rows are not taken: '-' row 1: its checksum differs: it was edited or damaged; '-' row 3: \"driver\" is not there", self.err)
        self.assertEqual(self.rows(), [good])

    def test_bad_files(self):
        self.record.write_bytes(b"x" * 3000)
        self.tune("show", status=USER)
        self.assertIn("is not used: file is not a database", self.err)
        self.assertEqual(self.record.read_bytes(), b"x" * 3000)
        self.take(row(1))
        self.assertIn("is set aside as", self.err)
        self.assertEqual(self.rows(), [row(1)])
        self.assertEqual([p.read_bytes() for p in self.folder.glob("tuning.sqlite.damaged-*")], [b"x" * 3000])
        nested = self.folder / "nested.json"
        nested.write_text("[" * 200000)
        for words in (["import", nested], ["merge", self.folder], ["diff", self.record, self.folder / "none"], ["import", "/dev/null"], ["merge", "/dev/null"]):
            self.tune(*words, status=USER)
        self.tune("diff", self.record, status=USAGE)
        self.tune("merge", status=USAGE)
        self.assertEqual(self.rows(), [row(1)])

    def test_for_reading_alone(self):
        self.take(row(1))
        alone = {"SECTILE_TUNE_RECORD": f"{self.record}:ro"}
        self.assertEqual(self.rows(**alone), [row(1)])
        for words, text in ((["import", "-"], export(row(2))), (["prune", "--noisy"], "")):
            self.tune(*words, text=text, status=USER, **alone)
            self.assertIn("it is open for reading alone", self.err)
        self.assertEqual(self.rows(), [row(1)])

    def test_a_full_disk(self):
        self.take(row(1))
        limited = subprocess.run(["sh", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$0" tune import -', SECTILE], input=export(row(2)), text=True,
                                 capture_output=True, check=False, env=self.environment, timeout=60)
        self.assertEqual(limited.returncode, USER, limited.stderr)
        self.assertIn("cannot be written", limited.stderr)
        self.assertEqual(self.rows(), [row(1)])
        self.take(row(2))
        self.assertEqual(len(self.rows()), 2)


class Processes(Record):
    def start(self, number, rows, **more):
        """A process that imports rows one after another and writes a line for each that was taken."""
        files = []
        for r in rows:
            files.append(self.folder / f"{number}-{r['kernel']}.json")
            files[-1].write_text(export(r))
        # Tried again until it is taken.
        script = 'for f; do until "$0" tune import "$f" >/dev/null 2>&1; do :; done; echo "$f"; done'
        return subprocess.Popen(["sh", "-c", script, SECTILE, *map(str, files)], env={**self.environment, **more}, text=True,
                                stdout=subprocess.PIPE, start_new_session=True)

    def test_many_processes(self):
        for suffix in ("", ":shared"):
            self.record = self.folder / f"many{len(suffix)}.sqlite"
            self.environment["SECTILE_TUNE_RECORD"] = f"{self.record}{suffix}"
            rows = [[row(10 * p + i) for i in range(5)] for p in range(8)]
            started = [self.start(p, r) for p, r in enumerate(rows)]
            for process in started:
                self.assertEqual(len(process.communicate(timeout=120)[0].splitlines()), 5)
            self.assertEqual(sorted(r["kernel"] for r in self.rows()), sorted(r["kernel"] for p in rows for r in p))
            self.assertEqual(self.err, "")

    def test_killed_processes_lose_nothing_that_was_taken(self):
        chance = random.Random(3)
        for suffix in ("", ":shared"):
            self.record = self.folder / f"killed{len(suffix)}.sqlite"
            self.environment["SECTILE_TUNE_RECORD"] = f"{self.record}{suffix}"
            taken = set()
            for n in range(6):
                started = [self.start(p, [row(1000 * n + 100 * p + i) for i in range(30)]) for p in range(3)]
                time.sleep(0.2 + chance.random() / 3)
                for process in started:
                    os.killpg(process.pid, signal.SIGKILL)
                    taken |= {pathlib.Path(line).stem.split("-")[1] for line in process.communicate(timeout=60)[0].splitlines()}
                there = {r["kernel"] for r in self.rows()}
                self.assertEqual(taken - there, set())
            self.assertGreater(len(taken), 5)
            self.assertEqual(list(self.folder.glob("*damaged*")), [])

    def test_a_network_file_system(self):
        """Old answers, lost replies, late errors: what was taken is there, in one record, and no file is torn."""
        root = self.folder / "net"
        root.mkdir()
        self.record = root / "tuning.sqlite"
        self.environment["SECTILE_TUNE_RECORD"] = f"{self.record}:shared"
        log = self.folder / "habits"
        net = {"LD_PRELOAD": NETWORK_FILES, "NETWORK_FILES": str(root), "NETWORK_FILES_LOG": str(log)}
        rows = [[row(10 * p + i) for i in range(6)] for p in range(6)]
        started = [self.start(p, r, **net) for p, r in enumerate(rows)]
        for process in started:
            self.assertEqual(len(process.communicate(timeout=240)[0].splitlines()), 6)
        self.tune("merge", self.record)  # without the habits
        self.assertEqual(sorted(r["kernel"] for r in self.rows()), sorted(r["kernel"] for p in rows for r in p))
        self.assertEqual(list(root.glob("*damaged*")), [])
        shown = set(log.read_text())
        self.assertLessEqual(set("enqrv"), shown, "habits that were shown")
        # The main file alone, read where locks are trusted.
        for part in (root / "tuning.sqlite.parts").iterdir():
            part.unlink()
        self.environment["SECTILE_TUNE_RECORD"] = str(self.record)
        self.assertEqual(len(self.rows()), 36)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
