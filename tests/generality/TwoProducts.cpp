// SPDX-License-Identifier: Apache-2.0
/// \file A user's own kernels of two products and more in one loop, the second of what threads make of the
/// first: linear attention with its state, a multilayer perceptron, attention to chosen blocks of keys,
/// retention, a product of three matrices, cross-attention whose output is gated.
#include "samples/07_attention/reference.h"
#include "tests/generality/Generality.h"

using namespace generality;

namespace {

/// O[i] = sum over j <= i of (q_i k_j) v_j, in chunks: what lies in earlier chunks comes from their state K^T
/// V.
template <int C, int D>
constexpr auto linearAttention = kernel("linear_attention", [](Tensor<const bf16, 3> Q,
                                                               Tensor<const bf16, 3> K,
                                                               Tensor<const bf16, 3> V, Tensor<bf16, 3> O) {
  auto [h] = grid(Q, {1});
  Tile state = zeros<f32>({D, D});
  for (Tile i : range(0, Q.dim(1), C)) {
    Tile q = Q.load({h, i, 0}, {1, C, D}).drop(0), k = K.load({h, i, 0}, {1, C, D}).drop(0);
    Tile v = V.load({h, i, 0}, {1, C, D}).drop(0);
    Tile s = mma(q, k.t());
    s = select(iota(1, C) <= iota(C, 1), s, 0.0f);
    Tile o = mma(q, cast<bf16>(state));
    O.store({h, i, 0}, cast<bf16>(mma(cast<bf16>(s), v, o)));
    state = mma(k.t(), v, state);
  }
});

/// gelu(X W1 + b1) W2 + b2, in steps of the hidden axis.
template <int D>
constexpr auto perceptron = kernel("perceptron", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> W1,
                                                    Tensor<const f32, 1> B1, Tensor<const bf16, 2> W2,
                                                    Tensor<const f32, 1> B2, Tensor<bf16, 2> Y) {
  auto [m] = grid(X, {BM});
  Tile x = X.load({m, 0}, {BM, D}), y = zeros<f32>({BM, D});
  for (Tile k : range(0, W1.dim(1), BK)) {
    Tile h = mma(x, W1.load({0, k}, {D, BK})) + reshape(B1.load({k}, {BK}), {1, BK});
    Tile g = h * sigmoid((h + h * h * h * 0.044715f) * 1.5957691216f);
    y = mma(cast<bf16>(g), W2.load({k, 0}, {BK, D}), y);
  }
  Y.store({m, 0}, cast<bf16>(y + reshape(B2.load({0}, {D}), {1, D})));
});

/// Softmax over the blocks of keys that a table names for each block of queries.
template <Maximum maximum>
constexpr auto chosenBlocks = kernel("chosen_blocks", [](Tensor<const bf16, 3> Q, Tensor<const bf16, 3> K,
                                                         Tensor<const bf16, 3> V, Tensor<const i32, 2> Table,
                                                         Tensor<const i32, 1> Counts, Tensor<bf16, 3> O,
                                                         Scalar<f32> scale) {
  constexpr int D = 128, Block = 64;
  auto [h, i] = grid(Q, {1, BM});
  Tile q = Q.load({h, i, 0}, {1, BM, D}).drop(0), o = zeros<f32>({BM, D});
  OnlineSoftmax st(BM, scale, maximum);
  for (Tile t : range(0, cast<Index>(Counts.at(i / BM)))) {
    Tile j = cast<Index>(Table.at(i / BM, t)) * Block;
    Tile p = st.update(mma(q, K.load({h, j, 0}, {1, Block, D}).drop(0).t()), o);
    o = mma(cast<bf16>(p), V.load({h, j, 0}, {1, Block, D}).drop(0), o);
  }
  O.store({h, i, 0}, cast<bf16>(st.finish(o)));
});

