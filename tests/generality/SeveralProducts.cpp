// SPDX-License-Identifier: Apache-2.0
/// \file Several products in one step, or one after the other, of operands that they share: complex numbers, low-rank
/// updates, f32 in halves, sums and differences, Winograd's transforms, both sides of a symmetric matrix, a softmax
/// between two products, powers of a matrix that never leaves the program, a matrix on each side.
#include "tests/generality/Numbers.h"

using namespace generality;

namespace {

constexpr int Half = 64;

/// (Ar + i Ai) (Br + i Bi).
constexpr auto complexProduct =
    kernel("complex_product", [](Tensor<const bf16, 2> Ar, Tensor<const bf16, 2> Ai, Tensor<const bf16, 2> Br,
                                 Tensor<const bf16, 2> Bi, Tensor<f32, 2> Cr, Tensor<f32, 2> Ci) {
      auto [m, n] = grid(Cr, {BM, Half});
      Tile re = zeros<f32>({BM, Half}), im = zeros<f32>({BM, Half});
      for (Tile k : range(0, Ar.dim(1), BK)) {
        Tile ar = Ar.load({m, k}, {BM, BK}), ai = Ai.load({m, k}, {BM, BK});
        Tile br = Br.load({k, n}, {BK, Half}), bi = Bi.load({k, n}, {BK, Half});
        re = mma(-ai, bi, mma(ar, br, re));
        im = mma(ai, br, mma(ar, bi, im));
      }
      Cr.store({m, n}, re);
      Ci.store({m, n}, im);
    });

/// X W + scale (X D) U, where D and U are thin.
constexpr auto lowRank = kernel("low_rank", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> W,
                                               Tensor<const bf16, 2> D, Tensor<const bf16, 2> U,
                                               Tensor<bf16, 2> Y, Scalar<f32> scale) {
  constexpr int Rank = 16;
  auto [m, n] = grid(Y, {BM, BN});
  Tile y = zeros<f32>({BM, BN}), low = zeros<f32>({BM, Rank});
  for (Tile k : range(0, X.dim(1), BK)) {
    Tile x = X.load({m, k}, {BM, BK});
    y = mma(x, W.load({k, n}, {BK, BN}), y);
    low = mma(x, D.load({k, 0}, {BK, Rank}), low);
  }
  y = mma(cast<bf16>(low * scale), U.load({0, n}, {Rank, BN}), y);
  Y.store({m, n}, cast<bf16>(y));
});

/// A product of f32 by three of bf16: each operand is a sum of two halves.
constexpr auto inHalves =
    kernel("in_halves", [](Tensor<const f32, 2> A, Tensor<const f32, 2> B, Tensor<f32, 2> C) {
      constexpr int Depth = 32;
      auto [m, n] = grid(C, {BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, A.dim(1), Depth)) {
        Tile a = A.load({m, k}, {BM, Depth}), b = B.load({k, n}, {Depth, BN});
        Tile ah = cast<bf16>(a), bh = cast<bf16>(b);
        Tile al = cast<bf16>(a - cast<f32>(ah)), bl = cast<bf16>(b - cast<f32>(bh));
        acc = mma(al, bh, mma(ah, bl, mma(ah, bh, acc)));
      }
      C.store({m, n}, acc);
    });

/// A (B + C) and A (B - C).
constexpr auto butterfly =
    kernel("butterfly", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<const bf16, 2> C,
                           Tensor<bf16, 2> Sums, Tensor<bf16, 2> Differences) {
      auto [m, n] = grid(Sums, {BM, Half});
      Tile plus = zeros<f32>({BM, Half}), minus = zeros<f32>({BM, Half});
      for (Tile k : range(0, A.dim(1), BK)) {
        Tile a = A.load({m, k}, {BM, BK});
        Tile b = B.load({k, n}, {BK, Half}), c = C.load({k, n}, {BK, Half});
        plus = mma(a, b + c, plus);
        minus = mma(a, b - c, minus);
      }
      Sums.store({m, n}, cast<bf16>(plus));
      Differences.store({m, n}, cast<bf16>(minus));
    });

