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
        for words in ([], ["run"], ["emit"], ["cache"], ["cache", "prune"], ["targets"], ["completion"]):
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

    def test_bad_files(self):
        self.each_bad_file("run", program=SECTILE)
        self.each_bad_file("emit", "--stage=tile", program=SECTILE)
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
                    "99999999999xf32=zeros", "99999999999999999999xf32=zeros", "f32=abc"):
            self.fails(USER, "tool_arg", "run", file, "--arg=5xf32=iota", "--arg=" + bad)

    def test_no_gpu(self):
        file = self.write("add.mlir", ADD)
        self.fails(USER, "no_gpu", "run", file, "--device=gpu", "--arg=5xf32=iota", "--arg=5xf32=zeros",
                   SECTILE_CUDA_LIBRARY="/nowhere/libcuda.so")

    def test_emit_every_stage(self):
        file = self.write("add.mlir", ADD)
        self.assertIn("tile.grid", self.call("emit", file, "--stage=tile"))
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
        commands = ["cache", "completion", "emit", "env", "run", "targets", "version"]
        self.assertEqual(self.bash(""), commands)
        self.assertEqual(self.bash("ca"), ["cache"])
        self.assertEqual(self.bash("cache", ""), ["list", "prune"])
        self.assertEqual(self.bash("cache", "prune", "--m"), ["--max-bytes"])
        self.assertEqual(self.bash("emit", "--stage", "t"), ["tgpu", "tile"])
        self.assertEqual(self.bash("emit", "--stage", "=", "p"), ["ptx"])
        self.assertEqual(self.bash("emit", "--stage", "="), ["cubin", "llvm", "ptx", "tgpu", "tile"])
        self.assertEqual(self.bash("emit", "--arch", ""), sorted(ARCHES))
        self.assertEqual(self.bash("emit", "ker"), ["kernel.mlir", "kernels"])
        self.assertEqual(self.bash("cache", "list", "--dir", "ker"), ["kernels"])
        self.assertEqual(self.bash("run", "kernel.mlir", "--dev"), ["--device"])
        self.assertEqual(self.bash("run", "kernel.mlir", "--device", ""), ["executor", "gpu", "interpreter"])
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
