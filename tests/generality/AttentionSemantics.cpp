// SPDX-License-Identifier: Apache-2.0
/// \file What attention gives where scores are infinite, not a number, huge or absent.
#include "tests/generality/Attention.h"

using namespace generality;
using sample::Variant;

namespace {

constexpr std::int64_t S = 70, d = 16;

/// One head whose scores are chosen: Q has a 1 in element 0, and K's element 0 is the score of each key.
/// Values are the numbers of the keys in element 0, a third of them in element 1, and 1 in element 2.
template <class T, auto variant = Variant{}, class... Extra>
void chosenScores(Run &run, const std::vector<float> &scores, const Host &host, const Extra &...extra) {
  const auto keys = static_cast<std::int64_t>(scores.size());
  for (int stale : {0, 1}) {
    Guarded<T> Q(run, make<T>(S * d, [](auto i) { return i % d == 0; })),
        K(run, make<T>(keys * d, [&](auto i) { return i % d ? 0.0 : double(scores[std::size_t(i / d)]); })),
        V(run, make<T>(keys * d, [](auto i) {
            return i % d == 0 ? double(i / d) : i % d == 1 ? double(i / d) / 3 : i % d == 2 ? 1.0 : 0.0;
          }));
    const std::vector<T> k = K.get(), v = V.get();
    Guarded<f32> O(run, S * d), Lse(run, S);
    Problem p;
    p.BM = 64;
    p.BN = 32;
    p.stale = stale;
    launchWith(run, sample::attention<T, variant, Align::start, f32>, configOf(p), 0, Q.view(1, 1, S, d),
               K.view(1, 1, keys, d), V.view(1, 1, keys, d), O.view(1, 1, S, d), Lse.view(1, 1, S), 1.0f,
               extra...);
    const std::vector<f32> o = O.get(), lse = Lse.get();
    run.check(O.guardsHold() && Lse.guardsHold(), "guard bytes were written");
    for (std::int64_t i = 0; i < S; ++i) {
      auto score = [&](double s, std::int64_t j) { return host.score(s, 0, 0, i, j); };
      auto weight = [](std::int64_t) { return 1.0; };
      const sample::HostVariant<decltype(score), decltype(weight)> onHost{score, weight, sample::rounding<T>};
      auto want = sample::attentionRow(
          keys, d, d, 1, [](auto x) { return x == 0 ? 1.0 : 0.0; },
          [&](auto j, auto x) { return double(k[std::size_t(j * d + x)]); },
          [&](auto j, auto x) { return double(v[std::size_t(j * d + x)]); }, onHost);
      compareRow<f32>(
          run, want, 1, [&](auto x) { return double(o[std::size_t(i * d + x)]); }, lse[std::size_t(i)],
          fmt::format("{} maximum, query {}", stale ? "stale" : "exact", i));
    }
  }
}

std::vector<float> scoresOf(std::int64_t keys, float common) {
  return std::vector<float>(std::size_t(keys), common);
}

/// The same number of every row.
template <class T> void everyRow(Run &run, std::vector<float> scores, double want, double wantLse) {
  const auto keys = static_cast<std::int64_t>(scores.size());
  for (int stale : {0, 1}) {
    Guarded<T> Q(run, make<T>(S * d, [](auto i) { return i % d == 0; })),
        K(run, make<T>(keys * d, [&](auto i) { return i % d ? 0.0 : double(scores[std::size_t(i / d)]); })),
        V(run, std::vector<T>(std::size_t(keys * d), number<T>(3)));
    Guarded<f32> O(run, S * d), Lse(run, S);
    Problem p;
    p.BM = 64;
    p.BN = 32;
    p.stale = stale;
    launchWith(run, sample::attention<T, Variant{}, Align::start, f32>, configOf(p), 0, Q.view(1, 1, S, d),
               K.view(1, 1, keys, d), V.view(1, 1, keys, d), O.view(1, 1, S, d), Lse.view(1, 1, S), 1.0f);
    run.same(O.get(), std::vector<f32>(std::size_t(S * d), f32(want)), stale ? "stale O" : "O");
    run.same(Lse.get(), std::vector<f32>(std::size_t(S), f32(wantLse)), stale ? "stale Lse" : "Lse");
  }
}

} // namespace

