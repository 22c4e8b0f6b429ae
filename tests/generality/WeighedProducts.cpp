// SPDX-License-Identifier: Apache-2.0
/// \file Products whose operands are weighed, gathered or made on the way, or whose loops follow the data: A^T diag(w) A,
/// windows of a sequence, rows from a table, a length of K for each row, nearest neighbours, diagonal blocks of
/// different sizes, a program's own loop over tiles with two conditions, operands of other types, sums that decay,
/// sums over segments.
#include "tests/generality/Numbers.h"

using namespace generality;

namespace {

constexpr int Half = 64;

/// A^T diag(w) A.
constexpr auto weighedGram =
    kernel("weighed_gram", [](Tensor<const bf16, 2> A, Tensor<const f32, 1> W, Tensor<f32, 2> C) {
      auto [m, n] = grid(C, {BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, A.dim(0), BK)) {
        Tile w = reshape(W.load({k}, {BK}), {BK, 1});
        Tile left = cast<bf16>(cast<f32>(A.load({k, m}, {BK, BM})) * w);
        acc = mma(left.t(), A.load({k, n}, {BK, BN}), acc);
      }
      C.store({m, n}, acc);
    });

/// Y[z, l, o] = sum over taps and c of X[z, l + (tap - 1) dilation, c] W[tap, c, o].
constexpr auto dilated = kernel("dilated", [](Tensor<const bf16, 3> X, Tensor<const bf16, 3> W, Tensor<bf16, 3> Y,
                                              Scalar<i32> dilation) {
  auto [z, l, o] = grid(Y, {1, BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile tap : range(0, W.dim(0)))
    for (Tile c : range(0, X.dim(2), BK)) {
      Tile at = l + (tap - 1) * cast<Index>(dilation);
      acc = mma(X.load({z, at, c}, {1, BM, BK}).fill(0).drop(0),
                W.load({tap, c, o}, {1, BK, BN}).fill(0).drop(0), acc);
    }
  Y.store({z, l, o}, cast<bf16>(acc));
});

/// Row k of the right side is row table[k] of B times scale[k].
constexpr auto gatheredRows =
    kernel("gathered_rows", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<const i32, 1> Table,
                               Tensor<const f32, 1> Scale, Tensor<bf16, 2> C) {
      auto [m, n] = grid(C, {BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, Table.dim(0), BK)) {
        Tile row = reshape(cast<Index>(Table.load({k}, {BK})), {BK, 1});
        Tile b = cast<f32>(B.at(row, n + iota(1, BN))) * reshape(Scale.load({k}, {BK}), {BK, 1});
        acc = mma(A.load({m, k}, {BM, BK}), cast<bf16>(b), acc);
      }
      C.store({m, n}, cast<bf16>(acc));
    });

/// Row m of A has lengths[m] numbers; a tile needs as many steps as its longest row.
constexpr auto raggedRows = kernel("ragged_rows", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B,
                                                     Tensor<const i32, 1> Lengths, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {BM, BN});
  Tile lengths = reshape(cast<Index>(Lengths.load({m}, {BM})), {BM, 1});
  Tile longest = max(lengths, 0).drop(0, 1);
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, longest, BK)) {
    Tile a = keep(k + iota(1, BK) < lengths, A.load({m, k}, {BM, BK})).fill(0);
    acc = mma(a, B.load({k, n}, {BK, BN}), acc);
  }
  C.store({m, n}, cast<bf16>(acc));
});

