// SPDX-License-Identifier: Apache-2.0
/// \file The kernels of the samples with products at shapes that the samples do not run: windows, moves,
/// batches, epilogues, nothing at all; and what is refused. Values are small integers where the result is
/// exact.
#include "samples/04_matmul/kernels.h"
#include "samples/05_batched_matmul/kernels.h"
#include "samples/06_convolution/kernels.h"
#include "tests/cases/Cases.h"

#include <array>

using namespace cases;

namespace {

using Dims = std::array<std::int64_t, 4>;

std::int64_t elements(const Dims &d) { return d[0] * d[1] * d[2] * d[3]; }

/// Integers in -2 .. 2.
template <class T> std::vector<T> integers(std::int64_t count, int step) {
  return make<T>(count, [&](auto i) { return (i * step + i / 7) % 5 - 2; });
}

template <class T>
void convolve(Run &run, const Dims &images, const Dims &weights, sample::Moves moves,
              bool schedules = false) {
  const Dims results = sample::convolutionShape(images, weights, moves);
  const auto x = integers<T>(elements(images), 3), w = integers<T>(elements(weights), 2);
  Guarded<T> X(run, x), W(run, w), Y(run, elements(results));
  std::vector<T> want;
  for (std::int64_t i = 0; i < elements(results); ++i) {
    const std::int64_t o = i % results[3], column = i / results[3] % results[2],
                       row = i / results[3] / results[2] % results[1];
    const std::int64_t image = i / results[3] / results[2] / results[1];
    double sum = 0;
    for (std::int64_t dy = 0; dy < weights[0]; ++dy)
      for (std::int64_t dx = 0; dx < weights[1]; ++dx) {
        const std::int64_t r = row * moves.stride + dy * moves.dilation - moves.padding;
        const std::int64_t q = column * moves.stride + dx * moves.dilation - moves.padding;
        if (r < 0 || r >= images[1] || q < 0 || q >= images[2])
          continue;
        for (std::int64_t c = 0; c < images[3]; ++c)
          sum += double(x[std::size_t(((image * images[1] + r) * images[2] + q) * images[3] + c)]) *
                 double(w[std::size_t(((dy * weights[1] + dx) * weights[2] + c) * weights[3] + o)]);
      }
    want.push_back(number<T>(sum));
  }
  auto launch = [&](const Config &config) {
    sample::convolution<T>.with(config)(
        run.stream(), Tensor<const T, 4>(X.data(), images), Tensor<const T, 4>(W.data(), weights),
        Tensor<T, 4>(Y.data(), results), moves.stride, moves.padding, moves.dilation);
  };
  auto verify = [&] {
    run.same(Y.get(), want, fmt::format("window {} x {}, stride {}", weights[0], weights[1], moves.stride));
  };
  if (schedules)
    run.sweepPipelines({&Y}, launch, verify, run.isGpu() ? 5 : 1);
  else
    run.byDefault({&Y}, launch, verify, run.isGpu() ? 5 : 1);
}

template <class T> void windows(Run &run) {
  convolve<T>(run, {2, 7, 9, 5}, {3, 3, 5, 7}, {.padding = 1}, true);
  convolve<T>(run, {1, 7, 9, 16}, {1, 1, 16, 24}, {});
  convolve<T>(run, {3, 12, 20, 8}, {3, 3, 8, 16}, {.stride = 2, .padding = 1}, true);
  convolve<T>(run, {1, 10, 17, 4}, {2, 3, 4, 8}, {.stride = 3}); // further than the window
  convolve<T>(run, {1, 11, 13, 8}, {3, 3, 8, 8}, {.padding = 4, .dilation = 3});
  convolve<T>(run, {2, 5, 5, 3}, {5, 5, 3, 4}, {});                   // one window per image
  convolve<T>(run, {1, 4, 6, 2}, {3, 1, 2, 2}, {.padding = 5});       // windows of padding alone
  convolve<T>(run, {1, 19, 35, 70}, {3, 3, 70, 130}, {.padding = 1}); // tails of all tiles
  convolve<T>(run, {1, 19, 35, 70}, {3, 3, 70, 130}, {.stride = 2, .padding = 2, .dilation = 2});
  convolve<T>(run, {0, 7, 9, 5}, {3, 3, 5, 7}, {.padding = 1}); // no images
  convolve<T>(run, {1, 7, 9, 0}, {3, 3, 0, 7}, {.padding = 1}); // no channels: zeros
}

/// A product of the sample's kernel; `want(sum, m, n)` is the exact result.
template <class T, class Out, auto epilogue, class Want, class... More>
void epilogueCase(Run &run, std::int64_t M, std::int64_t N, std::int64_t K, Want want,
                  const Tensor<More, 1> &...more) {
  Guarded<T> a(run, integers<T>(M * K, 3)), b(run, integers<T>(K * N, 2));
  Guarded<Out> c(run, M * N);
  const auto x = a.get(), y = b.get();
  std::vector<Out> values;
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < K; ++k)
        sum += double(x[std::size_t(m * K + k)]) * double(y[std::size_t(n * K + k)]);
      values.push_back(number<Out>(want(sum, m, n)));
    }
  run.sweepPipelines(
      {&c},
      [&](const Config &config) { // B by columns
        sample::matmulOf<T, Out, epilogue>.with(config)(
            run.stream(), a.view(M, K), Tensor<const T, 2>(b.data(), {K, N}, {1, K}), c.view(M, N), more...);
      },
      [&] { run.same(c.get(), values, fmt::format("{} x {} x {}", M, N, K)); }, run.isGpu() ? 10 : 2);
}

