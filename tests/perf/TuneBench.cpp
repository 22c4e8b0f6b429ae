// SPDX-License-Identifier: Apache-2.0
// `sectile-tune-bench`: how good and how quick the tuner is on a GPU. For every shape: a plain search, an exhaustive one over
// the same space, and both choices timed again by turns. One JSON object per line.
#include "tests/support/TuneKernels.h"

#include <sectile/Error.h>
#include <sectile/Timer.h>
#include <sectile/Tuner.h>
#include <sectile/sectile.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace sectile;

namespace {

constexpr auto &matmul = test::tunedMatmul<bf16>;
constexpr auto softmax = kernel("softmax", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4, 8, 16, 32, 3, 5, 6, 12}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = cast<f32>(X.load({r, 0}, {BR, BC})), e = exp(x - max(x, 1));
  Y.store({r, 0}, cast<bf16>(e / sum(e, 1)));
});
constexpr auto add = kernel("add", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> Y, Tensor<bf16, 2> Z, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4, 8, 16, 32}), BC = cfg.pick("BC", {1024, 256, 512, 2048, 4096, 128});
  auto [r, c] = grid(Z, {BR, BC});
  Z.store({r, c}, X.load({r, c}, {BR, BC}) + Y.load({r, c}, {BR, BC}));
});

struct Report {
  std::string out;
  std::FILE *file = nullptr;
  double worstRegret = 0, worstShare = 0;
  int failures = 0;
  void line(const nlohmann::ordered_json &j) {
    fmt::print("{}\n", j.dump());
    std::fflush(stdout);
    if (file)
      fmt::print(file, "{}\n", j.dump());
  }
};

/// One shape. `tune` searches with the options it is given.
template <class F> void compare(Report &report, const std::string &kernelName, const std::string &shape, const TuneOptions &space, double seconds, int repeats, F tune) {
  try {
    TuneOptions quick = space;
    quick.seconds = seconds;
    quick.again = true;
    quick.store = false;
    std::map<std::string, int> winners;
    TuneResult chosen = tune(quick);
    ++winners[chosen.text];
    for (int i = 1; i < repeats; ++i)
      ++winners[tune(quick).text];

    TuneOptions all = quick;
    all.exhaustive = true;
    TuneResult best = tune(all);
    std::size_t measured = 0, possible = 0;
    for (const TunedCandidate &c : best.candidates) {
      measured += c.state == TunedCandidate::State::measured;
      possible += c.state != TunedCandidate::State::dropped || c.reason.starts_with("the same code");
    }
    // Both again, by turns.
    double chosenMicros = best.micros, bestMicros = best.micros;
    if (chosen.text != best.text) {
      TuneOptions two = all;
      two.verify = false;
      two.constraints.push_back({"one of the two", [&](const Config &c) {
                                   for (const Config *wanted : {&chosen.config, &best.config}) {
                                     bool same = c.warps == wanted->warps && c.stages == wanted->stages && c.cluster == wanted->cluster &&
                                                 c.raster == wanted->raster && c.split == wanted->split && c.blocks == wanted->blocks;
                                     for (const auto &[name, value] : wanted->values())
                                       same = same && c.get(name) == value.value;
                                     if (same)
                                       return true;
                                   }
                                   return false;
                                 }});
      TuneResult again = tune(two);
      for (const TunedCandidate &c : again.candidates) {
        if (c.text == chosen.text && c.micros > 0)
          chosenMicros = c.micros;
        if (c.text == best.text && c.micros > 0)
          bestMicros = c.micros;
      }
    }
    const double regret = std::max(0.0, chosenMicros / bestMicros - 1), share = static_cast<double>(chosen.compiled) / static_cast<double>(best.compiled);
    report.worstRegret = std::max(report.worstRegret, regret);
    report.worstShare = std::max(report.worstShare, share);
    nlohmann::ordered_json repeated = nlohmann::ordered_json::object();
    for (const auto &[text, count] : winners)
      repeated[text] = count;
    report.line({{"kernel", kernelName}, {"shape", shape}, {"device", chosen.device}, {"chosen", chosen.text}, {"chosen_us", chosenMicros},
                 {"best", best.text}, {"best_us", bestMicros}, {"default_us", best.defaultMicros}, {"bound_us", best.boundMicros},
                 {"regret", regret}, {"compiled", chosen.compiled}, {"compiled_exhaustive", best.compiled}, {"share", share},
                 {"candidates", possible}, {"measured", measured}, {"seconds", chosen.seconds}, {"exhaustive_seconds", best.seconds},
                 {"ended_by", chosen.endedBy}, {"noisy", chosen.noisy}, {"winners", repeated}});
  } catch (const UserError &e) {
    ++report.failures;
    report.line({{"kernel", kernelName}, {"shape", shape}, {"error", e.what()}});
  }
}

