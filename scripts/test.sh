#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, builds, and runs every test that this machine can run. The last line is the count:
#   N passed, N failed            or            N passed, N failed, N skipped
# Exit status: 0 only if something ran and nothing failed.
# Usage: scripts/test.sh [ctest arguments, as: -L unit]
# SECTILE_TIME_BUDGET_S (default 3600) bounds the whole run; tests not reached in time count as failed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

budget=${SECTILE_TIME_BUDGET_S:-3600}
left() { echo $((budget - SECONDS > 1 ? budget - SECONDS : 1)); }
boundedBuild() { timeout "$(left)" cmake --build "$buildDir" --parallel "$(buildJobs)"; }

junit="$buildDir/test-results.xml" listed="$buildDir/test-list.json" log="$buildDir/test-log.txt"
runTests() {
  rm -f "$junit" "$listed"
  ctest --test-dir "$buildDir" --show-only=json-v1 "$@" >"$listed" || return
  local status=0
  # The summary of each test program is at the end of its output, so truncation takes the beginning.
  timeout "$(left)" ctest --test-dir "$buildDir" --output-junit "$junit" --output-on-failure --no-tests=error \
    --parallel "$(buildJobs)" --test-output-size-passed 1000000 --test-output-size-failed 1000000 \
    --test-output-truncation head "$@" >"$log" 2>&1 || status=$?
  # On success the log is long and uninteresting.
  if [ "$status" -eq 0 ]; then tail -n 12 "$log"; else tail -n 400 "$log"; fi
  return "$status"
}

# A failure before the tests is one failed step, so the closing line is printed then too.
stopped() { say "0 passed, 1 failed"; exit 1; }
stage set-up "$root/scripts/setup.sh" || { [ $? -ne 2 ] || exit 2; stopped; }
exportPtxas
stage configure configure || stopped
stage build boundedBuild || stopped
status=0
stage test runTests "$@" || status=$?
python3 "$root/scripts/count_tests.py" --listed "$listed" --junit "$junit" --ctest-status "$status"
