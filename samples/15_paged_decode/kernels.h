// SPDX-License-Identifier: Apache-2.0
/// \file Attention of few queries over a long cache of keys and values, which several blocks share.
#pragma once

#include <sectile/sectile.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

namespace sample {
using namespace sectile;

/// How a tile of keys is found in pages: whole, where tiles BN divide the pages or a sequence has one page,
/// or each key by itself.
enum class Find : std::uint8_t { tiles, keys };

/// Lengths of a tile of `queries` x `group` rows whose product is a multiple of 16, as products on tensor
/// cores want.
constexpr std::pair<int, int> rowsOf(int queries, int group) {
  std::pair<int, int> best{(queries + 15) / 16 * 16, group};
  for (int q = queries; q <= queries + 15; ++q)
    for (int g = group; g <= group + 15; ++g)
      if (q * g % 16 == 0 && q * g < best.first * best.second)
        best = {q, g};
  return best;
}

/// The softmax of one share of each sequence's keys: O [B, HK, shares, rows, dv] and Lse [B, HK, shares,
/// rows], where row q * (second number of rowsOf) + g is query q of head hk * G + g. `queries` and `group`
/// are Q's Sq and G.
///
/// Q is [B, HK, Sq, G, d]: the heads that share keys are rows of one product. K and V are [pages, HK, P, d]
/// and [.., dv]; `table` [B, any] has the pages of each sequence, `lengths` [B] its keys, the last Sq of
/// which are those of the queries themselves. What lies in pages behind the last key is not used. Of 8-bit
/// caches, kScale and vScale [pages, HK, P] are factors of each key; strides of 0 make them factors per head,
/// or one for all. Others are not read.
template <class T, class Cache, Find find>
inline constexpr auto decodeShares = kernel(
    "decode_shares", [](Tensor<const T, 5> Q, Tensor<const Cache, 4> K, Tensor<const Cache, 4> V,
                        Tensor<const i32, 2> table, Tensor<const i32, 1> lengths, Tensor<const f32, 3> kScale,
                        Tensor<const f32, 3> vScale, Tensor<f32, 5> O, Tensor<f32, 4> Lse, Scalar<f32> scale,
                        Const<i32> queries, Const<i32> group, Config &cfg) {
      const auto [least, G] = rowsOf(queries, group);
      // A multiple of M rows; those that Q does not have are zeros and are not stored.
      const int M = cfg.pick("M", {16, 64}),
                BN = find == Find::tiles ? cfg.pick("BN", {64, 128, 32, 16}) : cfg.pick("BN", {32, 64, 16});
      const int SQ = least * (M / std::gcd(least * G, M)), BM = SQ * G;
      const int D = cfg.cover("D", Q, 4), DV = cfg.cover("DV", V, 3);
      auto [b, h, share] = grid(O, {1, 1, 1});
      Tile length = cast<Index>(lengths.at(b)), tilesOfAll = O.dim(2) * BN, page = K.dim(2);
      Tile each = -floorDiv(-length, tilesOfAll) * BN, lo = share * each;
      Tile q = reshape(Q.load({b, h, 0, 0, 0}, {1, 1, SQ, G, D}).fill(0), {BM, D}), o = zeros<f32>({BM, DV});
      Tile place = length - int(queries) + iota(BM, 1) / G;
      OnlineSoftmax st(BM, scale, Maximum::exact, dtypeOf<T>);
      for (Tile j : range(lo, min(lo + each, length), BN)) {
        Tile keys = j + iota(BN, 1), number = find == Find::tiles ? j / page : keys / page;
        Tile at = cast<Index>(table.at(b, number)), slot = find == Find::tiles ? j % page : keys % page;
        auto rows = [&](const Tensor<const Cache, 4> &x, int width) {
          if constexpr (find == Find::tiles)
            return x.load({at, h, slot, 0}, {1, 1, BN, width}).drop(0, 1);
          else
            return x.at(at, h, slot, iota(1, width));
        };
        auto factors = [&](const Tensor<const f32, 3> &x) { // [1, BN]
          if constexpr (find == Find::tiles)
            return x.load({at, h, slot}, {1, 1, BN}).drop(0);
          else
            return x.at(at, h, slot).t();
        };
        Tile s = mma(q, cast<T>(rows(K, D)).t());
        if constexpr (sizeof(Cache) == 1)
          s = s * factors(kScale);
        Tile p = st.update(keep(j + iota(1, BN) <= place, s), o);
        if constexpr (sizeof(Cache) == 1)
          p = p * keep(keys < length, factors(vScale).t()).t().fill(0);
        o = mma(cast<T>(p), keep(keys < length, cast<T>(rows(V, DV))).fill(0), o);
      }
      O.store({b, h, share, 0, 0}, st.finish(o));
      Lse.store({b, h, share, 0}, st.lse().drop(1));
    });

/// All shares together, always in the same order: O [B, HK, Sq, G, dv] and Lse [B, HK, Sq, G] of the whole.
/// `columns`: the second number of rowsOf.
template <class T>
inline constexpr auto decodeJoin = kernel("decode_join", [](Tensor<const f32, 5> parts,
                                                            Tensor<const f32, 4> partLse, Tensor<T, 5> O,
                                                            Tensor<f32, 4> Lse, Const<i32> columns,
                                                            Config &cfg) {
  const int N = cfg.cover("shares", partLse, 2), DV = cfg.cover("DV", O, 4);
  auto [b, h, q, g] = grid(Lse, {1, 1, 1, 1});
  Tile row = q * int(columns) + g;
  Tile l = reshape(partLse.load({b, h, 0, row}, {1, 1, N, 1}), {N, 1}), top = max(l, 0);
  Tile none = top == -std::numeric_limits<float>::infinity(); // no share has a key
  Tile w = exp(l - select(none, 0.0f, top)), total = sum(w, 0);
  Tile o = sum(w * parts.load({b, h, 0, row, 0}, {1, 1, N, 1, DV}).drop(0, 1, 3), 0);
  O.store({b, h, q, g, 0}, cast<T>(o / select(none, 1.0f, total)));
  Lse.store({b, h, q, g}, reshape(top + log(total), {1}));
});

/// Shares of the keys that keep `blocks` blocks busy, of at least 256 keys each.
inline std::int64_t sharesFor(std::int64_t sequencesTimesHeads, std::int64_t longest, std::int64_t blocks) {
  return std::clamp(blocks / std::max<std::int64_t>(sequencesTimesHeads, 1), std::int64_t(1),
                    std::max<std::int64_t>((longest + 255) / 256, 1));
}

} // namespace sample