SECTILE_CASE("attention/scores/equal") { chosenScores<f16>(run, scoresOf(65, 0), {}); }
SECTILE_CASE("attention/scores/huge") { // differences far beyond what exp can hold, in every order of blocks
  std::vector<float> up, down;
  for (int j = 0; j < 100; ++j)
    up.push_back(float(j) * 512);
  down.assign(up.rbegin(), up.rend());
  chosenScores<bf16>(run, up, {});
  chosenScores<bf16>(run, down, {});
}
SECTILE_CASE("attention/scores/steps") { // each block is larger than a stale maximum allows, or just not
  for (float step : {10.0f, 16.0f, 17.0f, 80.0f}) {
    std::vector<float> scores;
    for (int j = 0; j < 130; ++j)
      scores.push_back(step * float(j / 32) + 0.25f * float(j % 7));
    chosenScores<bf16>(run, scores, {});
    chosenScores<f16>(run, scores, {});
  }
}
SECTILE_CASE("attention/scores/very_low") { // all of them: only differences count
  chosenScores<bf16>(run, scoresOf(40, -1e9f), {});
  std::vector<float> scores = scoresOf(70, -30000);
  scores[69] = -29998;
  chosenScores<bf16>(run, scores, {});
}
SECTILE_CASE("attention/scores/lowest") { // masks that add the lowest number, in rows where all keys have it, and where some have
  for (float score : {-3e9f, -3e37f, -3.3e38f, 3e9f, 3e37f, 3.3e38f})
    chosenScores<bf16>(run, scoresOf(70, score), {});
  std::vector<float> scores = scoresOf(70, -3.3e38f);
  scores[50] = 2; // seen alone
  chosenScores<bf16>(run, scores, {});
  scores = scoresOf(70, -2e38f);
  scores[40] = scores[3] = -1e38f;
  chosenScores<bf16>(run, scores, {});
  scores = scoresOf(70, 1);
  scores[60] = 3e38f;
  chosenScores<bf16>(run, scores, {});
}
SECTILE_CASE("attention/scores/minus_infinity_by_mask") { // some keys are seen by no query
  Host host;
  host.score = [](double s, auto, auto, auto, auto k) { return k % 3 == 1 || k < 33 ? noScore : s; };
  static constexpr Variant sparse{.mask = [](At a) { return (a.k % 3 != 1) & (a.k >= 33); }};
  std::vector<float> scores;
  for (int j = 0; j < 100; ++j)
    scores.push_back(float(j % 11));
  chosenScores<bf16, sparse>(run, scores, host);
}
SECTILE_CASE("attention/scores/minus_infinity_by_score") { // like keys that do not exist
  Host host;
  host.score = [](double s, auto, auto, auto, auto k) { return k < 40 ? noScore : s; };
  static constexpr Variant late{
      .score = [](Tile s, At a) { return select(a.k < 40, -std::numeric_limits<float>::infinity(), s); }};
  chosenScores<bf16, late>(run, scoresOf(70, 2), host);
}
SECTILE_CASE("attention/scores/all_minus_infinity") {
  static constexpr Variant none{
      .score = [](Tile s, At) { return s * 0.0f - std::numeric_limits<float>::infinity(); }};
  Host host;
  host.score = [](double, auto, auto, auto, auto) { return noScore; };
  chosenScores<bf16, none>(run, scoresOf(70, 2), host);
}
SECTILE_CASE("attention/scores/nan") {
  std::vector<float> scores = scoresOf(70, 1);
  scores[50] = qnan;
  everyRow<bf16>(run, scores, qnan, qnan);
  everyRow<f16>(run, scores, qnan, qnan);
}
SECTILE_CASE("attention/scores/infinity") {
  std::vector<float> scores = scoresOf(70, 1);
  scores[3] = inf;
  everyRow<bf16>(run, scores, qnan, qnan);
  everyRow<f16>(run, scores, qnan, qnan);
}
SECTILE_CASE("attention/scores/no_keys") { everyRow<bf16>(run, {}, 0, noScore); }
