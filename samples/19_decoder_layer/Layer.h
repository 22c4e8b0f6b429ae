// SPDX-License-Identifier: Apache-2.0
/// \file A decoder layer as one graph of kernels, most of which other samples are about.
#pragma once

#include "samples/07_attention/kernels.h"
#include "samples/07_attention/variants.h"
#include "samples/10_rms_norm/kernels.h"
#include "samples/15_paged_decode/kernels.h"
#include "samples/16_fused_layer/kernels.h"
#include "samples/19_decoder_layer/kernels.h"

#include <sectile/Graph.h>

#include <cmath>

namespace sample {

/// `width` columns; `groups` heads of keys and values, each for `heads / groups` heads of queries, of `dim` columns; `inner`
/// columns in the MLP. `tokens` are computed: the first ones of one sequence, or one of each of as many sequences.
struct LayerShape {
  std::int64_t width, heads, groups, dim, inner, tokens, page, pagesEach;
  bool isDecode;
  std::int64_t shares; ///< blocks among which the keys of a sequence and group are divided, of a decoding layer
  std::int64_t sequences() const { return isDecode ? tokens : 1; }
  std::int64_t pages() const { return sequences() * pagesEach; }
  std::int64_t columns() const { return (heads + 2 * groups) * dim; }
  std::int64_t positions() const { return page * pagesEach; }
};

/// Where everything lies. `up` and `gate` are [width, inner], the other weights as their names say, second operands of
/// products by rows.
struct LayerTensors {
  const bf16 *x, *firstNorm, *qkv, *out, *secondNorm, *gate, *up, *down;
  const f32 *cos, *sin, *one;
  const i32 *sequence, *position, *table, *lengths;
  bf16 *keys, *values, *y;
};

inline Composed decoderLayer(const LayerShape &s, const LayerTensors &at, f32 eps, Fuse how = fuse::automatic) {
  constexpr auto &product = matmulOf<bf16>;
  const std::int64_t N = s.tokens, W = s.width, H = s.heads, HK = s.groups, G = H / HK, d = s.dim, C = s.columns();
  const f32 scale = 1 / std::sqrt(static_cast<f32>(d));
  Graph g(s.isDecode ? "decode" : "prefill");
  auto vector = [&](auto *data, std::int64_t length) { return g.input(Tensor<std::remove_pointer_t<decltype(data)>, 1>(data, {length})); };
  auto matrix = [&](auto *data, std::int64_t rows, std::int64_t columns) {
    return g.input(Tensor<std::remove_pointer_t<decltype(data)>, 2>(data, {rows, columns}));
  };

  auto x = matrix(at.x, N, W);
  auto qkv = product(rmsNorm(x, vector(at.firstNorm, W), eps), matrix(at.qkv, W, C));
  auto q = g.tensor<bf16, 2>({N, H * d}), o = g.tensor<bf16, 2>({N, H * d});
  auto keys = g.output(Tensor<bf16, 4>(at.keys, {s.pages(), HK, s.page, d})), values = g.output(Tensor<bf16, 4>(at.values, {s.pages(), HK, s.page, d}));
  auto table = matrix(at.table, s.sequences(), s.pagesEach);
  place(g.view(qkv, {N, HK, G, d}, {C, G * d, d, 1}), g.view(qkv, {N, HK, d}, {C, d, 1}, H * d), g.view(qkv, {N, HK, d}, {C, d, 1}, (H + HK) * d),
        vector(at.sequence, N), vector(at.position, N), table, matrix(at.cos, s.positions(), d / 2), matrix(at.sin, s.positions(), d / 2),
        g.view(q, {N, HK, G, d}, {H * d, G * d, d, 1}), keys, values, static_cast<i32>(G));
  if (s.isDecode) {
    const auto [queries, columns] = rowsOf(1, static_cast<int>(G));
    const std::int64_t rows = queries * columns;
    auto parts = g.tensor<f32, 5>({N, HK, s.shares, rows, d});
    auto partLse = g.tensor<f32, 4>({N, HK, s.shares, rows}), lse = g.tensor<f32, 4>({N, HK, 1, G});
    auto factor = g.input(Tensor<const f32, 3>(at.one, {s.pages(), HK, s.page}, {0, 0, 0})); // of 8-bit caches
    auto each = [&](const GraphTensor<bf16, 2> &rowsOfHeads) { return g.view(rowsOfHeads, {N, HK, 1, G, d}, {H * d, G * d, H * d, d, 1}); };
    decodeShares<bf16, bf16, Find::tiles>(each(q), keys, values, table, vector(at.lengths, N), factor, factor, parts, partLse, scale, 1,
                                          static_cast<i32>(G));
    decodeJoin<bf16>(parts, partLse, each(o), lse, static_cast<i32>(columns));
  } else {
    auto cached = [&](const GraphTensor<bf16, 4> &cache) { return g.view(cache, {1, HK, N, d}, {HK * s.page * d, s.page * d, d, 1}); };
    auto heads = [&](const GraphTensor<bf16, 2> &rows) { return g.view(rows, {1, H, N, d}, {N * H * d, d, H * d, 1}); };
    attention<bf16, causal>(heads(q), cached(keys), cached(values), heads(o), g.tensor<f32, 3>({1, H, N}), scale);
  }
  auto middle = addTensors(x, product(o, matrix(at.out, H * d, W)));
  auto h = gatedOf<bf16>(rmsNorm(middle, vector(at.secondNorm, W), eps), matrix(at.gate, W, s.inner), matrix(at.up, W, s.inner));
  g.output(addTensors(middle, product(h, matrix(at.down, s.inner, W))), Tensor<bf16, 2>(at.y, {N, W}));
  return g.build(how);
}

} // namespace sample
