// SPDX-License-Identifier: Apache-2.0
/// \file Inner loops of the interpreter: contiguous typed lanes in, contiguous typed lanes out. Each loop
/// exists for any x86-64 and for machines with AVX2, FMA and F16C; both give the same bits.
///
/// Functions that are not correctly rounded by the hardware (exp, log, sin, pow, ..) on f32 are computed in
/// double and rounded once; on f16, bf16 and fp8 they are computed as on f32 and rounded once more; on f64
/// they are those of the C++ library.
#pragma once

#include <sectile/DType.h>

#include <cstddef>
#include <cstdint>

namespace sectile::tileir {

enum class UnaryFn : std::uint32_t;
enum class BinaryFn : std::uint32_t;
enum class ComparePred : std::uint32_t;
enum class ReduceKind : std::uint32_t;

namespace interp {

/// Which build of a loop: `base` runs on any x86-64.
enum class Isa { base, v3 };
/// What this machine can run.
Isa hostIsa();

/// r[i] = f(x[i]), i < n.
using UnaryKernel = void (*)(const void *x, void *r, std::int64_t n);
/// r[i] = f(a[i], b[i]), i < n.
using BinaryKernel = void (*)(const void *a, const void *b, void *r, std::int64_t n);
/// r[i] = c[i] ? a[i] : b[i], i < n.
using SelectKernel = void (*)(const bool *c, const void *a, const void *b, void *r, std::int64_t n);
/// r[i] = a[i] * b[i] + c[i], rounded once, i < n.
using FmaKernel = void (*)(const void *a, const void *b, const void *c, void *r, std::int64_t n);
/// Folds the middle axis of x: [outer, length, inner] over lanes lo <= l < hi that `mask` (may be null)
/// holds.
using ReduceKernel = void (*)(const void *x, const std::uint8_t *mask, void *r, std::int64_t outer,
                              std::int64_t length, std::int64_t lo, std::int64_t hi, std::int64_t inner);

/// One matrix product on row-major operands: c[m, n] += sum over ascending k0 <= k < k1 of a[m, k] * b[k, n]
/// for rows m0 <= m < m1, one fused multiply-add per step.
struct MmaCall {
  const void *a;             ///< [M, K]
  const void *b;             ///< [K, N]
  void *c;                   ///< [M, N], read and written
  const std::uint8_t *aMask; ///< null: all lanes
  const std::uint8_t *bMask;
  std::int64_t K, N, m0, m1, k0, k1;
};
using MmaKernel = void (*)(const MmaCall &call);

/// Each lookup gives null for a function that does not exist on the type.
UnaryKernel unaryKernel(UnaryFn fn, DType type, Isa isa);
BinaryKernel binaryKernel(BinaryFn fn, DType type, Isa isa);
BinaryKernel compareKernel(ComparePred pred, DType type, Isa isa);
SelectKernel selectKernel(DType type, Isa isa);
FmaKernel fmaKernel(DType type, Isa isa);
UnaryKernel castKernel(DType to, DType from, Isa isa);
/// The bits of another type of as many bytes; those that `to` does not use become zero.
UnaryKernel bitsKernel(DType to);
/// argmax and argmin give 64-bit positions.
///
/// Order of float sums and products, fixed: inner == 1 keeps 16 partial results, lane l goes to number l mod
/// 16 in ascending order, then number i takes number i + 8, i + 4, i + 2, i + 1; otherwise ascending lanes.
/// f16, bf16 and fp8 fold in f32 and round once.
ReduceKernel reduceKernel(ReduceKind kind, DType type, Isa isa);
/// Operands of type f32, f64 or i32.
MmaKernel mmaKernel(DType type, Isa isa);
/// Lanes of a float type of at most 16 bits, or of i8 or u8, as f32, or i32; null for other types.
UnaryKernel widenKernel(DType from, Isa isa);
/// f32 lanes rounded to 10 fraction bits, to nearest even.
UnaryKernel tf32Kernel(Isa isa);

} // namespace interp
} // namespace sectile::tileir
