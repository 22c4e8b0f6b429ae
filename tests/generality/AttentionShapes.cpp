// SPDX-License-Identifier: Apache-2.0
/// \file Attention over lengths, head dims, tiles and orders in memory; sequences of uneven lengths.
#include "tests/generality/Attention.h"

using namespace generality;
using sample::Variant;

namespace {

Problem sized(Run &run, std::int64_t d, std::int64_t dv = 0) {
  Problem p;
  p.B = 1;
  p.d = d;
  p.dv = dv;
  p.Sq = size(run, 70, 1000);
  p.Sk = size(run, 90, 1000);
  // Between powers of two the tile is as wide as the head; the kernel's own choice would be the next power.
  p.D = std::max(d, dv);
  if (!isReal(run)) {
    p.BM = 64;
    p.BN = 32;
  }
  return p;
}

/// Sequences of these lengths (queries, keys) one after the other, in the order of axes of the packed layout.
template <class T, auto variant, Align align>
void packedCase(Run &run, const std::vector<std::pair<int, int>> &lengths, std::int64_t d, const Host &host) {
  constexpr std::int64_t H = 2;
  std::vector<i32> queryStarts{0}, keyStarts{0};
  std::int64_t longest = 1;
  for (auto [queries, keys] : lengths) {
    queryStarts.push_back(queryStarts.back() + queries);
    keyStarts.push_back(keyStarts.back() + keys);
    longest = std::max<std::int64_t>(longest, queries);
  }
  const Layout q = layout(Order::bshd, 1, H, queryStarts.back(), d),
               k = layout(Order::bshd, 1, H, keyStarts.back(), d);
  Operand<T> Q(run, q, operandNumbers<T>(q.count, 1)), K(run, k, operandNumbers<T>(k.count, 2)),
      V(run, k, operandNumbers<T>(k.count, 3));
  Guarded<T> O(run, q.count);
  Guarded<f32> Lse(run, std::int64_t(lengths.size()) * H * longest);
  Guarded<i32> starts(run, queryStarts), others(run, keyStarts);
  const float scale = static_cast<float>(1 / std::sqrt(double(d)));
  Problem p;
  p.BM = 64;
  p.BN = 32;
  launchWith(run, sample::packedAttention<T, variant, align>, configOf(p), 0, Q.view(), K.view(), V.view(),
             Tensor<T, 4>(O.data(), q.dims, q.strides), Lse.view(lengths.size(), H, longest),
             starts.view(lengths.size() + 1), others.view(lengths.size() + 1), scale);
  const std::vector<T> got = O.get();
  const std::vector<f32> lse = Lse.get();
  run.check(O.guardsHold() && Lse.guardsHold(), "guard bytes were written");
  for (std::size_t b = 0; b < lengths.size(); ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < longest; ++i) {
        const float l = lse[(b * H + std::size_t(h)) * std::size_t(longest) + std::size_t(i)];
        if (i >= lengths[b].first) {
          run.check(std::isnan(l),
                    fmt::format("sequence {} log-sum-exp {} behind its end was written: {}", b, i, l));
          continue;
        }
        const std::int64_t q0 = queryStarts[b], k0 = keyStarts[b];
        const std::int64_t shift = align == Align::end ? lengths[b].second - lengths[b].first : 0;
        auto score = [&](double s, std::int64_t j) {
          return host.score(s, std::int64_t(b), h, i + shift, j);
        };
        auto weight = [](std::int64_t) { return 1.0; };
        const sample::HostVariant<decltype(score), decltype(weight)> onHost{score, weight,
                                                                            sample::rounding<T>};
        const auto want = sample::attentionRow(
            lengths[b].second, d, d, scale, [&](auto x) { return Q(0, h, q0 + i, x); },
            [&](auto j, auto x) { return K(0, h, k0 + j, x); },
            [&](auto j, auto x) { return V(0, h, k0 + j, x); }, onHost);
        compareRow<T>(
            run, want, 1, [&](auto x) { return double(got[std::size_t(q.at(0, h, q0 + i, x))]); }, l,
            fmt::format("sequence {} head {} query {}", b, h, i));
      }
}

template <class T> void lengthsOf(Run &run, std::int64_t Sq, std::int64_t Sk) {
  Problem p;
  p.Sq = Sq;
  p.Sk = Sk;
  p.H = p.HK = 1;
  if (!isReal(run)) {
    p.BM = 64;
    p.BN = 64;
  }
  variantCase<T, sample::causal, Align::end>(run, p, causalHost());
  variantCase<T>(run, p, {});
}

void tiles(Run &run, int BM, int BN) {
  if (!run.ptxFolder.empty() && BM == 192)
    run.skip("three warpgroups with sums of 192 rows have too few registers");
  Problem p;
  p.H = p.HK = 1;
  p.Sq = size(run, BM + 3, 600);
  p.Sk = size(run, 2 * BN + 5, 700);
  p.BM = BM;
  p.BN = BN;
  for (int stale : {0, 1}) {
    p.stale = stale;
    variantCase<bf16, sample::causal, Align::end>(run, p, causalHost());
  }
}

} // namespace

