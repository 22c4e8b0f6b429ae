// SPDX-License-Identifier: Apache-2.0
/// \file Every variant of attention from the one kernel, against the reference in double.
#include "tests/generality/Attention.h"

using namespace generality;
using sample::Variant;

namespace {

/// Small on the interpreter and the executor; with several tiles of queries and keys, and tails of both.
Problem usual(Run &run, std::int64_t small = 150) {
  Problem p;
  p.B = 2;
  p.Sq = p.Sk = size(run, small, 1000);
  if (!isReal(run)) {
    p.BM = 64;
    p.BN = 32;
  }
  return p;
}

Guarded<f32> perHead(Run &run, const std::vector<float> &values) {
  return Guarded<f32>(run, std::vector<f32>(values.begin(), values.end()));
}

/// The words of Philox 4x32-10.
std::uint32_t philoxWord(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t low = std::uint64_t(c[0]) * 0xD2511F53u, high = std::uint64_t(c[2]) * 0xCD9E8D57u;
    c = {std::uint32_t(high >> 32) ^ c[1] ^ key[0], std::uint32_t(high),
         std::uint32_t(low >> 32) ^ c[3] ^ key[1], std::uint32_t(low)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c[0];
}

} // namespace

SECTILE_CASE("attention/full/bf16") { variantCase<bf16>(run, usual(run), {}); }
SECTILE_CASE("attention/full/f16") { variantCase<f16>(run, usual(run), {}); }
SECTILE_CASE("attention/causal/start") { variantCase<bf16, sample::causal>(run, usual(run), causalHost()); }
SECTILE_CASE("attention/causal/end/fewer_queries") {
  Problem p = usual(run);
  p.Sq = p.Sk / 3;
  variantCase<bf16, sample::causal, Align::end>(run, p, causalHost());
}
SECTILE_CASE("attention/causal/end/more_queries") { // the first queries have no key
  Problem p = usual(run);
  p.Sk = p.Sq / 2 + 3;
  variantCase<f16, sample::causal, Align::end>(run, p, causalHost());
}
SECTILE_CASE("attention/window") {
  Host host;
  host.score = [](double s, auto, auto, auto q, auto k) { return k <= q && q - k < 40 ? s : noScore; };
  variantCase<bf16, sample::window<40>>(run, usual(run), host);
}
SECTILE_CASE("attention/window/one") { // each query sees itself alone
  Host host;
  host.score = [](double s, auto, auto, auto q, auto k) { return k == q ? s : noScore; };
  variantCase<bf16, sample::window<1>>(run, usual(run), host);
}
SECTILE_CASE("attention/softcap") {
  Host host;
  host.score = [](double s, auto, auto, auto q, auto k) { return k <= q ? 30 * std::tanh(s / 30) : noScore; };
  Problem p = usual(run);
  p.size = 20; // most scores feel the cap
  variantCase<bf16, sample::softcap<30>>(run, p, host);
}
SECTILE_CASE("attention/sinks") {
  Guarded<f32> sinks = perHead(run, {0.7f, 5.5f});
  Host host = causalHost();
  host.sink = [](auto h) { return h ? 5.5 : double(0.7f); };
  variantCase<bf16, sample::sinks>(run, usual(run), host, sinks.view(2));
}
SECTILE_CASE("attention/alibi") {
  Guarded<f32> slopes = perHead(run, {0.5f, 0.03125f});
  Host host;
  host.score = [](double s, auto, auto h, auto q, auto k) {
    return k <= q ? s + (h ? 0.03125 : 0.5) * double(k - q) : noScore;
  };
  variantCase<bf16, sample::alibi>(run, usual(run), host, slopes.view(2));
}
SECTILE_CASE("attention/alibi/end") { // the same lines, where the last query is at the last key
  Guarded<f32> slopes = perHead(run, {0.5f, 0.03125f});
  Host host;
  host.score = [](double s, auto, auto h, auto q, auto k) {
    return k <= q ? s + (h ? 0.03125 : 0.5) * double(k - q) : noScore;
  };
  Problem p = usual(run);
  p.Sq = 33;
  variantCase<bf16, sample::alibi, Align::end>(run, p, host, slopes.view(2));
}
SECTILE_CASE("attention/bias") { // one for all batches
  const Problem p = usual(run);
  const std::vector<bf16> values = normal<bf16>(p.H * p.Sq * p.Sk, 9);
  Guarded<bf16> bias(run, values);
  Host host;
  host.score = [&](double s, auto, auto h, auto q, auto k) {
    return s + double(values[std::size_t((h * p.Sq + q) * p.Sk + k)]);
  };
  variantCase<bf16, sample::bias<bf16>>(
      run, p, host, Tensor<const bf16, 4>(bias.data(), {p.B, p.H, p.Sq, p.Sk}, {0, p.Sq * p.Sk, p.Sk, 1}));
}
SECTILE_CASE("attention/documents") {
  const Problem p = usual(run);
  std::vector<i32> begins;
  for (std::int64_t b = 0; b < p.B; ++b)
    for (std::int64_t i = 0, begin = 0; i < p.Sk; ++i) {
      if (i % (b ? 37 : 64) == 0) // some documents end where tiles do
        begin = i;
      begins.push_back(static_cast<i32>(begin));
    }
  Guarded<i32> first(run, begins);
  Host host;
  host.score = [&](double s, auto b, auto, auto q, auto k) {
    return k <= q && k >= begins[std::size_t(b * p.Sk + q)] ? s : noScore;
  };
  variantCase<bf16, sample::documents>(run, p, host, first.view(p.B, p.Sk), first.view(p.B, p.Sk));
}
SECTILE_CASE("attention/document_ids") { // positions of three documents by turns, in runs
  const Problem p = usual(run);
  const std::vector<i32> ids = make<i32>(p.B * p.Sk, [&](auto i) { return i / (i < p.Sk ? 16 : 5) % 3; });
  Guarded<i32> document(run, ids);
  Host host;
  host.score = [&](double s, auto b, auto, auto q, auto k) {
    return k <= q && ids[std::size_t(b * p.Sk + q)] == ids[std::size_t(b * p.Sk + k)] ? s : noScore;
  };
  variantCase<bf16, sample::documentIds>(run, p, host, document.view(p.B, p.Sk));
}
SECTILE_CASE("attention/prefixes") {
  const Problem p = usual(run);
  Guarded<i32> prefix(run, std::vector<i32>{0, 70});
  Host host;
  host.score = [](double s, auto b, auto, auto q, auto k) {
    return k <= q || k < (b ? 70 : 0) ? s : noScore;
  };
  variantCase<bf16, sample::prefixes>(run, p, host, prefix.view(2), prefix.view(2));
}
SECTILE_CASE("attention/block_mask") {
  constexpr int block = 64;
  Problem p = usual(run);
  p.Sq = 5 * block - 7;
  p.Sk = 4 * block;
  if (isReal(run))
    p.BM = p.BN = block;
  // Rows of blocks with one, no, all, two, one.
  const std::vector<std::vector<i32>> seen{{2}, {}, {0, 1, 2, 3}, {3, 1}, {0}};
  std::vector<i32> counts, lists(20, -1);
  for (std::size_t r = 0; r < seen.size(); ++r) {
    counts.push_back(static_cast<i32>(seen[r].size()));
    std::copy(seen[r].begin(), seen[r].end(), lists.begin() + std::ptrdiff_t(4 * r));
  }
  Guarded<i32> count(run, counts), list(run, lists);
  Host host;
  host.score = [&](double s, auto, auto, auto q, auto k) {
    const auto &row = seen[std::size_t(q / block)];
    return std::find(row.begin(), row.end(), i32(k / block)) != row.end() ? s : noScore;
  };
  variantCase<bf16, sample::blockMask<block>>(run, p, host, count.view(5), list.view(5, 4));
}
SECTILE_CASE("attention/dropout") {
  const Problem p = usual(run, 80);
  const u32 below = 0x40000000; // a quarter is dropped
  Host host;
  host.weight = [&](auto b, auto h, auto q, auto k) {
    const std::uint32_t word =
        philoxWord({std::uint32_t(k), std::uint32_t(q), std::uint32_t(h), std::uint32_t(b)}, {17, 4242});
    return word < below ? 0.0 : 4.0 / 3;
  };
  variantCase<bf16, sample::dropout>(run, p, host, u32(17), u32(4242), below, 4.0f / 3);
  // Known answers: of zeros, and of ones everywhere.
  run.same(philoxWord({0, 0, 0, 0}, {0, 0}), 0x6627e8d5u, "Philox of zeros");
  run.same(philoxWord({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), 0x408f276du, "Philox of ones");
}
SECTILE_CASE("attention/e4m3/scales_per_head") {
  Guarded<f32> qk = perHead(run, {0.75f, 1.5f}), v = perHead(run, {2.0f, 0.125f});
  Host host;
  host.score = [](double s, auto, auto h, auto, auto) { return s * (h ? 1.5 : 0.75); };
  host.factor = [](auto h) { return h ? 0.125 : 2.0; };
  host.slope = 1.5;
  host.weightsUpTo = 256;
  variantCase<e4m3, sample::scaledHeads, Align::start, bf16>(run, usual(run), host, qk.view(2), v.view(2));
}
SECTILE_CASE("attention/e5m2") { // 8 bits without scales
  Problem p = usual(run);
  p.size = 0.5;
  variantCase<e5m2, Variant{}, Align::start, f16>(run, p, {});
}
SECTILE_CASE("attention/grouped/bshd") {
  Problem p = usual(run);
  p.H = 6;
  p.HK = 2;
  p.B = 1;
  p.orderQ = p.orderK = p.orderV = p.orderO = Order::bshd;
  variantCase<bf16, sample::causal>(run, p, causalHost());
}
SECTILE_CASE("attention/one_head_of_keys") {
  Problem p = usual(run);
  p.H = 3;
  p.HK = 1;
  variantCase<f16, sample::causal>(run, p, causalHost());
}
SECTILE_CASE("attention/groups/4") {
  Problem p = usual(run);
  p.H = 8;
  p.B = 1;
  groupedCase<bf16, sample::causal>(run, p, 4, causalHost());
}
SECTILE_CASE("attention/groups/3_bshd_end") { // rows of a head that is not there; fewer queries than keys
  Problem p = usual(run);
  p.H = 6;
  p.B = 1;
  p.Sq = p.Sk / 3;
  p.orderQ = p.orderK = p.orderV = p.orderO = Order::bshd;
  groupedCase<bf16, sample::causal, Align::end>(run, p, 4, causalHost());
}
SECTILE_CASE("attention/groups/one_head_of_keys") { // in two tiles of heads
  Problem p = usual(run, 90);
  p.H = 5;
  p.HK = 1;
  groupedCase<f16>(run, p, 4, {});
}
SECTILE_CASE("attention/groups/alibi") { // rows have slopes of their own
  Guarded<f32> slopes = perHead(run, {0.5f, 0.03125f, 0.25f, 0.125f});
  Problem p = usual(run);
  p.H = 4;
  Host host;
  host.score = [](double s, auto, auto h, auto q, auto k) {
    return k <= q ? s + std::array{0.5, 0.03125, 0.25, 0.125}[std::size_t(h)] * double(k - q) : noScore;
  };
  groupedCase<bf16, sample::alibi>(run, p, 2, host, slopes.view(4));
}
SECTILE_CASE("attention/groups/sinks") {
  Guarded<f32> sinks = perHead(run, {0.7f, 5.5f, -1.0f, 2.0f});
  Problem p = usual(run);
  p.H = 4;
  Host host = causalHost();
  host.sink = [](auto h) { return std::array{double(0.7f), 5.5, -1.0, 2.0}[std::size_t(h)]; };
  groupedCase<bf16, sample::sinks>(run, p, 2, host, sinks.view(4));
}

namespace {
/// One that nobody listed: queries look only at keys of their own colour, the nearer the better, and at no
/// other positions than multiples of a stride.
inline constexpr Variant coloured{
    .score = [](Tile s, At a,
                Scalar<f32> pull) { return s - pull * sqrt(cast<f32>(max(a.q - a.k, a.k - a.q))); },
    .mask =
        [](At a, Tensor<const u8, 2> colour, Const<i32> stride) {
          return (colour.at(a.b, a.q) == colour.at(a.b, a.k)) & (a.k % int(stride) == 0);
        }};
} // namespace
SECTILE_CASE("attention/unlisted") {
  const Problem p = usual(run);
  const std::vector<u8> colours = make<u8>(p.B * p.Sk, [](auto i) { return (i * i + i / 7) % 3; });
  Guarded<u8> colour(run, colours);
  Host host;
  host.score = [&](double s, auto b, auto, auto q, auto k) {
    return colours[std::size_t(b * p.Sk + q)] == colours[std::size_t(b * p.Sk + k)] && k % 2 == 0
               ? s - 0.25 * std::sqrt(double(std::abs(q - k)))
               : noScore;
  };
  variantCase<bf16, coloured>(run, p, host, 0.25f, colour.view(p.B, p.Sk), i32(2));
}
