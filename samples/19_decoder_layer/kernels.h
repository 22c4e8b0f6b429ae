// SPDX-License-Identifier: Apache-2.0
/// \file What a decoder layer needs beside the kernels of other samples: turned queries, and keys and values put where they stay.
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

/// Of each token t, queries [N, HK, G, d] and a key and value [N, HK, d] for each group of G heads. Queries and keys are
/// turned by the angles of the token's position and the halves of a head, d = 2 D; Cos and Sin are [positions, D]. Turned
/// queries go to Y; keys and values to the slot of the position in the cache, [pages, HK, P, d], whose pages the row of the
/// token's sequence in `table` names.
inline constexpr auto place = kernel("place", [](Tensor<const bf16, 4> Q, Tensor<const bf16, 3> K, Tensor<const bf16, 3> V,
                                                 Tensor<const i32, 1> sequence, Tensor<const i32, 1> position, Tensor<const i32, 2> table,
                                                 Tensor<const f32, 2> Cos, Tensor<const f32, 2> Sin, Tensor<bf16, 4> Y,
                                                 Tensor<bf16, 4> keys, Tensor<bf16, 4> values, Const<i32> group, Config &cfg) {
  const int D = cfg.cover("D", Cos, 1), DV = cfg.cover("DV", V, 2), G = group;
  auto [t, h] = grid(K, {1, 1});
  Tile p = cast<Index>(position.at(t)), d = Cos.dim(1), size = keys.dim(2);
  Tile page = cast<Index>(table.at(cast<Index>(sequence.at(t)), p / size)), slot = p % size;
  Tile cos = Cos.load({p, 0}, {1, D}), sin = Sin.load({p, 0}, {1, D});
  auto turn = [&](const Tile &a, const Tile &b, auto store) {
    store(cast<bf16>(a * cos - b * sin), cast<bf16>(b * cos + a * sin));
  };
  turn(cast<f32>(Q.load({t, h, 0, 0}, {1, 1, G, D}).drop(0, 1)), cast<f32>(Q.load({t, h, 0, d}, {1, 1, G, D}).drop(0, 1)),
       [&](const Tile &a, const Tile &b) {
         Y.store({t, h, 0, 0}, a);
         Y.store({t, h, 0, d}, b);
       });
  turn(cast<f32>(K.load({t, h, 0}, {1, 1, D}).drop(0)), cast<f32>(K.load({t, h, d}, {1, 1, D}).drop(0)),
       [&](const Tile &a, const Tile &b) {
         keys.store({page, h, slot, 0}, a);
         keys.store({page, h, slot, d}, b);
       });
  values.store({page, h, slot, 0}, V.load({t, h, 0}, {1, 1, DV}).drop(0));
});

} // namespace sample
