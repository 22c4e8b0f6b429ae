#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the `sectile` and `sectile-run` programs: what they print, exit statuses, bad input, shell completion.

    test_cli.py path/to/sectile path/to/sectile-run [unittest options]
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SECTILE, SECTILE_RUN = (os.path.abspath(p) for p in sys.argv[1:3])
OK, USER, USAGE = 0, 1, 2

ADD = """
func.func @add(%X: !tile.tensor<1, f32> {tile.readonly}, %Y: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %i = tile.grid %Y [64] : !tile.tensor<1, f32> -> index
  %x = tile.load %X[%i] : !tile.tensor<1, f32> -> tensor<64xf32>
  %s = tile.binary add %x, %x : tensor<64xf32>
  tile.store %s, %Y[%i] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
"""
# Each op on a line of its own; the lines are those of this text.
SOFTMAX = """func.func @softmax(%X: !tile.tensor<2, bf16> {tile.readonly}, %Y: !tile.tensor<2, bf16>) attributes {tile.kernel} {
  %r = tile.grid %Y [1] : !tile.tensor<2, bf16> -> index
  %z = tile.constant 0 : index
  %in = tile.load %X[%r, %z] : !tile.tensor<2, bf16> -> tensor<1x4096xbf16>
  %x = tile.cast %in : tensor<1x4096xbf16> -> tensor<1x4096xf32>
  %m = tile.reduce max %x, 1 : tensor<1x4096xf32> -> tensor<1x1xf32>
  %mm = tile.broadcast %m : tensor<1x1xf32> -> tensor<1x4096xf32>
  %d = tile.binary sub %x, %mm : tensor<1x4096xf32>
  %e = tile.unary exp %d : tensor<1x4096xf32> -> tensor<1x4096xf32>
  %s = tile.reduce sum %e, 1 : tensor<1x4096xf32> -> tensor<1x1xf32>
  %ss = tile.broadcast %s : tensor<1x1xf32> -> tensor<1x4096xf32>
  %q = tile.binary div %e, %ss : tensor<1x4096xf32>
  %out = tile.cast %q : tensor<1x4096xf32> -> tensor<1x4096xbf16>
  tile.store %out, %Y[%r, %z] : tensor<1x4096xbf16>, !tile.tensor<2, bf16>
  return
}
"""
TRANSPOSE = """func.func @transpose(%X: !tile.tensor<2, bf16> {tile.readonly}, %Y: !tile.tensor<2, bf16>) attributes {tile.kernel} {
  %i, %j = tile.grid %X [64, 64] : !tile.tensor<2, bf16> -> index, index
  %x = tile.load %X[%i, %j] : !tile.tensor<2, bf16> -> tensor<64x64xbf16>
  %t = tile.permute %x [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
  tile.store %t, %Y[%j, %i] : tensor<64x64xbf16>, !tile.tensor<2, bf16>
  return
}
"""
GATHER = """func.func @pick(%X: !tile.tensor<1, f32> {tile.readonly}, %I: !tile.tensor<1, i32> {tile.readonly}, %Y: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %r = tile.grid %Y [64] : !tile.tensor<1, f32> -> index
  %i = tile.load %I[%r] : !tile.tensor<1, i32> -> tensor<64xi32>
  %n = tile.cast %i : tensor<64xi32> -> tensor<64xindex>
  %x = tile.gather %X[%n] : !tile.tensor<1, f32>, (tensor<64xindex>) -> tensor<64xf32>
  tile.store %x, %Y[%r] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
"""
COLUMNS = """func.func @columns(%X: !tile.tensor<2, f32> {tile.readonly}, %Y: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %c = tile.grid %Y [64] : !tile.tensor<1, f32> -> index
  %z = tile.constant 0 : index
  %step = tile.constant 16 : index
  %rows = tile.dim %X, 0 : !tile.tensor<2, f32>
  %start = tile.constant dense<0.0> : tensor<1x64xf32>
  %sum = scf.for %r = %z to %rows step %step iter_args(%a = %start) -> (tensor<1x64xf32>) {
    %x = tile.load %X[%r, %c] : !tile.tensor<2, f32> -> tensor<16x64xf32>
    %p = tile.reduce sum %x, 0 : tensor<16x64xf32> -> tensor<1x64xf32>
    %n = tile.binary add %a, %p : tensor<1x64xf32>
    scf.yield %n : tensor<1x64xf32>
  }
  %out = tile.reshape %sum : tensor<1x64xf32> -> tensor<64xf32>
  tile.store %out, %Y[%c] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
"""
# The element type and the tile are filled in.
PRODUCT = """func.func @product(%A: !tile.tensor<2, TYPE> {tile.readonly}, %B: !tile.tensor<2, TYPE> {tile.readonly}, %C: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %C [128, 128] : !tile.tensor<2, f32> -> index, index
  %z = tile.constant 0 : index
  %step = tile.constant 64 : index
  %depth = tile.dim %A, 1 : !tile.tensor<2, TYPE>
  %start = tile.constant dense<0.0> : tensor<128x128xf32>
  %sum = scf.for %k = %z to %depth step %step iter_args(%acc = %start) -> (tensor<128x128xf32>) {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, TYPE> -> tensor<128x64xTYPE>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, TYPE> -> tensor<64x128xTYPE>
    %p = tile.mma exact %a, %b, %acc : tensor<128x64xTYPE>, tensor<64x128xTYPE>, tensor<128x128xf32>
    scf.yield %p : tensor<128x128xf32>
  }
  tile.store %sum, %C[%m, %n] : tensor<128x128xf32>, !tile.tensor<2, f32>
  return
}
"""
ARCHES = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"]


