// SPDX-License-Identifier: Apache-2.0
/// \file Random attention: shapes, variants, orders in memory, tiles and schedules from a seed. A case is a
/// group of seeds; on a GPU there are 1000 in all.
#include "tests/generality/Attention.h"

#include <random>

using namespace generality;
using sample::Variant;

namespace {

class Draw {
public:
  explicit Draw(std::uint64_t seed) : bits(seed * 0x9E3779B97F4A7C15ull + 1) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T> T of(std::initializer_list<T> list) { return list.begin()[below(std::ssize(list))]; }

private:
  std::mt19937_64 bits;
};

/// Mostly about tiles and their edges.
std::int64_t lengthOf(Draw &draw, bool isReal) {
  if (draw.chance(5))
    return draw.of<std::int64_t>({0, 1});
  if (draw.chance(40))
    return draw.of<std::int64_t>({1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129}) +
           (isReal ? draw.of<std::int64_t>({0, 128, 1024, 3968}) : 0);
  return 1 + draw.below(isReal ? 4097 : 140);
}

Problem randomProblem(Draw &draw, bool isReal) {
  Problem p;
  p.HK = draw.of<std::int64_t>({1, 1, 2, 3});
  p.H = p.HK * draw.of<std::int64_t>({1, 1, 2, 4});
  p.B = draw.of<std::int64_t>({1, 1, 2, 3});
  if (!isReal) // a few programs are enough there
    p.B = 1, p.H = p.HK * draw.of<std::int64_t>({1, 2}), p.HK = std::min<std::int64_t>(p.HK, p.H);
  if (p.H % p.HK)
    p.H = p.HK;
  p.Sq = std::max<std::int64_t>(1, lengthOf(draw, isReal));
  p.Sk = lengthOf(draw, isReal);
  p.d = draw.chance(70) ? draw.of<std::int64_t>({64, 128})
                        : draw.of<std::int64_t>({16, 24, 32, 40, 72, 80, 96, 100, 192, 256});
  p.dv = draw.chance(80) ? p.d : draw.of<std::int64_t>({16, 64, 80, 128});
  const std::int64_t widest = std::max(p.d, p.dv);
  if (draw.chance(30) && widest % 16 == 0)
    p.D = static_cast<int>(widest);
  auto order = [&] {
    return draw.chance(60) ? Order::bhsd : draw.of({Order::bshd, Order::bhds, Order::padded});
  };
  p.orderQ = order();
  p.orderK = order();
  p.orderV = order();
  p.orderO = order();
  p.size = draw.of({0.1, 1.0, 1.0, 8.0});
  // Tiles by hand where they fit everywhere.
  if (draw.chance(50) || !isReal) {
    p.BM = draw.of({16, 32, 64, 64, 128, 128});
    p.BN = widest > 128 ? draw.of({16, 32, 64}) : draw.of({16, 32, 64, 96, 128});
    // Rows that start anywhere are covered by wider tiles, for which the kernel has fewer keys.
    if (p.orderQ == Order::padded || p.orderK == Order::padded || p.orderV == Order::padded)
      p.BN = std::min(p.BN, 96);
    if (!isReal)
      p.BM = std::min(p.BM, 64), p.BN = std::min(p.BN, 64);
  }
  p.stale = draw.chance(50);
  if (draw.chance(25))
    p.schedule.stages = draw.of({1, 1, 2, 3});
  if (draw.chance(15))
    p.schedule.warps = draw.of({1, 2, 4, 8});
  for (int Config::*choice : {&Config::overlap, &Config::pingpong, &Config::multicast})
    if (draw.chance(25))
      p.schedule.*choice = draw.of({1, 2});
  p.rows = 40;
  return p;
}

std::string text(std::uint64_t seed, const Problem &p, const char *variant, const char *dtype) {
  return fmt::format("seed {}: {} {} B{} H{} HK{} {} x {} d{} dv{} orders {}{}{}{} {}", seed, variant, dtype,
                     p.B, p.H, p.HK, p.Sq, p.Sk, p.d, p.dv, int(p.orderQ), int(p.orderK), int(p.orderV),
                     int(p.orderO), configOf(p).str());
}

/// Whether the problem ran: a schedule by hand may be one that the target cannot have.
template <class T> bool runSeed(Run &run, std::uint64_t seed) {
  Draw draw(seed);
  const Problem p = randomProblem(draw, isReal(run));
  const int before = run.failures;
  const char *name = "";
  const Config &by = p.schedule;
  const bool byHand = p.BM || p.D || by.warps || by.stages || by.overlap || by.pingpong || by.multicast;
  try {
    switch (draw.below(8)) {
    case 0:
      name = "full";
      variantCase<T>(run, p, {});
      break;
    case 1:
      name = "full, aligned at the end";
      variantCase<T, Variant{}, Align::end>(run, p, {});
      break;
    case 2:
      name = "causal";
      variantCase<T, sample::causal>(run, p, causalHost());
      break;
    case 3:
      name = "causal, aligned at the end";
      variantCase<T, sample::causal, Align::end>(run, p, causalHost());
      break;
    case 4: {
      name = "window of 40";
      Host host;
      host.score = [](double s, auto, auto, auto q, auto k) { return k <= q && q - k < 40 ? s : noScore; };
      variantCase<T, sample::window<40>, Align::end>(run, p, host);
      break;
    }
    case 5: {
      name = "softcap";
      Host host;
      host.score = [](double s, auto, auto, auto q, auto k) {
        return k <= q ? 10 * std::tanh(s / 10) : noScore;
      };
      variantCase<T, sample::softcap<10>>(run, p, host);
      break;
    }
    default: {
      name = "sinks or alibi";
      std::vector<f32> values;
      for (std::int64_t h = 0; h < p.H; ++h)
        values.push_back(f32(draw.below(100)) / 64);
      Guarded<f32> perHead(run, values);
      Host host = causalHost();
      if (draw.chance(50)) {
        host.sink = [&](auto h) { return double(values[std::size_t(h)]); };
        variantCase<T, sample::sinks, Align::end>(run, p, host, perHead.view(p.H));
      } else {
        host.score = [&](double s, auto, auto h, auto q, auto k) {
          return k <= q ? s + double(values[std::size_t(h)]) * double(k - q) : noScore;
        };
        variantCase<T, sample::alibi, Align::end>(run, p, host, perHead.view(p.H));
      }
    }
    }
  } catch (const UserError &e) {
    if (!byHand || !(e.rule().starts_with("check_resources_") || e.rule() == "config_stages"))
      run.fail(text(seed, p, name, "") + ": " + e.what());
    return false;
  }
  if (run.failures > before)
    run.message =
        text(seed, p, name, sizeof(T) == 2 && std::is_same_v<T, f16> ? "f16" : "bf16") + ": " + run.message;
  return true;
}

void group(Run &run, std::uint64_t number) {
  if (!run.ptxFolder.empty() || reader())
    run.skip("random shapes are run, not looked at");
  const std::uint64_t count = run.isGpu() ? 50 : 3, first = 1000 * number;
  int ran = 0;
  for (std::uint64_t seed = first; seed < first + count && run.failures == 0; ++seed, run.beat())
    ran += number % 2 ? runSeed<f16>(run, seed) : runSeed<bf16>(run, seed);
  run.check(ran * 3 >= static_cast<int>(count), fmt::format("{} of {} problems ran", ran, count));
}

} // namespace