/// A plain launch, whose picks the cost model chooses, beside the first values, by turns: medians in microseconds.
void comparePlain(Report &report, std::int64_t m, std::int64_t n, std::int64_t k) {
  const Stream stream = Device::gpu(0).stream();
  Buffer<bf16> a(stream, m, k), b(stream, k, n), c(stream, m, n), flush(stream, std::int64_t(64) << 20);
  a.fillBytes(0);
  b.fillBytes(0);
  Timer timer(stream);
  auto time = [&](auto launch) {
    flush.fillBytes(0); // twice the L2 cache
    timer.start();
    launch();
    timer.stop();
    return timer.micros();
  };
  const auto first = matmul.with(Config());
  std::vector<double> plain, byHand;
  for (int i = 0; i < 25; ++i) {
    plain.push_back(time([&] { matmul(stream, a, b, c); }));
    byHand.push_back(time([&] { first(stream, a, b, c); }));
  }
  auto median = [](std::vector<double> v) {
    v.erase(v.begin(), v.begin() + 4); // compiles, cold clocks
    std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  report.line({{"plain", fmt::format("{}x{}x{}", m, n, k)}, {"model_us", median(plain)}, {"first_us", median(byHand)}, {"speedup", median(byHand) / median(plain)}});
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Measures the tuner: regret against an exhaustive search, share of its compiles, seconds, stability"};
  double seconds = 1.5;
  int repeats = 1;
  std::vector<std::string> only;
  std::string out, device;
  bool table = false, noVerify = false, plain = false;
  app.add_option("--seconds", seconds, "Budget of a search")->capture_default_str();
  app.add_option("--repeats", repeats, "Searches per shape, whose winners are counted")->check(CLI::Range(1, 100))->capture_default_str();
  app.add_option("--only", only, "Parts of names: matmul:4096, softmax ..")->delimiter(',');
  app.add_option("--out", out, "File for the lines")->type_name("FILE");
  app.add_flag("--table", table, "One search of matmul 4096 cubed in bf16, with its table, and nothing else");
  app.add_flag("--no-verify", noVerify, "With --table: results are not compared");
  app.add_flag("--plain", plain, "Plain launches, with the cost model's choice, beside the first values, and nothing else");
  CLI11_PARSE(app, argc, argv);

  auto product = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return [=](const TuneOptions &o) {
      return tune(matmul, o, Tensor<const bf16, 2>(nullptr, {m, k}), Tensor<const bf16, 2>(nullptr, {k, n}), Tensor<bf16, 2>(nullptr, {m, n}));
    };
  };
  try {
    if (table) {
      TuneResult r = product(4096, 4096, 4096)({.seconds = seconds, .verify = !noVerify, .again = true, .store = false});
      fmt::print("{}{:.2f} us, {:.0f} TFLOP/s, {:.2f} s, {} compiled, ended by {}{}\n", r.table(30), r.micros, 2.0 * 4096 * 4096 * 4096 / r.micros * 1e-6,
                 r.seconds, r.compiled, r.endedBy, r.noisy ? ", NOISY" : "");
      return 0;
    }
    Report report;
    if (plain) {
      for (auto [m, n, k] : {std::array<std::int64_t, 3>{4096, 4096, 4096}, {2048, 2048, 2048}, {1024, 1024, 1024}, {1000, 1000, 1000}, {512, 4096, 4096}, {512, 512, 512},
                             {64, 4096, 4096}, {16, 4096, 4096}, {4096, 64, 4096}, {256, 256, 4096}, {128, 128, 16384}})
        comparePlain(report, m, n, k);
      return 0;
    }
    if (!out.empty() && !(report.file = std::fopen(out.c_str(), "a"))) {
      fmt::print(stderr, "{} cannot be written\n", out);
      return 1;
    }
    auto wanted = [&](const std::string &name) {
      return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string &part) { return name.find(part) != std::string::npos; });
    };
    TuneOptions products;
    products.only = {{"warps", {0, 4, 8}}, {"stages", {0, 3}}, {"raster", {0}}, {"split", {0}}, {"blocks", {0, 2}}};
    constexpr std::int64_t shapes[][3] = {{4096, 4096, 4096}, {8192, 8192, 8192}, {2048, 2048, 2048}, {1024, 1024, 1024}, {1000, 1000, 1000}, {4096, 4096, 1024},
                                          {2048, 8192, 4096}, {8192, 1024, 2048}, {3072, 4096, 6144}, {4096, 11008, 4096}, {2304, 2560, 4096}, {512, 4096, 4096}};
    for (const auto &[m, n, k] : shapes)
      if (const std::string shape = fmt::format("{}x{}x{}", m, n, k); wanted("matmul:" + shape))
        compare(report, "matmul", shape, products, seconds, repeats, product(m, n, k));
    constexpr std::int64_t rows[][2] = {{8192, 4096}, {16384, 1024}, {4096, 16384}};
    for (const auto &[r, c] : rows) {
      const std::string shape = fmt::format("{}x{}", r, c);
      const std::int64_t R = r, C = c;
      if (wanted("softmax:" + shape))
        compare(report, "softmax", shape, TuneOptions(), seconds, repeats, [=](const TuneOptions &o) {
          return tune(softmax, o, Tensor<const bf16, 2>(nullptr, {R, C}), Tensor<bf16, 2>(nullptr, {R, C}));
        });
      if (wanted("add:" + shape))
        compare(report, "add", shape, TuneOptions(), seconds, repeats, [=](const TuneOptions &o) {
          return tune(add, o, Tensor<const bf16, 2>(nullptr, {R, C}), Tensor<const bf16, 2>(nullptr, {R, C}), Tensor<bf16, 2>(nullptr, {R, C}));
        });
    }
    report.line({{"summary", true}, {"worst_regret", report.worstRegret}, {"worst_share", report.worstShare}, {"failures", report.failures}});
    if (report.file)
      std::fclose(report.file);
    return report.failures ? 1 : 0;
  } catch (const std::exception &e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
