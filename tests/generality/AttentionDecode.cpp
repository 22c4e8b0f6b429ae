// SPDX-License-Identifier: Apache-2.0
/// \file Decode over contiguous and paged caches of 16 and 8 bits, by shares of the keys that are joined
/// afterwards.
#include "samples/15_paged_decode/kernels.h"
#include "tests/generality/Attention.h"

#include <random>

using namespace generality;
using sample::Find;

namespace {

/// How the pages lie in memory: heads before positions of a page, or behind them.
enum class Pages : std::uint8_t { hnd, nhd };
/// What one factor of an 8-bit cache is for.
enum class Scales : std::uint8_t { none, heads, tokens };

struct Decode {
  std::vector<int> lengths{70, 1, 0, 33, 128};
  std::int64_t HK = 2, G = 4, Sq = 1, d = 64, page = 16, shares = 3;
  Pages pages = Pages::hnd;
  Scales scales = Scales::none;
  int BN = 32, M = 16;
};

/// Numbers that a cache can hold: 8-bit integers are the numbers times 40.
template <class C> std::vector<C> cacheNumbers(std::int64_t count, unsigned seed) {
  if constexpr (std::is_integral_v<C>)
    return normal<C>(count, seed, 40);
  else
    return operandNumbers<C>(count, seed);
}

template <class T, class C, Find find> void decodeCase(Run &run, Decode p) {
  const auto B = static_cast<std::int64_t>(p.lengths.size());
  const std::int64_t longest = *std::max_element(p.lengths.begin(), p.lengths.end());
  const std::int64_t perSequence = std::max<std::int64_t>(1, (longest + p.page - 1) / p.page);
  // Pages in random order, some that nobody has; what is behind the last key of a sequence is not a number.
  std::int64_t pages = B * perSequence + 3;
  std::vector<i32> order(static_cast<std::size_t>(pages));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  const std::vector<i32> tables(order.begin(), order.begin() + std::ptrdiff_t(B * perSequence));
  const Layout cache = p.pages == Pages::hnd ? layout(Order::bhsd, pages, p.HK, p.page, p.d)
                                             : layout(Order::bshd, pages, p.HK, p.page, p.d);
  std::vector<C> hostK = cacheNumbers<C>(cache.count, 2), hostV = cacheNumbers<C>(cache.count, 3);
  std::vector<f32> kScale(static_cast<std::size_t>(pages * p.HK * p.page), 1), vScale = kScale;
  auto scaleAt = [&](std::int64_t page, std::int64_t h, std::int64_t slot) {
    return static_cast<std::size_t>((page * p.HK + h) * p.page + slot);
  };
  for (std::int64_t i = 0; i < pages; ++i)
    for (std::int64_t h = 0; h < p.HK; ++h)
      for (std::int64_t slot = 0; slot < p.page; ++slot) {
        const double by = p.scales == Scales::none    ? 1.0
                          : p.scales == Scales::heads ? 1 + double(h)
                                                      : 1 + double((i + 3 * slot) % 5);
        kScale[scaleAt(i, h, slot)] = f32(by * (std::is_integral_v<C> ? 0.025 : 0.5));
        vScale[scaleAt(i, h, slot)] = f32(by * (std::is_integral_v<C> ? 0.03125 : 0.75));
      }
  auto placeOf = [&](std::int64_t b, std::int64_t key) {
    return std::pair<std::int64_t, std::int64_t>(tables[std::size_t(b * perSequence + key / p.page)],
                                                 key % p.page);
  };
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t key = p.lengths[std::size_t(b)]; key < perSequence * p.page; ++key)
      for (std::int64_t h = 0; h < p.HK; ++h) {
        const auto [page, slot] = placeOf(b, key);
        kScale[scaleAt(page, h, slot)] = vScale[scaleAt(page, h, slot)] = qnan;
        if constexpr (!std::is_integral_v<C>)
          for (std::int64_t x = 0; x < p.d; ++x)
            hostK[std::size_t(cache.at(page, h, slot, x))] = hostV[std::size_t(cache.at(page, h, slot, x))] =
                C(qnan);
      }
  const auto [SQ, columns] = sample::rowsOf(int(p.Sq), int(p.G));
  const std::int64_t H = p.HK * p.G, rows = SQ * columns;
  // Queries are [B, Sq, H, d] in memory.
  const std::vector<T> hostQ = operandNumbers<T>(B * p.Sq * H * p.d, 1);
  Guarded<T> Q(run, hostQ), O(run, B * p.Sq * H * p.d);
  Guarded<C> K(run, hostK), V(run, hostV);
  Guarded<i32> table(run, tables), lengths(run, std::vector<i32>(p.lengths.begin(), p.lengths.end()));
  Guarded<f32> kFactor(run, kScale), vFactor(run, vScale), parts(run, B * p.HK * p.shares * rows * p.d),
      partLse(run, B * p.HK * p.shares * rows), Lse(run, B * p.HK * p.Sq * p.G);
  const float scale = static_cast<float>(1 / std::sqrt(double(p.d)));
  const std::array<std::int64_t, 5> dims{B, p.HK, p.Sq, p.G, p.d},
      strides{p.Sq * H * p.d, p.G * p.d, H * p.d, p.d, 1};
  Config config;
  config.set("BN", p.BN).set("M", p.M);
  auto withShares = [&](auto use) {
    use(Tensor<const T, 5>(Q.data(), dims, strides), Tensor<const C, 4>(K.data(), cache.dims, cache.strides),
        Tensor<const C, 4>(V.data(), cache.dims, cache.strides), table.view(B, perSequence), lengths.view(B),
        kFactor.view(pages, p.HK, p.page), vFactor.view(pages, p.HK, p.page),
        parts.view(B, p.HK, p.shares, rows, p.d), partLse.view(B, p.HK, p.shares, rows), scale, i32(p.Sq),
        i32(p.G));
  };
  if (!run.ptxFolder.empty())
    withShares([&](const auto &...args) {
      const Code code = codeOf(sizeof(T), p.M);
      writePtx(run, sample::decodeShares<T, C, find>, config, code.instruction, code.spills, args...);
    });
  withShares(
      [&](const auto &...args) { launchWith(run, sample::decodeShares<T, C, find>, config, 0, args...); });
  launchWith(run, sample::decodeJoin<T>, Config(), 0, parts.view(B, p.HK, p.shares, rows, p.d),
             partLse.view(B, p.HK, p.shares, rows), Tensor<T, 5>(O.data(), dims, strides),
             Lse.view(B, p.HK, p.Sq, p.G), i32(columns));
  const std::vector<T> got = O.get();
  const std::vector<f32> lse = Lse.get();
  run.check(O.guardsHold() && Lse.guardsHold() && parts.guardsHold() && partLse.guardsHold(),
            "guard bytes were written");
  const bool scaled = sizeof(C) == 1;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < p.Sq; ++i) {
        run.beat();
        const std::int64_t hk = h / p.G, length = p.lengths[std::size_t(b)], place = length - p.Sq + i;
        auto score = [&](double s, std::int64_t j) { return j <= place ? s : noScore; };
        auto weight = [](std::int64_t) { return 1.0; };
        auto element = [&](const std::vector<C> &x, const std::vector<f32> &factors, std::int64_t j,
                           std::int64_t c) {
          const auto [page, slot] = placeOf(b, j);
          return double(x[std::size_t(cache.at(page, hk, slot, c))]) *
                 (scaled ? double(factors[scaleAt(page, hk, slot)]) : 1.0);
        };
        const sample::HostVariant<decltype(score), decltype(weight)> onHost{score, weight,
                                                                            sample::rounding<T>};
        const auto want = sample::attentionRow(
            length, p.d, p.d, scale,
            [&](auto x) { return double(hostQ[std::size_t(((b * p.Sq + i) * H + h) * p.d + x)]); },
            [&](auto j, auto x) { return element(hostK, kScale, j, x); },
            [&](auto j, auto x) { return element(hostV, vScale, j, x); }, onHost);
        compareRow<T>(
            run, want, 1,
            [&](auto x) { return double(got[std::size_t(((b * p.Sq + i) * H + h) * p.d + x)]); },
            lse[std::size_t(((b * p.HK + hk) * p.Sq + i) * p.G + h % p.G)],
            fmt::format("sequence {} head {} query {}", b, h, i));
      }
}