class Cli(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("SECTILE_")}
        self.environment["SECTILE_CACHE_DIR"] = str(self.folder / "cache")

    def call(self, *words, status=OK, program=SECTILE, text="", **more):
        """Runs the program; its stdout as text. stderr is empty exactly when the status is 0 (warnings aside)."""
        done = subprocess.run([program, *map(str, words)], input=text.encode(), capture_output=True, check=False, timeout=120,
                              env={**self.environment, **more})
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, status, f"{words}: {out[:300]} {err[:800]}")
        if status != OK:
            self.assertNotEqual(err.strip(), "", f"{words}: nothing said on stderr")
            self.assertNotIn("terminate called", err)
            self.assertNotIn("Stack dump", err)
        self.err = err
        return out

    def fails(self, status, expected, *words, **more):
        self.call(*words, status=status, **more)
        for part in [expected] if isinstance(expected, str) else expected:
            self.assertIn(part, self.err, f"{words}")

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path


class Information(Cli):
    def test_targets_table_has_every_row_limit_and_feature(self):
        lines = self.call("targets").splitlines()
        self.assertEqual(lines[0].split(), ["arch", *ARCHES])
        rows = {line.split("  ")[0].strip(): line.split()[-9:] for line in lines}
        self.assertEqual(rows["shared bytes per block"][3], "232448")
        self.assertEqual(rows["wgmma"], ["-", "-", "-", "yes", "-", "-", "-", "-", "-"])

    def test_targets_json(self):
        rows = json.loads(self.call("targets", "--json"))
        self.assertEqual([r["arch"] for r in rows], ARCHES)
        hopper = rows[3]
        self.assertEqual((hopper["multiprocessors"], hopper["threadsPerSm"], hopper["ptxVersion"]), (132, 2048, "8.4"))
        self.assertIn("wgmma", hopper["features"])
        self.assertNotIn("wgmma", rows[4]["features"])

    def test_env_names_every_switch_and_its_value(self):
        out = self.call("env", SECTILE_LOG="1")
        for switch in ("SECTILE_DEVICE", "SECTILE_LOG", "SECTILE_DUMP", "SECTILE_CHECK", "SECTILE_PTXAS", "SECTILE_CACHE",
                       "SECTILE_CACHE_DIR", "SECTILE_CUDA_LIBRARY", "CUDA_HOME"):
            self.assertIn(switch + " ", out)
        self.assertIn("unset: 0; now: 1", out)

    def test_version_with_nothing_installed(self):
        out = self.call("version", SECTILE_PTXAS="none", SECTILE_CUDA_LIBRARY="/nowhere/libcuda.so")
        self.assertRegex(out, r"^sectile \d+\.\d+\.\d+\nLLVM \d+\.\d+\.\d+\nptxas none found")
        self.assertIn("driver none: ", out)
        self.assertIn("/nowhere/libcuda.so", out)

    def test_version_names_a_ptxas_that_does_not_run(self):
        broken = self.write("ptxas", "#!/bin/sh\nexit 1\n")
        broken.chmod(0o755)
        self.assertIn("ptxas none usable", self.call("version", SECTILE_PTXAS=broken))

    def test_help_documents_exit_statuses(self):
        for words in ([], ["run"], ["emit"], ["explain"], ["cache"], ["cache", "prune"], ["targets"], ["completion"]):
            out = self.call(*words, "--help")
            for status in ("0 done", "1 a mistake", "2 a command line", "3 a bug"):
                self.assertIn(status, out)
        self.assertRegex(self.call("--version"), r"^sectile \d+\.\d+\.\d+\n$")

    def test_usage_errors(self):
        self.fails(USAGE, "subcommand is required")
        self.fails(USAGE, "subcommand is required", "cache")
        self.fails(USAGE, "frobnicate", "frobnicate")
        self.fails(USAGE, "file is required", "run")
        self.fails(USAGE, "--stage is required", "emit", "x.mlir")
        self.fails(USAGE, "{tile,tgpu,llvm,ptx,cubin}", "emit", "x.mlir", "--stage=sass")
        self.fails(USAGE, ["sm_75", *ARCHES], "emit", "x.mlir", "--stage=ptx", "--arch=sm_75")
        self.fails(USAGE, "--warps", "run", "x.mlir", "--warps=99")
        self.fails(USAGE, "{interpreter,executor,gpu}", "run", "x.mlir", "--device=tpu")
        self.fails(USAGE, "--max-bytes", "cache", "prune", "--max-bytes=-5")
        self.fails(USAGE, "--max-bytes", "cache", "prune", "--max-bytes=lots")
        self.fails(USAGE, "{bash,zsh,fish}", "completion", "tcsh")


