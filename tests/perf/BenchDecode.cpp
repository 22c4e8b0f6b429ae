// SPDX-License-Identifier: Apache-2.0
/// \file The decode suite: shapes, counts and checks of the peers' suite of this name, and caches of 8 bits.
#include "tests/perf/BenchAttention.h"

#include "samples/15_paged_decode/kernels.h"

#include <map>
#include <random>

namespace bench {
namespace {

using namespace sectile;

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
  double bytes(std::size_t elementBytes) const { return 2.0 * double(B * S * HK * D) * double(elementBytes); }
};

/// Normal numbers, as 8-bit integers 40 times as large, with their factor.
template <class C> constexpr float factorOf = std::is_integral_v<C> ? 1.0f / 40 : 1.0f;
template <class C> std::vector<C> cacheNumbers(std::int64_t count, std::uint64_t seed) {
  if constexpr (std::is_integral_v<C>) {
    std::vector<C> v;
    for (float x : normal<float>(count, seed))
      v.push_back(static_cast<C>(std::clamp(std::round(x * 40), -127.0f, 127.0f)));
    return v;
  } else {
    return normal<C>(count, seed);
  }
}

template <class C> struct DecodeMemory {
  DecodeShape s;
  std::vector<bf16> hostQ;
  std::vector<C> hostK, hostV;
  std::vector<i32> order;
  std::vector<Buffer<bf16>> q, o;
  std::vector<Buffer<C>> k, v;
  std::vector<Buffer<i32>> table, lengths;
  std::vector<Buffer<f32>> parts, partLse, lse, factor;
  std::vector<std::int64_t> starts;
  std::vector<double> want;
};

constexpr std::int64_t mostShares = 8;

/// `shares` is set by hand in Config as every number is.
template <class C> Row decodeRow(const Stream &stream, DecodeShape s) {
  constexpr int sets = 2;
  auto m = std::make_shared<DecodeMemory<C>>();
  m->s = s;
  const std::int64_t perSequence = s.S / s.page, pages = s.B * perSequence, G = s.H / s.HK;
  const auto [SQ, columns] = sample::rowsOf(1, static_cast<int>(G));
  const std::int64_t rows = SQ * columns;
  m->hostQ = normal<bf16>(s.B * s.H * s.D, 21);
  m->hostK = cacheNumbers<C>(s.B * s.HK * s.S * s.D, 22);
  m->hostV = cacheNumbers<C>(s.B * s.HK * s.S * s.D, 23);
  for (std::int64_t i = 0; i < pages; ++i)
    m->order.push_back(static_cast<i32>(i));
  std::shuffle(m->order.begin(), m->order.end(), std::mt19937(3));
  m->q = copies(stream, m->hostQ, sets);
  m->k = copies(stream, m->hostK, sets);
  m->v = copies(stream, m->hostV, sets);
  m->table = copies(stream, m->order, 1);
  m->lengths = copies(stream, std::vector<i32>(static_cast<std::size_t>(s.B), static_cast<i32>(s.S)), 1);
  m->factor = copies(stream, std::vector<f32>{factorOf<C>}, 1);
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
      [&](auto r, auto j, auto x) { return double(m->hostK[at(r, j, x)]) * double(factorOf<C>); },
      [&](auto r, auto j, auto x) { return double(m->hostV[at(r, j, x)]) * double(factorOf<C>); },
      [&](auto) { return s.S; }, [](auto, auto, double score) { return score; });
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
          Tensor<const C, 4>(m->k[i].data(), dims, strides),
          Tensor<const C, 4>(m->v[i].data(), dims, strides),
          Tensor<const i32, 2>(m->table[0].data(), {s.B, s.S / s.page}), m->lengths[0], factors, factors,
          parts, partLse, static_cast<float>(1 / std::sqrt(double(s.D))), 1, static_cast<i32>(G));
    };
    const bool isWhole = s.page % *config.get("BN") == 0 || s.page == s.S;
    const Prepared share = isWhole ? prepared(sample::decodeShares<bf16, C, sample::Find::tiles>)
                                   : prepared(sample::decodeShares<bf16, C, sample::Find::keys>);
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

/// Caches of other types are no rows of the peers.
struct DecodeRows {
  std::string dtype;
  std::size_t elementBytes;
  std::vector<DecodeShape> shapes;
  Row (*make)(const Stream &, DecodeShape);
};
std::vector<DecodeRows> decodeRows(bool quick) {
  const std::vector<DecodeShape> some{{64, 32, 8, 8192, 128, 64, false}, {64, 32, 8, 8192, 128, 16, false}};
  return {{"bf16", 2, decodeShapes(quick), decodeRow<bf16>},
          {"fp8e4m3", 1, some, decodeRow<e4m3>},
          {"int8", 1, some, decodeRow<i8>}};
}

} // namespace

void decodeSuite(Gpu &gpu, Output &out, const Options &options) {
  SuiteRows rows(out, options);
  std::map<std::string, Measured> wide; // of caches of bf16
  for (const DecodeRows &kind : decodeRows(options.quick))
    for (const DecodeShape &s : kind.shapes)
      rows.each(s.op(), kind.dtype, s.str(), [&] {
        Case test;
        test.info = {
            .suite = "decode", .op = s.op(), .dtype = kind.dtype, .shape = s.str(), .notes = "both launches"};
        test.info.bytes = s.bytes(kind.elementBytes);
        test.tolerance = 1e-2;
        Measured mine{kind.make(gpu.stream(), s), {}};
        mine.best = measure(gpu, out, options, test, mine.row, decodeConfigs(options, s));
        const std::string key = s.op() + s.str();
        test.info.bytes = 0;
        if (kind.elementBytes == 2)
          wide[key] = std::move(mine);
        else if (auto other = wide.find(key); other != wide.end())
          compareTimes(gpu, out, options, test.info, other->second, mine, 1,
                       "time of a cache of bf16 over time");
      });
}

int decodeChecks(Output &out, SuiteRows &rows, const Stream &stream) {
  int checked = 0;
  for (const DecodeRows &kind : decodeRows(false))
    for (auto [page, isByToken] : {std::pair(16, false), {64, true}, {192, false}}) {
      const DecodeShape s{2, 8, 2, 192, 64, page, isByToken};
      rows.each(s.op(), kind.dtype, s.str(), [&] {
        checkRow(out, s.op() + " " + kind.dtype + " " + s.str(), kind.make(stream, s), stream, 1e-2);
        ++checked;
      });
    }
  return checked;
}

} // namespace bench
