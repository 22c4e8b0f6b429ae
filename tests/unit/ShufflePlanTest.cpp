// SPDX-License-Identifier: Apache-2.0
/// \file Plans of shuffles are run on the coordinates themselves: every thread ends with what its layout
/// says.
#include "ir/base/ShufflePlan.h"
#include "ir/base/Fragments.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>

using namespace sectile;

namespace {

/// Wrong elements after running the plan, packed elements as words.
int wrongAfter(const ShufflePlan &plan, const Layout &src, const Layout &dst, int bytes) {
  const int threads = src.numThreads();
  const std::uint64_t sources = std::uint64_t(1) << plan.sourceBits(), results = std::uint64_t(1)
                                                                                 << plan.resultBits();
  const auto packed = plan.packedBits(bytes);
  std::uint64_t inSource = 0, inResult = 0;
  for (auto [from, to] : packed) {
    inSource |= std::uint64_t(1) << from;
    inResult |= std::uint64_t(1) << to;
  }
  int wrong = 0;
  for (const Coords &rep : plan.oddReps()) {
    // Registers by thread; what is in them are coordinates.
    std::vector<std::vector<Coords>> held(threads, std::vector<Coords>(sources)),
        received(threads, std::vector<Coords>(results));
    for (int t = 0; t < threads; ++t)
      for (std::uint64_t r = 0; r < sources; ++r)
        held[t][r] = src.coords(plan.sourceNumber(rep, r), t % 32, t / 32);
    auto exchange = [&](std::vector<std::vector<Coords>> &registers, const ShufflePlan::Exchange &e) {
      for (int t = 0; t < threads; ++t)
        if (std::popcount(unsigned(t) & e.threads) % 2) {
          std::vector<Coords> old = registers[t];
          for (std::uint64_t r = 0; r < old.size(); ++r)
            registers[t][r] = old[r ^ e.reg];
        }
    };
    for (const auto &e : plan.before()) {
      wrong += (e.reg & inSource) != 0;
      exchange(held, e);
    }
    for (std::uint64_t k = 0; k < results; ++k) {
      if (k & inResult)
        continue;
      for (int t = 0; t < threads; ++t) {
        const int from = int(plan.lanes().apply(std::uint64_t(t))) ^ plan.laneOffset(k);
        wrong += plan.stays(k) && from != t % 32;
        for (int e = 0; e < 1 << packed.size(); ++e) {
          std::uint64_t to = k, reg = plan.sourceReg(k);
          for (std::size_t i = 0; i < packed.size(); ++i)
            if (e >> i & 1) {
              to |= std::uint64_t(1) << packed[i].second;
              reg ^= std::uint64_t(1) << packed[i].first;
            }
          received[t][to] = held[t / 32 * 32 + from][reg];
        }
      }
    }
    for (const auto &e : plan.after())
      exchange(received, e);
    for (int t = 0; t < threads; ++t)
      for (std::uint64_t r = 0; r < results; ++r)
        wrong += received[t][r] != dst.coords(plan.resultNumber(rep, r), t % 32, t / 32);
  }
  return wrong;
}

Layout shuffled(std::mt19937 &random, const Layout &l, int mix) {
  // Register and lane bases dealt anew and added to each other; warp bases moved by them.
  std::vector<Coords> all = l.reg(), warp = l.warp();
  all.insert(all.end(), l.lane().begin(), l.lane().end());
  std::shuffle(all.begin(), all.end(), random);
  for (int i = 0; i < mix; ++i) {
    const std::size_t a = random() % all.size(), b = random() % all.size();
    if (a != b)
      all[a] ^= all[b];
    if (!warp.empty() && random() % 4 == 0)
      warp[random() % warp.size()] ^= all[a];
  }
  const std::size_t regs = l.reg().size();
  return Layout(l.rank(), l.core(), l.reps(), {all.begin(), all.begin() + std::ptrdiff_t(regs)},
                {all.begin() + std::ptrdiff_t(regs), all.end()}, warp);
}

} // namespace

