// SPDX-License-Identifier: Apache-2.0
/// \file The attention and decode suites: shapes, counts and checks of the peers' suites of these names.
#include "tests/perf/Bench.h"

#include "samples/07_attention/variants.h"
#include "samples/15_paged_decode/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

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

/// One operation at one shape on one stream; it owns its memory.
struct Row {
  int sets = 1;
  std::function<void()> poison;      ///< fills set 0's result with bytes 0xFF
  std::function<double(bool)> error; ///< of set 0's result; with true, of that with one wrong element
  std::function<Call(const Config &, int set)> prepare;
};

/// Rows of results by softmax(scale q k^T) v in double. q(r, x), k(r, j, x) and v(r, j, x) are elements for
/// row r, which sees keys(r) keys.
template <class Q, class K, class V, class Keys>
std::vector<double> references(std::int64_t rows, std::int64_t d, double scale, Q q, K k, V v, Keys keys) {
  std::vector<double> all(static_cast<std::size_t>(rows * d));
  parallel(rows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> s, mine(static_cast<std::size_t>(d));
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t n = keys(r);
      s.assign(static_cast<std::size_t>(n), 0);
      for (std::int64_t x = 0; x < d; ++x)
        mine[static_cast<std::size_t>(x)] = q(r, x) * scale;
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t x = 0; x < d; ++x)
          sum += mine[static_cast<std::size_t>(x)] * k(r, j, x);
        s[static_cast<std::size_t>(j)] = sum;
        top = std::max(top, sum);
      }
      double *out = &all[static_cast<std::size_t>(r * d)];
      for (std::int64_t j = 0; j < n; ++j) {
        const double p = std::exp(s[static_cast<std::size_t>(j)] - top);
        total += p;
        for (std::int64_t x = 0; x < d; ++x)
          out[x] += p * v(r, j, x);
      }
      for (std::int64_t x = 0; x < d; ++x)
        out[x] /= total;
    }
  });
  return all;
}

/// Relative Frobenius error of the rows of `got` that start at `starts`; with `spoil` one element is off.
template <class T>
double errorOf(const std::vector<T> &got, const std::vector<std::int64_t> &starts, std::int64_t d,
               const std::vector<double> &want, bool spoil) {
  return relativeError(static_cast<std::int64_t>(starts.size()), [&](std::int64_t r, double &e, double &sum) {
    for (std::int64_t x = 0; x < d; ++x) {
      const double w = want[static_cast<std::size_t>(r * d + x)];
      double g = double(got[static_cast<std::size_t>(starts[static_cast<std::size_t>(r)] + x)]);
      if (spoil && r == 0 && x == 0)
        g += 100;
      e += (g - w) * (g - w);
      sum += w * w;
    }
  });
}

/// Set i of a tensor holds the same numbers as the others, in memory of its own.
template <class T>
std::vector<Buffer<T>> copies(const Stream &stream, const std::vector<T> &values, int sets) {
  std::vector<Buffer<T>> all;
  for (int i = 0; i < sets; ++i)
    all.emplace_back(stream, static_cast<std::int64_t>(values.size())).copyFrom(values);
  return all;
}

/// 8-bit weights are taken up to 256.
constexpr sample::Variant wide{.weight = [](Tile p, At) { return p * 256.0f; },
                               .result = [](Tile o, At) { return o * (1.0f / 256); }};
constexpr sample::Variant wideCausal{
    .mask = sample::past, .reach = sample::upToLast, .weight = wide.weight, .result = wide.result};

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

/// Attention at one shape. `isAcross`: V lies as [.., D, S], as 8-bit products want it.
template <class T, class Out, auto full, auto causal>
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
      [&](auto r) { return s.isCausal ? rows[static_cast<std::size_t>(r)].second + 1 : s.S; });
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
    const Prepared call = s.isCausal
                              ? sample::attention<T, causal, sample::Align::start, Out>.with(config).prepare(
                                    Q, K, V, m->o[i], m->lse[i], scale)
                              : sample::attention<T, full, sample::Align::start, Out>.with(config).prepare(
                                    Q, K, V, m->o[i], m->lse[i], scale);
    return [call](const Stream &stream) { call(stream); };
  };
  return row;
}

