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
/// The softmax is that of scores * scale, for `scale` above 0 and finite, whatever the size of the scores.
/// Scores that do not exist (tails, `keep`) have weight 0, like those of -inf. A row without any score has weights and result 0 and
/// a log-sum-exp of -inf; a row with a score of +inf or NaN is NaN.
struct OnlineSoftmax {
  Tile factor; ///< scale * log2(e), a scalar of f32
  Tile top;    ///< the score whose weight is 1, or 2^raised, [rows, 1] of f32; -inf before the first score
  Tile total;  ///< sum of exp2((score - top) * factor) in `parts` parts, [rows, parts] of f32
  Maximum maximum;
  float bound; ///< of a part of the sum over a block, for Maximum::stale
  /// log2 of the weight of the largest score. Weights of 8 bits are taken up, away from the smallest numbers of their type, where
  /// the maximum is exact; what is divided by the total stays as it is.
  float raised;
  Tile most;   ///< below it, the magnitude of a top times `factor` is one that rounding moves by little; a scalar of f32

  /// As many columns of sums as neighbouring threads hold of a product's row: each keeps its own.
  static constexpr int parts = 4;

  /// `weights`: the dtype to which weights will be cast, which bounds how large they may become with Maximum::stale.
  explicit OnlineSoftmax(int rows, TileAt scale = 1.0f, Maximum maximum = Maximum::exact, DType weights = DType::bf16)
      : factor(scalar<f32>(1.44269504f)), top(full<f32>({rows, 1}, -std::numeric_limits<float>::infinity())),
        total(zeros<f32>({rows, parts})), maximum(maximum), bound(boundOf(weights)),
        raised(maximum == Maximum::exact && (weights == DType::e4m3 || weights == DType::e5m2) ? 8.0f : 0.0f), most(scalar<f32>(largest)) {
    factor = factor * scale;
    most = most / factor;
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
  Tile lse() const {
    Tile all = log2(sum(total, 1));
    return top * (factor * 0.693147181f) + (raised == 0 ? all : all - raiseOf(top * factor)) * 0.693147181f;
  }

private:
  static constexpr float largest = 0x1p30f; ///< of exponents that are computed as one rounded product less another
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
  /// What scores of a row are multiplied with before a base is subtracted, each [rows, 1].
  struct Exponent {
    Tile factor, base;
  };
  /// Of rows whose top is `top`. Where the product of the two is so large that rounding it moves the exponent by more than an f32
  /// can hold, scores that are not the top itself are so far below it that their weight is 0 with a factor of 1 too, and their
  /// difference to the top is exact. Without any score yet the top is -inf, and -inf - -inf would be NaN.
  Exponent exponentOf(const Tile &top) const {
    Tile scaled = top * factor, small = abs(top) < most, none = top == -std::numeric_limits<float>::infinity();
    if (raised != 0)
      scaled = scaled - raiseOf(scaled);
    return {select(small, factor, 1.0f), select(none, 0.0f, select(small, scaled, top))};
  }
  /// Where rounding `scaled` less this moves the difference by little.
  Tile raiseOf(const Tile &scaled) const { return select(abs(scaled) < 0x1p20f, scalar<f32>(raised), 0.0f); }
  static Tile weightsOf(const Tile &scores, const Exponent &e) { return exp2(fma(scores, e.factor, -e.base)); }
  /// exp2 of the difference of two tops: before, and now. 0 before the first score.
  static Tile rescaleOf(const Tile &before, const Exponent &old, const Exponent &now) {
    return select(before == -std::numeric_limits<float>::infinity(), 0.0f, exp2(old.base - now.base));
  }
  static Tile partsOf(const Tile &weights) {
    const int rows = weights.length(0), columns = weights.length(1);
    if (columns % (2 * parts))
      return select(iota(1, parts) == 0, sum(weights, 1), 0.0f);
    // Threads hold pairs of neighbours, every fourth pair each.
    return reshape(sum(sum(reshape(weights, {rows, columns / (2 * parts), parts, 2}), 3), 1), {rows, parts});
  }

  Tile exactly(const Tile &scores, Tile &rescale) {
    Tile s = fill(scores, -std::numeric_limits<float>::infinity());
    Tile next = max(top, max(s, 1));
    const Exponent old = exponentOf(top), now = exponentOf(next);
    Tile weights = weightsOf(s, now);
    rescale = rescaleOf(top, old, now);
    total = total * rescale + partsOf(weights);
    top = next;
    return weights;
  }

  /// `rescaleAll(factors)` is traced where the maximum is found anew: where a weight becomes too large, and where the top is none, or too
  /// large for one factor for all rows. Rows that need it not come out as they went in.
  template <class F> Tile unlessLarger(const Tile &scores, F rescaleAll) {
    Tile s = fill(scores, -std::numeric_limits<float>::infinity());
    const Exponent usual{factor, top * factor};
    Tile weights = weightsOf(s, usual), part = partsOf(weights);
    Tile larger = ~(part <= bound) | ~(abs(top) < most);
    when(any(any(larger, 1), 0).drop(0, 1), [&] {
      Tile anew = any(larger, 1);
      Tile next = select(anew, max(top, max(s, 1)), top);
      const Exponent exact = exponentOf(next), now{select(anew, exact.factor, usual.factor), select(anew, exact.base, usual.base)};
      Tile rescale = select(anew, rescaleOf(top, exponentOf(top), exact), 1.0f);
      weights = weightsOf(s, now);
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
