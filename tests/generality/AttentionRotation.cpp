// SPDX-License-Identifier: Apache-2.0
/// \file Attention on 8-bit operands with scales, with and without the rotation of queries and keys, on
/// numbers with outliers.
#include "samples/07_attention/rotation.h"
#include "tests/generality/Attention.h"

using namespace generality;

namespace {

/// Standard normal numbers; in every 32nd column, as in channels of trained models, they are larger.
constexpr double outlier = 8;
std::vector<bf16> withOutliers(std::int64_t count, std::int64_t d, unsigned seed) {
  const std::vector<f32> small = normal<f32>(count, seed);
  return make<bf16>(count, [&](auto i) { return small[std::size_t(i)] * (i % d % 32 == 5 ? outlier : 1); });
}

/// What rotated attention is given.
struct Rotation {
  std::int64_t H = 2, HK = 2, S = 128, d = 64;
  bool perHead = true;
};
/// Results of both kernels beside exact attention, as relative Frobenius errors.
struct Errors {
  double rotated, plain;
};

/// Scales of heads, or one, that bring the largest number of `x` [B, heads, S, d] to 448.
std::vector<f32> scalesOf(const std::vector<double> &x, std::int64_t heads, std::int64_t perHead,
                          bool isPerHead) {
  std::vector<f32> scales(std::size_t(heads), 0);
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < perHead; ++i) {
      f32 &s = scales[std::size_t(isPerHead ? h : 0)];
      s = std::max(s, float(std::abs(x[std::size_t(h * perHead + i)]) / 448));
    }
  if (!isPerHead)
    std::fill(scales.begin(), scales.end(), scales[0]);
  return scales;
}

std::vector<double> doubles(const std::vector<bf16> &x) {
  std::vector<double> all;
  for (bf16 v : x)
    all.push_back(double(v));
  return all;
}

/// Rows of d numbers, turned; D columns.
std::vector<double> turned(const std::vector<bf16> &x, const std::vector<bf16> &signs, std::int64_t d,
                           std::int64_t D) {
  std::vector<double> all(x.size() / std::size_t(d) * std::size_t(D));
  for (std::size_t row = 0; row < x.size() / std::size_t(d); ++row)
    for (std::int64_t j = 0; j < D; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < d; ++i)
        sum += double(x[row * std::size_t(d) + std::size_t(i)]) * double(signs[std::size_t(i)]) *
               (std::popcount(std::uint64_t(i & j)) % 2 ? -1 : 1);
      all[row * std::size_t(D) + std::size_t(j)] = sum / std::sqrt(double(D));
    }
  return all;
}

std::vector<e4m3> rounded(const std::vector<double> &x, const std::vector<f32> &scales) {
  const std::size_t perHead = x.size() / scales.size();
  return make<e4m3>(std::int64_t(x.size()),
                    [&](auto i) { return x[std::size_t(i)] / double(scales[std::size_t(i) / perHead]); });
}

