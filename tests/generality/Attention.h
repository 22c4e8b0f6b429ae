// SPDX-License-Identifier: Apache-2.0
/// \file Cases of attention: operands in any order in memory, launches, references.
#pragma once

#include "samples/07_attention/reference.h"
#include "samples/07_attention/variants.h"
#include "tests/generality/Generality.h"

namespace generality {

using sample::Align;
inline constexpr double noScore = -std::numeric_limits<double>::infinity();

/// How [B, H, S, d] lies in memory: the order of the axes, the slowest first, and elements between rows that
/// are not the tensor's.
enum class Order : std::uint8_t { bhsd, bshd, bhds, padded };

struct Layout {
  std::array<std::int64_t, 4> dims, strides;
  std::int64_t count;
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t x) const {
    return b * strides[0] + h * strides[1] + s * strides[2] + x * strides[3];
  }
};
inline Layout layout(Order order, std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t d) {
  switch (order) {
  case Order::bshd:
    return {{B, H, S, d}, {S * H * d, d, H * d, 1}, B * S * H * d};
  case Order::bhds:
    return {{B, H, S, d}, {H * S * d, S * d, 1, S}, B * S * H * d};
  case Order::padded:
    return {{B, H, S, d}, {H * S * (d + 3), S * (d + 3), d + 3, 1}, B * S * H * (d + 3)};
  default:
    return {{B, H, S, d}, {H * S * d, S * d, d, 1}, B * S * H * d};
  }
}

/// A problem: shapes, orders in memory, tiles.
struct Problem {
  std::int64_t B = 1, H = 2, HK = 2, Sq = 100, Sk = 100, d = 64, dv = 0; ///< dv 0: d
  Order orderQ = Order::bhsd, orderK = Order::bhsd, orderV = Order::bhsd, orderO = Order::bhsd;
  double size = 1;           ///< standard deviation of Q
  float scale = 0;           ///< 0: 1 / sqrt(d)
  int BM = 0, BN = 0, D = 0; ///< tiles; 0: the kernel's own choice
  int stale = -1;            ///< 0 and 1: the exact or a stale maximum
  Config schedule;           ///< warps, stages and the like
  std::int64_t rows = 500;   ///< of large results, about so many are compared
};

/// A variant on the host. Positions of queries are those among the keys.
struct Host {
  using Place = std::int64_t;
  std::function<double(double s, Place b, Place h, Place q, Place k)> score = [](double s, Place, Place,
                                                                                 Place, Place) { return s; };
  std::function<double(Place h)> sink = [](Place) { return noScore; };
  std::function<double(Place b, Place h, Place q, Place k)> weight = [](Place, Place, Place, Place) {
    return 1.0;
  };
  std::function<double(Place h)> factor = [](Place) { return 1.0; }; ///< of results
  double slope = 1;                                                  ///< of scores, the steepest
  double weightsUpTo = 1; ///< the factor of weights before they are rounded
};
inline Host causalHost() {
  Host host;
  host.score = [](double s, auto, auto, auto q, auto k) { return k <= q ? s : noScore; };
  return host;
}

/// Elements in memory and on the host.
template <class T> struct Operand {
  Layout layout;
  std::vector<T> host;
  Guarded<T> memory;
  Operand(Run &run, const Layout &layout, std::vector<T> values)
      : layout(layout), host(std::move(values)), memory(run, host) {}
  Tensor<const T, 4> view() { return {memory.data(), layout.dims, layout.strides}; }
  double operator()(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t x) const {
    return double(host[static_cast<std::size_t>(layout.at(b, h, s, x))]);
  }
};

/// One row of results and its log-sum-exp against the reference. NaN agrees with NaN.
template <class Out, class Get>
void compareRow(Run &run, const sample::AttentionRow &want, double factor, Get got, double lse,
                const std::string &where) {
  for (std::size_t x = 0; x < want.value.size(); ++x) {
    const double value = want.value[x] * factor, error = want.error[x] * std::abs(factor);
    const double bound = error + sample::rounding<Out>.of(std::abs(value) + error);
    const double g = got(static_cast<std::int64_t>(x));
    run.check((std::isnan(g) && std::isnan(value)) || std::abs(g - value) <= bound,
              fmt::format("{} element {}: {} / {} +- {}", where, x, g, value, bound));
  }
  run.check(lse == want.lse || (std::isnan(lse) && std::isnan(want.lse)) ||
                std::abs(lse - want.lse) <= want.lseError,
            fmt::format("{} log-sum-exp: {} / {} +- {}", where, lse, want.lse, want.lseError));
}

inline Config configOf(const Problem &p) {
  Config config = p.schedule;
  if (p.BM)
    config.set("BM", p.BM);
  if (p.BN)
    config.set("BN", p.BN);
  if (p.D)
    config.set("D", p.D).set("DV", p.D);
  if (p.stale >= 0)
    config.set("stale", p.stale);
  return config;
}

/// Numbers of an operand; 8-bit ones are smaller, so that products stay in what scores can be.
template <class T> std::vector<T> operandNumbers(std::int64_t count, unsigned seed, double size = 1) {
  return make<T>(count, [values = normal<f32>(count, seed, size)](auto i) { return values[std::size_t(i)]; });
}

/// What the code of a case must look like: its instruction, and the most bytes of spills, which lie outside
/// loops.
struct Code {
  const char *instruction;
  int spills;
};
inline Code codeOf(std::size_t elementBytes, int BM) {
  return {BM != 0 && BM < 64 ? "nothing" : elementBytes == 2 ? "HGMMA" : "QGMMA", 256};
}