/// O[i] = sum over j <= i of decay_h^(i - j) (q_i k_j) v_j.
template <int D>
constexpr auto retention = kernel("retention", [](Tensor<const bf16, 3> Q, Tensor<const bf16, 3> K,
                                                  Tensor<const bf16, 3> V, Tensor<const f32, 1> LogDecay,
                                                  Tensor<bf16, 3> O) {
  auto [h, i] = grid(Q, {1, BM});
  Tile q = Q.load({h, i, 0}, {1, BM, D}).drop(0), o = zeros<f32>({BM, D}), decay = LogDecay.at(h);
  for (Tile j : range(0, min(i + BM, K.dim(1)), BK)) {
    Tile s = mma(q, K.load({h, j, 0}, {1, BK, D}).drop(0).t());
    Tile distance = (i + iota(BM, 1)) - (j + iota(1, BK));
    s = select(distance >= 0, s * exp2(cast<f32>(distance) * decay), 0.0f);
    o = mma(cast<bf16>(s), V.load({h, j, 0}, {1, BK, D}).drop(0), o);
  }
  O.store({h, i, 0}, cast<bf16>(o));
});

/// A B C, where a tile of A B is never written.
constexpr auto threeMatrices = kernel("three_matrices", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B,
                                                           Tensor<const bf16, 2> C, Tensor<bf16, 2> Y) {
  constexpr int Middle = 64;
  auto [m, n] = grid(Y, {BM, BN});
  Tile y = zeros<f32>({BM, BN});
  for (Tile l : range(0, B.dim(1), Middle)) {
    Tile ab = zeros<f32>({BM, Middle});
    for (Tile k : range(0, A.dim(1), BK))
      ab = mma(A.load({m, k}, {BM, BK}), B.load({k, l}, {BK, Middle}), ab);
    y = mma(cast<bf16>(ab), C.load({l, n}, {Middle, BN}), y);
  }
  Y.store({m, n}, cast<bf16>(y));
});

/// sigmoid(X G) * softmax(scale Q K^T) V: queries of one sequence, keys of another.
constexpr auto gatedCross =
    kernel("gated_cross",
           [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> G, Tensor<const bf16, 2> Q,
              Tensor<const bf16, 2> K, Tensor<const bf16, 2> V, Tensor<bf16, 2> O, Scalar<f32> scale) {
             constexpr int D = 64;
             auto [i] = grid(Q, {BM});
             Tile gate = zeros<f32>({BM, D});
             for (Tile k : range(0, X.dim(1), BK))
               gate = mma(X.load({i, k}, {BM, BK}), G.load({k, 0}, {BK, D}), gate);
             Tile q = Q.load({i, 0}, {BM, D}), o = zeros<f32>({BM, D});
             OnlineSoftmax st(BM, scale);
             for (Tile j : range(0, K.dim(0), BN)) {
               Tile p = st.update(mma(q, K.load({j, 0}, {BN, D}).t()), o);
               o = mma(cast<bf16>(p), V.load({j, 0}, {BN, D}), o);
             }
             O.store({i, 0}, cast<bf16>(sigmoid(gate) * st.finish(o)));
           });

double at(const std::vector<bf16> &v, std::int64_t i) { return double(v[static_cast<std::size_t>(i)]); }

/// Q, K, V and O of one length, [heads, length, d].
struct Heads {
  std::int64_t heads, length, d;
  std::vector<bf16> q, k, v;
  Guarded<bf16> Q, K, V, O;
  Heads(Run &run, std::int64_t heads, std::int64_t length, std::int64_t d, double size = 1)
      : heads(heads), length(length), d(d), q(normal<bf16>(heads * length * d, 1)),
        k(normal<bf16>(heads * length * d, 2, size)), v(normal<bf16>(heads * length * d, 3)), Q(run, q),
        K(run, k), V(run, v), O(run, heads * length * d) {}
  Tensor<bf16, 3> view(Guarded<bf16> &memory) { return memory.view(heads, length, d); }
  double flops(double seen) const { return 4.0 * double(heads * d) * seen; } ///< `seen`: pairs of a head
  /// Row i of head h times row j of K.
  Sum score(std::int64_t h, std::int64_t i, std::int64_t j) const {
    Sum s;
    for (std::int64_t x = 0; x < d; ++x)
      s.add(at(q, (h * length + i) * d + x) * at(k, (h * length + j) * d + x));
    return s;
  }
};

