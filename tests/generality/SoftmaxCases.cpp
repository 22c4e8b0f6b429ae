// SPDX-License-Identifier: Apache-2.0
/// \file Loops of two products with work of threads between them, whose iterations overlap: softmax by either maximum, with
/// masks that hold in a part of the iterations, and a gated product; for no, one, few and many trips.
#include "tests/generality/Generality.h"

using namespace generality;

namespace {

constexpr int D = 64;

enum class Mask : std::uint8_t { none, causal, window };

/// Softmax of scale * Q K^T + bias, times V. Queries are aligned with the last keys.
template <Mask mask, Maximum maximum, bool biased>
constexpr auto attend = kernel("attend", [](Tensor<const bf16, 2> Q, Tensor<const bf16, 2> K, Tensor<const bf16, 2> V,
                                            Tensor<const f32, 2> Bias, Tensor<bf16, 2> O, Tensor<f32, 1> Lse) {
  auto [i] = grid(Q, {BM});
  Tile q = Q.load({i, 0}, {BM, D}), o = zeros<f32>({BM, D});
  OnlineSoftmax st(BM, 0.125f, maximum);
  Tile shift = K.dim(0) - Q.dim(0), begin = scalar<Index>(0), end = K.dim(0);
  if (mask == Mask::window)
    begin = max(begin, (i + shift - 200) / BN * BN);
  if (mask != Mask::none)
    end = min(end, i + BM + shift);
  for (Tile j : range(begin, end, BN)) {
    Tile s = mma(q, K.load({j, 0}, {BN, D}).t());
    if (biased)
      s = s + Bias.load({i, j}, {BM, BN});
    Tile at = i + shift + iota(BM, 1), key = j + iota(1, BN);
    if (mask != Mask::none)
      s = keep(key <= at, s);
    if (mask == Mask::window)
      s = keep(key > at - 200, s);
    Tile p = st.update(s, o);
    o = mma(cast<bf16>(p), V.load({j, 0}, {BN, D}), o);
  }
  O.store({i, 0}, cast<bf16>(st.finish(o)));
  Lse.store({i}, st.lse().drop(1));
});

/// silu(X W1) W2, in chunks of the inner axis: the second product adds up.
constexpr auto gated = kernel("gated", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> W1, Tensor<const bf16, 2> W2,
                                          Tensor<bf16, 2> Y) {
  auto [m] = grid(X, {BM});
  Tile x = X.load({m, 0}, {BM, D}), y = zeros<f32>({BM, D});
  for (Tile k : range(0, W1.dim(1), BK)) {
    Tile h = mma(x, W1.load({0, k}, {D, BK}));
    y = mma(cast<bf16>(h * sigmoid(h)), W2.load({k, 0}, {BK, D}), y);
  }
  Y.store({m, 0}, cast<bf16>(y));
});

/// Biases that a softmax by an old maximum must get right: rows that see nothing at first or ever, scores that grow all the
/// time, jump, or are infinite or NaN.
float hardBias(std::int64_t row, std::int64_t key) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  switch (row % 9) {
  case 1:
    return key < 150 ? -inf : 0;
  case 2:
    return -inf;
  case 3:
    return float(key) * 3;
  case 4:
    return key % 128 == 127 ? 2000 : key == 0 ? 900 : -2000;
  case 5:
    return key == 140 ? inf : 0;
  case 6:
    return key == 133 ? std::numeric_limits<float>::quiet_NaN() : 0;
  case 7:
    return key < 140 ? 1e6f : 1e6f + float(key);
  case 8:
    return -float(key) * 50;
  default:
    return 0;
  }
}

struct Softmax {
  std::int64_t queries, keys;
  Mask mask;
  std::vector<bf16> q, k, v;
  std::vector<f32> bias;
  Guarded<bf16> Q, K, V, O;
  Guarded<f32> Bias, Lse;
  Softmax(Run &run, std::int64_t queries, std::int64_t keys, Mask mask, bool hard)
      : queries(queries), keys(keys), mask(mask), q(normal<bf16>(queries * D, 1)), k(normal<bf16>(keys * D, 2)),
        v(normal<bf16>(keys * D, 3)),
        bias(make<f32>(hard ? queries * keys : 1, [&](std::int64_t i) { return keys ? hardBias(i / keys, i % keys) * 8 : 0; })),
        Q(run, q), K(run, k), V(run, v), O(run, queries * D), Bias(run, bias), Lse(run, queries) {}