/// F(2, 3): two outputs of a convolution of three taps from four products. X is [pairs, 2, C], G the transformed
/// taps, [4, C, O], Y [pairs - 1, 2, O].
constexpr auto winograd =
    kernel("winograd", [](Tensor<const bf16, 3> X, Tensor<const bf16, 3> G, Tensor<bf16, 3> Y) {
      auto [p, y, o] = grid(Y, {BM, 2, Half});
      Tile m0 = zeros<f32>({BM, Half}), m1 = zeros<f32>({BM, Half}), m2 = zeros<f32>({BM, Half}),
           m3 = zeros<f32>({BM, Half});
      for (Tile c : range(0, X.dim(2), BK)) {
        Tile d0 = X.load({p, 0, c}, {BM, 1, BK}).drop(1), d1 = X.load({p, 1, c}, {BM, 1, BK}).drop(1);
        Tile d2 = X.load({p + 1, 0, c}, {BM, 1, BK}).drop(1), d3 = X.load({p + 1, 1, c}, {BM, 1, BK}).drop(1);
        m0 = mma(d0 - d2, G.load({0, c, o}, {1, BK, Half}).drop(0), m0);
        m1 = mma(d1 + d2, G.load({1, c, o}, {1, BK, Half}).drop(0), m1);
        m2 = mma(d2 - d1, G.load({2, c, o}, {1, BK, Half}).drop(0), m2);
        m3 = mma(d1 - d3, G.load({3, c, o}, {1, BK, Half}).drop(0), m3);
      }
      Y.store({p, 0, o}, reshape(cast<bf16>(m0 + m1 + m2), {BM, 1, Half}));
      Y.store({p, 1, o}, reshape(cast<bf16>(m1 - m2 - m3), {BM, 1, Half}));
    });

/// A B^T + B A^T, its lower triangle alone.
constexpr auto lowerTriangle =
    kernel("lower_triangle", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<f32, 2> C) {
      auto [m, n] = grid(C, {BM, BN});
      when(n < m + BM, [&] {
        Tile acc = zeros<f32>({BM, BN});
        for (Tile k : range(0, A.dim(1), BK)) {
          acc = mma(A.load({m, k}, {BM, BK}), B.load({n, k}, {BN, BK}).t(), acc);
          acc = mma(B.load({m, k}, {BM, BK}), A.load({n, k}, {BN, BK}).t(), acc);
        }
        C.store({m, n}, keep(n + iota(1, BN) <= m + iota(BM, 1), acc));
      });
    });

/// softmax(X W) V^T: a share of each expert for each row.
constexpr auto mixture =
    kernel("mixture", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> W, Tensor<const bf16, 2> V,
                         Tensor<bf16, 2> Y) {
      constexpr int Experts = 64;
      auto [m] = grid(Y, {BM});
      Tile s = zeros<f32>({BM, Experts});
      for (Tile k : range(0, X.dim(1), BK))
        s = mma(X.load({m, k}, {BM, BK}), W.load({k, 0}, {BK, Experts}), s);
      Tile e = exp(s - max(s, 1));
      Tile p = cast<bf16>(e / sum(e, 1));
      for (Tile n : range(0, V.dim(0), BN))
        Y.store({m, n}, cast<bf16>(mma(p, V.load({n, 0}, {BN, Experts}).t())));
    });

/// Which nodes of a graph of up to 64 are reached within 2^Steps edges: a matrix is squared where it lies.
constexpr auto reached = kernel("reached", [](Tensor<const bf16, 3> Edges, Tensor<bf16, 3> Paths,
                                              Scalar<i32> steps) {
  constexpr int Nodes = 64;
  auto [g] = grid(Paths, {1});
  Tile r = Edges.load({g, 0, 0}, {1, Nodes, Nodes}).fill(0).drop(0);
  for (Tile i : range(0, cast<Index>(steps)))
    r = cast<bf16>(mma(r, r) > 0.0f);
  Paths.store({g, 0, 0}, r);
});