/// The row of Y that is nearest to each row of X, and the distance but for the row's own square.
constexpr auto nearest =
    kernel("nearest", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> Y, Tensor<const f32, 1> Squares,
                         Tensor<i32, 1> Place, Tensor<f32, 1> Distance) {
      auto [m] = grid(X, {BM});
      Tile best = full<f32>({BM, 1}, 1e30f), place = full<i32>({BM, 1}, -1);
      for (Tile n : range(0, Y.dim(0), BN)) {
        Tile dot = zeros<f32>({BM, BN});
        for (Tile d : range(0, X.dim(1), BK))
          dot = mma(X.load({m, d}, {BM, BK}), Y.load({n, d}, {BN, BK}).t(), dot);
        Tile distance = reshape(Squares.load({n}, {BN}), {1, BN}) - dot * 2.0f;
        Tile least = min(distance, 1), at = cast<i32>(argmin(distance, 1) + n);
        Tile isBetter = least < best;
        place = select(isBetter, at, place);
        best = select(isBetter, least, best);
      }
      Place.store({m}, place.drop(1));
      Distance.store({m}, best.drop(1));
    });

/// Rows offsets[g] to offsets[g + 1] of A hold a square block; block times the same rows of X.
constexpr auto diagonalBlocks = kernel("diagonal_blocks", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> X,
                                                             Tensor<const i32, 2> Begins, Tensor<bf16, 2> Y) {
  auto [g, zero] = grid(Begins, {1, 2});
  Tile lo = cast<Index>(Begins.at(g, 0)), hi = cast<Index>(Begins.at(g, 1));
  Tensor<const bf16, 2> a = A.slice(0, lo, hi).slice(1, 0, hi - lo), x = X.slice(0, lo, hi);
  Tensor<bf16, 2> y = Y.slice(0, lo, hi);
  for (Tile m : range(0, hi - lo, BM))
    for (Tile n : range(0, X.dim(1), BN)) {
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, hi - lo, BK))
        acc = mma(a.load({m, k}, {BM, BK}), x.load({k, n}, {BK, BN}), acc);
      y.store({m, n}, cast<bf16>(acc));
    }
});

/// As many programs as `Programs` is long go through the tiles; a step counts where both tables say so.
constexpr auto ownTiles =
    kernel("own_tiles", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<const i32, 2> Rows,
                           Tensor<const i32, 2> Columns, Tensor<i32, 1> Programs, Tensor<bf16, 2> C) {
      auto [p] = grid(Programs, {1});
      Tile across = (C.dim(1) + (BN - 1)) / BN, tiles = (C.dim(0) + (BM - 1)) / BM * across;
      for (Tile t : range(p, tiles, Programs.dim(0))) {
        Tile m = t / across * BM, n = t % across * BN, acc = zeros<f32>({BM, BN});
        for (Tile k : range(0, A.dim(1), BK))
          when(Rows.at(m / BM, k / BK) != 0, [&] {
            Tile a = A.load({m, k}, {BM, BK}).fill(0);
            when(Columns.at(k / BK, n / BN) != 0,
                 [&] { acc = mma(a, B.load({k, n}, {BK, BN}).fill(0), acc); });
          });
        C.store({m, n}, cast<bf16>(acc));
      }
    });

/// A is f16, B has 8 bits and a scale for each block of K; both meet as bf16.
constexpr auto otherTypes = kernel("other_types", [](Tensor<const f16, 2> A, Tensor<const i8, 2> B,
                                                     Tensor<const f32, 1> Scale, Tensor<f32, 2> C) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK)) {
    Tile b = cast<f32>(B.load({k, n}, {BK, BN})) * Scale.at(k / BK);
    acc = mma(cast<bf16>(A.load({m, k}, {BM, BK})), cast<bf16>(b), acc);
  }
  C.store({m, n}, acc);
});

/// S = S decay[t] + K[t]^T V[t], over chunks of time.
constexpr auto decaying = kernel("decaying", [](Tensor<const bf16, 3> K, Tensor<const bf16, 3> V,
                                                Tensor<const f32, 2> Decay, Tensor<f32, 3> S) {
  auto [h, i, j] = grid(S, {1, BM, Half});
  Tile s = zeros<f32>({BM, Half});
  for (Tile t : range(0, K.dim(1), BK)) {
    Tile k = K.load({h, t, i}, {1, BK, BM}).drop(0), v = V.load({h, t, j}, {1, BK, Half}).drop(0);
    s = mma(k.t(), v, s * Decay.at(h, t / BK));
  }
  S.store({h, i, j}, s);
});