struct AttentionRows {
  std::string dtype;
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
  return {{"bf16", 1.2e-2, bf,
           [](const Stream &stream, AttentionShape s) {
             return attentionRow<bf16, bf16, sample::Variant{}, sample::causal>(stream, s, false);
           }},
          {"fp16",
           5e-3,
           {{2, 16, 16, 8192, 128, true}, {2, 16, 16, 8192, 128, false}},
           [](const Stream &stream, AttentionShape s) {
             return attentionRow<f16, f16, sample::Variant{}, sample::causal>(stream, s, false);
           }},
          {"fp8e4m3",
           8e-2,
           {{2, 16, 16, 8192, 128, true},
            {2, 16, 16, 8192, 128, false},
            {8, 32, 32, 2048, 64, true},
            {1, 16, 16, 16384, 128, false}},
           [](const Stream &stream, AttentionShape s) {
             return attentionRow<e4m3, bf16, wide, wideCausal>(stream, s, true);
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
               {192, 96, 0, 0, 1},  {128, 128, 8, 0, 0}, {64, 128, 4, 0, 1}};
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
    all.push_back(config);
  }
  return all;
}

/// A cache in pages as the peers have it: every sequence has S keys, pages lie in random order. Page S:
/// contiguous.
struct DecodeShape {
  std::int64_t B, H, HK, S, D, page;
  bool isByToken;
  std::string op() const { return page == S ? "decode_contiguous" : "decode_paged"; }
  std::string str() const {
    const std::string common = fmt::format("B{}_H{}_HK{}_S{}_D{}", B, H, HK, S, D);
    return page == S ? common : common + fmt::format("_page{}_{}", page, isByToken ? "NHD" : "HND");
  }
  double bytes() const { return 2.0 * double(B * S * HK * D) * 2; }
};

struct DecodeMemory {
  DecodeShape s;
  std::vector<bf16> hostQ, hostK, hostV;
  std::vector<i32> order;
  std::vector<Buffer<bf16>> q, k, v, o;
  std::vector<Buffer<i32>> table, lengths;
  std::vector<Buffer<f32>> parts, partLse, lse, factor;
  std::vector<std::int64_t> starts;
  std::vector<double> want;
};

constexpr std::int64_t mostShares = 8;

/// `shares` is set by hand in Config as every number is.
Row decodeRow(const Stream &stream, DecodeShape s) {
  constexpr int sets = 2;
  auto m = std::make_shared<DecodeMemory>();
  m->s = s;
  const std::int64_t perSequence = s.S / s.page, pages = s.B * perSequence, G = s.H / s.HK;
  const auto [SQ, columns] = sample::rowsOf(1, static_cast<int>(G));
  const std::int64_t rows = SQ * columns;
  m->hostQ = normal<bf16>(s.B * s.H * s.D, 21);
  m->hostK = normal<bf16>(s.B * s.HK * s.S * s.D, 22);
  m->hostV = normal<bf16>(s.B * s.HK * s.S * s.D, 23);
  for (std::int64_t i = 0; i < pages; ++i)
    m->order.push_back(static_cast<i32>(i));
  std::shuffle(m->order.begin(), m->order.end(), std::mt19937(3));
  m->q = copies(stream, m->hostQ, sets);
  m->k = copies(stream, m->hostK, sets);
  m->v = copies(stream, m->hostV, sets);
  m->table = copies(stream, m->order, 1);
  m->lengths = copies(stream, std::vector<i32>(static_cast<std::size_t>(s.B), static_cast<i32>(s.S)), 1);
  m->factor = copies(stream, std::vector<f32>{1}, 1);
  m->parts.emplace_back(stream, s.B, s.HK, mostShares, rows, s.D);
  m->partLse.emplace_back(stream, s.B, s.HK, mostShares, rows);
  m->lse.emplace_back(stream, s.B, s.HK, 1, G);
  for (int i = 0; i < sets; ++i)
    m->o.emplace_back(stream, s.B, s.HK, 1, G, s.D);
  const std::array<std::int64_t, 3> sequences{0, s.B / 2, s.B - 1};
  for (std::int64_t b : sequences)
    for (std::int64_t h = 0; h < s.H; ++h)
      m->starts.push_back((b * s.H + h) * s.D);
  auto at = [&](std::int64_t r, std::int64_t j, std::int64_t x) {
    const std::int64_t b = sequences[static_cast<std::size_t>(r / s.H)], hk = r % s.H / G;
    const std::int64_t page = m->order[static_cast<std::size_t>(b * perSequence + j / s.page)],
                       slot = j % s.page;
    const std::int64_t inPage = s.isByToken ? slot * s.HK + hk : hk * s.page + slot;
    return static_cast<std::size_t>((page * s.page * s.HK + inPage) * s.D + x);
  };
  m->want = references(
      static_cast<std::int64_t>(m->starts.size()), s.D, 1 / std::sqrt(double(s.D)),
      [&](auto r, auto x) {
        return double(m->hostQ[static_cast<std::size_t>(m->starts[static_cast<std::size_t>(r)] + x)]);
      },
      [&](auto r, auto j, auto x) { return double(m->hostK[at(r, j, x)]); },
      [&](auto r, auto j, auto x) { return double(m->hostV[at(r, j, x)]); }, [&](auto) { return s.S; });
  Row row;
  row.sets = sets;
  row.poison = [m] { m->o[0].fillBytes(0xFF); };
  row.error = [m](bool spoil) { return errorOf(m->o[0].toHost(), m->starts, m->s.D, m->want, spoil); };
  row.prepare = [m, rows, columns = columns](const Config &given, int set) -> Call {
    const DecodeShape &s = m->s;
    const auto i = static_cast<std::size_t>(set);
    const std::int64_t G = s.H / s.HK, pages = s.B * s.S / s.page, shares = given.get("shares").value_or(2);
    const std::array<std::int64_t, 4> dims{pages, s.HK, s.page, s.D},
        strides = s.isByToken ? std::array<std::int64_t, 4>{s.page * s.HK * s.D, s.D, s.HK * s.D, 1}
                              : std::array<std::int64_t, 4>{s.page * s.HK * s.D, s.page * s.D, s.D, 1};
    Config config;
    config.warps = given.warps;
    config.stages = given.stages;
    config.set("BN", given.get("BN").value_or(static_cast<int>(std::min<std::int64_t>(s.page, 64))));
    config.set("M", given.get("M").value_or(16));
    const Tensor<f32, 5> parts(m->parts[0].data(), {s.B, s.HK, shares, rows, s.D});
    const Tensor<f32, 4> partLse(m->partLse[0].data(), {s.B, s.HK, shares, rows});
    const Tensor<const f32, 3> factors(m->factor[0].data(), {pages, s.HK, s.page}, {0, 0, 0});
    auto prepared = [&](const auto &kernel) {
      return kernel.with(config).prepare(
          Tensor<const bf16, 5>(m->q[i].data(), {s.B, s.HK, 1, G, s.D}),
          Tensor<const bf16, 4>(m->k[i].data(), dims, strides),
          Tensor<const bf16, 4>(m->v[i].data(), dims, strides),
          Tensor<const i32, 2>(m->table[0].data(), {s.B, s.S / s.page}), m->lengths[0], factors, factors,
          parts, partLse, static_cast<float>(1 / std::sqrt(double(s.D))), 1, static_cast<i32>(G));
    };
    const bool isWhole = s.page % *config.get("BN") == 0 || s.page == s.S;
    const Prepared share = isWhole ? prepared(sample::decodeShares<bf16, bf16, sample::Find::tiles>)
                                   : prepared(sample::decodeShares<bf16, bf16, sample::Find::keys>);
    const Prepared join =
        sample::decodeJoin<bf16>.prepare(parts, partLse, m->o[i], m->lse[0], static_cast<i32>(columns));
    return [share, join](const Stream &stream) {
      share(stream);
      join(stream);
    };
  };
  return row;
}

std::vector<DecodeShape> decodeShapes(bool quick) {
  std::vector<DecodeShape> all;
  for (auto [S, page, isByToken] : {std::tuple<int, int, bool>{8192, 16, false},
                                    {8192, 64, false},
                                    {4096, 16, false},
                                    {4096, 64, false},
                                    {8192, 16, true},
                                    {8192, 64, true},
                                    {8192, 8192, false},
                                    {4096, 4096, false}})
    all.push_back({64, 32, 8, S, 128, page, isByToken});
  if (quick)
    all.resize(2);
  return all;
}

std::vector<Config> decodeConfigs(const Options &options, const DecodeShape &s) {
  std::vector<Config> all;
  for (const std::string &text : options.configs)
    all.push_back(parseConfig(text));
  if (!all.empty())
    return all;
  struct Choice {
    int n, m, shares, warps;
  };
  std::vector<Choice> choices{{64, 16, 1, 4}, {64, 16, 4, 4}, {64, 64, 2, 4},  {64, 64, 4, 4},
                              {32, 16, 2, 2}, {32, 16, 4, 4}, {128, 16, 2, 8}, {128, 64, 2, 4}};
  if (s.page < 64)
    choices = {{16, 16, 2, 1}, {16, 16, 4, 1}, {16, 64, 2, 4},
               {32, 16, 2, 2}, {32, 16, 4, 4}, {64, 16, 2, 4}};
  all.emplace_back();
  for (const Choice &c : choices) {
    Config config;
    config.set("BN", c.n).set("M", c.m).set("shares", c.shares);
    config.warps = c.warps;
    all.push_back(config);
  }
  return all;
}

void measure(Gpu &gpu, Output &out, const Options &options, Case test, const Row &row,
             const std::vector<Config> &configs) {
  test.sets = row.sets;
  test.poison = row.poison;
  test.error = [&] { return row.error(false); };
  for (const Config &config : configs)
    test.candidates.push_back({nameOf(config), [&, config] {
                                 std::vector<Call> calls;
                                 for (int i = 0; i < row.sets; ++i)
                                   calls.push_back(row.prepare(config, i));
                                 return calls;
                               }});
  runCase(gpu, out, options, test);
}

/// Runs `body` for each of the suite's rows that is asked for, within the budget; failures are said and
/// counted.
class Rows {
public:
  Rows(Output &out, const Options &options)
      : out(out), options(options), end(nowMicros() + options.budget * 1e6) {}
  template <class F>
  void each(const std::string &op, const std::string &dtype, const std::string &shape, F body) {
    if (!options.wants(fmt::format("{}/{}/{}", op, dtype, shape)))
      return;
    const std::string what = fmt::format("{} {} {}", op, dtype, shape);
    if (options.budget > 0 && nowMicros() > end) {
      if (!saidOver)
        out.say(fmt::format("the budget of {} s is used up: from {} on, shapes are left out", options.budget,
                            what));
      saidOver = true;
      return;
    }
    try {
      body();
    } catch (const std::exception &e) {
      out.failed(what, e.what());
    }
  }

private:
  Output &out;
  const Options &options;
  double end;
  bool saidOver = false;
};

} // namespace

