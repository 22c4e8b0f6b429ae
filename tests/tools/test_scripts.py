#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/: set-up on systems it cannot install on, the search for ptxas, the count of test results."""
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"


def bash(script, **environment):
    """Runs bash text; returns (exit status, stdout, stderr)."""
    done = subprocess.run(["bash", "-c", "set -euo pipefail\n" + script], capture_output=True, text=True, check=False,
                          env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment})
    return done.returncode, done.stdout, done.stderr


class Folder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def program(self, name, text="exit 0"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
        return path


class Bundle(Folder):
    def test_a_second_run_in_a_build_directory_waits(self):
        left = self.folder / "bundle" / "of the first run"
        left.mkdir(parents=True)
        command = ["timeout", "1", SCRIPTS / "bundle.sh", self.folder, "0.0"]
        with open(self.folder / "bundle.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 124, "it waits")
            self.assertTrue(left.exists())
        self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 1, "nothing is built there")
        self.assertFalse(left.exists())


class SetUp(Folder):
    def set_up(self, lines, **environment):
        return bash(f'source "{SCRIPTS}/setup.sh"\n{lines}', **environment)

    def test_other_system_gets_a_list(self):
        """Without apt or on another system: each missing thing with needed and found version, exit status 2."""
        status, _, text = self.set_up("isDebian12() { false; }\nllvm=/nowhere\nsetUpPackages")
        self.assertEqual(status, 2)
        for name, package in (("LLVM development files", "llvm-22-dev"), ("MLIR development files", "libmlir-22-dev"),
                              ("mlir-tblgen", "mlir-22-tools"), ("FileCheck, lit", "llvm-22-tools")):
            line = next(line for line in text.splitlines() if name in line)
            self.assertRegex(line, r"needed: 22\.1 or later +found: none")
            self.assertIn(package, line)
        self.assertNotIn("Ninja", text, "what is there is not listed")

    def test_old_version_is_missing(self):
        rows = 'requirements() { echo "CMake|3.25|cmake|3.9"; echo "Ninja|1.10|ninja-build|1.10"; }\n'
        status, _, text = self.set_up(rows + "isDebian12() { false; }\nsetUpPackages")
        self.assertEqual(status, 2)
        self.assertRegex(text, r"CMake +needed: 3\.25 or later +found: 3\.9 ")
        self.assertNotIn("Ninja", text)

    def test_debian_installs_what_is_missing_and_nothing_else(self):
        log = self.folder / "log"
        rows = f'requirements() {{ echo "A|2|pkg-a|$(cat "{self.folder}/a" 2>/dev/null)"; echo "B|any|pkg-b|present"; }}\n'
        apt = self.program("bin/apt-get", f'echo "$@" >>"{log}"\n[[ "$*" != *install* ]] || echo 2.0 >"{self.folder}/a"')
        self.program("bin/sudo", '"$@"')
        status, out, text = self.set_up(rows + "isDebian12() { true; }\nsetUpPackages\nsetUpPackages",
                                        PATH=f"{apt.parent}:{os.environ['PATH']}")
        self.assertEqual(status, 0, text)
        calls = log.read_text().splitlines()
        self.assertEqual(len(calls), 2, calls)
        self.assertIn("update", calls[0])
        self.assertTrue(calls[1].endswith("install -y --no-install-recommends pkg-a"), calls[1])
        self.assertIn("all packages present", out)

    def test_failing_apt_is_reported(self):
        apt = self.program("bin/apt-get", '[[ "$*" != *install* ]]')
        self.program("bin/sudo", '"$@"')
        status, _, text = self.set_up('requirements() { echo "A|2|pkg-a|"; }\nisDebian12() { true; }\nsetUpPackages',
                                      PATH=f"{apt.parent}:{os.environ['PATH']}")
        self.assertEqual(status, 1)
        self.assertIn("bookworm-security", text)
        self.assertIn("pkg-a", text)

    def test_without_pip_ptxas_is_said_once_and_set_up_goes_on(self):
        lines = f'deps="{self.folder}/deps"\nfindPtxas() {{ return 1; }}\nfetchPtxas() {{ return 1; }}\nsetUpPtxas'
        status, out, _ = self.set_up(lines)
        self.assertEqual(status, 0)
        self.assertEqual(out.count("absent"), 1)
        self.assertIn("skipped", out)

    def test_ptxas_is_taken_from_a_wheel(self):
        pip = ('python3() { if [ "$1" = -m ]; then while [ $# -gt 0 ]; do [ "$1" != -d ] || target=$2; shift; done; '
               f'command python3 "{self.folder}/wheel.py" "$target"; else command python3 "$@"; fi; }}\n')
        (self.folder / "wheel.py").write_text(
            "import sys, zipfile\n"
            "with zipfile.ZipFile(sys.argv[1] + '/nvidia_cuda_nvcc-13.9-py3-none-any.whl', 'w') as wheel:\n"
            "    wheel.writestr('nvidia/cu13/bin/ptxas', '#!/bin/sh\\necho V13.9.1\\n')\n"
            "    wheel.writestr('nvidia_cuda_nvcc-13.9.dist-info/licenses/License.txt', 'terms')\n")
        lines = pip + f'deps="{self.folder}/deps"\ndefaultCuda=/nowhere\nsetUpPtxas\nsetUpPtxas'
        status, out, text = self.set_up(lines, PATH=self.path_without_ptxas())
        self.assertEqual(status, 0, text)
        self.assertEqual(out.count("asking PyPI"), 1)
        self.assertEqual(out.count(f"{self.folder}/deps/ptxas/bin/ptxas (13.9.1)"), 2, out)
        self.assertEqual((self.folder / "deps/ptxas/LICENSE.txt").read_text(), "terms")

    @staticmethod
    def path_without_ptxas():
        return ":".join(p for p in os.environ["PATH"].split(":") if p and not os.path.exists(os.path.join(p, "ptxas")))

    def test_order_of_the_search_for_ptxas(self):
        """SECTILE_PTXAS, PATH, CUDA_HOME, the default place, what set-up fetched."""
        places = [self.program(f"{name}/bin/ptxas") for name in ("own", "path", "home", "default", "deps/ptxas")]
        clean = self.path_without_ptxas()
        for first in range(len(places) + 1):
            lines = f'source "{SCRIPTS}/lib.sh"\n'
            lines += f'defaultCuda="{self.folder / "default" if first <= 3 else "/nowhere"}"\n'
            lines += f'deps="{self.folder / "deps" if first <= 4 else "/nowhere"}"\nfindPtxas'
            environment = {"PATH": f"{places[1].parent}:{clean}" if first <= 1 else clean}
            if first == 0:
                environment["SECTILE_PTXAS"] = str(places[0])
            if first <= 2:
                environment["CUDA_HOME"] = str(self.folder / "home")
            status, out, text = bash(lines, **environment)
            expected = str(places[first]) if first < len(places) else ""
            self.assertEqual((status, out.strip()), (0 if expected else 1, expected), text)

    def test_none_means_none(self):
        status, out, _ = bash(f'source "{SCRIPTS}/lib.sh"\nfindPtxas', SECTILE_PTXAS="none")
        self.assertEqual((status, out), (1, ""))


class Jobs(unittest.TestCase):
    def jobs(self, cores, memory_kib, limit):
        lines = f"""source "{SCRIPTS}/lib.sh"
nproc() {{ echo {cores}; }}
awk() {{ echo {memory_kib // 1024}; }}
cat() {{ echo {limit}; }}
buildJobs"""
        status, out, text = bash(lines)
        self.assertEqual(status, 0, text)
        return int(out)

    def test_one_per_core_and_per_gigabyte_and_a_half(self):
        gib = 1024 * 1024
        self.assertEqual(self.jobs(2, 24 * gib, "max"), 2)
        self.assertEqual(self.jobs(64, 24 * gib, "max"), 16)
        self.assertEqual(self.jobs(64, 24 * gib, 6 * 1024 * gib), 4)
        self.assertEqual(self.jobs(8, 1 * gib, "max"), 1)


def case(name, status, output="", message=None):
    inner = f'<skipped message="{message}"/>' if message is not None else ""
    return f'<testcase name="{name}" classname="{name}" time="0" status="{status}">{inner}<system-out>{output}</system-out></testcase>'


class Demo(Folder):
    """The README's first command on a copy of the scripts, with programs that record how they are called."""

    def demo(self, *words, gpus=0):
        log = self.folder / "log"
        for name in ("demo.sh", "lib.sh"):
            self.program(f"scripts/{name}", (SCRIPTS / name).read_text())
        self.program("scripts/setup.sh", f'echo "setup.sh $*" >>"{log}"')
        self.program("tools/cmake", f'echo "cmake $*" >>"{log}"')
        self.program("tools/nvidia-smi", "\n".join(["exit 9"] if not gpus else [f"echo GPU {i}: a GPU" for i in range(gpus)]))
        self.program("tools/ptxas", f'echo "ptxas $*" >>"{log}"\nfor last; do :; done\ntouch "${{last%.ptx}}.cubin"')
        for sample in ("02_softmax", "04_matmul"):
            self.program(f"build/bin/{sample}", f'echo "{sample} $*" >>"{log}"\nfor w; do case $w in --out=*) '
                                               'echo code >"${w#--out=}";; esac; done')
        status, out, _ = bash(f'"{self.folder}/scripts/demo.sh" {" ".join(words)}',
                              PATH=f'{self.folder}/tools:{os.environ["PATH"]}')
        return status, log.read_text().splitlines(), out

    @unittest.skipIf(list(pathlib.Path("/dev").glob("nvidia[0-9]*")), "there is a GPU here")
    def test_without_a_gpu_small_sizes_and_assembled_ptx(self):
        status, calls, _ = self.demo()
        self.assertEqual(status, 0)
        self.assertEqual(calls[0], "setup.sh ")
        self.assertIn("02_softmax --small --device=interpreter", calls)
        self.assertIn("04_matmul --small --device=interpreter", calls)
        self.assertEqual(sum(c.startswith("ptxas --gpu-name=sm_90a") for c in calls), 2)

    def test_with_a_gpu_real_sizes(self):
        status, calls, _ = self.demo(gpus=1)
        self.assertEqual(status, 0)
        self.assertIn("02_softmax --device=gpu", calls)
        self.assertIn("04_matmul --device=gpu", calls)
        self.assertFalse([c for c in calls if "--small" in c])

    def test_a_failing_sample_fails_the_command(self):
        self.demo()
        self.program("build/bin/04_matmul", "exit 1")
        status, _, _ = bash(f'"{self.folder}/scripts/demo.sh" --device=interpreter',
                            PATH=f'{self.folder}/tools:{os.environ["PATH"]}')
        self.assertNotEqual(status, 0)


class Counting(Folder):
    def count(self, cases, listed=None, ctest_status=0):
        names = listed if listed is not None else [text.split('"')[1] for text in cases]
        (self.folder / "list.json").write_text(json.dumps({"tests": [{"name": name} for name in names]}))
        if cases is not None:
            (self.folder / "junit.xml").write_text(f'<testsuite name="x">{"".join(cases)}</testsuite>')
        done = subprocess.run([sys.executable, str(SCRIPTS / "count_tests.py"), "--listed", str(self.folder / "list.json"),
                               "--junit", str(self.folder / "junit.xml"), "--ctest-status", str(ctest_status)],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()[-1] if done.stdout else done.stderr

    def test_plain_entries(self):
        self.assertEqual(self.count([case("a", "run"), case("b", "run")]), (0, "2 passed, 0 failed"))
        self.assertEqual(self.count([case("a", "run"), case("b", "fail")], ctest_status=8), (1, "1 passed, 1 failed"))

    def test_nothing_ran(self):
        self.assertEqual(self.count([]), (1, "0 passed, 0 failed"))
        self.assertEqual(self.count([case("a", "notrun", message="SKIP_RETURN_CODE=77")]), (1, "0 passed, 0 failed, 1 skipped"))

    def test_skips(self):
        skipped = [case("a", "run"), case("b", "notrun", message="SKIP_RETURN_CODE=77"),
                   case("c", "notrun", message="SKIP_REGULAR_EXPRESSION_MATCHED"), case("d", "disabled")]
        self.assertEqual(self.count(skipped), (0, "1 passed, 0 failed, 3 skipped"))

    def test_what_could_not_start_has_failed(self):
        for message in ("Unable to find executable", "Fixture dependency failed", ""):
            self.assertEqual(self.count([case("a", "run"), case("b", "notrun", message=message)]), (1, "1 passed, 1 failed"))

    def test_what_never_reported_has_failed(self):
        self.assertEqual(self.count([case("a", "run")], listed=["a", "b", "c"]), (1, "1 passed, 2 failed"))
        (self.folder / "junit.xml").unlink()
        self.assertEqual(self.count(None, listed=["a"], ctest_status=124), (1, "0 passed, 1 failed"))

    def test_status_of_ctest_counts(self):
        self.assertEqual(self.count([case("a", "run")], ctest_status=8), (1, "1 passed, 1 failed"))

    def test_catch_cases(self):
        passed = case("a", "run", "=====\nAll tests passed (90 assertions in 12 test cases)\n")
        self.assertEqual(self.count([passed]), (0, "12 passed, 0 failed"))
        failed = case("a", "fail", "test cases: 5 | 3 passed | 2 failed\nassertions: 9 | 7 passed | 2 failed\n")
        self.assertEqual(self.count([failed], ctest_status=8), (1, "3 passed, 2 failed"))
        died = case("a", "fail", "All tests passed (90 assertions in 12 test cases)\nSegmentation fault\n")
        self.assertEqual(self.count([died], ctest_status=8), (1, "12 passed, 1 failed"))

    def test_skipped_lines(self):
        text = "SKIPPED: vector_add on the GPU: no device\nAll tests passed (9 assertions in 4 test cases)\n"
        self.assertEqual(self.count([case("a", "run", text)]), (0, "3 passed, 0 failed, 1 skipped"))
        self.assertEqual(self.count([case("a", "run", "SKIPPED: one\nSKIPPED: two\n"), case("b", "run")]),
                         (0, "1 passed, 0 failed, 1 skipped"))

    def test_lit(self):
        text = ("Testing Time: 0.51s\n\nTotal Discovered Tests: 15\n  Unsupported: 2 (13.33%)\n  Passed     : 12 (80.00%)\n"
                "  Expectedly Failed: 1 (6.67%)\n")
        self.assertEqual(self.count([case("lit", "run", text)]), (0, "13 passed, 0 failed, 2 skipped"))
        text = "Testing Time: 0.51s\n\nTotal Discovered Tests: 3\n  Passed: 1 (33.33%)\n  Failed: 2 (66.67%)\n"
        self.assertEqual(self.count([case("lit", "fail", text)], ctest_status=8), (1, "1 passed, 2 failed"))
        self.assertNotEqual(self.count([case("lit", "run", text)])[0], 0, "failures with exit status 0 are not believed")

    def test_unittest(self):
        text = "Ran 7 tests in 0.100s\n\nOK (skipped=2)\n"
        self.assertEqual(self.count([case("py", "run", text)]), (0, "5 passed, 0 failed, 2 skipped"))
        text = "Ran 7 tests in 0.100s\n\nFAILED (failures=1, errors=2)\n"
        self.assertEqual(self.count([case("py", "fail", text)], ctest_status=8), (1, "4 passed, 3 failed"))

    def test_plain_line(self):
        text = "failed: add f32: got 1\n7 passed, 1 failed\n"
        self.assertEqual(self.count([case("n", "fail", text)], ctest_status=8), (1, "7 passed, 1 failed"))
        self.assertEqual(self.count([case("n", "run", "40 passed, 0 failed, 2 skipped\n")]), (0, "40 passed, 0 failed, 2 skipped"))
        self.assertEqual(self.count([case("n", "run", "40 passed, 0 failed\nthen more\n")]), (0, "1 passed, 0 failed"))
        self.assertNotEqual(self.count([case("n", "run", text)])[0], 0, "failures with exit status 0 are not believed")


if __name__ == "__main__":
    unittest.main()
