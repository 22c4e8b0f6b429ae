// SPDX-License-Identifier: Apache-2.0
/// \file The attention suite: shapes, counts and checks of the peers' suite of this name.
#include "tests/perf/BenchAttention.h"

#include "samples/07_attention/variants.h"

namespace bench {
namespace {

using namespace sectile;

struct AttentionShape {
  std::int64_t B, H, HK, S, D;
  bool isCausal;
  std::string str() const {
    return fmt::format("B{}_H{}_HK{}_S{}_D{}_{}", B, H, HK, S, D, isCausal ? "causal" : "full");
  }
  double flops() const {
    return 4.0 * double(B) * double(H) * double(S) * double(S) * double(D) * (isCausal ? 0.5 : 1.0);
  }
};

/// What a row holds on to.
template <class T, class Out> struct AttentionMemory {
  AttentionShape s;
  std::vector<T> hostQ, hostK, hostV;
  std::vector<Buffer<T>> q, k, v;
  std::vector<Buffer<Out>> o;
  std::vector<Buffer<f32>> lse;
  std::vector<std::int64_t> starts;
  std::vector<double> want;
};

/// Attention at one shape. `isAcross`: V lies as [.., D, S], as 8-bit products want it. `isGrouped`: by the
/// kernel whose tiles have the heads of a group as rows.
template <class T, class Out, auto full, auto causal, bool isGrouped = false>
Row attentionRow(const Stream &stream, AttentionShape s, bool isAcross) {
  constexpr int sets = 2;
  auto m = std::make_shared<AttentionMemory<T, Out>>();
  m->s = s;
  const std::int64_t queries = s.B * s.H * s.S * s.D, keys = s.B * s.HK * s.S * s.D;
  m->hostQ = normal<T>(queries, 11);
  m->hostK = normal<T>(keys, 12);
  m->hostV = normal<T>(keys, 13);
  m->q = copies(stream, m->hostQ, sets);
  m->k = copies(stream, m->hostK, sets);
  m->v = copies(stream, m->hostV, sets);
  for (int i = 0; i < sets; ++i) {
    m->o.emplace_back(stream, s.B, s.H, s.S, s.D);
    m->lse.emplace_back(stream, s.B, s.H, s.S);
  }
  // Rows of the first and of the last head, so that every tile of 16 rows is met, of long sequences every
  // fourth.
  const std::int64_t step = s.S > 4096 ? 61 : 13;
  std::vector<std::pair<std::int64_t, std::int64_t>> rows; // head, query
  for (std::int64_t head : {std::int64_t(0), s.B * s.H - 1})
    for (std::int64_t i = 0; i < s.S; i += step)
      rows.emplace_back(head, i);
  rows.emplace_back(s.B * s.H - 1, s.S - 1);
  for (auto [head, i] : rows)
    m->starts.push_back((head * s.S + i) * s.D);
  auto keyHead = [&](std::int64_t r) {
    const std::int64_t head = rows[static_cast<std::size_t>(r)].first;
    return head / s.H * s.HK + head % s.H / (s.H / s.HK);
  };
  m->want = references(
      static_cast<std::int64_t>(rows.size()), s.D, 1 / std::sqrt(double(s.D)),
      [&](auto r, auto x) {
        return double(m->hostQ[static_cast<std::size_t>(m->starts[static_cast<std::size_t>(r)] + x)]);
      },
      [&](auto r, auto j, auto x) {
        return double(m->hostK[static_cast<std::size_t>((keyHead(r) * s.S + j) * s.D + x)]);
      },
      [&](auto r, auto j, auto x) {
        const std::int64_t at =
            isAcross ? (keyHead(r) * s.D + x) * s.S + j : (keyHead(r) * s.S + j) * s.D + x;
        return double(m->hostV[static_cast<std::size_t>(at)]);
      },
      [&](auto r) { return s.isCausal ? rows[static_cast<std::size_t>(r)].second + 1 : s.S; },
      [](auto, auto, double score) { return score; });
  Row row;
  row.sets = sets;
  row.poison = [m] { m->o[0].fillBytes(0xFF); };
  row.error = [m](bool spoil) { return errorOf(m->o[0].toHost(), m->starts, m->s.D, m->want, spoil); };
  row.prepare = [m, isAcross](const Config &config, int set) -> Call {
    const AttentionShape &s = m->s;
    const auto i = static_cast<std::size_t>(set);
    const std::array<std::int64_t, 4> queries{s.B, s.H, s.S, s.D}, keys{s.B, s.HK, s.S, s.D},
        across{s.HK * s.S * s.D, s.S * s.D, 1, s.S};
    const Tensor<const T, 4> Q(m->q[i].data(), queries), K(m->k[i].data(), keys),
        V = isAcross ? Tensor<const T, 4>(m->v[i].data(), keys, across)
                     : Tensor<const T, 4>(m->v[i].data(), keys);
    const float scale = static_cast<float>(1 / std::sqrt(double(s.D)));
    auto prepared = [&](const auto &kernel) {
      if constexpr (isGrouped) {
        const std::array<std::int64_t, 5> groups{s.B, s.HK, s.H / s.HK, s.S, s.D};
        return kernel.with(config).prepare(
            Tensor<const T, 5>(m->q[i].data(), groups), K, V, Tensor<Out, 5>(m->o[i].data(), groups),
            Tensor<f32, 4>(m->lse[i].data(), {s.B, s.HK, s.H / s.HK, s.S}), scale);
      } else {
        return kernel.with(config).prepare(Q, K, V, m->o[i], m->lse[i], scale);
      }
    };
    constexpr auto start = sample::Align::start;
    auto choose = [&]() -> Prepared {
      if constexpr (isGrouped)
        return s.isCausal ? prepared(sample::groupedAttention<T, causal, start, Out>)
                          : prepared(sample::groupedAttention<T, full, start, Out>);
      else
        return s.isCausal ? prepared(sample::attention<T, causal, start, Out>)
                          : prepared(sample::attention<T, full, start, Out>);
    };
    const Prepared call = choose();
    return [call](const Stream &stream) { call(stream); };
  };
  return row;
}

struct AttentionRows {
  std::string op, dtype;
  double tolerance;
  std::vector<AttentionShape> shapes;
  std::function<Row(const Stream &, AttentionShape)> make;
};

std::vector<AttentionRows> attentionRows(bool quick) {
  auto dense = [&](std::int64_t D) {
    std::vector<AttentionShape> all;
    for (std::int64_t S :
         quick ? std::vector<std::int64_t>{2048, 8192} : std::vector<std::int64_t>{8192, 2048, 16384, 512})
      for (bool isCausal : {true, false})
        all.push_back({16384 / S, 2048 / D, 2048 / D, S, D, isCausal});
    return all;
  };
  std::vector<AttentionShape> bf{{2, 32, 8, 8192, 128, true}, {2, 32, 8, 8192, 128, false}};
  for (std::int64_t D : {128, 64, 256})
    for (const AttentionShape &s : dense(D))
      bf.push_back(s);
  return {{"attn_fwd", "bf16", 1.2e-2, bf,
           [](const Stream &stream, AttentionShape s) {
             return attentionRow<bf16, bf16, sample::Variant{}, sample::causal>(stream, s, false);
           }},
          {"attn_grouped",
           "bf16",
           1.2e-2,
           {{2, 32, 8, 8192, 128, true}, {2, 32, 8, 8192, 128, false}, {64, 32, 8, 256, 128, true}},
           [](const Stream &stream, AttentionShape s) {
             return attentionRow<bf16, bf16, sample::Variant{}, sample::causal, true>(stream, s, false);
           }},
          {"attn_fwd",
           "bf16",
           1.2e-2,
           {{64, 32, 8, 256, 128, true}},
           [](const Stream &stream, AttentionShape s) {
             return attentionRow<bf16, bf16, sample::Variant{}, sample::causal>(stream, s, false);
           }},
          {"attn_fwd",
           "fp16",
           5e-3,
           {{2, 16, 16, 8192, 128, true}, {2, 16, 16, 8192, 128, false}},
           [](const Stream &stream, AttentionShape s) {
             return attentionRow<f16, f16, sample::Variant{}, sample::causal>(stream, s, false);
           }},
          {"attn_fwd",
           "fp8e4m3",
           8e-2,
           {{2, 16, 16, 8192, 128, true},
            {2, 16, 16, 8192, 128, false},
            {8, 32, 32, 2048, 64, true},
            {1, 16, 16, 16384, 128, false}},
           [](const Stream &stream, AttentionShape s) {
             return attentionRow<e4m3, bf16, sample::Variant{}, sample::causal>(stream, s, true);
           }}};
}

/// What is tried for a head dim, behind the default.
std::vector<Config> attentionConfigs(const Options &options, const AttentionShape &s, bool isEightBits) {
  std::vector<Config> all;
  for (const std::string &text : options.configs)
    all.push_back(parseConfig(text));
  if (!all.empty())
    return all;
  struct Choice {
    int m, n, warps, stages, stale;
  };
  std::vector<Choice> choices{{128, 128, 8, 0, 1}, {128, 128, 8, 2, 1}, {128, 128, 8, 0, 0},
                              {128, 64, 8, 0, 1},  {128, 176, 8, 2, 0}, {64, 128, 4, 0, 1},
                              {64, 64, 4, 0, 1}};
  if (s.D <= 64)
    choices = {{128, 128, 8, 0, 1}, {128, 128, 8, 3, 1}, {128, 192, 8, 0, 1}, {128, 96, 8, 0, 1},
               {128, 128, 8, 0, 0}, {64, 128, 4, 0, 1}};
  if (s.D > 128)
    choices = {
        {128, 64, 8, 0, 1}, {128, 80, 8, 0, 1}, {128, 64, 8, 2, 0}, {128, 32, 8, 0, 1}, {64, 64, 4, 0, 1}};
  all.emplace_back();
  for (const Choice &c : choices) {
    Config config;
    config.set("BM", c.m).set("BN", c.n);
    if (!isEightBits)
      config.set("stale", c.stale);
    config.warps = c.warps;
    config.stages = c.stages;
    config.blocks = c.warps == 4 ? 2 : 0; // one warpgroup alone leaves half of the registers to another block
    all.push_back(config);
  }
  return all;
}

} // namespace

void attentionSuite(Gpu &gpu, Output &out, const Options &options) {
  SuiteRows rows(out, options);
  for (const AttentionRows &kind : attentionRows(options.quick))
    for (const AttentionShape &s : kind.shapes)
      rows.each(kind.op, kind.dtype, s.str(), [&] {
        Case test;
        test.info = {.suite = "attention", .op = kind.op, .dtype = kind.dtype, .shape = s.str()};
        test.info.flops = s.flops();
        test.tolerance = kind.tolerance;
        measure(gpu, out, options, test, kind.make(gpu.stream(), s),
                attentionConfigs(options, s, kind.dtype == "fp8e4m3"));
      });
  variantRows(gpu, out, options, rows);
}

void attentionChecks(Output &out, const Options &options) {
  const Stream stream = Device::interpreter().stream();
  SuiteRows rows(out, options);
  int checked = 0;
  for (const AttentionRows &kind : attentionRows(false))
    for (bool isCausal : {true, false}) {
      const AttentionShape s{2, 4, 2, 150, 64, isCausal};
      rows.each(kind.op, kind.dtype, s.str(), [&] {
        checkRow(out, kind.op + " " + kind.dtype + " " + s.str(), kind.make(stream, s), stream,
                 kind.tolerance);
        ++checked;
      });
    }
  checked += variantChecks(out, rows, stream) + decodeChecks(out, rows, stream);
  out.say(fmt::format("{} kinds of attention and decode checked on the interpreter", checked));
}

} // namespace bench