/// A X[i] B^T for every i, in groups of eight.
constexpr auto bothSides = kernel("both_sides", [](Tensor<const bf16, 2> A, Tensor<const bf16, 3> X,
                                                   Tensor<const bf16, 2> B, Tensor<bf16, 3> Y) {
  constexpr int Group = 8;
  auto [first] = grid(Y, {Group});
  for (Tile i : range(first, min(first + Group, Y.dim(0)), 1)) {
    Tile x = X.load({i, 0, 0}, {1, Half, Half}).fill(0).drop(0);
    Tile ax = cast<bf16>(mma(A.load({0, 0}, {Half, Half}), x));
    Y.store({i, 0, 0}, cast<bf16>(mma(ax, B.load({0, 0}, {Half, Half}).t())));
  }
});

double rounding(double x) { return double(bf16(float(x))); }

} // namespace

SECTILE_CASE("several/complex") {
  const std::int64_t M = size(run, 150, 4096), N = size(run, 72, 4096), K = size(run, 200, 4096);
  Numbers<bf16> ar(run, M * K, 1), ai(run, M * K, 2), br(run, K * N, 3), bi(run, K * N, 4);
  Guarded<f32> cr(run, M * N), ci(run, M * N);
  launch(run, complexProduct, 8.0 * double(M * N) * double(K), ar.view(M, K), ai.view(M, K), br.view(K, N),
         bi.view(K, N), cr.view(M, N), ci.view(M, N));
  auto part = [&](auto &x, auto &y, double sign, auto &z, auto &w) {
    return [&, sign](std::int64_t i) {
      Sum s;
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t l = i / N * K + k, r = k * N + i % N;
        s.add(x[l] * y[r]);
        s.add(sign * z[l] * w[r]);
      }
      return s;
    };
  };
  compare(run, cr, part(ar, br, -1, ai, bi));
  compare(run, ci, part(ar, bi, 1, ai, br));
}

SECTILE_CASE("several/low-rank") {
  constexpr std::int64_t Rank = 16;
  const std::int64_t M = size(run, 150, 4096), N = size(run, 200, 4096), K = size(run, 136, 4096);
  Numbers<bf16> x(run, M * K, 1), w(run, K * N, 2), d(run, K * Rank, 3, 1 / std::sqrt(double(K))),
      u(run, Rank * N, 4);
  Guarded<bf16> y(run, M * N);
  launch(run, lowRank, 2.0 * double(M) * double(N * K + Rank * K + Rank * N), x.view(M, K), w.view(K, N),
         d.view(K, Rank), u.view(Rank, N), y.view(M, N), 0.75f);
  compare(run, y, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      s.add(x[i / N * K + k] * w[k * N + i % N]);
    double value = s.value, error = s.error();
    for (std::int64_t r = 0; r < Rank; ++r) {
      Sum low;
      for (std::int64_t k = 0; k < K; ++k)
        low.add(x[i / N * K + k] * d[k * Rank + r]);
      const double factor = u[r * N + i % N];
      value += low.value * 0.75 * factor;
      error += (low.error() + 0x1p-8 * (std::abs(low.value) + low.error()) + 0x1p-19 * std::abs(low.value)) *
               std::abs(factor);
    }
    return Want(value, error);
  });
}

SECTILE_CASE("several/in-halves") {
  const std::int64_t M = size(run, 150, 4096), N = size(run, 72, 4096), K = size(run, 200, 4096);
  Numbers<f32> a(run, M * K, 1), b(run, K * N, 2);
  Guarded<f32> c(run, M * N);
  launch(run, inHalves, 6.0 * double(M * N) * double(K), a.view(M, K), b.view(K, N), c.view(M, N));
  compare(run, c, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      s.add(a[i / N * K + k] * b[k * N + i % N]);
    // What is left of each operand, and the product of the small halves.
    return Want(s.value, 3 * s.error() + (2 * 0x1p-17 + 0x1p-16) * s.magnitude);
  });
}

