// SPDX-License-Identifier: Apache-2.0
/// \file Attention: one forward kernel, to which a variant adds its own lines.
#pragma once

#include <sectile/sectile.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <source_location>
#include <string>
#include <type_traits>

namespace sample {
using namespace sectile;

/// Keys that a tile of queries looks at: lo <= k < hi.
struct Keys {
  Tile lo, hi;
};

/// The same, and those of them that all queries of the tile see: blocks within these need no mask.
struct KeysInPart : Keys {
  Keys whole;
};

/// A score is what `score` makes of `in` times a product, times `out`.
struct Measure {
  Tile in, out;
};

/// factor * x + rest is added to scores; `rest`, [BM, 1], is the same for all keys, so that weights do not
/// depend on it.
struct Bias {
  Tile factor, x;
  Tile rest = scalar<f32>(0);
};

inline constexpr auto sameScore = [](Tile s, At) { return s; };
inline constexpr auto asScaled = [](Tile scale) { return Measure{scale, scalar<f32>(1)}; };
inline constexpr auto noBias = [](At, At) {};
inline constexpr auto noMask = [](At) {};
inline constexpr auto everyKey = [](At, Tile, Tile keys) { return Keys{scalar<Index>(0), keys}; };
inline constexpr auto inOrder = [](At, Tile j) { return j; };
inline constexpr auto noSink = [](At) {};
inline constexpr auto sameWeight = [](Tile p, At) { return p; };
inline constexpr auto sameResult = [](Tile o, At) { return o; };

/// What a variant of attention does; lambdas that are left out change nothing. What a lambda takes beyond the
/// arguments named here becomes parameters of the kernel, behind its own, in the order of the members.
template <class Score = decltype(sameScore), class Measured = decltype(asScaled),
          class Added = decltype(noBias), class Mask = decltype(noMask), class Reach = decltype(everyKey),
          class Visit = decltype(inOrder), class Sink = decltype(noSink), class Weight = decltype(sameWeight),
          class Result = decltype(sameResult)>
struct Variant {
  Score score{};      ///< (s, at): makes of scores [BM, BN] of f32 others
  Measured measure{}; ///< (scale): the Measure of what `score` takes and gives
  Added bias{};  ///< (first, at): the Bias that they get, one multiply-add each; first.q is the tile's first
                 ///< query
  Mask mask{};   ///< (at): truth values [BM, BN], whether a query sees a key
  Reach reach{}; ///< (first, last, keys): the Keys that queries from first.q to last can see at all, or
                 ///< KeysInPart
  Visit visit{}; ///< (first, j): where the keys are that are looked at in place of those from j on
  Sink sink{};   ///< (at): a scalar of f32, the score of one more key, whose value is 0
  Weight weight{}; ///< (p, at): weights [BM, BN] of f32 for the product with V; their total stays as it is
  Result result{}; ///< (o, at): results [BM, DV] of f32 before they are rounded
};
/// Whether a member of a variant was left out.
template <class A, class B> constexpr bool isDefault(const A &, const B &) { return std::is_same_v<A, B>; }

/// Positions of queries among keys: query 0 is at key 0, or the last query at the last key.
enum class Align : std::uint8_t { start, end };

/// What one tile of queries gives: results [rows, DV] of f32, log-sum-exps [rows, 1].
struct Attended {
  Tile o, lse;
};

/// softmax(score(scale q K^T)) V for the rows of q, [rows, D], with the keys of head hk. `at.q`, and `at.h`
/// if rows have heads of their own: [rows, 1]; `start`: of the first row; `last`: the last position of any
/// row. `member`: the batch of K and V. `scale` is above 0.
template <auto variant, class T>
Attended attendRows(Tile q, At start, At at, Tile last, Tensor<const T, 4> K, Tensor<const T, 4> V,
                    Tile scale, Tile member, Tile hk, int BN, int D, int DV, Maximum maximum) {
  constexpr bool isPlain = isDefault(variant.score, sameScore), isMasked = !isDefault(variant.mask, noMask),
                 isBiased = !isDefault(variant.bias, noBias);
  const int rows = q.length(0);
  Tile o = zeros<f32>({rows, DV}), rest = zeros<f32>({rows, 1});
  const Measure measure = isPlain ? Measure{scalar<f32>(1), scale} : apply<variant.measure>(scale);
  const Tile one = 1.0f / measure.out; // what a score of 1 is among those of the loop
  if constexpr (isBiased)
    rest = rest + apply<variant.bias>(start, at).rest;
  OnlineSoftmax st(rows, measure.out, maximum, dtypeOf<T>);
  if constexpr (!isDefault(variant.sink, noSink))
    st.update(zeros<f32>({rows, 1}) + (apply<variant.sink>(at) - rest) * one);
  const auto keys = apply<variant.reach>(start, last, K.dim(2));
  const Tile lo = keys.lo, hi = keys.hi;
  // From the last of bounded keys on: masks at their end are met where nothing is under way yet, and scores
  // that grow to the end have their largest in the first block.
  constexpr bool isBounded = !isDefault(variant.reach, everyKey);
  const Tile begin = isBounded ? lo + floorDiv(hi - lo - 1, BN) * BN : lo, end = isBounded ? lo - 1 : hi;
  for (Tile trip : range(begin, end, isBounded ? -BN : BN)) {
    Tile j = apply<variant.visit>(start, trip);
    At here{at.b, at.h, at.q, j + iota(1, BN)};
    Tile s = mma(q, K.load({member, hk, j, 0}, {1, 1, BN, D}).drop(0, 1).t());
    if constexpr (!isPlain)
      s = apply<variant.score>(s * measure.in, here);
    if constexpr (isBiased) {
      const Bias bias = apply<variant.bias>(start, here);
      s = fma(bias.factor * one, bias.x, s);
    }
    if constexpr (isMasked) {
      Tile sees = apply<variant.mask>(here);
      if constexpr (requires { keys.whole; })
        sees = sees | ((j >= keys.whole.lo) & (j + BN <= keys.whole.hi));
      s = keep(sees, s);
    }
    Tile p = st.update(s, o);
    Tile v =
        V.load({member, hk, j, 0}, {1, 1, BN, DV}).fill(0).drop(0, 1); // o has all lanes, also without keys
    o = mma(cast<T>(apply<variant.weight>(p, here)), v, o);
  }
  return {apply<variant.result>(st.finish(o), at), isBiased ? st.lse() + rest : st.lse()};
}

/// O = softmax(score(scale Q K^T)) V for the BM queries from i on of batch b and head h, and the logarithm of
/// the sum of the exponentials. Q [.., Sq, d], K [.., Sk, d], V [.., Sk, dv], O [.., Sq, dv], Lse [.., Sq]; d
/// is at most D and dv at most DV. Each head of K and V serves H / HK heads of Q. `member`: b, as far as Q,
/// K, V and O are concerned.
template <auto variant, Align align, class T, class Out>
void attend(Tensor<const T, 4> Q, Tensor<const T, 4> K, Tensor<const T, 4> V, Tensor<Out, 4> O,
            Tensor<f32, 3> Lse, Tile scale, Tile member, Tile b, Tile h, Tile i, int BM, int BN, int D,
            int DV, Maximum maximum) {
  Tile hk = h / (Q.dim(1) / K.dim(1)), first = i;
  if constexpr (align == Align::end)
    first = i + (K.dim(2) - Q.dim(2));
  At start{b, h, first, scalar<Index>(0)}, at{b, h, first + iota(BM, 1), start.k};
  Tile q = Q.load({member, h, i, 0}, {1, 1, BM, D}).drop(0, 1);
  auto [o, lse] =
      attendRows<variant>(q, start, at, first + (BM - 1), K, V, scale, member, hk, BN, D, DV, maximum);
  O.store({member, h, i, 0}, cast<Out>(o));
  Lse.store({b, h, i}, lse.drop(1));
}

/// What is chosen for a kernel. Wide heads leave shared memory for fewer keys; weights of 8 bits want the
/// exact maximum, by which they have all of what the type can hold.
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
  return kernel<variant.score, variant.measure, variant.bias, variant.mask, variant.reach, variant.visit,
                variant.sink, variant.weight, variant.result>(name, body);
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

/// Attention whose heads of a group lie beside each other in the rows of one tile, so that keys and values
/// are read once for all of them, however few the positions are. Views [B, HK, G, S, d] of Q and O, and [B,
/// HK, G, Sq] of Lse, name the heads of a group by an axis of their own. Of the BM rows of a tile, `heads`
/// times so many are a position's: any number is right, the power of two from G on up is fast.
template <class T, auto variant = Variant{}, Align align = Align::start, class Out = T>
inline constexpr auto groupedAttention = variantKernel<variant>(
    "grouped_attention", [](Tensor<const T, 5> Q, Tensor<const T, 4> K, Tensor<const T, 4> V,
                            Tensor<Out, 5> O, Tensor<f32, 4> Lse, Scalar<f32> scale, Config &cfg) {
      const Choices<T> c(cfg, cfg.cover("D", Q, 4), cfg.cover("DV", V, 3));
      const int heads = cfg.pick("heads", {4, 8, 2, 1, 16, 32}), positions = std::max(c.BM / heads, 1),
                rows = heads * positions;
      auto [b, hk, g, i] = grid(Q, {1, 1, heads, positions});
      Tile first = i, head = hk * Q.dim(2) + g;
      if constexpr (align == Align::end)
        first = i + (K.dim(2) - Q.dim(3));
      At start{b, head, first, scalar<Index>(0)},
          at{b, head + iota(rows, 1) / positions, first + iota(rows, 1) % positions, start.k};
      Tile q = reshape(Q.load({b, hk, g, i, 0}, {1, 1, heads, positions, c.D}).fill(0), {rows, c.D});
      auto [o, lse] = attendRows<variant>(q, start, at, first + (positions - 1), K, V, scale, b, hk, c.BN,
                                          c.D, c.DV, c.maximum);
      O.store({b, hk, g, i, 0}, reshape(cast<Out>(o), {heads, positions, c.DV}));
      Lse.store({b, hk, g, i}, reshape(lse, {heads, positions}));
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

/// Numbers for a launch on tensors of these dims, [B, H, S, d]: tiles as wide as the heads, where the bucket
/// of `cfg.cover` would be wider. A UserError [attention_shape] says at the caller's line which dims do not
/// fit each other.
inline Config attentionConfig(const std::array<std::int64_t, 4> &q, const std::array<std::int64_t, 4> &k,
                              const std::array<std::int64_t, 4> &v,
                              std::source_location where = std::source_location::current()) {
  auto refuse = [&](const std::string &message, const std::string &wayOut) {
    throw UserError({where, "attention", "attentionConfig", message, "attention_shape", wayOut});
  };
  auto differ = [&](const char *what, std::int64_t a, std::int64_t b, const char *wayOut) {
    if (a != b)
      refuse(std::string(what) + " " + std::to_string(a) + " and " + std::to_string(b), wayOut);
  };
  differ("batches of Q and K are", q[0], k[0],
         "one batch of keys for each of queries; strides of 0 repeat one");
  differ("batches of K and V are", k[0], v[0], "a value for each key");
  differ("heads of K and V are", k[1], v[1], "a value for each key");
  differ("lengths of K and V are", k[2], v[2], "a value for each key");
  differ("d of Q and K are", q[3], k[3], "d of V alone may be another");
  if (k[1] < 1 || q[1] % k[1] != 0)
    refuse(std::to_string(q[1]) + " heads of Q share " + std::to_string(k[1]) + " heads of K",
           "a multiple of K's heads");
  Config config;
  auto fit = [&](const char *name, std::int64_t length) {
    const std::int64_t rounded = (length + 15) / 16 * 16;
    if (rounded > 0 && rounded < detail::coverBucket(length))
      config.set(name, static_cast<int>(rounded));
  };
  fit("D", q[3]);
  fit("DV", v[3]);
  return config;
}
} // namespace sample