/// The state of linear attention at the begin of a chunk, K^T V over the keys before it, for chunks that only
/// grow.
struct State {
  std::int64_t head = -1, keys = 0;
  std::vector<double> sum, magnitude; ///< [d, d]
  void advance(const Heads &p, std::int64_t h, std::int64_t to) {
    if (h != head) {
      head = h, keys = 0;
      sum.assign(std::size_t(p.d * p.d), 0);
      magnitude = sum;
    }
    for (; keys < to; ++keys)
      for (std::int64_t d = 0; d < p.d; ++d)
        for (std::int64_t x = 0; x < p.d; ++x) {
          const double term =
              at(p.k, (h * p.length + keys) * p.d + d) * at(p.v, (h * p.length + keys) * p.d + x);
          sum[std::size_t(d * p.d + x)] += term;
          magnitude[std::size_t(d * p.d + x)] += std::abs(term);
        }
  }
};

template <int C, int D> void linearCase(Run &run) {
  for (std::int64_t length : {std::int64_t(1), std::int64_t(C), size(run, 2 * C + 9, 4096)}) {
    Heads p(run, size(run, 2, 132), length, D, 0.125);
    launch(run, linearAttention<C, D>, 2.0 * double(p.heads * length) * (2 * C * D + 2 * D * D), p.view(p.Q),
           p.view(p.K), p.view(p.V), p.view(p.O));
    State state;
    compare(run, p.O, [&](std::int64_t e) {
      const std::int64_t h = e / D / length, i = e / D % length, x = e % D, begin = i / C * C;
      state.advance(p, h, begin);
      double value = 0, error = 0;
      for (std::int64_t d = 0; d < D; ++d) { // the state is rounded, and its sums are in f32
        const double q = at(p.q, (h * length + i) * D + d), s = state.sum[std::size_t(d * D + x)];
        value += q * s;
        error += std::abs(q) * ((0x1p-8 + D * 0x1p-23) * std::abs(s) +
                                double(begin) * 0x1p-23 * state.magnitude[std::size_t(d * D + x)]);
      }
      for (std::int64_t j = begin; j <= i; ++j) {
        const Sum s = p.score(h, i, j);
        const double v = at(p.v, (h * length + j) * D + x);
        value += s.value * v;
        error += (s.error() + (0x1p-8 + C * 0x1p-23) * std::abs(s.value)) * std::abs(v);
      }
      return Want(value, error);
    });
  }
}

template <int D> void perceptronCase(Run &run) {
  for (std::int64_t inner : {std::int64_t(0), std::int64_t(40), std::int64_t(64), size(run, 150, 4096)}) {
    const std::int64_t M = size(run, 150, 16896);
    const std::vector<bf16> x = normal<bf16>(M * D, 1), w1 = normal<bf16>(D * inner, 2, 0.125),
                            w2 = normal<bf16>(inner * D, 3, 0.125);
    const std::vector<f32> b1 = normal<f32>(inner, 4), b2 = normal<f32>(D, 5);
    Guarded<bf16> X(run, x), W1(run, w1), W2(run, w2), Y(run, M * D);
    Guarded<f32> B1(run, b1), B2(run, b2);
    launch(run, perceptron<D>, 4.0 * double(M) * D * double(inner), X.view(M, D), W1.view(D, inner),
           B1.view(inner), W2.view(inner, D), B2.view(D), Y.view(M, D));
    std::int64_t row = -1;
    std::vector<double> g(std::size_t(inner), 0), off = g;
    compare(run, Y, [&](std::int64_t i) {
      if (i / D != row) {
        row = i / D;
        for (std::int64_t k = 0; k < inner; ++k) {
          Sum s;
          for (std::int64_t d = 0; d < D; ++d)
            s.add(at(x, row * D + d) * at(w1, d * inner + k));
          const double h = s.value + double(b1[std::size_t(k)]);
          g[std::size_t(k)] = h / (1 + std::exp(-1.5957691216 * (h + 0.044715 * h * h * h)));
          // The slope of gelu is below 1.13.
          off[std::size_t(k)] =
              1.2 * s.error() + 0x1p-8 * std::abs(g[std::size_t(k)]) + 0x1p-19 * std::abs(h);
        }
      }
      double value = double(b2[std::size_t(i % D)]), error = 0x1p-22 * std::abs(value);
      for (std::int64_t k = 0; k < inner; ++k) {
        const double w = at(w2, k * D + i % D);
        value += g[std::size_t(k)] * w;
        error += (off[std::size_t(k)] + double(inner) * 0x1p-23 * std::abs(g[std::size_t(k)])) * std::abs(w);
      }
      return Want(value, error);
    });
  }
}

