// SPDX-License-Identifier: Apache-2.0
/// \file Softmax over keys that come block by block, written in the language itself.
#pragma once

#include <sectile/Ops.h>

#include <limits>

namespace sectile {

/// The running state of one softmax per row:
///
///     OnlineSoftmax st(BM);
///     for (Tile j : range(0, keys, BN)) {
///       auto [p, a] = st.update(scores);             // scores [BM, BN] of f32
///       o = mma(cast<bf16>(p), v, o * a);
///     }
///     O.store(at, st.finish(o));
///
/// Scores that do not exist (tails, `keep`) take no part. A row without any score has weights and result 0
/// and a log-sum-exp of -inf.
struct OnlineSoftmax {
  Tile top;   ///< largest score so far, [rows, 1] of f32
  Tile total; ///< sum of exp(score - top), [rows, 1] of f32

  explicit OnlineSoftmax(int rows)
      : top(full<f32>({rows, 1}, -std::numeric_limits<float>::infinity())), total(zeros<f32>({rows, 1})) {}

  struct Step {
    Tile weights; ///< exp(score - top), in the scores' shape
    Tile rescale; ///< factor for everything accumulated before, [rows, 1]
  };
  /// Takes in one block of scores, [rows, any] of f32.
  Step update(const Tile &scores) {
    Tile next = max(top, max(scores, 1));
    // Without any score yet the top is -inf, and -inf - -inf would be NaN.
    Tile base = select(next == -std::numeric_limits<float>::infinity(), 0.0f, next);
    Tile weights = exp(scores - base);
    Tile rescale = exp(top - base);
    total = total * rescale + sum(weights, 1);
    top = next;
    return Step{weights, rescale};
  }
  /// The weighted sum [rows, any] of f32, divided by the total of the weights.
  Tile finish(const Tile &weighted) const { return select(total == 0.0f, 0.0f, weighted / total); }
  /// log of the sum of exp(score), [rows, 1].
  Tile lse() const { return top + log(total); }
};

} // namespace sectile
