// SPDX-License-Identifier: Apache-2.0
/// \file Softmax over keys that come block by block, written in the language itself.
#pragma once

#include <sectile/Control.h>
#include <sectile/Ops.h>

#include <limits>

namespace sectile {

/// Which number is subtracted from the scores of a row before exp. Softmax does not change with it.
enum class Maximum : std::uint8_t {
  exact, ///< the largest score so far, found anew in each block
  /// That of an earlier block, as long as no weight becomes too large for it. Then a block needs no maximum, and what was
  /// accumulated is not rescaled; a warp that meets a larger score finds the maximum and rescales. As exact as the other.
  stale
};

/// The running state of one softmax per row:
///
///     OnlineSoftmax st(BM, scale);
///     for (Tile j : range(0, keys, BN)) {
///       Tile p = st.update(scores, o);                // scores [BM, BN] of f32
///       o = mma(cast<bf16>(p), v, o);
///     }
///     O.store(at, st.finish(o));
///
/// The softmax is that of scores * scale. `scale` is above 0 and finite, and so is scale * log2(e) times each score that is.
/// Scores that do not exist (tails, `keep`) have weight 0, like those of -inf. A row without any score has weights and result 0 and
/// a log-sum-exp of -inf; a row with a score of +inf or NaN is NaN.
struct OnlineSoftmax {
  Tile factor; ///< scale * log2(e), a scalar of f32
  Tile top;    ///< what is subtracted from score * factor, [rows, 1] of f32; -inf before the first score
  Tile total;  ///< sum of exp2(score * factor - top) in `parts` parts, [rows, parts] of f32
  Maximum maximum;
  float bound; ///< of a part of the sum over a block, for Maximum::stale

  /// As many columns of sums as neighbouring threads hold of a product's row: each keeps its own.
  static constexpr int parts = 4;

  /// `weights`: the dtype to which weights will be cast, which bounds how large they may become with Maximum::stale.
  explicit OnlineSoftmax(int rows, TileAt scale = 1.0f, Maximum maximum = Maximum::exact, DType weights = DType::bf16)
      : factor(scalar<f32>(1.44269504f)), top(full<f32>({rows, 1}, -std::numeric_limits<float>::infinity())),
        total(zeros<f32>({rows, parts})), maximum(maximum), bound(boundOf(weights)) {
    factor = factor * scale;
  }

  struct Step {
    Tile weights; ///< exp(score * scale - what is subtracted), in the scores' shape; every lane exists
    Tile rescale; ///< factor for everything accumulated before, [rows, 1]
  };
  /// Takes in one block of scores, [rows, any] of f32. The caller multiplies what it has accumulated.
  Step update(const Tile &scores) {
    Tile rescale = full<f32>({top.length(0), 1}, 1.0f);
    Tile weights = maximum == Maximum::exact ? exactly(scores, rescale) : unlessLarger(scores, [&](const Tile &a) { rescale = a; });
    return Step{weights, rescale};
  }
  /// The same, with the sums that weights before were used for, each [rows, any] of f32, rescaled. Gives the weights.
  template <class... T> Tile update(const Tile &scores, Tile &sum, T &...sums) {
    auto rescaleAll = [&](const Tile &a) {
      sum = sum * a;
      ((sums = sums * a), ...);
    };
    if (maximum == Maximum::stale)
      return unlessLarger(scores, rescaleAll);
    Tile rescale = full<f32>({top.length(0), 1}, 1.0f);
    Tile weights = exactly(scores, rescale);
    rescaleAll(rescale);
    return weights;
  }
  /// The weighted sum [rows, any] of f32, divided by the total of the weights.
  Tile finish(const Tile &weighted) const {
    Tile all = sum(total, 1), none = all == 0.0f;
    return select(none, 0.0f, weighted * (1.0f / select(none, 1.0f, all)));
  }
  /// log of the sum of exp(score * scale), [rows, 1].
  Tile lse() const { return (top + log2(sum(total, 1))) * 0.693147181f; }

private:
  static float boundOf(DType weights) {
    switch (weights) {
    case DType::e4m3:
      return 256;
    case DType::f16:
    case DType::e5m2:
      return 0x1p15f;
    default: // sums of weights times values stay far below the largest f32
      return 0x1p24f;
    }
  }
  /// Without any score yet the top is -inf, and -inf - -inf would be NaN.
  static Tile baseOf(const Tile &top) { return select(top == -std::numeric_limits<float>::infinity(), 0.0f, top); }
  Tile weightsOf(const Tile &scores, const Tile &base) const { return exp2(fma(scores, factor, -base)); }
  static Tile partsOf(const Tile &weights) {
    const int rows = weights.length(0), columns = weights.length(1);
    if (columns % (2 * parts))
      return select(iota(1, parts) == 0, sum(weights, 1), 0.0f);
    // Threads hold pairs of neighbours, every fourth pair each.
    return reshape(sum(sum(reshape(weights, {rows, columns / (2 * parts), parts, 2}), 3), 1), {rows, parts});
  }

  Tile exactly(const Tile &scores, Tile &rescale) {
    Tile s = fill(scores, -std::numeric_limits<float>::infinity());
    Tile next = max(top, max(s, 1) * factor), base = baseOf(next);
    Tile weights = weightsOf(s, base);
    rescale = exp2(top - base);
    total = total * rescale + partsOf(weights);
    top = next;
    return weights;
  }

  /// `rescaleAll(factors)` is traced where the maximum is found anew. Rows that need it not come out as they went in.
  template <class F> Tile unlessLarger(const Tile &scores, F rescaleAll) {
    Tile s = fill(scores, -std::numeric_limits<float>::infinity());
    Tile weights = weightsOf(s, baseOf(top)), part = partsOf(weights);
    Tile larger = ~(part <= bound) | (top == -std::numeric_limits<float>::infinity());
    when(any(any(larger, 1), 0).drop(0, 1), [&] {
      Tile anew = any(larger, 1);
      Tile next = select(anew, max(top, max(s, 1) * factor), top), base = baseOf(next);
      Tile rescale = select(anew, exp2(top - base), 1.0f);
      weights = weightsOf(s, base);
      part = partsOf(weights);
      total = total * rescale;
      rescaleAll(rescale);
      top = next;
    });
    total = total + part;
    return weights;
  }
};

} // namespace sectile