Decode paged(std::int64_t page, Pages pages = Pages::hnd) {
  Decode p;
  p.page = page;
  p.pages = pages;
  return p;
}
Decode queries(std::int64_t Sq, std::int64_t G) {
  Decode p;
  p.lengths = {70, 0, 2, 40};
  p.Sq = Sq;
  p.G = G;
  return p;
}

} // namespace

SECTILE_CASE("decode/page/1") { decodeCase<bf16, bf16, Find::keys>(run, paged(1)); }
SECTILE_CASE("decode/page/1/nhd") { decodeCase<bf16, bf16, Find::keys>(run, paged(1, Pages::nhd)); }
SECTILE_CASE("decode/page/16") { decodeCase<bf16, bf16, Find::keys>(run, paged(16)); }
SECTILE_CASE("decode/page/16/nhd") { decodeCase<f16, f16, Find::keys>(run, paged(16, Pages::nhd)); }
SECTILE_CASE("decode/page/16/tiles") {
  Decode p = paged(16);
  p.BN = 16;
  decodeCase<bf16, bf16, Find::tiles>(run, p);
}
SECTILE_CASE("decode/page/64") { decodeCase<bf16, bf16, Find::tiles>(run, paged(64)); }
SECTILE_CASE("decode/page/64/nhd") { decodeCase<f16, f16, Find::tiles>(run, paged(64, Pages::nhd)); }
SECTILE_CASE("decode/page/64/keys") { decodeCase<bf16, bf16, Find::keys>(run, paged(64)); }
SECTILE_CASE("decode/page/128") { decodeCase<bf16, bf16, Find::tiles>(run, paged(128)); }
SECTILE_CASE("decode/page/128/nhd") { decodeCase<bf16, bf16, Find::tiles>(run, paged(128, Pages::nhd)); }
SECTILE_CASE("decode/contiguous") { // one page per sequence, of a length that no tile divides
  decodeCase<bf16, bf16, Find::tiles>(run, paged(131));
}
SECTILE_CASE("decode/shares/1") {
  Decode p = paged(64);
  p.shares = 1;
  decodeCase<bf16, bf16, Find::tiles>(run, p);
}
SECTILE_CASE("decode/shares/40") { // most of them have no key
  Decode p = paged(64);
  p.shares = 40;
  decodeCase<bf16, bf16, Find::tiles>(run, p);
}
SECTILE_CASE("decode/queries/2x8") { decodeCase<bf16, bf16, Find::keys>(run, queries(2, 8)); }
SECTILE_CASE("decode/queries/3x5") { decodeCase<bf16, bf16, Find::keys>(run, queries(3, 5)); }
SECTILE_CASE("decode/queries/5x1") { decodeCase<bf16, bf16, Find::keys>(run, queries(5, 1)); }
SECTILE_CASE("decode/queries/16x1") { decodeCase<f16, f16, Find::keys>(run, queries(16, 1)); }
SECTILE_CASE("decode/queries/16x8") { decodeCase<bf16, bf16, Find::keys>(run, queries(16, 8)); }
SECTILE_CASE("decode/queries/1x16") { decodeCase<bf16, bf16, Find::keys>(run, queries(1, 16)); }
SECTILE_CASE("decode/cache/e4m3/heads") {
  Decode p = paged(64);
  p.scales = Scales::heads;
  decodeCase<bf16, e4m3, Find::tiles>(run, p);
}
SECTILE_CASE("decode/cache/e4m3/tokens") {
  Decode p = paged(16);
  p.scales = Scales::tokens;
  decodeCase<bf16, e4m3, Find::keys>(run, p);
}
SECTILE_CASE("decode/cache/i8/heads") {
  Decode p = paged(16, Pages::nhd);
  p.scales = Scales::heads;
  decodeCase<bf16, i8, Find::keys>(run, p);
}
SECTILE_CASE("decode/cache/i8/tokens") {
  Decode p = paged(64);
  p.scales = Scales::tokens;
  decodeCase<f16, i8, Find::tiles>(run, p);
}
SECTILE_CASE("decode/d/96") {
  Decode p = paged(16);
  p.d = 96;
  decodeCase<bf16, bf16, Find::keys>(run, p);
}
SECTILE_CASE("decode/rows/64") { // padded to what a warpgroup multiplies
  Decode p = paged(64);
  p.M = 64;
  decodeCase<bf16, bf16, Find::tiles>(run, p);
}
SECTILE_CASE("decode/rows/64/keys") {
  Decode p = queries(3, 5);
  p.M = 64;
  decodeCase<bf16, i8, Find::keys>(run, p);
}
SECTILE_CASE("decode/d/128") {
  Decode p = paged(64);
  p.d = 128;
  p.BN = 64;
  decodeCase<bf16, bf16, Find::tiles>(run, p);
}
