// SPDX-License-Identifier: Apache-2.0
/// \file Numbers of the host reference: every element type as an exact host value, with formats, rounding and
/// sample values of its own. Shares the enum of element types with the library and nothing else.
#pragma once

#include <sectile/DType.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace sectile::numerics {

using Int = __int128;

inline bool isBool(DType t) { return t == DType::boolean; }
/// Spelling in module text: "f32", "f8E4M3FN", "ui8", "i1".
std::string typeText(DType t);

/// One lane of a value. Floats are in `v` (every format fits), integers, truth values and indices in `i`.
/// `error` 0: exactly this value. Otherwise `v` is the unrounded reference and any result within `error` is
/// right; infinite: nothing is known of this lane.
struct Number {
  long double v = 0;
  Int i = 0;
  double error = 0;
};

/// A binary floating-point format.
struct Format {
  int exponentBits, fractionBits;
  bool hasInfinity; ///< else only the code with all bits set is NaN
  bool saturates;   ///< conversions give the largest finite value instead of infinity
  int bias() const { return (1 << (exponentBits - 1)) - 1; }
  int leastExponent() const { return 1 - bias(); } ///< of a normal number
  long double largest() const;
};
const Format &formatOf(DType t);

/// The distance from one value of the format to the next at |x| (the least subnormal below all of them).
long double ulpAt(DType t, long double x);

/// Bits of an element, lowest first, from and to a number; `encode` rounds once to nearest even and, for
/// floats that saturate, saturates.
Number decode(DType t, std::uint64_t bits);
std::uint64_t encodeFloat(DType t, long double v);
std::uint64_t encode(DType t, const Number &n);
/// `v` rounded once to the format.
long double roundTo(DType t, long double v);

/// `v` modulo 2^bits of the integer type.
Int wrap(DType t, Int v);
int bitsOf(DType t);
Int leastOf(DType t);
Int greatestOf(DType t);

std::uint64_t readBits(const void *at, DType t);
void writeBits(void *at, DType t, std::uint64_t bits);
bool isNanBits(DType t, std::uint64_t bits);
/// "-1.5 (0xbfc00000)"
std::string describe(DType t, std::uint64_t bits);

/// What a tensor holds.
enum class Fill {
  normal,  ///< floats: standard normal numbers; integers: all bits random
  small,   ///< whole numbers from -4 to 4 (0 to 4), so that sums and products are exact
  special, ///< NaN, infinities, zeros, subnormals, extremes, ties, neighbours of powers of two, among random
           ///< bits
  wide,    ///< floats: every binade, both signs; integers: all lengths
  unit,    ///< floats: in [0.5, 2); integers: 1 to 3
  index,   ///< coordinates, some outside
};
const char *fillName(Fill f);
std::uint64_t sample(DType t, Fill fill, std::mt19937_64 &random, std::int64_t position);
/// The special values of a type, as bits.
const std::vector<std::uint64_t> &specials(DType t);

} // namespace sectile::numerics