/// Softmax of the keys that `sees`, times V, for about 200 rows; `factor` of its results with the error of
/// the factor.
template <class S, class F>
void checkSoftmax(Run &run, const Heads &p, std::int64_t keys, double scale, const Guarded<bf16> &O, S sees,
                  F factor) {
  const std::vector<bf16> got = O.get();
  const std::int64_t rows = p.heads * p.length, step = rows < 500 ? 1 : (rows / 200) | 1;
  run.check(O.guardsHold(), "guard bytes were written");
  for (std::int64_t r = 0; r < rows; r += step) {
    run.beat();
    const std::int64_t h = r / p.length, i = r % p.length;
    auto score = [&](double s, std::int64_t j) {
      return sees(i, j) ? s : -std::numeric_limits<double>::infinity();
    };
    auto weight = [](std::int64_t) { return 1.0; };
    const sample::HostVariant<decltype(score), decltype(weight)> variant{score, weight,
                                                                         sample::rounding<bf16>};
    const sample::AttentionRow want = sample::attentionRow(
        keys, p.d, p.d, scale, [&](auto x) { return at(p.q, r * p.d + x); },
        [&](auto j, auto x) { return at(p.k, (h * keys + j) * p.d + x); },
        [&](auto j, auto x) { return at(p.v, (h * keys + j) * p.d + x); }, variant);
    for (std::int64_t x = 0; x < p.d; ++x) {
      const Want f = factor(i, x);
      const double value = want.value[std::size_t(x)] * f.value,
                   off =
                       want.error[std::size_t(x)] * f.value + std::abs(want.value[std::size_t(x)]) * f.error;
      const double bound = off + 0x1p-8 * (std::abs(value) + off) + 0x1p-100,
                   g = double(got[std::size_t(r * p.d + x)]);
      run.check(std::abs(g - value) <= bound,
                fmt::format("O[{}, {}, {}]: {} / {} +- {}", h, i, x, g, value, bound));
    }
  }
}

template <Maximum maximum> void chosenCase(Run &run) {
  constexpr std::int64_t Block = 64;
  Heads p(run, size(run, 2, 16), size(run, 300, 8192), 128);
  const std::int64_t groups = (p.length + BM - 1) / BM, blocks = (p.length + Block - 1) / Block,
                     most = size(run, 3, 16);
  // No block, one, and more, in no order, the last and incomplete one among them.
  const std::vector<i32> counts = make<i32>(groups, [&](auto g) { return g == 1 ? 0 : g == 2 ? 1 : most; });
  const std::vector<i32> table =
      make<i32>(groups * most, [&](auto e) { return (blocks - 1 + e / most * 5 + e % most * 3) % blocks; });
  Guarded<i32> Table(run, table), Counts(run, counts);
  double seen = 0;
  for (i32 count : counts)
    seen += double(count) * BM * Block;
  const float scale = 0.0883883476f;
  launch(run, chosenBlocks<maximum>, p.flops(seen), p.view(p.Q), p.view(p.K), p.view(p.V),
         Table.view(groups, most), Counts.view(groups), p.view(p.O), scale);
  auto sees = [&](std::int64_t i, std::int64_t j) {
    const auto begin = table.begin() + i / BM * most;
    const auto end = begin + counts[std::size_t(i / BM)];
    return std::find(begin, end, i32(j / Block)) != end;
  };
  checkSoftmax(run, p, p.length, scale, p.O, sees, [](auto, auto) { return Want(1, 0); });
}

template <int D> void retentionCase(Run &run) {
  for (std::int64_t length : {std::int64_t(1), std::int64_t(130), size(run, 260, 4096)}) {
    Heads p(run, size(run, 2, 32), length, D, 0.125);
    const std::vector<f32> decay = make<f32>(p.heads, [](auto h) { return -0.01f * float(h % 8 + 1); });
    Guarded<f32> Decay(run, decay);
    launch(run, retention<D>, p.flops(0.5 * double(length * length)), p.view(p.Q), p.view(p.K), p.view(p.V),
           Decay.view(p.heads), p.view(p.O));
    compare(run, p.O, [&](std::int64_t e) {
      const std::int64_t h = e / D / length, i = e / D % length;
      double value = 0, error = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        const double w = std::exp2(double(i - j) * double(decay[std::size_t(h)])),
                     v = at(p.v, (h * length + j) * D + e % D);
        const Sum s = p.score(h, i, j);
        value += s.value * w * v;
        error +=
            (s.error() + (0x1p-8 + 0x1p-18 + double(length) * 0x1p-23) * std::abs(s.value)) * w * std::abs(v);
      }
      return Want(value, error);
    });
  }
}

} // namespace

