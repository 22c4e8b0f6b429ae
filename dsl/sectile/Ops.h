// SPDX-License-Identifier: Apache-2.0
/// \file Operations on tiles. docs/language.md states the meaning and the rules of each.
///
/// An argument of type TileAt is a Tile or a host number, which takes the dtype of the tile beside it.
/// Elementwise results have the lanes that exist in every operand.
#pragma once

#include <sectile/Tensor.h>
#include <sectile/Tile.h>

#include <concepts>
#include <cstddef>
#include <span>

namespace sectile {

/// How mma treats f32 operands: all their bits, or rounded to tf32 (10 fraction bits) for the tensor cores.
enum class MmaPolicy : std::uint8_t { exact, tf32 };

namespace detail {
SECTILE_API Tile fullOf(DType dtype, std::span<const int> shape, const TileAt &value,
                        std::source_location loc);
SECTILE_API Tile castTo(DType dtype, const TileAt &x);
SECTILE_API Tile bitsTo(DType dtype, const TileAt &x);
SECTILE_API Tile broadcastTo(const TileAt &x, std::span<const int> shape);
SECTILE_API Tile reshapeTo(const TileAt &x, std::span<const int> shape);
SECTILE_API Tile permuteTo(const TileAt &x, std::span<const int> order);
SECTILE_API Tile iotaOf(std::span<const int> shape, std::source_location loc);
} // namespace detail

// Making tiles.

/// Zero (false) in every lane: `zeros<f32>({BM, BN})`.
template <Element T, std::size_t N>
Tile zeros(const int (&shape)[N], std::source_location loc = std::source_location::current()) {
  return detail::fullOf(dtypeOf<T>, shape, TileAt(0, loc), loc);
}
/// `value` (a host number or a scalar of dtype T) in every lane: `full<f32>({BM, 1}, -INFINITY)`.
template <Element T, std::size_t N>
Tile full(const int (&shape)[N], TileAt value, std::source_location loc = std::source_location::current()) {
  return detail::fullOf(dtypeOf<T>, shape, value, loc);
}
/// A scalar: `scalar<i32>(0)`.
template <Element T> Tile scalar(TileAt value) { return detail::fullOf(dtypeOf<T>, {}, value, value.loc); }
/// Coordinates of dtype index along the one axis whose length is not 1: `iota(BM, 1)` is [BM, 1] holding
/// 0..BM-1, `iota(1, BN)` is [1, BN]. If every length is 1: zero.
template <std::convertible_to<int>... I> Tile iota(detail::IntAt first, I... rest) {
  const int shape[] = {first.value, static_cast<int>(rest)...};
  return detail::iotaOf(shape, first.loc);
}

// Shapes and dtypes.

/// Conversion. Float to float rounds once to nearest even (to e4m3 and e5m2 it saturates); float to integer
/// goes toward zero and saturates, NaN gives 0; integer to integer wraps; anything to bool is != 0. To e2m1, e2m3 and
/// e3m2 all saturates, NaN too; to ue8m0 the magnitude goes toward zero to a power of two.
template <Element T> Tile cast(TileAt x) { return detail::castTo(dtypeOf<T>, x); }
/// The same bits as another dtype of equally many bytes: `bitsAs<u32>(x)` of f32.
template <Element T> Tile bitsAs(TileAt x) { return detail::bitsTo(dtypeOf<T>, x); }
/// Bytes of two e2m1 each (a tile of a Tensor<e2m1x2, R>, rank 1 to 4) as e2m1: the last axis becomes twice as long.
SECTILE_API Tile unpack(TileAt x);
/// The reverse: e2m1 to bytes, the last axis half as long.
SECTILE_API Tile pack(TileAt x);
/// Repeats axes of length 1 (equal rank), or a scalar: `broadcast(x, {BM, BN})`.
template <std::size_t N> Tile broadcast(TileAt x, const int (&shape)[N]) {
  return detail::broadcastTo(x, shape);
}
/// The same lanes in row-major order under another shape.
template <std::size_t N> Tile reshape(TileAt x, const int (&shape)[N]) { return detail::reshapeTo(x, shape); }
/// Axis d of the result is axis order[d] of x.
template <std::size_t N> Tile permute(TileAt x, const int (&order)[N]) { return detail::permuteTo(x, order); }
/// The lanes where `mask` (a truth value) holds; the others do not exist: stores leave them alone, reductions
/// skip them.
SECTILE_API Tile keep(TileAt mask, TileAt x);
/// Missing lanes get `value`.
SECTILE_API Tile fill(TileAt x, TileAt value);
/// [M, N] -> [N, M].
SECTILE_API Tile t(TileAt x);
/// Removes axes of length 1.
template <std::convertible_to<int>... I> Tile drop(const Tile &x, detail::IntAt first, I... rest) {
  return x.drop(first, rest...);
}

// Elementwise.

SECTILE_API Tile abs(TileAt x);
SECTILE_API Tile exp(TileAt x);
SECTILE_API Tile exp2(TileAt x);
SECTILE_API Tile log(TileAt x);
SECTILE_API Tile log2(TileAt x);
SECTILE_API Tile sqrt(TileAt x);
SECTILE_API Tile rsqrt(TileAt x);
SECTILE_API Tile sin(TileAt x);
SECTILE_API Tile cos(TileAt x);
SECTILE_API Tile tanh(TileAt x);
SECTILE_API Tile erf(TileAt x);
/// 1 / (1 + exp(-x)).
SECTILE_API Tile sigmoid(TileAt x);
SECTILE_API Tile floor(TileAt x);
SECTILE_API Tile ceil(TileAt x);
/// To the nearest integer, half to even.
SECTILE_API Tile round(TileAt x);
/// Toward zero.
SECTILE_API Tile trunc(TileAt x);
SECTILE_API Tile isnan(TileAt x);
SECTILE_API Tile isinf(TileAt x);
SECTILE_API Tile pow(TileAt a, TileAt b);
/// Rounds down; floorDiv(a, b) * b + floorMod(a, b) = a.
SECTILE_API Tile floorDiv(TileAt a, TileAt b);
SECTILE_API Tile floorMod(TileAt a, TileAt b);
/// The larger of two; NaN if either is NaN. Beside an integer, `max(x, 1)` is the reduction along axis 1:
/// write max(1, x) or scalar<i32>(1) for the number.
SECTILE_API Tile max(TileAt a, TileAt b);
SECTILE_API Tile min(TileAt a, TileAt b);
/// The larger of two; the other one where one is NaN.
SECTILE_API Tile maxNum(TileAt a, TileAt b);
SECTILE_API Tile minNum(TileAt a, TileAt b);
/// a where the truth value `cond` holds, else b.
SECTILE_API Tile select(TileAt cond, TileAt a, TileAt b);
/// a * b + c, rounded once; f32 and f64.
SECTILE_API Tile fma(TileAt a, TileAt b, TileAt c);
inline Tile where(TileAt cond, TileAt a, TileAt b) { return select(cond, a, b); }

// Reductions along one axis, which stays with length 1. Missing lanes are skipped; where none exists the
// result is the identity (sum 0, prod 1, max -inf or the smallest integer, min the opposite, any false, all
// true, argmax 0).

namespace detail {
enum class Reduction : std::uint8_t { sum, prod, max, min, maxNum, minNum, any, all, argmax, argmin };
SECTILE_API Tile reduce(Reduction kind, const TileAt &x, int axis);
} // namespace detail

/// The axis of a reduction: an int, so that a float beside a tile stays an operand.
template <class I>
concept Axis = std::integral<I> && !std::same_as<I, bool>;

template <Axis I> Tile sum(TileAt x, I axis) { return detail::reduce(detail::Reduction::sum, x, int(axis)); }
template <Axis I> Tile prod(TileAt x, I axis) {
  return detail::reduce(detail::Reduction::prod, x, int(axis));
}
/// NaN if any existing lane is NaN.
template <Axis I> Tile max(TileAt x, I axis) { return detail::reduce(detail::Reduction::max, x, int(axis)); }
template <Axis I> Tile min(TileAt x, I axis) { return detail::reduce(detail::Reduction::min, x, int(axis)); }
/// Ignores NaN; all NaN gives NaN.
template <Axis I> Tile maxNum(TileAt x, I axis) {
  return detail::reduce(detail::Reduction::maxNum, x, int(axis));
}
template <Axis I> Tile minNum(TileAt x, I axis) {
  return detail::reduce(detail::Reduction::minNum, x, int(axis));
}
/// Of truth values.
template <Axis I> Tile any(TileAt x, I axis) { return detail::reduce(detail::Reduction::any, x, int(axis)); }
template <Axis I> Tile all(TileAt x, I axis) { return detail::reduce(detail::Reduction::all, x, int(axis)); }
/// First position of the largest (smallest) lane, of dtype index; NaN counts as the largest (smallest).
template <Axis I> Tile argmax(TileAt x, I axis) {
  return detail::reduce(detail::Reduction::argmax, x, int(axis));
}
template <Axis I> Tile argmin(TileAt x, I axis) {
  return detail::reduce(detail::Reduction::argmin, x, int(axis));
}

// Matrix product.

/// a [M, K] times b [K, N], plus acc [M, N]. Without acc: plus zero, in f32 (f64 for f64, i32 for i8 and u8).
SECTILE_API Tile mma(TileAt a, TileAt b, TileAt acc, MmaPolicy policy = MmaPolicy::exact);
SECTILE_API Tile mma(TileAt a, TileAt b, MmaPolicy policy = MmaPolicy::exact);

} // namespace sectile
