// SPDX-License-Identifier: Apache-2.0
#include <sectile/BlockFormats.h>

#include "ir/base/Scalar.h"
#include <sectile/Error.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace sectile {
namespace {

constexpr BlockFormatFacts formats[numBlockFormats] = {
    {"mxfp8_e4m3", DType::e4m3, DType::ue8m0, 32, 8, 448},  {"mxfp8_e5m2", DType::e5m2, DType::ue8m0, 32, 15, 57344},
    {"mxfp6_e2m3", DType::e2m3, DType::ue8m0, 32, 2, 7.5f}, {"mxfp6_e3m2", DType::e3m2, DType::ue8m0, 32, 4, 28},
    {"mxfp4", DType::e2m1, DType::ue8m0, 32, 2, 6},         {"nvfp4", DType::e2m1, DType::e4m3, 16, 2, 6},
};

/// Calls f with the element type's host type.
template <class F> decltype(auto) withElement(DType t, F &&f) {
  switch (t) {
  case DType::e4m3: return f(std::type_identity<e4m3>{});
  case DType::e5m2: return f(std::type_identity<e5m2>{});
  case DType::e2m3: return f(std::type_identity<e2m3>{});
  case DType::e3m2: return f(std::type_identity<e3m2>{});
  default: return f(std::type_identity<e2m1>{});
  }
}

/// 24 bits of a counter-based generator (the finaliser of splitmix64).
float uniform(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15 + (place + 1) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return float(z >> 40) * 0x1p-24f;
}

template <class E> std::uint8_t rounded(float v, const float *u) {
  const E nearest(v);
  if (!u || !(std::abs(v) < std::abs(float(E(std::copysign(HUGE_VALF, v))))))
    return nearest.bits; // past the largest element, or NaN
  // The neighbours of a magnitude have neighbouring codes.
  E low = nearest;
  if (std::abs(float(nearest)) > std::abs(v))
    low = E::fromBits(std::uint8_t(nearest.bits - 1));
  const E high = E::fromBits(std::uint8_t(low.bits + 1));
  const float a = std::abs(float(low)), b = std::abs(float(high)), part = (std::abs(v) - a) / (b - a);
  return *u < part ? high.bits : low.bits;
}

} // namespace

const BlockFormatFacts &factsOf(BlockFormat format) { return formats[std::size_t(format)]; }

bool findBlockFormat(DType element, int block, DType scale, BlockFormat &out) {
  for (int i = 0; i < numBlockFormats; ++i)
    if (formats[i].element == element && formats[i].block == block && formats[i].scale == scale) {
      out = BlockFormat(i);
      return true;
    }
  return false;
}

std::int64_t BlockScaledArray::rowBytes() const {
  return factsOf(format).element == DType::e2m1 ? (columns + 1) / 2 : columns;
}
std::int64_t BlockScaledArray::blocksPerRow() const {
  const int block = factsOf(format).block;
  return (columns + block - 1) / block;
}

float globalScale(std::span<const float> values) {
  float largest = 0;
  for (float v : values)
    largest = std::isfinite(v) && std::isfinite(largest) ? std::max(largest, std::abs(v)) : HUGE_VALF;
  const float g = largest / (448.0f * 6.0f);
  return std::isfinite(g) && g > 0 ? g : 1.0f;
}

BlockScaledArray quantise(BlockFormat format, std::span<const float> values, std::int64_t rows, std::int64_t columns, Rounding rounding,
                          std::uint64_t seed, float global, std::source_location loc) {
  if (rows < 0 || columns < 0 || std::int64_t(values.size()) != rows * columns)
    throw UserError({loc, "", "quantise", std::to_string(values.size()) + " values for " + std::to_string(rows) + " rows of " + std::to_string(columns),
                     "block_size", "give rows * columns values"});
  const BlockFormatFacts &f = factsOf(format);
  BlockScaledArray out;
  out.format = format;
  out.rows = rows;
  out.columns = columns;
  out.elements.resize(std::size_t(rows * out.rowBytes()));
  out.scales.resize(std::size_t(rows * out.blocksPerRow()));
  const bool twoLevels = f.scale == DType::e4m3;
  if (twoLevels)
    out.global = global > 0 ? global : globalScale(values);
  std::vector<float> block(std::size_t(f.block));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t first = 0; first < columns; first += f.block) {
      const std::int64_t count = std::min<std::int64_t>(f.block, columns - first);
      float largest = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const float v = values[std::size_t(r * columns + first + i)];
        block[std::size_t(i)] = twoLevels ? v / out.global : v;
        largest = detail::max(largest, std::abs(block[std::size_t(i)]));
      }
      std::uint8_t &scale = out.scales[std::size_t(r * out.blocksPerRow() + first / f.block)];
      float inverse;
      if (twoLevels) {
        const e4m3 s(largest / f.largest);
        scale = s.bits;
        inverse = float(s) == 0 ? 0 : 1 / float(s);
      } else {
        const ue8m0 s(std::ldexp(largest, -f.emax));
        scale = s.bits;
        inverse = float(ue8m0::fromBits(std::uint8_t(254 - s.bits)));
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t column = first + i;
        const float v = block[std::size_t(i)] * inverse, u = uniform(seed, std::uint64_t(r * columns + column));
        const std::uint8_t code = withElement(f.element, [&]<class E>(std::type_identity<E>) {
          return rounded<E>(v, rounding == Rounding::stochastic ? &u : nullptr);
        });
        if (f.element == DType::e2m1)
          out.elements[std::size_t(r * out.rowBytes() + column / 2)] |= std::uint8_t(code << (column % 2 * 4));
        else
          out.elements[std::size_t(r * out.rowBytes() + column)] = code;
      }
    }
  return out;
}

std::vector<float> dequantise(const BlockScaledArray &array) {
  const BlockFormatFacts &f = factsOf(array.format);
  std::vector<float> values(std::size_t(array.rows * array.columns));
  for (std::int64_t r = 0; r < array.rows; ++r)
    for (std::int64_t c = 0; c < array.columns; ++c) {
      std::uint8_t code;
      if (f.element == DType::e2m1)
        code = array.elements[std::size_t(r * array.rowBytes() + c / 2)] >> (c % 2 * 4) & 15;
      else
        code = array.elements[std::size_t(r * array.rowBytes() + c)];
      const std::uint8_t s = array.scales[std::size_t(r * array.blocksPerRow() + c / f.block)];
      const float scale = f.scale == DType::e4m3 ? float(e4m3::fromBits(s)) : float(ue8m0::fromBits(s));
      const float element = withElement(f.element, [&]<class E>(std::type_identity<E>) { return float(E::fromBits(code)); });
      values[std::size_t(r * array.columns + c)] = element * scale * array.global;
    }
  return values;
}

} // namespace sectile