/// [B, HK * G, S, d] seen as [B, HK, G, S, d].
template <class T> Tensor<T, 5> inGroups(T *data, const Layout &l, std::int64_t HK) {
  const auto &[B, H, S, d] = l.dims;
  const auto &[b, h, s, x] = l.strides;
  return {data, {B, HK, H / HK, S, d}, {b, h * (H / HK), h, s, x}};
}

/// Launches `kernel` on random operands and compares every row (of large results about 500) with the
/// reference. `isGrouped`: the kernel takes Q, O and Lse with an axis for the heads of a group.
template <class T, class Out, Align align, bool isGrouped = false, class K, class... Extra>
void attentionCase(Run &run, const K &kernel, Problem p, const Host &host, const Extra &...extra) {
  p.dv = p.dv ? p.dv : p.d;
  const float scale = p.scale != 0 ? p.scale : static_cast<float>(1 / std::sqrt(double(p.d)));
  const Layout q = layout(p.orderQ, p.B, p.H, p.Sq, p.d), k = layout(p.orderK, p.B, p.HK, p.Sk, p.d),
               v = layout(p.orderV, p.B, p.HK, p.Sk, p.dv), o = layout(p.orderO, p.B, p.H, p.Sq, p.dv);
  Operand<T> Q(run, q, operandNumbers<T>(q.count, 1, p.size)), K_(run, k, operandNumbers<T>(k.count, 2)),
      V(run, v, operandNumbers<T>(v.count, 3));
  Guarded<Out> O(run, o.count);
  Guarded<f32> Lse(run, p.B * p.H * p.Sq);
  const std::int64_t pairs = p.B * p.H * p.Sq * p.Sk;
  auto launch = [&](const auto &queries, const auto &results, const auto &sums) {
    if (!run.ptxFolder.empty()) {
      const Code code = codeOf(sizeof(T), p.BM);
      writePtx(run, kernel, configOf(p), code.instruction, code.spills, queries, K_.view(), V.view(), results,
               sums, scale, extra...);
    }
    launchWith(run, kernel, configOf(p), 2.0 * double(pairs) * double(p.d + p.dv), queries, K_.view(),
               V.view(), results, sums, scale, extra...);
  };
  if constexpr (isGrouped)
    launch(inGroups<const T>(Q.memory.data(), q, p.HK), inGroups<Out>(O.data(), o, p.HK),
           Lse.view(p.B, p.HK, p.H / p.HK, p.Sq));
  else
    launch(Q.view(), Tensor<Out, 4>(O.data(), o.dims, o.strides), Lse.view(p.B, p.H, p.Sq));
  const std::vector<Out> got = O.get();
  const std::vector<f32> lse = Lse.get();
  run.check(O.guardsHold() && Lse.guardsHold(), "guard bytes were written");
  const std::int64_t rows = p.B * p.H * p.Sq,
                     step = pairs * (p.d + p.dv) < 100'000'000 ? 1 : (rows / p.rows) | 1;
  const std::int64_t shift = align == Align::end ? p.Sk - p.Sq : 0;
  for (std::int64_t row = 0; row < rows; row += step) {
    if (row % (16 * step) == 0)
      run.beat();
    const std::int64_t b = row / p.Sq / p.H, h = row / p.Sq % p.H, i = row % p.Sq, hk = h / (p.H / p.HK);
    auto score = [&](double s, std::int64_t j) { return host.score(s, b, h, i + shift, j); };
    auto weight = [&](std::int64_t j) { return host.weight(b, h, i + shift, j); };
    sample::Rounding rounding = sample::rounding<T>;
    rounding.tiny /= host.weightsUpTo;
    const sample::HostVariant<decltype(score), decltype(weight)> variant{
        score,        weight,     rounding,
        host.sink(h), host.slope, run.isGpu() && sizeof(T) == 1 ? sample::lostOf8Bits : 0};
    const sample::AttentionRow want = sample::attentionRow(
        p.Sk, p.d, p.dv, scale, [&](auto x) { return Q(b, h, i, x); },
        [&](auto j, auto x) { return K_(b, hk, j, x); }, [&](auto j, auto x) { return V(b, hk, j, x); },
        variant);
    compareRow<Out>(
        run, want, host.factor(h), [&](auto x) { return double(got[std::size_t(o.at(b, h, i, x))]); },
        lse[std::size_t(row)], fmt::format("batch {} head {} query {}", b, h, i));
  }
}

/// The same for a variant of the sample's kernel whose tiles have the heads of a group as rows, so many of
/// them.
template <class T, auto variant = sample::Variant{}, Align align = Align::start, class Out = T,
          class... Extra>
void groupedCase(Run &run, Problem p, int heads, const Host &host, const Extra &...extra) {
  p.schedule.set("heads", heads);
  attentionCase<T, Out, align, true>(run, sample::groupedAttention<T, variant, align, Out>, p, host,
                                     extra...);
}

/// The same for a variant of the sample's kernel.
template <class T, auto variant = sample::Variant{}, Align align = Align::start, class Out = T,
          class... Extra>
void variantCase(Run &run, const Problem &p, const Host &host, const Extra &...extra) {
  attentionCase<T, Out, align>(run, sample::attention<T, variant, align, Out>, p, host, extra...);
}

} // namespace generality