SECTILE_CASE("several/butterfly") {
  const std::int64_t M = size(run, 150, 4096), N = size(run, 72, 4096), K = size(run, 200, 4096);
  Numbers<bf16> a(run, M * K, 1), b(run, K * N, 2), c(run, K * N, 3);
  Guarded<bf16> sums(run, M * N), differences(run, M * N);
  launch(run, butterfly, 4.0 * double(M * N) * double(K), a.view(M, K), b.view(K, N), c.view(K, N),
         sums.view(M, N), differences.view(M, N));
  auto want = [&](double sign) {
    return [&, sign](std::int64_t i) {
      Sum s;
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t e = k * N + i % N;
        s.add(a[i / N * K + k] * rounding(b[e] + sign * c[e]));
      }
      return s;
    };
  };
  compare(run, sums, want(1));
  compare(run, differences, want(-1));
}

SECTILE_CASE("several/winograd") {
  const std::int64_t P = size(run, 70, 8193), C = size(run, 72, 512), O = size(run, 40, 512);
  Numbers<bf16> x(run, P * 2 * C, 1), g(run, 4 * C * O, 2);
  Guarded<bf16> y(run, (P - 1) * 2 * O);
  launch(run, winograd, 8.0 * double(P - 1) * double(C * O), x.view(P, 2, C), g.view(4, C, O),
         y.view(P - 1, 2, O));
  compare(run, y, [&](std::int64_t i) {
    const std::int64_t o = i % O, which = i / O % 2, pair = i / O / 2;
    Sum s;
    for (std::int64_t c = 0; c < C; ++c) {
      auto d = [&](std::int64_t t) { return x[(2 * pair + t) * C + c]; };
      auto tap = [&](std::int64_t t) { return g[(t * C + c) * O + o]; };
      s.add(rounding(d(1) + d(2)) * tap(1));
      s.add((which ? -1 : 1) * rounding(d(2) - d(1)) * tap(2));
      s.add(which ? -rounding(d(1) - d(3)) * tap(3) : rounding(d(0) - d(2)) * tap(0));
    }
    return s;
  });
}

SECTILE_CASE("several/lower-triangle") {
  const std::int64_t N = size(run, 200, 4096), K = size(run, 136, 4096);
  Numbers<bf16> a(run, N * K, 1), b(run, N * K, 2);
  Numbers<f32> c(run, std::vector<f32>(std::size_t(N * N), 3.0f)); // what stays above the diagonal
  launch(run, lowerTriangle, 2.0 * double(N * N) * double(K), a.view(N, K), b.view(N, K), c.view(N, N));
  compare(run, c.memory, [&](std::int64_t i) {
    const std::int64_t m = i / N, n = i % N;
    Sum s;
    for (std::int64_t k = 0; k < K; ++k) {
      s.add(a[m * K + k] * b[n * K + k]);
      s.add(b[m * K + k] * a[n * K + k]);
    }
    return n <= m ? Want(s) : Want(3, 0);
  });
}

