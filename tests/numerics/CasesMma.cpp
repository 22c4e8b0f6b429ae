// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Cases.h"

#include <fmt/format.h>

namespace sectile::numerics {
namespace {

struct Combination {
  DType a, b, acc;
  const char *policy;
};
const std::vector<Combination> combinations = {
    {DType::f16, DType::f16, DType::f32, "exact"},   {DType::f16, DType::f16, DType::f16, "exact"},
    {DType::bf16, DType::bf16, DType::f32, "exact"}, {DType::f32, DType::f32, DType::f32, "exact"},
    {DType::f32, DType::f32, DType::f32, "tf32"},    {DType::f64, DType::f64, DType::f64, "exact"},
    {DType::e4m3, DType::e4m3, DType::f32, "exact"}, {DType::e5m2, DType::e5m2, DType::f32, "exact"},
    {DType::e4m3, DType::e5m2, DType::f32, "exact"}, {DType::e5m2, DType::e4m3, DType::f32, "exact"},
    {DType::i8, DType::i8, DType::i32, "exact"},     {DType::u8, DType::u8, DType::i32, "exact"},
};
std::string combinationText(const Combination &c) {
  return fmt::format("mma {} {} {} {}", name(c.a), name(c.b), name(c.acc), c.policy);
}

/// One product of one tile; M, N, K of the tensors may be shorter.
struct Form {
  std::int64_t m, n, k, dimM, dimN, dimK;
  Fill fill;
  int masks;       ///< bit 0: of a, 1: of b, 2: of acc
  bool transposed; ///< b is loaded as [n, k] and permuted
};

Kernel product(const Combination &c, const Form &f) {
  Kernel k;
  int A = k.input(c.a, {f.dimM, f.dimK}, f.fill);
  int B = f.transposed ? k.input(c.b, {f.dimN, f.dimK}, f.fill) : k.input(c.b, {f.dimK, f.dimN}, f.fill);
  int C = k.input(c.acc, {f.dimM, f.dimN}, f.fill == Fill::special ? Fill::small : f.fill),
      D = k.output(c.acc, {f.m, f.n});
  int maskA = f.masks & 1 ? k.input(DType::boolean, {f.m, f.k}, Fill::normal) : -1;
  int maskB = f.masks & 2 ? k.input(DType::boolean, {f.k, f.n}, Fill::normal) : -1;
  int maskC = f.masks & 4 ? k.input(DType::boolean, {f.m, f.n}, Fill::normal) : -1;
  std::vector<int> at{k.index(0), k.index(0)};
  int a = k.load(A, at, {f.m, f.k});
  int b = f.transposed ? k.permute(k.load(B, at, {f.n, f.k}), {1, 0}) : k.load(B, at, {f.k, f.n});
  int acc = k.load(C, at, {f.m, f.n});
  if (maskA >= 0)
    a = k.keep(k.load(maskA, at, {f.m, f.k}), a);
  if (maskB >= 0)
    b = k.keep(k.load(maskB, at, {f.k, f.n}), b);
  if (maskC >= 0)
    acc = k.keep(k.load(maskC, at, {f.m, f.n}), acc);
  k.store(k.mma(a, b, acc, c.policy), D, at);
  return k;
}

} // namespace

void addMma(Cases &cases) {
  const std::vector<Form> forms = {
      {16, 8, 16, 16, 8, 16, Fill::normal, 0, false},
      {16, 16, 16, 16, 16, 16, Fill::small, 0, true},
      {16, 16, 32, 16, 16, 32, Fill::special, 0, false},
      {32, 32, 48, 32, 32, 48, Fill::normal, 0, false},
      {64, 64, 80, 64, 64, 80, Fill::normal, 0, true},
      {128, 64, 16, 128, 64, 16, Fill::normal, 0, false},
      {16, 128, 64, 16, 128, 64, Fill::small, 0, false},
      {128, 128, 32, 128, 128, 32, Fill::normal, 0, false},
      {12, 20, 24, 12, 20, 24, Fill::normal, 0, false},
      {8, 8, 4, 8, 8, 4, Fill::normal, 0, false},
      {32, 32, 48, 27, 30, 41, Fill::normal, 0, false},
      {64, 32, 64, 64, 32, 37, Fill::normal, 0, true},
      {32, 64, 32, 32, 64, 32, Fill::small, 1, false},
      {32, 32, 32, 30, 31, 29, Fill::small, 6, false},
      {16, 16, 80, 16, 16, 80, Fill::normal, 3, false},
      {32, 16, 32, 30, 16, 29, Fill::special, 1, false},
      {16, 16, 32, 16, 13, 32, Fill::special, 2, true},
      {32, 32, 32, 32, 32, 32, Fill::special, 3, false},
      {48, 24, 96, 48, 24, 96, Fill::wide, 0, false},
      {1, 16, 16, 1, 16, 16, Fill::normal, 0, false},
      {16, 1, 17, 16, 1, 17, Fill::normal, 0, false},
      {64, 128, 128, 64, 128, 128, Fill::unit, 0, false},
  };
  for (const Combination &c : combinations)
    for (const Form &f : forms) {
      std::string name = fmt::format("{} {}x{}x{}", combinationText(c), f.m, f.n, f.k);
      if (f.m != f.dimM || f.n != f.dimN || f.k != f.dimK)
        name += fmt::format(" of {}x{}x{}", f.dimM, f.dimN, f.dimK);
      if (f.masks)
        name += fmt::format(" masks {}", f.masks);
      cases.add(fmt::format("{}{} {}", name, f.transposed ? " transposed" : "", fillName(f.fill)),
                f.m * f.n * f.k, [=] { return product(c, f); });
    }
  // K in a loop, with a tail, over a grid; then one more op on the accumulator.
  for (const Combination &c : combinations)
    for (auto [bm, bn, bk, K] :
         {std::tuple{32, 32, 32, 75}, {64, 64, 16, 48}, {16, 64, 48, 100}, {128, 64, 64, 130}})
      cases.add(fmt::format("{} loop {}x{}x{} K {}", combinationText(c), bm, bn, bk, K),
                std::int64_t(bm) * bn * K, [=] {
                  Kernel k;
                  const std::int64_t M = bm + bm / 2 + 1, N = bn + 7;
                  int A = k.input(c.a, {M, K}, Fill::normal), B = k.input(c.b, {K, N}, Fill::normal),
                      D = k.output(c.acc, {M, N});
                  auto at = k.grid(D, {bm, bn});
                  int zero = k.constant(c.acc, {bm, bn}, 0);
                  auto sum = k.loop(k.index(0), k.dim(A, 1), k.index(bk), {zero},
                                    [&](int i, const Kernel::Values &v) -> Kernel::Values {
                                      return {k.mma(k.load(A, {at[0], i}, {bm, bk}),
                                                    k.load(B, {i, at[1]}, {bk, bn}), v[0], c.policy)};
                                    });
                  k.store(k.unary("neg", sum[0]), D, at);
                  return k;
                });
  // Two products, the first's result cast and used as an operand, as in attention.
  for (DType t : {DType::f16, DType::bf16})
    for (std::int64_t n : {32, 64})
      cases.add(fmt::format("mma {} chained {}", name(t), n), 64 * n * n, [=] {
        Kernel k;
        int A = k.input(t, {64, 32}, Fill::small), B = k.input(t, {32, n}, Fill::small),
            C = k.input(t, {n, 48}, Fill::small), D = k.output(DType::f32, {64, 48});
        std::vector<int> at{k.index(0), k.index(0)};
        int p = k.mma(k.load(A, at, {64, 32}), k.load(B, at, {32, n}), k.constant(DType::f32, {64, n}, 0));
        int q = k.cast(k.binary("min", k.binary("max", p, k.constant(DType::f32, {64, n}, 0xC0800000)),
                                k.constant(DType::f32, {64, n}, 0x40800000)),
                       t);
        k.store(k.mma(q, k.load(C, at, {n, 48}), k.constant(DType::f32, {64, 48}, 0)), D, at);
        return k;
      });
}

} // namespace sectile::numerics
