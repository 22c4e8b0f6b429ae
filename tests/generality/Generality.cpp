// SPDX-License-Identifier: Apache-2.0
#include "tests/generality/Generality.h"

#include <array>
#include <random>

namespace generality {

Executor &executor() {
  static Executor chosen = nullptr;
  return chosen;
}

int &executorStages() {
  static int stages = 0;
  return stages;
}
int &executorAsync() {
  static int async = 0;
  return async;
}
int &executorMulticast() {
  static int multicast = 0;
  return multicast;
}

Reader &reader() {
  static Reader chosen = nullptr;
  return chosen;
}

template <class T> std::vector<T> normal(std::int64_t count, unsigned seed, double scale) {
  constexpr std::int64_t period = 1'000'003;
  std::mt19937_64 bits(seed);
  std::normal_distribution<double> draw;
  std::vector<T> v(static_cast<std::size_t>(count));
  const std::int64_t drawn = std::min(count, period);
  for (std::int64_t i = 0; i < drawn; ++i) {
    const double x = draw(bits) * scale;
    if constexpr (std::is_integral_v<T>)
      v[static_cast<std::size_t>(i)] = static_cast<T>(std::clamp(std::round(x), -127.0, 127.0));
    else
      v[static_cast<std::size_t>(i)] = number<T>(x);
  }
  for (std::int64_t i = drawn; i < count; ++i)
    v[static_cast<std::size_t>(i)] = v[static_cast<std::size_t>(i - period)];
  return v;
}
template std::vector<bf16> normal(std::int64_t, unsigned, double);
template std::vector<f16> normal(std::int64_t, unsigned, double);
template std::vector<f32> normal(std::int64_t, unsigned, double);
template std::vector<i8> normal(std::int64_t, unsigned, double);

namespace {

constexpr auto plainProduct =
    kernel("plain_product", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C) {
      auto [m, n] = grid(C, {BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, A.dim(1), BK))
        acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
      C.store({m, n}, cast<bf16>(acc));
    });

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

} // namespace

void printRate(Run &run, const char *name, double flops, const std::function<void()> &call) {
  constexpr std::int64_t side = 4096;
  const std::int64_t depth = std::max<std::int64_t>(1, std::llround(flops / (2.0 * side * side * BK))) * BK;
  Guarded<bf16> a(run, normal<bf16>(side * depth, 1)), b(run, normal<bf16>(depth * side, 2)),
      c(run, side * side);
  const Prepared plain = plainProduct.prepare(a.view(side, depth), b.view(depth, side), c.view(side, side));
  const std::array<std::function<void()>, 2> calls{call, [&] { plain(run.stream()); }};
  std::array<std::vector<double>, 2> micros;
  Buffer<std::uint8_t> flush(run.stream(), std::int64_t(256) << 20);
  Timer timer(run.stream());
  for (int round = -5; round < 21; ++round)
    for (std::size_t i : {0, 1}) {
      run.beat();
      flush.fillBytes(static_cast<std::uint8_t>(round));
      timer.start();
      calls[i]();
      timer.stop();
      if (const double t = timer.micros(); round >= 0)
        micros[i].push_back(t);
    }
  const double plainFlops = 2.0 * side * side * static_cast<double>(depth);
  const double rate = flops / median(micros[0]) * 1e-6, other = plainFlops / median(micros[1]) * 1e-6;
  fmt::print("rate {:<24} {:7.1f} TFLOP/s, plain product of as many flops {:7.1f}: {:.2f}x\n", name, rate,
             other, rate / other);
  std::fflush(stdout);
}

} // namespace generality
