// SPDX-License-Identifier: Apache-2.0
/// \file Attention: one forward kernel, to which a variant adds its own lines.
#pragma once

#include <sectile/sectile.h>

#include <cstdint>
#include <type_traits>

namespace sample {
using namespace sectile;

/// Keys that a tile of queries looks at: lo <= k < hi.
struct Keys {
  Tile lo, hi;
};

inline constexpr auto sameScore = [](Tile s, At) { return s; };
inline constexpr auto noMask = [](At) {};
inline constexpr auto everyKey = [](At, Tile, Tile keys) { return Keys{scalar<Index>(0), keys}; };
inline constexpr auto inOrder = [](At, Tile j) { return j; };
inline constexpr auto noSink = [](At) {};
inline constexpr auto sameWeight = [](Tile p, At) { return p; };
inline constexpr auto sameResult = [](Tile o, At) { return o; };

/// What a variant of attention does; lambdas that are left out change nothing. What a lambda takes beyond the
/// arguments named here becomes parameters of the kernel, behind its own, in the order of the members.
template <class Score = decltype(sameScore), class Mask = decltype(noMask), class Reach = decltype(everyKey),
          class Visit = decltype(inOrder), class Sink = decltype(noSink), class Weight = decltype(sameWeight),
          class Result = decltype(sameResult)>
struct Variant {
  Score score{};   ///< (s, at): makes of scores [BM, BN] of f32 others
  Mask mask{};     ///< (at): truth values [BM, BN], whether a query sees a key
  Reach reach{};   ///< (first, last, keys): the Keys that queries from first.q to last can see at all
  Visit visit{};   ///< (first, j): where the keys are that are looked at in place of those from j on
  Sink sink{};     ///< (at): a scalar of f32, the score of one more key, whose value is 0
  Weight weight{}; ///< (p, at): weights [BM, BN] of f32 for the product with V; their total stays as it is
  Result result{}; ///< (o, at): results [BM, DV] of f32 before they are rounded
};
/// Whether a member of a variant was left out.
template <class A, class B> constexpr bool isDefault(const A &, const B &) { return std::is_same_v<A, B>; }

/// Positions of queries among keys: query 0 is at key 0, or the last query at the last key.
enum class Align : std::uint8_t { start, end };

/// O = softmax(score(scale Q K^T)) V for the BM queries from i on of batch b and head h, and the logarithm of
/// the sum of the exponentials. Q [.., Sq, d], K [.., Sk, d], V [.., Sk, dv], O [.., Sq, dv], Lse [.., Sq]; d
/// is at most D and dv at most DV. Each head of K and V serves H / HK heads of Q. `member`: b, as far as Q,
/// K, V and O are concerned. `scale` is above 0.
template <auto variant, Align align, class T, class Out>
void attend(Tensor<const T, 4> Q, Tensor<const T, 4> K, Tensor<const T, 4> V, Tensor<Out, 4> O,
            Tensor<f32, 3> Lse, Tile scale, Tile member, Tile b, Tile h, Tile i, int BM, int BN, int D,
            int DV, Maximum maximum) {
  constexpr bool isPlain = isDefault(variant.score, sameScore), isMasked = !isDefault(variant.mask, noMask);
  Tile hk = h / (Q.dim(1) / K.dim(1)), first = i;
  if constexpr (align == Align::end)
    first = i + (K.dim(2) - Q.dim(2));
  At start{b, h, first, scalar<Index>(0)}, at{b, h, first + iota(BM, 1), start.k};
  Tile q = Q.load({member, h, i, 0}, {1, 1, BM, D}).drop(0, 1), o = zeros<f32>({BM, DV});
  OnlineSoftmax st(BM, isPlain ? TileAt(scale) : TileAt(1.0f), maximum, dtypeOf<T>);
  if constexpr (!isDefault(variant.sink, noSink))
    st.update(full<f32>({BM, 1}, isPlain ? apply<variant.sink>(at) / scale : apply<variant.sink>(at)));
  auto [lo, hi] = apply<variant.reach>(start, first + (BM - 1), K.dim(2));
  for (Tile trip : range(lo, hi, BN)) {
    Tile j = apply<variant.visit>(start, trip);
    At here{b, h, at.q, j + iota(1, BN)};
    Tile s = mma(q, K.load({member, hk, j, 0}, {1, 1, BN, D}).drop(0, 1).t());
    if constexpr (!isPlain)
      s = apply<variant.score>(s * scale, here);
    if constexpr (isMasked)
      s = keep(apply<variant.mask>(here), s);
    Tile p = st.update(s, o);
    Tile v = V.load({member, hk, j, 0}, {1, 1, BN, DV}).drop(0, 1);
    o = mma(cast<T>(apply<variant.weight>(p, here)), v, o);
  }
  O.store({member, h, i, 0}, cast<Out>(apply<variant.result>(st.finish(o), at)));
  Lse.store({b, h, i}, st.lse().drop(1));
}

/// What is chosen for a kernel. Wide heads leave shared memory for fewer keys; weights of 8 bits want the
/// exact maximum, as variants scale them to what the type can hold.
template <class T> struct Choices {
  Choices(Config &cfg, int d, int dv)
      : D(d), DV(dv), BM(cfg.pick("BM", {128, 64, 192, 256, 32, 16})),
        BN(D + DV > 256 ? cfg.pick("BN", {64, 96, 80, 32, 16})
                        : cfg.pick("BN", {128, 64, 96, 160, 176, 192, 32, 16})),
        maximum(sizeof(T) > 1 && cfg.pick("stale", {0, 1}) ? Maximum::stale : Maximum::exact) {}
  int D, DV, BM, BN;
  Maximum maximum;
};

template <auto variant, class F> constexpr auto variantKernel(const char *name, F body) {
  return kernel<variant.score, variant.mask, variant.reach, variant.visit, variant.sink, variant.weight,
                variant.result>(name, body);
}

/// Attention of a batch whose members are equally long. Views by strides make [B, H, S, d] of any order in
/// memory.
template <class T, auto variant = Variant{}, Align align = Align::start, class Out = T>
inline constexpr auto
    attention = variantKernel<variant>("attention", [](Tensor<const T, 4> Q, Tensor<const T, 4> K,
                                                       Tensor<const T, 4> V, Tensor<Out, 4> O,
                                                       Tensor<f32, 3> Lse, Scalar<f32> scale, Config &cfg) {
      const Choices<T> c(cfg, cfg.cover("D", Q, 3), cfg.cover("DV", V, 3));
      auto [b, h, i] = grid(Q, {1, 1, c.BM});
      attend<variant, align>(Q, K, V, O, Lse, scale, b, b, h, i, c.BM, c.BN, c.D, c.DV, c.maximum);
    });

/// Attention of sequences of any lengths that lie one after the other: Q is [1, H, all queries, d], K, V and
/// O likewise. Sequence b has the queries from queryStarts[b] up to queryStarts[b + 1], and keys in the same
/// way. Lse is [sequences, H, length of the longest].
template <class T, auto variant = Variant{}, Align align = Align::start, class Out = T>
inline constexpr auto packedAttention = variantKernel<variant>(
    "packed_attention",
    [](Tensor<const T, 4> Q, Tensor<const T, 4> K, Tensor<const T, 4> V, Tensor<Out, 4> O, Tensor<f32, 3> Lse,
       Tensor<const i32, 1> queryStarts, Tensor<const i32, 1> keyStarts, Scalar<f32> scale, Config &cfg) {
      const Choices<T> c(cfg, cfg.cover("D", Q, 3), cfg.cover("DV", V, 3));
      auto [b, h, i] = grid(Lse, {1, 1, c.BM});
      Tile q0 = cast<Index>(queryStarts.at(b)), q1 = cast<Index>(queryStarts.at(b + 1));
      Tile k0 = cast<Index>(keyStarts.at(b)), k1 = cast<Index>(keyStarts.at(b + 1));
      when(i < q1 - q0, [&] {
        attend<variant, align>(Q.slice(2, q0, q1), K.slice(2, k0, k1), V.slice(2, k0, k1), O.slice(2, q0, q1),
                               Lse.slice(2, 0, q1 - q0), scale, scalar<Index>(0), b, h, i, c.BM, c.BN, c.D,
                               c.DV, c.maximum);
      });
    });
} // namespace sample
