// SPDX-License-Identifier: Apache-2.0
// A GPU used before the fork and after it.
// EXPECT: this process was forked after its parent first used a GPU
// EXPECT: [forked_after_use]
// EXPECT: fork before the first use
#include "tests/support/ExpectError.h"

#include <sys/wait.h>
#include <unistd.h>

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(0);
  if (const pid_t child = fork()) {
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  Device::gpu(0); // HERE
}
