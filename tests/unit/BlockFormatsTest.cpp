// SPDX-License-Identifier: Apache-2.0
#include <sectile/BlockFormats.h>
#include <sectile/Error.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

using namespace sectile;

namespace {

/// The value of an element's code, from the definition: sign, exponent, mantissa.
double elementOf(DType t, unsigned code) {
  const int e = t == DType::e4m3 ? 4 : t == DType::e5m2 ? 5 : t == DType::e3m2 ? 3 : 2, m = t == DType::e4m3 || t == DType::e2m3 ? 3 : t == DType::e2m1 ? 1 : 2;
  const int bias = (1 << (e - 1)) - 1;
  const unsigned mantissa = code & ((1u << m) - 1), exponent = code >> m & ((1u << e) - 1);
  if (t == DType::e4m3 && (code & 0x7f) == 0x7f)
    return std::nan("");
  if (t == DType::e5m2 && exponent == 31)
    return mantissa ? std::nan("") : HUGE_VAL * (code & 0x80 ? -1 : 1);
  const double v = exponent ? std::ldexp(1.0 + double(mantissa) / (1 << m), int(exponent) - bias) : std::ldexp(double(mantissa), 1 - bias - m);
  return code >> (e + m) & 1 ? -v : v;
}
unsigned numCodes(DType t) { return 1u << usedBits(t); }

void put(BlockScaledArray &a, std::int64_t c, unsigned code) {
  if (factsOf(a.format).element == DType::e2m1)
    a.elements[std::size_t(c / 2)] = std::uint8_t((a.elements[std::size_t(c / 2)] & (c % 2 ? 0x0f : 0xf0)) | code << (c % 2 * 4));
  else
    a.elements[std::size_t(c)] = std::uint8_t(code);
}

BlockScaledArray rowOf(BlockFormat format, std::int64_t columns) {
  BlockScaledArray a;
  a.format = format;
  a.rows = 1;
  a.columns = columns;
  a.elements.resize(std::size_t(a.rowBytes()));
  a.scales.resize(std::size_t(a.blocksPerRow()));
  return a;
}

std::vector<float> randomValues(std::int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-20, 20);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    v[std::size_t(i)] = std::ldexp(normal(engine), i % 97 == 0 ? exponent(engine) : 0);
  return v;
}

} // namespace

TEST_CASE("block formats: every element's code times every scale's is exact", "[blockformats]") {
  for (int k = 0; k < numBlockFormats; ++k) {
    const BlockFormatFacts &f = factsOf(BlockFormat(k));
    INFO(f.name);
    BlockFormat found;
    CHECK((findBlockFormat(f.element, f.block, f.scale, found) && found == BlockFormat(k)));
    const unsigned codes = numCodes(f.element);
    BlockScaledArray a = rowOf(BlockFormat(k), std::max<std::int64_t>(codes, f.block));
    for (unsigned c = 0; c < codes; ++c)
      put(a, c, c);
    int wrong = 0;
    for (unsigned s = 0; s < 256; ++s) {
      std::fill(a.scales.begin(), a.scales.end(), std::uint8_t(s));
      const double scale = f.scale == DType::e4m3 ? elementOf(DType::e4m3, s) : s == 255 ? std::nan("") : std::ldexp(1.0, int(s) - 127);
      const std::vector<float> got = dequantise(a);
      for (unsigned c = 0; c < codes; ++c) {
        const double want = elementOf(f.element, c) * scale;
        const double had = got[c];
        if (std::isnan(want))
          wrong += !std::isnan(had);
        else if (std::abs(want) > double(std::numeric_limits<float>::max()))
          wrong += !std::isinf(had) || std::signbit(had) != std::signbit(want);
        else
          wrong += had != want || std::signbit(had) != std::signbit(want);
      }
    }
    CHECK(wrong == 0);
  }
  BlockFormat none;
  for (int e = 0; e < numAllDTypes; ++e)
    for (int s = 0; s < numAllDTypes; ++s)
      for (int block : {8, 16, 32, 64})
        CHECK(isBlockFormat(DType(e), block, DType(s)) == findBlockFormat(DType(e), block, DType(s), none));
  CHECK_FALSE(findBlockFormat(DType::e4m3, 16, DType::ue8m0, none));
  CHECK_FALSE(findBlockFormat(DType::e2m1, 32, DType::e4m3, none));
}

TEST_CASE("block formats: what is dequantised quantises to the same values", "[blockformats]") {
  for (int k = 0; k < numBlockFormats; ++k) {
    const BlockFormatFacts &f = factsOf(BlockFormat(k));
    INFO(f.name);
    for (std::int64_t columns : {1, 15, 31, 64, 77}) {
      const BlockScaledArray a = quantise(BlockFormat(k), randomValues(5 * columns, unsigned(k)), 5, columns);
      const std::vector<float> v = dequantise(a);
      for (Rounding rounding : {Rounding::nearestEven, Rounding::stochastic}) {
        const BlockScaledArray again = quantise(BlockFormat(k), v, 5, columns, rounding, 3, a.global);
        CHECK(dequantise(again) == v);
      }
    }
  }
}

