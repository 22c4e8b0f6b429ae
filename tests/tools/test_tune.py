#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of `sectile tune`: jobs from flags and files, the record, ranks, bad input; on the interpreter, without a GPU.

    test_tune.py path/to/sectile path/to/libsectile_tune_kernels.so path/to/libsectile_fake_cuda.so [unittest options]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SECTILE, KERNELS, FAKE_CUDA = (os.path.abspath(p) for p in sys.argv[1:4])
OK, USER, USAGE = 0, 1, 2
SCALE = ["--kernel", "scale", "--arg", "1000xf32", "--arg", "1000xf32", "--arg", "f32=2"]


class Tune(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.folder.name)
        self.record = self.dir / "record.db"

    def tearDown(self):
        self.folder.cleanup()

    def run_tune(self, *args, env=None, status=OK, device="interpreter"):
        full = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI_", "SLURM_"))}
        full.update(SECTILE_TUNE_RECORD=str(self.record), SECTILE_CACHE_DIR=str(self.dir / "cache"), **(env or {}))
        budget = [] if "--budget" in args else ["--budget", "30"]  # a search ends by itself; a busy machine takes its time
        command = [SECTILE, "tune", "--load", KERNELS, *args, *budget] + (["--device", device] if device else [])
        done = subprocess.run(command, env=full, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def results(self, *args, **more):
        return json.loads(self.run_tune(*args, "--json", "-", **more).stdout)

    def jobs(self, *lines):
        path = self.dir / "jobs.txt"
        path.write_text("\n".join(lines) + "\n")
        return ["--jobs", str(path)]

    def test_one_kernel(self):
        done = self.run_tune(*SCALE)
        self.assertIn("scale 1000xf32 1000xf32 f32=2 on interpreter", done.stdout)
        self.assertIn("chosen", done.stdout)
        self.assertIn("3 of 3 candidates timed", done.stderr)

    def test_list(self):
        self.assertEqual(self.run_tune("--list").stdout.split(), ["column_sums", "look_up", "matmul", "matmul_f16", "scale", "softmax"])

    def test_json_has_every_candidate(self):
        [job] = self.results(*SCALE)
        self.assertEqual(job["kernel"], "scale")
        texts = {c["configuration"] for c in job["result"]["candidates"]}
        self.assertEqual(texts, {"B=64", "B=256", "B=1024"})
        self.assertIn(job["result"]["choice"], texts)
        self.assertTrue(all(c["state"] == "measured" for c in job["result"]["candidates"]))
        path = self.dir / "out.json"
        self.run_tune(*SCALE, "--json", str(path))
        self.assertEqual(json.loads(path.read_text())[0]["kernel"], "scale")

    def test_resumes(self):
        """What the record knows for good is not measured again."""
        lines = ["scale 3000xf32 3000xf32 f32=2   # the scalar does not matter",
                 "look_up 100xi32=iota 100xf32 100xf32", "softmax 16x64xbf16 16x64xbf16"]
        first = self.results(*self.jobs(*lines[:1]))
        again = self.results(*self.jobs(*lines))
        self.assertEqual(len(again), 3)
        if not first[0]["result"]["noisy"]:
            self.assertTrue(again[0]["result"]["from_record"])
            self.assertEqual(again[0]["result"]["choice"], first[0]["result"]["choice"])
        self.assertFalse(again[1]["result"]["from_record"])
        fresh = self.results(*self.jobs(*lines[:1]), "--again")
        self.assertFalse(fresh[0]["result"]["from_record"])

    def test_two_ranks_share_the_jobs_and_one_record(self):
        lines = [f"scale {n}xf32 {n}xf32 f32=2" for n in (100, 1000, 10000, 100000)]
        jobs = self.jobs(*lines)
        for launcher in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
            self.record = self.dir / (launcher[0] + ".db")
            full = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI_", "SLURM_"))}
            full.update(SECTILE_TUNE_RECORD=str(self.record), SECTILE_CACHE_DIR=str(self.dir / "cache"))
            command = [SECTILE, "tune", "--load", KERNELS, *jobs, "--device", "interpreter", "--json", "-", "--budget", "30"]
            ranks = [subprocess.Popen(command, env={**full, launcher[0]: str(r), launcher[1]: "2"}, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) for r in range(2)]
            shares = []
            for r, process in enumerate(ranks):
                out, err = process.communicate(timeout=240)
                self.assertEqual(process.returncode, OK, err)
                share = json.loads(out)
                self.assertTrue(all(j["rank"] == r for j in share))
                shares.append([j["args"][0] for j in share])
            self.assertEqual(shares, [["100xf32", "10000xf32"], ["1000xf32", "100000xf32"]])
            # One process after them finds the work of both.
            after = self.results(*jobs)
            self.assertEqual(len(after), 4)
            for j in after:
                self.assertTrue(j["result"]["from_record"] or j["result"]["noisy"] or j["result"]["candidates"])
            shown = subprocess.run([SECTILE, "tune", "show"], env=full, capture_output=True, text=True, timeout=60)
            self.assertEqual(shown.returncode, OK, shown.stderr)
            rows = [line for line in shown.stdout.splitlines() if line.startswith("scale ")]
            self.assertEqual(sorted(r.split()[1] for r in rows), sorted(f"{n};{n};" for n in (100, 1000, 10000, 100000)))

    def test_two_ranks_under_mpirun(self):
        """The launcher itself. Where it is not installed, the test above has set what it sets."""
        mpirun = shutil.which("mpirun")
        said = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=60).stdout if mpirun else ""
        if "Open MPI" not in said:
            print("SKIPPED: two ranks under mpirun: no Open MPI here; its environment was tested instead", flush=True)
            self.skipTest("no Open MPI")
        lines = [f"scale {n}xf32 {n}xf32 f32=2" for n in (100, 1000, 10000, 100000)] + ["softmax 16x64xbf16 16x64xbf16"]
        full = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI_", "PMIX_", "SLURM_"))}
        full.update(SECTILE_TUNE_RECORD=str(self.record), SECTILE_CACHE_DIR=str(self.dir / "cache"), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                    PRTE_MCA_prte_silence_shared_fs="1", TMPDIR=str(self.dir))
        command = [SECTILE, "tune", "--load", KERNELS, *self.jobs(*lines), "--device", "interpreter", "--budget", "30"]
        # Each rank writes a file of its own; both write one record.
        script = f'exec "$@" --json "{self.dir}/rank$OMPI_COMM_WORLD_RANK.json" --html "{self.dir}/rank$OMPI_COMM_WORLD_RANK.html"'
        done = subprocess.run([mpirun, "-n", "2", "--oversubscribe", "--bind-to", "none", "sh", "-c", script, "sh", *command], env=full, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, OK, done.stderr)
        shares = []
        for r in range(2):
            share = json.loads((self.dir / f"rank{r}.json").read_text())
            self.assertTrue(all(j["rank"] == r for j in share))
            shares.append([j["args"][0] for j in share])
        self.assertEqual(shares, [["100xf32", "10000xf32", "16x64xbf16"], ["1000xf32", "100000xf32"]])
        # The records of both are one: a single process after them finds all that was final.
        after = self.results(*self.jobs(*lines))
        before = {j["args"][0]: j["result"] for r in range(2) for j in json.loads((self.dir / f"rank{r}.json").read_text())}
        for j in after:
            self.assertEqual(j["result"]["from_record"], not before[j["args"][0]]["noisy"])
            if j["result"]["from_record"]:
                self.assertEqual(j["result"]["choice"], before[j["args"][0]]["choice"])

    def test_several_gpus_share_the_jobs(self):
        """On a driver that runs nothing: each GPU has a worker of its own."""
        lines = [f"scale {n}xf32 {n}xf32 f32=2" for n in (100, 1000, 10000, 100000)]
        env = {"SECTILE_CUDA_LIBRARY": FAKE_CUDA, "FAKECUDA_DEVICES": "2"}
        limits = ["--verify", "none", "--only", "B=64,256", "--only", "warps=0", "--only", "cluster=0", "--only", "split=0", "--again", "--budget", "30"]
        for device, workers in (("gpus", 2), ("gpu:0,gpu:1", 2), ("gpu:1", 1)):
            done = self.run_tune(*self.jobs(*lines), *limits, "--json", "-", env=env, device=device)
            jobs = json.loads(done.stdout)
            self.assertEqual([j["args"][0] for j in jobs], ["100xf32", "1000xf32", "10000xf32", "100000xf32"])
            self.assertTrue(all(j["result"]["tried"] == 2 for j in jobs))
            self.assertLessEqual({j["gpu"] for j in jobs}, {0, 1} if workers == 2 else {1})
        self.fails(*self.jobs(*lines), rule="gpu_range", device="gpu:2", env=env)

    def test_progress(self):
        done = self.run_tune(*self.jobs("scale 1000xf32 1000xf32 f32=2", "scale 9000xf32 9000xf32 f32=2"), "--progress")
        self.assertRegex(done.stderr, r"\[#*\.+\] \d/2 jobs, \d+ s left \| scale 1000xf32 1000xf32 f32=2: \d/3 candidates")

    def drawings(self, path):
        """The SVG of a report, each parsed; the file reaches for nothing outside of itself."""
        text = path.read_text()
        self.assertNotRegex(text, r"<script|<link|src=|url\(|https?://")
        self.assertEqual(text.count("<svg"), text.count("</svg>"))
        found = []
        for svg in re.findall(r"<svg.*?</svg>", text, re.S):
            tree = xml.etree.ElementTree.fromstring(svg)
            width, height = (float(n) for n in tree.get("viewBox").split()[2:])
            for circle in tree.iter("circle"):
                self.assertTrue(0 <= float(circle.get("cx")) <= width and 0 <= float(circle.get("cy")) <= height, svg)
            found.append(tree)
        return text, found

    def test_html(self):
        """A report of what was measured; of what the record knows, with its candidates; of the record alone."""
        path = self.dir / "report.html"
        jobs = self.jobs("scale 1000xf32 1000xf32 f32=2", "matmul 64x64xbf16 64x64xbf16 64x64xbf16", "softmax 16x64xbf16 16x64xbf16")
        limits = ["--only", "BM=64", "--only", "BN=32,64"]
        self.run_tune(*SCALE, "--html", str(path))
        text, drawings = self.drawings(path)
        self.assertEqual([d.get("aria-label") for d in drawings], ["Candidates beside the memory's bandwidth", "Candidates of scale 1000xf32 1000xf32 f32=2"])
        self.assertEqual(len([c for c in drawings[1].iter("circle") if c.get("class") == "winner"]), 1)
        self.assertEqual(len(list(drawings[1].iter("circle"))), 3)
        for word in ("B=64", "B=256", "B=1024", "chosen", "default"):
            self.assertIn(word, text)
        done = self.run_tune("--kernel", "matmul", "--arg", "64x64xbf16", "--arg", "64x64xbf16", "--arg", "64x64xbf16", *limits, "--html", str(path))
        text, drawings = self.drawings(path)
        self.assertEqual(drawings[0].get("aria-label"), "Candidates over the roofline")
        self.assertIn("flop per byte", text)
        self.run_tune(*jobs, *limits, "--html", str(path), status=USER)  # the others have no BM
        self.assertIn("[tune_only]", path.read_text())
        # What the record knows is drawn too, and so is a record alone.
        again = self.run_tune(*SCALE, "--html", str(path))
        if "from the record" in again.stderr:
            self.assertEqual(len(list(self.drawings(path)[1][1].iter("circle"))), 3)
        full = {**os.environ, "SECTILE_TUNE_RECORD": str(self.record)}
        done = subprocess.run([SECTILE, "tune", "show", "--html", str(path)], env=full, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, OK, done.stderr)
        text, drawings = self.drawings(path)
        self.assertEqual([d.get("aria-label") for d in drawings], ["Candidates of scale 1000;1000;"])
        self.assertEqual(len(list(drawings[0].iter("circle"))), 3)

    def test_exhaustive_and_limits(self):
        [job] = self.results(*SCALE, "--exhaustive", "--verify", "all", "--only", "B=64,256")
        self.assertEqual({c["configuration"] for c in job["result"]["candidates"]}, {"B=64", "B=256"})
        self.assertEqual(job["result"]["ended_by"], "all measured")

    def fails(self, *args, rule, text="", env=None, device="interpreter"):
        done = self.run_tune(*args, status=USER, env=env, device=device)
        self.assertIn(f"[{rule}]", done.stderr)
        self.assertIn(text, done.stderr)

    def test_bad_input(self):
        self.fails(rule="tune_jobs", text="kernels are column_sums, look_up, matmul, matmul_f16, scale, softmax")
        self.fails("--jobs", str(self.dir / "none.txt"), rule="tune_jobs", text="No such file")
        self.fails("--kernel", "nothing", rule="tune_kernel", text="'nothing' is no kernel")
        self.fails(*self.jobs("scale 1000xf32"), rule="tune_args", text="jobs.txt:1: 1 arguments given, the kernel has 3")
        self.fails(*self.jobs("scale 10x10xf32 10xf32 f32=2"), rule="tune_args", text="argument 0 is 10x10xf32, the kernel takes f32 of rank 1")
        self.fails(*self.jobs("scale 10xf32 10xbf16 f32=2"), rule="tune_args")
        self.fails(*self.jobs("scale 10xf32 10xwrong f32=2"), rule="tool_arg")
        self.fails(*SCALE, "--only", "B=100", rule="tune_only", text="the kernel picks from {256, 64, 1024}")
        self.fails(*SCALE, "--only", "Q=1", rule="tune_only")
        self.fails(*SCALE, "--only", "B", rule="tune_only")
        self.fails(*SCALE, rule="tune_device", device="gpu:x")
        self.fails(*SCALE, rule="no_gpu", device="gpu:0", env={"SECTILE_CUDA_LIBRARY": "/nowhere/libcuda.so"})
        self.fails(*SCALE, rule="no_gpu", device="gpus", env={"SECTILE_CUDA_LIBRARY": "/nowhere/libcuda.so"})
        self.fails(*SCALE, rule="tune_rank", env={"OMPI_COMM_WORLD_RANK": "x", "OMPI_COMM_WORLD_SIZE": "2"})
        self.fails(*SCALE, rule="tune_rank", env={"PMI_RANK": "2", "PMI_SIZE": "2"})
        done = subprocess.run([SECTILE, "tune", "--load", "/nowhere/lib.so"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, USER)
        self.assertIn("[tune_load]", done.stderr)

    def test_one_bad_job_does_not_end_the_others(self):
        done = self.run_tune(*self.jobs("scale 1000xf32 1000xf32 f32=2", "softmax 16x64xbf16 16x64xbf16"), "--only", "B=64", "--json", "-", status=USER)
        jobs = json.loads(done.stdout)
        self.assertIn("result", jobs[0])
        self.assertIn("[tune_only]", jobs[1]["error"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