SECTILE_CASE("two/linear-attention") { linearCase<64, 64>(run); }
SECTILE_CASE("two/perceptron-64") { perceptronCase<64>(run); }
SECTILE_CASE("two/perceptron-128") { perceptronCase<128>(run); }
SECTILE_CASE("two/chosen-blocks-exact") { chosenCase<Maximum::exact>(run); }
SECTILE_CASE("two/chosen-blocks-stale") { chosenCase<Maximum::stale>(run); }
SECTILE_CASE("two/retention-64") { retentionCase<64>(run); }
SECTILE_CASE("two/retention-128") { retentionCase<128>(run); }

SECTILE_CASE("two/three-matrices") {
  for (std::int64_t K : {std::int64_t(0), std::int64_t(64), size(run, 150, 512)})
    for (std::int64_t L : {std::int64_t(0), size(run, 130, 512)}) {
      const std::int64_t M = size(run, 150, 8192), N = size(run, 72, 128);
      const std::vector<bf16> a = normal<bf16>(M * K, 1), b = normal<bf16>(K * L, 2, 0.125),
                              c = normal<bf16>(L * N, 3, 0.125);
      Guarded<bf16> A(run, a), B(run, b), C(run, c), Y(run, M * N);
      launch(run, threeMatrices, 2.0 * double(M * L) * double(K + N), A.view(M, K), B.view(K, L),
             C.view(L, N), Y.view(M, N));
      std::int64_t row = -1;
      std::vector<Sum> ab;
      compare(run, Y, [&](std::int64_t i) {
        if (i / N != row) {
          row = i / N;
          ab.assign(std::size_t(L), {});
          for (std::int64_t k = 0; k < K; ++k)
            for (std::int64_t l = 0; l < L; ++l)
              ab[std::size_t(l)].add(at(a, row * K + k) * at(b, k * L + l));
        }
        double value = 0, error = 0;
        for (std::int64_t l = 0; l < L; ++l) {
          const Sum &s = ab[std::size_t(l)];
          const double w = at(c, l * N + i % N);
          value += s.value * w;
          error += (s.error() + (0x1p-8 + double(L) * 0x1p-23) * std::abs(s.value)) * std::abs(w);
        }
        return Want(value, error);
      });
    }
}

SECTILE_CASE("two/gated-cross") {
  constexpr std::int64_t D = 64;
  for (std::int64_t keys : {std::int64_t(0), std::int64_t(1), size(run, 200, 4096)}) {
    const std::int64_t width = size(run, 100, 1024);
    Heads p(run, 1, size(run, 150, 16896), D); // of which the first `keys` rows of K and V
    const std::vector<bf16> x = normal<bf16>(p.length * width, 4), g = normal<bf16>(width * D, 5, 0.1);
    Guarded<bf16> X(run, x), G(run, g);
    const std::vector<bf16> k = normal<bf16>(keys * D, 2), v = normal<bf16>(keys * D, 3);
    Guarded<bf16> K(run, k), V(run, v);
    p.k = k, p.v = v;
    launch(run, gatedCross, 2.0 * double(p.length * D) * double(2 * keys + width), X.view(p.length, width),
           G.view(width, D), p.Q.view(p.length, D), K.view(keys, D), V.view(keys, D), p.O.view(p.length, D),
           0.125f);
    auto gate = [&](std::int64_t i, std::int64_t d) {
      Sum s;
      for (std::int64_t w = 0; w < width; ++w)
        s.add(at(x, i * width + w) * at(g, w * D + d));
      return Want(1 / (1 + std::exp(-s.value)), 0.25 * s.error() + 0x1p-20);
    };
    checkSoftmax(
        run, p, keys, 0.125, p.O, [](auto, auto) { return true; }, gate);
  }
}
