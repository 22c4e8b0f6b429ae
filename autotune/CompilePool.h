// SPDX-License-Identifier: Apache-2.0
/// \file Compiles candidates on all processors while others are timed.
#pragma once

#include "autotune/Space.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sectile::autotune {

class CompilePool {
public:
  struct Result {
    int id = 0;
    std::string code;   ///< for Measurer::add; empty when it failed
    std::string reason; ///< why it failed
  };
  /// `compile` gives a candidate's code and throws UserError where it has none; it is called on several threads at once.
  CompilePool(int threads, std::function<std::string(int)> compile);
  /// Waits for those that are being compiled; what was not begun is dropped.
  ~CompilePool();
  CompilePool(const CompilePool &) = delete;

  void add(int id);
  /// The next result that is there; waits for one if `wait` and something is under way.
  std::optional<Result> next(bool wait);
  /// Candidates that are queued or being compiled, or whose results were not fetched.
  std::size_t pending() const;
  /// Drops what was not begun; their ids.
  std::vector<int> cancel();

private:
  void work();

  std::function<std::string(int)> compile;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<int> queue;
  std::deque<Result> done;
  std::size_t running = 0;
  bool stopping = false;
  std::vector<std::thread> threads;
};

} // namespace sectile::autotune