SECTILE_CASE("several/mixture") {
  const std::int64_t M = size(run, 150, 8192), K = size(run, 200, 2048), N = size(run, 200, 4096),
                     E = size(run, 57, 64);
  Numbers<bf16> x(run, M * K, 1), w(run, K * E, 2, 1 / std::sqrt(double(K))), v(run, N * E, 3);
  Guarded<bf16> y(run, M * N);
  launch(run, mixture, 2.0 * double(M * E) * double(K + N), x.view(M, K), w.view(K, E), v.view(N, E),
         y.view(M, N));
  std::int64_t row = -1;
  std::vector<double> share(static_cast<std::size_t>(E)), off(share);
  compare(run, y, [&](std::int64_t i) {
    if (i / N != row) {
      row = i / N;
      double total = 0, most = 0;
      for (std::int64_t e = 0; e < E; ++e) {
        Sum s;
        for (std::int64_t k = 0; k < K; ++k)
          s.add(x[row * K + k] * w[k * E + e]);
        total += share[std::size_t(e)] = std::exp(s.value);
        most = std::max(most, s.error());
      }
      for (std::size_t e = 0; e < std::size_t(E); ++e)
        share[e] /= total, off[e] = share[e] * (2 * most + 0x1p-8 + 0x1p-16);
    }
    double value = 0, error = 0;
    for (std::int64_t e = 0; e < E; ++e) {
      const double factor = v[i % N * E + e];
      value += share[std::size_t(e)] * factor;
      error += (off[std::size_t(e)] + double(E) * 0x1p-23 * share[std::size_t(e)]) * std::abs(factor);
    }
    return Want(value, error);
  });
}

SECTILE_CASE("several/reached") {
  for (std::int64_t nodes : {std::int64_t(64), std::int64_t(37)})
    for (int steps : {6, 0, 2}) {
      const std::int64_t graphs = size(run, 3, 4096);
      auto edge = [&](std::int64_t g, std::int64_t i, std::int64_t j) {
        return i == j || j == i + 1 + (g % 3) || (i == nodes - 1 && j == 3);
      };
      const auto cells = nodes * nodes;
      Numbers<bf16> e(run, make<bf16>(graphs * cells, [&](auto i) {
        return edge(i / cells, i % cells / nodes, i % nodes) ? 1 : 0;
      }));
      Guarded<bf16> paths(run, graphs * cells);
      launch(run, reached, 2.0 * double(graphs * cells) * double(nodes * steps), e.view(graphs, nodes, nodes),
             paths.view(graphs, nodes, nodes), i32(steps));
      std::vector<std::vector<bool>> want; // of the graphs that differ
      for (std::int64_t g = 0; g < 3; ++g) {
        std::vector<bool> r(static_cast<std::size_t>(cells));
        for (std::int64_t c = 0; c < cells; ++c)
          r[std::size_t(c)] = edge(g, c / nodes, c % nodes);
        for (int s = 0; s < steps; ++s) {
          std::vector<bool> next(r.size());
          for (std::int64_t i = 0; i < nodes; ++i)
            for (std::int64_t j = 0; j < nodes; ++j)
              if (r[std::size_t(i * nodes + j)])
                for (std::int64_t k = 0; k < nodes; ++k)
                  if (r[std::size_t(j * nodes + k)])
                    next[std::size_t(i * nodes + k)] = true;
          r = next;
        }
        want.push_back(r);
      }
      compare(run, paths, [&](std::int64_t i) {
        return Want(want[std::size_t(i / cells % 3)][std::size_t(i % cells)] ? 1 : 0, 0);
      });
    }
}

SECTILE_CASE("several/both-sides") {
  const std::int64_t Z = size(run, 11, 8192), R = size(run, 50, 64), S = size(run, 40, 64);
  Numbers<bf16> a(run, R * R, 1), x(run, Z * R * S, 2), b(run, S * S, 3);
  Guarded<bf16> y(run, Z * R * S);
  launch(run, bothSides, 2.0 * double(Z * R * S) * double(R + S), a.view(R, R), x.view(Z, R, S), b.view(S, S),
         y.view(Z, R, S));
  compare(run, y, [&](std::int64_t i) {
    const std::int64_t z = i / (R * S), r = i / S % R, column = i % S;
    double value = 0, error = 0;
    for (std::int64_t s = 0; s < S; ++s) {
      Sum ax;
      for (std::int64_t k = 0; k < R; ++k)
        ax.add(a[r * R + k] * x[(z * R + k) * S + s]);
      const double factor = b[column * S + s];
      value += ax.value * factor;
      error += (ax.error() + (0x1p-8 + double(S) * 0x1p-23) * std::abs(ax.value)) * std::abs(factor);
    }
    return Want(value, error);
  });
}
