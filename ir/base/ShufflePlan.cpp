// SPDX-License-Identifier: Apache-2.0
#include "ir/base/ShufflePlan.h"

#include <bit>
#include <cassert>

namespace sectile {
namespace {

using Bits = std::uint64_t;

F2Matrix zeros(int rows, int cols) { return {rows, std::vector<Bits>(std::size_t(cols), 0)}; }

/// Column by column.
F2Matrix sum(F2Matrix a, const F2Matrix &b) {
  for (int i = 0; i < a.cols(); ++i)
    a.columns[i] ^= b.columns[i];
  return a;
}

bool inSpan(const std::vector<Bits> &vectors, int rows, Bits y) {
  return F2Matrix{rows, vectors}.solve(y).has_value();
}

/// A basis of {x : m x = 0}: each column that depends on earlier ones gives a vector.
std::vector<Bits> kernelOf(const F2Matrix &m) {
  std::vector<Bits> kernel, independent;
  std::vector<int> index;
  for (int i = 0; i < m.cols(); ++i) {
    if (std::optional<Bits> x = F2Matrix{m.rows, independent}.solve(m.columns[i])) {
      Bits v = Bits(1) << i;
      for (Bits rest = *x; rest; rest &= rest - 1)
        v |= Bits(1) << index[std::size_t(std::countr_zero(rest))];
      kernel.push_back(v);
    } else {
      independent.push_back(m.columns[i]);
      index.push_back(i);
    }
  }
  return kernel;
}

/// m as a sum of products of a register vector and a functional of the threads, as few as its rank.
std::vector<ShufflePlan::Exchange> exchangesOf(const F2Matrix &m) {
  std::vector<ShufflePlan::Exchange> result;
  std::vector<Bits> columns; // independent ones: the register vectors
  std::vector<int> index;
  for (int i = 0; i < m.cols(); ++i)
    if (!inSpan(columns, m.rows, m.columns[i])) {
      columns.push_back(m.columns[i]);
      index.push_back(i);
      result.push_back({std::uint32_t(1) << i, m.columns[i]});
    }
  for (int i = 0; i < m.cols(); ++i) {
    if (std::find(index.begin(), index.end(), i) != index.end())
      continue;
    Bits uses = *F2Matrix{m.rows, columns}.solve(m.columns[i]);
    for (; uses; uses &= uses - 1)
      result[std::size_t(std::countr_zero(uses))].threads |= std::uint32_t(1) << i;
  }
  return result;
}

} // namespace

std::optional<ShufflePlan> ShufflePlan::make(const Layout &src, const Layout &dst) {
  assert(conversionKind(src, dst) <= ConversionKind::ShuffleLanes);
  ShufflePlan plan(src, dst);
  const LinearForm &s = plan.source, &d = plan.result;
  const int laneBits = s.laneBits, threadBits = laneBits + s.warpBits;
  const F2Matrix regs{s.matrix.rows, {s.matrix.columns.begin(), s.matrix.columns.begin() + s.regBits}};
  const F2Matrix places{s.matrix.rows,
                        {s.matrix.columns.begin(), s.matrix.columns.begin() + s.regBits + laneBits}};

  // Where the element of each bit of the result's place is: source register and lane.
  const Bits regMask = (Bits(1) << s.regBits) - 1;
  plan.registers = zeros(s.regBits, d.regBits);
  plan.offsets = zeros(laneBits, d.regBits);
  for (int i = 0; i < d.regBits; ++i) {
    const Bits x = *places.solve(d.matrix.columns[i]);
    plan.registers.columns[i] = x & regMask;
    plan.offsets.columns[i] = x >> s.regBits;
  }
  F2Matrix threadRegs = zeros(s.regBits, threadBits);
  plan.laneMap = zeros(laneBits, threadBits);
  for (int i = 0; i < threadBits; ++i) {
    const Bits own = s.matrix.columns[s.regBits + i], wanted = d.matrix.columns[d.regBits + i];
    if (std::optional<Bits> reg = regs.solve(wanted ^ own)) { // stays in its lane (i is a lane) or warp
      threadRegs.columns[i] = *reg;
      plan.laneMap.columns[i] = i < laneBits ? Bits(1) << i : 0;
      continue;
    }
    const Bits x = *places.solve(i < laneBits ? wanted : wanted ^ own);
    threadRegs.columns[i] = x & regMask;
    plan.laneMap.columns[i] = x >> s.regBits;
  }

  // Lanes that read one lane but other registers of it take turns: a basis of those, and of the lanes whose
  // reads agree. In lanes with bit i of `turns`, rounds are XORed with `rounds`[i].
  auto lanesOf = [&](const F2Matrix &m) {
    return F2Matrix{m.rows, {m.columns.begin(), m.columns.begin() + laneBits}};
  };
  const F2Matrix lanes = lanesOf(plan.laneMap), laneRegs = lanesOf(threadRegs);
  std::vector<Bits> agree, turns, reached = lanes.columns;
  const std::vector<Bits> shared = kernelOf(lanes);
  F2Matrix sharedRegs{s.regBits, {}};
  for (Bits v : shared)
    sharedRegs.columns.push_back(laneRegs.apply(v));
  auto lanesFrom = [&](Bits combination) {
    Bits v = 0;
    for (; combination; combination &= combination - 1)
      v ^= shared[std::size_t(std::countr_zero(combination))];
    return v;
  };
  for (Bits combination : kernelOf(sharedRegs))
    agree.push_back(lanesFrom(combination));
  std::vector<Bits> basis = agree;
  for (Bits v : shared)
    if (!inSpan(basis, laneBits, v)) {
      basis.push_back(v);
      turns.push_back(v);
    }
  F2Matrix turnRounds{d.regBits, {}};
  for (std::size_t t = 0; t < turns.size(); ++t) {
    int chosen = -1;
    for (int i = 0; i < d.regBits && chosen < 0; ++i)
      if (!inSpan(reached, laneBits, plan.offsets.columns[i]))
        chosen = i;
    if (chosen < 0)
      return std::nullopt;
    reached.push_back(plan.offsets.columns[chosen]);
    turnRounds.columns.push_back(Bits(1) << chosen);
  }
  for (int i = 0; i < laneBits; ++i)
    if (!inSpan(basis, laneBits, Bits(1) << i))
      basis.push_back(Bits(1) << i);
  // The round of result register r of a thread is r ^ turn(thread).
  F2Matrix turn = zeros(d.regBits, threadBits);
  const F2Matrix inBasis{laneBits, basis};
  for (int i = 0; i < laneBits; ++i) {
    const Bits coefficients = *inBasis.solve(Bits(1) << i);
    turn.columns[i] = turnRounds.apply(coefficients >> agree.size() & ((Bits(1) << turns.size()) - 1));
  }
  plan.laneMap = sum(plan.laneMap, plan.offsets * turn);
  const F2Matrix wantedRegs = sum(threadRegs, plan.registers * turn);

  // The register that a reader wants, as a function of the lane it reads from: lane s of warp w is read in
  // round k by the lanes l with laneMap (l, w) ^ offsets k = s, and all of those want the same.
  const F2Matrix readers = lanesOf(plan.laneMap).pseudoInverse();
  const F2Matrix offered = lanesOf(wantedRegs) * readers;
  F2Matrix sourceTurn = zeros(s.regBits, threadBits);
  for (int i = 0; i < threadBits; ++i)
    sourceTurn.columns[i] =
        i < laneBits ? offered.columns[i] : offered.apply(plan.laneMap.columns[i]) ^ wantedRegs.columns[i];
  plan.registers = sum(plan.registers, offered * plan.offsets);
  plan.sourceExchanges = exchangesOf(sourceTurn);
  plan.resultExchanges = exchangesOf(turn);
  return plan;
}

bool ShufflePlan::stays(std::uint64_t round) const {
  if (laneOffset(round) != 0)
    return false;
  for (int i = 0; i < laneMap.cols(); ++i)
    if (laneMap.columns[i] != (i < source.laneBits ? std::uint64_t(1) << i : 0))
      return false;
  return true;
}

std::vector<std::pair<int, int>> ShufflePlan::packedBits(int bytes) const {
  std::vector<std::pair<int, int>> result;
  for (int size = bytes; size < 4; size *= 2) {
    std::optional<std::pair<int, int>> pair;
    for (int to = 0; to < registers.cols() && !pair; ++to) {
      const std::uint64_t image = registers.columns[to];
      if (offsets.columns[to] || std::popcount(image) != 1)
        continue;
      bool alone = true;
      for (int other = 0; other < registers.cols(); ++other)
        alone &= other == to || !(registers.columns[other] & image);
      for (const Exchange &e : sourceExchanges)
        alone &= !(e.reg & image);
      for (const Exchange &e : resultExchanges)
        alone &= !(e.reg >> to & 1);
      for (auto [from, used] : result)
        alone &= used != to;
      if (alone)
        pair = {std::countr_zero(image), to};
    }
    if (!pair)
      break;
    result.push_back(*pair);
  }
  return result;
}

std::vector<Coords> ShufflePlan::oddReps() const {
  std::vector<Coords> all{Coords()};
  for (int d = 0; d < source.rank; ++d) {
    std::vector<Coords> more;
    for (const Coords &c : all)
      for (int i = 0; i < source.odd[d]; ++i) {
        more.push_back(c);
        more.back()[d] = i;
      }
    all = std::move(more);
  }
  return all;
}

double ShufflePlan::cost(int bytes) const {
  const std::vector<std::pair<int, int>> packed = packedBits(bytes);
  const double words = bytes > 4 ? bytes / 4 : 1;
  std::uint64_t inWord = 0;
  for (auto [from, to] : packed)
    inWord |= std::uint64_t(1) << to;
  double shuffles = 0;
  for (std::uint64_t round = 0; round < std::uint64_t(1) << result.regBits; ++round)
    shuffles += !(round & inWord) && !stays(round);
  const double sourceWords = double(std::uint64_t(1) << (source.regBits - int(packed.size())));
  const double resultWords = double(std::uint64_t(1) << (result.regBits - int(packed.size())));
  double selects =
      sourceWords * double(sourceExchanges.size()) + resultWords * double(resultExchanges.size());
  // Elements are put into words and taken out, unless they sit there already; half an instruction each.
  if (bytes < 4)
    selects += (sourceWords + resultWords) * double(1 << packed.size()) / 2;
  return (shuffles + selects / 4) * words * double(oddReps().size());
}

} // namespace sectile