void attentionSuite(Gpu &gpu, Output &out, const Options &options) {
  Rows rows(out, options);
  for (const AttentionRows &kind : attentionRows(options.quick))
    for (const AttentionShape &s : kind.shapes)
      rows.each("attn_fwd", kind.dtype, s.str(), [&] {
        Case test;
        test.info = {.suite = "attention", .op = "attn_fwd", .dtype = kind.dtype, .shape = s.str()};
        test.info.flops = s.flops();
        test.tolerance = kind.tolerance;
        measure(gpu, out, options, test, kind.make(gpu.stream(), s),
                attentionConfigs(options, s, kind.dtype == "fp8e4m3"));
      });
}

void decodeSuite(Gpu &gpu, Output &out, const Options &options) {
  Rows rows(out, options);
  for (const DecodeShape &s : decodeShapes(options.quick))
    rows.each(s.op(), "bf16", s.str(), [&] {
      Case test;
      test.info = {
          .suite = "decode", .op = s.op(), .dtype = "bf16", .shape = s.str(), .notes = "both launches"};
      test.info.bytes = s.bytes();
      test.tolerance = 1e-2;
      measure(gpu, out, options, test, decodeRow(gpu.stream(), s), decodeConfigs(options, s));
    });
}

void attentionChecks(Output &out, const Options &options) {
  const Stream stream = Device::interpreter().stream();
  int checked = 0;
  auto check = [&](const std::string &what, const Row &row, double tolerance) {
    row.poison();
    row.prepare(Config(), 0)(stream);
    stream.synchronize();
    const double error = row.error(false), spoiled = row.error(true);
    if (!(error <= tolerance))
      out.failed(what, fmt::format("relative error {:.3e} is over {:.1e}", error, tolerance));
    if (spoiled <= tolerance)
      out.failed(what, fmt::format("a wrong element goes unnoticed: relative error {:.3e}", spoiled));
    ++checked;
  };
  Rows rows(out, options);
  for (const AttentionRows &kind : attentionRows(false))
    for (bool isCausal : {true, false}) {
      const AttentionShape s{2, 4, 2, 150, 64, isCausal};
      rows.each("attn_fwd", kind.dtype, s.str(), [&] {
        check("attn_fwd " + kind.dtype + " " + s.str(), kind.make(stream, s), kind.tolerance);
      });
    }
  for (auto [page, isByToken] : {std::pair(16, false), {64, true}, {192, false}}) {
    const DecodeShape s{2, 8, 2, 192, 64, page, isByToken};
    rows.each(s.op(), "bf16", s.str(), [&] { check(s.op() + " " + s.str(), decodeRow(stream, s), 1e-2); });
  }
  out.say(fmt::format("{} kinds of attention and decode checked on the interpreter", checked));
}

} // namespace bench
