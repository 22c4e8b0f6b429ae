// SPDX-License-Identifier: Apache-2.0
/// \file Attention of one query on the host, in double, with what the kernel may be off.
#pragma once

#include <sectile/sectile.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sample {

/// What rounding to a type may be off: relative to the number, and at least so much.
struct Rounding {
  double unit, tiny;
  double of(double x) const { return std::max(unit * std::abs(x), tiny); }
};
template <class T> constexpr Rounding rounding{0x1p-24, 0x1p-150};
template <> inline constexpr Rounding rounding<sectile::bf16>{0x1p-8, 0x1p-134};
template <> inline constexpr Rounding rounding<sectile::f16>{0x1p-11, 0x1p-25};
template <> inline constexpr Rounding rounding<sectile::e4m3>{0x1p-4, 0x1p-10};
template <> inline constexpr Rounding rounding<sectile::e5m2>{0x1p-3, 0x1p-17};

/// A variant on the host, for one query: `score(s, j)` makes of a scaled product with key j what the variant
/// makes of it, -inf where there is no such key; its slope is at most `slope`. `sink`: the score of one more
/// key whose value is 0, -inf: none. `weight(j)`: a factor on the way to the product with V. `rounding`: of
/// weights whose largest is 1. `lost`: what products lose of 128 terms, relative to the largest sum of some
/// of them.
template <class Score, class Weight> struct HostVariant {
  Score score;
  Weight weight;
  Rounding rounding;
  double sink = -std::numeric_limits<double>::infinity(), slope = 1, lost = 0;
};
/// What tensor cores lose of e4m3 and e5m2: four instructions, each of which cuts 34 numbers 13 bits below
/// the largest.
inline constexpr double lostOf8Bits = 4 * 34 * 0x1p-13;

/// The result of one query [dv], its log-sum-exp, and the errors that sums in f32, the rounding of weights
/// and the exponentials may leave in them before the last rounding.
struct AttentionRow {
  std::vector<double> value, error;
  double lse = -std::numeric_limits<double>::infinity(), lseError = 0;
};

/// One query against `keys` keys: q(x) with x < d, k(j, x), and v(j, x) with x < dv are elements.
template <class Q, class K, class V, class Score, class Weight>
AttentionRow attentionRow(std::int64_t keys, std::int64_t d, std::int64_t dv, double scale, Q q, K k, V v,
                          const HostVariant<Score, Weight> &variant) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  AttentionRow row;
  row.value.assign(static_cast<std::size_t>(dv), 0);
  row.error.assign(static_cast<std::size_t>(dv), 0);
  std::vector<double> s(static_cast<std::size_t>(keys));
  double top = variant.sink, off = 0; // `off`: of any score
  for (std::int64_t j = 0; j < keys; ++j) {
    if (variant.score(0.0, j) == none) { // most keys of a sparse variant
      s[j] = none;
      continue;
    }
    double sum = 0, magnitude = 0, largest = 0;
    for (std::int64_t x = 0; x < d; ++x) {
      const double term = q(x) * k(j, x);
      sum += term;
      magnitude += std::abs(term);
      largest = std::max({largest, std::abs(term), std::abs(sum)});
    }
    s[j] = variant.score(sum * scale, j);
    if (s[j] != none)
      off = std::max(off, variant.slope * scale *
                                  (static_cast<double>(d + 2) * 0x1p-23 * magnitude +
                                   variant.lost * std::ceil(static_cast<double>(d) / 128) * 2 * largest) +
                              0x1p-21 * std::abs(s[j]));
    top = std::max(top, s[j]);
  }
  if (top == none)
    return row;
  double total = std::exp(variant.sink - top);
  std::vector<double> magnitude(row.value.size()), sizes(row.value.size());
  for (std::int64_t j = 0; j < keys; ++j) {
    const double p = std::exp(s[j] - top), w = p * variant.weight(j);
    total += p;
    for (std::int64_t x = 0; x < dv && s[j] != none; ++x) {
      row.value[x] += w * v(j, x);
      magnitude[x] += std::abs(w * v(j, x));
      sizes[x] += std::abs(v(j, x));
    }
  }
  // The error of a score is the relative error of its weight, in the product and in the total. Sums and
  // rescaling in f32 add what sums of twice as many terms would.
  const double relative =
      2 * off + variant.rounding.unit + variant.lost + static_cast<double>(2 * keys + 64) * 0x1p-23;
  for (std::size_t x = 0; x < row.value.size(); ++x) {
    row.value[x] /= total;
    row.error[x] = (relative * magnitude[x] + variant.rounding.tiny * sizes[x]) / total;
  }
  row.lse = top + std::log(total);
  row.lseError = off + static_cast<double>(keys + 64) * 0x1p-23 + 0x1p-21 * std::abs(row.lse);
  return row;
}

} // namespace sample
