// SPDX-License-Identifier: Apache-2.0
/// \file Products whose operands or results are not plain tiles: transposed, computed, converted, shared by a
/// batch, windows of an image, short in K, followed by an epilogue, of other types.
#include "tests/generality/Generality.h"

using namespace generality;

namespace {

constexpr auto timesTranspose = kernel("times_transpose", [](Tensor<const bf16, 2> A, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), A.load({n, k}, {BN, BK}).t(), acc);
  C.store({m, n}, cast<bf16>(acc));
});

/// 3 x 3, stride 1, padded by one: pixels beyond the image are lanes that do not exist. X is N H W C, W is
/// 3 3 C O, Y is N H W O.
constexpr auto convolution =
    kernel("convolution", [](Tensor<const bf16, 4> X, Tensor<const bf16, 4> W, Tensor<bf16, 4> Y) {
      constexpr int TY = 8, TX = 16;
      auto [n, y, x, o] = grid(Y, {1, TY, TX, BN});
      Tile acc = zeros<f32>({TY * TX, BN});
      for (Tile tap : range(0, 9))
        for (Tile c : range(0, X.dim(3), BK)) {
          Tile dy = tap / 3, dx = tap % 3;
          Tile window = X.load({n, y + dy - 1, x + dx - 1, c}, {1, TY, TX, BK}).fill(0);
          Tile weights = W.load({dy, dx, c, o}, {1, 1, BK, BN}).fill(0).drop(0, 1);
          acc = mma(reshape(window, {TY * TX, BK}), weights, acc);
        }
      Y.store({n, y, x, o}, reshape(cast<bf16>(acc), {1, TY, TX, BN}));
    });

/// relu(A) * scale, computed in f32, times B.
constexpr auto computed = kernel("computed_operand", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B,
                                                        Tensor<bf16, 2> C, Scalar<f32> scale) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK)) {
    Tile a = max(cast<f32>(A.load({m, k}, {BM, BK})), 0.0f) * scale;
    acc = mma(cast<bf16>(a), B.load({k, n}, {BK, BN}), acc);
  }
  C.store({m, n}, cast<bf16>(acc));
});

/// Weights of 8 bits with a scale per column.
constexpr auto weightOnly = kernel("int8_weights", [](Tensor<const bf16, 2> A, Tensor<const i8, 2> W,
                                                      Tensor<const f32, 2> S, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), cast<bf16>(W.load({k, n}, {BK, BN})), acc);
  C.store({m, n}, cast<bf16>(acc * broadcast(S.load({0, n}, {1, BN}), {BM, BN})));
});

constexpr auto sharedByBatch =
    kernel("shared_weights", [](Tensor<const bf16, 3> A, Tensor<const bf16, 2> W, Tensor<bf16, 3> C) {
      auto [b, m, n] = grid(C, {1, BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, A.dim(2), BK))
        acc = mma(A.load({b, m, k}, {1, BM, BK}).drop(0), W.load({k, n}, {BK, BN}), acc);
      C.store({b, m, n}, cast<bf16>(acc));
    });

constexpr auto batched =
    kernel("batched", [](Tensor<const bf16, 3> A, Tensor<const bf16, 3> B, Tensor<bf16, 3> C) {
      auto [b, m, n] = grid(C, {1, BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, A.dim(2), BK))
        acc = mma(A.load({b, m, k}, {1, BM, BK}).drop(0), B.load({b, k, n}, {1, BK, BN}).drop(0), acc);
      C.store({b, m, n}, cast<bf16>(acc));
    });

constexpr auto biasGelu = kernel("bias_gelu", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B,
                                                 Tensor<const bf16, 2> Bias, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
  Tile x = acc + broadcast(cast<f32>(Bias.load({0, n}, {1, BN})), {BM, BN});
  Tile inner = (x + x * x * x * 0.044715f) * 0.7978845608f;
  C.store({m, n}, cast<bf16>(x * 0.5f * (tanh(inner) + 1.0f)));
});

/// The product with each operand stored either way.
template <class T, bool TA, bool TB, MmaPolicy policy = MmaPolicy::exact>
constexpr auto majors = kernel("majors", [](Tensor<const T, 2> A, Tensor<const T, 2> B, Tensor<T, 2> C) {
  constexpr int Depth = sizeof(T) == 4 ? BK / 2 : BK;
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(TA ? 0 : 1), Depth)) {
    Tile a = TA ? A.load({k, m}, {Depth, BM}).t() : A.load({m, k}, {BM, Depth});
    Tile b = TB ? B.load({n, k}, {BN, Depth}).t() : B.load({k, n}, {Depth, BN});
    acc = mma(a, b, acc, policy);
  }
  C.store({m, n}, cast<T>(acc));
});