class Files(Cli):
    def each_bad_file(self, *words, program):
        self.fails(USER, ["nothing-here.mlir", "o such file", "[run_file]"], *words, self.folder / "nothing-here.mlir", program=program)
        self.fails(USER, ["irectory"], *words, self.folder, program=program)
        self.fails(USER, "tile.kernel", *words, self.write("empty.mlir", ""), program=program)
        garbage = bytes((i * 7919 + i // 251) % 256 for i in range(5000))
        self.fails(USER, "error", *words, self.write("garbage.mlir", garbage), program=program)
        self.fails(USER, "error", *words, self.write("zeros.mlir", bytes(5000)), program=program)
        self.fails(USER, "error", *words, self.write("bytecode.mlir", b"ML\xefR" + garbage), program=program)
        self.fails(USER, "error", *words, self.write("half.mlir", ADD[:200]), program=program)
        self.fails(USER, "error", *words, self.write("notile.mlir", ADD.replace("tile.binary", "tile.binar")), program=program)
        self.fails(USER, "error", *words, self.write("elf.mlir", pathlib.Path("/bin/true").read_bytes()), program=program)

    def test_bytecode_that_ends_early_or_has_a_wrong_byte(self):
        opt = os.path.join(os.path.dirname(SECTILE), "sectile-opt")
        made = subprocess.run([opt, "--emit-bytecode", self.write("add.mlir", ADD)], capture_output=True, check=True).stdout
        self.call("run", self.write("whole.mlirbc", made), "--arg=8xf32=iota", "--arg=8xf32=zeros")
        for length in [*range(1, 12), *range(12, len(made), max(1, len(made) // 24))]:
            self.call("run", self.write("cut.mlirbc", made[:length]), "--arg=8xf32=iota", "--arg=8xf32=zeros", status=USER)
        for at in range(4, len(made), max(1, len(made) // 24)):  # a mistake, or another kernel; never the end of the program
            done = subprocess.run([SECTILE, "emit", "--stage=tile", self.write("wrong.mlirbc", made[:at] + bytes([made[at] ^ 0x5A]) + made[at + 1:])],
                                  capture_output=True, check=False, timeout=120, env=self.environment)
            self.assertIn(done.returncode, (OK, USER), f"byte {at}: {done.stderr[-500:]}")

    def test_bad_files(self):
        self.each_bad_file("run", program=SECTILE)
        self.each_bad_file("emit", "--stage=tile", program=SECTILE)
        self.each_bad_file("explain", program=SECTILE)
        self.each_bad_file(program=SECTILE_RUN)

    def test_run_on_the_interpreter(self):
        file = self.write("add.mlir", ADD)
        words = ["--arg", "5xf32=iota", "--arg", "5xf32=bytes:255"]
        self.assertEqual(self.call("run", file, *words), "arg1 5 f32 [0, 2, 4, 6, 8]\n")
        self.assertEqual(self.call("run", *words, file), "arg1 5 f32 [0, 2, 4, 6, 8]\n")
        self.assertEqual(self.call("run", "-", *words, text=ADD), "arg1 5 f32 [0, 2, 4, 6, 8]\n")
        self.assertEqual(self.call(file, *words, program=SECTILE_RUN), "arg1 5 f32 [0, 2, 4, 6, 8]\n")

    def test_run_lowered_code_on_the_executor(self):
        file = self.write("add.mlir", ADD)
        words = ["--device=executor", "--arg", "200xf32=iota", "--arg", "200xf32=bytes:255"]
        out = self.call("run", file, *words)
        self.assertEqual(out, self.call("run", file, *words[1:]))
        counted = self.call("run", file, *words, "--counters")
        self.assertTrue(counted.startswith(out))
        table = [line.split() for line in counted[len(out):].splitlines()]
        self.assertEqual(table[0], ["4", "programs"])
        load, store = table[2:]
        self.assertEqual([load[7], store[7]], ["tgpu.global_load", "tgpu.global_store"])
        for row in (load, store):  # 800 bytes, 32 in a sector
            self.assertEqual((row[1], row[2], row[5]), ("800", "25", "0"))
        self.assertIn("add.mlir:4:8", load[8])
        self.fails(USAGE, "--counters", "emit", file, "--stage=tgpu", "--counters")

    def test_bad_arguments(self):
        file = self.write("add.mlir", ADD)
        self.fails(USER, "0 arguments given, the kernel has 2", "run", file)
        self.fails(USER, ["1 arguments given, the kernel has 2", "[run_args]"], "run", file, "--arg=5xf32=iota")
        self.fails(USER, "run_arg_type", "run", file, "--arg=5xf32=iota", "--arg=5xf16=zeros")
        self.fails(USER, "run_arg_type", "run", file, "--arg=5xf32=iota", "--arg=f32=1")
        for bad in ("5", "5xf32", "5xf99=iota", "-5xf32=iota", "5xf32=nonsense", "xf32=iota", "1x1x1x1x1x1xf32=iota",
                    "99999999999xf32=zeros", "99999999999999999999xf32=zeros", "f32=abc", "5xf32@=iota", "5xf32@1=iota",
                    "5x5xf32@00=iota", "5x5xf32@0=iota", "f32@0=1", "5xf32@x=iota"):
            self.fails(USER, "tool_arg", "run", file, "--arg=5xf32=iota", "--arg=" + bad)

    def test_order_of_axes(self):
        file = self.write("transpose.mlir", TRANSPOSE)
        for axes, text in (("@10", "0, 1, 2, 3, 4, 5"), ("@01", "0, 3, 1, 4, 2, 5"), ("", "0, 3, 1, 4, 2, 5")):
            out = self.call("run", file, f"--arg=2x3xbf16{axes}=iota", "--arg=3x2xbf16=zeros")
            self.assertIn(f"3x2 bf16 [{text}]", out)

    def test_no_gpu(self):
        file = self.write("add.mlir", ADD)
        self.fails(USER, "no_gpu", "run", file, "--device=gpu", "--arg=5xf32=iota", "--arg=5xf32=zeros",
                   SECTILE_CUDA_LIBRARY="/nowhere/libcuda.so")

    def test_emit_every_stage(self):
        file = self.write("add.mlir", ADD)
        self.assertIn("tile.grid", self.call("emit", file, "--stage=tile"))
        self.assertIn('add.mlir":4:8)', self.call("emit", file, "--stage=tile"))
        self.assertIn("tgpu.", self.call("emit", file, "--stage=tgpu"))
        self.assertIn("define ", self.call("emit", file, "--stage=llvm"))
        self.assertIn(".target sm_90a", self.call("emit", file, "--stage=ptx"))
        self.assertIn(".target sm_80", self.call("emit", file, "--stage=ptx", "--arch=sm_80"))
        self.assertEqual(self.call("emit", file, "--stage=ptx"), self.call(file, "--emit=ptx", program=SECTILE_RUN))
        out = self.folder / "add.ptx"
        self.assertEqual(self.call("emit", file, "--stage=ptx", "--out", out), "")
        self.assertEqual(out.read_text(), self.call("emit", file, "--stage=ptx"))

    def test_emit_cubin(self):
        file = self.write("add.mlir", ADD)
        self.fails(USER, "emit_ptxas", "emit", file, "--stage=cubin", SECTILE_PTXAS="none")
        if "ptxas none" in self.call("version"):
            self.skipTest("no ptxas")
        out = self.folder / "add.bin"
        self.call("emit", file, "--stage=cubin", "-o", out)
        self.assertEqual(out.read_bytes()[:4], b"\x7fELF")

    def test_an_assembler_that_fails(self):
        program = self.write("ptxas", "#!/bin/sh\n[ \"$1\" != --version ] || { echo 'release 13.0, V13.0.88'; exit 0; }\n"
                                      "echo 'ptxas error   : no luck' >&2; exit 255\n")
        program.chmod(0o755)
        file, out = self.write("add.mlir", ADD), self.folder / "add.cubin"
        self.fails(3, ["ptxas 13.0.88 failed on kernel 'add'", "exit code 255", "no luck", str(self.folder / "sectile-add-")],
                   "emit", file, "--stage=cubin", "--out", out, SECTILE_PTXAS=program, TMPDIR=str(self.folder))
        self.assertFalse(out.exists())

    def test_output_that_cannot_be_written(self):
        file = self.write("add.mlir", ADD)
        for bad, why in ((self.folder / "none" / "x.ptx", "No such file"), (self.folder, "Is a directory"),
                         (pathlib.Path("/dev/full"), "No space left")):
            self.fails(USER, ["out_file", str(bad), why], "emit", file, "--stage=tile", "--out", bad)

    def test_stdout_closed_or_full(self):
        file = self.write("add.mlir", ADD)
        for words in (["targets"], ["targets", "--json"], ["--help"], ["version"], ["env"], ["completion", "bash"],
                      ["emit", str(file), "--stage=tile"], ["cache", "list"],
                      ["run", str(file), "--arg=5xf32=iota", "--arg=5xf32=zeros"]):
            for redirect, why in ((">&-", "Bad file descriptor"), (">/dev/full", "No space left")):
                done = subprocess.run(["bash", "-c", '"$0" "$@" ' + redirect, SECTILE, *words], capture_output=True,
                                      text=True, check=False, env=self.environment, timeout=120)
                self.assertEqual(done.returncode, USER, f"{words} {redirect}: {done.stderr}")
                self.assertIn(why, done.stderr)
        done = subprocess.run(["bash", "-c", '"$0" targets >&- 2>&- <&-', SECTILE], check=False, timeout=120)
        self.assertEqual(done.returncode, USER)
        for closed in ("2>&-", "2>/dev/full"):
            for words, status in ((["frobnicate"], USAGE), (["run", str(self.folder / "none")], USER),
                                  (["run", str(self.write("garbage.mlir", "garbage"))], USER)):
                done = subprocess.run(["bash", "-c", f'"$0" "$@" {closed}', SECTILE, *words], check=False, timeout=120)
                self.assertEqual(done.returncode, status, f"{words} {closed}")


class Explain(Cli):
    def explain(self, text, *words, **more):
        """The explanation as JSON, and its accesses by kind."""
        out = json.loads(self.call("explain", self.write("kernel.mlir", text), "--json", *words, **more))
        kinds = {}
        for access in out["accesses"]:
            self.assertTrue(access["at"]["file"].endswith("kernel.mlir"))
            kinds.setdefault(access["kind"], []).append(access)
        return out, kinds

    def test_softmax(self):
        args = ["--arg=300x4096xbf16=normal:1", "--arg=300x4096xbf16=zeros"]
        out, kinds = self.explain(SOFTMAX, *args)
        self.assertEqual(sorted(kinds), ["exchange", "load", "store"])
        for kind, line in (("load", 4), ("store", 14)):
            access, = kinds[kind]
            self.assertEqual((access["vectorBytes"], access["sectorsPerRequest"], access["at"]["line"]), (16, 16, line))
            self.assertEqual((access["tileBytes"], access["bytes"], access["shape"]), (8192, 300 * 8192, [1, 4096]))
        self.assertEqual([a["at"]["line"] for a in kinds["exchange"]], [6, 6, 10, 10])
        self.assertEqual([(a["passesPerRequest"], a["conflicts"]) for a in kinds["exchange"]], [(1, 0)] * 4)
        self.assertEqual([(b["first"]["line"], b["last"]["line"]) for b in out["buffers"]], [(6, 6), (10, 10)])
        self.assertEqual((out["programs"], out["conflicts"]), (300, 0))
        self.assertLess(out["programsRun"], 300)
        self.assertEqual(out["bytesRead"] + out["bytesWritten"], out["argumentBytes"])
        self.assertEqual((out["sectorBytes"], out["argumentBytes"]), (2 * 300 * 8192, 2 * 300 * 8192))
        self.assertEqual((out["bandwidthGBs"], out["chip"]), (4800, "H200 SXM"))
        self.assertAlmostEqual(out["onceMicroseconds"], 2 * 300 * 8192 / 4.8e6)
        text = self.call("explain", "-", *args, text=SOFTMAX).splitlines()
        self.assertEqual(text[0], "softmax for sm_90a (H200 SXM)")
        self.assertEqual(text[2].split()[:3], ["line", "what", "op"])
        self.assertEqual(text[3].split(), ["<stdin>:4", "load", "global_load", "0", "1x4096", "bf16", "8192", "16", "4800", "16", "-", "-"])

    def test_transpose(self):
        out, kinds = self.explain(TRANSPOSE, "--arg=4096x512xbf16=iota", "--arg=512x4096xbf16=zeros")
        # What AssignLayouts says: each side moves whole sectors, and the tile goes through shared memory once.
        self.assertEqual([(c["op"], c["way"], c["bytes"], c["vectorBytes"], c["sectorsPerRequest"]) for c in out["layouts"]],
                         [("global_load", None, 0, 16, 16), ("convert_layout", "shared memory", 2 * 64 * 64 * 2, 0, 0),
                          ("global_store", None, 0, 16, 16)])
        for kind, line in (("load", 3), ("store", 5)):
            access, = kinds[kind]
            self.assertEqual((access["vectorBytes"], access["sectorsPerRequest"], access["at"]["line"]), (16, 16, line))
        self.assertEqual([a["op"] for a in kinds["conversion"]], ["copy", "copy_out"])
        self.assertEqual([a["conflicts"] for a in kinds["conversion"]], [0, 0])
        buffer, = out["buffers"]
        self.assertEqual((buffer["bytes"], buffer["offset"], buffer["shape"]), (8192, 0, [64, 64]))
        self.assertLess(buffer["firstOp"], buffer["lastOp"])
        self.assertEqual(out["sectorBytes"], 2 * 4096 * 512 * 2)

    def test_counts_of_a_part_of_the_grid_are_those_of_all(self):
        for text, dims in ((ADD, ["6405xf32"] * 2), (TRANSPOSE, ["1000x650xbf16", "650x1000xbf16"])):
            args = [f"--arg={d}=iota" for d in dims]
            out, _ = self.explain(text, *args)
            self.assertLess(out["programsRun"], out["programs"])
            counted = self.call("run", self.write("kernel.mlir", text), *args, "--device=executor", "--counters")
            rows = [line.split() for line in counted.splitlines() if ("tgpu.global" in line or "tgpu.copy" in line)]
            self.assertEqual([(int(r[0]), int(r[1]), int(r[2]), int(r[4]), int(r[5])) for r in rows],
                             [(a["requests"], a["bytes"], a["sectors"], a["passes"], a["conflicts"]) for a in out["accesses"]])

    def test_unaligned_rows_and_gathers(self):
        _, kinds = self.explain(GATHER, "--arg=1000xf32=iota", "--arg=100xi32=value:7", "--arg=100xf32=zeros")
        gather, = kinds["gather"]
        self.assertEqual((gather["vectorBytes"], gather["sectorsPerRequest"], gather["at"]["line"]), (4, 1, 5))
        _, kinds = self.explain(ADD, "--arg=200xf32=iota", "--arg=200xf32=zeros")
        self.assertEqual([a["at"]["line"] for k in ("load", "store") for a in kinds[k]], [4, 6])
        rows = ["--arg=70x4001xbf16=normal:1", "--arg=70x4001xbf16=zeros"]
        out, kinds = self.explain(SOFTMAX, *rows)
        self.assertEqual((kinds["load"][0]["vectorBytes"], out["alignedRows"]), (2, False))
        # With room for one vector more, as cfg.cover leaves it.
        facts = ("tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 1, 1>, "
                 "tile.dim_max = array<i64: 0, 4089>")
        text = SOFTMAX.replace("{tile.readonly}", "{tile.readonly, " + facts + "}").replace("bf16>) attr", "bf16> {" + facts + "}) attr")
        out, kinds = self.explain(text, *rows)
        self.assertTrue(out["alignedRows"])
        for kind in ("load", "store"):
            access, = kinds[kind]
            self.assertEqual((access["vectorBytes"], access["bytes"]), (16, 70 * 4001 * 2))
            self.assertIn("starts at a multiple of 16 bytes", access["note"])

    def test_loops_that_blocks_share(self):
        args = ["--arg=512x64xf32=normal:1", "--arg=64xf32=zeros"]
        out, kinds = self.explain(COLUMNS, *args, "--split=3")
        self.assertEqual((out["mayShareLoop"], out["split"], out["bytesRead"]), (True, 3, 512 * 64 * 4))
        self.assertIn("counted with 3 blocks a program", self.call("explain", "-", *args, "--split=3", text=COLUMNS))
        out, _ = self.explain(COLUMNS, *args, "--split=1")
        self.assertEqual((out["mayShareLoop"], out["bytesRead"]), (False, 512 * 64 * 4))

    def test_launch_and_limits(self):
        args = ["--arg=300x4096xbf16=normal:1", "--arg=300x4096xbf16=zeros"]
        out, _ = self.explain(SOFTMAX, *args, "--warps=8", "--arch=sm_100a", "--bandwidth=1000", SECTILE_PTXAS="none")
        self.assertEqual((out["warps"], out["arch"], out["bandwidthGBs"]), (8, "sm_100a", 1000))
        self.assertEqual((out["registers"], out["spillBytes"], out["blocksPerSm"]["registers"]), (None, None, None))
        self.assertEqual((out["blocksPerSm"]["threads"], out["blocksPerSm"]["all"]), (8, 8))
        clustered, kinds = self.explain(SOFTMAX, *args, "--cluster=2")
        self.assertEqual(clustered["cluster"], 2)
        self.assertIn("peer_copy", [a["op"] for a in kinds["exchange"]])
        if "ptxas none" not in self.call("version"):
            out, _ = self.explain(SOFTMAX, *args)
            self.assertGreater(out["registers"], 16)
            self.assertEqual(out["spillBytes"], 0)
            self.assertGreaterEqual(out["blocksPerSm"]["registers"], 1)
            self.assertIn("bytes of spills", self.call("explain", "-", *args, text=SOFTMAX))
        self.assertIn("registers: unknown", self.call("explain", "-", *args, text=SOFTMAX, SECTILE_PTXAS="none"))

    def test_products_pipes_and_roles(self):
        text = PRODUCT.replace("TYPE", "bf16")
        args = ["--arg=512x256xbf16=normal:1", "--arg=256x384xbf16=normal:2", "--arg=512x384xf32=zeros"]
        out, kinds = self.explain(text, *args)
        # Each of 4 x 3 programs loads 128 rows of A and 128 columns of B.
        self.assertEqual((out["programs"], out["bytesRead"], out["bytesWritten"]), (12, 12 * 2 * 128 * 256 * 2, 512 * 384 * 4))
        self.assertEqual(out["flops"], 2.0 * 512 * 256 * 384)
        self.assertEqual([(a["op"], a["argument"], a["tma"], a["shape"], a["at"]["line"]) for a in kinds["load"]],
                         [("tma_load", 0, True, [128, 64], 8), ("tma_load", 1, True, [64, 128], 9)])
        store, = kinds["store"]
        self.assertEqual((store["op"], store["tma"], store["at"]["line"]), ("bulk_store", True, 13))
        product, = out["products"]
        self.assertEqual((product["op"], product["instruction"], product["m"], product["n"], product["k"], product["runs"]),
                         ("wgmma", "sm90_m64n128k16_f32bf16bf16", 128, 128, 64, 12 * 4))
        self.assertEqual((product["placeA"], product["placeB"], product["inLoop"]), ("shared, K-major", "shared, N-major", True))
        pipe, = out["pipes"]
        self.assertEqual((pipe["slotBytes"], pipe["loads"], pipe["offset"]), (2 * 128 * 64 * 2, [0, 1], 0))
        self.assertGreaterEqual(pipe["slots"], 4)
        self.assertEqual([(r["name"], r["warps"]) for r in out["roles"]], [("producer", 4), ("consumers", 8)])
        # The map of shared memory: nothing overlaps, and it ends where the block's memory does.
        places = sorted((b["offset"], b["bytes"]) for b in out["buffers"])
        for (at, size), (following, _) in zip(places, places[1:]):
            self.assertLessEqual(at + size, following)
        self.assertEqual(places[-1][0] + places[-1][1], out["sharedBytes"])
        self.assertEqual((out["persistent"], out["programsAtATime"], out["bound"]), (True, 132, "memory"))
        self.assertAlmostEqual(out["waves"], 12 / 132)
        self.assertEqual(out["blocksPerSm"]["threads"], 2048 // 384)
        plain = self.call("explain", "-", *args, text=text)
        for part in ("pipe  line", "sm90_m64n128k16_f32bf16bf16", "128x128x64", "producer: 4 warps", "pipe 0, ", "why not faster:",
                     "12 programs, 132 at a time by blocks that go through several", "  grid: 12 programs for 132 places"):
            self.assertIn(part, plain)

    def test_why_products_are_not_on_the_fast_path(self):
        def reasons(kind, rows, *words):
            out, _ = self.explain(PRODUCT.replace("TYPE", kind), f"--arg=256x{rows}x{kind}=zeros", f"--arg={rows}x128x{kind}=zeros",
                                  "--arg=256x128xf32=zeros", *words)
            return {(r["by"], r["at"] and r["at"]["line"]): r["text"] for r in out["reasons"]}

        self.assertNotIn(("SelectMma", 10), reasons("bf16", 192))
        self.assertIn("exact products", reasons("f32", 192)["SelectMma", 10])
        self.assertIn("stages is set to 1", reasons("bf16", 192, "--stages=1")["SelectMma", 10])
        self.assertNotIn(("SelectMma", 10), reasons("bf16", 192, "--arch=sm_80")) # has no faster path
        self.assertIn("no code is made for tcgen05", reasons("bf16", 192, "--arch=sm_100a")["SelectMma", 10])
        # Rows of A begin at multiples of 2 bytes.
        why = reasons("bf16", 193)
        self.assertEqual([line for by, line in why if by == "StageOperands"], [8])
        self.assertIn("operand A is loaded by threads", why["StageOperands", 8])
        self.assertIn("stride along axis 0 that is a multiple of 2 bytes", why["StageOperands", 8])
        self.assertIn("trips a program: 1, of 64 along K each", reasons("bf16", 24)["trips", 10])

    def test_padded_lengths(self):
        text = SOFTMAX.replace("4096", "76")
        out, _ = self.explain(text, "--arg=9x76xbf16=iota", "--arg=9x76xbf16=zeros")
        self.assertEqual(out["padded"], [[76, 128]])
        self.assertIn("padded: tile length 76 grown to 128",
                      self.call("explain", "-", "--arg=9x76xbf16=iota", "--arg=9x76xbf16=zeros", text=text))

    def test_bad_input(self):
        file = self.write("add.mlir", ADD)
        self.fails(USER, "[run_args]", "explain", file)
        self.fails(USER, "run_arg_type", "explain", file, "--arg=5xf32=iota", "--arg=5xf16=zeros")
        self.fails(USER, "error", "explain", self.write("half.mlir", ADD[:200]), "--arg=5xf32=iota", "--arg=5xf32=iota")
        self.fails(USER, "[run_file]", "explain", self.folder / "nothing-here.mlir")
        self.fails(USAGE, "file is required", "explain")
        self.fails(USAGE, "--bandwidth", "explain", file, "--bandwidth=-1")
        self.fails(USAGE, "--arch", "explain", file, "--arch=sm_75")


class Cache(Cli):
    def test_list_and_prune(self):
        self.assertIn("no entries", self.call("cache", "list"))
        self.assertIn("nothing to remove", self.call("cache", "prune"))
        cache = self.folder / "cache"
        cache.mkdir()
        self.assertIn("0 entries, 0 bytes", self.call("cache", "list"))
        (cache / "0123.kernel").write_bytes(b"not an entry")
        (cache / "keep.txt").write_bytes(b"not of the cache")
        out = self.call("cache", "list")
        self.assertIn("damaged: 12 bytes are less than a header", out)
        self.assertIn("1 entries, 12 bytes", out)
        self.assertIn("1 files removed, 0 entries with 0 bytes kept", self.call("cache", "prune", "--dir", cache))
        self.assertEqual([p.name for p in cache.iterdir()], ["keep.txt"])
        self.call("cache", "prune", "--max-bytes=10MiB")

    def test_directories_that_cannot_be_read(self):
        loop, file = self.folder / "loop", self.write("file", "x")
        loop.symlink_to(loop)
        cases = [(self.folder / "none", "No such file"), (file, "Not a directory"), (loop, "symbolic links")]
        if os.geteuid() != 0:
            closed = self.folder / "closed"
            closed.mkdir(mode=0)
            cases.append((closed, "Permission denied"))
        for command in ("list", "prune"):
            for bad, why in cases:
                self.fails(USER, ["cache_dir", str(bad), why], "cache", command, "--dir", bad)
            self.fails(USER, "Not a directory", "cache", command, SECTILE_CACHE_DIR=file)

    def test_prune_says_what_it_could_not_remove(self):
        cache = self.folder / "cache"
        (cache / "folder.kernel").mkdir(parents=True)
        self.fails(USER, "cache_prune", "cache", "prune")


class Completion(Cli):
    def bash(self, *words):
        """The offers for the last word, as bash's completion asks for them."""
        script = ('source <("$SECTILE" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '_sectile sectile "${@: -1}" "${@: -2:1}"; printf "%s\\n" "${COMPREPLY[@]}"; complete -p sectile')
        done = subprocess.run(["bash", "-c", script, "bash", "sectile", *words], capture_output=True, text=True, check=False,
                              cwd=self.folder, env={**self.environment, "SECTILE": SECTILE}, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-1], "complete -F _sectile sectile")
        return sorted(filter(None, lines[:-1]))

    def test_bash(self):
        self.write("kernel.mlir", ADD)
        (self.folder / "kernels").mkdir()
        commands = ["build", "cache", "completion", "emit", "env", "explain", "run", "targets", "tune", "version"]
        self.assertEqual(self.bash(""), commands)
        self.assertEqual(self.bash("ca"), ["cache"])
        self.assertEqual(self.bash("cache", ""), ["list", "prune"])
        self.assertEqual(self.bash("cache", "prune", "--m"), ["--max-bytes"])
        self.assertEqual(self.bash("tune", ""), ["diff", "export", "import", "merge", "prune", "show"])
        self.assertEqual(self.bash("tune", "prune", "--o"), ["--older-than", "--other-compilers"])
        self.assertEqual(self.bash("tune", "show", "--record", "ker"), ["kernel.mlir", "kernels"])
        self.assertEqual(self.bash("tune", "diff", "ker"), ["kernel.mlir", "kernels"])
        self.assertEqual(self.bash("emit", "--stage", "t"), ["tgpu", "tile"])
        self.assertEqual(self.bash("emit", "--stage", "=", "p"), ["ptx"])
        self.assertEqual(self.bash("emit", "--stage", "="), ["cubin", "llvm", "ptx", "tgpu", "tile"])
        self.assertEqual(self.bash("emit", "--arch", ""), sorted(ARCHES))
        self.assertEqual(self.bash("emit", "ker"), ["kernel.mlir", "kernels"])
        self.assertEqual(self.bash("cache", "list", "--dir", "ker"), ["kernels"])
        self.assertEqual(self.bash("run", "kernel.mlir", "--dev"), ["--device"])
        self.assertEqual(self.bash("run", "kernel.mlir", "--device", ""), ["executor", "gpu", "interpreter"])
        self.assertEqual(self.bash("explain", "kernel.mlir", "--"), sorted(
            ["--help", "--arch", "--warps", "--cluster", "--stages", "--blocks", "--raster", "--split", "--async", "--pingpong", "--multicast", "--snake", "--streamk", "--overlap", "--keep", "--persistent", "--prefetch", "--evict",
             "--arg", "--json", "--bandwidth"]))
        self.assertEqual(self.bash("explain", "--arch", "sm_9"), ["sm_90a"])
        self.assertEqual(self.bash("completion", ""), ["bash", "fish", "zsh"])
        self.assertEqual(self.bash("targets", "--js"), ["--json"])

    def test_zsh(self):
        self.syntax("zsh", self.call("completion", "zsh"))

    def test_fish(self):
        text = self.call("completion", "fish")
        self.assertIn("-l stage -x -a 'tile tgpu llvm ptx cubin'", text)
        self.syntax("fish", text)
        script = self.write("sectile.fish", text)
        offers = subprocess.run(["fish", "-c", f"source {script}; complete -C 'sectile emit --stage '"], capture_output=True,
                                text=True, check=True, env={**self.environment, "HOME": str(self.folder)}, timeout=60).stdout
        self.assertEqual(sorted(line.split("\t")[0] for line in offers.splitlines()), ["cubin", "llvm", "ptx", "tgpu", "tile"])

    def syntax(self, shell, text):
        self.assertIn("emit", text)
        if not shutil.which(shell):
            self.skipTest(f"no {shell}")
        subprocess.run([shell, "-n", self.write("script", text)], check=True, timeout=60)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
