// SPDX-License-Identifier: Apache-2.0
/// \file Variants of attention beside plain causal attention: no rows of the peers, but what a variant costs.
#include "tests/perf/BenchAttention.h"

#include "samples/07_attention/variants.h"

#include <functional>
#include <map>

namespace bench {
namespace {

using namespace sectile;

constexpr double none = -std::numeric_limits<double>::infinity();

/// bf16, [B, H, S, D], as many heads of keys as of queries.
struct VariantShape {
  std::int64_t B, H, S, D;
  std::string str() const { return fmt::format("B{}_H{}_HK{}_S{}_D{}", B, H, H, S, D); }
};

/// The tensors of all variants, of which each takes its own.
struct VariantMemory {
  VariantShape s;
  std::vector<bf16> hostQ, hostK, hostV;
  std::vector<Buffer<bf16>> q, k, v, o;
  std::vector<Buffer<f32>> lse, perHead;
  std::vector<Buffer<i32>> begins, counts, lists;
  std::vector<std::int64_t> starts;
  std::vector<double> want;
};

constexpr std::int64_t documentLength = 1024;
constexpr int blockLength = 128;
float slope(std::int64_t h) { return std::exp2(-static_cast<float>(h % 8 + 1)); }

/// One variant: its name, the part of all pairs that exist, its scores on the host, and its launch.
struct VariantKind {
  std::string name;
  std::function<double(const VariantShape &)> share;
  std::function<double(double s, std::int64_t h, std::int64_t q, std::int64_t k)> score;
  std::function<Prepared(VariantMemory &, const Config &, std::size_t set)> prepare;
  /// What its time is compared with: another kind, and by how much its time would be shorter or longer at the
  /// same speed.
  std::string beside = {};
  std::function<double(const VariantShape &)> expected = [](const VariantShape &) { return 1.0; };
};

template <auto variant, class... Extra>
Prepared prepared(VariantMemory &m, const Config &config, std::size_t set, Extra &...extra) {
  return sample::attention<bf16, variant>.with(config).prepare(
      m.q[set], m.k[set], m.v[set], m.o[set], m.lse[set], static_cast<float>(1 / std::sqrt(double(m.s.D))),
      extra...);
}

std::vector<VariantKind> variantKinds() {
  auto half = [](const VariantShape &) { return 0.5; };
  auto ofBlock = [](std::int64_t q) { return q / blockLength; };
  auto whole = [](const VariantShape &) { return 1.0; };
  // Of tiles of 128 x 128: those in which some query of a document sees some key.
  auto documentBlocks = [](const VariantShape &s) {
    const double perDocument = double(documentLength) / blockLength, documents = double(s.S) / documentLength;
    return documents * perDocument * (perDocument + 1) / 2 /
           ((double(s.S) / blockLength) * (double(s.S) / blockLength));
  };
  return {
      {"full", whole, [](double s, auto, auto, auto) { return s; },
       [](VariantMemory &m, const Config &c, std::size_t i) { return prepared<sample::Variant{}>(m, c, i); }},
      {"causal", half, [](double s, auto, auto q, auto k) { return k <= q ? s : none; },
       [](VariantMemory &m, const Config &c, std::size_t i) { return prepared<sample::causal>(m, c, i); }},
      {"alibi", half,
       [](double s, auto h, auto q, auto k) { return k <= q ? s + double(slope(h)) * double(k - q) : none; },
       [](VariantMemory &m, const Config &c, std::size_t i) {
         return prepared<sample::alibi>(m, c, i, m.perHead[0]);
       },
       "causal", whole},
      {"softcap", half, [](double s, auto, auto q, auto k) { return k <= q ? 30 * std::tanh(s / 30) : none; },
       [](VariantMemory &m, const Config &c, std::size_t i) {
         return prepared<sample::softcap<30>>(m, c, i);
       },
       "causal", whole},
      {"window1024", [](const VariantShape &s) { return 1024.0 / double(s.S); },
       [](double s, auto, auto q, auto k) { return k <= q && q - k < 1024 ? s : none; },
       [](VariantMemory &m, const Config &c, std::size_t i) {
         return prepared<sample::window<1024>>(m, c, i);
       },
       "causal", whole},
      {"documents1024", [](const VariantShape &s) { return 0.5 * documentLength / double(s.S); },
       [](double s, auto, auto q, auto k) {
         return k <= q && q / documentLength == k / documentLength ? s : none;
       },
       [](VariantMemory &m, const Config &c, std::size_t i) {
         return prepared<sample::documents>(m, c, i, m.begins[0], m.begins[0]);
       },
       "full", documentBlocks},
      // A block sees itself, the one before, and every eighth.
      {"blocks",
       [](const VariantShape &s) { return (s.S / blockLength / 8 + 2.0) / double(s.S / blockLength); },
       [ofBlock](double s, auto, auto q, auto k) {
         const std::int64_t a = ofBlock(q), b = ofBlock(k);
         return a == b || b == a - 1 || b % 8 == 0 ? s : none;
       },
       [](VariantMemory &m, const Config &c, std::size_t i) {
         return prepared<sample::blockMask<blockLength>>(m, c, i, m.counts[0], m.lists[0]);
       }}};
}

Row variantRow(const Stream &stream, const VariantKind &kind, VariantShape s) {
  constexpr int sets = 2;
  auto m = std::make_shared<VariantMemory>();
  m->s = s;
  const std::int64_t count = s.B * s.H * s.S * s.D, blocks = (s.S + blockLength - 1) / blockLength;
  m->hostQ = normal<bf16>(count, 31);
  m->hostK = normal<bf16>(count, 32);
  m->hostV = normal<bf16>(count, 33);
  auto tensors = [&](const std::vector<bf16> &host) {
    std::vector<Buffer<bf16>> all;
    for (int i = 0; i < sets; ++i)
      all.emplace_back(stream, s.B, s.H, s.S, s.D).copyFrom(host);
    return all;
  };
  m->q = tensors(m->hostQ);
  m->k = tensors(m->hostK);
  m->v = tensors(m->hostV);
  for (int i = 0; i < sets; ++i) {
    m->o.emplace_back(stream, s.B, s.H, s.S, s.D);
    m->lse.emplace_back(stream, s.B, s.H, s.S);
  }
  std::vector<f32> slopes;
  for (std::int64_t h = 0; h < s.H; ++h)
    slopes.push_back(slope(h));
  m->perHead = copies(stream, slopes, 1);
  std::vector<i32> begins, counts, lists;
  for (std::int64_t i = 0; i < s.B * s.S; ++i)
    begins.push_back(static_cast<i32>(i % s.S / documentLength * documentLength));
  for (std::int64_t a = 0; a < blocks; ++a) {
    const std::size_t before = lists.size();
    for (std::int64_t b = 0; b < blocks; ++b)
      if (a == b || b == a - 1 || b % 8 == 0)
        lists.push_back(static_cast<i32>(b));
    counts.push_back(static_cast<i32>(lists.size() - before));
    lists.resize(static_cast<std::size_t>((a + 1) * blocks), -1);
  }
  m->begins.emplace_back(stream, s.B, s.S).copyFrom(begins);
  m->counts.emplace_back(stream, blocks).copyFrom(counts);
  m->lists.emplace_back(stream, blocks, blocks).copyFrom(lists);
  // Rows of the first and of the last head.
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;
  for (std::int64_t head : {std::int64_t(0), s.B * s.H - 1})
    for (std::int64_t i = 0; i<s.S; i += s.S> 4096 ? 61 : 13)
      rows.emplace_back(head, i);
  for (auto [head, i] : rows)
    m->starts.push_back((head * s.S + i) * s.D);
  auto head = [&](std::int64_t r) { return rows[static_cast<std::size_t>(r)].first; };
  m->want = references(
      static_cast<std::int64_t>(rows.size()), s.D, 1 / std::sqrt(double(s.D)),
      [&](auto r, auto x) {
        return double(m->hostQ[static_cast<std::size_t>(m->starts[static_cast<std::size_t>(r)] + x)]);
      },
      [&](auto r, auto j, auto x) {
        return double(m->hostK[static_cast<std::size_t>((head(r) * s.S + j) * s.D + x)]);
      },
      [&](auto r, auto j, auto x) {
        return double(m->hostV[static_cast<std::size_t>((head(r) * s.S + j) * s.D + x)]);
      },
      [&](auto) { return s.S; },
      [&](auto r, auto j, double score) {
        return kind.score(score, head(r) % s.H, rows[static_cast<std::size_t>(r)].second, j);
      });
  Row row;
  row.sets = sets;
  row.poison = [m] { m->o[0].fillBytes(0xFF); };
  row.error = [m](bool spoil) { return errorOf(m->o[0].toHost(), m->starts, m->s.D, m->want, spoil); };
  row.prepare = [m, kind](const Config &config, int set) -> Call {
    const Prepared call = kind.prepare(*m, config, static_cast<std::size_t>(set));
    return [call](const Stream &stream) { call(stream); };
  };
  return row;
}

/// The block mask has blocks of 128, which tiles divide.
std::vector<Config> variantConfigs(const Options &options) {
  std::vector<Config> all;
  for (const std::string &text : options.configs)
    all.push_back(parseConfig(text));
  if (!all.empty())
    return all;
  all.emplace_back();
  for (auto [m, n, warps, stale] :
       {std::array{128, 128, 8, 1}, {128, 64, 8, 1}, {128, 64, 8, 0}, {64, 128, 4, 0}}) {
    Config config;
    config.set("BM", m).set("BN", n).set("stale", stale);
    config.warps = warps;
    all.push_back(config);
  }
  return all;
}

} // namespace

void variantRows(Gpu &gpu, Output &out, const Options &options, SuiteRows &rows) {
  for (const VariantShape &s : {VariantShape{2, 16, 8192, 128}, VariantShape{1, 16, 16384, 128}}) {
    if (options.quick && s.S != 8192)
      continue;
    std::map<std::string, Measured> others; // that some kind is compared with
    for (const VariantKind &kind : variantKinds())
      rows.each("attn_" + kind.name, "bf16", s.str(), [&] {
        Case test;
        test.info = {.suite = "attention", .op = "attn_" + kind.name, .dtype = "bf16", .shape = s.str()};
        test.info.flops = 4.0 * double(s.B * s.H) * double(s.S) * double(s.S) * double(s.D) * kind.share(s);
        test.tolerance = 1.2e-2;
        Measured mine{variantRow(gpu.stream(), kind, s), {}};
        mine.best = measure(gpu, out, options, test, mine.row, variantConfigs(options));
        if (auto other = others.find(kind.beside); other != others.end()) {
          const double expected = kind.expected(s);
          test.info.flops = 0;
          compareTimes(
              gpu, out, options, test.info, mine, other->second, 1 / expected,
              expected == 1
                  ? fmt::format("time over that of attn_{}", kind.beside)
                  : fmt::format("time over {:.5f} of that of attn_{}, the share of blocks that have pairs",
                                expected, kind.beside));
        }
        if (kind.name == "full" || kind.name == "causal")
          others[kind.name] = std::move(mine);
      });
  }
}

int variantChecks(Output &out, SuiteRows &rows, const Stream &stream) {
  int checked = 0;
  const VariantShape s{1, 2, 1280, 16};
  for (const VariantKind &kind : variantKinds())
    rows.each("attn_" + kind.name, "bf16", s.str(), [&] {
      checkRow(out, "attn_" + kind.name + " " + s.str(), variantRow(stream, kind, s), stream, 1.2e-2);
      ++checked;
    });
  return checked;
}

} // namespace bench