Errors errorsOf(Run &run, const Rotation &p) {
  const std::int64_t D = std::bit_ceil(std::uint64_t(std::max<std::int64_t>(p.d, 16))), B = 1;
  const std::vector<bf16> q = withOutliers(p.H * p.S * p.d, p.d, 1),
                          k = withOutliers(p.HK * p.S * p.d, p.d, 2), v = normal<bf16>(p.HK * p.S * p.d, 3);
  const std::vector<bf16> signs = make<bf16>(D, [](auto i) { return (i * i / 3 + i) % 2 ? -1 : 1; });
  const std::vector<f32> qScale = scalesOf(turned(q, signs, p.d, D), p.H, p.S * D, p.perHead),
                         kScale = scalesOf(turned(k, signs, p.d, D), p.HK, p.S * D, p.perHead),
                         vScale = scalesOf(doubles(v), p.HK, p.S * p.d, p.perHead);
  Guarded<bf16> Q(run, q), K(run, k), sign(run, signs), O(run, p.H * p.S * p.d), plainO(run, p.H * p.S * p.d);
  Guarded<f32> ofQ(run, qScale), ofK(run, kScale), ofV(run, vScale), Lse(run, p.H * p.S);
  Guarded<e4m3> turnedK(run, p.HK * p.S * D), V(run, rounded(doubles(v), vScale));
  const float scale = static_cast<float>(1 / std::sqrt(double(p.d)));
  Config config;
  config.set("BM", 64);
  launchWith(run, sample::rotateAndQuantise<bf16>, config, 0, K.view(B, p.HK, p.S, p.d), sign.view(D),
             ofK.view(B, p.HK), turnedK.view(B, p.HK, p.S, D));
  if (!isReal(run))
    config.set("BN", 32);
  launchWith(run, sample::rotatedAttention<bf16>, config, 0, Q.view(B, p.H, p.S, p.d),
             Tensor<const e4m3, 4>(turnedK.data(), {B, p.HK, p.S, D}), V.view(B, p.HK, p.S, p.d),
             O.view(B, p.H, p.S, p.d), Lse.view(B, p.H, p.S), scale, sign.view(D), ofQ.view(B, p.H),
             ofK.view(B, p.HK), ofV.view(B, p.HK));
  // The same without a rotation: factors of queries and keys together, and of values, per head of queries.
  const std::vector<f32> plainQ = scalesOf(doubles(q), p.H, p.S * p.d, p.perHead),
                         plainK = scalesOf(doubles(k), p.HK, p.S * p.d, p.perHead);
  Guarded<e4m3> q8(run, rounded(doubles(q), plainQ)), k8(run, rounded(doubles(k), plainK));
  const std::int64_t group = p.H / p.HK;
  Guarded<f32> both(
      run, make<f32>(p.H, [&](auto h) { return plainQ[std::size_t(h)] * plainK[std::size_t(h / group)]; })),
      values(run, make<f32>(p.H, [&](auto h) { return vScale[std::size_t(h / group)]; }));
  launchWith(run, sample::attention<e4m3, sample::scaledHeads, sample::Align::start, bf16>, config, 0,
             q8.view(B, p.H, p.S, p.d), k8.view(B, p.HK, p.S, p.d), V.view(B, p.HK, p.S, p.d),
             plainO.view(B, p.H, p.S, p.d), Lse.view(B, p.H, p.S), scale, both.view(p.H), values.view(p.H));
  run.check(O.guardsHold() && Lse.guardsHold() && turnedK.guardsHold() && plainO.guardsHold(),
            "guard bytes were written");

  const std::vector<bf16> rotated = O.get(), plain = plainO.get();
  Errors e{};
  double all = 0;
  for (std::int64_t row = 0; row < p.H * p.S; ++row) {
    run.beat();
    const std::int64_t kv = row / p.S / group;
    auto at = [&](std::int64_t j, std::int64_t x) { return std::size_t((kv * p.S + j) * p.d + x); };
    auto score = [](double s, std::int64_t) { return s; };
    auto weight = [](std::int64_t) { return 1.0; };
    const sample::HostVariant<decltype(score), decltype(weight)> variant{score, weight, {}};
    const auto want = sample::attentionRow(
        p.S, p.d, p.d, scale, [&](auto x) { return double(q[std::size_t(row * p.d + x)]); },
        [&](auto j, auto x) { return double(k[at(j, x)]); },
        [&](auto j, auto x) { return double(v[at(j, x)]); }, variant);
    for (std::int64_t x = 0; x < p.d; ++x) {
      const double w = want.value[std::size_t(x)], a = double(rotated[std::size_t(row * p.d + x)]) - w,
                   c = double(plain[std::size_t(row * p.d + x)]) - w;
      e.rotated += a * a;
      e.plain += c * c;
      all += w * w;
    }
  }
  return {std::sqrt(e.rotated / all), std::sqrt(e.plain / all)};
}

void halvesErrors(Run &run, const Rotation &p) {
  const Errors e = errorsOf(run, p);
  run.check(e.rotated > 0 && 2 * e.rotated <= e.plain,
            fmt::format("error {:.4f} with the rotation, {:.4f} without", e.rotated, e.plain));
}

} // namespace

SECTILE_CASE("attention/rotated/outliers") { halvesErrors(run, {}); }
SECTILE_CASE("attention/rotated/one_scale") { halvesErrors(run, {.HK = 1, .perHead = false}); }
SECTILE_CASE("attention/rotated/d/80") {
  halvesErrors(run, {.S = 90, .d = 80});
} // turned rows are longer than heads
