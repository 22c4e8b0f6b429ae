// SPDX-License-Identifier: Apache-2.0
/// \file Attention of one query on the host, in double, with what the kernel may be off.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sample {

/// The result of one query [dv], its log-sum-exp, and the errors that sums in f32, the rounding of weights
/// and the exponentials may leave in them before the last rounding.
struct AttentionRow {
  std::vector<double> value, error;
  double lse = -std::numeric_limits<double>::infinity(), lseError = 0;
};

/// One query against `keys` keys. q(x), k(j, x), v(j, x) are elements; `score(s, j)` makes of a scaled
/// product what the variant makes of it, -inf where there is no such key; its slope is at most `slope`.
/// `sink` is the score of one more key whose value is 0 (-inf: none), `weight(j)` a factor on the way to the
/// product with V. `unit`: what rounding to the type of the weights may be off, relative to a weight.
template <class Q, class K, class V, class Score, class Weight>
AttentionRow attentionRow(std::int64_t keys, std::int64_t d, std::int64_t dv, double scale, double unit, Q q,
                          K k, V v, Score score, double sink, Weight weight, double slope = 1) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  AttentionRow row;
  row.value.assign(static_cast<std::size_t>(dv), 0);
  row.error.assign(static_cast<std::size_t>(dv), 0);
  std::vector<double> s(static_cast<std::size_t>(keys));
  double top = sink, off = 0; // `off`: of any score
  for (std::int64_t j = 0; j < keys; ++j) {
    if (score(0.0, j) == none) { // most keys of a sparse variant
      s[j] = none;
      continue;
    }
    double sum = 0, magnitude = 0;
    for (std::int64_t x = 0; x < d; ++x) {
      const double term = q(x) * k(j, x);
      sum += term;
      magnitude += std::abs(term);
    }
    s[j] = score(sum * scale, j);
    off = std::max(off, slope * static_cast<double>(d + 2) * 0x1p-23 * magnitude * std::abs(scale) +
                            0x1p-22 * std::abs(s[j]));
    top = std::max(top, s[j]);
  }
  if (top == none)
    return row;
  double total = std::exp(sink - top);
  std::vector<double> magnitude(row.value.size());
  for (std::int64_t j = 0; j < keys; ++j) {
    const double p = std::exp(s[j] - top);
    total += p;
    if (const double w = p * weight(j); w != 0)
      for (std::int64_t x = 0; x < dv; ++x) {
        row.value[x] += w * v(j, x);
        magnitude[x] += std::abs(w * v(j, x));
      }
  }
  // A score's error is the relative error of its weight; those in the total are no larger. Sums and rescaling
  // in f32 add what sums of twice as many terms would.
  const double relative = 2 * off + unit + static_cast<double>(2 * keys + 64) * 0x1p-23;
  for (std::size_t x = 0; x < row.value.size(); ++x) {
    row.value[x] /= total;
    row.error[x] = relative * magnitude[x] / total;
  }
  row.lse = top + std::log(total);
  row.lseError = off + static_cast<double>(keys + 64) * 0x1p-23 + 0x1p-22 * std::abs(row.lse);
  return row;
}

} // namespace sample