/// Row s of Y is the sum of the rows of X that belong to segment s: the left side is made of numbers of segments.
constexpr auto segmentSums =
    kernel("segment_sums", [](Tensor<const bf16, 2> X, Tensor<const i32, 1> Segment, Tensor<f32, 2> Y) {
      auto [m, n] = grid(Y, {BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, X.dim(0), BK)) {
        Tile segment = reshape(cast<Index>(Segment.load({k}, {BK}).fill(-1)), {1, BK});
        Tile belongs = cast<bf16>(segment == m + iota(BM, 1));
        acc = mma(belongs, X.load({k, n}, {BK, BN}), acc);
      }
      Y.store({m, n}, acc);
    });

double rounding(double x) { return double(bf16(float(x))); }

} // namespace

SECTILE_CASE("weighed/gram") {
  const std::int64_t N = size(run, 150, 4096), K = size(run, 200, 4096);
  Numbers<bf16> a(run, K * N, 1);
  Numbers<f32> w(run, K, 2);
  Guarded<f32> c(run, N * N);
  launch(run, weighedGram, 2.0 * double(N * N) * double(K), a.view(K, N), w.view(K), c.view(N, N));
  compare(run, c, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      s.add(rounding(float(a[k * N + i / N]) * float(w[k])) * a[k * N + i % N]);
    return s;
  });
}

SECTILE_CASE("weighed/dilated") {
  const std::int64_t Z = size(run, 2, 8), L = size(run, 150, 4096), C = size(run, 72, 512), O = size(run, 40, 512);
  for (int dilation : {5, 1, 200}) {
    Numbers<bf16> x(run, Z * L * C, 1), w(run, 3 * C * O, 2);
    Guarded<bf16> y(run, Z * L * O);
    launch(run, dilated, 6.0 * double(Z * L) * double(C * O), x.view(Z, L, C), w.view(3, C, O), y.view(Z, L, O),
           i32(dilation));
    compare(run, y, [&](std::int64_t i) {
      Sum s;
      for (std::int64_t tap = 0; tap < 3; ++tap) {
        const std::int64_t at = i / O % L + (tap - 1) * dilation;
        for (std::int64_t c = 0; at >= 0 && at < L && c < C; ++c)
          s.add(x[(i / O / L * L + at) * C + c] * w[(tap * C + c) * O + i % O]);
      }
      return s;
    });
  }
}

SECTILE_CASE("weighed/gathered-rows") {
  const std::int64_t M = size(run, 150, 4096), N = size(run, 72, 4096), K = size(run, 200, 4096), R = 97;
  Numbers<bf16> a(run, M * K, 1), b(run, R * N, 2);
  Numbers<i32> table(run, make<i32>(K, [&](auto k) { return k * 31 % R; }));
  Numbers<f32> scale(run, K, 3);
  Guarded<bf16> c(run, M * N);
  launch(run, gatheredRows, 2.0 * double(M * N) * double(K), a.view(M, K), b.view(R, N), table.view(K),
         scale.view(K), c.view(M, N));
  compare(run, c, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      s.add(a[i / N * K + k] * rounding(float(b[std::int64_t(table[k]) * N + i % N]) * float(scale[k])));
    return s;
  });
}

SECTILE_CASE("weighed/ragged-rows") {
  const std::int64_t M = size(run, 150, 4096), N = size(run, 72, 4096), K = size(run, 200, 4096);
  Numbers<bf16> a(run, M * K, 1), b(run, K * N, 2);
  Numbers<i32> lengths(run, make<i32>(M, [&](auto m) { return m < 7 ? 0 : (m * 37) % (K + 1); }));
  double flops = 0;
  for (std::int64_t m = 0; m < M; ++m)
    flops += 2.0 * double(N) * lengths[m];
  Guarded<bf16> c(run, M * N);
  launch(run, raggedRows, flops, a.view(M, K), b.view(K, N), lengths.view(M), c.view(M, N));
  compare(run, c, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < std::int64_t(lengths[i / N]); ++k)
      s.add(a[i / N * K + k] * b[k * N + i % N]);
    return s;
  });
}

