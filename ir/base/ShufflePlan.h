// SPDX-License-Identifier: Apache-2.0
/// \file How a conversion within warps is done by shuffles.
///
/// In a shuffle every lane offers one register and names one lane to read. A result register r of lane l may
/// need different source registers in different lanes, so three steps do the conversion:
///
/// 1. Each thread permutes its source registers by XOR with a number that depends on the thread.
/// 2. Round k moves the register sourceReg(k) of lane laneOf(k, thread) into register k.
/// 3. Each thread permutes the registers so received, by XOR again.
///
/// Step 3 is what lets lanes that need several registers of one lane take turns. All dependences are linear
/// over F2; a XOR by a linear function of the thread number is a few selects per register (an Exchange).
#pragma once

#include "ir/base/Layout.h"

namespace sectile {

class ShufflePlan {
public:
  /// Register r becomes register r ^ reg in threads where an odd number of the bits `threads` of
  /// lane + 32 * warp are set.
  struct Exchange {
    std::uint32_t threads = 0;
    std::uint64_t reg = 0; ///< register bits of the linear form
  };

  /// None if one shuffle per result register is not enough.
  /// @pre conversionKind(src, dst) <= ShuffleLanes
  static std::optional<ShufflePlan> make(const Layout &src, const Layout &dst);

  /// Register bits of source and result, of the linear forms. Odd repetitions are done one after the other.
  int sourceBits() const { return source.regBits; }
  int resultBits() const { return result.regBits; }
  const std::vector<Exchange> &before() const { return sourceExchanges; }
  const std::vector<Exchange> &after() const { return resultExchanges; }
  std::uint64_t sourceReg(std::uint64_t round) const { return registers.apply(round); }
  /// What `lane(thread)` of the bits of lane + 32 * warp is XORed with.
  int laneOffset(std::uint64_t round) const { return int(offsets.apply(round)); }
  /// 5 rows: the lane to read but for the offset. The identity where lanes read at a fixed distance.
  const F2Matrix &lanes() const { return laneMap; }
  /// A round without a shuffle: every lane reads itself.
  bool stays(std::uint64_t round) const;
  /// Elements of `bytes` bytes that travel in one 32-bit word: they are neighbours on both sides. The pairs
  /// of register bits (source, result) of the elements within a word, lowest first; those bits are in no
  /// other part of the plan.
  std::vector<std::pair<int, int>> packedBits(int bytes) const;

  /// The registers of an odd repetition: number in the layout from the bits of the linear form.
  int sourceNumber(const Coords &oddRep, std::uint64_t bits) const { return source.regNumber(oddRep, bits); }
  int resultNumber(const Coords &oddRep, std::uint64_t bits) const { return result.regNumber(oddRep, bits); }
  /// All odd repetitions.
  std::vector<Coords> oddReps() const;

  /// Issue cycles per warp for elements of `bytes` bytes: a shuffle is one, four selects are one.
  double cost(int bytes) const;

private:
  ShufflePlan(const Layout &src, const Layout &dst) : source(src), result(dst) {}
  LinearForm source, result;
  F2Matrix registers; ///< result register bits (rounds) to source register bits
  F2Matrix offsets;   ///< rounds to lane bits
  F2Matrix laneMap;   ///< bits of lane + 32 * warp to lane bits
  std::vector<Exchange> sourceExchanges, resultExchanges;
};

} // namespace sectile
