// SPDX-License-Identifier: Apache-2.0
/// \file Products that several cases launch.
#pragma once

#include "tests/cases/Cases.h"

#include <type_traits>

namespace cases {

/// Sums of products of T: f32, of 8-bit integers i32.
template <class T> using SumOf = std::conditional_t<std::is_integral_v<T>, i32, f32>;

template <class T, int BM, int BN, int BK>
inline constexpr auto product = kernel("product",
                                       [](Tensor<const T, 2> A, Tensor<const T, 2> B, Tensor<SumOf<T>, 2> C) {
                                         auto [m, n] = grid(C, {BM, BN});
                                         Tile acc = zeros<SumOf<T>>({BM, BN});
                                         for (Tile k : range(0, A.dim(1), BK))
                                           acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
                                         C.store({m, n}, acc);
                                       });

/// How a matrix lies in memory: elements between its rows (or columns), in front of it, and which of the two
/// are neighbours.
struct Place {
  std::int64_t pitch, before = 0;
  bool across = false;
};

/// A matrix somewhere in memory; what lies around its elements is `other`, and comes back unchanged.
template <class T> class Placed {
public:
  Placed(Run &run, std::int64_t rows, std::int64_t columns, Place place, T other)
      : rows(rows), columns(columns), place(place),
        all(std::size_t(place.pitch * (place.across ? columns : rows)), other),
        memory(run, std::int64_t(all.size()), place.before) {
    memory.set(all);
  }
  template <class F> void fill(F element) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        all[at(r, c)] = number<T>(element(r, c));
    memory.set(all);
  }
  Tensor<T, 2> view() {
    return {memory.data(), {rows, columns}, {place.across ? 1 : place.pitch, place.across ? place.pitch : 1}};
  }
  /// All of the memory, as it is and as `fill` with `element` would leave it.
  std::vector<T> get() const { return memory.get(); }
  template <class F> std::vector<T> with(F element) const {
    std::vector<T> v = all;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        v[at(r, c)] = number<T>(element(r, c));
    return v;
  }
  Guarded<T> &guarded() { return memory; }

private:
  std::size_t at(std::int64_t r, std::int64_t c) const {
    return std::size_t(place.across ? c * place.pitch + r : r * place.pitch + c);
  }
  std::int64_t rows, columns;
  Place place;
  std::vector<T> all;
  Guarded<T> memory;
};

} // namespace cases