double leakySlope(double x) { return x < 0 ? x / 4 : x; }
constexpr auto leaky = [](Tile sums, Tile, Tile, Scalar<f32> slope) { return max(sums, sums * slope); };
/// What an epilogue knows of its place: the result is the number of its row or column where the sum is
/// dropped.
constexpr auto place = [](Tile sums, Tile m, Tile n) {
  const int height = sums.length(0), width = sums.length(1);
  return sums * 0.0f + cast<f32>((m + iota(height, 1)) * 1000 + n + iota(1, width));
};

} // namespace

SECTILE_CASE("samples/convolution/bf16") { windows<bf16>(run); }
SECTILE_CASE("samples/convolution/f16") { windows<f16>(run); }
SECTILE_CASE("samples/convolution/f32") { windows<f32>(run); }
SECTILE_CASE("samples/convolution/refused") {
  auto refused = [&](const Dims &images, const Dims &weights, sample::Moves moves,
                     std::vector<std::string> parts) {
    parts.insert(parts.end(), {"SampleCases.cpp:", "convolution_shape"});
    run.refused([&] { sample::convolutionShape(images, weights, moves); }, parts, parts[0]);
  };
  refused({1, 4, 4, 8}, {3, 3, 9, 8}, {}, {"8 channels", "9"});
  refused({1, 4, 4, 8}, {3, 3, 8, 8}, {.stride = 0}, {"stride 0", "at least 1"});
  refused({1, 4, 4, 8}, {3, 3, 8, 8}, {.padding = -1}, {"padding -1", "at least 0"});
  refused({1, 4, 4, 8}, {3, 3, 8, 8}, {.dilation = 0}, {"dilation 0", "at least 1"});
  refused({1, 4, 4, 8}, {3, 3, 8, 8}, {.dilation = 3}, {"7 pixels", "4 with the padding"});
  refused({1, 2, 9, 8}, {3, 3, 8, 8}, {}, {"3 pixels", "2 with the padding"});
  refused({1, 4, 4, 8}, {0, 3, 8, 8}, {}, {"window", "4 with the padding"});
  // By the kernel itself.
  Guarded<f32> x(run, std::vector<f32>(128, 1)), w(run, std::vector<f32>(9 * 8 * 8, 1)), y(run, 128);
  const Tensor<const f32, 4> X(x.data(), {1, 4, 4, 8}), W(w.data(), {3, 3, 8, 8}),
      none(nullptr, {3, 3, 8, 8});
  const Tensor<f32, 4> Y(y.data(), {1, 4, 4, 8});
  auto &kernel = sample::convolution<f32>;
  run.refused([&] { kernel(run.stream(), X, none, Y, 1, 1, 1); }, {"null_pointer", "argument 1"},
              "weights without memory");
  run.refused([&] { kernel(run.stream(), X, W, Y, std::int64_t(1) << 40, 1, 1); },
              {"launch_number", "1099511627776"}, "a stride that no i32 holds");
  run.refused(
      [&] {
        kernel(run.stream(), X, W, Tensor<f32, 4>(y.data(), {1, 4, 4, 8}, {128, 32, 0, 1}), 1, 1, 1);
      },
      {"arg_strides", "axis 2"}, "a result with stride 0");
  run.check(y.guardsHold(), "guards");
}
SECTILE_CASE("samples/matmul/epilogues") {
  const auto bias = make<f32>(70, [](auto i) { return 0.25f * float(i % 8); });
  Guarded<f32> rows(run, make<f32>(130, [](auto i) { return i % 2 ? 0.5f : 2.0f; })), columns(run, bias);
  Guarded<f32> one(run, std::vector<f32>{0.5f}), other(run, std::vector<f32>{4.0f});
  const Tensor<const f32, 1> r(rows.data(), {130}), c(columns.data(), {70}), x(one.data(), {1}),
      y(other.data(), {1});
  for (std::int64_t K : {0, 1, 64, 100}) {
    epilogueCase<bf16, f32, sample::asSummed>(run, 130, 70, K, [](double s, auto, auto) { return s; });
    epilogueCase<i8, i32, sample::asSummed>(run, 130, 70, K, [](double s, auto, auto) { return s; });
    epilogueCase<f32, f32, sample::asSummed>(run, 130, 70, K, [](double s, auto, auto) { return s; });
    epilogueCase<e4m3, f32, sample::scaled>(
        run, 130, 70, K, [](double s, auto, auto) { return 2 * s; }, x, y);
    epilogueCase<f16, f32, sample::scaledByRows>(
        run, 130, 70, K,
        [&](double s, auto m, auto n) { return s * (m % 2 ? 0.5 : 2.0) * double(bias[std::size_t(n)]); }, r,
        c);
    epilogueCase<bf16, f32, place>(run, 130, 70, K,
                                   [](double, auto m, auto n) { return double(m * 1000 + n); });
  }
}
SECTILE_CASE("samples/matmul/own-epilogue") { // that of the sample's page, with a number
  Guarded<bf16> a(run, integers<bf16>(40 * 50, 3)), b(run, integers<bf16>(50 * 30, 2));
  Guarded<f32> plain(run, 40 * 30), c(run, 40 * 30);
  sample::matmulOf<bf16, f32>(run.stream(), a.view(40, 50), b.view(50, 30), plain.view(40, 30));
  sample::matmulOf<bf16, f32, leaky>(run.stream(), a.view(40, 50), b.view(50, 30), c.view(40, 30), 0.25f);
  run.stream().synchronize();
  const auto sums = plain.get();
  run.same(c.get(), make<f32>(40 * 30, [&](auto i) { return leakySlope(double(sums[std::size_t(i)])); }),
           "leaky");
}
SECTILE_CASE("samples/matmul/bias-gelu") {
  constexpr std::int64_t M = 70, N = 40, K = 24;
  Guarded<bf16> a(run, integers<bf16>(M * K, 3)), b(run, integers<bf16>(K * N, 2)),
      bias(run, integers<bf16>(N, 3));
  Guarded<f32> c(run, M * N);
  const auto x = a.get(), y = b.get(), z = bias.get();
  run.sweepPipelines(
      {&c},
      [&](const Config &config) {
        sample::matmulOf<bf16, f32, sample::biasGelu>.with(config)(run.stream(), a.view(M, K), b.view(K, N),
                                                                   c.view(M, N), bias.view(N));
      },
      [&] {
        const auto got = c.get();
        for (std::int64_t i = 0; i < M * N; ++i) {
          double v = double(z[std::size_t(i % N)]);
          for (std::int64_t k = 0; k < K; ++k)
            v += double(x[std::size_t(i / N * K + k)]) * double(y[std::size_t(k * N + i % N)]);
          const double want = 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
          run.check(std::abs(double(got[std::size_t(i)]) - want) <= 0x1p-20 * std::abs(v) + 0x1p-120,
                    fmt::format("C[{}]: {}/{}", i, got[std::size_t(i)], want));
        }
      },
      run.isGpu() ? 10 : 2);
}
SECTILE_CASE("samples/matmul/gated") {
  for (std::int64_t K : {0, 24, 100}) {
    constexpr std::int64_t M = 70, N = 40;
    Guarded<f16> a(run, integers<f16>(M * K, 3)), v(run, integers<f16>(K * N, 2)),
        w(run, integers<f16>(K * N, 4)), c(run, M * N);
    const auto x = a.get(), y = v.get(), z = w.get();
    run.sweepPipelines(
        {&c},
        [&](const Config &config) {
          sample::gatedOf<f16>.with(config)(run.stream(), a.view(M, K), v.view(K, N), w.view(K, N),
                                            c.view(M, N));
        },
        [&] {
          const auto got = c.get();
          for (std::int64_t i = 0; i < M * N; ++i) {
            double gate = 0, up = 0;
            for (std::int64_t k = 0; k < K; ++k) {
              gate += double(x[std::size_t(i / N * K + k)]) * double(y[std::size_t(k * N + i % N)]);
              up += double(x[std::size_t(i / N * K + k)]) * double(z[std::size_t(k * N + i % N)]);
            }
            const double want = gate / (1 + std::exp(-gate)) * up;
            run.check(std::abs(double(got[std::size_t(i)]) - want) <= 0x1p-10 * std::abs(want) + 0x1p-24,
                      fmt::format("C[{}] for {}: {}/{}", i, K, float(got[std::size_t(i)]), want));
          }
        },
        run.isGpu() ? 10 : 2);
  }
}
SECTILE_CASE("samples/batched") {
  constexpr std::int64_t M = 70, N = 40;
  for (auto [Z, K] : {std::pair<std::int64_t, std::int64_t>{1, 100}, {5, 33}, {3, 0}, {0, 16}}) {
    Guarded<bf16> a(run, integers<bf16>(Z * M * K, 3)), b(run, integers<bf16>(Z * K * N, 2)),
        c(run, Z * M * N);
    const auto x = a.get(), y = b.get();
    auto check = [&](std::array<std::int64_t, 3> left, std::array<std::int64_t, 3> right, const char *what,
                     std::int64_t first = 0) {
      run.sweepPipelines(
          {&c},
          [&](const Config &config) {
            sample::batchedMatmul<bf16>.with(config)(
                run.stream(), Tensor<const bf16, 3>(a.data() + first, {Z, M, K}, left),
                Tensor<const bf16, 3>(b.data(), {Z, K, N}, right), c.view(Z, M, N));
          },
          [&] {
            run.same(c.get(),
                     make<bf16>(
                         Z * M * N,
                         [&](auto i) {
                           const std::int64_t n = i % N, m = i / N % M, z = i / N / M;
                           double sum = 0;
                           for (std::int64_t k = 0; k < K; ++k)
                             sum += double(x[std::size_t(first + z * left[0] + m * left[1] + k * left[2])]) *
                                    double(y[std::size_t(z * right[0] + k * right[1] + n * right[2])]);
                           return sum;
                         }),
                     what);
          },
          run.isGpu() ? 5 : 1);
    };
    check({M * K, K, 1}, {K * N, N, 1}, "one after the other");
    check({M * K, K, 1}, {0, N, 1}, "one B for all");
    check({K, Z * K, 1}, {K, 1, Z * K}, "heads");
    if (Z * K > 0)
      check({M * K, -K, 1}, {K * N, N, 1}, "rows from the end", (M - 1) * K);
  }
  Guarded<bf16> a(run, integers<bf16>(64, 3)), c(run, 64);
  run.refused(
      [&] {
        sample::batchedMatmul<bf16>(run.stream(), a.view(2, 4, 8), a.view(2, 8, 4),
                                    Tensor<bf16, 3>(c.data(), {2, 4, 4}, {0, 4, 1}));
      },
      {"arg_strides", "axis 0", "SampleCases.cpp:"}, "results of all members in one place");
}
