// SPDX-License-Identifier: Apache-2.0
/// \file Variants of attention: the lines that a user adds to the kernel of this sample.
#pragma once

#include "samples/07_attention/kernels.h"

namespace sample {

/// Keys up to the query's own position.
inline constexpr auto past = [](At a) { return a.k <= a.q; };
inline constexpr auto upToLast = [](At, Tile last, Tile keys) {
  return Keys{scalar<Index>(0), min(keys, last + 1)};
};
inline constexpr Variant causal{.mask = past, .reach = upToLast};

/// The query's own position and the W - 1 before it.
template <int W>
inline constexpr Variant window{.mask = [](At a) { return (a.k <= a.q) & (a.q - a.k < W); },
                                .reach =
                                    [](At first, Tile last, Tile keys) {
                                      return Keys{max(0, first.q - (W - 1)), min(keys, last + 1)};
                                    }};

/// Scores go to limits of -C and C.
template <int C>
inline constexpr Variant softcap{.score = [](Tile s, At) { return tanh(s); },
                                 .measure =
                                     [](Tile scale) {
                                       return Measure{scale * (1.0 / C), scalar<f32>(C)};
                                     },
                                 .mask = past,
                                 .reach = upToLast};

/// A learnt score per head, in the total of the weights alone.
inline constexpr Variant sinks{
    .mask = past, .reach = upToLast, .sink = [](At a, Tensor<const f32, 1> sink) { return sink.at(a.h); }};

/// A penalty that grows with the distance, with a slope per head.
inline constexpr Variant alibi{.bias =
                                   [](At first, At a, Tensor<const f32, 1> slope) {
                                     Tile m = slope.at(a.h);
                                     return Bias{m, cast<f32>(a.k - first.q), m * cast<f32>(first.q - a.q)};
                                   },
                               .mask = past,
                               .reach = upToLast};

/// A number of any kind added to each score: [B, H, Sq, Sk], strides of 0 repeat it.
template <class T>
inline constexpr Variant bias{.bias = [](At, At a, Tensor<const T, 4> add) {
  return Bias{scalar<f32>(1), cast<f32>(add.at(a.b, a.h, a.q, a.k))};
}};

/// Several documents in one sequence, one after the other; a query sees its own. `begins`, [B, S], has the
/// first position of each one's document. Blocks behind the begin of the last query's document and not behind
/// the first query are seen whole.
inline constexpr Variant documents{
    .mask =
        [](At a, Tensor<const i32, 2> begins) {
          return (a.k >= cast<Index>(begins.at(a.b, a.q))) & (a.k <= a.q);
        },
    .reach =
        [](At first, Tile last, Tile keys, Tensor<const i32, 2> begins) {
          auto begin = [&](Tile q) { return max(0, cast<Index>(begins.at(first.b, q))); };
          return KeysInPart{{begin(first.q), min(keys, last + 1)},
                            {begin(min(last, begins.dim(1) - 1)), first.q + 1}};
        }};

/// Several documents in one sequence in any order, by the document of each position, [B, S].
inline constexpr Variant documentIds{.mask =
                                         [](At a, Tensor<const i32, 2> document) {
                                           return (document.at(a.b, a.q) == document.at(a.b, a.k)) &
                                                  (a.k <= a.q);
                                         },
                                     .reach = upToLast};

/// The first keys of each batch are seen by all queries, the others causally. prefix: [B].
inline constexpr Variant prefixes{
    .mask = [](At a,
               Tensor<const i32, 1> prefix) { return (a.k <= a.q) | (a.k < cast<Index>(prefix.at(a.b))); },
    .reach =
        [](At first, Tile last, Tile keys, Tensor<const i32, 1> prefix) {
          return Keys{scalar<Index>(0), min(keys, max(last + 1, cast<Index>(prefix.at(first.b))))};
        }};

/// Any pattern of blocks of B queries times B keys: row r of `blocks` names the blocks of keys that queries
/// of block r see, `counts` says how many they are. Tiles BM and BN are divisors of B, which divides the
/// number of keys.
template <int B>
inline constexpr Variant blockMask{
    .reach =
        [](At first, Tile, Tile, Tensor<const i32, 1> counts) {
          return Keys{scalar<Index>(0), cast<Index>(counts.at(first.q / B)) * B};
        },
    .visit =
        [](At first, Tile j, Tensor<const i32, 2> blocks) {
          return cast<Index>(blocks.at(first.q / B, j / B)) * B + j % B;
        }};

/// Word 0 of Philox 4x32-10 for the counter (k, q, h, b) and a key of two words. k and q: index tiles whose
/// shapes repeat to that of the result, h and b: scalars.
inline Tile philox(const Tile &k, const Tile &q, const Tile &h, const Tile &b, Tile key0, Tile key1) {
  constexpr std::uint64_t m0 = 0xD2511F53, m1 = 0xCD9E8D57;
  Tile c0 = cast<u32>(k + q * 0), c1 = cast<u32>(q + k * 0), c2 = cast<u32>(h + (k + q) * 0),
       c3 = cast<u32>(b + (k + q) * 0);
  for (int round = 0; round < 10; ++round) { // ten times in the program
    Tile low = cast<u64>(c0) * m0, high = cast<u64>(c2) * m1;
    c0 = cast<u32>(high >> 32) ^ c1 ^ key0;
    c2 = cast<u32>(low >> 32) ^ c3 ^ key1;
    c1 = cast<u32>(high);
    c3 = cast<u32>(low);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c0;
}
/// Weights are dropped where the random word of their place is below `below` (of 2^32), and the others grow
/// by `factor`.
inline constexpr Variant dropout{
    .weight = [](Tile p, At a, Scalar<u32> seed0, Scalar<u32> seed1, Scalar<u32> below, Scalar<f32> factor) {
      return select(philox(a.k, a.q, a.h, a.b, seed0, seed1) < below, 0.0f, p * factor);
    }};

/// 8-bit operands with a factor per head of queries: q and k together, and v.
inline constexpr Variant scaledHeads{
    .score = [](Tile s, At a, Tensor<const f32, 1> qk) { return s * qk.at(a.h); },
    .result = [](Tile o, At a, Tensor<const f32, 1> v) { return o * v.at(a.h); }};

} // namespace sample