SECTILE_CASE("weighed/nearest") {
  const std::int64_t M = size(run, 150, 16896), N = size(run, 200, 4096), D = size(run, 72, 256);
  // Whole numbers, so that distances are exact and ties are ties.
  auto number = [](std::int64_t seed) {
    return [seed](std::int64_t i) { return (i * seed + i / 7 * 3) % 9 - 4; };
  };
  Numbers<bf16> x(run, make<bf16>(M * D, number(5))), y(run, make<bf16>(N * D, number(11)));
  Numbers<f32> squares(run, make<f32>(N, [&](std::int64_t n) {
    double s = 0;
    for (std::int64_t d = 0; d < D; ++d)
      s += y[n * D + d] * y[n * D + d];
    return s;
  }));
  Guarded<i32> place(run, M);
  Guarded<f32> distance(run, M);
  launch(run, nearest, 2.0 * double(M * N) * double(D), x.view(M, D), y.view(N, D), squares.view(N), place.view(M),
         distance.view(M));
  const auto places = place.get();
  const auto distances = distance.get();
  for (std::int64_t m = 0; m < M; m += 1 + M / 300) {
    run.beat();
    double best = 1e30;
    std::int64_t at = -1;
    for (std::int64_t n = 0; n < N; ++n) {
      double dot = 0;
      for (std::int64_t d = 0; d < D; ++d)
        dot += x[m * D + d] * y[n * D + d];
      if (squares[n] - 2 * dot < best)
        best = squares[n] - 2 * dot, at = n;
    }
    run.check(places[std::size_t(m)] == at && double(distances[std::size_t(m)]) == best,
              fmt::format("row {}: {} at {}, not {} at {}", m, distances[std::size_t(m)], places[std::size_t(m)],
                          best, at));
  }
  run.check(place.guardsHold() && distance.guardsHold(), "guard bytes were written");
}

SECTILE_CASE("weighed/diagonal-blocks") {
  const std::int64_t G = size(run, 5, 132), N = size(run, 72, 512);
  std::vector<i32> begins; // pairs: one block is empty, one has a row, most end within a tile
  std::int64_t T = 0, widest = 0;
  double flops = 0;
  for (std::int64_t g = 0; g < G; ++g) {
    const std::int64_t side = g == 1 ? 0 : g == 2 ? 1 : size(run, 33 + 40 * g, 700 + g * 29 % 400);
    begins.insert(begins.end(), {i32(T), i32(T + side)});
    T += side, widest = std::max(widest, side);
    flops += 2.0 * double(side * side) * double(N);
  }
  Numbers<bf16> a(run, T * widest, 1), x(run, T * N, 2);
  Guarded<bf16> y(run, T * N);
  Numbers<i32> table(run, begins);
  launch(run, diagonalBlocks, flops, a.view(T, widest), x.view(T, N), table.view(G, 2), y.view(T, N));
  compare(run, y, [&](std::int64_t i) {
    std::int64_t g = 0;
    while (begins[std::size_t(2 * g + 1)] <= i / N)
      ++g;
    const std::int64_t lo = begins[std::size_t(2 * g)], side = begins[std::size_t(2 * g + 1)] - lo;
    Sum s;
    for (std::int64_t k = 0; k < side; ++k)
      s.add(a[i / N * widest + k] * x[(lo + k) * N + i % N]);
    return s;
  });
}

