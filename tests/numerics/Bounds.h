// SPDX-License-Identifier: Apache-2.0
/// \file The one table of what results may differ by; whatever is not in it is exact, bit for bit, NaN as
/// NaN.
///
/// Functions of one or two numbers: |got - ref| <= c units in the last place of the type they compute in (f64
/// for f64, f32 for all others) at ref, and half a unit of the result's type more where that is narrower.
/// Where `flushes`, f32 and narrower results below 2^-126 may be 0.
/// Sums and products of many: |got - ref| <= c * n * u * sum|terms| (the product: |ref| in place of the sum),
/// n the number of terms and u half a unit in the last place at 1 of the type that accumulates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace sectile::numerics {

struct Bound {
  std::string_view op;
  double f32, f64; ///< c
  bool flushes = false;
};

inline constexpr Bound bounds[] = {
    {"exp", 4, 2, true}, {"exp2", 3, 2, true}, {"log", 2, 2},         {"log2", 2, 1}, {"rsqrt", 3, 2},
    {"sin", 2, 3},       {"cos", 2, 3},        {"tanh", 3, 4},        {"erf", 3, 4},  {"sigmoid", 5, 4, true},
    {"pow", 1, 4},       {"reduce sum", 1, 1}, {"reduce prod", 2, 2}, {"mma", 2, 2}, // tensor cores drop bits
                                                                                     // where a CPU rounds
};

/// Null: exact.
constexpr const Bound *boundOf(std::string_view op) {
  for (const Bound &b : bounds)
    if (b.op == op)
      return &b;
  return nullptr;
}

/// tf32 operands keep 10 fraction bits, rounded or cut: relative to each product.
inline constexpr double tf32Product = 0x1p-9;
/// On sm_89 and sm_90 the tensor cores align the e4m3 and e5m2 products of one instruction to the largest
/// term and keep 13 bits below it: relative to sum|terms| of a result. Holds for GPUs only.
inline constexpr double fp8TensorCore = 0x1p-12;

/// What products of warpgroups with e4m3 and e5m2 may lose beside that (sm_90, GPUs only). An instruction
/// takes 32 terms and the sum so far, aligns them to the largest and cuts each, and its result, 13 bits below
/// that: less than 34 units of 2^-13 of the largest term or sum. A chain of instructions has at most 128
/// terms; sums of chains are f32. Chains may be as short as one instruction, so the sum so far is one of
/// those that begin at any instruction of the 128.
class ShortSums {
public:
  void add(double term) {
    if (count % 32 == 0) {
      if (count % 128 == 0)
        largest = 0;
      sums[count / 32 % 4] = 0;
    }
    largest = std::max(largest, std::fabs(term));
    for (std::int64_t i = 0; i <= count / 32 % 4; ++i) {
      sums[i] += term;
      largest = std::max(largest, std::fabs(sums[i]));
    }
    if (++count % 32 == 0)
      inWhole += largest;
  }
  double lost() const { return 34 * 0x1p-13 * (inWhole + (count % 32 ? largest : 0)); }

private:
  double sums[4] = {}; ///< from the beginning of each instruction of the chain
  double largest = 0, inWhole = 0;
  std::int64_t count = 0;
};

} // namespace sectile::numerics