  bool sees(std::int64_t row, std::int64_t key) const {
    const std::int64_t at = row + keys - queries;
    return mask == Mask::none || (key <= at && (mask != Mask::window || key > at - 200));
  }
  double flops() const {
    double seen = 0;
    for (std::int64_t row = 0; row < queries && mask != Mask::none; ++row)
      seen += double(std::clamp<std::int64_t>(row + keys - queries + 1, 0, mask == Mask::window ? 200 : keys));
    return 4.0 * D * (mask == Mask::none ? double(queries) * double(keys) : seen);
  }
  template <class K_> void go(Run &run, const K_ &kernel) {
    const bool hard = bias.size() > 1;
    launch(run, kernel, flops(), Q.view(queries, D), K.view(keys, D), V.view(keys, D),
           hard ? Bias.view(queries, keys) : Bias.view(1, 1), O.view(queries, D), Lse.view(queries));
    std::int64_t row = -1;
    std::vector<double> p;
    double total = 0, top = 0, off = 0;
    auto weigh = [&](std::int64_t r) {
      row = r;
      p.assign(std::size_t(keys), 0);
      top = -std::numeric_limits<double>::infinity();
      off = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        double s = 0, magnitude = 0;
        for (std::int64_t d = 0; d < D; ++d) {
          const double x = double(q[std::size_t(r * D + d)]) * double(k[std::size_t(j * D + d)]);
          s += x;
          magnitude += std::abs(x);
        }
        const double b = hard ? double(bias[std::size_t(r * keys + j)]) : 0;
        // Sums in f32, and the score times log2(e) / 8 once.
        if (std::isfinite(b))
          off = std::max(off, (D * 0x1p-23 * magnitude + 0x1p-23 * std::abs(s + b)) / 8);
        p[std::size_t(j)] = sees(r, j) ? (s + b) / 8 : -std::numeric_limits<double>::infinity();
        top = std::isnan(p[std::size_t(j)]) || std::isnan(top) ? std::numeric_limits<double>::quiet_NaN()
                                                               : std::max(top, p[std::size_t(j)]);
      }
      total = 0;
      for (double &w : p)
        total += w = top == -std::numeric_limits<double>::infinity() ? 0 : std::exp(w - top);
    };
    auto same = [](double got, double want, double bound) {
      return std::isnan(want) ? std::isnan(got) : got == want || std::abs(got - want) <= bound;
    };
    const std::vector<bf16> got = O.get();
    const std::vector<f32> lse = Lse.get();
    run.check(O.guardsHold() && Lse.guardsHold(), "guard bytes were written");
    for (std::int64_t i = 0; i < queries; i += queries > 2000 ? 37 : 1) {
      run.beat();
      weigh(i);
      for (std::int64_t d = 0; d < D; ++d) {
        double value = 0, magnitude = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          const double x = p[std::size_t(j)] * double(v[std::size_t(j * D + d)]);
          value += x;
          magnitude += std::abs(x);
        }
        value = total == 0 ? 0 : value / total;
        magnitude = total == 0 ? 0 : magnitude / total;
        const double bound = (0x1p-8 + 4 * off + 0x1p-17) * magnitude + 0x1p-8 * std::abs(value) + 0x1p-100;
        const double g = double(got[std::size_t(i * D + d)]);
        run.check(same(g, value, bound), fmt::format("O[{}, {}]: {} / {} +- {}", i, d, g, value, bound));
      }
      const double want = total == 0 ? top : top + std::log(total), bound = 2 * off + 0x1p-20 * (std::abs(want) + 16);
      run.check(same(double(lse[std::size_t(i)]), want, bound), fmt::format("lse[{}]: {} / {}", i, lse[std::size_t(i)], want));
    }
  }
};

template <Mask mask, Maximum maximum> void softmaxCase(Run &run) {
  for (std::int64_t keys : {0, 1, 128, 130, 300, 640}) {
    if (run.isGpu() || reader())
      keys = keys == 640 ? 8192 : keys;
    const std::int64_t queries = run.isGpu() && keys > 1000 ? 8192 : 150;
    Softmax(run, queries, keys, mask, false).go(run, attend<mask, maximum, false>);
  }
}

} // namespace

SECTILE_CASE("softmax/exact") { softmaxCase<Mask::none, Maximum::exact>(run); }
SECTILE_CASE("softmax/stale") { softmaxCase<Mask::none, Maximum::stale>(run); }
SECTILE_CASE("softmax/causal-exact") { softmaxCase<Mask::causal, Maximum::exact>(run); }
SECTILE_CASE("softmax/causal-stale") { softmaxCase<Mask::causal, Maximum::stale>(run); }
SECTILE_CASE("softmax/window") { softmaxCase<Mask::window, Maximum::stale>(run); }
SECTILE_CASE("softmax/hard-exact") {
  Softmax(run, 150, 420, Mask::none, true).go(run, attend<Mask::none, Maximum::exact, true>);
}
SECTILE_CASE("softmax/hard-stale") {
  Softmax(run, 150, 420, Mask::none, true).go(run, attend<Mask::none, Maximum::stale, true>);
}

SECTILE_CASE("gated-product") {
  for (std::int64_t inner : {0, 40, 64, 130, 400}) {
    inner = run.isGpu() && inner == 400 ? 8192 : inner;
    const std::int64_t M = size(run, 150, 8192);
    const std::vector<bf16> x = normal<bf16>(M * D, 1), w1 = normal<bf16>(D * inner, 2, 0.125), w2 = normal<bf16>(inner * D, 3, 0.125);
    Guarded<bf16> X(run, x), W1(run, w1), W2(run, w2), Y(run, M * D);
    launch(run, gated, 4.0 * double(M) * D * double(inner), X.view(M, D), W1.view(D, inner), W2.view(inner, D), Y.view(M, D));
    std::int64_t row = -1;
    std::vector<double> h(std::size_t(inner), 0), off = h;
    compare(run, Y, [&](std::int64_t i) {
      if (i / D != row) {
        row = i / D;
        for (std::int64_t k = 0; k < inner; ++k) {
          Sum s;
          for (std::int64_t d = 0; d < D; ++d)
            s.add(double(x[std::size_t(row * D + d)]) * double(w1[std::size_t(d * inner + k)]));
          h[std::size_t(k)] = s.value / (1 + std::exp(-s.value));
          off[std::size_t(k)] = 1.2 * s.error() + (0x1p-8 + 0x1p-20) * std::abs(h[std::size_t(k)]);
        }
      }
      double value = 0, error = 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        const double w = double(w2[std::size_t(k * D + i % D)]);
        value += h[std::size_t(k)] * w;
        error += (off[std::size_t(k)] + double(inner) * 0x1p-23 * std::abs(h[std::size_t(k)])) * std::abs(w);
      }
      return Want(value, error);
    });
  }
}