SECTILE_CASE("weighed/own-tiles") {
  const std::int64_t M = size(run, 300, 4096), N = size(run, 200, 4096), K = size(run, 200, 4096);
  const std::int64_t programs = size(run, 2, 132);
  Numbers<bf16> a(run, M * K, 1), b(run, K * N, 2);
  const std::int64_t rows = (M + BM - 1) / BM, steps = (K + BK - 1) / BK, columns = (N + BN - 1) / BN;
  Numbers<i32> left(run, make<i32>(rows * steps, [](auto i) { return i % 5 != 1; })),
      right(run, make<i32>(steps * columns, [](auto i) { return i % 7 != 3; }));
  double flops = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t s = 0; s < steps; ++s)
      for (std::int64_t c = 0; c < columns; ++c)
        flops += 2.0 * BM * BN * BK * left[r * steps + s] * right[s * columns + c];
  Guarded<i32> count(run, programs);
  Guarded<bf16> c(run, M * N);
  launch(run, ownTiles, flops, a.view(M, K), b.view(K, N), left.view(rows, steps), right.view(steps, columns),
         count.view(programs), c.view(M, N));
  compare(run, c, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      if (left[i / N / BM * steps + k / BK] != 0 && right[k / BK * columns + i % N / BN] != 0)
        s.add(a[i / N * K + k] * b[k * N + i % N]);
    return s;
  });
}

SECTILE_CASE("weighed/other-types") {
  const std::int64_t M = size(run, 150, 4096), N = size(run, 72, 4096), K = size(run, 200, 4096);
  Numbers<f16> a(run, M * K, 1);
  Numbers<i8> b(run, K * N, 2, 40);
  Numbers<f32> scale(run, (K + BK - 1) / BK, 3, 0.02);
  Guarded<f32> c(run, M * N);
  launch(run, otherTypes, 2.0 * double(M * N) * double(K), a.view(M, K), b.view(K, N), scale.view((K + BK - 1) / BK),
         c.view(M, N));
  compare(run, c, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      s.add(rounding(a[i / N * K + k]) * rounding(float(b[k * N + i % N]) * float(scale[k / BK])));
    return s;
  });
}

SECTILE_CASE("weighed/decaying") {
  const std::int64_t H = size(run, 2, 64), T = size(run, 200, 8192), R = size(run, 150, 256), C = size(run, 72, 128);
  const std::int64_t chunks = (T + BK - 1) / BK;
  Numbers<bf16> k(run, H * T * R, 1), v(run, H * T * C, 2);
  Numbers<f32> decay(run, make<f32>(H * chunks, [](auto i) { return 0.99 - 0.01 * double(i % 13); }));
  Guarded<f32> s(run, H * R * C);
  launch(run, decaying, 2.0 * double(H * T) * double(R * C), k.view(H, T, R), v.view(H, T, C),
         decay.view(H, chunks), s.view(H, R, C));
  compare(run, s, [&](std::int64_t i) {
    const std::int64_t h = i / C / R, r = i / C % R;
    Sum sum;
    double factor = 1;
    for (std::int64_t t = T; t-- > 0;) {
      sum.add(factor * k[(h * T + t) * R + r] * v[(h * T + t) * C + i % C]);
      if (t % BK == 0)
        factor *= decay[h * chunks + t / BK];
    }
    return Want(sum.value, 2 * sum.error());
  });
}

SECTILE_CASE("weighed/segment-sums") {
  const std::int64_t S = size(run, 150, 1024), N = size(run, 72, 4096), K = size(run, 200, 4096);
  Numbers<bf16> x(run, K * N, 1);
  Numbers<i32> segment(run, make<i32>(K, [&](auto k) { return k * 13 % (S + 20); })); // some belong to none
  Guarded<f32> y(run, S * N);
  launch(run, segmentSums, 2.0 * double(S * N) * double(K), x.view(K, N), segment.view(K), y.view(S, N));
  compare(run, y, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      if (std::int64_t(segment[k]) == i / N)
        s.add(x[k * N + i % N]);
    return s;
  });
}