TEST_CASE("shuffle plans move every element to its place, for random layouts", "[layout][shuffle]") {
  std::mt19937 random(5);
  int shuffles = 0;
  for (int i = 0; i < 300; ++i) {
    const std::vector<std::int32_t> shape{8 << random() % 3, 16 << random() % 2, int(1 + 2 * (random() % 2))};
    const Layout a = Layout::blocked(shape, 1, 1 << random() % 3, 1 << random() % 3);
    const Layout src = shuffled(random, a, i % 3), dst = shuffled(random, a, int(random() % 8));
    if (conversionKind(src, dst) > ConversionKind::ShuffleLanes)
      continue;
    INFO(src.toString() << "\n" << dst.toString());
    const std::optional<ShufflePlan> plan = ShufflePlan::make(src, dst);
    REQUIRE(plan); // bijections always have one
    shuffles += conversionKind(src, dst) == ConversionKind::ShuffleLanes;
    for (int bytes : {1, 2, 4, 8})
      CHECK(wrongAfter(*plan, src, dst, bytes) == 0);
  }
  CHECK(shuffles > 150);
}

TEST_CASE("shuffle plans between layouts with copies", "[layout][shuffle]") {
  std::mt19937 random(9);
  int made = 0;
  for (int i = 0; i < 300; ++i) {
    const Layout a = Layout::blocked(std::vector<std::int32_t>{16, 32}, 1, 2, 2);
    const Layout x = shuffled(random, a, i % 4), y = shuffled(random, a, int(random() % 6));
    const int axis = int(random() % 2);
    const Layout src = x.collapse(axis), dst = y.collapse(axis);
    if (conversionKind(src, dst) > ConversionKind::ShuffleLanes)
      continue;
    INFO(src.toString() << "\n" << dst.toString());
    if (const std::optional<ShufflePlan> plan = ShufflePlan::make(src, dst)) {
      ++made;
      for (int bytes : {1, 2, 4})
        CHECK(wrongAfter(*plan, src, dst, bytes) == 0);
    }
  }
  CHECK(made > 50);
}

TEST_CASE("what shuffle plans cost", "[layout][shuffle]") {
  // Lanes exchange their bits: a shuffle per register, nothing else.
  const Layout rows(2, {32, 8}, {1, 1}, {{0, 1}, {0, 2}, {0, 4}}, {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}},
                    {});
  const Layout turned(2, {32, 8}, {1, 1}, {{0, 1}, {0, 2}, {0, 4}}, {{16, 0}, {1, 0}, {2, 0}, {4, 0}, {8, 0}},
                      {});
  CHECK(ShufflePlan::make(rows, turned)->cost(4) == 8);
  CHECK(ShufflePlan::make(rows, turned)->cost(8) == 16);
  CHECK(ShufflePlan::make(rows, turned)->packedBits(1).size() == 2);
  CHECK(ShufflePlan::make(rows, turned)->packedBits(2).size() == 1);
  // A register bit and a lane bit change places: one exchange before, one after; half of the rounds... all
  // move.
  const Layout swapped(2, {32, 8}, {1, 1}, {{1, 0}, {0, 2}, {0, 4}},
                       {{0, 1}, {2, 0}, {4, 0}, {8, 0}, {16, 0}}, {});
  const ShufflePlan plan = *ShufflePlan::make(rows, swapped);
  CHECK(plan.before().size() == 1);
  CHECK(plan.after().size() == 1);
  CHECK(plan.cost(4) <= 8 + 4);
  // An fp8 product's A from the accumulator of the product before (16-bit halves of words cross a quad).
  const ShufflePlan fp8 = *ShufflePlan::make(wgmmaAccumulator(32), wgmmaA(1));
  CHECK(wrongAfter(fp8, wgmmaAccumulator(32), wgmmaA(1), 1) == 0);
  CHECK(fp8.packedBits(1).size() == 2);
}
