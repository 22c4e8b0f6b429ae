// SPDX-License-Identifier: Apache-2.0
/// \file A view of a tensor in global memory: the same type on the host and inside a kernel.
#pragma once

#include <sectile/Buffer.h>
#include <sectile/KernelArg.h>
#include <sectile/Tile.h>

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

namespace sectile {

namespace detail {

/// The traced side of a tensor view: the cell that holds it (trace 0 on the host), and its number among the
/// kernel's parameters (-1 for a slice).
class SECTILE_API TracedTensor {
public:
  TracedTensor() = default;
  TracedTensor(CellRef cell, int parameter) : ref(cell), param(parameter) {}
  TracedTensor(const TracedTensor &other, std::source_location loc = std::source_location::current());
  TracedTensor &operator=(TracedTensor value);
  ~TracedTensor() {
    if (ref.trace)
      dropCell(ref, this);
  }

  CellRef handle() const { return ref; }
  int parameter() const { return param; }

  Tile dim(int axis, std::source_location loc) const;
  Tile load(std::span<const TileAt> offsets, std::span<const int> shape, std::source_location loc) const;
  void store(std::span<const TileAt> offsets, const TileAt &value, std::source_location loc) const;
  Tile at(std::span<const TileAt> indices, std::source_location loc) const;
  CellRef slice(int axis, const TileAt &lo, const TileAt &hi, std::source_location loc) const;
  void grid(std::span<const int> sizes, std::span<CellRef> offsets, std::source_location loc) const;

private:
  CellRef ref;
  int param = -1;
};

/// Throws UserError [buffer_rank] unless the ranks are equal.
SECTILE_API void checkBufferRank(int got, int wanted, std::source_location loc);
/// Row-major strides.
template <std::size_t R>
constexpr std::array<std::int64_t, R> contiguous(const std::array<std::int64_t, R> &dims) {
  std::array<std::int64_t, R> strides{};
  std::int64_t s = 1;
  for (std::size_t d = R; d-- > 0; s *= dims[d])
    strides[d] = s;
  return strides;
}

} // namespace detail

/// A view of a tensor of element type T and rank R; `const T` is read-only. Dims, strides and offsets are in
/// elements; strides may be zero or negative.
///
/// On the host it is made from a pointer (row-major, or with strides) or from a Buffer, and given to a
/// launch. Inside a kernel it is a parameter: `dim`, `load`, `store`, `at` and `slice` work there.
template <Element T, int R> class Tensor {
  static_assert(R >= 1 && R <= maxRank, "a Tensor has rank 1 to 5");
  using Value = std::remove_const_t<T>;

public:
  using ElementType = T;
  static constexpr int rank = R;

  // Host side.
  Tensor(T *data, std::array<std::int64_t, R> dims) : Tensor(data, dims, detail::contiguous(dims)) {}
  Tensor(T *data, std::array<std::int64_t, R> dims, std::array<std::int64_t, R> strides)
      : pointer(data), lengths(dims), steps(strides) {}
  /// UserError [buffer_rank] if the buffer's rank is not R.
  Tensor(Buffer<Value> &buffer, std::source_location loc = std::source_location::current())
      : pointer(buffer.data()) {
    takeDims(buffer, loc);
  }
  Tensor(const Buffer<Value> &buffer,
         std::source_location loc = std::source_location::current()) requires std::is_const_v<T>
      : pointer(buffer.data()) {
    takeDims(buffer, loc);
  }
  /// Reading only.
  template <class U>
  requires(std::is_const_v<T> &&std::is_same_v<U, Value>) Tensor(const Tensor<U, R> &other)
      : pointer(other.data()), lengths(other.dims()), steps(other.strides()), traced(other.handle()) {}

  T *data() const { return pointer; }
  const std::array<std::int64_t, R> &dims() const { return lengths; }
  const std::array<std::int64_t, R> &strides() const { return steps; }

  // Inside a kernel.
  /// Length of an axis, a scalar of dtype index.
  Tile dim(int axis, std::source_location loc = std::source_location::current()) const {
    return traced.dim(axis, loc);
  }
  /// The tile of this shape at these element offsets: `A.load({m, k}, {BM, BK})`. Lanes outside the tensor do
  /// not exist: sums and products over them skip them, stores leave their memory alone, `.fill(v)` gives them
  /// a value.
  template <std::size_t N, std::size_t M>
  Tile load(const TileAt (&offsets)[N], const int (&shape)[M],
            std::source_location loc = std::source_location::current()) const {
    static_assert(N == R, "load: one offset per axis of the tensor");
    static_assert(M == R, "load: one tile length per axis of the tensor");
    return traced.load(offsets, shape, loc);
  }
  /// Writes the tile's existing lanes at these element offsets. The tile's shape gets leading axes of length
  /// 1 where its rank is smaller.
  template <std::size_t N>
  void store(const TileAt (&offsets)[N], TileAt value,
             std::source_location loc = std::source_location::current()) const {
    static_assert(!std::is_const_v<T>,
                  "store: the tensor is read-only; declare it Tensor<T, R> without const");
    static_assert(N == R, "store: one offset per axis of the tensor");
    traced.store(offsets, value, loc);
  }
  /// Single elements at coordinates given by index tiles (or scalars), one per axis; all of one shape after
  /// repeating axes of length 1. Lanes whose coordinates lie outside the tensor do not exist.
  Tile at(TileAt i) const requires(R == 1) { return traced.at(std::array{i}, i.loc); }
  Tile at(TileAt i, TileAt j) const requires(R == 2) { return traced.at(std::array{i, j}, i.loc); }
  Tile at(TileAt i, TileAt j, TileAt k) const requires(R == 3) {
    return traced.at(std::array{i, j, k}, i.loc);
  }
  Tile at(TileAt i, TileAt j, TileAt k, TileAt l) const requires(R == 4) {
    return traced.at(std::array{i, j, k, l}, i.loc);
  }
  Tile at(TileAt i, TileAt j, TileAt k, TileAt l, TileAt m) const requires(R == 5) {
    return traced.at(std::array{i, j, k, l, m}, i.loc);
  }
  /// The coordinates lo <= i < hi of one axis, clamped to [0, dim]; a tensor whose tails behave as at its
  /// end.
  Tensor slice(int axis, TileAt lo, TileAt hi,
               std::source_location loc = std::source_location::current()) const {
    return Tensor(traced.slice(axis, lo, hi, loc), -1);
  }

  /// For the library itself.
  Tensor(detail::CellRef cell, int parameter) : traced(cell, parameter) {}
  const detail::TracedTensor &handle() const { return traced; }

private:
  template <class B> void takeDims(const B &buffer, std::source_location loc) {
    detail::checkBufferRank(buffer.rank(), R, loc);
    for (int d = 0; d < R; ++d)
      lengths[d] = buffer.dims()[d];
    steps = detail::contiguous(lengths);
  }

  T *pointer = nullptr;
  std::array<std::int64_t, R> lengths{}, steps{};
  detail::TracedTensor traced;
};

/// Declares what the kernel's programs cover: `auto [m, n] = grid(C, {BM, BN})` gives this program's element
/// offsets (dtype index) along the leading axes of C, covered by tiles of these sizes, rounded up. Once in a
/// kernel, at its top level, on a parameter.
template <class T, int R, std::size_t N>
std::array<Tile, N> grid(const Tensor<T, R> &x, const int (&sizes)[N],
                         std::source_location loc = std::source_location::current()) {
  static_assert(N <= static_cast<std::size_t>(R), "grid: at most one size per axis of the tensor");
  std::array<detail::CellRef, N> cells;
  x.handle().grid(sizes, cells, loc);
  return [&]<std::size_t... I>(std::index_sequence<I...>) { return std::array<Tile, N>{Tile(cells[I])...}; }
  (std::make_index_sequence<N>());
}

} // namespace sectile