TEST_CASE("block formats: scale rule and rounding, from the definition", "[blockformats]") {
  for (int k = 0; k < numBlockFormats; ++k) {
    const BlockFormatFacts &f = factsOf(BlockFormat(k));
    INFO(f.name);
    const std::int64_t columns = 5 * f.block + 3;
    const std::vector<float> v = randomValues(7 * columns, 40u + unsigned(k));
    const BlockScaledArray a = quantise(BlockFormat(k), v, 7, columns);
    std::vector<double> grid; // finite elements
    for (unsigned c = 0; c < numCodes(f.element); ++c)
      if (std::isfinite(elementOf(f.element, c)))
        grid.push_back(elementOf(f.element, c));
    const std::vector<float> back = dequantise(a);
    int wrong = 0;
    for (std::int64_t r = 0; r < 7; ++r)
      for (std::int64_t first = 0; first < columns; first += f.block) {
        const std::int64_t end = std::min(columns, first + f.block);
        double largest = 0;
        for (std::int64_t c = first; c < end; ++c)
          largest = std::max(largest, double(std::abs(v[std::size_t(r * columns + c)])));
        const std::uint8_t code = a.scales[std::size_t(r * a.blocksPerRow() + first / f.block)];
        double scale;
        if (f.scale == DType::ue8m0) {
          scale = std::ldexp(1.0, std::clamp(int(std::floor(std::log2(largest))) - f.emax, -127, 127));
          wrong += std::ldexp(1.0, code - 127) != scale;
        } else {
          scale = elementOf(DType::e4m3, code);
          // The nearest e4m3, within what f32 loses on the way.
          const double ideal = std::min(448.0, largest / a.global / 6);
          for (unsigned c = 0; c < 0x7f; ++c)
            wrong += std::abs(elementOf(DType::e4m3, c) - ideal) < std::abs(scale - ideal) * (1 - 1e-5);
        }
        for (std::int64_t c = first; c < end; ++c) {
          const double x = double(v[std::size_t(r * columns + c)]) / a.global / (scale == 0 ? 1 : scale);
          const double got = scale == 0 ? 0 : back[std::size_t(r * columns + c)] / double(a.global) / scale;
          double best = HUGE_VAL;
          for (double g : grid)
            best = std::min(best, std::abs(g - x));
          if (scale != 0)
            wrong += std::abs(got - x) > best + 1e-5 * std::abs(x) + 1e-30;
        }
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("block formats: stochastic rounding is right on average and picks neighbours", "[blockformats]") {
  for (int k = 0; k < numBlockFormats; ++k) {
    const BlockFormatFacts &f = factsOf(BlockFormat(k));
    INFO(f.name);
    std::vector<float> v(static_cast<std::size_t>(f.block), 0.3f);
    v[0] = 1; // fixes the scale
    double sum = 0;
    std::set<float> seen;
    constexpr int rounds = 4000;
    for (int seed = 0; seed < rounds; ++seed) {
      const std::vector<float> back = dequantise(quantise(BlockFormat(k), v, 1, f.block, Rounding::stochastic, std::uint64_t(seed), 1.0f / 2688));
      sum += back[5];
      seen.insert(back[5]);
    }
    CHECK(seen.size() == 2);
    const float low = *seen.begin(), high = *seen.rbegin();
    CHECK((low < 0.3f && high > 0.3f));
    CHECK(std::abs(sum / rounds - 0.3) < 5 * double(high - low) / std::sqrt(double(rounds)));
  }
}

TEST_CASE("block formats: zeros, NaN, infinity and wrong sizes", "[blockformats]") {
  for (int k = 0; k < numBlockFormats; ++k) {
    const BlockFormatFacts &f = factsOf(BlockFormat(k));
    INFO(f.name);
    const std::vector<float> zeros(64, 0.0f);
    CHECK(dequantise(quantise(BlockFormat(k), zeros, 2, 32)) == zeros);
    std::vector<float> v(64, 1.0f);
    v[40] = std::nanf("");
    const std::vector<float> back = dequantise(quantise(BlockFormat(k), v, 1, 64, Rounding::nearestEven, 0, 1));
    for (int i = 0; i < 64; ++i)
      CHECK(std::isnan(back[std::size_t(i)]) == (i / f.block == 40 / f.block));
    v[40] = HUGE_VALF;
    const BlockScaledArray a = quantise(BlockFormat(k), v, 1, 64, Rounding::nearestEven, 0, 1);
    CHECK(a.scales[std::size_t(40 / f.block)] == (f.scale == DType::ue8m0 ? 254 : 0x7e));
  }
  try {
    quantise(BlockFormat::mxfp4, std::vector<float>(5), 2, 3);
    FAIL("no error");
  } catch (const UserError &e) {
    CHECK(e.rule() == "block_size");
  }
}
