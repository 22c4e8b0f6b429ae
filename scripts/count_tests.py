#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns CTest's results into one closing line, `N passed, N failed[, N skipped]`.

One CTest entry may be a whole test program. Where its output ends in a summary of its own (Catch2, lit, unittest, or
such a line), the cases of that summary are counted; otherwise the entry counts as one. An entry that CTest listed but never reported
(time ran out, CTest died) or that could not start counts as failed. A test says that it cannot run here either by
CTest's SKIP_RETURN_CODE or by a line `SKIPPED: reason`; each such line moves one case from passed to skipped.

Exit status: 0 if at least one test passed and none failed, 1 otherwise.
"""
import argparse
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


LIT_KINDS = {
    "Passed": "passed",
    "Expectedly Failed": "passed",
    "Passed With Retry": "passed",
    "Failed": "failed",
    "Unresolved": "failed",
    "Timed Out": "failed",
    "Unexpectedly Passed": "failed",
    "Unsupported": "skipped",
    "Skipped": "skipped",
    "Excluded": None,
}


def count_lit(output):
    """lit ends with lines such as `  Passed           : 12 (80.00%)`."""
    if "Testing Time:" not in output and "Total Discovered Tests:" not in output:
        return None
    count, seen = Count(), False
    for kind, number in re.findall(r"^\s+([A-Z][A-Za-z ]+?)\s*:\s+(\d+) \(\d+\.\d+%\)", output, re.M):
        if kind not in LIT_KINDS:
            raise SystemExit(f"count_tests: lit prints a kind of result that is not known here: {kind!r}")
        seen = True
        if LIT_KINDS[kind]:
            setattr(count, LIT_KINDS[kind], getattr(count, LIT_KINDS[kind]) + int(number))
    return count if seen else None


def count_catch(output):
    """Catch2 ends with `All tests passed (9 assertions in 4 test cases)` or `test cases: 4 | 3 passed | 1 failed`."""
    whole = re.findall(r"All tests passed \(\d+ assertions? in (\d+) test cases?\)", output)
    if whole:
        return Count(passed=int(whole[-1]))
    parts = re.findall(r"^test cases:\s*(\d+)((?:\s*\|\s*\d+ [a-z ]+)+)", output, re.M)
    if not parts:
        return None
    total, rest = int(parts[-1][0]), parts[-1][1]
    numbers = {kind.strip(): int(number) for number, kind in re.findall(r"(\d+) ([a-z ]+)", rest)}
    passed = numbers.get("passed", 0) + numbers.get("failed as expected", 0)
    return Count(passed=passed, failed=total - passed)


def count_unittest(output):
    """Python's unittest ends with `Ran 3 tests in 0.1s` and `OK (skipped=1)` or `FAILED (failures=1, errors=1)`."""
    ran = re.findall(r"^Ran (\d+) tests? in ", output, re.M)
    verdict = re.findall(r"^(?:OK|FAILED)(?: \(([^)]*)\))?$", output, re.M)
    if not ran or not verdict:
        return None
    numbers = dict(part.strip().split("=") for part in verdict[-1].split(",") if part.strip())
    failed = sum(int(numbers.get(kind, 0)) for kind in ("failures", "errors", "unexpected successes"))
    skipped = int(numbers.get("skipped", 0))
    return Count(passed=int(ran[-1]) - failed - skipped, failed=failed, skipped=skipped)


def count_plain(output):
    """Our own programs end with the same closing line as this script, `12 passed, 1 failed, 2 skipped`."""
    lines = output.strip().splitlines()
    whole = re.fullmatch(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", lines[-1].strip()) if lines else None
    return Count(*(int(number or 0) for number in whole.groups())) if whole else None


def count_output(output):
    """The cases that a test program's own summary reports, or None where it has none."""
    return count_lit(output) or count_catch(output) or count_unittest(output) or count_plain(output)


def count_case(case):
    """One `testcase` element of CTest's JUnit file."""
    output = "".join(element.text or "" for element in case.findall("system-out"))
    status = case.get("status")
    if status == "run":
        count = count_output(output) or Count(passed=1)
        if count.failed:
            raise SystemExit(f"count_tests: {case.get('name')} reports failures, yet its exit status was 0")
    elif status == "fail":
        count = count_output(output) or Count(failed=1)
        # A program may die after, or outside, the cases that it counted.
        count.failed = max(count.failed, 1)
    elif status == "disabled":
        return Count(skipped=1)
    elif status == "notrun":
        skipped = case.find("skipped")
        reason = skipped.get("message", "") if skipped is not None else ""
        return Count(skipped=1) if reason.startswith("SKIP_") else Count(failed=1)
    else:
        raise SystemExit(f"count_tests: {case.get('name')} has the unknown status {status!r}")
    moved = min(len(re.findall(r"^SKIPPED: \S", output, re.M)), count.passed)
    count.passed -= moved
    count.skipped += moved
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listed", required=True, help="ctest --show-only=json-v1")
    parser.add_argument("--junit", required=True, help="ctest --output-junit")
    parser.add_argument("--ctest-status", type=int, required=True)
    options = parser.parse_args()

    total, reported, bad = Count(), set(), []
    if pathlib.Path(options.junit).is_file():
        for case in ElementTree.parse(options.junit).getroot().iter("testcase"):
            count = count_case(case)
            reported.add(case.get("name"))
            if count.failed:
                bad.append(case.get("name"))
            total.add(count)
    try:
        listed = [test["name"] for test in json.loads(pathlib.Path(options.listed).read_text())["tests"]]
    except (OSError, ValueError, KeyError):
        listed = []
    lost = [name for name in listed if name not in reported]
    total.failed += len(lost)
    for name in bad:
        print(f"failed: {name}")
    for name in lost:
        print(f"failed: {name} (never reported)")
    # CTest itself failed, though no test did: that is a failure too.
    if options.ctest_status != 0 and total.failed == 0:
        print(f"failed: ctest ended with status {options.ctest_status}")
        total.failed += 1
    line = f"{total.passed} passed, {total.failed} failed"
    print(line + (f", {total.skipped} skipped" if total.skipped else ""))
    return 0 if total.failed == 0 and total.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