SECTILE_CASE("attention/random/00") { group(run, 0); }
SECTILE_CASE("attention/random/01") { group(run, 1); }
SECTILE_CASE("attention/random/02") { group(run, 2); }
SECTILE_CASE("attention/random/03") { group(run, 3); }
SECTILE_CASE("attention/random/04") { group(run, 4); }
SECTILE_CASE("attention/random/05") { group(run, 5); }
SECTILE_CASE("attention/random/06") { group(run, 6); }
SECTILE_CASE("attention/random/07") { group(run, 7); }
SECTILE_CASE("attention/random/08") { group(run, 8); }
SECTILE_CASE("attention/random/09") { group(run, 9); }
SECTILE_CASE("attention/random/10") { group(run, 10); }
SECTILE_CASE("attention/random/11") { group(run, 11); }
SECTILE_CASE("attention/random/12") { group(run, 12); }
SECTILE_CASE("attention/random/13") { group(run, 13); }
SECTILE_CASE("attention/random/14") { group(run, 14); }
SECTILE_CASE("attention/random/15") { group(run, 15); }
SECTILE_CASE("attention/random/16") { group(run, 16); }
SECTILE_CASE("attention/random/17") { group(run, 17); }
SECTILE_CASE("attention/random/18") { group(run, 18); }
SECTILE_CASE("attention/random/19") { group(run, 19); }
