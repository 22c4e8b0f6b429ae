// SPDX-License-Identifier: Apache-2.0
/// \file Sums of products on the host, in double: the references of the samples with products.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sample {

/// One sum per column, with the sum of magnitudes, which bounds what sums in f32 may be off.
class Sums {
public:
  explicit Sums(std::int64_t columns)
      : values(static_cast<std::size_t>(columns)), magnitudes(static_cast<std::size_t>(columns)) {}

  /// A term per column: x times row[n].
  template <class T> void add(double x, const T *row) {
    for (std::size_t n = 0; n < values.size(); ++n) {
      const double term = x * double(row[n]);
      values[n] += term;
      magnitudes[n] += std::abs(term);
    }
    ++terms;
  }
  void clear() {
    std::fill(values.begin(), values.end(), 0.0);
    std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
    terms = 0;
  }

  double value(std::int64_t n) const { return values[static_cast<std::size_t>(n)]; }
  /// What a sum in f32 may be off: half a unit per addition, and as much again, as tensor cores drop bits
  /// where a host rounds.
  double error(std::int64_t n) const {
    return static_cast<double>(terms) * 0x1p-23 * magnitudes[static_cast<std::size_t>(n)];
  }
  double magnitude(std::int64_t n) const { return magnitudes[static_cast<std::size_t>(n)]; }

private:
  std::vector<double> values, magnitudes;
  std::int64_t terms = 0;
};

} // namespace sample
