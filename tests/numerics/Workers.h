// SPDX-License-Identifier: Apache-2.0
/// \file Runs numbered cases in forked worker processes, so that a crash, a device fault or a hang costs one
/// case.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sectile::numerics {

struct Outcome {
  enum Kind : char { passed = 'p', failed = 'f', skipped = 's' } kind = passed;
  std::string text;   ///< why it failed or was skipped; of passed ones: a remark
  bool fatal = false; ///< the worker can do no more, as after a device fault
};

struct WorkerOptions {
  int jobs = 1;                ///< workers at a time
  std::size_t batch = 64;      ///< cases of one worker
  double stallSeconds = 10;    ///< without a sign of life in one case
  double startSeconds = 120;   ///< before the first case
  std::function<void()> start; ///< in each new worker; throws if there can be no work
  std::function<void(std::size_t, const Outcome &)> settled; ///< here, once for each case, in the order of their ends
};

/// Runs `run(0)` to `run(count - 1)`. Of a worker that dies, stalls or gives up, the case that it was at is
/// run again, alone in a fresh worker, and counts as failed, with what happened each time; the rest of its
/// batch goes to another one.
/// @pre no other threads, nothing done before that does not survive a fork
std::vector<Outcome> runInWorkers(std::size_t count, const WorkerOptions &options,
                                  const std::function<Outcome(std::size_t)> &run);

} // namespace sectile::numerics
