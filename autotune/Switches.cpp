// SPDX-License-Identifier: Apache-2.0
// Which switches of the schedule (0 by rule, 1 never, 2 wherever it can be done) are worth a measurement. The model has no opinion
// on how much each of them saves; it knows what there is to save: rounds of programs, bytes beyond the L2 cache, operands of loops.
#include "autotune/Space.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace sectile::autotune {
namespace {

/// Of the rounds of all programs, the share that the last one leaves idle and that is worth sharing it.
constexpr double leastIdle = 0.02;
/// Rounds that hide what begins and ends a block that goes through programs.
constexpr double leastRounds = 2;
/// A pair of blocks halves what one operand's loads take of the path to the L2 cache: nothing to gain where that is far from full.
constexpr double busyPath = 0.5;
/// Sums that one warpgroup alone has registers for.
constexpr double groupThreads = 128, mostGroupSums = 200;

struct Facts {
  const Target &target;
  const KernelWork &work;
  std::span<const KernelArg> args;
  const Prediction &rule;
  double rounds = 0; ///< of programs, on all multiprocessors
  bool beyondL2 = false;

  Facts(const Target &target, int multiprocessors, const TracedWork &traced, const Prediction &rule)
      : target(target), work(traced.work), args(traced.args), rule(rule) {
    rounds = static_cast<double>(rule.blocks) / (static_cast<double>(multiprocessors > 0 ? multiprocessors : target.smCount) * rule.residentBlocks);
    beyondL2 = std::accumulate(work.argumentBytes.begin(), work.argumentBytes.end(), 0.0) > static_cast<double>(target.l2Bytes);
  }

  bool lastRoundIdles() const {
    const double all = std::ceil(rounds);
    return all > 0 && (all - rounds) / all >= leastIdle;
  }
  /// Each product by one warpgroup.
  bool groupsTakeTurns() const {
    return rule.warps > 4 && std::all_of(work.products.begin(), work.products.end(), [](const WorkProduct &p) {
             return p.m % 64 == 0 && static_cast<double>(p.m) * p.n / groupThreads <= mostGroupSums;
           });
  }
  bool hasNeighbours() const {
    return target.clusterBlocks > 1 && std::any_of(work.grid.begin(), work.grid.end(), [](std::int64_t n) { return n > 1; });
  }
  /// Rows of an operand start inside lines of the L2 cache: the rule then forms pairs (ShareLoads).
  bool rowsInsideLines() const {
    constexpr std::int64_t lineBytes = 128;
    return std::any_of(work.accesses.begin(), work.accesses.end(), [&](const WorkAccess &a) {
      if (!a.feedsProduct || a.writes || a.arg < 0)
        return false;
      const KernelArg &arg = args[static_cast<std::size_t>(a.arg)];
      return std::any_of(arg.strides.begin(), arg.strides.begin() + arg.rank, [&](std::int64_t stride) {
        return stride > 1 && stride * static_cast<std::int64_t>(byteSize(arg.dtype)) % lineBytes;
      });
    });
  }
  bool twoProductsInALoop() const {
    for (const WorkProduct &p : work.products)
      if (p.loop >= 0 && std::count_if(work.products.begin(), work.products.end(), [&](const WorkProduct &q) { return q.loop == p.loop; }) > 1)
        return true;
    return false;
  }
  /// An operand that is loaded outside of the loop of some product.
  bool loopsKeepAnOperand() const {
    auto inLoop = [](const auto &x) { return x.loop >= 0; };
    return std::any_of(work.products.begin(), work.products.end(), inLoop) &&
           std::any_of(work.accesses.begin(), work.accesses.end(), [&](const WorkAccess &a) { return a.feedsProduct && !a.writes && !inLoop(a); });
  }
  bool loopsLoad() const {
    return std::any_of(work.accesses.begin(), work.accesses.end(), [&](const WorkAccess &a) {
      return !a.writes && a.loop >= 0 && work.loops[static_cast<std::size_t>(a.loop)].trips > 1;
    });
  }
};

} // namespace

std::vector<int> switchValues(const Target &target, int multiprocessors, const TracedWork &traced, const Prediction &rule, std::string_view name) {
  const Facts f(target, multiprocessors, traced, rule);
  using Values = std::vector<int>;
  auto when = [](bool holds, Values values) { return holds ? values : Values(); };
  if (rule.pipelined) {
    if (name == "snake")
      return when(f.work.canSplit && f.rounds > 1 && f.beyondL2, {1});
    if (name == "streamk")
      return when(f.work.canSplit && f.lastRoundIdles(), {1, 2});
    if (name == "pingpong")
      return when(f.rounds >= leastRounds && f.groupsTakeTurns(), {2});
    if (name == "multicast")
      return f.rowsInsideLines() ? when(f.hasNeighbours(), {1}) : when(f.rounds > 1 && f.hasNeighbours() && rule.l2Micros > busyPath * rule.tensorMicros, {2});
    if (name == "overlap")
      return when(f.twoProductsInALoop(), {1, 2});
    if (name == "keep")
      return when(f.loopsKeepAnOperand(), {1, 2});
    return {};
  }
  if (name == "async") // by rule where the TMA unit cannot read what products on warpgroups take
    return when(target.has(Feature::wgmma) && rule.onTensorCores && f.loopsLoad(), {1, 2});
  if (!f.work.products.empty())
    return {};
  if (name == "persistent")
    return when(f.rounds >= leastRounds && f.rule.cluster == 1, {2});
  if (name == "prefetch")
    return when(f.loopsLoad(), {1, 2});
  if (name == "evict")
    return when(f.beyondL2, {2});
  return {};
}

} // namespace sectile::autotune
