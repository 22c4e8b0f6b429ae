// SPDX-License-Identifier: Apache-2.0
// 16 fused_layer: y = r + gelu(x w + b) of three kernels, each written and usable alone. The idea: a graph of kernels is
// launched as one object, and kernels whose programs and tiles agree become one, so that what lies between them never meets
// memory.
#include "samples/common/Sample.h"
#include "samples/common/Sums.h"

// 1. Kernels: `matmulOf` of 04, `addBiasGelu` and `addTensors`
#include "samples/16_fused_layer/kernels.h"

#include <sectile/Graph.h>

using namespace sectile;

namespace {

constexpr auto matmul = sample::matmulOf<bf16>;

struct Layer {
  Tensor<const bf16, 2> x, w;
  Tensor<const bf16, 1> b;
  Tensor<const bf16, 2> r;
  Tensor<bf16, 2> y;
};

Composed build(const Layer &layer, Fuse how) {
  Graph g("layer");
  auto h = sample::addBiasGelu(matmul(g.input(layer.x), g.input(layer.w)), g.input(layer.b));
  g.output(sample::addTensors(g.input(layer.r), h), layer.y);
  return g.build(how);
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    const sample::Options options = sample::parse(argc, argv, "y = r + gelu(x w + b), one kernel of three");
    const std::int64_t M = options.small ? 70 : 8192, N = options.small ? 150 : 4096, K = options.small ? 100 : 4096;
    if (!options.emit.empty()) {
      const Layer nowhere{{nullptr, {M, K}}, {nullptr, {K, N}}, {nullptr, {N}}, {nullptr, {M, N}}, {nullptr, {M, N}}};
      return sample::emit(options, {{"layer", [&] { return build(nowhere, fuse::require).emit(options.emit, options.arch); }},
                                    {"bias_gelu", [&] { return build(nowhere, fuse::none).emit(options.emit, options.arch, 1); }},
                                    {"add", [&] { return build(nowhere, fuse::none).emit(options.emit, options.arch, 2); }}});
    }
    Stream stream = sample::device(options).stream();
    const auto x = sample::normal<bf16>(M * K, 1), w = sample::normal<bf16>(K * N, 2), b = sample::normal<bf16>(N, 3),
               r = sample::normal<bf16>(M * N, 4);
    Buffer<bf16> X(stream, M, K), W(stream, K, N), B(stream, N), R(stream, M, N), Y(stream, M, N);
    X.copyFrom(x);
    W.copyFrom(w);
    B.copyFrom(b);
    R.copyFrom(r);
    const Layer layer{X, W, B, R, Y};

    // 3. Host reference in double on sampled rows (every row when small), 4. compare: the error of sums in f32, the slope of
    // gelu, one rounding at the end, and one behind each kernel where they are apart
    const Composed fused = build(layer, fuse::automatic), apart = build(layer, fuse::none);
    fmt::print("{}", fused.explain());
    for (bool isFused : {true, false}) {
      Y.fillBytes(0xFF);
      (isFused ? fused : apart)(stream);
      const std::vector<bf16> y = Y.toHost();
      sample::Comparison compare;
      sample::Sums sums(N);
      for (std::int64_t m = 0; m < M; m += options.small ? 1 : M / 64 | 1) {
        sums.clear();
        for (std::int64_t k = 0; k < K; ++k)
          sums.add(x[m * K + k], &w[k * N]);
        for (std::int64_t n = 0; n < N; ++n) {
          constexpr double unit = 0x1p-8;
          const double sum = sums.value(n), before = sum + double(b[n]), act = gelu(before), want = double(r[m * N + n]) + act;
          const double error = 1.2 * (sums.error(n) + (isFused ? 0 : unit * std::abs(sum))) + 0x1p-20 * std::abs(before) +
                               (isFused ? 0 : unit * std::abs(act));
          compare.add(y[m * N + n], want, std::abs(want) * unit + error * (1 + unit) + 0x1p-133);
        }
      }
      if (int failed = compare.report(fmt::format("layer {} x {} x {} in {} kernels on {}", M, N, K, (isFused ? fused : apart).launches(),
                                                  stream.device().name())))
        return failed;
    }

    // 5. Time
    sample::printFlops("layer", sample::time(stream, options, [&] { fused(stream); }), 2.0 * M * N * K);
    sample::printFlops("layer, kernels apart", sample::time(stream, options, [&] { apart(stream); }), 2.0 * M * N * K);
    return 0;
  });
}
