// SPDX-License-Identifier: Apache-2.0
/// \file Explanations: which programs stand for a grid, how many blocks fit, what buffers are for.
#include "dsl/Explain.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

using namespace sectile;

TEST_CASE("programs that stand for a grid", "[explain]") {
  using Grid = std::vector<std::int64_t>;
  for (const Grid &grid : {Grid{}, Grid{0}, Grid{1}, Grid{64}, Grid{65}, Grid{5000}, Grid{1, 5000}, Grid{5000, 1},
                           Grid{7, 13}, Grid{100, 3}, Grid{64, 64, 64}, Grid{1, 1, 9, 1, 300}}) {
    std::int64_t total = 1;
    for (std::int64_t n : grid)
      total *= n;
    std::int64_t times = 0;
    std::set<std::int64_t> seen;
    // How many programs of each kind (the axes along which they are the last) the samples stand for.
    std::map<std::vector<bool>, std::int64_t> kinds, expected;
    auto kindOf = [&](std::int64_t number) {
      std::vector<bool> last(grid.size());
      for (std::size_t d = grid.size(); d-- > 0; number /= grid[d])
        last[d] = number % grid[d] == grid[d] - 1;
      return last;
    };
    for (auto [number, count] : sampleGrid(grid, 16)) {
      CHECK(number >= 0);
      CHECK(number < total);
      CHECK(count >= 1);
      CHECK(seen.insert(number).second);
      times += count;
      kinds[kindOf(number)] += count;
    }
    for (std::int64_t i = 0; i < total; ++i)
      ++expected[kindOf(i)];
    CHECK(times == total);
    CHECK(kinds == expected);
    CHECK(std::int64_t(seen.size()) <= std::max<std::int64_t>(64, 16 << grid.size()));
  }
}

TEST_CASE("blocks that fit on a multiprocessor", "[explain]") {
  const Target &hopper = *findTarget("sm_90a");
  // 72 registers a thread are 9 units a warp: 7 warps in each of four parts.
  Occupancy o = occupancyOf(hopper, 128, 71, 32);
  CHECK(o.byRegisters == 7);
  CHECK(o.byThreads == 16);
  CHECK(o.byBlocks == 32);
  CHECK(o.byShared == 228 * 1024 / (1024 + 32));
  CHECK(o.blocks() == 7);
  CHECK(occupancyOf(hopper, 1024, 65, 0).byRegisters == 0); // 28 warps fit, a block has 32
  CHECK(occupancyOf(hopper, 1024, 64, 0).blocks() == 1);
  o = occupancyOf(hopper, 64, -1, 100 * 1024);
  CHECK(o.byRegisters == -1);
  CHECK(o.blocks() == 2);
}
