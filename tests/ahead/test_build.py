#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of `sectile build`: the files, what a program in C needs, two GPUs and two threads on a fake driver, bad input.

    test_build.py sectile libsectile_tune_kernels.so libsectile_fake_cuda.so sectile_ahead_program cc [unittest options]
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SECTILE, KERNELS, FAKE_CUDA, PROGRAM = (os.path.abspath(p) for p in sys.argv[1:5])
CC = sys.argv[5]
OK, USER, USAGE = 0, 1, 2
SCALE = ["--kernel", "scale", "--arg", "1000xf32", "--arg", "1000xf32", "--arg", "f32=2"]
MATMUL = ["--kernel", "matmul"] + ["--arg", "1024x1024xbf16"] * 3


class Build(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = pathlib.Path(holder.name)
        self.out = self.dir / "out"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SECTILE_", "FAKECUDA_"))}
        self.env.update(SECTILE_TUNE_RECORD=str(self.dir / "record.db"), SECTILE_CACHE_DIR=str(self.dir / "cache"))
        for name in ("SECTILE_PTXAS", "CUDA_HOME"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def build(self, *args, status=OK, targets="sm_90a", env=None):
        command = [SECTILE, "build", "--load", KERNELS, *args, "--out", str(self.out)] + (["--targets", targets] if targets else [])
        done = subprocess.run(command, env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def manifest(self, name="kernels"):
        return json.loads((self.out / f"{name}.json").read_text())

    def compile(self, main, name="kernels", language=("-std=c11", "-xc")):
        source = self.dir / "main.c"
        source.write_text(main)
        program = self.dir / "program"
        done = subprocess.run([CC, *language, "-Wall", "-Wextra", "-Werror", f"-I{self.out}", str(source), "-std=c11", "-xc", str(self.out / f"{name}.c"),
                               str(self.out / "sectile_c.c"), "-o", str(program), "-ldl", "-lpthread"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def test_files(self):
        done = self.build(*MATMUL, "--name", "blas", targets="sm_90a,sm_100a")
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["blas.c", "blas.h", "blas.json", "sectile_c.c", "sectile_c.h"])
        made = self.manifest("blas")
        [kernel] = made["kernels"]
        self.assertEqual(kernel["kernel"], "matmul")
        self.assertEqual({v["target"] for v in kernel["variants"]}, {"sm_90a", "sm_100a"})
        for variant in kernel["variants"]:
            self.assertEqual(variant["lengths"], [[1024, 1024]] * 3)
            self.assertRegex(variant["configuration"], r"BK=\d+ BM=\d+ BN=\d+")
            self.assertIn(variant["target"], done.stdout)
        self.assertIn("sectile_status blas_matmul(struct CUstream_st *stream, const sectile_tensor *a0", (self.out / "blas.h").read_text())
        # The same again gives the same bytes.
        before = {p.name: p.read_bytes() for p in self.out.iterdir()}
        self.build(*MATMUL, "--name", "blas", targets="sm_90a,sm_100a", env={"SECTILE_CACHE": "0"})
        self.assertEqual(before, {p.name: p.read_bytes() for p in self.out.iterdir()})

    def test_a_program_needs_a_driver_alone(self):
        """Also for C++, and with two artefacts in one program."""
        self.build(*SCALE)
        shutil.copytree(self.out, self.dir / "one")
        self.build(*SCALE, "--name", "second", "--config", "B=64")
        main = """#include "kernels.h"
#include "second.h"
#include <stdio.h>
int main(void) {
  const int64_t n = 1000;
  const sectile_tensor x = sectile_packed((void *)4096, 1, &n);
  const sectile_status a = kernels_scale(NULL, &x, &x, 2.0f), b = second_scale(NULL, &x, &x, 2.0f);
  printf("%s %s %s\\n", sectile_status_name(a), sectile_status_name(b), sectile_last_error());
  return 0;
}
"""
        for file in (self.dir / "one").iterdir():
            shutil.copy(file, self.out)
        second = (self.out / "second.c").read_text()
        (self.out / "both.c").write_text((self.out / "kernels.c").read_text())
        (self.dir / "second.c").write_text(second)
        source = self.dir / "main.c"
        for flags in (("-xc", "-std=c11"), ("-xc++", "-std=c++17")):
            source.write_text(main)
            objects = []
            for path, how in ((source, flags), (self.out / "kernels.c", ("-xc", "-std=c11")), (self.out / "second.c", ("-xc", "-std=c11")),
                              (self.out / "sectile_c.c", ("-xc", "-std=c11"))):
                objects.append(str(self.dir / (path.stem + ".o")))
                done = subprocess.run([CC, *how, "-Wall", "-Wextra", "-Werror", f"-I{self.out}", "-c", str(path), "-o", objects[-1]], capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
            program = str(self.dir / "program")
            subprocess.run([CC, *objects, "-o", program, "-ldl", "-lpthread"], check=True, timeout=60)
            needs = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=60).stdout
            for word in ("sectile", "LLVM", "MLIR", "cuda", "stdc++"):
                self.assertNotIn(word, needs)
            none = subprocess.run([program], env={**self.env, "SECTILE_CUDA_LIBRARY": "/nowhere/libcuda.so"}, capture_output=True, text=True, timeout=60)
            self.assertEqual(none.returncode, 0)
            self.assertIn("SECTILE_NO_DRIVER SECTILE_NO_DRIVER the CUDA driver cannot be opened: ", none.stdout)
            fake = subprocess.run([program], env={**self.env, "SECTILE_CUDA_LIBRARY": FAKE_CUDA}, capture_output=True, text=True, timeout=60)
            self.assertIn("SECTILE_NO_CONTEXT", fake.stdout)
            old = subprocess.run([program], env={**self.env, "SECTILE_CUDA_LIBRARY": FAKE_CUDA, "FAKECUDA_VERSION": "11080"}, capture_output=True, text=True, timeout=60)
            self.assertIn("supports CUDA 11.8, and at least 12.0 is needed", old.stdout)

    def test_two_gpus_and_two_threads(self):
        """P23a on a driver that runs nothing: GPU 1 first, then 0, then both from two threads; errors are values."""
        for env, said in (({"FAKECUDA_DEVICES": "2"}, "OK: 2 GPUs"), ({}, "OK: 1 GPU,"), ({"FAKECUDA_MAJOR": "8"}, "OK: 1 GPU,")):
            images = self.dir / "images"
            images.unlink(missing_ok=True)
            done = subprocess.run([PROGRAM, "--no-values"], env={**self.env, "SECTILE_CUDA_LIBRARY": FAKE_CUDA, "FAKECUDA_IMAGES": str(images), **env},
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn(said, done.stdout)
            # Once for each GPU, however many threads there are.
            loads = images.read_text().split("\n")[:-1]
            self.assertEqual(len(loads) % (2 if env.get("FAKECUDA_DEVICES") else 1), 0)
            self.assertEqual({loads.count(line) for line in loads}, {2 if env.get("FAKECUDA_DEVICES") else 1})
        for env, said in (({"FAKECUDA_MAJOR": "12"}, "compute capability 12.0, and nothing was built for it"),
                          ({"FAKECUDA_FAIL": "cubin=209,ptx=218"}, "the driver refuses the code for sm_90a (error 218); its assembler says: ptxas fatal: fake"),
                          ({"FAKECUDA_FAIL": "cuStreamGetCtx=999"}, "cuStreamGetCtx gives an unknown error (999)")):
            done = subprocess.run([PROGRAM, "--no-values"], env={**self.env, "SECTILE_CUDA_LIBRARY": FAKE_CUDA, **env}, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("FAILED on GPU 0: load: ", done.stdout)
            self.assertIn(said, done.stdout)
        # A driver that refuses the cubin takes the PTX.
        done = subprocess.run([PROGRAM, "--no-values"], env={**self.env, "SECTILE_CUDA_LIBRARY": FAKE_CUDA, "FAKECUDA_FAIL": "cubin=209"}, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_records_choice_and_those_by_hand(self):
        done = self.build(*SCALE)
        self.assertIn("first values", done.stdout)
        # A record of an interpreter's run, renamed to a GPU's.
        tune = subprocess.run([SECTILE, "tune", "--load", KERNELS, *SCALE, "--device", "interpreter", "--budget", "30", "--only", "B=64"],
                              env=self.env, capture_output=True, text=True, timeout=120)
        self.assertEqual(tune.returncode, OK, tune.stderr)  # limits of the caller's own are not kept
        self.assertEqual(self.manifest()["record"]["rows"], [])
        tune = subprocess.run([SECTILE, "tune", "--load", KERNELS, *SCALE, "--device", "interpreter", "--budget", "30"],
                              env=self.env, capture_output=True, text=True, timeout=120)
        self.assertEqual(tune.returncode, OK, tune.stderr)
        chosen = json.loads(subprocess.run([SECTILE, "tune", "export"], env=self.env, capture_output=True, text=True, timeout=60).stdout)["rows"][0]["choice"]
        done = self.build(*SCALE, "--gpu", "sm_90a=interpreter")
        [variant] = self.manifest()["kernels"][0]["variants"]
        self.assertEqual(variant["from"], "record of interpreter, 1000;1000;")
        self.assertTrue(variant["configuration"].startswith(chosen), variant)
        self.assertEqual([r["choice"] for r in self.manifest()["record"]["rows"]], [chosen])
        # The rows can be brought into another record.
        (self.dir / "rows.json").write_text(json.dumps(self.manifest()["record"]))
        imported = subprocess.run([SECTILE, "tune", "import", str(self.dir / "rows.json"), "--record", str(self.dir / "other.db")], env=self.env, capture_output=True, text=True, timeout=60)
        self.assertEqual(imported.returncode, OK, imported.stderr)
        # A neighbour's.
        self.build("--kernel", "scale", "--arg", "1200xf32", "--arg", "1200xf32", "--arg", "f32=2", "--gpu", "sm_90a=interpreter")
        self.build(*SCALE, "--config", "B=64 warps=2", "--config", "B=1024")
        self.assertEqual([v["configuration"] for v in self.manifest()["kernels"][0]["variants"]], ["B=64 warps=2", "B=1024"])
        self.assertEqual({v["from"] for v in self.manifest()["kernels"][0]["variants"]}, {"by hand"})

    def test_bad_input(self):
        def fails(*args, rule, text="", status=USER, **more):
            done = self.build(*args, status=status, **more)
            self.assertIn(f"[{rule}]" if rule else "", done.stderr)
            self.assertIn(text, done.stderr)
            self.assertFalse(self.out.exists())
        fails(rule="tune_jobs", text="there is nothing to build")
        fails("--kernel", "nothing", rule="tune_kernel")
        fails(*SCALE[:-2], rule="tune_args")
        fails(*SCALE, rule="build_target", targets="")
        fails(*SCALE, rule="build_target", text="'sm_91' is no target; targets are sm_80", targets="sm_91")
        fails(*SCALE, "--align", "3", rule="", text="--align", status=USAGE)
        fails(*SCALE, "--name", "a b", rule="build_name")
        fails(*SCALE, "--config", "B", rule="build_config")
        fails(*SCALE, "--config", "B=63", rule="pick_value")
        fails(*SCALE, "--gpu", "sm_90a", rule="build_gpu")
        self.out.write_text("a file")
        done = self.build(*SCALE, status=USER)
        self.assertIn("[out_file]", done.stderr)

    def test_list(self):
        self.assertEqual(self.build("--list", targets="").stdout.split(), ["column_sums", "look_up", "matmul", "matmul_f16", "scale", "softmax"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])