/// Operands in the order of the product, however they are stored.
template <class T> struct Operands {
  std::int64_t M, N, K;
  std::vector<T> a, b;
  Guarded<T> A, B, C;
  Operands(Run &run, std::int64_t K)
      : M(size(run, 150, 4096)), N(size(run, 72, 4096)), K(K), a(normal<T>(M * K, 1)), b(normal<T>(K * N, 2)),
        A(run, a), B(run, b), C(run, M * N) {}
  explicit Operands(Run &run) : Operands(run, size(run, 200, 4096)) {}
  double flops() const { return 2.0 * double(M) * double(N) * double(K); }
  Sum sum(std::int64_t i, bool TA = false, bool TB = false) const {
    const std::int64_t m = i / N, n = i % N;
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      s.add(double(a[std::size_t(TA ? k * M + m : m * K + k)]) *
            double(b[std::size_t(TB ? n * K + k : k * N + n)]));
    return s;
  }
};

template <class T, bool TA, bool TB, MmaPolicy policy = MmaPolicy::exact>
void majorCase(Run &run, double rounding = 0, std::int64_t K = 0) {
  Operands<T> p(run, K ? K : size(run, 200, 4096));
  launch(run, majors<T, TA, TB, policy>, p.flops(), TA ? p.A.view(p.K, p.M) : p.A.view(p.M, p.K),
         TB ? p.B.view(p.N, p.K) : p.B.view(p.K, p.N), p.C.view(p.M, p.N));
  compare(run, p.C, [&](std::int64_t i) {
    const Sum s = p.sum(i, TA, TB);
    return Want(s.value, s.error() + rounding * s.magnitude);
  });
}

} // namespace

SECTILE_CASE("times-transpose") {
  const std::int64_t M = size(run, 150, 4096), K = size(run, 200, 4096);
  const std::vector<bf16> a = normal<bf16>(M * K, 1);
  Guarded<bf16> A(run, a), C(run, M * M);
  launch(run, timesTranspose, 2.0 * double(M * M) * double(K), A.view(M, K), C.view(M, M));
  compare(run, C, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      s.add(double(a[std::size_t(i / M * K + k)]) * double(a[std::size_t(i % M * K + k)]));
    return s;
  });
}

SECTILE_CASE("convolution") {
  const std::int64_t N = size(run, 2, 16), H = size(run, 9, 64), W = size(run, 19, 64),
                     C = size(run, 72, 256), O = size(run, 40, 512);
  const std::vector<bf16> x = normal<bf16>(N * H * W * C, 1), w = normal<bf16>(9 * C * O, 2);
  Guarded<bf16> X(run, x), Weights(run, w), Y(run, N * H * W * O);
  launch(run, convolution, 2.0 * double(N * H * W) * double(O * C) * 9, X.view(N, H, W, C),
         Weights.view(3, 3, C, O), Y.view(N, H, W, O));
  compare(run, Y, [&](std::int64_t i) {
    const std::int64_t o = i % O, column = i / O % W, row = i / O / W % H, image = i / O / W / H;
    Sum s;
    for (std::int64_t tap = 0; tap < 9; ++tap) {
      const std::int64_t r = row + tap / 3 - 1, q = column + tap % 3 - 1;
      if (r < 0 || r >= H || q < 0 || q >= W)
        continue;
      for (std::int64_t c = 0; c < C; ++c)
        s.add(double(x[std::size_t(((image * H + r) * W + q) * C + c)]) *
              double(w[std::size_t((tap * C + c) * O + o)]));
    }
    return s;
  });
}

SECTILE_CASE("computed-operand") {
  Operands<bf16> p(run);
  launch(run, computed, p.flops(), p.A.view(p.M, p.K), p.B.view(p.K, p.N), p.C.view(p.M, p.N), 0.7f);
  compare(run, p.C, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < p.K; ++k) {
      const float a = float(p.a[std::size_t(i / p.N * p.K + k)]);
      s.add(double(bf16(std::max(a, 0.0f) * 0.7f)) * double(p.b[std::size_t(k * p.N + i % p.N)]));
    }
    return s;
  });
}

