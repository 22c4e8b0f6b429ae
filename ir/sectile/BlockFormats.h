// SPDX-License-Identifier: Apache-2.0
/// \file Block-scaled numbers on the host: packing of arrays into small elements with one scale per block, and back.
///
/// A block is a run of 32 (MX formats) or 16 (NVFP4) neighbours of a row; the last one of a row may be shorter. A value
/// is element * scale of its block, for NVFP4 also * `global`, one f32 for the whole array.
///
/// - MX (source: OCP Microscaling Formats 1.0, 6.3): scale = 2^floor(log2(largest magnitude of the block)) / 2^emax, emax
///   the exponent of the element type's largest number, within 2^-127 to 2^127; NaN if the block has one.
/// - NVFP4: values are divided by `global` first; then scale = e4m3(largest magnitude / 6).
/// - Elements: value / scale in the element type, which saturates; where an e4m3 scale is zero, zeros.
///
/// Kernels that store to a BlockScaled tensor compute the same codes.
#pragma once

#include <sectile/DType.h>
#include <sectile/Export.h>

#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

namespace sectile {

enum class BlockFormat : std::uint8_t { mxfp8_e4m3, mxfp8_e5m2, mxfp6_e2m3, mxfp6_e3m2, mxfp4, nvfp4 };
inline constexpr int numBlockFormats = 6;

struct BlockFormatFacts {
  std::string_view name;
  DType element, scale;
  int block;
  int emax;      ///< exponent of the element type's largest number
  float largest; ///< of the element type
};
SECTILE_API const BlockFormatFacts &factsOf(BlockFormat format);
/// The format of these types, if there is one.
SECTILE_API bool findBlockFormat(DType element, int block, DType scale, BlockFormat &out);
constexpr bool isBlockFormat(DType element, int block, DType scale) {
  const bool mx = element == DType::e4m3 || element == DType::e5m2 || element == DType::e2m3 || element == DType::e3m2 || element == DType::e2m1;
  return (block == 32 && scale == DType::ue8m0 && mx) || (block == 16 && scale == DType::e4m3 && element == DType::e2m1);
}

enum class Rounding : std::uint8_t {
  nearestEven,
  stochastic ///< to one of the two neighbours, each the more probable the nearer it is: right on average
};

/// A quantised matrix. Elements row by row, one per byte, e2m1 two per byte (the first in the low half; each row starts a
/// byte); scales row by row.
struct BlockScaledArray {
  BlockFormat format = BlockFormat::mxfp8_e4m3;
  std::int64_t rows = 0, columns = 0;
  std::vector<std::uint8_t> elements, scales;
  float global = 1;

  SECTILE_API std::int64_t rowBytes() const;     ///< of elements
  SECTILE_API std::int64_t blocksPerRow() const; ///< of scales
};

/// The `global` of NVFP4 with which the largest value of the array gets the largest scale; 1 for an array of zeros or with
/// a value that is not finite.
SECTILE_API float globalScale(std::span<const float> values);

/// UserError [block_size] unless there are rows * columns values. `seed`: of stochastic rounding, whose choice for an element
/// depends on it and the element's place alone. NVFP4 finds its `global` unless one above zero is given.
SECTILE_API BlockScaledArray quantise(BlockFormat format, std::span<const float> values, std::int64_t rows, std::int64_t columns,
                                      Rounding rounding = Rounding::nearestEven, std::uint64_t seed = 0, float global = 0,
                                      std::source_location loc = std::source_location::current());
/// The values: exact but for `global`, whose product is rounded once, and for what f32 cannot hold, which is infinite.
SECTILE_API std::vector<float> dequantise(const BlockScaledArray &array);

} // namespace sectile