SECTILE_CASE("attention/d/16") { variantCase<bf16>(run, sized(run, 16), {}); }
SECTILE_CASE("attention/d/32") { variantCase<f16>(run, sized(run, 32), {}); }
SECTILE_CASE("attention/d/64") { variantCase<bf16>(run, sized(run, 64), {}); }
SECTILE_CASE("attention/d/72") { variantCase<bf16>(run, sized(run, 72), {}); }
SECTILE_CASE("attention/d/80") { variantCase<bf16>(run, sized(run, 80), {}); }
SECTILE_CASE("attention/d/96") { variantCase<f16, sample::causal>(run, sized(run, 96), causalHost()); }
SECTILE_CASE("attention/d/128") { variantCase<bf16>(run, sized(run, 128), {}); }
SECTILE_CASE("attention/d/192") { variantCase<bf16>(run, sized(run, 192), {}); }
SECTILE_CASE("attention/d/256") { variantCase<bf16, sample::causal>(run, sized(run, 256), causalHost()); }
SECTILE_CASE("attention/d/192/128") {
  Problem p = sized(run, 192, 128);
  p.D = 0; // of its own: 256 and 128
  variantCase<bf16, sample::causal>(run, p, causalHost());
}
SECTILE_CASE("attention/d/64/96") { // wider values, a tile that covers both
  variantCase<bf16>(run, sized(run, 64, 96), {});
}
SECTILE_CASE("attention/d/37") { // rows of odd lengths, the kernel's own tiles
  Problem p = sized(run, 37);
  p.D = 0;
  variantCase<bf16>(run, p, {});
}

SECTILE_CASE("attention/views/bshd") {
  Problem p = sized(run, 64);
  p.B = 2;
  p.orderQ = p.orderK = p.orderV = p.orderO = Order::bshd;
  variantCase<bf16>(run, p, {});
}
SECTILE_CASE("attention/views/k_across") {
  Problem p = sized(run, 64);
  p.orderK = Order::bhds;
  variantCase<bf16>(run, p, {});
}
SECTILE_CASE("attention/views/v_across") {
  Problem p = sized(run, 64);
  p.orderV = Order::bhds;
  variantCase<f16>(run, p, {});
}
SECTILE_CASE("attention/views/q_and_o_across") {
  Problem p = sized(run, 64);
  p.orderQ = p.orderO = Order::bhds;
  variantCase<bf16>(run, p, {});
}
SECTILE_CASE("attention/views/padded") { // rows start anywhere
  Problem p = sized(run, 64);
  p.orderQ = p.orderK = p.orderV = p.orderO = Order::padded;
  variantCase<bf16>(run, p, {});
}
SECTILE_CASE("attention/views/e4m3_v_across") {
  Problem p = sized(run, 64);
  p.orderV = Order::bhds;
  Guarded<f32> one(run, std::vector<f32>{1, 1});
  Host host;
  host.weightsUpTo = 256;
  variantCase<e4m3, sample::scaledHeads, Align::start, bf16>(run, p, host, one.view(2), one.view(2));
}

SECTILE_CASE("attention/lengths/1x1") { lengthsOf<bf16>(run, 1, 1); }
SECTILE_CASE("attention/lengths/1x130") { lengthsOf<bf16>(run, 1, 130); }
SECTILE_CASE("attention/lengths/65x63") { lengthsOf<f16>(run, 65, 63); }
SECTILE_CASE("attention/lengths/64x64") { lengthsOf<bf16>(run, 64, 64); }
SECTILE_CASE("attention/lengths/128x1") { lengthsOf<bf16>(run, 128, 1); }
SECTILE_CASE("attention/lengths/7x0") { lengthsOf<bf16>(run, 7, 0); }

SECTILE_CASE("attention/tiles/64x64") { tiles(run, 64, 64); }
SECTILE_CASE("attention/tiles/128x128") { tiles(run, 128, 128); }
SECTILE_CASE("attention/tiles/128x176") { tiles(run, 128, 176); }
SECTILE_CASE("attention/tiles/64x160") { tiles(run, 64, 160); }
SECTILE_CASE("attention/tiles/192x96") { tiles(run, 192, 96); }
SECTILE_CASE("attention/tiles/256x32") { tiles(run, 256, 32); }
SECTILE_CASE("attention/tiles/16x16") { tiles(run, 16, 16); }

SECTILE_CASE("attention/packed/causal") {
  packedCase<bf16, sample::causal, Align::start>(run, {{70, 70}, {1, 1}, {0, 0}, {64, 64}, {65, 65}}, 64,
                                                 causalHost());
}
SECTILE_CASE("attention/packed/uneven") { // queries without keys, keys without queries
  packedCase<f16, sample::causal, Align::end>(run, {{5, 3}, {0, 40}, {9, 0}, {3, 100}, {66, 70}}, 64,
                                              causalHost());
}
SECTILE_CASE("attention/packed/full") {
  packedCase<bf16, Variant{}, Align::start>(run, {{33, 5}, {2, 90}, {64, 0}}, 32, {});
}