SECTILE_CASE("int8-weights") {
  Operands<bf16> p(run);
  const std::vector<i8> w = normal<i8>(p.K * p.N, 3, 40);
  const std::vector<f32> scales =
      make<f32>(p.N, [](std::int64_t n) { return 0.01f + 0.001f * float(n % 17); });
  Guarded<i8> W(run, w);
  Guarded<f32> S(run, scales);
  launch(run, weightOnly, p.flops(), p.A.view(p.M, p.K), W.view(p.K, p.N), S.view(1, p.N),
         p.C.view(p.M, p.N));
  compare(run, p.C, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < p.K; ++k)
      s.add(double(p.a[std::size_t(i / p.N * p.K + k)]) * double(w[std::size_t(k * p.N + i % p.N)]));
    const double scale = scales[std::size_t(i % p.N)];
    return Want(s.value * scale, s.error() * scale + 0x1p-23 * std::abs(s.value * scale));
  });
}

namespace {
/// `shared`: one B for all of the batch.
template <class K> void batchCase(Run &run, const K &kernel, bool shared) {
  const std::int64_t Z = size(run, 3, 16), M = size(run, 150, 2048), N = size(run, 72, 2048),
                     Depth = size(run, 100, 1024);
  const std::vector<bf16> a = normal<bf16>(Z * M * Depth, 1),
                          b = normal<bf16>((shared ? 1 : Z) * Depth * N, 2);
  Guarded<bf16> A(run, a), B(run, b), C(run, Z * M * N);
  const double flops = 2.0 * double(Z * M) * double(N * Depth);
  if constexpr (std::is_same_v<K, std::remove_const_t<decltype(sharedByBatch)>>)
    launch(run, kernel, flops, A.view(Z, M, Depth), B.view(Depth, N), C.view(Z, M, N));
  else
    launch(run, kernel, flops, A.view(Z, M, Depth), B.view(Z, Depth, N), C.view(Z, M, N));
  compare(run, C, [&](std::int64_t i) {
    const std::int64_t n = i % N, m = i / N % M, z = i / N / M;
    Sum s;
    for (std::int64_t k = 0; k < Depth; ++k)
      s.add(double(a[std::size_t((z * M + m) * Depth + k)]) *
            double(b[std::size_t(((shared ? 0 : z) * Depth + k) * N + n)]));
    return s;
  });
}
} // namespace

SECTILE_CASE("shared-weights") { batchCase(run, sharedByBatch, true); }
SECTILE_CASE("batched") { batchCase(run, batched, false); }

SECTILE_CASE("bias-gelu") {
  Operands<bf16> p(run);
  const double scale = 1 / std::sqrt(double(p.K));
  const std::vector<bf16> w = normal<bf16>(p.K * p.N, 3, scale), bias = normal<bf16>(p.N, 4);
  Guarded<bf16> W(run, w), Bias(run, bias);
  launch(run, biasGelu, p.flops(), p.A.view(p.M, p.K), W.view(p.K, p.N), Bias.view(1, p.N),
         p.C.view(p.M, p.N));
  compare(run, p.C, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t k = 0; k < p.K; ++k)
      s.add(double(p.a[std::size_t(i / p.N * p.K + k)]) * double(w[std::size_t(k * p.N + i % p.N)]));
    const double x = s.value + double(bias[std::size_t(i % p.N)]);
    const double value = 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    // The slope of gelu is below 1.13; near tanh = -1 its error counts against x.
    return Want(value, 1.2 * s.error() + 0x1p-20 * std::abs(x));
  });
}

SECTILE_CASE("majors/nn") { majorCase<bf16, false, false>(run); }
SECTILE_CASE("majors/nt") { majorCase<bf16, false, true>(run); }
SECTILE_CASE("majors/tn") { majorCase<bf16, true, false>(run); }
SECTILE_CASE("majors/tt") { majorCase<bf16, true, true>(run); }
SECTILE_CASE("short-k") { majorCase<bf16, false, false>(run, 0, 24); }
SECTILE_CASE("f16") { majorCase<f16, false, true>(run); }
// Each operand is off by half a unit of 10 fraction bits.
SECTILE_CASE("tf32") { majorCase<f32, false, true, MmaPolicy::tf32>(run, 0x1p-10); }
SECTILE_CASE("f32") { majorCase<f32, false, true>(run); }
